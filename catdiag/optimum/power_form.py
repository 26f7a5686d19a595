"""Transfers at leading order as a sum of powers of the capacity: `sum alpha_t * M**(-beta_t)`.

This is equation 1 of "FlashAttention on a Napkin" (Abbott and Zardini, TMLR 2025, arXiv 2412.03317, section 4). Sums
over levels (equation 2) and quantization (equation 3) are operations on it. A closed form that is no such sum
(for example `(M - 2*d)**-1`) is replaced by the leading term of each of its summands as the capacity grows; then
`exact` is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sympy
from sympy import Expr, Symbol

from catdiag.category.latex_formulas import latex_of
from catdiag.optimum.posynomial import number, power
from catdiag.util import argument_checks
from catdiag.util.errors import FormulaError, require


@dataclass(frozen=True)
class PowerForm:
    """`sum alpha * M**(-beta)`: pairs of a coefficient, free of the capacity, and an exponent, ordered by exponent.

    In the unit of the transfers and of the capacity (values, or bytes). `exact` says whether the form equals the
    formula that it was read from, or is only its leading order in the capacity.

    >>> a, b, c, M = sympy.symbols("a b c M", positive=True)
    >>> form = power_form(2 * a * b * c / sympy.sqrt(M) + a * c, M)
    >>> form.terms
    ((a*c, Fraction(0, 1)), (2*a*b*c, Fraction(1, 2)))
    >>> form.at(4096), form.exact
    (a*b*c/32 + a*c, True)
    """

    terms: tuple[tuple[Expr, Fraction], ...]
    capacity: Symbol
    exact: bool = field(default=True, compare=False)

    @property
    def expr(self) -> Expr:
        """The form as a sympy expression in its capacity."""
        return self.at(self.capacity)

    def at(self, capacity: Expr | int | float) -> Expr:
        """The form at a capacity in the same unit: a number, or an expression such as `N * M`."""
        size = argument_checks.formula(capacity, "the capacity")
        return sympy.Add(*(alpha * power(size, -beta) for alpha, beta in self.terms))

    def coefficient(self, beta: Fraction | int) -> Expr:
        """The coefficient of `M**(-beta)`; zero where there is none."""
        require(argument_checks.finite(beta), "beta", beta, "an exponent, such as Fraction(1, 2)")
        return {b: a for a, b in self.terms}.get(Fraction(beta), sympy.S.Zero)

    def quantized(self, width: Expr | int | Fraction) -> PowerForm:
        """The form in bytes, from one in values of `width` bytes each. Raises FormulaError unless the width is
        positive.

        `M` values are `width * M` bytes, so that each coefficient gets the factor `width**(1 + beta)` (equation 3 of
        the paper). The factor is also derived here: `width * H(M / width)`.

        >>> d, q, x, M, w = sympy.symbols("d q x M w", positive=True)
        >>> power_form(4 * x * q * d**2 / M + 2 * q * d, M).quantized(w).expr
        2*d*q*w + 4*d**2*q*w**2*x/M
        """
        size = number(width) if isinstance(width, Fraction) else argument_checks.formula(width, "the width")
        if size.is_positive is not True:
            raise FormulaError(f"the width {size} must be positive: a number of bytes, or a symbol declared positive")
        return PowerForm(
            tuple((alpha * power(size, 1 + beta), beta) for alpha, beta in self.terms), self.capacity, self.exact
        )

    def scaled(self, factor: Expr | int) -> PowerForm:
        """The form times a factor, for example a cost per unit moved."""
        times = argument_checks.formula(factor, "the factor")
        return _collected(((alpha * times, beta) for alpha, beta in self.terms), self.capacity, self.exact)

    def over(self, levels: Iterable[tuple[Expr | int | float, Expr | int | float]]) -> Expr:
        """The cost over several levels, from the cost per unit moved and the capacity of each.

        This is equation 2, `sum_l cost_l * H(M_l)`.
        """
        pairs = isinstance(levels, Iterable) and not isinstance(levels, (str, Mapping))
        listed: list[Any] = list(levels) if pairs else [None]
        paired = all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in listed)
        require(paired, "levels", levels, "pairs of a cost for each unit moved and a capacity")
        return sympy.Add(
            *(argument_checks.formula(cost, "the cost of a level") * self.at(capacity) for cost, capacity in listed)
        )

    def latex(self) -> str:
        """The form in LaTeX, with powers as in the paper: `2 a b c M^{-1/2} + a c`."""
        name, parts = latex_of(self.capacity), []
        for alpha, beta in reversed(self.terms):
            text = latex_of(alpha)
            if not beta:
                parts.append(text)
                continue
            wrapped = rf"\left({text}\right)" if alpha.is_Add else text
            parts.append(f"{wrapped} {name}^{{{-beta}}}")
        return " + ".join(parts) or "0"

    def __add__(self, other: PowerForm) -> PowerForm:
        if self.capacity != other.capacity:
            raise FormulaError(f"forms in {self.capacity} and in {other.capacity} are not added: use .at")
        return _collected((*self.terms, *other.terms), self.capacity, self.exact and other.exact)

    def __str__(self) -> str:
        return str(self.expr)


def power_form(formula: Expr, capacity: Symbol) -> PowerForm:
    """A formula as a power form in its capacity, exact or else at leading order as the capacity grows.

    The leading order is taken of each summand. Raises FormulaError where there is none: a summand grows with the
    capacity, or its leading terms cancel.

    >>> a, s, M = sympy.symbols("a s M", positive=True)
    >>> form = power_form(a + 2 * a * (s + sympy.sqrt(M + s**2)) / M, M)
    >>> form.expr, form.exact
    (a + 2*a/sqrt(M), False)
    """
    formula = argument_checks.formula(formula, "the formula")
    require(isinstance(capacity, sympy.Symbol), "the capacity", capacity, "a symbol of sympy")
    summands = sympy.Add.make_args(formula)
    if any(_plain(s, capacity) is None for s in summands):
        summands = sympy.Add.make_args(sympy.expand(formula))
    found = [_plain(s, capacity) for s in summands]
    exact = all(f is not None for f in found)
    if not exact:
        found = [_leading(s, capacity) for s in sympy.Add.make_args(formula)]
    terms = []
    for pair in found:
        if pair is None:
            raise FormulaError(f"no leading order of {formula} as {capacity} grows: its leading terms may cancel")
        alpha, beta = pair
        if beta < 0:
            raise FormulaError(f"{formula} grows with {capacity}, like {capacity}**{-beta}: transfers do not")
        terms.append((alpha, beta))
    return _collected(terms, capacity, exact)


def _collected(terms: Iterable[tuple[Expr, Fraction]], capacity: Symbol, exact: bool) -> PowerForm:
    merged: dict[Fraction, Expr] = {}
    for alpha, beta in terms:
        merged[beta] = merged.get(beta, sympy.S.Zero) + alpha
    kept = ((sympy.expand(alpha) if alpha.is_Add else alpha, beta) for beta, alpha in sorted(merged.items()))
    return PowerForm(tuple((alpha, beta) for alpha, beta in kept if alpha != 0), capacity, exact)


def _plain(summand: Expr, capacity: Symbol) -> tuple[Expr, Fraction] | None:
    """`(alpha, beta)` of a monomial in the capacity."""
    if capacity not in summand.free_symbols:
        return summand, Fraction(0)
    alpha, rest = summand.as_independent(capacity, as_Add=False)
    base, exponent = rest.as_base_exp()
    if base != capacity or not exponent.is_Rational:
        return None
    return alpha, -Fraction(int(exponent.p), int(exponent.q))


def _leading(e: Expr, capacity: Symbol) -> tuple[Expr, Fraction] | None:
    """`(alpha, beta)` with `e ~ alpha * capacity**(-beta)` as the capacity grows; `None` where not found."""
    if capacity not in e.free_symbols:
        return e, Fraction(0)
    if e == capacity:
        return sympy.S.One, Fraction(-1)
    if e.is_Pow and e.exp.is_Rational:
        inner = _leading(e.base, capacity)
        if inner is None:
            return None
        return inner[0] ** e.exp, inner[1] * Fraction(int(e.exp.p), int(e.exp.q))
    if not isinstance(e, (sympy.Add, sympy.Mul, sympy.Max, sympy.Min)):
        return None
    parts = [_leading(argument, capacity) for argument in e.args]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if e.is_Mul:
        return sympy.Mul(*(alpha for alpha, _ in known)), sum((beta for _, beta in known), Fraction(0))
    first = (max if isinstance(e, sympy.Min) else min)(beta for _, beta in known)
    same = [alpha for alpha, beta in known if beta == first]
    if e.is_Add:
        total = sympy.Add(*same)
        return None if total.is_zero is not False and sympy.expand(total) == 0 else (total, first)
    # The maximum is the fastest growing argument only where all are positive.
    return (e.func(*same), first) if all(alpha.is_positive for alpha, _ in known) else None
