"""Parts of arrays at fixed positions, as `unbind` gives: the launch passes them to kernels as arrays of their own.

So the copy engine reads them, and warp-specialized loops do, as they read other arrays.
"""

from __future__ import annotations

from collections.abc import Callable

from catdiag.category.types import Size
from catdiag.codegen.syntax import Name, Number, PythonExpression, TupleOf, method
from catdiag.codegen.triton.array_accesses import Arranged, Pull, Renamed, StoredArray, Viewed
from catdiag.schedule.array_views import picks_entries


def stored_part(pull: Pull) -> StoredArray | None:
    """The array in memory that a part at fixed positions is of, through transpositions and splits; None for others."""
    while not isinstance(pull, StoredArray):
        if isinstance(pull, Renamed):
            plain = not pull.units and len(pull.ty.axes) == len(pull.source.ty.axes)
        elif isinstance(pull, Arranged):
            plain = pull.op.kind == "split"
        else:
            plain = isinstance(pull, Viewed) and picks_entries(pull.op)
        if not plain:
            return None
        pull = _source(pull)
    return pull


def _source(pull: Pull) -> Pull:
    """What a part is made of: of axes that are split again, what was merged."""
    if isinstance(pull, Renamed):
        return pull.source
    (source,) = pull.sources  # type: ignore[attr-defined]
    return source.sources[0] if _splits_again(pull, source) else source  # type: ignore[no-any-return]


def _splits_again(pull: Pull, source: Pull) -> bool:
    both = isinstance(pull, Arranged) and isinstance(source, Arranged)
    return both and (pull.op.kind, source.op.kind, pull.op.axis) == ("split", "merge", source.op.axis)  # type: ignore[attr-defined]


def tensor_of(pull: Pull, size: Callable[[Size], PythonExpression]) -> PythonExpression:
    """A part of an array at fixed positions (`stored_part`) as an expression of tensors."""
    if isinstance(pull, StoredArray):
        return Name(pull.name)
    source = _source(pull)
    found, names = tensor_of(source, size), source.ty.names
    if isinstance(pull, Renamed):
        names = tuple(pull.pairs.get(name, name) for name in names)
    elif isinstance(pull, Arranged):
        axis = pull.op.axis
        if axis.name in names:  # it is not split again
            place = names.index(axis.name)
            found = method(found, "unflatten", Number(place), TupleOf(tuple(size(part.size) for part in axis.parts)))
            names = (*names[:place], *(part.name for part in axis.parts), *names[place + 1 :])
    else:
        at = dict(pull.op.reads[0].at)  # type: ignore[attr-defined]
        for name in reversed([name for name in names if name in at]):
            found = method(found, "select", Number(names.index(name)), Number(at[name]))
        names = tuple(name for name in names if name not in at)
    if names == pull.ty.names:
        return found
    return method(found, "permute", TupleOf(tuple(Number(names.index(name)) for name in pull.ty.names)))
