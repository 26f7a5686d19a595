"""Posynomials: sums of monomials `c * g1**e1 * g2**e2 ...` in tile sizes `g`, with rational exponents `e` and
coefficients `c > 0` in the other sizes; and exact identities of algebraic functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
