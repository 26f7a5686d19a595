"""Summed axes that stand together in all arrays that have them, as one axis: `t h d, h d m -> t m` as
`t (h d), (h d) m -> t m`.

A loop over one long axis takes blocks of any size; of two axes one loop stands inside the other, with blocks no longer
than the inner axis. The axes are merged only where that is a view of each array as it lies in memory: they are
neighbors there, in one order. An array that is computed, and read once, can be stored so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from catdiag.category.diagram import Node
from catdiag.category.index_maps import Reindex, View
from catdiag.category.ops import Box, Einsum, Map, Reduce, Rename, einsum_box, reindex_box
from catdiag.category.types import ArrayType, Axis, Ty, product, size_value
from catdiag.rewrite.hash_consed_graph import HashConsedGraph


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
                        kind = self.types[laid]
                        read[k] = super().add(reindex_box(Reindex("merge", axis), [kind], box.line), (laid,))
                self.merged.append(axis.name)
            if read != list(inputs):
                made = einsum_box([self.types[w] for w in read], box.cod[0].names, box.line)
                return super().add(Box(made.op, made.dom, box.cod, box.line), read)
        return super().add(box, inputs)

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
        return wire in self.read_once and node is not None and isinstance(node.box.op, (Einsum, Map, Reduce))

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
        """The axes of a wire in the order in which its array lies in memory; none where that is not known."""
        pairs: dict[str, str] = {}
        node: Node | None = self.node(wire)
        while node is not None and isinstance(node.box.op, Rename):
            if len(node.box.dom[0].axes) != len(node.box.cod[0].axes):
                return ()
            new = dict(node.box.op.pairs)
            pairs = {n: pairs.get(new.get(n, n), new.get(n, n)) for n in node.box.dom[0].names}
            wire = node.inputs[0]
            node = self.node(wire)
        if node is not None and isinstance(node.box.op, (Reindex, View)):
            return ()
        return tuple(pairs.get(n, n) for n in self.names(wire))
