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
        pull = pull.source if isinstance(pull, Renamed) else pull.sources[0]  # type: ignore[attr-defined]
    return pull


def tensor_of(pull: Pull, size: Callable[[Size], PythonExpression]) -> PythonExpression:
    """A part of an array at fixed positions (`array_accesses.stored_part`) as an expression of tensors."""
    if isinstance(pull, StoredArray):
        return Name(pull.name)
    (source,) = (pull.source,) if isinstance(pull, Renamed) else pull.sources  # type: ignore[attr-defined]
    found, names = tensor_of(source, size), source.ty.names
    if isinstance(pull, Renamed):
        before = {new: old for old, new in ((old, pull.pairs.get(old, old)) for old in names)}
        return method(found, "permute", TupleOf(tuple(Number(names.index(before[n])) for n in pull.ty.names)))
    if isinstance(pull, Arranged):
        parts = TupleOf(tuple(size(axis.size) for axis in pull.op.axis.parts))
        found = method(found, "unflatten", Number(names.index(pull.op.axis.name)), parts)
        place = names.index(pull.op.axis.name)
        names = (*names[:place], *(axis.name for axis in pull.op.axis.parts), *names[place + 1 :])
    else:
        at = dict(pull.op.reads[0].at)  # type: ignore[attr-defined]
        for name in reversed([name for name in names if name in at]):
            found = method(found, "select", Number(names.index(name)), Number(at[name]))
        names = tuple(name for name in names if name not in at)
    if names == pull.ty.names:
        return found
    return method(found, "permute", TupleOf(tuple(Number(names.index(name)) for name in pull.ty.names)))
