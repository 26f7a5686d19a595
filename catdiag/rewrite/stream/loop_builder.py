"""The loop of a cascade: its unit, step, merge and state, written as diagrams.

`catdiag.rewrite.stream.fold_search` finds cascades; here each becomes a `FoldOp`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from catdiag.category.diagram import Diagram
from catdiag.category.ops import COMBINES, Box, Const, FoldOp, View, const_box, map_box, reduce_box
from catdiag.category.types import ArrayType, Ty
from catdiag.rewrite.graph_builder import GraphBuilder, element_type, localized
from catdiag.rewrite.local_sizes import local_size, sizes_in
from catdiag.rewrite.stream.cascade import Cascade
from catdiag.rewrite.stream.exponential_repair import Component
from catdiag.util.topological_order import topological_order


@dataclass(frozen=True)
class Streamed:
    """A diagram with one axis streamed: boxes before, one `FoldOp`, boxes after. `mode` says how exponentials are
    stabilized.

    `dropped` are boxes of the program that subtract or divide by a maximum which the loop does not have.
    """

    diagram: Diagram
    fold: FoldOp
    mode: str = ""
    dropped: tuple[Box, ...] = ()


class LoopBuilder:
    """Builds the loop of a cascade: its inputs, its four bodies, and the diagram around it."""

    def __init__(self, cascade: Cascade, diagram: Diagram, taken: Collection[str] = ()) -> None:
        self.cascade, self.source = cascade, diagram
        self.graph = cascade.graph
        self.axis = cascade.axis
        self.block = local_size("s", cascade.axis, sizes_in(diagram))
        self.local = replace(cascade.streamed, size=self.block, kind="name", parts=())
        self.components = _in_order(cascade)
        self.names = component_names(self.components, (*diagram.input_names, *taken))
        self.states = [self._state_type(c) for c in self.components]
        self.positions = self._positions()
        reset_values = [c.reset_value for c in self.components if c.absorbs_bottom and c.reset_value is not None]
        factors = cascade.graph.cone(w for c in self.components for w, _ in c.factor)
        recomputed = [w for w in factors if cascade.repeatable(w)]
        self.repeated = {*cascade.graph.cone((*reset_values, *recomputed)), cascade.truth(False), cascade.truth(True)}
        self.inputs = self._boundary()

    def _positions(self) -> set[int]:
        """The wires that index arrays of views in the loop are computed from, if these are sizes and positions only.
        They are in range only where they are computed in the loop itself.
        """
        found: set[int] = set()
        for w in range(len(self.graph.types)):
            node = self.graph.node(w)
            if node is not None and isinstance(node.box.op, View) and w not in self.cascade.outside:
                for index in node.inputs[len(node.box.op.reads) :]:
                    cone = self.graph.cone([index])
                    found |= set(cone) if all(self.graph.node(v) is not None for v in cone) else set()
        return found

    def _state_type(self, c: Component) -> ArrayType:
        ty = self.graph.types[c.wire]
        return ArrayType(ty.axes, "extended" if c.monoid == "max" else ty.element)

    def _outside(self, wire: int) -> bool:
        """Whether a wire is made before the loop: an input, or independent of the axis, or one that needs the whole
        axis.
        """
        terms = self.graph
        if terms.node(wire) is None or wire in self.cascade.outside:
            return True
        if terms.late[wire] or self.cascade.has_axis(wire) or terms.is_const(wire) or wire in self.repeated:
            return False
        return wire not in self.positions

    def _boundary(self) -> list[int]:
        """The inputs of the loop: wires made outside of it that its bodies read."""
        components = {c.wire for c in self.components}
        found: set[int] = set()
        for c in self.components:
            node = self.graph.node(c.wire)
            assert node is not None
            todo = [*node.inputs, *c.on, *c.scales()]
            seen: set[int] = set()
            while todo:
                w = todo.pop()
                if w in seen or w in components:
                    continue
                seen.add(w)
                inner = self.graph.node(w)
                if self._outside(w):
                    found.add(w)
                elif inner is not None:
                    todo.extend(inner.inputs)
        return sorted(found)

    # -- the four bodies ------------------------------------------------------------------------

    def _emitter(self, dom: Sequence[ArrayType]) -> GraphBuilder:
        return GraphBuilder(self.graph, [localized(t, self.local) for t in dom], self.local, self.cascade.safe)

    def unit(self) -> Diagram:
        """The state of the empty list."""
        builder = self._emitter([])
        outputs = []
        for c, ty in zip(self.components, self.states, strict=True):
            if c.monoid in ("any", "all"):
                ends = [builder.add(const_box(Fraction(k)), ()) for k in (0, 1)]
                wire = builder.map("lt", *(ends if c.monoid == "all" else ends[::-1]))
            else:
                wire = builder.add(Box(Const(unit_of(c.monoid)), Ty(), Ty(ArrayType((), ty.element))), ())
            outputs.append(builder.cast(wire, ty))
        return builder.diagram(outputs, ())

    def state(self) -> Diagram:
        """The state of a list: each component with the statistics of that list."""
        builder = self._emitter([self.graph.types[w] for w in self.inputs])
        env = {w: k for k, w in enumerate(self.inputs)}
        outputs = [builder.emit(c.wire, env, ty) for c, ty in zip(self.components, self.states, strict=True)]
        return builder.diagram(outputs, self.input_names())

    def step(self) -> Diagram:
        """One iteration: the new maxima, the elements with the new statistics, then the accumulators."""
        count = len(self.states)
        builder = self._emitter([*self.states, *(self.graph.types[w] for w in self.inputs)])
        streamed = {w: count + k for k, w in enumerate(self.inputs)}
        old = {**{c.wire: k for k, c in enumerate(self.components)}, **streamed}
        new = dict(streamed)
        outputs = []
        for k, c in enumerate(self.components):
            before = self._repaired(builder, c, k, dict(old), new)
            node = self.graph.node(c.wire)
            assert node is not None
            inputs = [builder.emit(i, new) for i in node.inputs]
            ty = self.states[k]
            dom = Ty(*(builder.types[i] for i in inputs))
            element = element_type(node.box, list(dom)) if c.monoid == "max" else ty.element
            block = builder.add(Box(node.box.op, dom, Ty(ArrayType(ty.axes, element)), node.box.line), inputs)
            new[c.wire] = self._combined(builder, c, before, block, ty)
            outputs.append(new[c.wire])
        return builder.diagram(outputs, (*self.names, *self.input_names()))

    def merge(self) -> Diagram:
        """The state of two consecutive lists, from their states."""
        count = len(self.states)
        builder = self._emitter([*self.states, *self.states])
        left = {c.wire: k for k, c in enumerate(self.components)}
        right = {c.wire: count + k for k, c in enumerate(self.components)}
        new: dict[int, int] = {}
        outputs = []
        for k, c in enumerate(self.components):
            parts = [self._repaired(builder, c, side[c.wire], dict(side), new) for side in (left, right)]
            new[c.wire] = self._combined(builder, c, parts[0], parts[1], self.states[k])
            outputs.append(new[c.wire])
        return builder.diagram(outputs, (*self.names, *(f"{n}′" for n in self.names)))

    def _repaired(
        self, builder: GraphBuilder, c: Component, value: int, old: dict[int, int], new: dict[int, int]
    ) -> int:
        """The accumulator of a component after its statistics changed from `old` to `new`."""
        return self._rescaled(builder, c, self._selected(builder, c, value, old, new), old, new)

    def _selected(
        self, builder: GraphBuilder, c: Component, value: int, old: dict[int, int], new: dict[int, int]
    ) -> int:
        """An accumulator of selections: unchanged where no statistic changed, else the value that the elements
        fall to.
        """
        if not c.on:
            return value
        kept: int | None = None
        for w in c.on:
            same = builder.map("eq", builder.emit(w, dict(old)), builder.emit(w, new))
            kept = same if kept is None else builder.map("and", kept, same)
        assert kept is not None
        if c.absorbs_bottom:
            kept = builder.map("or", kept, builder.map("eq", value, builder.add(const_box(None), ())))
        if c.monoid in ("any", "all"):
            if c.reset_value is None:
                return builder.map("and" if c.monoid == "any" else "or", value,
                                   kept if c.monoid == "any" else builder.map("not", kept))  # fmt: skip
            other = builder.map("and", builder.map("not", kept), builder.emit(c.reset_value, dict(old)))
            return builder.map("or", builder.map("and", kept, value), other)
        return builder.map("where", kept, value, self._reset_value(builder, c, old))

    def _reset_value(self, builder: GraphBuilder, c: Component, old: dict[int, int]) -> int:
        if c.reset_value is not None:
            return builder.emit(c.reset_value, dict(old))
        return builder.add(const_box(unit_of(c.monoid)), ())

    def _rescaled(
        self, builder: GraphBuilder, c: Component, value: int, old: dict[int, int], new: dict[int, int]
    ) -> int:
        """An accumulator rescaled to the new statistics."""
        for w, p in c.factor:
            # Factor by factor: powers of a very small factor would underflow.
            sides = [builder.emit(w, env) for env in ((old, new) if p < 0 else (new, old))]
            for _ in range(abs(p)):
                value = builder.map("mul", value, builder.map("div", *sides))
        if c.scale is None:
            return value
        change = builder.map("sub", builder.emit(c.scale, old), builder.emit(c.scale, new))
        rho = builder.map("exp", change)
        if c.guards:
            # If all of these are −∞, nothing is accumulated yet; otherwise exp(μ − μ′) is defined.
            bottom = builder.add(const_box(None), ())
            guard: int | None = None
            for w in c.guards:
                empty = builder.map("eq", builder.emit(w, old), bottom)
                for name in builder.types[empty].names:
                    if name not in builder.types[value].names:
                        empty = builder.add(reduce_box("all", name, builder.types[empty]), (empty,))
                guard = empty if guard is None else builder.map("and", guard, empty)
            assert guard is not None
            rho = builder.map("where", guard, builder.add(const_box(Fraction(0)), ()), rho)
        return builder.map("mul", value, rho)

    def _combined(self, builder: GraphBuilder, c: Component, left: int, right: int, ty: ArrayType) -> int:
        dom = Ty(builder.types[left], builder.types[right])
        made = map_box(COMBINES[c.monoid], list(dom))
        if made.cod[0].names == ty.names:
            return builder.add(Box(made.op, dom, Ty(ty)), (left, right))
        return builder.cast(builder.add(made, (left, right)), ty)

    # -- the diagram around it ------------------------------------------------------------------

    def input_names(self) -> tuple[str, ...]:
        """A name for each input of the loop: the user's, or one made from the box that makes it."""
        given = self.source.input_names
        taken = {*given, *self.names}
        found = []
        for w in self.inputs:
            node = self.graph.node(w)
            if node is None:
                found.append(given[w])
                continue
            base = re.sub(r"\W+", "_", node.box.name).strip("_") or "value"
            name, k = base, 1
            while name in taken:
                k += 1
                name = f"{base}{k}"
            taken.add(name)
            found.append(name)
        return tuple(found)

    def streamed(self) -> Streamed:
        """The whole diagram: boxes before the loop, the loop, boxes after it."""
        fold = FoldOp(self.axis, self.block, self.unit(), self.step(), self.merge(), self.state(), self.names)
        terms = self.graph
        builder = GraphBuilder(terms, terms.dom.arrays)
        env = {w: w for w in range(len(terms.dom))}
        before = [builder.emit(w, env) for w in self.inputs]
        dom = Ty(*(builder.types[w] for w in before))
        first = builder.add(Box(fold, dom, Ty(*self.states)), before)
        for k, c in enumerate(self.components):
            ty = terms.types[c.wire]
            env[c.wire] = builder.cast(first + k, ty)
        outputs = [
            builder.cast(builder.emit(w, env), ty) for w, ty in zip(self.cascade.outputs, self.source.cod, strict=True)
        ]
        made = builder.diagram(outputs, self.source.names)
        made.title = self.source.title
        return Streamed(made, fold, self.cascade.mode, tuple(self.cascade.dropped))


def unit_of(monoid: str) -> Fraction | None:
    """The unit of a monoid of numbers; None for minus infinity."""
    return None if monoid == "max" else Fraction(1 if monoid == "prod" else 0)


def component_names(components: Sequence[Component], taken: Sequence[str]) -> tuple[str, ...]:
    """A name for each component, of its monoid and number: `max1`, `sum2`."""
    found: list[str] = []
    for k, c in enumerate(components, 1):
        name = f"{c.monoid}{k}"
        while name in taken or name in found:
            name += "_"
        found.append(name)
    return tuple(found)


def _in_order(cascade: Cascade) -> list[Component]:
    """The components in topological order: each after those that its elements and its repair depend on."""
    terms, components = cascade.graph, cascade.components
    reads: dict[int, set[int]] = {}
    for w, c in components.items():
        node = terms.node(w)
        assert node is not None
        roots = [*node.inputs, *c.guards, *c.on, *c.scales()]
        reads[w] = {v for v in terms.cone(roots, components) if v in components}
    return [components[w] for w in topological_order(reads)]
