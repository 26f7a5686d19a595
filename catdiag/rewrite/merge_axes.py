"""Summed axes that stand together in all arrays that have them, as one axis: `t h d, h d m -> t m` as
`t (h d), (h d) m -> t m`.

A loop over one long axis takes blocks of any size; of two axes one loop stands inside the other, with blocks no longer
than the inner axis. The axes are merged only where that is a view of each array as it lies in memory: they are
neighbors there, in one order. An array that is computed, and read once, can be stored so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.index_maps import Reindex, View
from catdiag.category.op_facts import reduced_axes
from catdiag.category.ops import (
    ARITHMETIC,
    INDEX_MAPS,
    Box,
    Einsum,
    Index,
    Map,
    Op,
    Reduce,
    Rename,
    einsum_box,
    index_box,
    op_fact,
    reindex_box,
)
from catdiag.category.types import ArrayType, Axis, Ty, product, size_value
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.schedule.live_ranges import multiplies

PRODUCT_TILE = 128 * 128
"""Entries of the result in a tile of a product, as is usual."""


class MergingGraph(HashConsedGraph):
    """A graph under construction, whose contractions sum over one axis in place of several that stand together.

    >>> from catdiag.category.types import ArrayType, Axis, Ty
    >>> t, h, d, m = map(Axis, "thdm")
    >>> terms = MergingGraph(Ty(ArrayType((t, h, d)), ArrayType((h, d, m))), {"h": 8, "d": 64})
    >>> made = terms.einsum((0, 1), ("t", "m"))
    >>> [node.box.name for node in terms.nodes], str(terms.types[made]), terms.merged
    (['merge[(h d)]', 'merge[(h d)]', 'einsum'], '[t m]', ['(h d)'])
    """

    def __init__(self, dom: Ty, sizes: Mapping[str, int]) -> None:
        super().__init__(dom)
        self.sizes = sizes
        self.merged: list[str] = []
        """The axes that were made."""
        self.read_once: set[int] = set()
        """Wires that one box reads, and that are no results."""

    def add(self, box: Box, inputs: Sequence[int]) -> int:
        """The first output wire of a box on these inputs, or of a contraction with merged axes in its place."""
        if isinstance(box.op, Einsum):
            read = list(inputs)
            for axis in list(self._together(box, inputs)):
                for k, w in enumerate(read):
                    if axis.parts[0].name in self.names(w):
                        laid = self._laid_out(w, [part.name for part in axis.parts])
                        read[k] = self._merged(laid, axis, box.line)
                self.merged.append(axis.name)
            if read != list(inputs):
                made = einsum_box([self.types[w] for w in read], box.cod[0].names, box.line)
                return super().add(Box(made.op, made.dom, box.cod, box.line), read)
        return super().add(box, inputs)

    def _merged(self, wire: int, axis: Axis, line: str | None = None) -> int:
        """The wire with the parts of an axis, which it has, merged: what it was split from, if that had the axis, or a
        view of another array with the parts merged."""
        node = self.node(wire)
        if node is not None and node.box.op == Reindex("split", axis):
            return node.inputs[0]
        if node is not None and self._is_view_beside(node, [part.name for part in axis.parts]):
            read = [self._merged(node.inputs[0], axis, line), *node.inputs[1:]]
            return super().add(reindex_box(node.box.op, [self.types[w] for w in read], node.box.line), read)  # type: ignore[arg-type]
        return super().add(reindex_box(Reindex("merge", axis), [self.types[wire]], line), (wire,))

    def _is_view_beside(self, node: Node, parts: Sequence[str]) -> bool:
        """Whether a box reads one array, which has some axes, at other indices along others only, and numbers."""
        op, others = node.box.op, node.inputs[1:]
        if not isinstance(op, View) or any(self.types[w].axes for w in others):
            return False
        return set(parts) <= set(self.names(node.inputs[0])) and not any(map(op.touches, parts))

    def _together(self, box: Box, inputs: Sequence[int]) -> Iterator[Axis]:
        """Those summed axes of a contraction that are neighbors in all arrays that have them, as one axis each time."""
        orders = [None if self._free(w) else self._in_memory(w) for w in inputs]
        have: dict[str, tuple[int, ...]] = {}
        for k, ty in enumerate(box.dom):
            for axis in ty.axes:
                if axis.name not in box.cod[0].names and axis.kind == "name":
                    have[axis.name] = (*have.get(axis.name, ()), k)
        taken: set[str] = set()
        for first in have:
            if first in taken:
                continue
            run = [first]
            while (after := self._next(run, orders, have)) is not None:
                run.append(after)
            backwards = [None if order is None else order[::-1] for order in orders]
            while (before := self._next(run[::-1], backwards, have)) is not None:
                run.insert(0, before)
            taken.update(run)
            axes = [axis for name in run for axis in [box.dom[have[name][0]].axis(name)] if axis is not None]
            if sum(size_value(axis.size, self.sizes) > 1 for axis in axes) > 1:
                yield product(*axes)

    @staticmethod
    def _next(
        run: Sequence[str], orders: Sequence[Sequence[str] | None], have: Mapping[str, tuple[int, ...]]
    ) -> str | None:
        """The summed axis that follows on a run of them in all arrays that have it, which are those of the run; arrays
        without an order can have any."""
        found: set[str | None] = set()
        for order in (orders[k] for k in have[run[-1]]):
            if order is not None:
                place = order.index(run[-1]) + 1 if run[-1] in order else len(order)
                found.add(order[place] if place < len(order) else None)
        after = found.pop() if len(found) == 1 else None
        return after if after is not None and have.get(after) == have[run[-1]] else None

    def _free(self, wire: int) -> bool:
        """Whether the array of a wire can have any layout: a box computes it, and one box reads it."""
        node = self.node(wire)
        return wire in self.read_once and node is not None and isinstance(node.box.op, ARITHMETIC)

    def _laid_out(self, wire: int, names: Sequence[str]) -> int:
        """The wire, its axes in an order in which these are neighbors: the array is to be stored so."""
        own = self.names(wire)
        place = own.index(names[0])
        if not self._free(wire) or list(own[place : place + len(names)]) == list(names):
            return wire
        axes = {axis.name: axis for axis in self.types[wire].axes}
        order = [*(n for n in own if n not in names), *names]
        return self.cast(wire, ArrayType(tuple(axes[n] for n in order), self.types[wire].element))

    def _in_memory(self, wire: int) -> tuple[str, ...]:
        """The axes of a wire in the order in which its array lies in memory, those split off another in its place; none
        where that is not known."""
        pairs: dict[str, str] = {}
        node: Node | None = self.node(wire)
        while node is not None and isinstance(node.box.op, Rename):
            if len(node.box.dom[0].axes) != len(node.box.cod[0].axes):
                return ()
            new = dict(node.box.op.pairs)
            pairs = {n: pairs.get(new.get(n, n), new.get(n, n)) for n in node.box.dom[0].names}
            wire = node.inputs[0]
            node = self.node(wire)
        order = self.names(wire)
        if node is not None and isinstance(node.box.op, Reindex) and node.box.op.kind == "split":
            axis, before = node.box.op.axis, self._in_memory(node.inputs[0])
            order = tuple(n for name in before for n in ([p.name for p in axis.parts] if name == axis.name else [name]))
        elif node is not None and isinstance(node.box.op, View) and self._is_view_beside(node, ()):
            before = self._in_memory(node.inputs[0])
            order = tuple("" if node.box.op.touches(name) else name for name in before)
        elif node is not None and isinstance(node.box.op, INDEX_MAPS):
            return ()
        return tuple(pairs.get(n, n) for n in order)


def merged_early(diagram: Diagram, sizes: Mapping[str, int]) -> Diagram:
    """The diagram with summed axes merged, as above, and those of the inputs that an array is computed of in place of
    that array: f(a[h d → (h d)]) for f(a)[h d → (h d)]. It means the same, and is for one kernel: what is computed is
    not stored, so that it may have any layout, and a loop over the merged axis computes a block of it in each
    iteration.

    Passed are scalar functions, contractions that keep the axes, reductions over others, and broadcasts.

    >>> import catdiag as cd
    >>> total = cd.algorithm("t h d, h d -> t")(lambda A, B: cd.einsum("t h d, h d -> t", cd.exp(A), B))
    >>> [box.name for box in merged_early(total.diagram, {"t": 64, "h": 8, "d": 64}).boxes]
    ['merge[(h d)]', 'exp', 'merge[(h d)]', 'einsum']
    """
    graph = _EarlyMerges(diagram.dom, sizes)
    wires = list(range(len(diagram.dom)))
    for node in diagram.graph.nodes:
        first = graph.add(node.box, [wires[w] for w in node.inputs])
        wires += range(first, first + len(node.box.cod))
    if not graph.changed:
        return diagram
    made = Graph(diagram.dom, tuple(graph.nodes), tuple(wires[w] for w in diagram.graph.outputs))
    return of_graph(reachable(made), diagram.cod, diagram.names, diagram.title)


def merged_product(diagram: Diagram, sizes: Mapping[str, int], enough: int) -> Diagram:
    """`merged_early` of a diagram with one product whose result has `enough` entries for tiles on all cores; others as
    they are, since groups along a summed axis, which add what they make, have more cores at work then.

    >>> import catdiag as cd
    >>> grad = cd.algorithm("b t e, b t f -> e f")(lambda X, G: cd.einsum("b t e, b t f -> e f", X, G))
    >>> sizes = {"b": 2, "t": 64, "e": 32, "f": 32}
    >>> [len(merged_product(grad.diagram, sizes, enough).boxes) for enough in (1024, 2048)]
    [3, 1]
    """
    found = [box for box in diagram.boxes if multiplies(box)]
    if len(found) != 1 or math.prod(size_value(axis.size, sizes) for axis in found[0].cod[0].axes) < enough:
        return diagram
    return merged_early(diagram, sizes)


class _EarlyMerges(MergingGraph):
    """A graph under construction, in which the merged form of a wire is made of those of what it is computed of.
    `changed` says whether there was one of a computed wire, or a contraction that had none before."""

    changed = False

    def add(self, box: Box, inputs: Sequence[int]) -> int:
        """The first output wire of a box on these inputs, or of what has the same outputs, with axes merged early."""
        wires = list(inputs)
        if isinstance(box.op, Reindex) and box.op.kind == "merge" and self.node(wires[0]) is not None:
            return self.cast(self._merged(wires[0], box.op.axis, box.line), box.cod[0])
        for k, (w, ty) in enumerate(zip(wires, box.dom, strict=True)):
            wires[k] = self.cast(w, ty)
        return super().add(box, wires)

    def _free(self, wire: int) -> bool:
        node = self.node(wire)
        return node is not None and isinstance(node.box.op, ARITHMETIC)

    def _merged(self, wire: int, axis: Axis, line: str | None = None) -> int:
        """The wire with the parts of an axis merged; itself if it has none of them."""
        self.changed = True
        parts, names = [part.name for part in axis.parts], self.names(wire)
        here = [part for part in parts if part in names]
        if not here:
            return wire
        node = self.node(wire)
        if node is not None and isinstance(node.box.op, Index):
            return self._position(axis, here[0])
        if node is not None and (set(here) == set(parts) or isinstance(node.box.op, Map)) and _passed(node.box, parts):
            read = [self._merged(w, axis) for w in node.inputs]
            output = tuple(dict.fromkeys(axis.name if n in parts else n for n in names))
            return self._remade(node.box, read, output, axis)
        ty = self.types[wire]
        place = names.index(here[0])
        if list(names[place : place + len(parts)]) != parts:
            full = ArrayType((*(a for a in ty.axes if a.name not in parts), *axis.parts), ty.element)
            wire = self.cast(wire, full)
        return super()._merged(wire, axis, line)

    def _remade(self, box: Box, read: Sequence[int], output: Sequence[str], axis: Axis) -> int:
        """What a box makes of inputs with merged axes."""
        row = op_fact(REMADE, box.op)
        if row is not None:
            return row(self, box.op, read, output, box.line)
        known = {a.name: a for a in (*box.cod[0].axes, axis)}
        return self.cast(read[0], ArrayType(tuple(known[n] for n in output), box.cod[0].element))

    def _position(self, axis: Axis, name: str) -> int:
        """The index along a part of an axis, at each index of the axis."""
        found = super().add(index_box(axis), ())
        for k in reversed(range(len(axis.parts))):
            size = self.size(axis.parts[k].size)
            outer = self.map("floordiv", found, size)
            if axis.parts[k].name == name:
                return found if k == 0 else self.map("sub", found, self.map("mul", outer, size))
            found = outer
        raise AssertionError(f"{name} is a part of {axis.name}")


REMADE: Mapping[type[Op], Callable[[HashConsedGraph, Any, Sequence[int], Sequence[str], str | None], int]] = {
    Map: lambda graph, op, read, output, line: graph.map(op.fn, *read, line=line),
    Einsum: lambda graph, op, read, output, line: graph.einsum(read, output, line),
    Reduce: lambda graph, op, read, output, line: graph.reduce(op.monoid, op.axis, read[0], line),
}
"""An operation on other arrays, with the axes of its result."""


def _passed(box: Box, parts: Sequence[str]) -> bool:
    """Whether a box does the same at each index of the parts of an axis, which it does not sum over."""
    if isinstance(box.op, Rename):
        return not box.op.pairs
    return isinstance(box.op, ARITHMETIC) and not set(reduced_axes(box)) & set(parts)
