"""Reductions over a concatenation of arrays, one term of the coproduct after the other.

`max_{x+y} [A, B] = max(max_x A, max_y B)`, and the same of sums and contractions. What is computed element by element
from concatenated arrays is computed for each term. So attention to a cache and to what a step adds to it needs no
longer cache: the scores, the maximum, the sum and the values are those of the cache and of the new entries, put
together.

>>> import catdiag as cd
>>> both = cd.algorithm("q x, q y -> q")(lambda A, B: cd.max(cd.exp(cd.concat([A, B], "x+y")), "x+y"))
>>> [box.name for box in by_terms(both.diagram).diagram.boxes]
['exp', 'exp', 'max[x]', 'max[y]', 'max']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.index_maps import Reindex
from catdiag.category.op_facts import monoid_of, transposes
from catdiag.category.ops import ARITHMETIC, Box, Reduce, Rename
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

_JOINED = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}
"""The scalar function that puts two results of a reduction together."""

Pairs = tuple[tuple[int, int], ...]
"""Wires of one diagram with those of another that carry the same."""


@dataclass(frozen=True)
class ByTerms:
    """A diagram that reduces over terms (`diagram`) and `opened`, the source without named boxes; nothing is proved
    here. `stages` pairs wires of the two that carry the same, in order, and `image` all of them. `axes` are the names
    of the coproducts."""

    opened: Diagram
    diagram: Diagram
    stages: tuple[Pairs, ...]
    image: dict[int, int]
    axes: tuple[str, ...]


@dataclass(frozen=True)
class _Terms:
    """An array over a coproduct, as one array over each of its terms."""

    axis: Axis
    wires: tuple[int, ...]


def by_terms(source: Diagram) -> ByTerms | None:
    """The diagram with reductions over concatenated arrays taken term by term; None where there are none, or one of
    the terms is an axis of what it is computed with."""
    return _Rebuilding(source).made()


class _Rebuilding:
    """Rebuilds a flat graph; `arrays` has, by wire of the source, what is an array for each term."""

    def __init__(self, source: Diagram) -> None:
        self.source = source
        self.graph = reachable(inline(source).graph)
        self.types = self.graph.wire_types()
        self.terms = HashConsedGraph(self.graph.dom)
        self.image: dict[int, int] = {w: w for w in range(len(self.graph.dom))}
        self.arrays: dict[int, _Terms] = {}
        self.reduced: dict[str, None] = {}
        self.stages: list[Pairs] = []

    def made(self) -> ByTerms | None:
        """The rebuilt diagram."""
        graph, first = self.graph, self.graph.first_wires()
        for place, node in enumerate(graph.nodes):
            made = self._by_terms(node, first[place])
            if made is None:
                start = self.terms.add(node.box, [self._whole(w) for w in node.inputs])
                self.image.update({first[place] + k: start + k for k in range(len(node.box.cod))})
            if made is None and isinstance(node.box.op, Reindex) and node.box.op.kind == "concat":
                self.arrays[first[place]] = _Terms(node.box.op.axis, tuple(self._whole(w) for w in node.inputs))
            elif isinstance(made, _Terms):
                self.arrays[first[place]] = made
            elif made is not None:
                self.image[first[place]] = made
                self.stages.append(((first[place], made),))
        if not self.reduced:
            return None
        outputs = tuple(map(self._whole, graph.outputs))
        live = self.terms.renumbered(outputs)
        rebuilt = reachable(Graph(graph.dom, tuple(self.terms.nodes), outputs))
        source = self.source
        return ByTerms(
            of_graph(graph, source.cod, source.names, source.title),
            of_graph(rebuilt, source.cod, source.names, source.title),
            tuple(stage for pairs in self.stages if (stage := tuple((a, live[b]) for a, b in pairs if b in live))),
            {w: live[v] for w, v in self.image.items() if v in live},
            tuple(self.reduced),
        )

    def _whole(self, wire: int) -> int:
        """The wire with an array of the source, concatenated where there is one for each term."""
        if wire not in self.image:
            terms = self.arrays[wire]
            dom = Ty(*(self.terms.types[w] for w in terms.wires))
            self.image[wire] = self.terms.add(
                Box(Reindex("concat", terms.axis), dom, Ty(self.types[wire])), list(terms.wires)
            )
        return self.image[wire]

    def _by_terms(self, node: Node, first: int) -> int | _Terms | None:
        """What a box makes term by term: an array for each, or the result that they are put together to; None where it
        is not computed so."""
        box, op = node.box, node.box.op
        axes = {self.arrays[w].axis for w in node.inputs if w in self.arrays}
        if len(axes) != 1 or len(box.cod) != 1 or not isinstance(op, (*ARITHMETIC, Rename)):
            return None
        (axis,) = axes
        if isinstance(op, Rename) and (not transposes(box) or any(axis.name in pair for pair in op.pairs)):
            return None
        for w, ty in zip(node.inputs, box.dom, strict=True):
            if (ty.axis(axis.name) is not None and w not in self.arrays) or any(ty.axis(p.name) for p in axis.parts):
                return None
        reduces = box.cod[0].axis(axis.name) is None
        joins = _JOINED.get(monoid_of(op), "")
        if reduces and not joins:
            return None
        made = tuple(self._terms(node, axis))
        if not reduces:
            return _Terms(axis, made)
        self.reduced[axis.name] = None
        result, *others = made
        for other in others:
            result = self.terms.map(joins, result, other, line=box.line)
        return self.terms.cast(result, box.cod[0])

    def _terms(self, node: Node, axis: Axis) -> Iterator[int]:
        """The wires that a box makes of each term."""
        for k, part in enumerate(axis.parts):
            inputs = [self.arrays[w].wires[k] if w in self.arrays else self._whole(w) for w in node.inputs]
            op = node.box.op
            if isinstance(op, Reduce) and op.axis == axis.name:
                op = Reduce(op.monoid, part.name)
            dom = Ty(*(_at(ty, axis, part) for ty in node.box.dom))
            read = [self.terms.cast(w, ty) for w, ty in zip(inputs, dom, strict=True)]
            yield self.terms.add(Box(op, dom, Ty(_at(node.box.cod[0], axis, part)), node.box.line), read)


def _at(ty: ArrayType, axis: Axis, part: Axis) -> ArrayType:
    """An array type with a term in the place of the coproduct."""
    return ArrayType(tuple(part if a.name == axis.name else a for a in ty.axes), ty.element)
