"""Which types a box can have: those that follow from its operation, weaved or not; and renamings, which are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from catdiag.category.index_maps import Reindex, View
from catdiag.category.ops import (
    Box,
    Call,
    Const,
    Einsum,
    FoldOp,
    Generic,
    GroupOp,
    Index,
    Map,
    Reduce,
    Rename,
    SizeOf,
    replace_name,
)
from catdiag.category.scalars import Apply, signature
from catdiag.category.types import ArrayType, Axis, Ty, show_size, union
from catdiag.util.errors import AxisError, TypeMismatch

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram


def check_box(b: Box) -> None:
    """Raises TypeMismatch or AxisError unless the operation of a box can have its types, weaved or not.

    >>> X = Ty(ArrayType((Axis("x"),)))
    >>> check_box(Box(Reduce("sum", "x"), X, Ty(ArrayType())))
    >>> check_box(Box(Reduce("sum", "x"), X, X))
    Traceback (most recent call last):
    ...
    catdiag.util.errors.TypeMismatch: sum[x] from [x] cannot give [x]: expected the axes none, in any order
    ...

    The types of bodies are compared with those of the box; the bodies themselves are checked by
    `catdiag.category.diagram.check`.
    """
    op = b.op
    if isinstance(op, Generic):
        return
    if isinstance(op, Call):
        _expect(b, op.body.dom, op.body.cod)
    elif isinstance(op, GroupOp):
        tiles = dict(op.tiles)
        _expect(b, op.body.dom, op.body.cod, lambda ty: _local(ty, tiles))
    elif isinstance(op, FoldOp):
        _check_fold(b, op)
    else:
        _check_axes(b)


def _check_axes(b: Box) -> None:
    """Raises TypeMismatch or AxisError unless the axes of a box's output follow from its operation and its inputs."""
    op = b.op
    if len(b.cod) != 1:
        raise TypeMismatch(f"{b.name} has {len(b.cod)} outputs: expected one", b.line)
    arity: int | None = 0 if isinstance(op, (Index, SizeOf, Const)) else 1
    if isinstance(op, Map):
        arity = None if isinstance(op.fn, Apply) else signature(op.fn, b.line)[0]
    elif isinstance(op, (Einsum, Reindex, View)):
        arity = None
    if arity is not None and len(b.dom) != arity:
        raise TypeMismatch(f"{b.name} has {len(b.dom)} inputs: expected {arity}", b.line)
    if isinstance(op, (Reindex, View)):
        have = {a.name: a.size for a in (*op.rest(list(b.dom), b.line), *op.added_axes())}
    else:
        have = {a.name: a.size for a in union(list(b.dom), b.line)}
    out = {a.name: a.size for a in b.cod[0].axes}
    free = isinstance(op, (Rename, Index, SizeOf, Const))  # may have axes that no input has: a broadcast
    if isinstance(op, Reduce):
        if op.axis not in have:
            raise AxisError(f"{b.name} takes {b.dom}, which lacks axis {op.axis!r}", b.line)
        del have[op.axis]
    elif isinstance(op, Rename):
        pairs = dict(op.pairs)
        have = {pairs.get(name, name): size for name, size in have.items()}
    elif isinstance(op, Index):
        if op.axis not in out:
            raise AxisError(f"{b.name} gives {b.cod}, which lacks axis {op.axis!r}", b.line)
    elif isinstance(op, Einsum):
        have = {name: size for name, size in have.items() if name in out}
    shared_fit = all(out[name] == size for name, size in have.items() if name in out)
    if not shared_fit or have.keys() - out.keys() or (out.keys() - have.keys() and not free):
        wanted = " ".join(f"{n}:{show_size(s)}" if s != n else n for n, s in have.items()) or "none"
        raise TypeMismatch(
            f"{b.name} from {b.dom} cannot give {b.cod}: expected the axes {wanted}, "
            + ("in any order, and any new ones" if free else "in any order"),
            b.line,
        )


def _local(ty: Ty, sizes: Mapping[str, str]) -> Ty:
    """The object with the local sizes that the bodies of loops and groups see."""
    return Ty(*(ArrayType(tuple(Axis(a.name, sizes.get(a.name, a.size), a.kind, a.parts) for a in t.axes), t.element)
                for t in ty))  # fmt: skip


def _expect(b: Box, dom: Ty, cod: Ty, local: Callable[[Ty], Ty] = lambda ty: ty) -> None:
    if local(b.dom) != dom or local(b.cod) != cod:
        raise TypeMismatch(f"{b.name}: {local(b.dom)} → {local(b.cod)} has a body {dom} → {cod}", b.line)


def _check_fold(b: Box, op: FoldOp) -> None:
    """Raises TypeMismatch unless the bodies of a loop have the types that its box requires."""
    states, block = b.cod, _local(b.dom, {op.axis: op.block})
    expected = {"unit": Ty(), "step": states @ block, "merge": states @ states, "state": block}
    for part, dom in expected.items():
        body: Diagram = getattr(op, part)
        if body.dom != dom or body.cod != states:
            raise TypeMismatch(f"{b.name}: expected {part} to be {dom} → {states}, not {body.dom} → {body.cod}", b.line)
    if op.is_live is None and op.bounds is not None:
        raise TypeMismatch(f"{b.name} has bounds and no live: expected what is live between its bounds", b.line)
    for part, guide, element, count in (("bounds", op.bounds, "int", 2), ("live", op.is_live, "bool", 1)):
        if guide is None:
            continue
        typed = len(guide.cod) == count and all(ty.element == element for ty in guide.cod)
        whole = part == "bounds" and any(op.axis in ty.names for ty in guide.cod)
        if guide.dom != block or not typed or whole:
            given = f"integers lo and hi, free of axis {op.axis!r}" if count == 2 else "an array of truth values"
            raise TypeMismatch(
                f"{b.name}: expected {part} to take {block} and to give {given}, not {guide.dom} → {guide.cod}", b.line
            )


def rename_box(array: ArrayType, pairs: dict[str, str], layout: Sequence[Axis] | None = None) -> Box:
    """Axes of an array renamed (sizes stay), in a layout; the array is broadcast along axes that are new in the layout.

    >>> q, x = Axis("q"), Axis("x")
    >>> str(rename_box(ArrayType((q, x)), {"x": "y"}, [Axis("h"), Axis("y", "x"), q]).cod)
    '[h y q]'

    Raises AxisError for an axis that the array does not have, two axes of one name, and a layout that drops an axis or
    changes a size.
    """
    for old in pairs:
        if array.axis(old) is None:
            raise AxisError(f"cannot rename axis {old!r}: the array has {' '.join(array.names) or 'no axes'}")
    renamed = ArrayType(tuple(replace_name(a, pairs) for a in array.axes), array.element)
    out = renamed if layout is None else ArrayType(tuple(layout), array.element)
    box = Box(Rename(tuple(sorted(pairs.items()))), Ty(array), Ty(out))
    check_box(box)
    return box
