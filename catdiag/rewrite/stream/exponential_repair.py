"""Repair of exponentials: the scale that is subtracted in the exponent, where the repair is defined, and its guards.

An accumulator of `exp(b − μ(r))` is repaired by `exp(μ(r) − μ(r′))` when the list r grows to r′ (online softmax;
Milakov and Gimelshein 2018; derived here for any scale μ).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from catdiag.category.op_facts import scalar_function
from catdiag.category.ops import (
    INDEX_MAPS,
    REDUCTIONS,
    Box,
    Const,
    Reduce,
)
from catdiag.category.scalars import Cast
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.stream.separable_form import Algebra, Form, Monomial, Scale, SeparableTerm, collect, scaled, times

MODES = ("plain", "guarded", "shifted", "whole", "greatest", "none", "raised")
"""Modes of stabilizing exponentials, in order of preference.

- `plain`: as the user wrote them, with a guard where the repair is undefined for the empty list;
- `guarded`: every repair has a guard: the maxima that it uses are above −∞;
- `shifted`: maxima of −∞ are replaced by a number, and the repair needs no guard;
- `whole`: as `guarded`, and no summand of an exponent is moved out of the loop;
- `greatest`: the maximum of the exponents is subtracted, where the program subtracts something else than a maximum;
- `none`: `exp(b − μ) = exp(b)·exp(−μ)`: no repair, and no protection against overflow;
- `raised`: as `shifted`, but a maximum is replaced by the larger of it and the number, which is monotone.
"""

MODES_WITH_BOTTOM = ("raised", "shifted", "guarded", "whole", "plain", "greatest", "none")
"""The order of preference where the subtracted maximum may be −∞ on a nonempty list, such as a block that is masked.

The exponentials as the user wrote them are undefined there, and replacing −∞ by a number is enough.
"""

# Replaces −∞ where a maximum is subtracted. It is so low that exp(LOW − m) is 0 in floating point for most other maxima
# m, as exp(−∞) is. With 0 in its place the exponential would overflow where all of x is below −700. Where only the
# maximum is subtracted, the replacement is the least number of double precision, or of the type of the array
# (`catdiag.category.ops.clamped`): no other maximum is below it, and exp(LOWEST − m) never overflows.
LOW, LOWEST = Fraction(-(10**30)), Fraction(-(2**1024 - 2**971))

_UNGUARDED = ("plain", "greatest")

# Total scalar functions: a statistic that they compute is defined on every block.
_TOTAL = frozenset(
    ("add", "sub", "mul", "neg", "exp", "tanh", "sigmoid", "abs", "max", "min", "where", "eq", "ne", "lt", "le", "not",
     "erf", "sin", "cos", "sign", "floor", "ceil", "round", "uniform")
)  # fmt: skip


@dataclass
class Component:
    """One accumulator of the state: the wire with its value on a list, its monoid, and its repair.

    The repair multiplies by exp(μ(old) − μ(new)) for its `scale` μ, and by (σ(new)/σ(old))^p for each power of its
    `factor`. If one of the statistics `on` has changed, the accumulator is replaced by `reset_value`, or by the unit of
    the monoid if `reset_value` is None. With `absorbs_bottom`, an accumulator of −∞ (an empty list) is not replaced.
    """

    wire: int
    monoid: str
    line: str | None
    scale: int | None = None
    guards: tuple[int, ...] = ()
    on: tuple[int, ...] = ()
    reset_value: int | None = None
    absorbs_bottom: bool = False
    factor: Monomial = ()

    def scales(self) -> tuple[int, ...]:
        """The wires that the elements are scaled with: μ and each σ."""
        return (*(() if self.scale is None else (self.scale,)), *(w for w, _ in self.factor))


class Stabilizer(Algebra):
    """Forms with the components of the state that their scales depend on."""

    def __init__(self, terms: HashConsedGraph, axis: Axis, mode: str = "plain") -> None:
        super().__init__(terms, axis.name)
        self.mode = mode
        self.streamed = axis
        self.components: dict[int, Component] = {}
        self.safe: set[int] = set()
        self.exponents: dict[int, Form] = {}
        self.origin: dict[int, Box] = {}
        # Exponentials of statistics that were moved out of the loop as factors.
        self.factors_moved: set[int] = set()
        # Whether the maximum of the elements is subtracted where the program subtracts something else.
        self.greatest = False
        # Whether an exponential has a scale, which is all that the mode is about.
        self.scales_exponentials = False

    def stabilized(
        self, elements: Form, kept: Form, moved: Form, guarded: bool, direct: int | None, line: str | None = None
    ) -> Form:
        """The exponential of `elements − kept − moved` with the scale `kept`; `moved` becomes a factor outside of the
        loop.

        `direct` is the user's own wire of the exponential; None where what it subtracts was changed.
        """
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
            # A multiple of unknown sign could turn a low number into a high one.
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
        """exp(−moved), as a factor outside of the loop."""
        if not moved:
            return ()
        wire = self.graph.map("exp", self.emit(scaled(moved, Fraction(-1))), line=line)
        if self.mode != "none":
            self.factors_moved.add(wire)
        return ((wire, 1),)

    def scale_of(self, elements: Form, statistics: Form, bare: Form, line: str | None) -> tuple[Form, Form, bool]:
        """What is subtracted in the exponential of `elements − statistics`: the part kept in the loop, the part moved
        out of it, and whether guards are needed, as `split` gives them. `bare` are the statistics with the maxima
        themselves in place of their replacements.

        The program may subtract a multiple of a maximum by a factor of unknown sign, a function of a maximum, or its
        maximum with an array, which merges would have to know. Then the maximum of the elements is subtracted instead:
        `exp(b − c) = exp(b − μ)·exp(μ − c)` for μ = max b. The rest, μ − c, is a statistic; it is 0 if c is the maximum
        of the elements.
        """
        self.scales_exponentials = True
        kept, moved, guarded = self.split(bare)
        if self.mode in ("none", "whole"):
            return kept, moved, guarded
        unbounded = any(self._has_factor(t) for t in kept)
        hidden = not kept and self._maxima(w for t in moved for w, _ in t.monomial)
        if not unbounded and not hidden and not any(map(self._reads_arrays, kept)):
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
        """Whether a summand of a scale is no plain maximum, and is undefined where a maximum is −∞."""
        bare = self._absorb(t)
        product = bare.coefficient != 1 or len(bare.monomial) != 1
        if self.mode == "greatest":
            product = product or not self._is_maximum(bare.monomial[0])
        return product and self._may_be_bottom([w for w, _ in bare.monomial if self.graph.late[w]], empty=True)

    def _reads_arrays(self, t: SeparableTerm) -> bool:
        """Whether a summand of a scale is a function of statistics and of arrays that are none."""
        for w in self.graph.cone((w for w, _ in t.monomial if self.graph.late[w]), self.components):
            node = self.graph.node(w)
            if node is None or w in self.components or not self.graph.late[w]:
                continue
            if any(not self.graph.late[i] and not self._closed(i) for i in node.inputs):
                return True
        return False

    def split(self, statistics: Form) -> tuple[Form, Form, bool]:
        """The summands of a scale: those kept in the loop, those moved out of it, and whether guards are needed."""
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
            if self._may_be_bottom([w for w, _ in late], empty=True) and not (
                bare.coefficient == 1 and len(bare.monomial) == 1 and self._is_maximum(bare.monomial[0])
            ):
                guarded = True
        return tuple(kept), tuple(moved), guarded

    def without_replacements(self, statistics: Form) -> Form:
        """Statistics with the maxima themselves in place of `where(m = -∞, number, m)`.

        The loop chooses its own replacement of −∞ where it needs one.
        """
        change = {w: self._without_replacement(w) for t in statistics for w, _ in t.monomial}
        return tuple(
            SeparableTerm(t.coefficient, tuple(sorted((change[w], p) for w, p in t.monomial)), t.element, t.bound)
            for t in statistics
        )

    def _without_replacement(self, wire: int) -> int:
        """For `where(m = -∞, number, m)` with a maximum m of the state: m; any other wire itself."""
        terms, node = self.graph, self.graph.node(wire)
        if node is None or terms.function_of(wire) != "where" or terms.const_value(node.inputs[1]) is None:
            return wire
        test, top = terms.node(node.inputs[0]), node.inputs[2]
        if test is None or terms.function_of(node.inputs[0]) != "eq" or test.inputs[0] != top:
            return wire
        return top if terms.is_bottom(test.inputs[1]) and self._is_maximum((top, 1)) else wire

    def expand(self, form: Form) -> Form:
        """Statistics that are sums, expanded into their summands."""
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
        """A factor of a scale that does not depend on the axis, moved into the component: `β·max_x S` is `max_x β·S`
        for β > 0.
        """
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
        """The components that are maxima and that some wires depend on."""
        cone = self.graph.cone(wires, self.components)
        return [w for w in cone if w in self.components and self.components[w].monoid == "max"]

    def _is_maximum(self, factor: tuple[int, int]) -> bool:
        component = self.components.get(factor[0])
        return component is not None and component.monoid == "max" and factor[1] == 1

    def _total(self, wires: Iterable[int]) -> bool:
        """Whether statistics are defined for all values of the components."""
        for w in self.graph.cone(wires, self.components):
            node = self.graph.node(w)
            if w in self.components or node is None or not self.graph.late[w]:
                continue
            fn = scalar_function(node.box.op)
            total = fn in _TOTAL or isinstance(fn, Cast) or (fn == "div" and not self.graph.late[node.inputs[1]])
            if not total and not isinstance(node.box.op, (*REDUCTIONS, *INDEX_MAPS)):
                return False
        return True

    def _safe(self, wire: int, low: Fraction = Fraction(0)) -> int:
        """A maximum with a number in place of −∞: a real number for every list."""
        terms, ty = self.graph, self.graph.types[wire]
        if low < 0 and self.mode == "raised":
            # It is monotone in the maximum, so that no repair is an exponential of a positive number.
            made = terms.map("max", wire, terms.const(low))
        else:
            made = terms.map("where", terms.map("eq", wire, terms.const(None)), terms.const(low), wire)
        node = terms.node(made)
        assert node is not None
        made = terms.add(Box(node.box.op, node.box.dom, Ty(ArrayType(ty.axes, "real"))), node.inputs)
        self.safe.add(made)
        return made

    def may_be_bottom(self) -> bool:
        """Whether some scale, or a guard of one, may be −∞ for a list that is not empty."""
        return self._may_be_bottom(
            [s for c in self.components.values() if c.scale is not None for s in (c.scale, *c.guards)]
        )

    def _may_be_bottom(self, wires: Sequence[int], empty: bool = False) -> bool:
        """Whether one of the wires may be −∞: for nonempty lists, or with `empty` for some list."""
        terms = self.graph
        low: dict[int, bool] = {}
        for w in terms.cone(wires):
            node, fn, extended = terms.node(w), terms.function_of(w), terms.types[w].element == "extended"
            if node is None or not node.inputs:
                low[w] = extended
            elif empty and w in self.components:
                low[w] = self.components[w].monoid == "max"
            else:
                # A maximum is −∞ if all of its operands are, other functions may be if any operand is.
                parts = [low[i] for i in node.inputs]
                falls = all(parts) if fn == "max" else fn != "exp" and any(parts[fn == "where" :])
                low[w] = falls and (empty or extended)
        return any(low[w] for w in wires)

    def component(self, wire: int, monoid: str, line: str | None) -> int:
        """Makes the wire a component of the loop's state."""
        if wire not in self.components:
            self.graph.mark(wire)
            self.components[wire] = Component(wire, monoid, line)
            if self.here is not None:
                self.origin.setdefault(wire, self.here)
        return wire

    def close(self, wire: int, scale: Scale, line: str | None) -> int:
        """A sum over the axis as a component, with the repair that its elements' scale requires."""
        known = wire in self.components
        self.component(wire, "sum", line)
        if not scale or known:
            return wire
        component = self.components[wire]
        component.scale = self.emit_scale(scale) if scale.terms else None
        component.guards, component.factor = scale.guards, scale.factor
        rematerialized = self.repeatable if scale.factor else self._closed
        carried: dict[int, int] = {}
        for w in self.graph.cone(component.scales(), self.components):
            node = self.graph.node(w)
            if node is None or w in self.components or not self.graph.late[w]:
                continue
            for i in node.inputs:
                if i not in carried and not self.graph.late[i] and not rematerialized(i):
                    carried[i] = self._carried_maximum(i)
        if carried:
            safe = {w: self._safe(made) for w, made in carried.items()}
            change = {w: self.graph.substitute(w, safe, self.components) for w in component.scales()}
            component.factor = tuple((change[w], p) for w, p in component.factor)
            if component.scale is not None:
                component.scale = change[component.scale]
                component.guards = scale.guards or tuple(carried.values())
        if component.reset_value in self.components:
            other = self.components[component.reset_value]
            other.scale, other.guards, other.factor = component.scale, component.guards, component.factor
        return wire

    def repeatable(self, wire: int) -> bool:
        """Whether a merge can recompute a wire: it depends on constants and sizes only."""
        return all(self.graph.node(w) is not None for w in self.graph.cone([wire])) and not self.graph.late[wire]

    def _closed(self, wire: int) -> bool:
        """Whether a merge can recompute a wire: it depends on constants only."""
        nodes = [self.graph.node(w) for w in self.graph.cone([wire])]
        return all(node is not None and (node.inputs or isinstance(node.box.op, Const)) for node in nodes)

    def _carried_maximum(self, wire: int) -> int:
        """An array that the repair needs and that is no statistic, carried in the state as its maximum over
        the axis.
        """
        ty = self.graph.types[wire]
        repeated = self.graph.cast(wire, ArrayType((*ty.axes, self.streamed), ty.element))
        return self.component(self.graph.reduce("max", self.axis, repeated), "max", None)
