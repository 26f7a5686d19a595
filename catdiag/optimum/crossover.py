"""The crossover: the capacity from which one schedule moves less than another, as a formula.

Transfers at leading order are sums of powers of the capacity, `Σ c · M**(-β)` with rational β. The zeros of the
difference of two such sums are those of a polynomial in `u = M**(1/n)`. Where its degree is at most two, they are
written in closed form, and z3 is asked whether the sign of the difference is as stated for all sizes. For other
differences, the zeros at given sizes are enclosed in intervals with rational ends: by real root isolation where the
difference is a polynomial, and otherwise between points at which interval arithmetic shows the signs. Derived here; the
crossover of two fused and unfused matrix products, a quadratic, is a special case.

>>> import sympy
>>> c, d, n, M = sympy.symbols("c d n M", positive=True)
>>> found = crossover(4 * n**2 * d**2 / M, 4 * n**2 * d / sympy.sqrt(M) + c * n**2, M)
>>> print(found)
the first moves less where sqrt(M) > 2*d*(sqrt(c + 1) - 1)/c; the second where it is less (z3: for all sizes)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import sympy
from sympy import Expr, Symbol

from catdiag.optimum.posynomial import power
from catdiag.optimum.power_form import power_form
from catdiag.optimum.sign_proofs import SignSolver
from catdiag.util.argument_checks import formula, integer, numbers
from catdiag.util.errors import CatdiagError, require

_DIGITS = 60
_MOST_DIGITS = 1_000
_HALVINGS = 30


@dataclass(frozen=True)
class Crossover:
    """The capacities at which the difference `first − second` of two transfers changes its sign.

    `unknown` is the root of the capacity in which the difference is `polynomial`, up to a positive factor; `None` where
    the difference is not a sum of powers. `roots` are its positive zeros in increasing order, as formulas for
    `unknown`. `signs` are the signs of the difference below, between and above them (one more than there are roots).
    `conditions` are assumptions on sizes under which the formulas hold. `proof` says what z3 showed, or why nothing is
    shown. `dropped` are the terms left out because they are of lower degree in the axes `long`. `others` is the number
    of other schedules of the two that are not compared; these may move less at some sizes and capacities.
    """

    first: Expr
    second: Expr
    capacity: Symbol
    unknown: Expr | None
    polynomial: Expr | None
    roots: tuple[Expr, ...]
    signs: tuple[int, ...]
    conditions: tuple[Expr, ...]
    proved: bool
    proof: str
    dropped: tuple[Expr, ...] = ()
    long: tuple[Symbol, ...] = ()
    others: int = 0

    @property
    def capacities(self) -> tuple[Expr, ...]:
        """The capacities at which both move the same amount, from `roots`."""
        power = 1 if self.unknown is None else sympy.Rational(1) / self.unknown.as_base_exp()[1]
        return tuple(sympy.factor(root) ** power for root in self.roots)

    def at(self, sizes: Mapping[str, int], digits: int = 9) -> tuple[tuple[Fraction, Fraction], ...]:
        """Intervals with rational ends, each of which contains exactly one capacity at which both move the same amount.

        Exact, by real root isolation of an integer polynomial. The ends differ by `10**-digits` or less, relative to
        their size. Raises CatdiagError where the difference is not a sum of powers of the capacity (then use
        `changes`), or a size is missing.
        """
        numbers(sizes)
        integer(digits, "digits", 0)
        require(digits <= _MOST_DIGITS, "digits", digits, f"at most {_MOST_DIGITS}")
        if self.polynomial is None or self.unknown is None:
            raise CatdiagError(
                "the difference is no sum of powers of the capacity: use catdiag.optimum.crossover.changes"
            )
        u = _root_symbol(self.polynomial)
        put = {s: sizes[s.name] for s in self.polynomial.free_symbols - {u} if s.name in sizes}
        poly = sympy.Poly(self.polynomial.subs(put), u)
        if poly.free_symbols_in_domain:
            left = ", ".join(sorted(map(str, poly.free_symbols_in_domain)))
            raise CatdiagError(f"no size was given for {left}: give one for each axis")
        power = int(1 / self.unknown.as_base_exp()[1])
        found: list[tuple[Fraction, Fraction]] = []
        for (low, high), _ in poly.intervals(eps=sympy.Rational(1, 10 ** (digits + 3)), inf=0):
            if high > 0:
                found.append((_fraction(low) ** power, _fraction(high) ** power))
        return tuple(found)

    def __str__(self) -> str:
        name = self.unknown if self.unknown is not None else self.capacity
        who = {-1: "the first moves less", 1: "the second moves less", 0: "both move as much"}
        if len(self.signs) == 1:
            text = f"{who[self.signs[0]]} at every capacity"
        elif len(self.signs) == 2 and self.signs[0] == self.signs[1]:
            text = f"{who[self.signs[0]]}, but at {name} = {self.roots[0]} both move as much"
        elif len(self.signs) == 2:
            upper = "the first" if self.signs[1] < 0 else "the second"
            lower = "the second" if self.signs[1] < 0 else "the first"
            text = f"{upper} moves less where {name} > {self.roots[0]}; {lower} where it is less"
        elif self.signs:
            ends = ", ".join(map(str, self.roots))
            text = f"{who[self.signs[0]]} up to the first of {name} = {ends}, and each changes it"
        else:
            return f"no formula: {self.proof}"
        given = f" if {', '.join(map(str, self.conditions))}" if self.conditions else ""
        axes = f" ({', '.join(map(str, self.long))})" if self.long else ""
        short = f"; at long axes{axes}, without {', '.join(map(str, self.dropped))}" if self.dropped else ""
        more = f"; schedules that are not compared: {self.others}" if self.others else ""
        return f"{text}{given} ({self.proof}{short}{more})"


def crossover(first: Expr, second: Expr, capacity: Symbol, long: Collection[Symbol] = ()) -> Crossover:
    """Where `first` and `second`, sums of powers of `capacity` with sizes as coefficients, are equal.

    With `long`, only the terms of the difference of the highest degree in these sizes are kept: the crossover where
    these axes are long. Symbols must be declared positive; z3 takes sizes to be real and at least 1. Raises
    CatdiagError for a symbol that is not declared positive.

    >>> d, n, M = sympy.symbols("d n M", positive=True)
    >>> crossover(n * d / M, n / M, M).signs
    ()
    >>> crossover(n * (d + 1) / M, n, M).capacities
    (d + 1,)
    """
    symbols = isinstance(long, Collection) and not isinstance(long, str) and all(isinstance(s, Symbol) for s in long)
    require(symbols, "long", long, "symbols of sympy")
    first, second = formula(first, "the first formula"), formula(second, "the second formula")
    require(isinstance(capacity, Symbol), "the capacity", capacity, "a symbol of sympy")
    for s in sorted((first.free_symbols | second.free_symbols) - {capacity}, key=str):
        if not s.is_positive:
            raise CatdiagError(f"{s} must be declared positive: Symbol({s.name!r}, positive=True)")
    powers: dict[Fraction, Expr] | None = {}
    dropped: tuple[Expr, ...] = ()
    for form, sign in ((power_form(first, capacity), 1), (power_form(second, capacity), -1)):
        for alpha, beta in form.terms:
            if powers is not None:
                powers[-beta] = sympy.expand(powers.get(-beta, sympy.S.Zero) + sign * alpha)
        powers = powers if form.exact else None
    if powers is None:
        why = "the difference is no sum of powers of the capacity"
        return Crossover(first, second, capacity, None, None, (), (), (), False, why)
    if long:
        powers, dropped = _at_long(powers, capacity, long)
    powers = {e: c for e, c in powers.items() if c != 0}
    degree = math.lcm(*(e.denominator for e in powers)) if powers else 1
    shift = min(powers, default=Fraction(0))
    u = Symbol("u", positive=True)
    poly = sympy.Add(*(c * u ** int((e - shift) * degree) for e, c in powers.items()))
    poly = _primitive(poly, u)
    unknown = capacity ** sympy.Rational(1, degree)
    roots, signs, conditions, why = _solve(poly, u)
    proved = False
    if signs:
        proved, why = prove_signs(poly, u, roots, signs, conditions)
    shown = tuple(_shortest(root) for root in roots)
    axes = tuple(sorted(long, key=str)) if dropped else ()
    return Crossover(first, second, capacity, unknown, poly, shown, signs, conditions, proved, why, dropped, axes)


def _root_symbol(polynomial: Expr) -> Symbol:
    return next((s for s in polynomial.free_symbols if s.name == "u"), Symbol("u", positive=True))


def _at_long(
    powers: Mapping[Fraction, Expr], capacity: Symbol, long: Collection[Symbol]
) -> tuple[dict[Fraction, Expr], tuple[Expr, ...]]:
    """The terms of the highest degree in some sizes, by power of the capacity, and the remaining terms."""
    terms = [(e, term) for e, c in powers.items() for term in sympy.Add.make_args(c)]
    degrees = [sum(term.as_powers_dict().get(s, 0) for s in long) for _, term in terms]
    most = max(degrees, default=0)
    kept: dict[Fraction, Expr] = {}
    dropped = []
    for (e, term), degree in zip(terms, degrees, strict=True):
        if degree == most:
            kept[e] = kept.get(e, sympy.S.Zero) + term
        else:
            dropped.append(term * power(capacity, e))
    return kept, tuple(dropped)


def _primitive(poly: Expr, u: Symbol) -> Expr:
    """The polynomial divided by the positive factors that all its coefficients share."""
    if poly == 0:
        return poly
    constant, factors = sympy.factor_list(sympy.numer(sympy.together(poly)))
    rest = sympy.Integer(1 if constant > 0 else -1)
    for factor, count in factors:
        if not (factor.is_positive and u not in factor.free_symbols):
            rest *= factor**count
    return sympy.expand(rest)


def _sign(coefficient: Expr) -> int | None:
    """The sign of a polynomial in sizes of at least 1, or None where it is not shown to be constant."""
    coefficient = sympy.expand(coefficient)
    if coefficient == 0:
        return 0
    for sign in (1, -1):
        if _non_negative(sign * coefficient):
            return sign
    return None


def _non_negative(expression: Expr) -> bool:
    """Whether an expression is shown to be positive for sizes of at least 1.

    With each size written as one plus a nonnegative variable, no coefficient may be negative, and the constant must be
    positive. This is sufficient, not necessary.
    """
    symbols = sorted(expression.free_symbols, key=str)
    if not symbols:
        return bool(expression > 0)
    if not expression.is_polynomial(*symbols):
        return bool(expression.is_positive)
    if all(bool(term.is_positive) for term in sympy.Add.make_args(expression)):
        return True
    shifted = sympy.Poly(expression.subs({s: 1 + s for s in symbols}, simultaneous=True), *symbols)
    return all(c >= 0 for c in shifted.coeffs()) and shifted.eval(dict.fromkeys(symbols, 0)) > 0


def _solve(poly: Expr, u: Symbol) -> tuple[tuple[Expr, ...], tuple[int, ...], tuple[Expr, ...], str]:
    """The positive zeros of a polynomial of degree at most two, the signs around them, the conditions, and a reason.

    The last is empty where the zeros are found, and says otherwise why they are not.
    """
    if poly == 0:
        return (), (0,), (), ""
    coefficients = sympy.Poly(poly, u).all_coeffs()
    signs = [_sign(c) for c in coefficients]
    known = [s for s in signs if s != 0]
    if None not in known and len(set(known)) == 1:
        return (), (known[0] or 0,), (), ""
    if len(coefficients) > 3:
        return (), (), (), f"a polynomial of degree {len(coefficients) - 1} in the root of the capacity: ask at sizes"
    if len(coefficients) == 1:
        return (), (), (), "which is less depends on sizes only, and not for all of them in the same way"
    conditions: list[Expr] = []
    if signs[0] is None or signs[-1] is None:
        # The first or last coefficient may change its sign: its sign becomes a condition.
        for place in (0, -1):
            if signs[place] is None:
                other = signs[-1 - place] if signs[-1 - place] is not None else None
                sign = 1 if other is None else -other
                signs[place] = sign
                conditions.append(sympy.Gt(sign * sympy.factor(coefficients[place]), 0))
    if len(coefficients) == 2:
        a, b = coefficients
        return (sympy.factor(-b / a),), (-int(signs[0] or 0), int(signs[0] or 0)), tuple(conditions), ""
    a, b, c = coefficients
    top = int(signs[0] or 0)
    a, b, c = top * a, top * b, top * c
    square = sympy.factor(b**2 - 4 * a * c)
    if signs[-1] == -top:
        root = (-b + _square_root(square)) / (2 * a)
        return (root,), (-top, top), tuple(conditions), ""
    if signs[1] != -top:
        return (), (), (), "the signs of the coefficients do not settle how many zeros there are: ask at sizes"
    real = _sign(square)
    if real == -1:
        return (), (top,), tuple(conditions), ""
    if real == 0:
        return (-b / (2 * a),), (top, top), tuple(conditions), ""
    if real is None:
        conditions.append(sympy.Gt(square, 0))
    low, high = ((-b + sign * _square_root(square)) / (2 * a) for sign in (-1, 1))
    return (low, high), (top, -top, top), tuple(conditions), ""


def _shortest(root: Expr) -> Expr:
    """The shortest of a few equal forms."""
    plain = sympy.radsimp(sympy.simplify(root))
    return min((plain, sympy.factor_terms(plain), sympy.factor(plain)), key=sympy.count_ops)


def _square_root(expression: Expr) -> Expr:
    """The positive square root of a product, with squares of positive factors moved outside."""
    constant, factors = sympy.factor_list(expression)
    outside, inside = sympy.Integer(1), constant
    for factor, count in factors:
        if factor.is_positive:
            outside *= factor ** (count // 2)
            inside *= factor ** (count % 2)
        else:
            inside *= factor**count
    return outside * sympy.sqrt(inside)


def prove_signs(
    poly: Expr, u: Symbol, roots: Sequence[Expr], signs: Sequence[int], conditions: Sequence[Expr] = ()
) -> tuple[bool, str]:
    """Asks z3 whether a polynomial vanishes at the roots and has these signs around them, for all sizes of at least 1.

    >>> u, d = sympy.symbols("u d", positive=True)
    >>> prove_signs(u**2 - d, u, [sympy.sqrt(d)], [-1, 1])
    (True, 'z3: for all sizes')
    >>> prove_signs(u**2 - d, u, [sympy.sqrt(d) * sympy.Rational(1001, 1000)], [-1, 1])[0]
    False
    """
    shown = SignSolver([u])
    claims: list[Sequence[Any]] = []
    for root in roots:
        claims += [[sympy.Le(root, 0)], [sympy.Ne(poly.subs(u, root), 0)]]
    for sign, (low, high) in zip(signs, pairwise([None, *roots, None]), strict=True):
        inside = [*([sympy.Gt(u, low)] if low is not None else []), *([sympy.Lt(u, high)] if high is not None else [])]
        wrong = sympy.Le(poly, 0) if sign > 0 else sympy.Ge(poly, 0) if sign < 0 else sympy.Ne(poly, 0)
        claims.append([*inside, wrong])
    for claim in claims:
        if sympy.false not in claim and not shown.impossible([*conditions, *claim]):
            return False, "not shown for all sizes"
    return True, "z3: for all sizes"


@dataclass(frozen=True)
class SignChange:
    """A sign change: the difference has one sign at `low` and another at `high`, shown by interval arithmetic.

    It is continuous between these rationals, so that it vanishes there at least once.
    """

    low: Fraction
    high: Fraction
    below: int
    above: int


def sign_at(expression: Expr, capacity: Symbol, value: Fraction) -> int | None:
    """The sign of an expression in the capacity alone at a rational, by interval arithmetic.

    None where interval arithmetic does not decide it, or the expression is not defined there.

    >>> x = sympy.Symbol("x", positive=True)
    >>> sign_at(sympy.sqrt(x) - 2, x, Fraction(5)), sign_at(sympy.sqrt(x) - 2, x, Fraction(4))
    (1, None)
    """
    from mpmath import iv
    from mpmath.libmp import ComplexResult

    iv.dps = _DIGITS
    function = sympy.lambdify(capacity, expression, modules=[{"sqrt": iv.sqrt, "Max": _iv_max, "Min": _iv_min}, iv])
    point = iv.mpf(value.numerator) / iv.mpf(value.denominator)
    try:
        found = iv.mpf(function(point))
    except (ZeroDivisionError, ComplexResult, ValueError):
        return None
    return 1 if found.a > 0 else -1 if found.b < 0 else None


def _iv_max(*values: Any) -> Any:
    from mpmath import iv

    return iv.mpf([max(iv.mpf(v).a for v in values), max(iv.mpf(v).b for v in values)])


def _iv_min(*values: Any) -> Any:
    from mpmath import iv

    return iv.mpf([min(iv.mpf(v).a for v in values), min(iv.mpf(v).b for v in values)])


def changes(
    first: Expr,
    second: Expr,
    capacity: Symbol,
    sizes: Mapping[str, int],
    low: Fraction,
    high: Fraction,
    points: int = 64,
) -> tuple[SignChange, ...]:
    """Sign changes of `first − second` between two capacities at given sizes, each enclosed between rationals.

    Each sign and each change is certified. It is not certified that there are no others: the difference is evaluated at
    `points` capacities, evenly spaced in the logarithm. Raises CatdiagError for sizes that are missing.

    >>> x, M = sympy.symbols("x M", positive=True)
    >>> [change] = changes(x / M, sympy.sqrt(M + 1), M, {"x": 100}, Fraction(1), Fraction(1000))
    >>> 21 < change.low < change.high < 22, change.below, change.above
    (True, 1, -1)
    """
    difference = sympy.sympify(first) - sympy.sympify(second)
    put = {s: sizes[s.name] for s in difference.free_symbols - {capacity} if s.name in sizes}
    difference = difference.subs(put)
    if left := difference.free_symbols - {capacity}:
        raise CatdiagError(f"no size was given for {', '.join(sorted(map(str, left)))}: give one for each axis")
    if not 0 < low < high:
        raise CatdiagError(f"the capacities {low} to {high} are not a range: expected 0 < low < high")
    ratio = math.log(high / low)
    grid = [low, *(Fraction(round(low * math.exp(ratio * k / points))) for k in range(1, points)), high]
    signed = [(p, s) for p in sorted(set(grid)) if low <= p <= high and (s := sign_at(difference, capacity, p))]
    found = []
    for (a, before), (b, after) in pairwise(signed):
        if before == after:
            continue
        for _ in range(_HALVINGS):
            middle = (a + b) / 2
            sign = sign_at(difference, capacity, middle)
            if sign is None:
                break
            a, b = (middle, b) if sign == before else (a, middle)
        found.append(SignChange(a, b, before, after))
    return tuple(found)


def _fraction(value: Any) -> Fraction:
    value = sympy.Rational(value)
    return Fraction(int(value.p), int(value.q))
