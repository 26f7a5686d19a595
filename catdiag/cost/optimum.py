"""The least transfers that a memory allows, in closed form where there is one, with a certificate.

Transfers and memory are posynomials of tile sizes (group partitions), so that the problem is a geometric
program. Its dual has as many unknowns as there are terms, and where they are one more than the rank of the
exponents (*zero degree of difficulty*) the weights follow from one rational linear system. Beyond that: one
tile whose memory is a polynomial with a root in closed form, and two tiles with all products of them. No
stationarity system is ever solved symbolically. Whatever is found is handed to
`catdiag.cost.posynomial.check_certificate` before it is returned.

Sources: duals of geometric programs, Duffin, Peterson, Zener, *Geometric Programming* (1967), chapter 3; the
leading order of tiled transfers, Abbott and Zardini, arXiv 2412.03317, sections 2 and 3; the exact forms with
stream blocks, the two-tile form and the absorbing of tiles are derived here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

import sympy
from sympy import Expr, Symbol
from sympy.core.relational import Relational

from catdiag.cost.posynomial import (
    Absorb,
    Certificate,
    CertificateError,
    Drop,
    Fill,
    Monotone,
    Posynomial,
    Powers,
    Problem,
    Shifted,
    Term,
    Tiles,
    Weights,
    check_certificate,
    collect,
    combination,
    dominates,
    echelon,
    number,
    posynomial,
    power,
    powers,
    reduce,
    requirements,
    settled,
    times,
    two_tiles,
)
from catdiag.cost.powerform import PowerForm, power_form

__all__ = ["Optimum", "branches", "check_certificate", "leading_order", "minimise"]

CAPACITY = Symbol("M", positive=True)
_UNBOUNDED: Mapping[Symbol, Expr] = MappingProxyType({})


@dataclass(frozen=True)
class Optimum:
    """Least transfers under a capacity, in the unit of the transfers given (values, or bytes).

    `leading` takes the least stream blocks and the leading terms of memory; with positive coefficients it
    is never above the true optimum. `exact` keeps stream blocks and statistics as they are. Either is
    `None` where no closed form was found, and `reason` says why. `tiles` and `leading_tiles` give the
    size of each tile there, or of a product of tiles where only that is determined. `conditions` and
    `leading_conditions` are those under which the two are the optimum over real tiles of at least one (and
    at most their bounds); integer tiles can only do worse. `certificate` and `leading_certificate` pass
    `check_certificate`.
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

    @property
    def power_form(self) -> PowerForm:
        """The transfers as a sum of powers of the capacity, from the leading order where there is one, else from the
        exact form. Raises `ValueError` where there is neither, or the capacity is no symbol."""
        certificate, value = (self.leading_certificate, self.leading)
        if certificate is None or value is None:
            certificate, value = (self.certificate, self.exact)
        if certificate is None or value is None:
            raise ValueError(f"no closed form to read powers of the capacity from: {self.reason}")
        capacity = certificate.problem.capacity
        if not capacity.is_Symbol:
            raise ValueError(f"the capacity is {capacity}: leave it a symbol to see the powers of it")
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


def minimise(
    transfers: Expr,
    memory: Expr,
    groups: Sequence[Symbol],
    streams: Sequence[Symbol],
    capacity: Expr = CAPACITY,
    bounds: Mapping[Symbol, Expr] = _UNBOUNDED,
) -> Optimum:
    """The least `transfers` over the tile sizes `groups` with `memory` at most `capacity`.

    `transfers` and `memory` are posynomials of the groups (memory may be a `Max` of some), without
    ceilings, in the same unit as `capacity`; `streams` are block sizes that memory may depend on and that
    stay as they are in the exact form; `bounds` gives the axis that a tile is at most. Every symbol must be
    declared positive. Raises `ValueError` where the input is of another form.

    >>> a, b, c, g_a, g_c, s = sympy.symbols("a b c g_a g_c s", positive=True)
    >>> found = minimise(a*b*c/g_c + a*b*c/g_a + a*c, g_a*g_c + g_a*s + s*g_c, [g_a, g_c], [s])
    >>> found.leading
    a*c + 2*a*b*c/sqrt(M)
    >>> found.exact
    a*c + 2*a*b*c*(s + sqrt(M + s**2))/M
    >>> found.leading_tiles
    {g_a: sqrt(M), g_c: sqrt(M)}
    """
    groups = tuple(dict.fromkeys(groups))
    transfers, memory, capacity = (sympy.sympify(e) for e in (transfers, memory, capacity))
    limits = {v: sympy.sympify(bound) for v, bound in bounds.items()}
    given = (transfers, memory, capacity, *limits.values(), *groups, *streams)
    for symbol in sorted(set().union(*(e.free_symbols for e in given)), key=str):
        if not symbol.is_positive:
            raise ValueError(f"{symbol} must be declared positive: Symbol({symbol.name!r}, positive=True)")
    if taken := (capacity.free_symbols | set(streams)) & set(groups):
        raise ValueError(f"{', '.join(map(str, taken))}: a tile, so neither a stream block nor the capacity")
    if capacity.free_symbols & (transfers.free_symbols | memory.free_symbols):
        raise ValueError(f"the capacity {capacity} shares a symbol with transfers or memory: rename one")
    if unknown := set(limits) - set(groups):
        raise ValueError(f"bounds are for tiles, and {', '.join(map(str, unknown))} is none")
    cost = posynomial(transfers, groups)
    resident = tuple(posynomial(branch, groups) for branch in branches(memory))
    stated = tuple(limits.items())
    exact, why = _attempt(Problem(cost, resident, capacity, stated), groups)
    reasons = [f"no exact form: {why}"] if exact is None else []
    leading: Certificate | None = None
    if moving := transfers.free_symbols & set(streams):
        why = f"transfers depend on the stream block {', '.join(map(str, moving))}"
    else:
        growing = {v for term in cost.varying for v, e in term.powers if e < 0}
        while True:
            kept = tuple(p for p in (leading_order(p, streams, growing) for p in resident) if p.terms)
            leading, why = _attempt(Problem(cost, kept or (Posynomial(()),), capacity, stated), groups)
            # A tile found to be one does not grow, so that terms may not be dropped on its account.
            steps = leading.reductions if leading else ()
            settled_at_one = {step.variable for step in steps if isinstance(step, Absorb)} & growing
            if not settled_at_one:
                break
            growing -= settled_at_one
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
    )


def _readable(certificate: Certificate | None) -> dict[Expr, Expr]:
    tiles = certificate.tiles if certificate else ()
    return {sympy.Mul(*(power(v, e) for v, e in key)): size for key, size in tiles}


def branches(expression: Expr) -> tuple[Expr, ...]:
    """The expressions whose maximum this is: `Max` pulled out of sums and products of positive factors.

    >>> x, y = sympy.symbols("x y", positive=True)
    >>> branches(2 * sympy.Max(x, y) + 1)
    (2*x + 1, 2*y + 1)
    """
    if not expression.has(sympy.Max):
        return (expression,)
    parts = [branches(argument) for argument in expression.args]
    if isinstance(expression, sympy.Max):
        return tuple(sorted({b for part in parts for b in part}, key=sympy.default_sort_key))
    if isinstance(expression, sympy.Add):
        return tuple(sympy.Add(*choice) for choice in itertools.product(*parts))
    if isinstance(expression, sympy.Mul) and not any(a.is_negative for a in expression.args):
        return tuple(sympy.Mul(*choice) for choice in itertools.product(*parts))
    raise ValueError(f"a maximum inside {expression} cannot be split into branches")


def leading_order(memory: Posynomial, streams: Sequence[Symbol], growing: Collection[Symbol]) -> Posynomial:
    """The terms of memory that count when sizes and the tiles `growing` are large.

    Terms with a stream block go. Of those with the same powers of growing tiles, the ones of the highest
    total degree in sizes stay. Then those go whose ratio to another falls as tiles grow, whatever the sizes.

    >>> g, d, s = sympy.symbols("g d s", positive=True)
    >>> leading_order(posynomial(2 * d * g + 2 * d * s + g * s + 3 * g, [g]), [s], [g]).expr
    2*d*g
    """
    parts: dict[Powers, list[tuple[Expr, Powers]]] = {}
    for term in memory.terms:
        effective = powers({v: e for v, e in term.powers if v in growing})
        for monomial in sympy.Add.make_args(sympy.expand(term.coefficient)):
            if not monomial.free_symbols & set(streams):
                parts.setdefault(effective, []).append((monomial, term.powers))
    for effective, same in parts.items():
        highest = max(_degree(monomial) for monomial, _ in same)
        parts[effective] = [part for part in same if _degree(part[0]) == highest]

    def negligible(monomial: Expr, effective: Powers) -> bool:
        for other, kept in parts.items():
            gap = dict(times((other, 1), (effective, -1))).values()
            if gap and all(e > 0 for e in gap) and any(_bounded(monomial / c) for c, _ in kept):
                return True
        return False

    return collect(
        Term(monomial, original)
        for effective, same in parts.items()
        for monomial, original in same
        if not negligible(monomial, effective)
    )


def _degree(monomial: Expr) -> Expr:
    """The total degree of a monomial in its symbols; a factor that is no symbol counts as its polynomial."""
    total = sympy.Integer(0)
    for base, exponent in monomial.as_powers_dict().items():
        names = base.free_symbols
        if names:
            total += exponent * (sympy.Poly(base, *names).total_degree() if base.is_polynomial(*names) else 0)
    return total


def _bounded(ratio: Expr) -> bool:
    """Whether a ratio of monomials grows with no size."""
    return all(
        base.is_number or (base.is_Symbol and exponent.is_negative) for base, exponent in ratio.as_powers_dict().items()
    )


def _attempt(problem: Problem, groups: Sequence[Symbol]) -> tuple[Certificate | None, str]:
    """A checked certificate of the optimum, or why there is none."""
    found = _solve(problem, problem, (), groups)
    if isinstance(found, str):
        return None, found
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
    """Reduce as far as is always right, then try each closed form, then fold one tile into another."""

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
        # Name the room for tiles: known to be positive, roots of its powers simplify.
        room, constant = sympy.Dummy(positive=True), limiting[0].constant
        given, restore = replace(problem, capacity=room + constant), {room: problem.capacity - constant}
    for attempt in (_constant, _by_weights, _by_root, _by_shift):
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
    rank = len(echelon(_exponents(problem, groups))[1])
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
    """Ways to move a tile into another. An exponent `r` suits transfers from some value on, memory up to
    some value: the least is taken, and `reduce` judges it."""
    for v, u in itertools.permutations([g for g in groups if g in problem.transfers.variables], 2):
        falling = [t.exponents for t in problem.transfers.terms]
        ratios = [e.get(v, Fraction(0)) / e[u] for e in falling if u in e]
        if ratios and _sound(problem, step := Absorb(v, powers({u: max(ratios)}))):
            yield step


def _exponents(problem: Problem, groups: Sequence[Symbol]) -> list[list[Fraction]]:
    """One row for each varying term, transfers first."""
    terms = [*problem.transfers.varying, *(t for b in problem.memory for t in b.varying)]
    return [[t.exponents.get(v, Fraction(0)) for v in groups] for t in terms]


_Found: TypeAlias = tuple[Expr, Tiles, Weights | Monotone | Shifted | None]


def _constant(problem: Problem, groups: Sequence[Symbol]) -> _Found | None:
    """Nothing left to choose."""
    return None if problem.transfers.varying else (problem.transfers.constant, (), None)


def _by_weights(problem: Problem, groups: Sequence[Symbol]) -> _Found | None:
    """Zero degree of difficulty: weights from one linear system, tiles from the share of each term.

    Reducing `[exponents | identity]` gives the monomials of tiles that are determined, and each as a
    product of terms whose values at the optimum are known.
    """
    if len(problem.memory) != 1:
        return None
    costs, resident = problem.transfers.varying, problem.memory[0].varying
    exponents = _exponents(problem, groups)
    count, zero, one = len(exponents), Fraction(0), Fraction(1)
    system = [[row[i] for row in exponents] + [zero] for i in range(len(groups))]
    solved, pivots = echelon([[one] * len(costs) + [zero] * len(resident) + [one], *system])
    if pivots != list(range(count)):
        return None
    weights = [row[-1] for row in solved[:count]]
    if any(w <= 0 for w in weights):
        return None
    proof = Weights(tuple(weights[: len(costs)]), tuple(weights[len(costs) :]))
    room = problem.capacity - problem.memory[0].constant
    shares = [room * number(w / proof.multiplier) / t.coefficient for w, t in zip(proof.memory, resident)]
    factors = [power(t.coefficient / number(w), w) for t, w in zip(costs, proof.transfers)]
    factors += [power(1 / share, w) for share, w in zip(shares, proof.memory)]
    varying = sympy.Mul(*factors)
    shares = [varying * number(w) / t.coefficient for w, t in zip(proof.transfers, costs)] + shares
    # Memory first: its shares are the simpler expressions.
    order = [*range(len(costs), count), *range(len(costs))]
    rows, leads = echelon([exponents[i] + [one if i == j else zero for j in order] for i in order])
    tiles = []
    for row, lead in zip(rows, leads):
        if lead < len(groups):
            key = powers(dict(zip(groups, row)))
            parts = (power(shares[i], e) for i, e in zip(order, row[len(groups) :]) if e)
            tiles.append((key, sympy.Mul(*parts)))
    return problem.transfers.constant + varying, tuple(tiles), proof


def _by_root(problem: Problem, groups: Sequence[Symbol]) -> _Found | None:
    """One monomial `x`, memory linear in a power of `x` or quadratic in one, in each branch."""
    limiting = [b for b in problem.memory if b.varying]
    if not limiting:
        return None
    first = limiting[0].varying[0].powers
    shared = math.gcd(*(e.numerator for _, e in first))
    first = times((first, Fraction(math.lcm(*(e.denominator for _, e in first)), shared)))
    roots, values = [], []
    for branch in limiting:
        found = [combination([first], t.powers) for t in branch.varying]
        if any(f is None or f[0] <= 0 for f in found):
            return None
        by_degree = {f[0]: t.coefficient for f, t in zip(found, branch.varying) if f is not None}
        low, room = min(by_degree), problem.capacity - branch.constant
        if len(by_degree) == 1:
            unit = room / by_degree[low]
        elif set(by_degree) == {low, 2 * low}:
            alpha, beta = by_degree[2 * low], by_degree[low]
            unit = 2 * room / (beta + sympy.sqrt(sympy.factor(beta**2 + 4 * alpha * room)))
        else:
            return None
        roots.append(power(unit, 1 / low))
        values.append(value := sympy.Integer(0))
        for term in problem.transfers.terms:
            step = combination([first], term.powers)
            if step is None or step[0] > 0:
                return None
            value += term.coefficient * power(unit, step[0] / low)
        values[-1] = value
    proof = Monotone(first, tuple(roots), tuple(values))
    return sympy.Max(*values), ((first, sympy.Min(*roots)),), proof


def _by_shift(problem: Problem, groups: Sequence[Symbol]) -> _Found | None:
    """Two tiles, or two independent monomials of tiles, and their product."""
    falling = [times((t.powers, -1)) for t in problem.transfers.varying]
    for x, y in itertools.combinations(falling, 2):
        try:
            a, b, c, alpha, beta, gamma, room = two_tiles(problem, x, y)
        except CertificateError:
            continue
        floor = alpha * room + beta * gamma
        root = _square_root(a * b * floor)
        bound = sympy.factor_terms(c * alpha + a * beta + b * gamma + 2 * root) / room
        # The sizes at U = root/A', V = root/B', where U = S/x - beta and V = S/y - gamma.
        tiles = (
            (x, room / (beta + _square_root(floor * b / a))),
            (y, room / (gamma + _square_root(floor * a / b))),
        )
        return problem.transfers.constant + bound, settled(tiles), Shifted(x, y, root)
    return None


def _square_root(expression: Expr) -> Expr:
    """A square root with squares taken out. Sympy would write `Abs` for a factor of unknown sign; here the
    sign is settled by the conditions, as only the positive root gives tiles of at least one."""
    result = sympy.Integer(1)
    for side, sign in zip(sympy.fraction(sympy.together(expression)), (1, -1)):
        constant, factors = sympy.factor_list(side)
        result *= sympy.sqrt(constant) ** sign
        under = sympy.Integer(1)
        for factor, count in factors:
            result *= factor ** (sign * (count // 2))
            under *= factor ** (count % 2)
        result *= sympy.sqrt(under) ** sign
    return result
