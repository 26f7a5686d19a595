"""Separable forms: arrays as sums of products of a part that is free of the axis and a part known block by block.

To stream an axis, each array `t(e; r)`, made of elements e and of statistics r of the whole axis, needs a form `Σ_d
c_d(r) ⊗ b_d(e)`. Then the `b_d` are accumulated, and the `c_d` are applied at the end. A form is a tuple of
`SeparableTerm`s over the wires of a `HashConsedGraph`. The rules are the multilinearity of products and contractions,
`exp(b + c) = exp(b)·exp(c)`, and that `max` and `min` commute with adding (derived here).

An exponential is not split. It stays the user's own box, with its *scale* μ(r): it is `exp(b − μ)`, and an accumulator
of it is repaired by `exp(μ(r) − μ(r′))` when r changes to r′. So the stabilizer that the user wrote is kept. An element
that is divided by a maximum is kept in the same way, as `b·σ^p` with its *factor* σ^p, which is repaired by
(σ(r′)/σ(r))^p.

A wire is *late* if it depends on a reduction over the axis, and *early* otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from catdiag.category.ops import Box
from catdiag.category.scalars import ScalarFunction
from catdiag.category.types import ArrayType, Axis
from catdiag.rewrite.hash_consed_graph import HashConsedGraph

MOST_TERMS = 1024
"""The most terms of a form: a state of more accumulators would not fit on chip."""
MOST_FACTORS = 16

Monomial = tuple[tuple[int, int], ...]
"""A product of powers: wires with integer exponents, in order of the wires."""


@dataclass(frozen=True)
class SeparableTerm:
    """`coefficient · Π monomial · element`, summed over the axes in `bound`. An element of None stands for 1."""

    coefficient: Fraction
    monomial: Monomial = ()
    element: int | None = None
    bound: tuple[Axis, ...] = ()


Form = tuple[SeparableTerm, ...]
"""The sum of the terms, broadcast to the type of the array."""


@dataclass(frozen=True)
class Scale:
    """How an element depends on the statistics: it is `exp(b − μ)·Π σ^p`.

    `terms` give μ as a sum of rational multiples of monomials, `guards` are the maxima that guard its repair, and
    `factor` has the powers of the statistics σ, which are not 0.
    """

    terms: tuple[tuple[Fraction, Monomial], ...] = ()
    guards: tuple[int, ...] = ()
    factor: Monomial = ()

    def __bool__(self) -> bool:
        return bool(self.terms or self.factor)


class NotSeparable(Exception):
    """An array has no separable form: `box` is where it is lost, `reason` says why."""

    def __init__(self, box: Box, why: str) -> None:
        super().__init__(why)
        self.box, self.reason = box, why


def times(left: Monomial, right: Monomial, sign: int = 1) -> Monomial:
    """The product of two monomials, or their quotient for `sign` −1.

    >>> times(((3, 1),), ((3, 1), (5, 1)), -1)
    ((5, -1),)
    """
    powers = dict(left)
    for wire, power in right:
        powers[wire] = powers.get(wire, 0) + sign * power
    return tuple(sorted((w, p) for w, p in powers.items() if p))


def collect(terms: Iterable[SeparableTerm]) -> Form:
    """A form with like terms combined and zero terms dropped."""
    found: dict[tuple[Monomial, int | None, tuple[Axis, ...]], Fraction] = {}
    for t in terms:
        key = (t.monomial, t.element, t.bound)
        found[key] = found.get(key, Fraction(0)) + t.coefficient
    return tuple(SeparableTerm(c, *key) for key, c in found.items() if c)


def scaled(form: Form, by: Fraction) -> Form:
    """A form times a rational number."""
    return tuple(SeparableTerm(by * t.coefficient, t.monomial, t.element, t.bound) for t in form)


ADDITIVE = ("add", "sub", "neg")
"""The scalar functions that add terms or change their signs."""


def added(fn: ScalarFunction, forms: Sequence[Form]) -> Form:
    """The form of what a function in `ADDITIVE` makes of forms."""
    if fn == "neg":
        return scaled(forms[0], Fraction(-1))
    return collect((*forms[0], *scaled(forms[1], Fraction(1 if fn == "add" else -1))))


def merge_scales(left: Scale, right: Scale, sign: int = 1) -> Scale:
    """The scale of a product of two elements, or of their quotient for `sign` −1."""
    found: dict[Monomial, Fraction] = {}
    for by, scale in ((1, left), (sign, right)):
        for c, m in scale.terms:
            found[m] = found.get(m, Fraction(0)) + by * c
    terms = tuple((c, m) for m, c in sorted(found.items()) if c)
    return Scale(terms, tuple(sorted({*left.guards, *right.guards})), times(left.factor, right.factor, sign))


class Algebra(ABC):
    """The arithmetic of forms over one `HashConsedGraph`, for one streamed axis."""

    def __init__(self, terms: HashConsedGraph, axis: str) -> None:
        self.graph = terms
        self.axis = axis
        self.here: Box | None = None
        self.scales: dict[int, Scale] = {}
        self._products: dict[tuple[int, ...], int] = {}
        self._factors: dict[int, tuple[int, ...]] = {}

    # -- what forms are -------------------------------------------------------------------------

    def has_axis(self, wire: int) -> bool:
        """Whether a wire carries the streamed axis."""
        return self.axis in self.graph.names(wire)

    def atom(self, wire: int) -> Form:
        """The form of a wire without a rule: an element, a number, or a wire free of the axis."""
        if self.has_axis(wire):
            return (SeparableTerm(Fraction(1), (), wire),)
        value = self.graph.const_value(wire)
        if value is not None:
            return (SeparableTerm(value),) if value else ()
        return (SeparableTerm(Fraction(1), ((wire, 1),)),)

    def is_early(self, form: Form) -> bool:
        """Whether no wire of a form depends on a reduction over the axis."""
        late = self.graph.late
        return not any(late[w] for t in form for w, _ in t.monomial) and not any(
            t.element is not None and late[t.element] for t in form
        )

    def outer_axes(self, t: SeparableTerm) -> set[str]:
        """The names of the axes of a term's statistics, those of its element's repair included."""
        names = {n for w, _ in t.monomial for n in self.graph.names(w)}
        if t.element is not None:
            names |= self.scale_axes(self.scales.get(t.element, Scale())) | self.mixing_axes(t.element)
        return names

    def mixing_axes(self, element: int) -> set[str]:
        """The names of the axes of the statistics that an element depends on other than by its scale."""
        return set()

    def scale_axes(self, scale: Scale) -> set[str]:
        """The names of the axes that a scale carries."""
        monomials = (*(m for _, m in scale.terms), scale.factor)
        return {n for m in monomials for w, _ in m for n in self.graph.names(w)}

    def term_axes(self, t: SeparableTerm) -> set[str]:
        """The names of all axes in a term, bound ones too."""
        element = set(self.graph.names(t.element)) if t.element is not None else set()
        return self.outer_axes(t) | element | {a.name for a in t.bound}

    # -- products -------------------------------------------------------------------------------

    def factors(self, wire: int) -> tuple[int, ...]:
        """The factors of an element that is a product; a long product counts as one factor."""
        todo = [wire]
        while todo:
            w = todo[-1]
            node = self.graph.node(w)
            if w in self._factors:
                todo.pop()
                continue
            found: tuple[int, ...] = (w,)
            if node is not None and self.graph.function_of(w) == "mul" and all(map(self.has_axis, node.inputs)):
                missing = [i for i in node.inputs if i not in self._factors]
                if missing:
                    todo.extend(missing)
                    continue
                flat = tuple(sorted(f for i in node.inputs for f in self._factors[i]))
                if len(flat) <= MOST_FACTORS:
                    found = flat
                    self._products.setdefault(found, w)
            self._factors[w] = found
        return self._factors[wire]

    def product(self, left: int | None, right: int | None) -> int | None:
        """The product of two elements; equal multisets of factors share a wire."""
        if left is None or right is None:
            return left if right is None else right
        key = tuple(sorted(self.factors(left) + self.factors(right)))
        if key not in self._products:
            made = self.graph.map("mul", left, right)
            if len(key) <= MOST_FACTORS:
                self._factors[made] = key
            self._products[key] = made
        wire = self._products[key]
        self.set_scale(wire, merge_scales(self.scale(left), self.scale(right)))
        return wire

    def scale(self, element: int | None) -> Scale:
        """The scale of an element; empty for an element without one."""
        return Scale() if element is None else self.scales.get(element, Scale())

    def set_scale(self, element: int, scale: Scale) -> None:
        """Records the scale of an element."""
        if scale:
            self.scales[element] = scale

    def multiply(self, left: Form, right: Form) -> Form:
        """The product of two forms. Raises NotSeparable where it has too many terms."""
        self._limit((left, right))
        found = []
        for s in left:
            for t in right:
                s1, t1 = self.with_distinct_binders(s, t)
                element = self.product(s1.element, t1.element)
                monomial = times(s1.monomial, t1.monomial)
                found.append(SeparableTerm(s1.coefficient * t1.coefficient, monomial, element, s1.bound + t1.bound))
        return collect(found)

    def invert(self, form: Form) -> Form | None:
        """The inverse of a form; None unless it has exactly one term, without bound axes."""
        if len(form) != 1 or form[0].bound:
            return None
        t = form[0]
        element = t.element
        if element is not None:
            made = self.graph.map("div", self.graph.const(1), element)
            self.set_scale(made, merge_scales(Scale(), self.scale(element), -1))
            element = made
        return (SeparableTerm(1 / t.coefficient, times((), t.monomial, -1), element),)

    def divide(self, left: Form, right: Form) -> Form | None:
        """The quotient of two forms; None unless the divisor has exactly one term, without bound axes."""
        inverse = self.invert(right)
        if inverse is None:
            return None
        below = right[0].element
        if below is None:
            return self.multiply(left, inverse)
        found: list[SeparableTerm] = []
        for t in left:
            if t.element is None or set(self.graph.names(below)) & {a.name for a in t.bound}:
                found.extend(self.multiply((t,), inverse))
                continue
            element = self.graph.map("div", t.element, below)
            self.set_scale(element, merge_scales(self.scale(t.element), self.scale(below), -1))
            monomial = times(t.monomial, inverse[0].monomial)
            found.append(SeparableTerm(t.coefficient * inverse[0].coefficient, monomial, element, t.bound))
        return collect(found)

    def _limit(self, forms: Sequence[Form]) -> None:
        count = 1
        for form in forms:
            count *= len(form)
        if count > MOST_TERMS and self.here is not None:
            raise NotSeparable(self.here, f"expanded it has {count} terms, more than {MOST_TERMS}")

    # -- bound axes -----------------------------------------------------------------------------

    def with_distinct_binders(self, s: SeparableTerm, t: SeparableTerm) -> tuple[SeparableTerm, SeparableTerm]:
        """Two terms, with bound axes renamed so that neither binds an axis of the other."""
        for axis in s.bound:
            if axis.name in self.term_axes(t):
                s = self.rebind(s, axis, self.term_axes(s) | self.term_axes(t))
        for axis in t.bound:
            if axis.name in self.term_axes(s):
                t = self.rebind(t, axis, self.term_axes(s) | self.term_axes(t))
        return s, t

    def rebind(self, t: SeparableTerm, axis: Axis, taken: set[str]) -> SeparableTerm:
        """A term with one of its bound axes renamed to a name that is not in `taken`."""
        k = 1
        while f"{axis.name}_{k}" in taken:
            k += 1
        fresh = Axis(f"{axis.name}_{k}", axis.size)
        renamed = self.rename(t, {axis.name: fresh.name})
        return SeparableTerm(
            renamed.coefficient, renamed.monomial, renamed.element, tuple(fresh if a == axis else a for a in t.bound)
        )

    def rename(self, t: SeparableTerm, pairs: dict[str, str]) -> SeparableTerm:
        """A term with its axes renamed, except for the bound ones."""
        monomial: Monomial = ()
        for w, p in t.monomial:
            monomial = times(monomial, ((self.graph.rename(w, pairs), p),))
        element = t.element
        if element is not None:
            made = self.graph.rename(element, pairs)
            if made != element:
                old = self.scale(element)

                def of(m: Monomial) -> Monomial:
                    return tuple(sorted((self.graph.rename(w, pairs), p) for w, p in m))

                guards = tuple(self.graph.rename(w, pairs) for w in old.guards)
                self.set_scale(made, Scale(tuple((c, of(m)) for c, m in old.terms), guards, of(old.factor)))
            element = made
        return SeparableTerm(t.coefficient, monomial, element, t.bound)

    def renamed(self, pairs: dict[str, str], form: Form) -> Form:
        """A form with its axes renamed; bound axes get new names where they clash."""
        found = []
        for t in form:
            for axis in t.bound:
                if axis.name in {*pairs, *pairs.values()}:
                    t = self.rebind(t, axis, self.term_axes(t) | {*pairs, *pairs.values()})
            found.append(self.rename(t, pairs))
        return collect(found)

    # -- back to wires --------------------------------------------------------------------------

    def emit(self, form: Form) -> int:
        """A wire that computes a form, on the axes that occur in it."""
        total: int | None = None
        for t in sorted(form, key=lambda t: t.coefficient < 0):
            wire = self.emit_term(SeparableTerm(abs(t.coefficient), t.monomial, t.element, t.bound))
            if total is None:
                total = wire if t.coefficient > 0 else self.negated(wire)
            else:
                total = self.graph.map("add" if t.coefficient > 0 else "sub", total, wire)
        return self.graph.const(0) if total is None else total

    def negated(self, wire: int) -> int:
        """The negation of a wire; constants are folded."""
        value = self.graph.const_value(wire)
        return self.graph.map("neg", wire) if value is None else self.graph.const(-value)

    def emit_term(self, t: SeparableTerm) -> int:
        """A wire that computes one term."""
        terms = self.graph
        value = t.element
        above = [w for w, p in t.monomial for _ in range(p)]
        below = [w for w, p in t.monomial for _ in range(-p)]
        if t.bound:
            for w in below:
                value = terms.map("div", terms.const(1) if value is None else value, w)
            factors = ([] if value is None else [value]) + above
            bound = {a.name for a in t.bound}
            names = dict.fromkeys(n for w in factors for n in terms.names(w) if n not in bound)
            value = terms.einsum(factors, tuple(names))
        else:
            for w in above:
                value = w if value is None else terms.map("mul", value, w)
            for w in below:
                value = terms.map("div", terms.const(1) if value is None else value, w)
        if t.coefficient != 1:
            number = terms.const(t.coefficient)
            value = number if value is None else terms.map("mul", value, number)
        return terms.const(1) if value is None else value

    def emit_scale(self, scale: Scale) -> int:
        """A wire that computes μ."""
        return self.emit(tuple(SeparableTerm(c, m) for c, m in scale.terms))

    # -- contractions ---------------------------------------------------------------------------

    def contract(
        self, forms: Sequence[Form], types: Sequence[ArrayType], output: Sequence[str], line: str | None
    ) -> Form:
        """The sum of products of forms over the axes that `output` does not have.

        Statistics with a contracted axis stay outside: the elements keep the axis, it is bound, and it is contracted
        when the form is emitted. An axis that no factor has contributes its size.
        """
        self._limit(forms)
        axes = {a.name: a for ty in types for a in ty.axes}
        gone = [a for a in axes.values() if a.name not in output]
        found: list[SeparableTerm] = []
        for combination in _combinations(forms):
            parts: list[SeparableTerm] = []
            for t in combination:
                for k in range(len(parts)):
                    parts[k], t = self.with_distinct_binders(parts[k], t)
                for axis in t.bound:
                    if axis.name in axes:
                        t = self.rebind(t, axis, self.term_axes(t) | set(axes))
                parts.append(t)
            found.append(self._contract_term(parts, gone, output, line))
        return collect(found)

    def _contract_term(
        self, parts: list[SeparableTerm], gone: list[Axis], output: Sequence[str], line: str | None
    ) -> SeparableTerm:
        """The contraction of one term of each form over the axes `gone`: statistics outside, elements inside."""
        terms = self.graph
        coefficient, scale = Fraction(1), Scale()
        monomial: Monomial = ()
        elements: list[int] = []
        bound: list[Axis] = []
        outer: set[str] = set()
        for t in parts:
            coefficient *= t.coefficient
            monomial = times(monomial, t.monomial)
            bound.extend(t.bound)
            outer |= self.outer_axes(t)
            if t.element is not None:
                elements.append(t.element)
                scale = merge_scales(scale, self.scale(t.element))
        inner = {n for w in elements for n in terms.names(w)}
        kept = {a.name for a in bound}
        summed: list[str] = []
        for axis in gone:
            if axis.name in outer:
                bound.append(axis)
                kept.add(axis.name)
            elif axis.name in inner:
                summed.append(axis.name)
            else:
                monomial = times(monomial, ((terms.size(axis.size), 1),))
        element: int | None = None
        if len(elements) == 1 and len(summed) < 2:
            element = terms.reduce("sum", summed[0], elements[0], line) if summed else elements[0]
        elif elements:
            layout = [n for n in output if n in inner] + [n for n in sorted(kept) if n in inner and n not in output]
            element = terms.einsum(elements, layout, line)
        if element is not None and not self._closes(summed):
            self.set_scale(element, scale)
        elif element is not None:
            wire = self.close(element, scale, line)
            element, monomial = None, times(monomial, ((wire, 1),))
        return SeparableTerm(coefficient, monomial, element, tuple(bound))

    def _closes(self, summed: list[str]) -> bool:
        return self.axis in summed

    @abstractmethod
    def close(self, wire: int, scale: Scale, line: str | None) -> int:
        """Called for each sum over the streamed axis itself; gives the wire that stands for it."""


def _combinations(forms: Sequence[Form]) -> Iterable[tuple[SeparableTerm, ...]]:
    found: list[tuple[SeparableTerm, ...]] = [()]
    for form in forms:
        found = [(*head, t) for head in found for t in form]
    return found
