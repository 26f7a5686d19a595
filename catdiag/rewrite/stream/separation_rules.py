"""The rules by which each box acts on separable forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from catdiag.category.diagram import Node
from catdiag.category.op_facts import monoid_of
from catdiag.category.ops import REDUCTIONS, Box, Map, Op, Reduce, Rename, op_fact
from catdiag.category.scalars import Cast, ScalarFunction
from catdiag.category.types import Axis
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.stream.selection_repair import COMPARISONS, Selection
from catdiag.rewrite.stream.separable_form import (
    ADDITIVE,
    Form,
    Monomial,
    NotSeparable,
    SeparableTerm,
    added,
    collect,
    scaled,
    times,
)

_DEEPEST = 32  # the deepest nesting of `where` in one exponent
_REASONS = {
    "div": "a divisor that adds elements and statistics is not separable",
    "log": "the logarithm of such a sum is not separable, nor that of a product with a factor that may be negative",
    "where": "the condition itself depends on the statistics element by element",
}


class Rules(Selection):
    """The separable forms of the wires of a graph, box by box."""

    def __init__(self, terms: HashConsedGraph, axis: Axis, mode: str = "plain") -> None:
        super().__init__(terms, axis, mode)
        self.image: list[int] = list(range(len(terms.dom)))
        self.forms: dict[int, Form | NotSeparable] = {}
        self.casts = True  # whether casts of values that depend on statistics are kept

    def form_of(self, wire: int) -> Form:
        """The form of a wire; raises NotSeparable where it has none."""
        form = self.forms.get(wire)
        if isinstance(form, NotSeparable):
            raise form
        return self.atom(wire) if form is None else form

    def rule(self, node: Node, forms: list[Form], direct: int) -> Form:
        """The form of a box's result, given the forms of its inputs; raises NotSeparable where no rule applies.

        `direct` is the wire of the box itself on the inputs' wires.
        """
        box, row = node.box, op_fact(SEPARATION_RULES, node.box.op)
        made = None if row is None else row(self, box.op, node, forms, direct)
        if made is not None:
            return made
        if all(map(self.is_early, forms)):
            dom = [self.emit(f) for f in forms]
            fitted = [self.graph.cast(w, t) for w, t in zip(dom, box.dom, strict=True)]
            return self.atom(self.graph.add(box, fitted))
        raise NotSeparable(box, f"{box.name} neither adds nor multiplies")

    def function(self, fn: ScalarFunction, node: Node, forms: list[Form], direct: int) -> Form:
        """The form of a scalar function's result; raises NotSeparable where there is none."""
        if isinstance(fn, Cast) and not self.is_early(forms[0]):
            return self.cast(fn, forms[0], node.box.line)
        return self._map(fn, forms, [self.image[w] for w in node.inputs], direct, node.box)

    def reduction(self, box: Box, forms: list[Form]) -> Form | None:
        """The form of a reduction's result; None for a monoid that no rule is about."""
        op = box.op
        if monoid_of(op) == "sum":
            return self.contract(forms, list(box.dom), box.cod[0].names, box.line)
        return self.extremum(op, forms[0], box) if isinstance(op, Reduce) and op.monoid in ("max", "min") else None

    def cast(self, fn: Cast, form: Form, line: str | None) -> Form:
        """The form of a cast. A single product that a loop accumulates is cast as a whole.

        A cast means the identity, but its argument should keep the program's scale. So numbers, arrays and statistics
        that multiply or divide the element are moved into it. The exception is an element that a maximum stabilizes: it
        has a range of its own, and is cast without the statistics that divide it. A form of several terms, whose sum no
        loop computes, is left as it is.
        """
        element = form[0].element if len(form) == 1 else None
        if not self.casts or element is None or form[0].bound:
            return form
        (t,) = form
        taken = tuple((w, p) for w, p in t.monomial if self.graph.late[w] and w not in self.ratios)
        if taken and not self.scale(element).terms:
            if not self.scaled:
                return form
            t = self.with_factor(t, taken, line)
        t, late = self._scaled_inside(t, tuple((w, p) for w, p in t.monomial if self.graph.late[w]))
        assert t.element is not None
        made = self.graph.map(fn, t.element, line=line)
        self.set_scale(made, self.scale(t.element))
        if t.element in self.exponents:
            self.exponents[made] = self.exponents[t.element]
        return (SeparableTerm(Fraction(1), late, made),)

    def _scaled_inside(self, t: SeparableTerm, late: Monomial) -> tuple[SeparableTerm, Monomial]:
        """A term with its coefficient and its early factors moved into the element, and its late factors."""
        early: Form = (SeparableTerm(t.coefficient, times(t.monomial, late, -1)),)
        if early == (SeparableTerm(Fraction(1)),):
            return t, late
        assert t.element is not None
        made = self.graph.map("mul", t.element, self.emit(early))
        self.set_scale(made, self.scale(t.element))
        return SeparableTerm(Fraction(1), late, made), late

    def _map(self, fn: ScalarFunction, forms: list[Form], images: list[int], direct: int, box: Box) -> Form:
        """The form of a scalar function's result; raises NotSeparable where there is none."""
        if all(map(self.is_early, forms)):
            return self.atom(self.graph.map(fn, *map(self.emit, forms), line=box.line))
        f = forms[0]
        if fn in ADDITIVE:
            return added(fn, forms)
        if fn == "mul":
            return self.defer_inside(self.multiply(*self.defer_in_products(forms, box)), box)
        found: Form | None = self.compared(fn, f, forms[1]) if fn in COMPARISONS else None
        if found is not None or self.selected(direct, forms):
            return self.atom(direct) if found is None else found
        if fn == "div":
            found = self.divide(f, forms[1])
            found = None if found is None else self.defer_inside(found, box)
        elif fn == "exp":
            return self._exp(f, images[0], direct, box)
        elif fn == "log":
            found = self._log(f)
        elif fn in ("abs", "sqrt"):
            found = self._root(fn, f)
        elif fn == "where":
            found = self._where(images[0], forms[1], forms[2])
        elif fn in ("max", "min"):
            found = self._binary(fn, f, forms[1])
        if found is None:
            known = _REASONS.get(fn) if isinstance(fn, str) else None
            raise NotSeparable(box, known or f"{fn} of a sum of both is not a sum of products of them")
        return found

    def additive(self, form: Form) -> tuple[Form, Form] | None:
        """A form as B + C, with B free of statistics (elements and early numbers) and C of statistics only; None if
        some term mixes the two.
        """
        early: list[SeparableTerm] = []
        late: list[SeparableTerm] = []
        for t in form:
            if self.is_early((t,)) or self.is_selection(t):
                early.append(t)
            elif t.element is None:
                late.append(t)
            else:
                return None
        return tuple(early), tuple(late)

    def _exp(self, form: Form, exponent: int, direct: int, box: Box, depth: int = 0) -> Form:
        """The exponential of elements plus statistics. For a `where` with an early condition, the `where` of the
        exponentials.
        """
        parts = self.additive(form)
        if parts is None:
            node = self.graph.node(exponent)
            choice = node is not None and self.graph.function_of(exponent) == "where"
            if node is not None and choice and not self.graph.late[node.inputs[0]] and depth < _DEEPEST:
                branches: list[Form] = []
                for wire in node.inputs[1:]:
                    if self.graph.is_bottom(wire):
                        branches.append(())
                        continue
                    branch, made = self.form_of(wire), self.graph.map("exp", wire)
                    if self.is_early(branch):
                        branches.append(self.atom(self.graph.map("exp", self.emit(branch))))
                    else:
                        branches.append(self._exp(branch, wire, made, box, depth + 1))
                chosen = self._where(node.inputs[0], branches[0], branches[1])
                if chosen is not None:
                    return chosen
            raise NotSeparable(box, "a statistic multiplies the elements in its exponent")
        elements, statistics = parts
        if any(t.element is not None and self.graph.late[t.element] for t in elements):
            raise NotSeparable(box, "a selection is in its exponent")
        if not any(t.element is not None and self.has_axis(t.element) for t in elements):
            return ((SeparableTerm(Fraction(1), ((self.graph.map("exp", self.emit(form)), 1),))),)
        scale = self.expand(scaled(statistics, Fraction(-1)))
        bare = self.without_replacements(scale)
        kept, moved, guarded = self.scale_of(elements, scale, bare, box.line)
        return self.stabilized(elements, kept, moved, guarded, direct if bare == scale else None, box.line)

    def logarithm(self, form: Form) -> Form | None:
        """The logarithm of a form that is a product of positive factors, as a form; None for other forms."""
        element = form[0].element if len(form) == 1 else None
        if element is not None and not all(
            self.graph.positive[w] or w in self.exponents for w in self.factors(element)
        ):
            return None
        return self._log(form)

    def _log(self, form: Form) -> Form | None:
        """The logarithm of a product with positive statistics, as a sum; None for other forms."""
        if len(form) != 1 or form[0].bound or form[0].coefficient <= 0:
            return None
        t = form[0]
        pieces: list[Form] = []
        if t.coefficient != 1:
            pieces.append(
                ((SeparableTerm(Fraction(1), ((self.graph.map("log", self.graph.const(t.coefficient)), 1),))),)
            )
        todo = list(t.monomial)
        while todo:
            w, p = todo.pop(0)
            if not self.graph.positive[w]:
                return None
            node, fn = self.graph.node(w), self.graph.function_of(w)
            if node is not None and fn == "exp":
                pieces.append(scaled(self.atom(node.inputs[0]), Fraction(p)))
                continue
            if node is not None and fn in ("mul", "div") and self.graph.late[w]:
                todo[:0] = [(node.inputs[0], p), (node.inputs[1], p if fn == "mul" else -p)]
                continue
            pieces.append((SeparableTerm(Fraction(p), ((self.graph.map("log", w), 1),)),))
        if t.element is not None:
            inside = self._log_element(t.element)
            if inside is None:
                return None
            pieces.append(inside)
        return collect(s for piece in pieces for s in piece)

    def _log_element(self, element: int) -> Form | None:
        """The logarithm of an element, as a sum over its factors; None where a factor may be negative."""
        factors = self.factors(element)
        if len(factors) > 1 and not all(self.graph.positive[w] for w in factors):
            return None
        found: list[SeparableTerm] = []
        todo = [(w, 1) for w in factors]
        while todo:
            w, sign = todo.pop(0)
            node, fn = self.graph.node(w), self.graph.function_of(w)
            if self.graph.const_value(w) == 1:
                continue
            if w in self.exponents:
                found.extend(scaled(self.exponents[w], Fraction(sign)))
            elif node is not None and fn == "exp" and not self.graph.late[w]:
                found.extend(scaled(self.atom(node.inputs[0]), Fraction(sign)))
            elif node is not None and fn in ("mul", "div") and all(self.graph.positive[i] for i in node.inputs):
                todo[:0] = [(node.inputs[0], sign), (node.inputs[1], sign if fn == "mul" else -sign)]
            elif self.graph.late[w]:
                return None
            else:
                found.extend(scaled(self.atom(self.graph.map("log", w)), Fraction(sign)))
        return tuple(found)

    def _root(self, fn: str, form: Form) -> Form | None:
        """`abs` or `sqrt` of a product. Under a square root the statistics must be positive."""
        if len(form) != 1 or form[0].bound:
            return None
        t = form[0]
        if fn == "sqrt" and (t.coefficient <= 0 or not all(self.graph.positive[w] for w, _ in t.monomial)):
            return None
        monomial = tuple(sorted((self.graph.map(fn, w), p) for w, p in t.monomial))
        coefficient = abs(t.coefficient)
        if fn == "sqrt" and coefficient != 1:
            monomial = times(monomial, ((self.graph.map("sqrt", self.graph.const(coefficient)), 1),))
            coefficient = Fraction(1)
        element = t.element
        if element is not None:
            made = self.graph.map(fn, element)
            self.set_scale(made, self.of_power(fn, self.scale(element)))
            element = made
        return (SeparableTerm(coefficient, monomial, element),)

    def _where(self, mask: int, yes: Form, no: Form) -> Form | None:
        """The form of `where`; None where the condition depends on statistics element by element."""
        terms = self.graph
        if terms.late[mask] and self.has_axis(mask) and self.fall(mask) is None:
            return None
        bottoms = [
            len(f) == 1 and f[0].coefficient == 1 and len(f[0].monomial) == 1 and terms.is_bottom(f[0].monomial[0][0])
            for f in (yes, no)
        ]
        if any(bottoms):
            parts = self.additive(no if bottoms[0] else yes)
            if parts is None or terms.late[mask]:
                return None
            chosen = (terms.const(None), self.emit(parts[0]))
            inside = terms.map("where", mask, *(chosen if bottoms[0] else chosen[::-1]))
            return (*self.atom(inside), *parts[1])
        found = []
        zero = terms.const(0)

        def pick(wire: int, first: bool) -> int:
            return terms.map("where", mask, wire, zero) if first else terms.map("where", mask, zero, wire)

        for first, form in ((True, yes), (False, no)):
            for t in form:
                for axis in t.bound:
                    if axis.name in terms.names(mask):
                        t = self.rebind(t, axis, self.term_axes(t) | set(terms.names(mask)))
                if self.has_axis(mask):
                    element = pick(terms.const(1) if t.element is None else t.element, first)
                    self.set_scale(element, self.scale(t.element))
                    found.append(SeparableTerm(t.coefficient, t.monomial, element, t.bound))
                else:
                    outer = self.emit_term(SeparableTerm(Fraction(1), t.monomial))
                    found.append(SeparableTerm(t.coefficient, ((pick(outer, first), 1),), t.element, t.bound))
        return collect(found)

    def _binary(self, fn: str, left: Form, right: Form) -> Form | None:
        """max or min of `B + C` and `B′ + C`: the common statistics C are moved out."""
        parts = self.additive(left), self.additive(right)
        if parts[0] is None or parts[1] is None or set(parts[0][1]) != set(parts[1][1]):
            return None
        inside = self.graph.map(fn, self.emit(parts[0][0]), self.emit(parts[1][0]))
        return (*self.atom(inside), *parts[0][1])

    def extremum(self, op: Reduce, form: Form, box: Box) -> Form:
        """max or min over an axis: statistics free of the axis are moved out, as summands or as positive factors.
        Raises NotSeparable where that cannot be done."""
        reduce = self._reduce_over(op, box)
        parts = self.additive(form)
        if parts is not None and not any(t.element in self.scales for t in parts[0]):
            inner, outer = parts
            if not any(op.axis in self.term_axes(t) for t in outer):
                wire = self.emit(inner)
                made = self.atom(reduce(wire) if op.axis in self.graph.names(wire) else wire) if inner else ()
                return collect((*made, *outer))
        elif len(form) == 1 and form[0].coefficient > 0 and not form[0].bound and form[0].element is not None:
            t, element = form[0], form[0].element
            free = not any(op.axis in self.graph.names(w) for w, _ in t.monomial)
            outer = (SeparableTerm(t.coefficient, t.monomial),)
            if free and all(self.graph.positive[w] for w, _ in t.monomial):
                if element not in self.scales:
                    return self.multiply(self.atom(reduce(element)), outer)
                stabilized = element in self.exponents or self.graph.function_of(element) == "exp"
                inside = self._log_element(element) if stabilized else None
                if inside is not None and op.axis == self.axis:
                    top = self.emit(self.extremum(op, inside, box))
                    return self.multiply(self.atom(self.graph.map("exp", top)), outer)
        factor = self._common(form, op.axis)
        if factor:
            one = SeparableTerm(Fraction(1), factor)
            rest = collect(
                SeparableTerm(t.coefficient, times(t.monomial, factor, -1), t.element, t.bound) for t in form
            )
            return self.multiply(self.extremum(op, rest, box), (one,))
        raise NotSeparable(
            box, f"{op.monoid} commutes with adding statistics and with positive factors, and with nothing else"
        )

    def _common(self, form: Form, axis: str) -> Monomial:
        """The late factor that all terms with elements share, if it is positive and free of the axis."""
        late = {
            tuple((w, p) for w, p in t.monomial if self.graph.late[w])
            for t in form
            if t.element is not None and self.has_axis(t.element)
        }
        if len(form) < 2 or len(late) != 1:
            return ()
        (factor,) = late
        # A root or an absolute value that something is divided by is not 0 where the program is defined.
        positive = all(
            self.graph.positive[w] or (p < 0 and self.graph.function_of(w) in ("sqrt", "abs")) for w, p in factor
        )
        return factor if positive and not any(axis in self.graph.names(w) for w, _ in factor) else ()

    def _reduce_over(self, op: Reduce, box: Box) -> Callable[[int], int]:
        def reduce(wire: int) -> int:
            if op.axis != self.axis:
                return self.graph.reduce(op.monoid, op.axis, wire, box.line)
            if op.monoid == "max":
                return self.component(self.graph.reduce("max", op.axis, wire, box.line), "max", box.line)
            below = self.graph.map("neg", wire)
            made = self.component(self.graph.reduce("max", op.axis, below, box.line), "max", box.line)
            return self.graph.map("neg", made)

        return reduce

    def pure(self, box: Box, form: Form) -> Form:
        """A reduction whose elements need no repair, as a component; raises NotSeparable where they do."""
        op = box.op
        assert isinstance(op, Reduce)
        if any(t.element in self.scales or not (self.is_early((t,)) or self.is_selection(t)) for t in form):
            raise NotSeparable(
                box, f"{op.monoid} does not distribute over the way in which its elements depend on statistics"
            )
        wire = self.graph.cast(self.emit(form), box.dom[0])
        return self.atom(self.component(self.graph.add(box, (wire,)), op.monoid, box.line))


SEPARATION_RULES: Mapping[type[Op], Callable[[Rules, Any, Node, list[Form], int], Form | None]] = {
    Map: lambda rules, op, node, forms, direct: rules.function(op.fn, node, forms, direct),
    **dict.fromkeys(REDUCTIONS, lambda rules, op, node, forms, direct: rules.reduction(node.box, forms)),
    Rename: lambda rules, op, node, forms, direct: rules.renamed(dict(op.pairs), forms[0]),
}
"""The separable form of a box's result, by the class of its operation; None where its rule does not apply. What has no
row, or whose rule does not apply, has a form only if nothing that it reads depends on a statistic."""
