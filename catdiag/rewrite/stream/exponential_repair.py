"""Exponentials kept as the user wrote them: their scale, when a repair is defined, and how it is guarded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from catdiag.category.ops import Box, Einsum, Index, Map, Reduce, Reindex, Rename, SizeOf, View
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.stream.separable_form import Algebra, Form, Monomial, Scale, SeparableTerm, collect, scaled, times

MODES = ("plain", "guarded", "shifted", "whole", "greatest", "none", "raised")
"""How exponentials are stabilised, in order of preference.

- `plain`: as the user wrote them, guarded where the empty list leaves the repair undefined;
- `guarded`: every repair is guarded on the maxima that it uses being above minus infinity;
- `shifted`: the same, minus infinity replaced by a number, with no guard on the repair itself;
- `whole`: guarded, and no part of an exponent is moved out of the loop;
- `greatest`: the greatest exponent itself is subtracted, whatever the program subtracts that is no maximum;
- `none`: `exp(b − μ) = exp(b)·exp(−μ)`, nothing to repair and nothing stabilised;
- `raised`: as `shifted`, with the larger of a maximum and the number, which grows with the maximum.
"""

FALLING = ("raised", "shifted", "guarded", "whole", "plain", "greatest", "none")
"""The same where what is subtracted may be minus infinity on a list that is not empty, a block that a mask empties: as
the user wrote them they are undefined there, and a number for minus infinity is all that is needed.
"""

# What stands for minus infinity where a maximum is subtracted: so low that exp(LOW − m) is 0 in floating point for most
# other maxima m, as the exponential of minus infinity is; with 0 it would overflow where all of x is below −700. Where
# nothing but the maximum is subtracted, it is the least number of double precision, and in another type that type's own
# (`catdiag.category.ops.clamped`): it stands for no other maximum m, and exp(LEAST − m) never overflows.
LOW, LOWEST = Fraction(-(10**30)), Fraction(-(2**1024 - 2**971))

_UNGUARDED = ("plain", "greatest")

# Scalar functions that are defined everywhere, so that a statistic made by them is defined on every block.
_TOTAL = frozenset(
    ("add", "sub", "mul", "neg", "exp", "tanh", "sigmoid", "abs", "max", "min", "where", "eq", "ne", "lt", "le", "not")
)


@dataclass
class Component:
    """One accumulator: the wire that is its value on a list, its monoid, and its repair.

    The repair multiplies by exp(μ(old) − μ(new)), of the `scale` μ, and by (σ(new)/σ(old))^p for each power of a
    `factor`. Where one of the statistics `on` has changed it
    puts `fallen` in its place, or the unit for None; with `sticky`, not in the place of minus infinity.
    """

    wire: int
    monoid: str
    line: str | None
    scale: int | None = None
    guards: tuple[int, ...] = ()
    on: tuple[int, ...] = ()
    fallen: int | None = None
    sticky: bool = False
    factor: Monomial = ()

    def scales(self) -> tuple[int, ...]:
        """The wires with which elements are scaled."""
        return (*(() if self.scale is None else (self.scale,)), *(w for w, _ in self.factor))


class Stabilizer(Algebra):
    """Forms together with the components of the state, on which scales depend."""

    def __init__(self, terms: HashConsedGraph, axis: Axis, mode: str = "plain") -> None:
        super().__init__(terms, axis.name)
        self.mode = mode
        self.streamed = axis
        self.components: dict[int, Component] = {}
        self.safe: set[int] = set()
        self.exponents: dict[int, Form] = {}
        self.origin: dict[int, Box] = {}
        # Exponentials of statistics that were moved out of the loop.
        self.factors_moved: set[int] = set()
        # Whether the greatest element is subtracted where the program subtracts something else.
        self.greatest = False

    def stabilized(
        self, elements: Form, kept: Form, moved: Form, guarded: bool, direct: int | None, line: str | None = None
    ) -> Form:
        """The exponential of `elements − kept − moved`, of which `kept` is the scale; `direct` is its wire, if any."""
        terms = self.graph
        if not kept:
            return (
                SeparableTerm(
                    Fraction(1), self._moved_factor(moved, line), terms.map("exp", self.emit(elements), line=line)
                ),
            )
        scale = tuple(map(self._absorb, kept)) if self.mode in _UNGUARDED else kept
        element = direct
        if element is None or moved or scale != kept:
            element = terms.map("exp", terms.map("sub", self.emit(elements), self.emit(scale)), line=line)
        guards: tuple[int, ...] = ()
        if guarded:
            maxima = self._maxima(w for t in scale for w, _ in t.monomial)
            # A multiple of unknown sign could be as high as it should be low.
            falls = all(t.coefficient > 0 and len(t.monomial) == 1 and self._is_maximum(t.monomial[0]) for t in scale)
            alone = not moved and len(scale) == 1 and scale[0].coefficient <= 1
            lowest = LOWEST if alone and self.mode == "raised" else LOW
            low = lowest if falls else Fraction(0)
            safe = {w: self._safe(w, low) for w in maxima}
            change = {w: terms.substitute(w, safe, self.components) for t in scale for w, _ in t.monomial}
            scale, moved = (
                tuple(
                    SeparableTerm(t.coefficient, tuple(sorted((change.get(w, w), p) for w, p in t.monomial)))
                    for t in form
                )
                for form in (scale, moved)
            )
            element = terms.substitute(element, safe, self.components)
            guards = tuple(maxima) if self.mode not in ("shifted", "raised") else ()
        self.set_scale(element, Scale(tuple((t.coefficient, t.monomial) for t in scale), guards))
        self.exponents[element] = (*elements, *scaled(scale, Fraction(-1)))
        return (SeparableTerm(Fraction(1), self._moved_factor(moved, line), element),)

    def _moved_factor(self, moved: Form, line: str | None) -> Monomial:
        """exp(−moved), a factor outside of the loop."""
        if not moved:
            return ()
        wire = self.graph.map("exp", self.emit(scaled(moved, Fraction(-1))), line=line)
        if self.mode != "none":
            self.factors_moved.add(wire)
        return ((wire, 1),)

    def scale_of(self, elements: Form, statistics: Form, bare: Form, line: str | None) -> tuple[Form, Form, bool]:
        """What is subtracted in the exponential of `elements − statistics`, as `split` gives it; `bare` are the same
        statistics with maxima for what stands for them.

        Where a factor of unknown sign is between a maximum and its exponent, or a maximum is seen through a function,
        the greatest of the elements is subtracted itself, whatever the factor: `exp(b − c) = exp(b − μ)·exp(μ − c)`
        for μ = max b. What is left, μ − c, is a statistic: 0 where c is the greatest of the elements.
        """
        kept, moved, guarded = self.split(bare)
        if self.mode in ("none", "whole"):
            return kept, moved, guarded
        unbounded = any(self._has_factor(t) for t in kept)
        hidden = not kept and self._maxima(w for t in moved for w, _ in t.monomial)
        if not unbounded and not hidden:
            return kept, moved, guarded
        self.greatest = True
        names = {n for t in statistics for w, _ in t.monomial for n in self.graph.names(w)}
        top = self.emit(elements)
        for name in self.graph.names(top):
            if name not in names and name != self.axis:
                top = self.graph.reduce("max", name, top, line)
        greatest = (
            SeparableTerm(
                Fraction(1), ((self.component(self.graph.reduce("max", self.axis, top, line), "max", line), 1),)
            ),
        )
        return greatest, collect((*statistics, *scaled(greatest, Fraction(-1)))), self.mode not in _UNGUARDED

    def _has_factor(self, t: SeparableTerm) -> bool:
        """Whether a summand of a scale is a product that is no maximum, and undefined where a maximum is −∞."""
        bare = self._absorb(t)
        product = bare.coefficient != 1 or len(bare.monomial) != 1
        if self.mode == "greatest":
            product = product or not self._is_maximum(bare.monomial[0])
        return product and self._falls([w for w, _ in bare.monomial if self.graph.late[w]], empty=True)

    def split(self, statistics: Form) -> tuple[Form, Form, bool]:
        """The summands of a scale: those kept in the loop, those moved out of it, and whether a guard is needed."""
        if self.mode == "none":
            return (), statistics, False
        kept, moved, guarded = [], [], self.mode not in _UNGUARDED
        for t in statistics:
            late = [(w, p) for w, p in t.monomial if self.graph.late[w]]
            if self.mode != "whole" and (any(p < 0 for _, p in late) or not self._total(w for w, _ in late)):
                moved.append(t)
                continue
            kept.append(t)
            bare = self._absorb(t)
            if self._falls([w for w, _ in late], empty=True) and not (
                bare.coefficient == 1 and len(bare.monomial) == 1 and self._is_maximum(bare.monomial[0])
            ):
                guarded = True
        return tuple(kept), tuple(moved), guarded

    def stood_for(self, statistics: Form) -> Form:
        """Statistics with the maxima themselves for what stands for them where they are minus infinity.

        In the loop something stands for them where it has to: a number that repairs do not grow by.
        """
        change = {w: self._stood_for(w) for t in statistics for w, _ in t.monomial}
        return tuple(
            SeparableTerm(t.coefficient, tuple(sorted((change[w], p) for w, p in t.monomial)), t.element, t.bound)
            for t in statistics
        )

    def _stood_for(self, wire: int) -> int:
        """Of `where(m = -∞, number, m)`, m a maximum of the state, m; any other wire."""
        terms, node = self.graph, self.graph.node(wire)
        if node is None or terms.function_of(wire) != "where" or terms.const_value(node.inputs[1]) is None:
            return wire
        test, top = terms.node(node.inputs[0]), node.inputs[2]
        if test is None or terms.function_of(node.inputs[0]) != "eq" or test.inputs[0] != top:
            return wire
        return top if terms.is_bottom(test.inputs[1]) and self._is_maximum((top, 1)) else wire

    def expand(self, form: Form) -> Form:
        """Statistics that are sums, taken apart into their summands."""
        todo, found = list(form), []
        while todo:
            t = todo.pop(0)
            if t.bound:
                todo.insert(0, SeparableTerm(Fraction(1), ((self.emit((t,)), 1),)))
                continue
            place = next((k for k, (w, p) in enumerate(t.monomial) if p == 1 and self._is_sum(w)), None)
            if place is None:
                found.append(t)
                continue
            wire = t.monomial[place][0]
            rest = times(t.monomial, ((wire, 1),), -1)
            for s in reversed(self._summands(wire)):
                todo.insert(0, SeparableTerm(t.coefficient * s.coefficient, times(rest, s.monomial)))
        return collect(found)

    def _is_sum(self, wire: int) -> bool:
        node = self.graph.node(wire)
        if node is None or not self.graph.late[wire]:
            return False
        fn = self.graph.function_of(wire)
        if fn in ("mul", "div"):
            return sum(self.graph.late[w] for w in node.inputs) == 1 and (
                fn == "mul" or self.graph.late[node.inputs[0]]
            )
        return fn in ("add", "sub", "neg")

    def _summands(self, wire: int) -> Form:
        node = self.graph.node(wire)
        assert node is not None
        fn = self.graph.function_of(wire)
        parts = [self.atom(w) for w in node.inputs]
        if fn == "neg":
            return scaled(parts[0], Fraction(-1))
        if fn in ("mul", "div"):
            if fn == "mul":
                return self.multiply(parts[0], parts[1])
            return self.divide(parts[0], parts[1]) or ()
        return (*parts[0], *scaled(parts[1], Fraction(1 if fn == "add" else -1)))

    def _absorb(self, t: SeparableTerm) -> SeparableTerm:
        """An early factor of a scale taken into its component: `β·max_x S` is `max_x β·S` for β > 0."""
        late = [(w, p) for w, p in t.monomial if self.graph.late[w]]
        if len(late) != 1 or late[0][1] != 1 or t.bound:
            return t
        component = self.components.get(late[0][0])
        factors = times(t.monomial, tuple(late), -1)
        if component is None or component.scale is not None or (t.coefficient == 1 and not factors):
            return t
        if component.monoid == "sum" and all(self._closed(w) for w, _ in factors):
            return t
        node = self.graph.node(component.wire)
        if node is None or not isinstance(node.box.op, Reduce):
            return t
        positive = t.coefficient > 0 and all(self.graph.positive[w] for w, _ in factors)
        if not (component.monoid == "sum" or (component.monoid == "max" and positive)):
            return t
        element = self.emit((SeparableTerm(t.coefficient, factors, node.inputs[0]),))
        made = self.graph.reduce(component.monoid, self.axis, element, component.line)
        return SeparableTerm(Fraction(1), ((self.component(made, component.monoid, component.line), 1),))

    def _maxima(self, wires: Iterable[int]) -> list[int]:
        """The components that are maxima among those which wires are made of."""
        cone = self.graph.cone(wires, self.components)
        return [w for w in cone if w in self.components and self.components[w].monoid == "max"]

    def _is_maximum(self, factor: tuple[int, int]) -> bool:
        component = self.components.get(factor[0])
        return component is not None and component.monoid == "max" and factor[1] == 1

    def _total(self, wires: Iterable[int]) -> bool:
        """Whether statistics are defined whatever the components are."""
        for w in self.graph.cone(wires, self.components):
            node = self.graph.node(w)
            if w in self.components or node is None or not self.graph.late[w]:
                continue
            op = node.box.op
            if isinstance(op, Map):
                if (
                    op.fn not in _TOTAL
                    and not op.fn.startswith("cast:")
                    and not (op.fn == "div" and not self.graph.late[node.inputs[1]])
                ):
                    return False
            elif not isinstance(op, (Einsum, Rename, Reindex, View, Reduce)):
                return False
        return True

    def _safe(self, wire: int, low: Fraction = Fraction(0)) -> int:
        """A maximum with another number for minus infinity, a real number on every list."""
        terms, ty = self.graph, self.graph.types[wire]
        if low < 0 and self.mode == "raised":
            # It grows with the maximum, so that no repair is an exponential of more than 0.
            made = terms.map("max", wire, terms.const(low))
        else:
            made = terms.map("where", terms.map("eq", wire, terms.const(None)), terms.const(low), wire)
        node = terms.node(made)
        assert node is not None
        made = terms.add(Box(node.box.op, node.box.dom, Ty(ArrayType(ty.axes, "real"))), node.inputs)
        self.safe.add(made)
        return made

    def falls(self) -> bool:
        """Whether a scale, or what guards it, may be minus infinity on a list that is not empty."""
        return self._falls([s for c in self.components.values() if c.scale is not None for s in (c.scale, *c.guards)])

    def _falls(self, wires: Sequence[int], empty: bool = False) -> bool:
        """Whether one of these wires may be minus infinity, on lists that are not empty or on all."""
        terms = self.graph
        low: dict[int, bool] = {}
        for w in terms.cone(wires):
            node, fn, extended = terms.node(w), terms.function_of(w), terms.types[w].element == "extended"
            if node is None or not node.inputs:
                low[w] = extended
            elif empty and w in self.components:
                low[w] = self.components[w].monoid == "max"
            else:
                # A maximum falls with all of its terms, other functions with any.
                parts = [low[i] for i in node.inputs]
                falls = all(parts) if fn == "max" else fn != "exp" and any(parts[fn == "where" :])
                low[w] = falls and (empty or extended)
        return any(low[w] for w in wires)

    def component(self, wire: int, monoid: str, line: str | None) -> int:
        """The wire, which is a part of the loop's state from here on."""
        if wire not in self.components:
            self.graph.mark(wire)
            self.components[wire] = Component(wire, monoid, line)
            if self.here is not None:
                self.origin.setdefault(wire, self.here)
        return wire

    def close(self, wire: int, scale: Scale, line: str | None) -> int:
        """A sum over the axis becomes a component, with the repair that its elements' scale asks for."""
        known = wire in self.components
        self.component(wire, "sum", line)
        if not scale or known:
            return wire
        component = self.components[wire]
        component.scale = self.emit_scale(scale) if scale.terms else None
        component.guards, component.factor = scale.guards, scale.factor
        again = self.repeatable if scale.factor else self._closed
        carried: dict[int, int] = {}
        for w in self.graph.cone(component.scales(), self.components):
            node = self.graph.node(w)
            if node is None or w in self.components or not self.graph.late[w]:
                continue
            for i in node.inputs:
                if i not in carried and not self.graph.late[i] and not again(i):
                    carried[i] = self._carried_maximum(i)
        if carried:
            safe = {w: self._safe(made) for w, made in carried.items()}
            change = {w: self.graph.substitute(w, safe, self.components) for w in component.scales()}
            component.factor = tuple((change[w], p) for w, p in component.factor)
            if component.scale is not None:
                component.scale = change[component.scale]
                component.guards = scale.guards or tuple(carried.values())
        if component.fallen in self.components:
            other = self.components[component.fallen]
            other.scale, other.guards, other.factor = component.scale, component.guards, component.factor
        return wire

    def repeatable(self, wire: int) -> bool:
        """Whether constants and sizes alone make an early wire, so that a merge can make it again."""
        return all(self.graph.node(w) is not None for w in self.graph.cone([wire])) and not self.graph.late[wire]

    def _closed(self, wire: int) -> bool:
        """Whether constants alone make an early wire, so that a merge can make it again."""
        ops = [node.box.op if (node := self.graph.node(w)) is not None else None for w in self.graph.cone([wire])]
        return not any(op is None or isinstance(op, (SizeOf, Index)) for op in ops)

    def _carried_maximum(self, wire: int) -> int:
        """An array that the repair needs and that is no statistic, kept in the state as its maximum over the axis."""
        ty = self.graph.types[wire]
        repeated = self.graph.cast(wire, ArrayType((*ty.axes, self.streamed), ty.element))
        return self.component(self.graph.reduce("max", self.axis, repeated), "max", None)
