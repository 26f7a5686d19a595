"""Facts of boxes that many readings share: each is read off one place, so that a new operation has one row in each.

An operation that a table lacks is one of which the fact is not known, and the answer says so: no monoid, no axis, no
reshape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from catdiag.category.index_maps import Reindex, View
from catdiag.category.ops import ARITHMETIC, REDUCTIONS, Box, Einsum, Map, Op, Operation, Reduce, Rename, op_fact
from catdiag.category.scalars import Cast, ScalarFunction


def scalar_function(op: Operation) -> ScalarFunction:
    """The scalar function of an elementwise operation; an empty string for other operations.

    >>> from catdiag.category.ops import Map, Rename
    >>> scalar_function(Map("exp")), scalar_function(Rename())
    ('exp', '')
    """
    return op.fn if isinstance(op, Map) else ""


def cast_dtype(op: Operation) -> str:
    """The element type that a cast gives; an empty string for what is no cast.

    >>> from catdiag.category.ops import Map
    >>> cast_dtype(Map(Cast("bf16"))), cast_dtype(Map("exp"))
    ('bf16', '')
    """
    fn = scalar_function(op)
    return fn.dtype if isinstance(fn, Cast) else ""


def new_names(op: Operation) -> dict[str, str]:
    """The new names that an operation gives axes, by the old ones.

    >>> from catdiag.category.ops import Rename
    >>> new_names(Rename((("q", "p"),)))
    {'q': 'p'}
    """
    return dict(op.pairs) if isinstance(op, Rename) else {}


def monoid_of(op: Operation) -> str:
    """The monoid by which an operation combines entries; an empty string if it combines none.

    >>> from catdiag.category.ops import Einsum, Map, Reduce
    >>> monoid_of(Reduce("max", "x")), monoid_of(Einsum()), monoid_of(Map("exp"))
    ('max', 'sum', '')
    """
    return op.monoid if isinstance(op, REDUCTIONS) else ""


def _unnamed_in_result(box: Box) -> tuple[str, ...]:
    left = box.cod[0].names
    return tuple(dict.fromkeys(n for ty in box.dom for n in ty.names if n not in left))


REDUCED_AXES: Mapping[type[Op], Callable[[Box], tuple[str, ...]]] = dict.fromkeys(REDUCTIONS, _unnamed_in_result)
"""The axes that a box combines entries along, by the class of its operation."""


def reduced_axes(box: Box) -> tuple[str, ...]:
    """The axes that a box combines entries along, in the order of its inputs; none for a box that combines none.

    >>> from catdiag.category.ops import einsum_box, reduce_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> X = ArrayType((Axis("q"), Axis("x")))
    >>> reduced_axes(reduce_box("max", "x", X)), reduced_axes(einsum_box([X, X], ["q", "x"]))
    (('x',), ())
    """
    row = op_fact(REDUCED_AXES, box.op)
    return row(box) if row is not None else ()


def contracts(box: Box) -> bool:
    """Whether a box is an einsum that sums over an axis."""
    return isinstance(box.op, Einsum) and bool(reduced_axes(box))


def elementwise(box: Box) -> bool:
    """Whether each entry of a box's result is computed from one entry of each input: a scalar function, or a product
    without summation. Such a result may be written over an input in place."""
    return isinstance(box.op, ARITHMETIC) and not reduced_axes(box)


def transposes(box: Box) -> bool:
    """Whether a box gives the entries of its input with the axes in another order, or under other names."""
    return isinstance(box.op, Rename) and len(box.dom[0].axes) == len(box.cod[0].axes)


def unit_axes(box: Box) -> tuple[str, ...]:
    """The axes of length 1 that a renaming adds; none where it adds others too, along which it repeats its input.

    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> x = Axis("x")
    >>> [unit_axes(Box(Rename(), Ty(ArrayType((x,))), Ty(ArrayType((Axis("q", n), x))))) for n in (1, 2)]
    [('q',), ()]
    """
    if not isinstance(box.op, Rename):
        return ()
    names = new_names(box.op)
    before = {names.get(name, name) for name in box.dom[0].names}
    added = [axis for axis in box.cod[0].axes if axis.name not in before]
    return tuple(axis.name for axis in added) if all(axis.size == 1 for axis in added) else ()


ORDERED_BY_INPUTS: Mapping[type[Op], bool] = dict.fromkeys((Map, Reduce), True)
"""Whether the axes of a result are in the order that they have in the inputs, whatever that is, by class."""


def ordered_by_inputs(box: Box) -> bool:
    """Whether the axes of a box's result are in the order that they have in its inputs."""
    return op_fact(ORDERED_BY_INPUTS, box.op) is not None


MOVED_AXES: Mapping[type[Op], Callable[[Any, str], bool]] = {
    Reindex: lambda op, axis: op.touches(axis),
    View: lambda op, axis: op.reads_at(axis),
}
"""Whether an index map reads or makes an axis at other positions than its own, by its class; a renaming does not."""


def moves_positions(op: Operation, axis: str) -> bool:
    """Whether an operation reads or makes an axis at other positions than its own (see `MOVED_AXES`)."""
    row = op_fact(MOVED_AXES, op)
    return row is not None and row(op, axis)


RESHAPES: Mapping[type[Op], Callable[[Any, Box], bool]] = {
    Rename: lambda op, box: transposes(box) or bool(unit_axes(box)),
    Reindex: lambda op, box: op.kind in ("split", "merge"),
}
"""When an index map gives each entry of its input once, by its class."""


def reverses(op: Operation) -> bool:
    """Whether an index map gives the entries of one array with whole axes in reverse order.

    >>> from catdiag.category.index_maps import Read, plus, times
    >>> from catdiag.category.types import Axis
    >>> i = ("i", "x")
    >>> [reverses(View((Axis("x", n),), (Read((("x", plus(times(-1, i), m)),)),))) for n, m in ((4, 3), (4, 4))]
    [True, False]
    """
    return isinstance(op, View) and op.reverses


def is_reshape(box: Box) -> bool:
    """Whether a box gives each entry of its input once, under other axes: a renaming or transposition, axes of length 1
    added, or a product axis split or merged.

    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> from catdiag.category.ops import Rename
    >>> q, x = Axis("q"), Axis("x")
    >>> [is_reshape(Box(Rename(), Ty(ArrayType((x,))), Ty(ArrayType(axes)))) for axes in ((x,), (q, x))]
    [True, False]
    """
    row = op_fact(RESHAPES, box.op)
    return row is not None and row(box.op, box)


STRICT: Mapping[type[Op], Callable[[Any], bool]] = {
    Map: lambda op: isinstance(op.fn, Cast) or (isinstance(op.fn, str) and op.fn != "where"),
    Einsum: lambda op: True,
    Reduce: lambda op: op.monoid == "sum",
    Rename: lambda op: True,
    Reindex: lambda op: op.kind in ("split", "merge"),
}
"""Which operations are known to be strict, by their class."""


def strict(box: Box) -> bool:
    """Whether the results of a box have values at all entries only where all entries of all its inputs have: functions
    and sums of these, and new names and shapes of axes; not a choice, which has no need of the branch not taken.

    >>> from catdiag.category.ops import map_box, reduce_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> X = ArrayType((Axis("q"), Axis("x")))
    >>> strict(map_box("exp", [X])), strict(map_box("where", [ArrayType(X.axes, "bool"), X, X]))
    (True, False)
    """
    row = op_fact(STRICT, box.op)
    return row is not None and row(box.op)
