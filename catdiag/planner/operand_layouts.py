"""Copies of arrays with their axes in another order, for kernels of products that would read or write them entry by
entry.

Blocks of a matrix are read in rows of memory, along the last axis of an array. Nothing is a row where the last axis is
one of a batch of products, of which a tile has a single entry; where it is read at a sum of two indices, as windows
along rows are, which begin anywhere; and where it is too short. Such an array is copied first, with another axis of the
product last: an image of `n c h w` as `n h w c`. What makes it may be in the kernel of the copy, which then writes the
other order.

>>> import catdiag as cd
>>> update = cd.algorithm("i k c, j k c -> i j c")(lambda A, B: cd.einsum("i k c, j k c -> i j c", A, B))
>>> made = with_copies(update.diagram.graph, {"i": 64, "j": 64, "k": 64, "c": 32})
>>> [str(made.graph.nodes[place].box.cod) for place in sorted(made.copies)]
['[i c k]', '[j c k]', '[i j c]']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catdiag.category.diagram import Graph, Node, needed, reachable
from catdiag.category.graph_writer import GraphWriter
from catdiag.category.index_maps import Reindex, View
from catdiag.category.op_facts import elementwise, new_names, transposes
from catdiag.category.ops import Box, Op, Reduce, Rename, op_row, reduce_box, reindex_box
from catdiag.category.types import ArrayType, Axis, Ty, size_value
from catdiag.schedule.array_views import ArrayView, array_view, in_memory_order, memory_order
from catdiag.schedule.contractions import batch_axes, matrix_sides

ROW_ENTRIES, LONG_ROW_ENTRIES = 8, 64
"""Entries of 16 bits in the shortest row that is copied to shared memory as it lies, and in a line of memory."""


@dataclass(frozen=True)
class CopiedGraph:
    """A graph with copies of arrays, the places of these, and for its wires the wire of the graph without copies that
    carries the same, perhaps with its axes in another order; where the two graphs are one, none."""

    graph: Graph
    copies: frozenset[int] = frozenset()
    origin: Mapping[int, int] = field(default_factory=dict)


def with_copies(graph: Graph, sizes: Mapping[str, int]) -> CopiedGraph:
    """The graph in which products read copies of arrays that have no rows for them, and the results of products that
    have none are copied. `sizes` are those of axes."""
    return _Copying(graph, sizes).made()


class _Copying:
    """A graph under construction, with copies."""

    def __init__(self, graph: Graph, sizes: Mapping[str, int]) -> None:
        self.graph, self.sizes = graph, sizes
        self.writer, self.wires, self.places = GraphWriter(graph.dom), list[int](), list[int]()
        self.origin = dict[int, int]()
        self.sources: dict[tuple[int, int], tuple[ArrayView, tuple[Axis, ...]]] = {}
        """What inputs of boxes are views of, and the order of axes in which it has rows for them."""
        self.wanted: dict[int, dict[tuple[int, tuple[Axis, ...]], ArrayView]] = {}
        """By arrays, the views of them that are copied, each with the order of axes."""
        self.copies: dict[tuple[int, tuple[Axis, ...]], int] = {}
        """The wires of these copies."""
        types = graph.wire_types()
        for place, node in enumerate(graph.nodes):
            made = node.box if matrix_sides(node.box) else _product_beside(graph, node)
            if made is None:
                continue
            for k, wire in enumerate(node.inputs):
                source = array_view(graph, wire, reshaped=True)
                dense = in_memory_order(types[source.wire].axes, memory_order(graph, source.wire))
                order = _order_of_rows(source, types[source.wire], dense, made, sizes)
                if order and (made is node.box or dense[-1].name in batch_axes(made)):
                    self.sources[place, k] = source, order
                    whole = array_view(graph, source.wire)
                    self.wanted.setdefault(whole.wire, {})[source.wire, order] = whole

    def made(self) -> CopiedGraph:
        """The graph, without boxes that nothing reads."""
        self._add(range(len(self.graph.dom)))
        for place, node in enumerate(self.graph.nodes):
            inputs, box = [self._read(place, k) for k in range(len(node.inputs))], node.box
            order = None
            if matrix_sides(box):
                box = replace(box, dom=Ty(*(self.writer.types[w] for w in inputs)))
                order = _order_of_result(box, self.sizes)
            inputs = list(map(self.writer.cast, inputs, box.dom))
            if order is not None:
                (ty,) = box.cod
                own = self.writer.add(replace(box, cod=Ty(replace(ty, axes=order))), inputs)
                self.origin[own] = len(self.wires)
                self._add([self._copied(own, ty.axes, len(self.wires))])
                continue
            if _breaks_rows(self.graph, node):
                self.places.append(len(self.writer.nodes))
            self._add(self.writer.made(box, inputs))
        found = self.writer.graph(self.wires[w] for w in self.graph.outputs)
        alive, first = sorted(needed(found, found.outputs)), found.first_wires()
        left = [*range(len(found.dom)), *(first[p] + k for p in alive for k in range(len(found.nodes[p].box.cod)))]
        numbers = {w: k for k, w in enumerate(left)}
        places = frozenset(alive.index(place) for place in self.places if place in alive)
        origin = {numbers[made]: w for made, w in self.origin.items() if made in numbers}
        return CopiedGraph(reachable(found), places, origin)

    def _add(self, made: Iterable[int]) -> None:
        """Notes wires that carry the same as the next ones of the graph, and copies those that are to be copied."""
        for wire in made:
            own = len(self.wires)
            self.origin[wire] = own
            self.wires.append(wire)
            for (viewed, order), view in self.wanted.get(own, {}).items():
                self.copies[viewed, order] = self._copied(self._viewed(wire, view), order, viewed)

    def _copied(self, wire: int, order: tuple[Axis, ...], origin: int) -> int:
        self.places.append(len(self.writer.nodes))
        made = self.writer.cast(wire, replace(self.writer.types[wire], axes=order))
        self.origin[made] = origin
        return made

    def _viewed(self, wire: int, view: ArrayView) -> int:
        """A view of an array with its axes in another order."""
        for box, others, made in view.boxes:
            read = wire, *(self.wires[w] for w in others)
            wire = self.writer.add(_retyped(box, [self.writer.types[w] for w in read]), read)
            self.origin[wire] = made
        return wire

    def _read(self, place: int, k: int) -> int:
        """What a box reads as one of its inputs: a view of a copy if there is one."""
        if (place, k) not in self.sources:
            return self.wires[self.graph.nodes[place].inputs[k]]
        source, order = self.sources[place, k]
        return self._viewed(self.copies[source.wire, order], source)


def _product_of(graph: Graph, wire: int) -> Box | None:
    """The product of matrices that a wire is, or is a function of at every index."""
    maker, axes = graph.makers(), set(graph.wire_types()[wire].names)
    while maker[wire] >= 0:
        node = graph.nodes[maker[wire]]
        if not (elementwise(node.box) or (transposes(node.box) and not new_names(node.box.op))):
            return node.box if matrix_sides(node.box) else None
        same = [w for w, ty in zip(node.inputs, node.box.dom, strict=True) if set(ty.names) == axes]
        if len(same) != 1:
            return None
        (wire,) = same
    return None


def _product_beside(graph: Graph, node: Node) -> Box | None:
    """The product of matrices that one input of an elementwise box is, or is a function of, if there is another input,
    and its result has rows for that product."""
    if not elementwise(node.box) or len(node.inputs) < 2:
        return None
    axes = node.box.cod[0].names
    full = (w for w, ty in zip(node.inputs, node.box.dom, strict=True) if set(ty.names) == set(axes))
    made = next((made for w in full if (made := _product_of(graph, w)) is not None), None)
    return None if made is None or axes[-1] in batch_axes(made) else made


def _order_of_rows(
    source: ArrayView, ty: ArrayType, dense: Sequence[Axis], box: Box, sizes: Mapping[str, int]
) -> tuple[Axis, ...] | None:
    """The order of axes in which an array, whose axes are `dense` in the order of memory, has rows for a kernel of a
    product that reads it, if it has none and may have some: with its longest summed axis last, or its longest axis."""
    batch, lengths = batch_axes(box), {axis: size_value(axis.size, sizes) for axis in ty.axes}
    rows = {
        viewed.axis: viewed.read[-1] not in box.cod[0].names
        for viewed in source.axes
        if viewed.read and not viewed.shifted and viewed.read[-1] not in batch and lengths[viewed.axis] >= ROW_ENTRIES
    }
    last = _last_axis(dense, sizes)
    if last is None or last in rows or not rows or ty.element != "real":
        return None
    late = reversed([axis for axis in ty.axes if axis in rows])  # of equals the last one, which is moved least
    return _with_last(ty, max(late, key=lambda axis: (rows[axis] and lengths[axis] >= LONG_ROW_ENTRIES, lengths[axis])))


def _order_of_result(box: Box, sizes: Mapping[str, int]) -> tuple[Axis, ...] | None:
    """The order of axes in which tiles of a product have rows, if it is another than that of its result."""
    (ty,) = box.cod
    lengths = {axis: size_value(axis.size, sizes) for side in matrix_sides(box) for axis in side}
    last = _last_axis(ty.axes, sizes)
    if last is None or last in lengths or max(lengths.values()) < ROW_ENTRIES:
        return None
    return _with_last(ty, max((axis for axis in reversed(ty.axes) if axis in lengths), key=lambda axis: lengths[axis]))


def _last_axis(axes: Sequence[Axis], sizes: Mapping[str, int]) -> Axis | None:
    """The last of some axes that has more than one entry."""
    return next((axis for axis in reversed(axes) if size_value(axis.size, sizes) > 1), None)


def _breaks_rows(graph: Graph, node: Node) -> bool:
    """Whether a node is a transposition of what a product makes, or of a function of that, in which rows are along an
    axis of a batch."""
    (ty,) = node.box.cod if transposes(node.box) else (ArrayType(()),)
    made = _product_of(graph, node.inputs[0]) if ty.axes else None
    names = {new: old for old, new in new_names(node.box.op).items()}
    return made is not None and names.get(ty.names[-1], ty.names[-1]) in batch_axes(made)


def _with_last(ty: ArrayType, last: Axis) -> tuple[Axis, ...]:
    return (*(axis for axis in ty.axes if axis != last), last)


def _retyped(box: Box, types: list[ArrayType]) -> Box:
    """The box of a view of an array with its axes in another order."""
    return op_row(RETYPED, box, "read in another order of axes")(box.op, box, types)


def _reindexed(op: Reindex | View, box: Box, types: list[ArrayType]) -> Box:
    return reindex_box(op, types, box.line)


RETYPED: Mapping[type[Op], Callable[[Any, Box, list[ArrayType]], Box]] = {
    Reindex: _reindexed,
    View: _reindexed,
    Reduce: lambda op, box, types: reduce_box(op.monoid, op.axis, types[0], box.line),
    Rename: lambda op, box, types: replace(box, dom=Ty(*types)),
}
"""The box of a view of arrays of other types, by the class of its operation."""
