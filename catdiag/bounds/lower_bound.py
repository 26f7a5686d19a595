"""Lower bounds on transfers (I/O lower bounds): over all schedules of a diagram's scalar operations, tiles and orders.

The definition of a schedule, the theorems and their proofs are in `docs/explanation/lower_bounds.md`. In short: there
are a fast memory of M values and an unbounded slow one, which holds the inputs at the start and the results at the end,
each in an array of its own. Values are loaded, saved and computed. Each scalar operation of the diagram is done at
least once, with its operands in fast memory. Sums may be taken in any order, and partial sums may be saved.

The bound does not hold for equal diagrams: another diagram that computes the same may have fewer operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from catdiag.bounds.bound_certificate import (
    BoundCase,
    BoundClaim,
    BoundError,
    Monomial,
    approximate,
    check,
    cuts_of,
    derive,
    evaluate,
)
from catdiag.bounds.compulsory_traffic import Needed, needed
from catdiag.bounds.covering_polytope import exponents_of
from catdiag.bounds.dataflow import flow_of
from catdiag.bounds.joint_bound import check_joint, joint_at, joint_value
from catdiag.bounds.joint_search import JointBound, JointSearch
from catdiag.bounds.reuse import Candidate, SourceReader
from catdiag.bounds.segments import Lifetime, check_lifetime, lifetime_bound, lifetimes
from catdiag.category.diagram import diagram_of
from catdiag.category.integer_polynomial import IntPolynomial, symbol
from catdiag.category.op_facts import scalar_function
from catdiag.category.substitution import inline
from catdiag.category.types import Size, size_symbols, size_value
from catdiag.schedule.element_widths import Dtype
from catdiag.schedule.stored_types import output_names, widths_of
from catdiag.util import argument_checks as given
from catdiag.util.argument_checks import formula, numbers
from catdiag.util.display import AsHTML
from catdiag.util.errors import CatdiagError, SizeError

if TYPE_CHECKING:
    import numpy as np

    from catdiag.category.diagram import Diagram, HasDiagram

    Floats: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.float64]]"

Expr = Any

COMPULSORY, CONTRACTION, CHAIN, SUM = "compulsory", "contraction", "chain", "sum"
CUTS = 8
"""The most cuts of a case: the terms of its formula. Cases of more are left out, which makes the bound smaller."""
_SAMPLES = 240
_TYPICAL = 2.0**17
_GAIN = 1.07
_WINS = 2


@dataclass(frozen=True)
class BoundTerm:
    """One proved bound: its `kind`, the box whose points it counts, its `value`, and its certificate."""

    kind: str
    box: str
    value: Expr
    case: BoundCase | Lifetime | JointBound
    sizes: Mapping[str, Size]

    def check(self) -> None:
        """Checks the certificate in exact arithmetic. Raises BoundError if it does not show what it claims."""
        if isinstance(self.case, Lifetime):
            check_lifetime(self.case)
        elif isinstance(self.case, JointBound):
            check_joint(self.case.joint, self.case.shares)
        else:
            check(self.case)

    def at(self, sizes: Mapping[str, int], capacity: Fraction | int) -> Fraction | float:
        """The bound at these sizes: exact, or rounded down."""
        capacity = Fraction(capacity)
        lengths = {n: size_value(e, sizes) for n, e in self.sizes.items()}
        if isinstance(self.case, Lifetime):
            found: Fraction = lifetime_bound(self.case, lengths, capacity, lambda f: f)
            return found
        if isinstance(self.case, JointBound):
            return joint_at(self.case.joint, self.case.shares, lengths, capacity)
        return evaluate(self.case, lengths, capacity)


@dataclass(frozen=True)
class LowerBound(AsHTML):
    """No schedule of the diagram's scalar operations moves less than `bound` (values, or bytes where `unit` says so).

    `compulsory` are the loads and saves that happen at least once. `terms` are the further bounds, each with a
    certificate; `bound` is the largest of all. It holds under `conditions`; `assumptions` say in words what a schedule
    is. `kind` names the strongest argument used; it is "compulsory" where there is no other.
    """

    bound: Expr
    compulsory: Expr
    terms: tuple[BoundTerm, ...]
    arrays: tuple[Needed, ...]
    conditions: tuple[Expr, ...]
    assumptions: tuple[str, ...]
    kind: str
    unit: str
    capacity: Expr
    recompute: bool
    sizes: Mapping[str, int] = field(default_factory=dict)
    limit: Fraction | None = field(default=None, repr=False)
    axes: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """All sizes of the diagram, in the bound or not."""

    @property
    def certificate(self) -> tuple[BoundCase | Lifetime | JointBound, ...]:
        """The certificates of the terms, for the checkers in `catdiag.bounds`: `bound_certificate`, `segments`,
        `joint_bound`."""
        return tuple(term.case for term in self.terms)

    def check(self) -> None:
        """Checks all certificates. Raises BoundError if one does not show what it claims."""
        for term in self.terms:
            term.check()

    def at(self, sizes: Mapping[str, int] | None = None, capacity: float | None = None) -> int | Fraction | float:
        """The bound at these sizes and this capacity, in `unit`; 0 where an axis is empty. Floats are rounded down.

        Raises SizeError for a size, or the capacity, that is missing or negative.
        """
        numbers(sizes or {})
        if capacity is not None:
            numbers({str(self.capacity): capacity}, "the capacity")
        given = {**self.sizes, **(sizes or {})}
        for name in sizes or {}:
            if name not in self.axes:
                listed = ", ".join(self.axes) or "none"
                raise SizeError(f"size {name!r} is given, and the diagram has no such axis: its sizes are {listed}")
        limit = self.limit if capacity is None else Fraction(capacity)
        for name, number in [*given.items(), (str(self.capacity), limit or 0)]:
            if number < 0:
                raise SizeError(f"{name} is {number}, which is negative: expected a number of 0 or more")
        missing = sorted({s for n in self.arrays for s in n.elements.symbols()} - set(given))
        missing += sorted({s for t in self.terms for e in t.sizes.values() for s in size_symbols(e)} - set(given))
        if limit is None and self.terms:
            missing.append(str(self.capacity))
        if missing:
            raise SizeError(f"the bound is in {', '.join(dict.fromkeys(missing))} too: give a number for it")
        if any(n == 0 for n in given.values()):
            return 0
        found: list[int | Fraction | float] = [sum(n.elements.value(given) * n.width for n in self.arrays)]
        found += [t.at(given, limit or Fraction(1)) for t in self.terms]
        best = max(found)
        return int(best) if best == int(best) else best

    def ratio(self, above: Any, sizes: Mapping[str, int] | None = None, capacity: float | None = None) -> Expr | float:
        """The ratio of an `Optimum` (at leading order), a formula or a number to the bound.

        A number where sizes and a capacity are given, else an expression. Raises CatdiagError for an optimum without a
        closed form, and for one in another unit than the bound.
        """
        import sympy

        if sizes is not None:
            numbers(sizes)
        if capacity is not None:
            formula(capacity, "the capacity")
        if (unit := getattr(above, "unit", "")) and unit != self.unit:
            raise CatdiagError(
                f"the optimum is in {unit} and the bound in {self.unit}: ask for both with the same dtype, or without"
            )
        found = getattr(above, "leading", above)
        numbers(sizes or {})
        if found is not None:
            found = formula(found, "what is compared with the bound")
        elif not hasattr(above, "leading"):
            formula(above, "what is compared with the bound")
        if found is None:
            found = above.exact
        if found is None:
            raise CatdiagError("the optimum has no closed form: give a number or a formula to compare with the bound")
        if sizes is None and capacity is None:
            return found / self.bound
        put = {symbol(name): n for name, n in {**self.sizes, **(sizes or {})}.items()}
        if capacity is not None:
            put |= {s: capacity for s in sympy.sympify(found).free_symbols if str(s) == str(self.capacity)}
        value, least = sympy.sympify(found).subs(put), float(self.at(sizes, capacity))
        if value.free_symbols or not value.is_real:
            missing = ", ".join(sorted(map(str, value.free_symbols)))
            raise SizeError(
                f"what is compared is {value}: expected a number"
                + (f", so give one for {missing}" if missing else " at these sizes and that capacity")
            )
        if not least:
            raise SizeError("the bound is 0 at these sizes, so that there is no ratio to it")
        return float(value) / least

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; expressions as text."""
        return {
            "bound": str(self.bound),
            "compulsory": str(self.compulsory),
            "kind": self.kind,
            "unit": self.unit,
            "recompute": self.recompute,
            "terms": [{"kind": t.kind, "box": t.box, "bound": str(t.value)} for t in self.terms],
            "arrays": [{"array": n.array, "direction": n.direction, "elements": str(n.elements)} for n in self.arrays],
            "conditions": [str(c) for c in self.conditions],
            "assumptions": list(self.assumptions),
        }

    def __str__(self) -> str:
        lines = [f"at least    {self.compulsory}  ({COMPULSORY}: each input and result once)"]
        lines += [f"and         {t.value}  ({t.kind}, {t.box})" for t in self.terms]
        if not self.terms:
            lines.append("no bound beyond the compulsory transfers is shown")
        lines.append(f"  in {self.unit}, if " + ", ".join(map(str, self.conditions)))
        lines += [f"  {text}" for text in self.assumptions]
        return "\n".join(lines)


def assumptions(recompute: bool, masks: bool = False, left_out: bool = False) -> tuple[str, ...]:
    """The definition of a schedule in words.

    There is more of it where a diagram has masks, or loops that skip blocks (`left_out`).
    """
    again = "anything may be computed again" if recompute else "nothing is computed twice"
    found = [
        "a schedule: a fast memory of M, a slow one without limit; values are loaded, saved, computed and dropped; "
        "each result ends in an array of its own, equal ones too, but for inputs that are returned",
        "each scalar operation of this diagram is done at each index of its box, with its operands in fast memory; "
        "a product's operand may be summed before over indices that it alone has",
        "sums go in any order and partial sums may be saved; other boxes use a sum when it is complete, or add to it",
        f"products of the same elements may be shared, and their sums; {again}",
        "every size is at least 1, and reads at index arithmetic are in range",
    ]
    if masks:
        found.append("operations on masked elements count too: a form that skips them (.skip) may move less")
    if left_out:
        found.append("operations inside a loop that skips blocks do not count, because they may be skipped")
    return (*found, "no bound on equal diagrams: one that computes the same from fewer operations may move less")


def lower_bound(
    diagram: Diagram | HasDiagram,
    capacity: Expr | None = None,
    *,
    recompute: bool = True,
    sizes: Mapping[str, int] | None = None,
    dtype: Dtype = None,
) -> LowerBound:
    """A lower bound on the transfers of any schedule of a diagram's scalar operations between slow and fast memory.

    The fast memory has `capacity` (by default the symbol `M`), in values, or in bytes with `dtype` (as for `io`).
    `sizes` are substituted. `recompute=False` restricts the bound to schedules that compute nothing twice. Raises
    CatdiagError for unknown dtypes and arrays.

    >>> from catdiag.category.ops import einsum_box
    >>> from catdiag.category.diagram import of_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> a, b, c = Axis("a"), Axis("b"), Axis("c")
    >>> found = lower_bound(of_box(einsum_box([ArrayType((a, b)), ArrayType((b, c))], ["a", "c"])))
    >>> found.bound
    Max(2*a*b*c/sqrt(M), a*b + a*c + b*c)
    >>> found.at({"a": 1000, "b": 1000, "c": 1000}, 10_000)
    20000000
    """
    import sympy

    diagram = diagram_of(diagram)
    given.dtypes(dtype)
    if sizes is not None:
        given.numbers(sizes)
    flow = flow_of(diagram)
    widths = widths_of(inline(diagram), dtype)
    names = output_names(diagram)
    arrays = needed(flow, widths.inputs, widths.outputs, names)
    compulsory = sympy.Add(*(n.elements.expr() * n.width for n in arrays))
    limit = _capacity(flow_sizes(flow)) if capacity is None else formula(capacity, "the capacity")
    known_limit = _number(limit)
    reader = SourceReader(flow, widths, names)
    candidates = list(reader.candidates())
    cases: list[tuple[Candidate, BoundCase | Lifetime]] = [(c, case) for c in candidates for case in _cases(c)]
    if not recompute:
        plain = [c for c in candidates if c.plain and c.begins == 1]
        cases += [(c, case) for c in plain for case in lifetimes(c.box, c.sources)]
    chosen = _chosen(cases, arrays)
    terms = tuple(_term(candidate, case, limit) for candidate, case in chosen)
    widest = max((n.width for n in arrays), default=1)
    search = JointSearch(reader, candidates, sizes or {}, float(known_limit or _TYPICAL * widest), CUTS)
    terms += tuple(_sum_term(found, limit) for found in search.found())
    put = {symbol(name): sympy.Integer(n) for name, n in (sizes or {}).items()}
    if put:
        compulsory = compulsory.xreplace(put)
        terms = tuple(replace(t, value=t.value.xreplace(put)) for t in terms)
    bound = sympy.Max(compulsory, *(t.value for t in terms), evaluate=False) if terms else compulsory
    known = sorted(flow_sizes(flow) - set(sizes or {}))
    conditions = tuple(sympy.Ge(symbol(n), 1, evaluate=False) for n in known)
    kinds = [t.kind for t in terms]
    kind = CHAIN if CHAIN in kinds else CONTRACTION if kinds else COMPULSORY
    unit = "values" if dtype is None else "bytes"
    masks = any(scalar_function(act.box.op) == "where" for act in flow.acts if act.unconditional)
    words = assumptions(recompute, masks, not all(act.unconditional for act in flow.acts))
    return LowerBound(bound, compulsory, terms, arrays, conditions, words, kind, unit, limit, recompute,
                      dict(sizes or {}), known_limit, _axes(diagram, flow))  # fmt: skip


def _number(limit: Expr) -> Fraction | None:
    """A capacity as a number; None for a formula. Raises SizeError below 0."""
    import sympy

    exact = sympy.nsimplify(limit, rational=True)
    if exact.is_Rational and exact < 0:
        raise SizeError(f"the capacity is {limit}, which is negative: expected a number of 0 or more, or a symbol")
    return Fraction(int(exact.p), int(exact.q)) if exact.is_Rational else None


def _axes(diagram: Diagram, flow: Any) -> tuple[str, ...]:
    """The sizes of a diagram's wires, and its inputs that may be lengths."""
    types = (*diagram.dom, *diagram.cod, *inline(diagram).graph.wire_types())
    found = {s for ty in dict.fromkeys(types) for axis in ty.axes for s in size_symbols(axis.size)}
    lengths = {n for n, ty in zip(diagram.input_names, diagram.dom, strict=True) if ty.element == "int" and not ty.axes}
    return tuple(sorted(found | lengths | flow_sizes(flow)))


def flow_sizes(flow: Any) -> set[str]:
    """The size symbols of the arrays of a flow."""
    return {s for array in flow.arrays for e in array.axes.values() for s in IntPolynomial.of(e.size).symbols()}


def _capacity(used: set[str]) -> Expr:
    import sympy

    name = "M"
    while name in used:
        name += "_"
    return sympy.Symbol(name, positive=True)


# -- certificates --------------------------------------------------------------------------------------------------


def _cases(candidate: Candidate) -> Iterator[BoundCase]:
    """The cases of a candidate: exponents at the vertices of the covering polytope, and steps that suit their cuts."""
    for powers, boxes in exponents_of(candidate.indices, candidate.covers):
        if candidate.begins == 2 and not powers[-1]:
            continue
        kept = [(s, p) for s, p in zip(candidate.sources, powers, strict=True) if p]
        if not kept or cuts_of([s for s, _ in kept]) > CUTS:
            continue
        trial = BoundCase(
            candidate.box,
            candidate.indices,
            tuple(s for s, _ in kept),
            tuple(p for _, p in kept),
            boxes,
            candidate.begins,
            Fraction(1),
            BoundClaim("least", ()),
            candidate.symmetric,
            candidate.disjoint,
        )
        try:
            shown = derive(trial)
        except BoundError:
            continue
        degrees = sorted({1 - m.capacity for m in shown.monomials})
        if degrees[-1] <= 1:
            continue  # no stronger than the compulsory transfers
        steps: list[Fraction | None] = [candidate.begins / (degree - 1) for degree in degrees if degree > 1]
        if shown.kind == "least" and len(shown.monomials) == 2 and len(degrees) == 2:
            steps.append(None)
        for step in steps:
            found = replace(trial, step=step)
            yield replace(found, claim=derive(found))


def _term(candidate: Candidate, case: BoundCase | Lifetime, capacity: Expr) -> BoundTerm:
    import sympy

    sizes = dict(candidate.sizes)
    if isinstance(case, Lifetime):
        check_lifetime(case)
        lengths = {n: IntPolynomial.of(e).expr() for n, e in sizes.items()}
        return BoundTerm(CHAIN, candidate.box, lifetime_bound(case, lengths, capacity, _rational), case, sizes)
    check(case)
    values = [_expression(m, sizes, capacity) for m in case.claim.monomials]
    if case.claim.kind == "least":
        value = sympy.Min(*values, evaluate=False) if len(values) > 1 else values[0]
    elif case.claim.kind == "together":
        value = 1 / sympy.Add(*(1 / v for v in values))
    else:
        value = values[0] - values[1]
    if case.disjoint:
        value = value * (1 - sympy.Add(*(1 / IntPolynomial.of(sizes[n]).expr() for n in case.disjoint)))
    kind = CHAIN if any(s.parts for s in case.sources) else CONTRACTION
    return BoundTerm(kind, candidate.box, value, case, sizes)


def _sum_term(found: JointBound, capacity: Expr) -> BoundTerm:
    value = joint_value(
        found.shares, lambda m: _expression(m, found.sizes, capacity), _rational(found.joint.step) * capacity
    )
    return BoundTerm(SUM, found.box, value, found, found.sizes)


def _rational(f: Fraction) -> Expr:
    import sympy

    return sympy.Rational(f.numerator, f.denominator)


def _expression(monomial: Monomial, sizes: Mapping[str, Size], capacity: Expr) -> Expr:
    import sympy

    factors = [_rational(base) ** _rational(e) for base, e in monomial.coefficient]
    factors += [IntPolynomial.of(sizes[n]).expr() ** _rational(e) for n, e in monomial.sizes]
    return sympy.Mul(*factors, capacity ** _rational(monomial.capacity))


# -- which to show -------------------------------------------------------------------------------------------------


def _chosen(
    cases: Sequence[tuple[Candidate, BoundCase | Lifetime]], arrays: Sequence[Needed]
) -> list[tuple[Candidate, BoundCase | Lifetime]]:
    """A few of the cases: at random sizes, the largest of them is nearly as large as the largest of all.

    Leaving one out makes the bound smaller, never wrong.
    """
    import numpy as np

    if not cases:
        return []
    random = Random(0)
    names = sorted({s for c, _ in cases for size in c.sizes.values() for s in IntPolynomial.of(size).symbols()}
                   | {s for n in arrays for s in n.elements.symbols()})  # fmt: skip
    widest = max((n.width for n in arrays), default=1)
    draws = []
    for k in range(_SAMPLES):
        sizes = {name: max(1, round(2 ** random.uniform(0, 16))) for name in names}
        some = [float(sizes[random.choice(names)]) for _ in range(2)]
        # Capacities of any size, and of about the square of a row's size, where regimes meet.
        room = 2 ** random.uniform(2, 24) if k % 2 else sum(some) ** 2 * 2 ** random.uniform(-3, 3)
        draws.append((sizes, widest * max(room, 4.0)))
    logs = {
        size: np.log([float(size_value(size, sizes)) for sizes, _ in draws])
        for size in dict.fromkeys(size for c, _ in cases for size in c.sizes.values())
    }
    capacities = np.array([capacity for _, capacity in draws])
    tables = [_roughly(c, case, logs, capacities) for c, case in cases]
    best = np.array([float(sum(n.elements.value(sizes) * n.width for n in arrays)) for sizes, _ in draws])
    chosen: list[int] = []
    while True:
        gains = [(int(np.sum(row > best * _GAIN)), -k) for k, row in enumerate(tables)]
        most = max(gains)
        if most[0] < _WINS:
            return [cases[k] for k in sorted(chosen)]
        chosen.append(-most[1])
        best = np.maximum(best, tables[-most[1]])


def _roughly(
    candidate: Candidate, case: BoundCase | Lifetime, logs: Mapping[Size, Floats], capacities: Floats
) -> Floats:
    """The claim of a case in floating point, at each draw of lengths (by their logarithms) and capacity."""
    import numpy as np

    sizes = candidate.sizes
    if isinstance(case, Lifetime):
        lengths = {n: np.exp(logs[s]) for n, s in sizes.items()}
        found: Floats = lifetime_bound(case, lengths, capacities, float)
        return found
    room = np.log(capacities)
    values: list[Floats] = []
    for m in case.claim.monomials:
        value = math.log(approximate(m.coefficient)) + float(m.capacity) * room
        for name, e in m.sizes:
            value = value + float(e) * logs[sizes[name]]
        values.append(np.exp(value))
    total = values[0]
    if case.claim.kind == "least":
        total = np.minimum.reduce(values)
    elif case.claim.kind == "together":
        total = 1 / np.sum([1 / v for v in values], axis=0)
    elif case.claim.kind == "difference":
        total = values[0] - values[1]
    left = 1 - sum((np.exp(-logs[sizes[n]]) for n in case.disjoint), np.zeros_like(room))
    return np.asarray(total * left)
