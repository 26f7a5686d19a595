"""Repair of selections: elements that change to a known value once a statistic has changed (argmax, top-1).

**The law** (derived here). Let the elements of a reduction ⊕_e t(e; r) depend on a statistic s of r. Let v(e) be free
of the statistics, such that for all lists A ⊑ B, with statistics r and r′, and all e ∈ A

    t(e; r′) = t(e; r) if s(r) = s(r′), else v(e).

Then the accumulator of A is repaired by `where(s = s′, acc, ⊕_A v)` for every monoid: `where` with a condition free of
e distributes over every ⊕. If v is the unit of the monoid, no further state is needed. Otherwise ⊕_A v is an
accumulator of its own. (For max with a v free of e, it is v once A is not empty, which the accumulator itself shows.)

**Which conditions obey it.** For s = max_x B: `B(e) = s`, `B(e) ≥ s` (v is false), and `B(e) ≠ s`, `B(e) < s` (v is
true), since B(e) ≤ s ≤ s′, so that s ≠ s′ implies B(e) < s′. Minima are maxima of −B. A common summand, and a common
positive factor, of both sides do not matter.

**What inherits it.** A function that is applied elementwise to arrays that obey it obeys it for all their statistics
together, if its value is the same whichever of them have changed: `c ∧ d` of two such conditions is false if either is.
A function of one such array and of arrays free of statistics always does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from catdiag.category.diagram import Node
from catdiag.category.op_facts import monoid_of, reduced_axes
from catdiag.category.ops import ARITHMETIC, Box, Map, Rename
from catdiag.category.scalars import Cast, ScalarFunction
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.stream.divisor_repair import Scaling
from catdiag.rewrite.stream.separable_form import Form, NotSeparable, SeparableTerm, collect, scaled

COMPARISONS = ("eq", "ne", "lt", "le")
_SEVERAL = 3  # the most operands with different statistics of one function


@dataclass(frozen=True)
class SelectedUnit:
    """The value of an array after one of the statistics `on` has changed: the wire `value`, free of statistics."""

    on: tuple[int, ...]
    value: int


class Selection(Scaling):
    """Forms whose elements may be selections."""

    def __init__(self, terms: HashConsedGraph, axis: Axis, mode: str = "plain") -> None:
        super().__init__(terms, axis, mode)
        self._reset_values: dict[int, SelectedUnit] = {}
        # Without selections and hoisting: the remaining forms are the easiest to prove.
        self.plain = False

    # -- what a wire falls to ------------------------------------------------------------------------

    def fall(self, wire: int) -> SelectedUnit | None:
        """The value of an array after statistics have changed; None where it is not known."""
        found: dict[int, SelectedUnit | None] = dict(self._reset_values)
        for w in self.graph.cone([wire], found):
            if w not in found:
                made = found[w] = self._fall_of(w, found)
                if made is not None:  # an unknown value is not cached: it may be found later
                    self._reset_values[w] = made
        return found[wire]

    def _fall_of(self, wire: int, known: Mapping[int, SelectedUnit | None]) -> SelectedUnit | None:
        """The value of a wire after statistics have changed, given those of earlier wires."""
        terms, node = self.graph, self.graph.node(wire)
        if not terms.late[wire] or wire in self.exponents or self.scale(wire).factor:
            return SelectedUnit((), wire)
        if not self.has_axis(wire) or node is None or len(node.box.cod) != 1:
            return None
        found = [known[i] for i in node.inputs]
        falls = [f for f in found if f is not None]
        if len(falls) < len(found):
            return None
        if not any(f.on for f in falls):
            return SelectedUnit((), wire)
        op = node.box.op
        if isinstance(op, Rename):
            on = tuple(sorted({terms.rename(s, dict(op.pairs)) for f in falls for s in f.on}))
            return SelectedUnit(on, self._with(node, [f.value for f in falls]))
        gone = set(reduced_axes(node.box))
        if isinstance(op, ARITHMETIC) and not any(gone.intersection(terms.names(s)) for f in falls for s in f.on):
            return self._pointwise(node, falls)
        return None

    def _pointwise(self, node: Node, falls: Sequence[SelectedUnit]) -> SelectedUnit | None:
        """The value of a function of several arrays, if it is the same whichever of their statistics have changed."""
        groups = list(dict.fromkeys(f.on for f in falls if f.on))
        if len(groups) > _SEVERAL:
            return None
        values = set()
        for changed in product((False, True), repeat=len(groups)):
            if any(changed):
                gone = {on for on, yes in zip(groups, changed, strict=True) if yes}
                inputs = [f.value if f.on in gone else i for f, i in zip(falls, node.inputs, strict=True)]
                values.add(self._with(node, inputs))
        fixed = [self.fall(w) for w in values if self.graph.late[w]]
        if len(values) > 1 or any(f is None or f.on for f in fixed):
            return None
        return SelectedUnit(tuple(sorted({s for on in groups for s in on})), values.pop())

    def _with(self, node: Node, inputs: Sequence[int]) -> int:
        """The box on other inputs, constant-folded."""
        terms, op = self.graph, node.box.op
        if isinstance(op, Map):
            known = self._known(op.fn, inputs)
            if known is not None:
                return known
            if not isinstance(op.fn, Cast):
                return terms.map(op.fn, *inputs, line=node.box.line)
        if monoid_of(op) == "sum" and any(terms.const_value(i) == 0 for i in inputs):
            return terms.const(0)
        if isinstance(op, Rename) and not terms.types[inputs[0]].axes:
            return inputs[0]
        fitted = [terms.cast(i, ArrayType(t.axes, terms.types[i].element))
                  for i, t in zip(inputs, node.box.dom, strict=True)]  # fmt: skip
        dom = Ty(*(terms.types[i] for i in fitted))
        return terms.add(Box(op, dom, node.box.cod, node.box.line), fitted)

    def truth(self, value: bool) -> int:
        """The wire of a truth value."""
        ends = [self.graph.const(k) for k in (0, 1)]
        return self.graph.map("lt", *(ends if value else ends[::-1]))

    def truth_of(self, wire: int) -> bool | None:
        """The truth value that a wire is; None for other wires."""
        return next((v for v in (False, True) if wire == self.truth(v)), None)

    def _known(self, fn: ScalarFunction, inputs: Sequence[int]) -> int | None:
        """Constant folding: the result of a scalar function where constant arguments decide it."""
        terms = self.graph
        truths = [self.truth_of(w) for w in inputs]
        if fn in ("and", "or"):
            for k in (0, 1):
                if truths[k] is not None:
                    return inputs[1 - k] if truths[k] == (fn == "and") else inputs[k]
        if fn == "not" and truths[0] is not None:
            return self.truth(not truths[0])
        if fn == "where":
            return inputs[1] if truths[0] or inputs[1] == inputs[2] else inputs[2] if truths[0] is False else None
        if isinstance(fn, Cast):
            return inputs[0] if terms.is_const(inputs[0]) or truths[0] is not None else None
        numbers = [terms.const_value(w) for w in inputs]
        if fn == "mul" and 0 in numbers:
            return terms.const(0)
        if fn == "neg" and numbers[0] is not None:
            return terms.const(-numbers[0])
        if fn == "div" and numbers[0] == 0:
            return terms.const(0)
        if fn in ("add", "sub", "mul", "div"):
            neutral = Fraction(1 if fn in ("mul", "div") else 0)
            if numbers[1] == neutral:
                return inputs[0]
            if numbers[0] == neutral and fn in ("add", "mul"):
                return inputs[1]
        return None

    # -- conditions ----------------------------------------------------------------------------------

    def compared(self, fn: str, left: Form, right: Form) -> Form | None:
        """The form of a comparison of elements with their own maximum; None for other comparisons."""
        if self.plain:
            return None
        for sides in ((left, right), self._logarithms(left, right)):
            if sides is None:
                continue
            found = self._against_maximum(fn, collect((*sides[0], *scaled(sides[1], Fraction(-1)))))
            if found is not None:
                return self.atom(found)
        return None

    def _logarithms(self, left: Form, right: Form) -> tuple[Form, Form] | None:
        """Two positive products as sums: they compare as their logarithms do."""
        found = self.logarithm(left), self.logarithm(right)
        return None if found[0] is None or found[1] is None else (found[0], found[1])

    def logarithm(self, form: Form) -> Form | None:
        """The logarithm of a form that is a product of positive factors, as a form; None for other forms."""
        raise NotImplementedError

    def additive(self, form: Form) -> tuple[Form, Form] | None:
        """A form as B + C, with B free of statistics and C of statistics only; None if some term mixes the two."""
        raise NotImplementedError

    def _against_maximum(self, fn: str, difference: Form) -> int | None:
        """`B − s` compared with 0, where s is max_x B: the wire of the comparison, whose value after a change is
        recorded.
        """
        parts = self.additive(difference)
        if parts is None or not parts[0]:
            return None
        statistics = self.expand(parts[1])
        if len(statistics) != 1 or len(statistics[0].monomial) != 1 or statistics[0].bound:
            return None
        ((top, power),) = statistics[0].monomial
        component, node = self.components.get(top), self.graph.node(top)
        if component is None or component.monoid != "max" or component.on or power != 1 or node is None:
            return None
        turned = statistics[0].coefficient > 0
        below = self.emit(scaled(parts[0], Fraction(-1) / statistics[0].coefficient))
        if below != node.inputs[0] or self.graph.late[below]:
            return None
        if fn in ("eq", "ne"):
            made, value = self.graph.map(fn, below, top), fn == "ne"
        else:
            # B − s < 0 means B ≠ s. With the opposite sign, s − B < 0 is always false, and s − B ≤ 0 means B = s.
            strict = fn == "lt"
            if turned == strict:
                return self.graph.map("le", below, below) if not turned else self.graph.map("lt", below, below)
            made = self.graph.map("eq" if turned else "ne", below, top)
            value = not turned
        self._reset_values[made] = SelectedUnit((top,), self.truth(value))
        return made

    def selected(self, wire: int, forms: Sequence[Form]) -> bool:
        """Whether a wire is a selection of arrays without a scale."""
        plain = not any(t.element in self.scales for form in forms for t in form)
        if not plain or not self.has_axis(wire) or not self.graph.late[wire]:
            return False
        found = self.fall(wire)
        return found is not None and bool(found.on)

    def is_selection(self, t: SeparableTerm) -> bool:
        """Whether a term is a selection times numbers free of statistics."""
        late = self.graph.late
        return t.element is not None and not any(late[w] for w, _ in t.monomial) and self.selected(t.element, [(t,)])

    # -- components ----------------------------------------------------------------------------------

    def mixing_axes(self, element: int) -> set[str]:
        """The names of the axes of the statistics that an element depends on other than by its scale."""
        found = self.fall(element) if self.graph.late[element] else None
        return set() if found is None else {n for s in found.on for n in self.graph.names(s)}

    def component(self, wire: int, monoid: str, line: str | None) -> int:
        """The wire as a component of the state, with the repair of a selection; raises NotSeparable where there is
        none.
        """
        known = wire in self.components
        node = self.graph.node(wire)
        if known or node is None:
            return super().component(wire, monoid, line)
        found = [self.fall(i) for i in node.inputs]
        falls = [f for f in found if f is not None]
        if len(falls) < len(found):
            raise NotSeparable(node.box, "the elements change with the statistics in a way that has no repair")
        on = tuple(sorted({s for f in falls for s in f.on}))
        if any(not set(self.graph.names(s)) <= set(self.graph.names(wire)) for s in on):
            raise NotSeparable(node.box, "its elements are selected by statistics of several rows that it sums over")
        reset_inputs = self._reset_inputs(node, monoid, falls) if on else ()
        super().component(wire, monoid, line)
        self.components[wire].on = on
        if not reset_inputs:
            return wire
        component, first = self.components[wire], reset_inputs[0]
        if monoid == "max" and not self.has_axis(first) and self.repeatable(first) and self._finite(node):
            component.reset_value, component.absorbs_bottom = first, True
            return wire
        component.reset_value = super().component(self._with(node, reset_inputs), monoid, line)
        return wire

    def _reset_inputs(self, node: Node, monoid: str, falls: Sequence[SelectedUnit]) -> tuple[int, ...]:
        """The values of a reduction's elements (factors of a contraction) after a change; empty if the result is the
        unit.
        """
        terms = self.graph
        if len(falls) == 1:
            return () if self._is_unit(monoid, falls[0].value) else (falls[0].value,)
        groups = list(dict.fromkeys(f.on for f in falls if f.on))
        if all(any(terms.const_value(f.value) == 0 for f in falls if f.on == on) for on in groups):
            return ()
        if len(groups) > 1:
            raise NotSeparable(node.box, "a product of selections has no repair unless each falls to 0")
        return tuple(f.value for f in falls)

    def _finite(self, node: Node) -> bool:
        """Whether elements are above −∞, so that a maximum of −∞ shows that the list is empty."""
        return self.graph.types[node.inputs[0]].element != "extended"

    def _is_unit(self, monoid: str, wire: int) -> bool:
        terms = self.graph
        if monoid in ("any", "all"):
            return self.truth_of(wire) == (monoid == "all")
        if monoid == "max":
            return terms.is_bottom(wire)
        return terms.const_value(wire) == (1 if monoid == "prod" else 0)
