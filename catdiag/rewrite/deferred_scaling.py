"""Deferred scaling: an array that is a sum is kept as its list of terms, so that factors and shared summands act on
small terms.

Of an array that is a sum `R[q] + C[x] + P[q x]` it is known which terms do not depend on which axis. Then (derived
here)

    (R + C + P)/s = R/s + C/s + P/s                    s with so few axes that small terms stay small
    max_x (R + C + P) = R + max_x (C + P)               R free of x; min likewise
    (R + C + P) − max_x (R + C + P) = C + P − max_x (C + P)

A summand that all exponents of a softmax share is therefore never computed elementwise. A comparison drops the summands
that both of its sides have: in floating point an entry then equals its own maximum, since both are computed in the same
way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from catdiag.category.op_facts import scalar_function
from catdiag.category.ops import Box, Map, Op, Reduce, Rename, op_fact
from catdiag.category.scalars import ScalarFunction
from catdiag.category.types import ArrayType
from catdiag.rewrite.hash_consed_graph import HashConsedGraph
from catdiag.rewrite.stream.selection_repair import COMPARISONS
from catdiag.rewrite.stream.separable_form import ADDITIVE, Algebra, Form, Scale, SeparableTerm, added, collect

_MOST = 16


class DeferredScaling(Algebra):
    """Tracks the wires that are known as sums of products of other wires."""

    def __init__(self, terms: HashConsedGraph) -> None:
        super().__init__(terms, "")
        self.sums: dict[int, Form] = {}

    def close(self, wire: int, scale: Scale, line: str | None) -> int:
        """Never called: no axis is streamed here."""
        raise AssertionError

    def carry(self, box: Box, inputs: list[int]) -> int | None:
        """The wire of a box's result, tracked as a sum of terms; None where the result is not kept as a sum."""
        if not any(w in self.sums for w in inputs):
            return None
        if scalar_function(box.op) in COMPARISONS:
            return self._compared(box, inputs)
        if box.cod[0].element != "real":
            return None
        form = self._deferred(box, inputs)
        if form is not None and isinstance(box.op, Reduce):
            # Boxes that do not take sums apart compare the maximum with the entries as computed.
            wire = self.graph.add(box, inputs)
            self.sums[wire] = form
            return wire
        if form is None or not 0 < len(form) <= _MOST:
            return None
        return self.put(form, box.cod[0], box.line)

    def output(self, wire: int, ty: ArrayType) -> int:
        """The wire of an output of the diagram."""
        form = self.sums.get(wire)
        return wire if form is None else self.put(form, ty, None)

    def put(self, form: Form, ty: ArrayType, line: str | None) -> int:
        """A wire that computes a sum of terms, tracked as such."""
        wire = self.graph.cast(self._written(form, line), ty)
        self.sums[wire] = form
        return wire

    def _deferred(self, box: Box, inputs: list[int]) -> Form | None:
        """The result of a box as a sum of terms; None where the box gives no such sum, or would make small
        terms large.
        """
        row = op_fact(DEFERRED, box.op)
        forms = [self.sums.get(w) or self.atom(w) for w in inputs]
        return None if row is None else row(self, box.op, box, inputs, forms)

    def function(self, fn: ScalarFunction, inputs: list[int], forms: list[Form]) -> Form | None:
        """The result of a scalar function as a sum of terms; None where it gives no such sum."""
        if fn in ADDITIVE:
            return added(fn, forms)
        if fn == "mul" and inputs[1] in self.sums:
            forms, inputs = forms[::-1], inputs[::-1]
        if fn not in ("mul", "div") or inputs[1] in self.sums or not self._stays(forms[0], inputs[0], inputs[1]):
            return None
        return self.multiply(*forms) if fn == "mul" else self.divide(*forms)

    def _compared(self, box: Box, inputs: list[int]) -> int | None:
        """A comparison of two sums without their common summands; None where there are none, or one side would be
        empty.
        """
        one, other = (self.sums.get(w, ()) for w in inputs)
        left, right = tuple(t for t in one if t not in other), tuple(t for t in other if t not in one)
        if len(left) == len(one) or not left or not right:
            return None
        assert isinstance(box.op, Map)
        wires = [self._written(form, box.line) for form in (left, right)]
        return self.graph.cast(self.graph.map(box.op.fn, *wires, line=box.line), box.cod[0])

    def _stays(self, form: Form, wire: int, factor: int) -> bool:
        """Whether no term that is smaller than the whole sum becomes as large as it when multiplied by `factor`."""
        whole, more = set(self.graph.names(wire)), set(self.graph.names(factor))
        names = [self.outer_axes(t) for t in form]
        return not whole <= more and all(whole <= mine or not whole <= mine | more for mine in names)

    def extremum(self, op: Reduce, form: Form, line: str | None) -> Form | None:
        """max or min over an axis, with the summands that do not depend on the axis outside."""
        rest = tuple(t for t in form if op.axis in self.outer_axes(t))
        free = tuple(t for t in form if t not in rest)
        if op.monoid not in ("max", "min") or not rest or not free:
            return None
        made = self.graph.reduce(op.monoid, op.axis, self._written(rest, line), line)
        return collect((*self.atom(made), *free))

    def _written(self, form: Form, line: str | None) -> int:
        """A wire that computes a sum. Larger terms come first; if the first would be negative, positive terms come
        first.
        """
        terms = self.graph
        total: int | None = None
        order = sorted(form, key=lambda t: (-len(self.outer_axes(t)), t.coefficient < 0))
        if order and order[0].coefficient < 0:
            order.sort(key=lambda t: t.coefficient < 0)
        for t in order:
            wire = self._term(SeparableTerm(abs(t.coefficient), t.monomial), line)
            if total is None:
                total = wire if t.coefficient > 0 else self.negated(wire)
            else:
                total = terms.map("add" if t.coefficient > 0 else "sub", total, wire, line=line)
        return terms.const(0) if total is None else total

    def _term(self, t: SeparableTerm, line: str | None) -> int:
        """A wire that computes one term: the factors from small to large, so that the largest array is
        multiplied once.
        """
        terms = self.graph
        powers = [w for w, p in t.monomial for _ in range(p)]
        powers.sort(key=lambda w: len(terms.names(w)))
        last = powers.pop() if powers else None
        factor: int | None = None if t.coefficient == 1 else terms.const(t.coefficient)
        for w in powers:
            factor = w if factor is None else terms.map("mul", factor, w, line=line)
        if last is not None and factor is None:
            factor, last = last, None
        for w, p in t.monomial:
            for _ in range(-p):
                factor = terms.map("div", terms.const(1) if factor is None else factor, w, line=line)
        if last is None:
            return terms.const(1) if factor is None else factor
        assert factor is not None
        return terms.map("mul", last, factor, line=line)


DEFERRED: Mapping[type[Op], Callable[[DeferredScaling, Any, Box, list[int], list[Form]], Form | None]] = {
    Map: lambda sums, op, box, inputs, forms: sums.function(op.fn, inputs, forms),
    Reduce: lambda sums, op, box, inputs, forms: sums.extremum(op, forms[0], box.line),
    Rename: lambda sums, op, box, inputs, forms: sums.renamed(dict(op.pairs), forms[0]),
}
"""The result of a box as a sum of terms, by the class of its operation; None where it gives no such sum. What has no
row gives none."""
