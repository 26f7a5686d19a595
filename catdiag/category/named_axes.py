"""The axes and sizes that operations name: over all other axes a box is mapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from catdiag.category import ops
from catdiag.category.index_maps import Reindex, View, leaves
from catdiag.category.ops import Box, op_fact, op_row
from catdiag.category.types import Axis, Size


def _none(op: ops.Op) -> frozenset[str]:
    return frozenset()


def with_parts(axis: Axis) -> Iterator[str]:
    """The name of an axis and those of its parts."""
    yield axis.name
    for part in axis.parts:
        yield from with_parts(part)


NAMED_AXES: Mapping[type[ops.Op], Callable[[Any], frozenset[str]]] = {
    ops.Map: _none,
    ops.Reduce: lambda op: frozenset((op.axis,)),
    ops.Einsum: _none,
    ops.Rename: lambda op: frozenset(name for pair in op.pairs for name in pair),
    Reindex: lambda op: frozenset(with_parts(op.axis)),
    View: lambda op: frozenset((*(a.name for a in op.index_axes), *(n for read in op.reads for n, _ in read.at))),
    ops.Index: lambda op: frozenset((op.axis,)),
    ops.SizeOf: _none,
    ops.Const: _none,
    ops.Call: _none,
    ops.Generic: _none,
    ops.FoldOp: lambda op: frozenset((op.axis,)),
    ops.GroupOp: lambda op: frozenset(axis for axis, _ in op.tiles),
}
"""The axes that an operation itself names, by class. What is in the bodies of an operation names axes of its own, and
of an uninterpreted box nothing is known."""


def named_axes(box: Box) -> frozenset[str]:
    """The axes that the operation of a box names (see `NAMED_AXES`).

    >>> from catdiag.category.ops import reduce_box
    >>> from catdiag.category.types import ArrayType
    >>> sorted(named_axes(reduce_box("max", "x", ArrayType((Axis("q"), Axis("x"))))))
    ['x']
    """
    return op_row(NAMED_AXES, box, "read")(box.op)


NAMED_SIZES: Mapping[type[ops.Op], Callable[[Any], list[Size]]] = {
    ops.SizeOf: lambda op: [op.size],
    Reindex: lambda op: [part.size for part in op.axis.parts],
    View: lambda op: [leaf for e in op.expressions() for leaf in leaves(e) if isinstance(leaf, str)],
}
"""The sizes that an operation itself names, by class; none for the others."""


def named_sizes(box: Box) -> list[Size]:
    """The sizes that the operation of a box names, beside those of the axes of its arrays.

    >>> from catdiag.category.ops import size_box
    >>> named_sizes(size_box("q"))
    ['q']
    """
    row = op_fact(NAMED_SIZES, box.op)
    return [] if row is None else row(box.op)
