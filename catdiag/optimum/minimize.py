"""The least transfers that a memory allows, in closed form where there is one, with a certificate.

Transfers and memory are posynomials of tile sizes, so that the problem is a geometric program. Its dual has as many
unknowns as there are terms. Where these are one more than the rank of the exponents (*zero degree of difficulty*), the
weights follow from one rational linear system. Two further closed forms are known: one tile whose memory is a
polynomial with a root in closed form, and two tiles with all products of them. No stationarity system is solved
symbolically. Every result is checked before it is returned, by
`catdiag.optimum.closed_form_certificate.check_certificate`.

Sources: the dual of geometric programs is from Duffin, Peterson, Zener, *Geometric Programming* (1967), chapter 3; the
leading order of tiled transfers from Abbott and Zardini, arXiv 2412.03317, sections 2 and 3. The exact forms with
stream blocks, the two-tile form and the absorption of tiles are derived here.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import sympy
from sympy import Expr, Symbol
from sympy.core.relational import Relational

from catdiag.optimum.closed_form import by_root, by_shift, by_weights, exponents_of, nothing_left
from catdiag.optimum.closed_form_certificate import (
    Absorb,
    Certificate,
    Drop,
    Fill,
    Monotone,
    Problem,
    Shifted,
    check_certificate,
    reduce,
    requirements,
)
from catdiag.optimum.dual_bound import certify
from catdiag.optimum.leading_order import branches, fastest_terms, leading_order
from catdiag.optimum.minimax import minimax as at_once
from catdiag.optimum.optimality_certificate import PowerProgram
from catdiag.optimum.posynomial import (
    CertificateError,
    Posynomial,
    Powers,
    dominates,
    echelon,
    posynomial,
    power,
    powers,
)
from catdiag.optimum.power_form import PowerForm, power_form
from catdiag.util.argument_checks import formula, numbers
from catdiag.util.display import AsHTML
from catdiag.util.errors import FormulaError

if TYPE_CHECKING:
    from catdiag.optimum.dual_bound import DualityGap
    from catdiag.optimum.regimes import Regimes

__all__ = ["Optimum", "branches", "check_certificate", "leading_order", "minimize"]

CAPACITY = Symbol("M", positive=True)
_LONG = 60
"""The most operations of a value with roots: longer ones are slow to check, and not readable."""
_UNBOUNDED: Mapping[Symbol, Expr] = MappingProxyType({})


@dataclass(frozen=True)
class Optimum(AsHTML):
    """Least transfers under a capacity, in the unit of the transfers given (values, or bytes: `unit`, where known).

    `exact` keeps stream blocks and statistics as they are. `leading` takes the smallest stream blocks and the leading
    terms of memory (and of transfers, where there is no closed form otherwise); with positive coefficients it is never
    above the true optimum. Either is `None` where no closed form was found, and `reason` says why.

    `tiles` and `leading_tiles` give the size of each tile at these optima, or of a product of tiles where only that is
    determined. `conditions` and `leading_conditions` are those under which the two are the optimum over real tiles of
    at least one (and at most their bounds); integer tiles can only move more. `certificate` and `leading_certificate`
    pass `check_certificate`.
    """

    leading: Expr | None
    exact: Expr | None
    tiles: Mapping[Expr, Expr]
    leading_tiles: Mapping[Expr, Expr]
    conditions: tuple[Relational, ...]
    leading_conditions: tuple[Relational, ...]
    certificate: Certificate | None
    leading_certificate: Certificate | None
    reason: str = ""
    program: PowerProgram | None = field(default=None, repr=False, compare=False)
    leading_program: PowerProgram | None = field(default=None, repr=False, compare=False)
    unit: str = field(default="", compare=False)

    @cached_property
    def regimes(self) -> Regimes:
        """The regimes: which constraints bind, and the exact optimum where they do, each with a certificate.

        Tiles are inside their range, at their axis, or at one. Where everything fits, only compulsory transfers are
        left. The least memory below which nothing fits is given too. Computed at first access.
        """
        return _regimes(self.program)

    @cached_property
    def leading_regimes(self) -> Regimes:
        """The regimes of the leading order of memory, with tiles between one and their axes."""
        return _regimes(self.leading_program)

    @property
    def piecewise(self) -> Expr:
        """The exact optimum as a `Piecewise` over `regimes`, in the capacity and the sizes.

        It is infinite where nothing fits, and `nan` where no closed form is known.
        """
        return self.regimes.piecewise

    @property
    def leading_piecewise(self) -> Expr:
        """The leading order as a `Piecewise` over `leading_regimes`."""
        return self.leading_regimes.piecewise

    def bracket(self, sizes: Mapping[str, int] | Mapping[Symbol, int | Fraction]) -> DualityGap | None:
        """The exact optimum at sizes (of axes, stream blocks, and the capacity), with or without a closed form.

        It is given between a lower bound and a feasible point, both checked in exact arithmetic. Its `dual.bound` is a
        lower bound at all other sizes too. `None` where nothing fits. Raises SizeError for sizes that are missing, and
        FormulaError where there is no program.
        """
        if self.program is None:
            raise FormulaError("no program was kept to solve")
        numbers(sizes)
        names = {str(s): s for s in self.program.symbols}
        return certify(self.program, {names.get(v, v) if isinstance(v, str) else v: n for v, n in sizes.items()})

    @property
    def power_form(self) -> PowerForm:
        """The transfers as a sum of powers of the capacity, at leading order if known, else from the exact form.

        Raises FormulaError where there is neither, or the capacity is not a symbol.
        """
        certificate, value = (self.leading_certificate, self.leading)
        if certificate is None or value is None:
            certificate, value = (self.certificate, self.exact)
        if certificate is None or value is None:
            raise FormulaError(f"no closed form to read powers of the capacity from: {self.reason}")
        capacity = certificate.problem.capacity
        if not capacity.is_Symbol:
            raise FormulaError(f"the capacity is {capacity}: leave it a symbol to see the powers of it")
        return power_form(value, capacity)

    def __str__(self) -> str:
        lines = []
        for name, value, tiles, conditions in (
            ("leading order", self.leading, self.leading_tiles, self.leading_conditions),
            ("exact", self.exact, self.tiles, self.conditions),
        ):
            if value is None:
                continue
            lines.append(f"{name}: {value}")
            if tiles:
                lines.append("  at " + ", ".join(f"{tile} = {size}" for tile, size in tiles.items()))
            if conditions:
                lines.append("  if " + ", ".join(map(str, conditions)))
        return "\n".join(lines + ([self.reason] if self.reason else []))


def _regimes(program: PowerProgram | None) -> Regimes:
    from catdiag.optimum.regimes import regimes

    if program is None:
        raise FormulaError("no program was kept to find regimes of: transfers depend on a stream block")
    return regimes(program)


def minimize(
    transfers: Expr | Sequence[tuple[Expr, Expr]],
    memory: Expr | Sequence[tuple[Expr, Expr]],
    groups: Sequence[Symbol],
    streams: Sequence[Symbol],
    capacity: Expr = CAPACITY,
    bounds: Mapping[Symbol, Expr] = _UNBOUNDED,
    *,
    minimax: bool = False,
) -> Optimum:
    """The least `transfers` over the tile sizes `groups` with `memory` at most `capacity`.

    `transfers` and `memory` are posynomials of the groups (memory may be a `Max` of posynomials), without ceilings, in
    the same unit as `capacity`. `streams` are block sizes that memory may depend on; the exact form keeps them as
    symbols. `bounds` gives the axis that a tile is at most. Every symbol must be declared positive.

    Several edges: `transfers` as pairs of a weight (the cost per unit, for example the inverse of a bandwidth) and a
    formula; the weighted transfers are added, or with `minimax` the largest counts (edges that work at the same time).
    Several memories: `memory` as pairs of the allocated amount and its capacity. The bound of a tile may be another
    tile that contains it. In these cases there is no single `exact` and `leading` form, but there are `regimes` and
    `bracket`.

    Raises FormulaError where the input is of another form.

    Several edges: `transfers` as pairs of a weight (the cost of a unit: one over a bandwidth, say) and what crosses,
    which are added; with `minimax`, the greatest of them counts (edges that work at the same time). Several
    memories: `memory` as pairs of what is held and its capacity. The bound of a tile may be another tile, which it is
    cut from. Then there is no single `exact` and `leading` form, but there are `regimes` and `bracket`.
    """
    groups = tuple(dict.fromkeys(groups))
    edges = [] if isinstance(transfers, Expr | int) else [(sympy.sympify(w), sympy.sympify(h)) for w, h in transfers]
    if not isinstance(transfers, Expr | int):
        transfers = sympy.Add(*(sympy.sympify(weight) * sympy.sympify(moved) for weight, moved in transfers))
    pairs = [(memory, capacity)] if isinstance(memory, Expr | int) else list(memory)
    capacity = formula(pairs[0][1] if pairs else capacity, "the capacity")
    transfers = formula(transfers, "the transfers")
    memories = [(formula(amount, "the memory"), formula(limit, "the capacity")) for amount, limit in pairs]
    limits = {v: sympy.sympify(bound) for v, bound in bounds.items()}
    _checked(transfers, memories, groups, streams, limits)
    inner = {v: bound for v, bound in limits.items() if bound.free_symbols & set(groups)}
    limits = {v: bound for v, bound in limits.items() if v not in inner}
    cost = posynomial(transfers, groups)
    resident = [(posynomial(branch, groups), limit) for amount, limit in memories for branch in branches(amount)]
    nested = [(posynomial(v / bound, groups), sympy.S.One) for v, bound in inner.items()]
    stated, range_of = tuple(limits.items()), tuple((v, limits.get(v)) for v in groups)
    whole = PowerProgram(cost, (*resident, *nested), range_of)
    if minimax and len(edges) > 1:
        whole = at_once([posynomial(w * h, groups) for w, h in edges], whole, {**limits, **inner})
        return Optimum(None, None, {}, {}, (), (), None, None, "the slowest of several edges: see the regimes", whole)
    moving = transfers.free_symbols & set(streams)
    if nested or len({limit for _, limit in resident}) > 1:
        growing = {v for term in cost.varying for v, e in term.powers if e < 0}
        kept = [(leading_order(p, streams, growing), limit) for p, limit in resident]
        main = PowerProgram(cost, (*((p, limit) for p, limit in kept if p.terms), *nested), range_of)
        why = "several memories or tiles within tiles: see the regimes"
        return Optimum(None, None, {}, {}, (), (), None, None, why, whole, None if moving else main)
    return _one_memory(cost, [p for p, _ in resident], capacity, stated, groups, streams, whole, moving)


def _checked(
    transfers: Expr,
    memories: Sequence[tuple[Expr, Expr]],
    groups: Sequence[Symbol],
    streams: Sequence[Symbol],
    limits: Mapping[Symbol, Expr],
) -> None:
    given = (transfers, *(e for pair in memories for e in pair), *limits.values(), *groups, *streams)
    for symbol in sorted(set().union(*(e.free_symbols for e in given)), key=str):
        if not symbol.is_positive:
            raise FormulaError(f"{symbol} must be declared positive: Symbol({symbol.name!r}, positive=True)")
    amounts = transfers.free_symbols.union(*(amount.free_symbols for amount, _ in memories))
    for _, capacity in memories:
        if taken := (capacity.free_symbols | set(streams)) & set(groups):
            raise FormulaError(
                f"{', '.join(map(str, taken))} is a tile: expected another symbol for a stream block or the capacity"
            )
        if capacity.free_symbols & amounts:
            raise FormulaError(f"the capacity {capacity} shares a symbol with transfers or memory: rename one")
    if unknown := set(limits) - set(groups):
        raise FormulaError(
            f"bounds names {', '.join(map(str, unknown))}: expected tiles, some of {', '.join(map(str, groups))}"
        )


def _one_memory(
    cost: Posynomial,
    resident: Sequence[Posynomial],
    capacity: Expr,
    stated: tuple[tuple[Symbol, Expr], ...],
    groups: Sequence[Symbol],
    streams: Sequence[Symbol],
    whole: PowerProgram,
    moving: Collection[Symbol],
) -> Optimum:
    """The closed forms with tiles inside their range under one memory, exact and at leading order."""
    exact, why = _attempt(Problem(cost, tuple(resident), capacity, stated), groups)
    reasons = [f"no exact form: {why}"] if exact is None else []
    leading: Certificate | None = None
    main: PowerProgram | None = None
    if moving:
        why = f"transfers depend on the stream block {', '.join(map(str, moving))}"
    else:
        growing = {v for term in cost.varying for v, e in term.powers if e < 0}
        while True:
            kept = tuple(p for p in (leading_order(p, streams, growing) for p in resident) if p.terms)
            main = replace(whole, memory=tuple((p, capacity) for p in kept))
            leading, why = _attempt(Problem(cost, kept or (Posynomial(()),), capacity, stated), groups)
            # A tile found to be one does not grow, so terms dropped on that assumption must be restored.
            steps = leading.reductions if leading else ()
            settled_at_one = {step.variable for step in steps if isinstance(step, Absorb)} & growing
            if not settled_at_one:
                break
            growing -= settled_at_one
        plain = fastest_terms(cost, growing)
        if leading is None and plain != cost:
            # Terms that vanish as tiles grow (a halo) are dropped: the result is still a lower bound.
            leading, explanation = _attempt(Problem(plain, kept or (Posynomial(()),), capacity, stated), groups)
            why = explanation if leading is None else why
            main = main if leading is None or main is None else replace(main, transfers=plain)
    reasons += [f"no leading order: {why}"] if leading is None else []
    return Optimum(
        leading=None if leading is None else leading.value,
        exact=None if exact is None else exact.value,
        tiles=_readable(exact),
        leading_tiles=_readable(leading),
        conditions=requirements(exact) if exact else (),
        leading_conditions=requirements(leading) if leading else (),
        certificate=exact or leading,
        leading_certificate=leading,
        reason="; ".join(reasons),
        program=whole,
        leading_program=main,
    )


def _readable(certificate: Certificate | None) -> dict[Expr, Expr]:
    tiles = certificate.tiles if certificate else ()
    return {sympy.Mul(*(power(v, e) for v, e in key)): size for key, size in tiles}


def _attempt(problem: Problem, groups: Sequence[Symbol]) -> tuple[Certificate | None, str]:
    """A checked certificate of the optimum, or the reason why there is none."""
    found = _solve(problem, problem, (), groups)
    if isinstance(found, str):
        return None, found
    if isinstance(found.proof, Shifted) and (operations := int(found.value.count_ops())) > _LONG:
        return None, f"the closed form has {operations} operations, more than the {_LONG} that are checked"
    try:
        check_certificate(found)
    except CertificateError as error:
        return None, f"what was found could not be certified ({error})"
    if sympy.false in requirements(found):
        tiles = ", ".join(f"{tile} = {size}" for tile, size in _readable(found).items())
        return None, f"another regime: {found.value} at {tiles} would be least, outside the tiles' range"
    return found, ""


_Steps: TypeAlias = tuple[Absorb | Fill | Drop, ...]


def _solve(problem: Problem, whole: Problem, steps: _Steps, groups: Sequence[Symbol]) -> Certificate | str:
    """A certificate of the optimum, or the reason why there is none.

    First come the reductions that are always sound, then each closed form, then the absorption of one tile into
    another.
    """

    def then(step: Absorb | Fill | Drop) -> Certificate | str:
        return _solve(reduce(problem, step), whole, (*steps, step), groups)

    limited = frozenset[Symbol]().union(*(branch.variables for branch in problem.memory))
    for v in groups:
        if v in limited - problem.transfers.variables:
            if _sound(problem, Absorb(v)):
                return then(Absorb(v))
            return f"memory falls with {v}"
        if v in problem.transfers.variables - limited:
            if _sound(problem, Fill(v)):
                return then(Fill(v))
            return f"memory does not limit {v}, so its bound is needed"
    for i, j in itertools.permutations(range(len(problem.memory)), 2):
        if dominates(problem.memory[j], problem.memory[i]):
            return then(Drop(i, j))
    limiting = [branch for branch in problem.memory if branch.varying]
    given, restore = problem, {}
    if problem.capacity.is_Symbol and len(limiting) == 1:
        # The room for tiles becomes a positive symbol, so that roots of its powers simplify.
        room, constant = sympy.Dummy(positive=True), limiting[0].constant
        given, restore = replace(problem, capacity=room + constant), {room: problem.capacity - constant}
    for attempt in (nothing_left, by_weights, by_root, by_shift):
        found = attempt(given, groups)
        if found is not None:
            value, tiles, proof = found
            if isinstance(proof, Shifted):
                proof = replace(proof, root=proof.root.subs(restore))
            elif isinstance(proof, Monotone):
                roots, values = (tuple(e.subs(restore) for e in es) for es in (proof.roots, proof.values))
                proof = replace(proof, roots=roots, values=values)
            sizes = tuple((key, size.subs(restore)) for key, size in tiles)
            return Certificate(whole, value.subs(restore), (*_settled(steps, whole), *sizes), proof, steps)
    if len(problem.memory) > 1:
        return f"{len(problem.memory)} branches of the memory, none dominating, over several tiles"
    for fold in _absorptions(problem, groups):
        if not isinstance(further := then(fold), str):
            return further
    terms = len(problem.transfers.varying) + len(problem.memory[0].varying)
    rank = len(echelon(exponents_of(problem, groups))[1])
    return f"degree of difficulty {terms - rank - 1}, not of a form with a closed form"


def _settled(steps: _Steps, whole: Problem) -> Iterator[tuple[Powers, Expr]]:
    bounds = dict(whole.bounds)
    for step in steps:
        if not isinstance(step, Drop):
            size = sympy.Integer(1) if isinstance(step, Absorb) else bounds[step.variable]
            yield powers({step.variable: 1}), size


def _sound(problem: Problem, step: Absorb | Fill) -> bool:
    try:
        reduce(problem, step)
    except CertificateError:
        return False
    return True


def _absorptions(problem: Problem, groups: Sequence[Symbol]) -> Iterator[Absorb]:
    """The candidate reductions that absorb one tile into another.

    An exponent `r` suits transfers from some value on, and memory up to some value. The smallest that suits transfers
    is taken, and `reduce` decides whether it is sound.
    """
    for v, u in itertools.permutations([g for g in groups if g in problem.transfers.variables], 2):
        falling = [t.exponents for t in problem.transfers.terms]
        ratios = [e.get(v, Fraction(0)) / e[u] for e in falling if u in e]
        if ratios and _sound(problem, step := Absorb(v, powers({u: max(ratios)}))):
            yield step
