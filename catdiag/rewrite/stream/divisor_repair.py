"""Repair of elements that are divided by a statistic made of maxima, such as quantization scales.

**The law** (derived here). Let an element b(e) be divided by a statistic C(r) of the axis, and let σ(r) be any number
other than 0 for every list r. Then `b/C = (b/σ)·(σ/C)`, and `b/σ(r′) = (b/σ(r))·(σ(r)/σ(r′))`. So the accumulator of
`(b/σ)^p` is repaired by the factor `(σ(r)/σ(r′))^p`, and C only has to be defined. Here σ is C, or a tiny number where
C is smaller or no element was read yet. The elements then keep the range that the program gives them: `A/max |A|` is at
most 1, while A·A may overflow.

Divisors are kept in the elements if arithmetic makes them of maxima; in products also if they are made of sums of
absolute values. Elements that are divided by other sums (a softmax, a norm) are accumulated undivided. The exception is
a cast: it rounds to its type, so that its argument keeps the program's scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from catdiag.category.op_facts import monoid_of, scalar_function
from catdiag.category.ops import INDEX_MAPS, REDUCTIONS, Box, Map
from catdiag.category.scalars import Cast
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.stream.exponential_repair import LOW, Stabilizer
from catdiag.rewrite.stream.separable_form import Form, Monomial, Scale, SeparableTerm, merge_scales, times

SMALL = Fraction(1, 10**30)
"""Replaces smaller divisors: it is so small that elements divided by it lose no precision in fp32."""

_ARITHMETIC = frozenset(
    ("mul", "div", "add", "sub", "neg", "abs", "sqrt", "max", "min", "where", "eq", "ne", "lt", "le")
)


class Scaling(Stabilizer):
    """Forms whose elements may be divided by statistics."""

    def __init__(self, terms: HashConsedGraph, axis: Axis, mode: str = "plain") -> None:
        super().__init__(terms, axis, mode)
        self.scaled = True  # whether divisors made of maxima stay in the elements
        self.divided: dict[int, Box] = {}  # the dividing box, by divisor
        self.dropped: list[Box] = []  # boxes whose maximum the loop does not have
        self.ratios: set[int] = set()  # quotients of a statistic and its replacement: 1 unless it is tiny

    def is_divisor(self, wire: int, sums: bool = False) -> bool:
        """Whether a wire is a statistic that arithmetic makes of maxima over the axis; with `sums`, or of sums of
        absolute values.
        """
        terms = self.graph
        if not terms.late[wire] or self.has_axis(wire):
            return False
        cone = terms.cone([wire], self.components)
        for w in cone:
            node, component = terms.node(w), self.components.get(w)
            if component is not None:
                if component.on:
                    return False
            elif node is not None and terms.late[w]:
                op, fn = node.box.op, scalar_function(node.box.op)
                function = fn in _ARITHMETIC or isinstance(fn, Cast)
                if not function and not isinstance(op, INDEX_MAPS) and monoid_of(op) not in ("max", "min"):
                    return False
        made = {w: self.components[w].monoid for w in cone if w in self.components}
        return "max" in made.values() or (sums and any(m == "sum" and self._adds_sizes(w) for w, m in made.items()))

    def _adds_sizes(self, wire: int) -> bool:
        """Whether a sum is a sum of absolute values."""
        node = self.graph.node(wire)
        return node is not None and self.graph.function_of(node.inputs[0]) == "abs"

    def is_inverse(self, wire: int) -> bool:
        """Whether a wire is a number that is independent of the axis's reductions divided by such a statistic, a
        multiple of that, or a choice (`where`) of such.
        """
        node, fn = self.graph.node(wire), self.graph.function_of(wire)
        if node is None or not self.graph.late[wire] or wire in self.ratios:
            return False
        late = [w for w in node.inputs if self.graph.late[w]]
        if fn == "where":
            return bool(late) and all(self.is_inverse(w) for w in node.inputs[1:] if self.graph.late[w])
        if fn == "div" and not self.graph.late[node.inputs[0]]:
            return self.is_divisor(node.inputs[1])
        return fn in ("mul", "div") and len(late) == 1 and late[0] == node.inputs[0] and self.is_inverse(late[0])

    def divisors(self, t: SeparableTerm) -> Monomial:
        """The powers of statistics made of maxima that divide a term."""
        return tuple((w, p) for w, p in t.monomial if (self.is_divisor(w) if p < 0 else self.is_inverse(w)))

    def defer_inside(self, form: Form, box: Box) -> Form:
        """The form with its divisors that are made of maxima moved into its elements."""
        for t in form:
            for w, _ in self.divisors(t):
                self.divided.setdefault(w, box)
        if not self.scaled or len(form) != 1 or form[0].bound:
            return form
        (t,) = form
        found = self.divisors(t)
        if not found or t.element is None or not self.has_axis(t.element):
            return form
        return (self.with_factor(t, found, box.line),)

    def defer_in_products(self, forms: Sequence[Form], box: Box) -> list[Form]:
        """Forms that are multiplied. If at least two have elements divided by sums of absolute values, these keep their
        divisors.

        A sum of one such element does not exceed its divisor, but a product of two undivided elements may overflow.
        """
        found: list[Monomial] = []
        for form in forms:
            loaded = len(form) == 1 and not form[0].bound and form[0].element is not None
            powers = form[0].monomial if loaded and self.has_axis(form[0].element or 0) else ()
            found.append(tuple((w, p) for w, p in powers if p < 0 and self.is_divisor(w, sums=True)))
        if sum(map(bool, found)) < 2:
            return list(forms)
        for w in (w for powers in found for w, _ in powers):
            self.divided.setdefault(w, box)
        if not self.scaled:
            return list(forms)
        kept = zip(forms, found, strict=True)
        return [(self.with_factor(form[0], powers, box.line),) if powers else form for form, powers in kept]

    def with_factor(self, t: SeparableTerm, factor: Monomial, line: str | None) -> SeparableTerm:
        """A term with powers of statistics moved into its element, each replaced by its `bounded_divisor`."""
        terms, element = self.graph, t.element
        assert element is not None
        scale, outside = self.scale(element), times(t.monomial, factor, -1)
        for w, p in factor:
            made = self.bounded_divisor(w)
            for _ in range(abs(p)):
                element = terms.map("mul" if p > 0 else "div", element, made, line=line)
            scale = merge_scales(scale, Scale(factor=((made, p),)))
            if made != w:
                ratio = terms.map("div", *((w, made) if p > 0 else (made, w)))
                if p < 0:
                    # A statistic of 0 is not divided by: the program does not use the quotient there.
                    ratio = terms.map("where", terms.map("eq", w, terms.const(0)), terms.const(1), ratio)
                self.ratios.add(ratio)
                outside = times(outside, ((ratio, abs(p)),))
        self.set_scale(element, scale)
        return SeparableTerm(t.coefficient, outside, element, t.bound)

    def bounded_divisor(self, wire: int) -> int:
        """The replacement σ of a statistic: positive for every list, and equal to its absolute value unless that is
        tiny.
        """
        terms, small = self.graph, self.graph.const(SMALL)
        if terms.positive[wire]:
            return wire
        if all(map(self._not_negative, self._maxima([wire]))):
            made = self._above(wire, small)
            if terms.positive[made]:
                return made
        made = self._above(wire, terms.const(LOW))
        return terms.map("max", made if self._not_negative(made) else terms.map("abs", made), small)

    def _above(self, wire: int, low: int) -> int:
        """A statistic with each of its maxima bounded from below by `low`."""
        safe = {w: self._real(self.graph.map("max", w, low)) for w in self._maxima([wire])}
        return self._chosen(self.graph.substitute(wire, safe, self.components))

    def _chosen(self, wire: int) -> int:
        """A wire with every `where` resolved that tests whether a positive number is 0 or negative."""
        terms, change = self.graph, dict[int, int]()
        for w in terms.cone([wire], self.components):
            node = terms.node(w)
            if node is None or not terms.late[w] or w in self.components or terms.function_of(w) != "where":
                continue
            test, fn = terms.node(node.inputs[0]), terms.function_of(node.inputs[0])
            if test is None or fn not in ("eq", "ne", "lt", "le"):
                continue
            for number, other in (test.inputs, test.inputs[::-1]):
                value = terms.const_value(other)
                if terms.positive[number] and value is not None and value <= 0:
                    above = fn == "ne" or (fn != "eq" and number == test.inputs[1])
                    change[w] = terms.cast(node.inputs[1 if above else 2], terms.types[w])
        return terms.substitute(wire, change, self.components) if change else wire

    def _real(self, wire: int) -> int:
        """The maximum of a wire and a number, with real elements instead of extended ones."""
        terms, node = self.graph, self.graph.node(wire)
        assert node is not None
        real = terms.add(Box(node.box.op, node.box.dom, Ty(ArrayType(terms.types[wire].axes))), node.inputs)
        self.safe.add(real)
        return real

    def _not_negative(self, wire: int) -> bool:
        """Whether an array is nonnegative by its form."""
        terms, known = self.graph, dict[int, bool]()
        for w in terms.cone([wire]):
            node, fn, value = terms.node(w), terms.function_of(w), terms.const_value(w)
            if node is None or terms.positive[w] or value is not None:
                known[w] = terms.positive[w] or value == 0
                continue
            parts = [known[i] for i in node.inputs]
            if fn in ("abs", "sqrt") or (fn == "mul" and node.inputs[0] == node.inputs[1]):
                known[w] = True
            elif isinstance(node.box.op, Map):
                every = fn in ("add", "mul", "div", "min") or isinstance(fn, Cast)
                known[w] = (fn == "max" and any(parts)) or (every and all(parts)) or (fn == "where" and all(parts[1:]))
            else:
                known[w] = isinstance(node.box.op, (*REDUCTIONS, *INDEX_MAPS)) and all(parts)
        return known[wire]

    def of_power(self, fn: str, scale: Scale) -> Scale:
        """The scale of |b| or √b, given that of b."""
        half = Fraction(1, 2) if fn == "sqrt" else Fraction(1)
        factor: Monomial = ()
        for w, p in scale.factor:
            root = w if fn == "abs" and self.graph.positive[w] else self.graph.map(fn, w)
            factor = times(factor, ((root, p),))
        return Scale(tuple((half * c, m) for c, m in scale.terms), scale.guards, factor)

    def note_dropped(self, boxes: Iterable[Box]) -> None:
        """Records boxes that divide by, or subtract, a maximum that the loop does not have."""
        self.dropped += [box for box in dict.fromkeys(boxes) if box not in self.dropped]

    def _contract_term(
        self, parts: list[SeparableTerm], gone: list[Axis], output: Sequence[str], line: str | None
    ) -> SeparableTerm:
        if self.axis in {a.name for a in gone}:
            together: Monomial = ()
            for t in parts:
                together = times(together, t.monomial)
            loaded = any(t.element is not None and self.has_axis(t.element) for t in parts)
            left = [w for w, _ in self.divisors(SeparableTerm(Fraction(1), together))] if loaded else []
            left += [w for w, p in together if loaded and p < -1 and self.is_divisor(w, sums=True) and w not in left]
            self.note_dropped(box for w in left if (box := self.divided.get(w, self.here)) is not None)
        return super()._contract_term(parts, gone, output, line)

    def scale_of(self, elements: Form, statistics: Form, bare: Form, line: str | None) -> tuple[Form, Form, bool]:
        """What is subtracted in an exponential, as `Stabilizer.scale_of` gives it; records a maximum that is
        dropped.
        """
        found = super().scale_of(elements, statistics, bare, line)
        if not found[0] and self.here is not None and self._maxima(w for t in found[1] for w, _ in t.monomial):
            self.note_dropped([self.here])
        return found
