"""Optima at which some tiles are at their axis or at one, as stationary points, and the checker of their certificates.

A `PowerProgram` asks for the least `transfers` over real tiles from one to their bounds, each memory at most its
capacity. In the logarithms of tiles it is convex (Boyd, Kim, Vandenberghe, Hassibi, *A tutorial on geometric
programming*, 2007, section 2.5), so that a feasible point with multipliers of the right signs is the optimum (Karush,
Kuhn, Tucker). A `Stationary` states such a point by formulas. `check_stationary` replays the equations as identities of
algebraic functions, independently of where the point came from, and returns the inequalities. The sizes for which these
hold are the regime in which the point is the optimum.

Let `D_i p` be the sum of the terms of `p`, each times its exponent of tile `i` (the derivative in the logarithm), and
`R_i = D_i transfers + sum_k multiplier_k * D_i memory_k`. The conditions are `R_i = 0` for a free tile, `R_i >= 0` for
a tile at one, and `R_i <= 0` for a tile at its bound. Multipliers are nonnegative, and zero for a memory that is not
full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import sympy
from sympy import Expr, Symbol
from sympy.core.relational import Relational

from catdiag.optimum.posynomial import (
    CertificateError,
    Posynomial,
    PosynomialTerm,
    Powers,
    Tiles,
    collect,
    combination,
    dominates,
    number,
    power,
    powers,
    value_at,
    vanishes,
)

_MANY = 60
"""A sum of more terms than this is not factored: it would take long, and be no easier to read."""

ONE, BOUND, FREE = "one", "bound", "free"


@dataclass(frozen=True)
class PowerProgram:
    """Minimizes `transfers` with each memory at most its capacity, over real tiles from one to their bounds.

    `tiles` lists all of them, each with its bound, or `None` where it has none.
    """

    transfers: Posynomial
    memory: tuple[tuple[Posynomial, Expr], ...]
    tiles: tuple[tuple[Symbol, Expr | None], ...]

    @property
    def terms(self) -> tuple[PosynomialTerm, ...]:
        """All terms, of transfers and of each memory."""
        return tuple(t for p in (self.transfers, *(m for m, _ in self.memory)) for t in p.terms)

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The sizes, blocks and capacities: all symbols but the tiles."""
        parts = [t.coefficient for t in self.terms] + [c for _, c in self.memory]
        parts += [end for _, end in self.tiles if end is not None]
        return frozenset[Symbol]().union(*(e.free_symbols for e in parts)) - {v for v, _ in self.tiles}


@dataclass(frozen=True)
class Coordinate:
    """One unknown: a tile, or a product of powers of tiles of which only the product matters.

    It ranges from one to `bound` (`None`: unbounded), and is at one of these ends, or free (`status`).
    """

    monomial: Powers
    bound: Expr | None
    status: str
    size: Expr


@dataclass(frozen=True)
class Stationary:
    """The claim that `value` is the optimum of `program`, attained where each coordinate has its size.

    The claim holds under the conditions that `check_stationary` returns. `multipliers` are those of the memories, in
    their order: zero for one that is not full.
    """

    program: PowerProgram
    coordinates: tuple[Coordinate, ...]
    multipliers: tuple[Expr, ...]
    value: Expr

    @property
    def tiles(self) -> Tiles:
        """The sizes of the coordinates."""
        return tuple((c.monomial, c.size) for c in self.coordinates)

    @property
    def full(self) -> tuple[int, ...]:
        """The memories that are full."""
        return tuple(k for k, multiplier in enumerate(self.multipliers) if multiplier != 0)


def ranges(program: PowerProgram, monomials: Sequence[Powers]) -> list[Expr | None]:
    """The upper bounds of monomials with disjoint tiles and positive exponents.

    Each monomial takes every value from one to the product of its tiles' bounds, independently of the others. Raises
    `CertificateError` for monomials of another form.
    """
    bounds, seen = dict(program.tiles), set[Symbol]()
    found: list[Expr | None] = []
    for monomial in monomials:
        names = {v for v, _ in monomial}
        if not names or names & seen or not names <= set(bounds) or any(e <= 0 for _, e in monomial):
            raise CertificateError(f"{monomial} is no product of powers of tiles of its own")
        seen |= names
        ends = [(bounds[v], e) for v, e in monomial]
        whole = sympy.Mul(*(power(end, e) for end, e in ends if end is not None))
        found.append(whole if all(end is not None for end, _ in ends) else None)
    return found


def derivative(p: Posynomial, monomials: Sequence[Powers], at: int) -> Posynomial:
    """The derivative in the logarithm of one of the monomials, in which every term must be a product of powers.

    It may have negative coefficients, so it need not be a posynomial. Raises CertificateError for a term that is no
    such product.
    """
    found = []
    for term in p.terms:
        steps = combination(monomials, term.powers)
        if steps is None:
            raise CertificateError(f"{term.expr} is no product of powers of the coordinates")
        if steps[at]:
            found.append(PosynomialTerm(term.coefficient * number(steps[at]), term.powers))
    return Posynomial(tuple(found))


def residual_capacity(certificate: Stationary) -> dict[Expr, Expr]:
    """For each full memory whose capacity is a symbol: the part that free tiles do not change, plus a positive symbol.

    Substituting this for the capacity is valid wherever the tiles are positive, and lets roots be simplified.
    """
    put: dict[Expr, Expr] = {}
    fixed = {v for c in certificate.coordinates if c.status != FREE for v, _ in c.monomial}
    for k in certificate.full:
        memory, capacity = certificate.program.memory[k]
        if capacity.is_Symbol and capacity not in put:
            still = Posynomial(tuple(t for t in memory.terms if all(v in fixed for v, _ in t.powers)))
            put[capacity] = sympy.Dummy(positive=True) + value_at(still, certificate.tiles)
    return put


def check_stationary(certificate: Stationary) -> tuple[Relational, ...]:
    """The inequalities under which a certificate shows its claim, without those known to be true.

    Sizes are assumed to be at least one where a memory is skipped because another one dominates it. Raises
    `CertificateError` where an equation is not shown.
    """
    program, coordinates = certificate.program, certificate.coordinates
    monomials = [c.monomial for c in coordinates]
    if len(certificate.multipliers) != len(program.memory):
        raise CertificateError("there must be one multiplier for each memory")
    for c, bound in zip(coordinates, ranges(program, monomials), strict=True):
        if c.bound != bound:
            raise CertificateError(f"{c.monomial} has the bound {bound}, and the certificate says {c.bound}")
        if (c.status == ONE and c.size != 1) or (c.status == BOUND and (bound is None or c.size != bound)):
            raise CertificateError(f"{c.monomial} is held at its {c.status}, and its size is {c.size}")
        if c.status not in (ONE, BOUND, FREE):
            raise CertificateError(f"{c.monomial} is {c.status!r}: expected {ONE!r}, {BOUND!r} or {FREE!r}")
    tiles, put = certificate.tiles, residual_capacity(certificate)
    # Simplified once, with the room of full memories as positive symbols, which are substituted back at the end.
    back = {name: capacity - (whole - name) for capacity, whole in put.items() for name in whole.atoms(sympy.Dummy)}

    def same(left: Expr, right: Expr, what: str) -> None:
        if left == right:
            return
        difference = (left - right).subs(put)
        if difference.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo) or not vanishes(difference):
            raise CertificateError(f"{what}: {left} is not shown to equal {right}")

    same(value_at(program.transfers, tiles), certificate.value, "transfers at the tiles")
    needed: list[Relational] = []
    for term in program.terms:
        unsure = (f for f in sympy.Mul.make_args(term.coefficient) if not f.is_positive)
        needed.append(sympy.Gt(sympy.Mul(*unsure), 0))
    for k, (memory, capacity) in enumerate(program.memory):
        if k in certificate.full:
            same(value_at(memory, tiles), capacity, "memory at the tiles")
            needed.append(at_least_zero(certificate.multipliers[k].subs(put), back))
        elif not any(
            program.memory[j][1] == capacity and dominates(program.memory[j][0], memory) for j in certificate.full
        ):
            needed.append(sympy.Le(value_at(memory, tiles), capacity))
    for i, c in enumerate(coordinates):
        slope = value_at(derivative(program.transfers, monomials, i), tiles)
        for k in certificate.full:
            inner = value_at(derivative(program.memory[k][0], monomials, i), tiles)
            slope += certificate.multipliers[k] * inner
        if c.status == FREE:
            same(slope, sympy.S.Zero, f"the derivative in {c.monomial}")
            needed += [sympy.Ge(base, 0) for base in radicands(c.size)]
            needed.append(sympy.Ge(c.size, 1))
            if c.bound is not None:
                needed.append(sympy.Le(c.size, c.bound))
        else:
            needed.append(at_least_zero((slope if c.status == ONE else -slope).subs(put), back))
    return tuple(dict.fromkeys(n for n in needed if n != sympy.true))


def at_least_zero(expression: Expr, back: dict[Expr, Expr]) -> Relational:
    """`expression >= 0` without positive factors, with the expressions `back` substituted for symbols. Raises
    CertificateError for what is no number."""
    if expression.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo):
        raise CertificateError(f"{expression} is no number")
    if expression.is_nonnegative:
        return sympy.true
    left = sympy.S.One
    for side in sympy.fraction(sympy.together(expression)):
        for piece, count in _factors(sympy.expand(side)):
            if piece == 0:
                return sympy.true
            if not piece.is_positive and count % 2:
                left *= sympy.Integer(-1) if piece.is_negative else piece
    if left.is_Add and len(left.args) == 2 and sum(bool(t.is_negative) for t in left.args) == 1:
        # A difference of monomials is written as a comparison of integer powers.
        more, less = sorted(left.args, key=lambda t: bool(t.is_negative))
        ratio = sympy.powsimp(-more / less)
        degree = math.lcm(*(int(p.exp.q) for p in ratio.atoms(sympy.Pow) if p.exp.is_Rational))
        if all(f.as_base_exp()[0].is_positive for f in sympy.Mul.make_args(ratio)):
            above, below = sympy.fraction(sympy.Mul(*(f**degree for f in sympy.Mul.make_args(ratio))))
            return sympy.Ge(above.subs(back), below.subs(back))
    return sympy.Ge(left.subs(back), 0)


def radicands(expression: Expr) -> list[Expr]:
    """The radicands of the roots in an expression that are not known to be nonnegative."""
    found = (p.base for p in expression.atoms(sympy.Pow) if p.exp.is_Rational and not p.exp.is_Integer)
    return sorted((base for base in set(found) if not base.is_nonnegative), key=sympy.default_sort_key)


def _factors(expression: Expr) -> Iterator[tuple[Expr, int]]:
    """The factors with their exponents; a factor with a fractional exponent stays as it is."""
    for factor in sympy.Mul.make_args(expression):
        base, exponent = factor.as_base_exp()
        if not base.is_Add or not exponent.is_Integer or base.is_number or len(base.args) > _MANY:
            yield factor, 1
            continue
        try:
            constant, factors = sympy.factor_list(base)
        except sympy.PolynomialError:
            # A root of a symbol that all terms share is not a polynomial.
            split = sympy.factor_terms(base)
            constant, factors = sympy.S.One, [(f, 1) for f in sympy.Mul.make_args(split)]
        yield from ((piece, count * int(exponent)) for piece, count in [(constant, 1), *factors])


def coordinates_of(program: PowerProgram) -> list[Powers]:
    """The coordinates: monomials of tiles that have proportional exponents in every term, in order of the tiles.

    Of such tiles only the product of powers matters.
    """
    columns: list[tuple[Powers, tuple[Fraction, ...]]] = []
    for v, _ in program.tiles:
        column = tuple(t.exponents.get(v, Fraction(0)) for t in program.terms)
        for i, (monomial, other) in enumerate(columns):
            at = next((k for k, e in enumerate(other) if e), None)
            if at is None or not column[at]:
                continue
            ratio = column[at] / other[at]
            if ratio > 0 and all(e == ratio * o for e, o in zip(column, other, strict=True)):
                columns[i] = powers({**dict(monomial), v: ratio}), other
                break
        else:
            columns.append((powers({v: 1}), column))
    return [monomial for monomial, _ in columns]


def reduced_to(p: Posynomial, fixed: Tiles, names: Sequence[tuple[Powers, Symbol]]) -> Posynomial:
    """A posynomial in the free coordinates, under their names, with the sizes of the others substituted. Raises
    CertificateError for a term that is no product of powers of these."""
    keys = [*(key for key, _ in fixed), *(key for key, _ in names)]
    found = []
    for term in p.terms:
        steps = combination(keys, term.powers)
        if steps is None:
            raise CertificateError(f"{term.expr} is no product of powers of the coordinates")
        sizes = (power(size, e) for (_, size), e in zip(fixed, steps, strict=False))
        left = powers({name: e for (_, name), e in zip(names, steps[len(fixed) :], strict=True)})
        found.append(PosynomialTerm(sympy.Mul(term.coefficient, *sizes), left))
    return collect(found)
