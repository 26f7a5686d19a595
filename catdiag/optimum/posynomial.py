"""Posynomial programs (geometric programs), and certificates of their optima that are checked independently.

A *posynomial* is a sum of monomials `c * g1**e1 * g2**e2 ...` in tile sizes `g`, with rational exponents `e` and
coefficients `c > 0` in the other sizes. A `Problem` asks for the least `transfers` over real tiles of at least one,
with every branch of `memory` at most `capacity`. Transfers and memory are in the same unit (values, or bytes if the
coefficients carry the width of an element).

Nothing here searches. A `Certificate` states an optimum and a proof of it. *Reductions* map each feasible point to
another that costs no more. A *proof* of the reduced problem is one of `Weights` (the dual of a geometric program:
Duffin, Peterson, Zener, *Geometric Programming*, 1967, chapter 3), `Shifted` and `Monotone` (both derived here).
`check_certificate` replays both with fractions and identities of algebraic functions. The claim also rests on
inequalities: that a block fits, and that a tile is at least one and at most its axis. These are not decided here;
`requirements` returns them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import sympy
from sympy import Expr, Symbol

from catdiag.util.errors import FormulaError

Powers: TypeAlias = tuple[tuple[Symbol, Fraction], ...]
"""A monomial with coefficient one: pairs of a tile and its non-zero exponent, ordered by name."""
Tiles: TypeAlias = tuple[tuple[Powers, Expr], ...]
"""Sizes of independent monomials of tiles."""


class CertificateError(ValueError):
    """A certificate does not show what it claims; the message names the step that fails."""


def powers(exponents: Mapping[Symbol, Fraction | int]) -> Powers:
    """The monomial with these exponents, in canonical order, so that equal monomials compare equal."""
    kept = ((v, Fraction(e)) for v, e in exponents.items() if e)
    return tuple(sorted(kept, key=lambda pair: (pair[0].name, str(pair[0].sort_key()))))


def times(*factors: tuple[Powers, Fraction | int]) -> Powers:
    """The product of monomials, each raised to an exponent."""
    total: dict[Symbol, Fraction] = {}
    for monomial, exponent in factors:
        for variable, e in monomial:
            total[variable] = total.get(variable, Fraction(0)) + e * exponent
    return powers(total)


def number(fraction: Fraction | int) -> sympy.Rational:
    """A fraction as a sympy rational."""
    return sympy.Rational(fraction.numerator, fraction.denominator)


def power(base: Expr, exponent: Fraction | int) -> Expr:
    """`base ** exponent` as a sympy expression with an exact exponent."""
    return base ** number(exponent)


@dataclass(frozen=True)
class PosynomialTerm:
    """One monomial of a posynomial: its coefficient (free of tiles) and its powers of tiles."""

    coefficient: Expr
    powers: Powers = ()

    @property
    def exponents(self) -> dict[Symbol, Fraction]:
        """The exponent of each tile that occurs."""
        return dict(self.powers)

    @property
    def expr(self) -> Expr:
        """The term as a sympy expression."""
        return sympy.Mul(self.coefficient, *(power(v, e) for v, e in self.powers))


@dataclass(frozen=True)
class Posynomial:
    """A sum of terms; `collect` merges terms with the same powers."""

    terms: tuple[PosynomialTerm, ...]

    @property
    def constant(self) -> Expr:
        """The sum of the terms without tiles."""
        return sympy.Add(*(t.coefficient for t in self.terms if not t.powers))

    @property
    def varying(self) -> tuple[PosynomialTerm, ...]:
        """The terms that depend on a tile."""
        return tuple(t for t in self.terms if t.powers)

    @property
    def variables(self) -> frozenset[Symbol]:
        """The tiles that occur."""
        return frozenset(v for t in self.terms for v, _ in t.powers)

    @property
    def expr(self) -> Expr:
        """The posynomial as a sympy expression."""
        return sympy.Add(*(t.expr for t in self.terms))


def collect(terms: Iterable[PosynomialTerm]) -> Posynomial:
    """Merges terms with the same powers.

    Unmerged, `2*d*g` and `3*g` would be two monomials, and the degree of difficulty of the dual needlessly higher.
    Raises FormulaError where a merged coefficient is negative.
    """
    merged: dict[Powers, Expr] = {}
    for term in terms:
        merged[term.powers] = merged.get(term.powers, sympy.Integer(0)) + term.coefficient
    kept = [PosynomialTerm(sympy.factor(coefficient), monomial) for monomial, coefficient in merged.items()]
    for term in kept:
        if term.coefficient.is_negative:
            raise FormulaError(f"the coefficient {term.coefficient} is negative: not a posynomial")
    return Posynomial(tuple(term for term in kept if term.coefficient != 0))


def posynomial(expression: Expr, variables: Sequence[Symbol]) -> Posynomial:
    """An expression as a posynomial in `variables`. Raises FormulaError where it is none.

    >>> g, d, s = sympy.symbols("g d s", positive=True)
    >>> [(t.coefficient, t.exponents) for t in posynomial(g * (2 * d + s) + 3 * g + d / g**2, [g]).terms]
    [(2*d + s + 3, {g: Fraction(1, 1)}), (d, {g: Fraction(-2, 1)})]
    """
    terms = []
    for summand in sympy.Add.make_args(sympy.expand(sympy.sympify(expression))):
        coefficient, rest = summand.as_independent(*variables, as_Add=False)
        exponents: dict[Symbol, Fraction] = {}
        for factor in sympy.Mul.make_args(rest) if rest != 1 else ():
            base, exponent = factor.as_base_exp()
            if base not in variables or not exponent.is_Rational:
                raise FormulaError(f"{summand} is not a monomial in {', '.join(map(str, variables))}: {factor}")
            exponents[base] = exponents.get(base, Fraction(0)) + Fraction(int(exponent.p), int(exponent.q))
        terms.append(PosynomialTerm(coefficient, powers(exponents)))
    return collect(terms)


def dominates(larger: Posynomial, smaller: Posynomial) -> bool:
    """Whether `larger >= smaller` is shown for all sizes and tiles of at least one.

    With each symbol written as one plus a nonnegative variable, no coefficient of the difference may be negative. This
    is sufficient, not necessary.
    """
    difference = sympy.expand(larger.expr - smaller.expr)
    if difference == 0:
        return True
    symbols = sorted(difference.free_symbols, key=sympy.default_sort_key)
    if not symbols or not difference.is_polynomial(*symbols):
        return all(bool(a.is_positive) for a in sympy.Add.make_args(difference))
    shifted = sympy.Poly(difference.subs({v: 1 + v for v in symbols}, simultaneous=True), *symbols)
    return all(bool(c.is_nonnegative) for c in shifted.coeffs())


def vanishes(expression: Expr) -> bool:
    """Whether an algebraic function is shown to be exactly zero; `False` means "not shown".

    Each root becomes a new symbol with its defining equation, and the numerator is reduced modulo these equations.
    Roots are taken to be real, and are split only at factors that are then positive.

    >>> x = sympy.Symbol("x", positive=True)
    >>> r = sympy.sqrt(x**2 + x)
    >>> vanishes((r + x) * (r - x) / x - 1), vanishes(r - x)
    (True, False)
    """
    expression = sympy.sympify(expression)
    # One degree for all roots, so that a square root and a cube root of one expression become powers of one symbol.
    degree = math.lcm(*(int(p.exp.q) for p in expression.atoms(sympy.Pow) if p.exp.is_Rational))
    names: dict[Expr, Symbol] = {}

    def root(base: Expr, exponent: sympy.Rational) -> Expr:
        if exponent.q > 1:
            base, exponent = names.setdefault(base, sympy.Dummy(positive=True)), exponent * degree
        return base**exponent

    @cache
    def split(base: Expr, exponent: sympy.Rational) -> Expr:
        unsure, result = [], sympy.Integer(1)
        for side, sign in zip(sympy.fraction(sympy.together(base)), (1, -1), strict=True):
            constant, factors = sympy.factor_list(side)
            primes = sympy.factorrat(constant).items() if constant.is_Rational else [(constant, 1)]
            for piece, count in [*factors, *((sympy.sympify(prime), n) for prime, n in primes)]:
                if piece.is_positive:
                    result *= root(piece, sign * count * exponent)
                else:
                    unsure.append((piece, sign * count))
        if len(unsure) == 1 and unsure[0][1] % 2:  # an odd power that has a real root: positive itself
            return result * root(unsure[0][0], unsure[0][1] * exponent)
        rest = sympy.Mul(*(piece**count for piece, count in unsure))
        return result * root(rest, exponent) if unsure else result

    flat = expression.replace(lambda e: e.is_Pow and e.exp.is_Rational, lambda e: split(e.base, e.exp))
    numerator = sympy.expand(sympy.fraction(sympy.together(flat))[0])
    for base, name in reversed(names.items()):  # an outer root may contain inner ones, which were met first
        equation = sympy.fraction(sympy.together(name**degree - base))[0]
        numerator = sympy.fraction(sympy.together(sympy.rem(numerator, equation, name)))[0]
    return bool(sympy.expand(numerator) == 0)


def combination(rows: Sequence[Powers], target: Powers) -> tuple[Fraction, ...] | None:
    """Exponents with which the monomials `rows` multiply to `target`; `None` where there are none."""
    variables = sorted({v for row in (*rows, target) for v, _ in row}, key=sympy.default_sort_key)
    system = [[dict(row).get(v, Fraction(0)) for row in (*rows, target)] for v in variables]
    reduced, pivots = echelon(system)
    if len(rows) in pivots:
        return None
    solution = {pivot: row[-1] for row, pivot in zip(reduced, pivots, strict=False)}
    return tuple(solution.get(i, Fraction(0)) for i in range(len(rows)))


def echelon(matrix: Sequence[Sequence[Fraction]]) -> tuple[list[list[Fraction]], list[int]]:
    """The reduced row echelon form over the rationals and its pivot columns."""
    rows: list[list[Fraction]] = [list(row) for row in matrix]
    pivots: list[int] = []
    for column in range(len(rows[0]) if rows else 0):
        at = len(pivots)
        found = next((i for i in range(at, len(rows)) if rows[i][column]), None)
        if found is None:
            continue
        rows[at], rows[found] = rows[found], rows[at]
        rows[at] = [e / rows[at][column] for e in rows[at]]
        for i, row in enumerate(rows):
            if i != at and row[column]:
                rows[i] = [e - row[column] * p for e, p in zip(row, rows[at], strict=True)]
        pivots.append(column)
    return rows, pivots


@dataclass(frozen=True)
class Problem:
    """Minimizes `transfers` over real tiles between one and their `bounds`, each `memory` at most `capacity`."""

    transfers: Posynomial
    memory: tuple[Posynomial, ...]
    capacity: Expr
    bounds: tuple[tuple[Symbol, Expr], ...] = ()


@dataclass(frozen=True)
class Absorb:
    """The reduction that sets `variable` to one and multiplies each other tile `u` by `variable ** into[u]`."""

    variable: Symbol
    into: Powers = ()


@dataclass(frozen=True)
class Fill:
    """The reduction that sets `variable`, on which no memory depends, to its bound."""

    variable: Symbol


@dataclass(frozen=True)
class Drop:
    """The reduction that drops branch `branch` of the memory, which branch `by` dominates."""

    branch: int
    by: int


@dataclass(frozen=True)
class Weights:
    """Dual weights of the varying transfers (which sum to one) and of the varying memory terms, in their order.

    With terms `u_i` and weights `delta_i`, `sum u_i >= prod (u_i / delta_i)**delta_i`, and likewise for the memory with
    `lambda = sum mu_k`. Where all exponents of tiles cancel, the product bounds every feasible point from below.
    """

    transfers: tuple[Fraction, ...]
    memory: tuple[Fraction, ...]

    @property
    def multiplier(self) -> Fraction:
        """`lambda`: minus the elasticity of the varying transfers with respect to the room for tiles."""
        return sum(self.memory, Fraction(0))


@dataclass(frozen=True)
class Shifted:
    """Transfers `A/x + B/y + C/(x*y)` under `alpha*x*y + beta*x + gamma*y <= S`, x and y monomials.

    With `u = 1/x`, `v = 1/y` the constraint is `alpha + beta*v + gamma*u <= S*u*v`. Hence `C*u*v` is at least `C/S`
    times its left side. With `A' = A + C*gamma/S`, `B' = B + C*beta/S` transfers are therefore at least `C*alpha/S +
    A'*u + B'*v`. The constraint is also `U*V >= alpha*S + beta*gamma` where `U = S*u - beta > 0`, `V = S*v - gamma >
    0`, and `A'*U + B'*V >= 2*sqrt(A'*B'*U*V)`. So transfers are at least `(C*alpha + A'*beta + B'*gamma + 2*root) / S`,
    `root**2 = A'*B'*(alpha*S + beta*gamma)`. Derived here.
    """

    x: Powers
    y: Powers
    root: Expr


@dataclass(frozen=True)
class Monotone:
    """Transfers decrease and every memory increases with one monomial, which each branch bounds by its root.

    A point is feasible exactly if the monomial is at most the smallest root. The transfers there are the largest of
    those at the roots.
    """

    monomial: Powers
    roots: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Certificate:
    """The claim that `value` is the optimum of `problem`, attained at `tiles`, and its proof.

    `tiles` gives monomials of tiles and their sizes; where only a product is determined, the product. Without `proof`,
    the reductions alone must leave a constant.
    """

    problem: Problem
    value: Expr
    tiles: Tiles
    proof: Weights | Shifted | Monotone | None
    reductions: tuple[Absorb | Fill | Drop, ...] = ()


def reduce(problem: Problem, step: Absorb | Fill | Drop) -> Problem:
    """The problem after one reduction. Raises `CertificateError` where the reduction is not sound."""
    if isinstance(step, Drop):
        if step.branch == step.by or not dominates(problem.memory[step.by], problem.memory[step.branch]):
            raise CertificateError(f"branch {step.by} of the memory is not shown to dominate {step.branch}")
        return replace(problem, memory=tuple(b for i, b in enumerate(problem.memory) if i != step.branch))
    if isinstance(step, Fill):
        bound = dict(problem.bounds).get(step.variable)
        if bound is None:
            raise CertificateError(f"{step.variable} has no bound: expected one, to set it to")
        grows = any(t.exponents.get(step.variable, 0) > 0 for t in problem.transfers.terms)
        if grows or any(step.variable in b.variables for b in problem.memory):
            raise CertificateError(f"memory depends on {step.variable}, or transfers grow with it")
        return replace(problem, transfers=_set(problem.transfers, step.variable, bound))
    targets = dict(step.into)
    if step.variable in targets or any(e < 0 for e in targets.values()):
        raise CertificateError(f"{step.variable} cannot be absorbed by {step.into}")
    for term in (t for p in (problem.transfers, *problem.memory) for t in p.terms):
        e = term.exponents
        if sum((r * e.get(u, Fraction(0)) for u, r in step.into), Fraction(0)) > e.get(step.variable, 0):
            raise CertificateError(f"absorbing {step.variable} may raise {term.expr}")
    return Problem(
        _set(problem.transfers, step.variable, sympy.Integer(1)),
        tuple(_set(b, step.variable, sympy.Integer(1)) for b in problem.memory),
        problem.capacity,
        # A tile that absorbs another may exceed its bound, so the bound may no longer be used.
        tuple((v, b) for v, b in problem.bounds if v not in targets),
    )


def _set(p: Posynomial, variable: Symbol, size: Expr) -> Posynomial:
    sizes = [power(size, term.exponents.get(variable, 0)) for term in p.terms]
    rests = [tuple(pair for pair in term.powers if pair[0] != variable) for term in p.terms]
    return collect(PosynomialTerm(t.coefficient * e, rest) for t, e, rest in zip(p.terms, sizes, rests, strict=True))


def _same(left: Expr, right: Expr, what: str, problem: Problem, branch: Posynomial = Posynomial(())) -> None:
    free = sympy.Dummy(positive=True)  # the room for tiles, positive by `requirements`
    room = {problem.capacity: free + branch.constant} if problem.capacity.is_Symbol else {}
    if not vanishes((left - right).subs(room)):
        raise CertificateError(f"{what}: {left} is not shown to equal {right}")


def reduced_problem(certificate: Certificate) -> Problem:
    """The problem of a certificate after its reductions, each of them checked."""
    problem = certificate.problem
    for step in certificate.reductions:
        problem = reduce(problem, step)
    return problem


def check_certificate(certificate: Certificate) -> bool:
    """`True` where a certificate shows its claim under `requirements`; raises `CertificateError` otherwise."""
    problem, proof, bounds = reduced_problem(certificate), certificate.proof, dict(certificate.problem.bounds)
    keys = [key for key, _ in certificate.tiles]
    if any(combination(keys[:i], key) is not None for i, key in enumerate(keys)):
        raise CertificateError("the size of a tile is stated twice")
    for step in certificate.reductions:
        if not isinstance(step, Drop):
            size = sympy.Integer(1) if isinstance(step, Absorb) else bounds[step.variable]
            if dict(certificate.tiles).get(powers({step.variable: 1})) != size:
                raise CertificateError(f"the reductions set {step.variable} to {size}, the tiles do not")
    if proof is None:
        if problem.transfers.varying or any(b.varying for b in problem.memory):
            raise CertificateError("tiles are left, and no proof about them")
        _same(problem.transfers.constant, certificate.value, "the value and the constant left", problem)
        return True
    if isinstance(proof, Monotone):
        return _check_monotone(problem, proof, certificate)
    if len(problem.memory) != 1:
        raise CertificateError(
            f"the proof is about one branch of the memory, and {len(problem.memory)} are left: drop the others first"
        )
    branch, tiles = problem.memory[0], certificate.tiles
    bound = _weighted(problem, proof) if isinstance(proof, Weights) else _shifted(problem, proof)
    claimed = problem.transfers.constant + bound
    _same(certificate.value, claimed, "the value and the dual value", problem, branch)
    _same(value_at(problem.transfers, tiles), certificate.value, "transfers at the tiles", problem, branch)
    _same(value_at(branch, tiles), problem.capacity, "memory at the tiles", problem, branch)
    return True


def value_at(p: Posynomial, tiles: Tiles) -> Expr:
    """The value of a posynomial at sizes of monomials. Raises `CertificateError` if they do not determine it."""
    summands, keys = [], [key for key, _ in tiles]
    for term in p.terms:
        exponents = combination(keys, term.powers)
        if exponents is None:
            raise CertificateError(f"the tiles do not determine {term.expr}")
        sizes = (power(size, e) for (_, size), e in zip(tiles, exponents, strict=True))
        summands.append(sympy.Mul(term.coefficient, *sizes))
    return sympy.Add(*summands)


def _weighted(problem: Problem, proof: Weights) -> Expr:
    transfers, memory = problem.transfers.varying, problem.memory[0].varying
    if len(proof.transfers) != len(transfers) or len(proof.memory) != len(memory):
        raise CertificateError("there must be one weight for each varying term")
    if any(w < 0 for w in (*proof.transfers, *proof.memory)) or sum(proof.transfers) != 1:
        raise CertificateError("weights must be non-negative, and those of transfers sum to one")
    weighted = [*zip(transfers, proof.transfers, strict=True), *zip(memory, proof.memory, strict=True)]
    if unbalanced := times(*((term.powers, weight) for term, weight in weighted)):
        raise CertificateError(f"the exponents do not balance: {unbalanced} is left")
    room = problem.capacity - problem.memory[0].constant
    scales = [1] * len(transfers) + [number(proof.multiplier) / room] * len(memory)
    scaled = zip(scales, weighted, strict=True)
    return sympy.Mul(*(power(scale * t.coefficient / number(w), w) for scale, (t, w) in scaled if w))


def two_tiles(problem: Problem, x: Powers, y: Powers) -> tuple[Expr, ...]:
    """`(A', B', C, alpha, beta, gamma, S)` of `Shifted`. Raises `CertificateError` for a problem of another form."""
    if len(problem.memory) != 1:
        raise CertificateError("two tiles need one branch of memory")
    found = []
    for terms, keys in (
        (problem.transfers.varying, (times((x, -1)), times((y, -1)), times((x, -1), (y, -1)))),
        (problem.memory[0].varying, (times((x, 1), (y, 1)), x, y)),
    ):
        by_powers = {t.powers: t.coefficient for t in terms}
        if not set(by_powers) <= set(keys) or len(set(keys)) != 3 or len(by_powers) != len(terms):
            raise CertificateError("terms other than those of two tiles and their product")
        found += [by_powers.get(key, sympy.Integer(0)) for key in keys]
    a, b, c, alpha, beta, gamma = found
    if (alpha, beta) == (0, 0) or (alpha, gamma) == (0, 0):
        raise CertificateError("memory does not limit both tiles")
    room = problem.capacity - problem.memory[0].constant
    return a + c * gamma / room, b + c * beta / room, c, alpha, beta, gamma, room


def _shifted(problem: Problem, proof: Shifted) -> Expr:
    a, b, c, alpha, beta, gamma, room = two_tiles(problem, proof.x, proof.y)
    square = a * b * (alpha * room + beta * gamma)
    _same(proof.root**2, square, "the square of the root", problem, problem.memory[0])
    return (c * alpha + a * beta + b * gamma + 2 * proof.root) / room


def _check_monotone(problem: Problem, proof: Monotone, certificate: Certificate) -> bool:
    limiting = [b for b in problem.memory if b.varying]
    if not len(limiting) == len(proof.roots) == len(proof.values) or not limiting:
        raise CertificateError("there must be one root and one value for each branch that limits the tile")
    for p, sign in ((problem.transfers, -1), *((b, 1) for b in limiting)):
        steps = [combination([proof.monomial], t.powers) for t in p.varying]
        if not steps or any(s is None or s[0] * sign <= 0 for s in steps):
            raise CertificateError(f"{p.expr} is not monotone in {proof.monomial}")
    for branch, root, value in zip(limiting, proof.roots, proof.values, strict=True):
        at = ((proof.monomial, root),)
        _same(value_at(branch, at), problem.capacity, "memory at the root", problem, branch)
        _same(value_at(problem.transfers, at), value, "transfers at the root", problem, branch)
    tile = dict(certificate.tiles).get(proof.monomial)
    if (certificate.value, tile) != (sympy.Max(*proof.values), sympy.Min(*proof.roots)):
        raise CertificateError("the value is not the greatest of the values, or the tile not the least root")
    return True


def settled(tiles: Tiles) -> Tiles:
    """The same tiles, solved for single tiles; powers of other tiles remain only where these are free."""
    variables = [v for v, _ in powers({v: 1 for key, _ in tiles for v, _ in key})]
    identity = [[Fraction(i == j) for j in range(len(tiles))] for i in range(len(tiles))]
    keys = [[dict(key).get(v, Fraction(0)) for v in variables] for key, _ in tiles]
    rows, _ = echelon([key + unit for key, unit in zip(keys, identity, strict=True)])
    given = [size for _, size in tiles]
    shares = (zip(given, row[len(variables) :], strict=True) for row in rows)
    sizes = (sympy.Mul(*(power(size, e) for size, e in share if e)) for share in shares)
    found = (powers(dict(zip(variables, row, strict=False))) for row in rows)
    return tuple(zip(found, sizes, strict=True))


def requirements(certificate: Certificate) -> tuple[sympy.core.relational.Relational, ...]:
    """Inequalities under which a checked certificate gives the optimum, without those known to be true.

    Where monomials share a tile that stays free, they are those with that tile at one: sufficient conditions.
    """
    problem, needed = reduced_problem(certificate), []
    for term in (t for p in (certificate.problem.transfers, *certificate.problem.memory) for t in p.terms):
        unsure = (f for f in sympy.Mul.make_args(term.coefficient) if not f.is_positive)
        needed.append(sympy.Gt(sympy.Mul(*unsure), 0))
    if any(isinstance(step, Drop) for step in certificate.reductions):  # `dominates` takes sizes to be >= 1
        sizes = {v for b in certificate.problem.memory for t in b.terms for v in t.coefficient.free_symbols}
        needed += [sympy.Ge(v, 1) for v in sorted(sizes, key=str)]
    for b in problem.memory:
        needed.append((sympy.Gt if b.varying else sympy.Ge)(problem.capacity, b.constant))
    bounds, tiles = dict(certificate.problem.bounds), settled(certificate.tiles)
    for key, size in tiles:
        others = {v for other, _ in tiles if other != key for v, _ in other}
        key = key[:1] if any(v in others or e < 0 for v, e in key) else key
        needed.append(sympy.Ge(size, 1))
        if all(v in bounds for v, _ in key):
            needed.append(sympy.Le(size, sympy.Mul(*(power(bounds[v], e) for v, e in key))))
    return tuple(dict.fromkeys(n for n in needed if n != sympy.true))
