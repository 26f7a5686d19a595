"""Views of arrays: where each axis of an array in memory is read, along the axes of a wire that is a view of it.

An array lies in memory in the order of the axes of its type. A view of it has other axes, in another order: memory is
dense along the axis by which the array's last one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catdiag.category.diagram import Graph
from catdiag.category.graph import Operation
from catdiag.category.index_maps import Reindex, View, leaves
from catdiag.category.op_facts import new_names
from catdiag.category.ops import Box, Op, Reduce, Rename, op_row
from catdiag.category.types import Axis
from catdiag.schedule.live_ranges import is_view, view_roots


@dataclass(frozen=True)
class ViewedAxis:
    """An axis of an array, the axes of a view by which it is read, the outer ones first, and whether it is `shifted`:
    read from another place than its beginning on, or at a sum of indices."""

    axis: Axis
    read: tuple[str, ...]
    shifted: bool = False


@dataclass(frozen=True)
class ArrayView:
    """The array that a wire is a view of, the boxes between, the first one first, each with the further wires that it
    reads and the one that it makes, and the axes of the array in the order of memory."""

    wire: int
    boxes: tuple[tuple[Box, tuple[int, ...], int], ...]
    axes: tuple[ViewedAxis, ...]


def array_view(graph: Graph, wire: int, reshaped: bool = False) -> ArrayView:
    """Of which array a wire is a view. Boxes of a view may read numbers too, as beside an array that is filled up. With
    `reshaped`, it is the array after the transpositions, splits and merges that come before all else.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q (h d) -> d q h")(lambda A: cd.rearrange(A, "q (h d) -> d q h"))
    >>> [axis.read for axis in array_view(f.diagram.graph, f.diagram.graph.outputs[0]).axes]
    [('q',), ('h', 'd')]
    """
    maker, types = graph.makers(), graph.wire_types()
    boxes = list[tuple[Box, tuple[int, ...], int]]()
    while maker[wire] >= 0:
        node = graph.nodes[maker[wire]]
        first, *others = node.inputs or (-1,)
        if not (is_view(node.box) or isinstance(node.box.op, View)) or any(types[w].axes for w in others):
            break
        boxes.append((node.box, tuple(others), wire))
        wire = first
    while reshaped and boxes and is_view(boxes[-1][0]):
        wire = boxes.pop()[2]
    boxes.reverse()
    axes = tuple(ViewedAxis(axis, (axis.name,)) for axis in types[wire].axes)
    for box, *_ in boxes:
        axes = tuple(_after(box, axis) for axis in axes)
    return ArrayView(wire, tuple(boxes), axes)


def _after(box: Box, viewed: ViewedAxis) -> ViewedAxis:
    """How an axis of an array is read by a view of the view."""
    read, shifted = op_row(READ, box, "a view of an array in memory")(box.op, box, viewed)
    return replace(viewed, read=tuple(dict.fromkeys(read)), shifted=viewed.shifted or shifted)


def _by_reindexing(op: Reindex, box: Box, viewed: ViewedAxis) -> tuple[list[str], bool]:
    removed = {axis.name for axes in op.removed_axes() for axis in axes}
    added = [axis.name for axis in op.added_axes()]
    read = [name for old in viewed.read for name in (added if old in removed else [old])]
    return read, op.kind == "slice" and op.place > 0


def _by_view(op: View, box: Box, viewed: ViewedAxis) -> tuple[list[str], bool]:
    at, read, shifted = dict(op.reads[0].at), list[str](), False
    for name in viewed.read:
        expression = at.get(name, ("i", name))
        indices = [str(v[1]) for v in leaves(expression) if isinstance(v, tuple) and v[0] == "i"]
        shifted = shifted or expression != ("i", *indices)
        read += indices
    return read, shifted


def _by_renaming(op: Op, box: Box, viewed: ViewedAxis) -> tuple[list[str], bool]:
    names, left = new_names(op), box.cod[0].names
    return [name for old in viewed.read if (name := names.get(old, old)) in left], False


READ: Mapping[type[Op], Callable[[Any, Box, ViewedAxis], tuple[list[str], bool]]] = {
    Reindex: _by_reindexing,
    View: _by_view,
    Rename: _by_renaming,
    Reduce: _by_renaming,
}
"""By which axes a view reads an axis of an array, and whether it is shifted, by the class of the operation."""


def memory_order(graph: Graph, wire: int) -> tuple[str, ...]:
    """The axes of a wire in the order in which they change in memory, from one entry to the next the last one first;
    those along which the array is repeated come first.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q (h d) -> d q h")(lambda A: cd.rearrange(A, "q (h d) -> d q h"))
    >>> memory_order(f.diagram.graph, f.diagram.graph.outputs[0])
    ('q', 'h', 'd')
    """
    read = [name for axis in array_view(graph, wire).axes for name in axis.read]
    inner = list(dict.fromkeys(reversed(read)))[::-1]
    return (*(name for name in graph.wire_types()[wire].names if name not in inner), *inner)


def result_order(graph: Graph, wire: int) -> tuple[str, ...]:
    """The axes of a wire in the order of memory where the array is stored as a result that is a view of it, if there is
    one.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q x -> x q")(lambda A: cd.rearrange(cd.exp(A), "q x -> x q"))
    >>> result_order(f.diagram.graph, 1)
    ('x', 'q')
    """
    types, root = graph.wire_types(), view_roots(graph)
    stored = next((w for w in graph.outputs if root[w] == root[wire]), wire)
    view = array_view(graph, stored) if stored != wire else None
    if view is None or view.wire != wire:
        return types[wire].names
    order = [viewed.axis.name for name in types[stored].names for viewed in view.axes if name in viewed.read]
    inner = list(dict.fromkeys(reversed(order)))[::-1]
    return (*(name for name in types[wire].names if name not in inner), *inner)


def in_memory_order(axes: Sequence[Axis], order: Sequence[str]) -> tuple[Axis, ...]:
    """Axes in the order of memory."""
    return tuple(sorted(axes, key=lambda axis: order.index(axis.name) if axis.name in order else -1))


def picks_entries(op: Operation) -> bool:
    """Whether an operation gives the part of one array at fixed positions along some of its axes, as `unbind` does: a
    tensor with fewer strides and another first entry.

    >>> import catdiag as cd
    >>> f = cd.algorithm("q h=3 d")(lambda A: (cd.gather(A, "h", 1), cd.stride(A, "d", "e", 2)))
    >>> [picks_entries(box.op) for box in f.boxes]
    [True, False]
    """
    if not isinstance(op, View) or len(op.reads) != 1 or op.index_axes or op.fits or op.reads[0].where:
        return False
    places = [place for _, place in op.reads[0].at]
    return bool(places) and all(isinstance(place, int) and place >= 0 for place in places)
