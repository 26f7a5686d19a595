"""Axes that stand together in all arrays of a kernel, as one axis: two halves of a feature axis, say, that nothing in
it tells from each other.

A kernel then reads and makes tiles with one stride along them, and its products are of matrices. Inputs are merged
before and results split after, which are views of them as they lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from catdiag.category.diagram import Diagram, Node
from catdiag.category.index_maps import Reindex, View
from catdiag.category.op_facts import new_names, reduced_axes
from catdiag.category.ops import Op, Reduce, Rename, op_fact, reindex_box
from catdiag.category.types import ArrayType, Axis, product
from catdiag.rewrite.canonicalize import canonical_graph
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.merge_axes import REMADE
from catdiag.schedule.live_ranges import multiplies


def joined(diagram: Diagram) -> Diagram:
    """A flat diagram with one axis in place of several that a product sums over and a result has, and that stand
    together, in one order, in all inputs and results that have one of them. Each box does the same at all their
    indices, or combines all of them. It means the same.

    >>> import catdiag as cd
    >>> def squares(Q, K):
    ...     return cd.einsum("q x, x h d -> q h d", cd.einsum("q h d, x h d -> q x", Q, K), K)
    >>> f = joined(cd.algorithm("q h d, x h d")(squares).diagram)
    >>> [box.name for box in f.boxes], [str(box.cod[0]) for box in f.boxes if box.name == "einsum"]
    (['merge[(h d)]', 'merge[(h d)]', 'einsum', 'einsum', 'split[(h d)]'], ['[q x]', '[q (h d)]'])
    """
    for axis in _together(diagram):
        diagram = _Joining(diagram, axis).made()
    return diagram


def _together(diagram: Diagram) -> Iterator[Axis]:
    """The runs of axes that stand together, as one axis each; they have no axis in common."""
    results = {name for ty in diagram.cod for name in ty.names}
    summed = [set(reduced_axes(box)) & results for box in diagram.boxes if multiplies(box)]
    taken: set[str] = set()
    for ty in diagram.dom:
        run: list[Axis] = []
        for one, two in pairwise(ty.axes):
            both = {one.name, two.name}
            if any(both <= names for names in summed) and two.name not in taken and _stand_together(diagram, one, two):
                run = [*run, two] if run else [one, two]
                continue
            if run:
                break
        if run and not taken & {a.name for a in run}:
            taken |= {a.name for a in run}
            yield product(*run)


def _stand_together(diagram: Diagram, one: Axis, two: Axis) -> bool:
    """Whether the second axis follows on the first in all inputs and results that have one of them, and no box tells
    one from the other."""
    if "name" not in (one.kind, two.kind) or one.kind != two.kind:
        return False
    ends = ((one.name, two.name) in pairwise(ty.names) for ty in (*diagram.dom, *diagram.cod)
            if {one.name, two.name} & set(ty.names))  # fmt: skip
    return all(ends) and all(_passes(node, one.name, two.name) for node in diagram.graph.nodes)


def _passes(node: Node, one: str, two: str) -> bool:
    box, both = node.box, {one, two}
    if not any(both & set(ty.names) for ty in (*box.dom, *box.cod)):
        return not any(axis.has_part(one) or axis.has_part(two) for ty in box.dom for axis in ty.axes)
    if any(len(both & set(ty.names)) == 1 for ty in (*box.dom, *box.cod)):
        return False
    row = op_fact(NAMED_AXES, box.op)
    return op_fact(REMADE_JOINED, box.op) is not None and (row is None or not both & row(box.op))


class _Joining:
    """Makes the form of a diagram with one axis in place of its parts."""

    def __init__(self, diagram: Diagram, axis: Axis) -> None:
        self.diagram, self.axis = diagram, axis
        self.first, *rest = (part.name for part in axis.parts)
        self.rest = set(rest)
        self.terms = HashConsedGraph(diagram.dom)

    def made(self) -> Diagram:
        """The diagram."""
        diagram, terms = self.diagram, self.terms
        now = [self.merged(w) for w in range(len(diagram.dom))]
        for node in diagram.graph.nodes:
            read, box = [now[w] for w in node.inputs], node.box
            types = [self.type_of(ty) for ty in box.cod]
            row = op_fact(REMADE_JOINED, box.op)
            if all(new == old for new, old in zip(types, box.cod, strict=True)) and not any(
                self.first in ty.names for ty in box.dom
            ):
                start = terms.add(box, read)
                now.extend(range(start, start + len(box.cod)))
            else:
                assert row is not None, "what names one of the parts is not joined"
                now.append(terms.cast(row(terms, box.op, read, types[0].names, box.line), types[0]))
        outputs = [self.split(now[w], ty) for w, ty in zip(diagram.graph.outputs, diagram.cod, strict=True)]
        return canonical_graph(terms, outputs, diagram)

    def type_of(self, ty: ArrayType) -> ArrayType:
        """A type with the axis in place of its parts."""
        axes = (self.axis if a.name == self.first else a for a in ty.axes if a.name not in self.rest)
        return ArrayType(tuple(axes), ty.element)

    def merged(self, wire: int) -> int:
        """An input with the axis in place of its parts."""
        if self.first not in self.terms.names(wire):
            return wire
        return self.terms.add(reindex_box(Reindex("merge", self.axis), [self.terms.types[wire]]), (wire,))

    def split(self, wire: int, ty: ArrayType) -> int:
        """A result of a type of the diagram."""
        if self.first in ty.names:
            wire = self.terms.cast(wire, self.type_of(ty))
            wire = self.terms.add(reindex_box(Reindex("split", self.axis), [self.terms.types[wire]]), (wire,))
        return self.terms.cast(wire, ty)


def _view(graph: HashConsedGraph, op: View, read: Sequence[int], output: Sequence[str], line: str | None) -> int:
    return graph.add(reindex_box(op, [graph.types[w] for w in read], line), read)


REMADE_JOINED: Mapping[type[Op], Callable[[HashConsedGraph, Any, Sequence[int], Sequence[str], str | None], int]] = {
    **REMADE,
    View: _view,
    Rename: lambda graph, op, read, output, line: graph.rename(read[0], new_names(op)),
}
"""An operation on arrays with joined axes, with the axes of its result."""

NAMED_AXES: Mapping[type[Op], Callable[[Any], set[str]]] = {
    View: lambda op: {a.name for a in op.index_axes} | {name for read in op.reads for name, _ in read.at},
    Rename: lambda op: {name for pair in op.pairs for name in pair},
    Reduce: lambda op: {op.axis},
}
"""The axes that an operation does something with; none for those that have all axes alike."""
