"""Reductions over a concatenation of arrays, one term of the coproduct after the other.

`max_{x+y} [A, B] = max(max_x A, max_y B)`, and the same of sums and contractions. What is computed element by element
from concatenated arrays is computed for each term, and a slice of it is one of them. So attention to a cache and to
what a step adds to it needs no longer cache: the scores, the maximum, the sum and the values are those of the cache and
of the new entries, put together. The axis may have a name of its own.

>>> import catdiag as cd
>>> both = cd.algorithm("q x, q y -> q")(lambda A, B: cd.max(cd.exp(cd.concat([A, B], "x+y")), "x+y"))
>>> [box.name for box in by_terms(both.diagram).diagram.boxes]
['exp', 'exp', 'max[x]', 'max[y]', 'max']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from catdiag.category.diagram import Diagram, Graph, Node, of_graph, reachable
from catdiag.category.index_maps import Cond, Expr, Read, Reindex, View, plus, times
from catdiag.category.op_facts import monoid_of, new_names, transposes
from catdiag.category.ops import ARITHMETIC, Box, Index, Op, Reduce, Rename, index_box, op_fact, reindex_box
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, Axis, Ty, coproduct
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
    """An array over an axis which is a coproduct, perhaps under another name, as one array over each of its `parts`."""

    axis: Axis
    parts: tuple[Axis, ...]
    wires: tuple[int, ...]


def by_terms(source: Diagram) -> ByTerms | None:
    """The diagram with reductions over concatenated arrays taken term by term; None where there are none, or one of
    the terms is an axis of what it is computed with."""
    return _Rebuilding(source).made()


class _Rebuilding:
    """Rebuilds a flat graph; `arrays` has, by wire of the source, what is an array for each term, and `parts`, by the
    names of axes that are coproducts, their terms."""

    def __init__(self, source: Diagram) -> None:
        self.source = source
        self.graph = reachable(inline(source).graph)
        self.types = self.graph.wire_types()
        self.terms = HashConsedGraph(self.graph.dom)
        self.image: dict[int, int] = {w: w for w in range(len(self.graph.dom))}
        self.arrays: dict[int, _Terms] = {}
        self.reduced: dict[str, None] = {}
        self.stages: list[Pairs] = []
        self.parts: dict[str, tuple[Axis, ...]] = {}
        for node in self.graph.nodes:
            for ty in node.box.cod:
                self.parts.update({a.name: a.parts for a in ty.axes if a.kind == "coproduct"})
        for node in self.graph.nodes:
            for old, new in new_names(node.box.op).items():
                if transposes(node.box) and old in self.parts:
                    self.parts.setdefault(new, self.parts[old])

    def made(self) -> ByTerms | None:
        """The rebuilt diagram."""
        graph, first = self.graph, self.graph.first_wires()
        for place, node in enumerate(graph.nodes):
            made = self._by_terms(node)
            if made is None:
                start = self.terms.add(node.box, [self._whole(w) for w in node.inputs])
                self.image.update({first[place] + k: start + k for k in range(len(node.box.cod))})
                row = op_fact(TERMS_BESIDE, node.box.op)
                if row is not None and (terms := row(self, node)) is not None:
                    self.arrays[first[place]] = terms
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
            terms, ty = self.arrays[wire], self.types[wire]
            dom, axis = Ty(*(self.terms.types[w] for w in terms.wires)), coproduct(*terms.parts)
            whole = Box(Reindex("concat", axis), dom, Ty(_at(ty, terms.axis, axis)))
            made = self.terms.add(whole, list(terms.wires))
            self.image[wire] = made if axis == terms.axis else self._renamed(made, axis, terms.axis)
        return self.image[wire]

    def concatenated(self, node: Node) -> _Terms | None:
        """The arrays that are concatenated; None for what concatenates none."""
        op = node.box.op
        assert isinstance(op, Reindex)
        if op.kind != "concat":
            return None
        return _Terms(op.axis, op.axis.parts, tuple(self._whole(w) for w in node.inputs))

    def positions(self, node: Node) -> _Terms | None:
        """The positions along a coproduct: those of each term, after the terms before; None along another axis."""
        (axis,) = node.box.cod[0].axes
        if axis.name not in self.parts:
            return None
        parts, wires = self.parts[axis.name], list[int]()
        for k, part in enumerate(parts):
            wire = self.terms.add(index_box(part), ())
            before = coproduct(*parts[:k]).size
            wires.append(self.terms.map("add", wire, self.terms.size(before)) if k else wire)
        return _Terms(axis, parts, tuple(wires))

    def _renamed(self, wire: int, old: Axis, new: Axis) -> int:
        """A wire with one axis under another name."""
        ty = self.terms.types[wire]
        if old.name == new.name:
            return wire
        return self.terms.add(Box(Rename(((old.name, new.name),)), Ty(ty), Ty(_at(ty, old, new))), (wire,))

    def _by_terms(self, node: Node) -> int | _Terms | None:
        """What a box makes term by term: an array for each, or the result that they are put together to; None where it
        is not computed so."""
        row = op_fact(BY_TERMS, node.box.op)
        return None if row is None or len(node.box.cod) != 1 else row(self, node)

    def computed(self, node: Node) -> int | _Terms | None:
        """What an operation of numbers, or one that orders axes, makes term by term."""
        box, op = node.box, node.box.op
        axes = {(self.arrays[w].axis, self.arrays[w].parts) for w in node.inputs if w in self.arrays}
        if len(axes) != 1:
            return None
        ((axis, parts),) = axes
        for w, ty in zip(node.inputs, box.dom, strict=True):
            if (ty.axis(axis.name) is not None and w not in self.arrays) or any(ty.axis(p.name) for p in parts):
                return None
        reduces = box.cod[0].axis(axis.name) is None
        joins = _JOINED.get(monoid_of(op), "")
        if reduces and not joins:
            return None
        made = tuple(self._terms(node, axis, parts))
        if not reduces:
            return _Terms(axis, parts, made)
        self.reduced[axis.name] = None
        result, *others = made
        for other in others:
            result = self.terms.map(joins, result, other, line=box.line)
        return self.terms.cast(result, box.cod[0])

    def renamed(self, node: Node) -> int | _Terms | None:
        """An array under other names, one of which may be that of the coproduct."""
        found, names = self.arrays.get(node.inputs[0]), new_names(node.box.op)
        if found is None or not transposes(node.box):
            return None
        if not set(names) & {found.axis.name, *(p.name for p in found.parts)}:
            return self.computed(node)
        new = names.get(found.axis.name, "")
        parts, axis = self.parts.get(new, ()), node.box.cod[0].axis(new)
        if len(names) > 1 or axis is None or [p.size for p in parts] != [p.size for p in found.parts]:
            return None
        if any(node.box.cod[0].axis(p.name) for p in parts):
            return None
        wires = (self._renamed(w, old, part) for w, old, part in zip(found.wires, found.parts, parts, strict=True))
        types = (_at(node.box.cod[0], axis, part) for part in parts)
        return _Terms(axis, parts, tuple(self.terms.cast(w, ty) for w, ty in zip(wires, types, strict=True)))

    def sliced(self, node: Node) -> int | None:
        """One of the terms, which a slice is."""
        op, found = node.box.op, self.arrays.get(node.inputs[0])
        assert isinstance(op, Reindex)
        if op.kind != "slice" or found is None or found.axis != op.axis:
            return None
        self.reduced[op.axis.name] = None
        return self.terms.cast(found.wires[op.place], node.box.cod[0])

    def read(self, node: Node) -> int | _Terms | None:
        """One of the terms, where an array is read at its positions; and what is an array at the positions of one term,
        and a number at all others."""
        op, found = node.box.op, self.arrays.get(node.inputs[0])
        assert isinstance(op, View)
        if op.fits or len(op.reads[0].at) != 1 or len(op.index_axes) > 1 or len(node.inputs) != len(op.reads):
            return None
        ((name, e),) = op.reads[0].at
        if len(op.reads) == 2 and op.index_axes and not op.reads[1].at:
            return self._padded(node, op.index_axes[0], name, e)
        if len(op.reads) > 1 or op.reads[0].where or found is None or name != found.axis.name:
            return None
        for place, start in enumerate(_starts(found.parts)):
            part, wire = found.parts[place], found.wires[place]
            if op.index_axes and e == plus(("i", op.index_axes[0].name), start) and op.index_axes[0].size == part.size:
                self.reduced[name] = None
                return self.terms.cast(self._renamed(wire, part, op.index_axes[0]), node.box.cod[0])
            if not op.index_axes and e == start and part.size == 1:
                self.reduced[name] = None
                at = reindex_box(View((), (Read(((part.name, 0),)),)), [self.terms.types[wire]], node.box.line)
                return self.terms.cast(self.terms.add(at, (wire,)), node.box.cod[0])
        return None

    def _padded(self, node: Node, axis: Axis, name: str, e: Expr) -> _Terms | None:
        """An array of which the positions of one term are read from another array, along an axis of that length."""
        op, parts, fill = node.box.op, self.parts.get(axis.name, ()), node.inputs[1]
        own = node.box.dom[0].axis(name)
        assert isinstance(op, View)
        if own is None or any(w in self.arrays for w in node.inputs) or self.types[fill].axes:
            return None
        for place, start in enumerate(_starts(parts)):
            before: Cond = ("le", 0, e)
            after: Cond = ("lt", e, parts[place].size)
            wanted = {before} if place else set[Cond]()
            wanted |= {after} if place + 1 < len(parts) else set[Cond]()
            given = set(op.reads[0].where)
            at = plus(("i", axis.name), times(-1, start))
            if e != at or own.size != parts[place].size or not wanted <= given <= {before, after}:
                continue
            types = [_at(node.box.cod[0], axis, part) for part in parts]
            if any(len(set(ty.names)) < len(ty.axes) for ty in types):
                return None
            wires = [self._whole(fill)] * len(parts)
            wires[place] = self._renamed(self._whole(node.inputs[0]), own, parts[place])
            return _Terms(axis, parts, tuple(self.terms.cast(w, ty) for w, ty in zip(wires, types, strict=True)))
        return None

    def _terms(self, node: Node, axis: Axis, parts: Sequence[Axis]) -> Iterator[int]:
        """The wires that a box makes of each term."""
        for k, part in enumerate(parts):
            inputs = [self.arrays[w].wires[k] if w in self.arrays else self._whole(w) for w in node.inputs]
            op = node.box.op
            if isinstance(op, Reduce) and op.axis == axis.name:
                op = Reduce(op.monoid, part.name)
            dom = Ty(*(_at(ty, axis, part) for ty in node.box.dom))
            read = [self.terms.cast(w, ty) for w, ty in zip(inputs, dom, strict=True)]
            yield self.terms.add(Box(op, dom, Ty(_at(node.box.cod[0], axis, part)), node.box.line), read)


BY_TERMS: Mapping[type[Op], Callable[[_Rebuilding, Node], int | _Terms | None]] = {
    **dict.fromkeys(ARITHMETIC, _Rebuilding.computed),
    Rename: _Rebuilding.renamed,
    Reindex: _Rebuilding.sliced,
    View: _Rebuilding.read,
}
"""What a box makes term by term, by its operation; None of others, and where it does not."""


TERMS_BESIDE: Mapping[type[Op], Callable[[_Rebuilding, Node], _Terms | None]] = {
    Reindex: _Rebuilding.concatenated,
    Index: _Rebuilding.positions,
}
"""The terms of what a box makes whole, by its operation."""


def _starts(parts: Sequence[Axis]) -> Iterator[Expr]:
    """The position at which each term of a coproduct begins."""
    start: Expr = 0
    for part in parts:
        yield start
        start = plus(start, part.size)


def _at(ty: ArrayType, axis: Axis, part: Axis) -> ArrayType:
    """An array type with a term in the place of the coproduct."""
    return ArrayType(tuple(part if a.name == axis.name else a for a in ty.axes), ty.element)
