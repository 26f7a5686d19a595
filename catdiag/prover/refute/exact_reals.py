"""Exact real arithmetic: rationals, quotients of exponential polynomials, and enclosures of other reals; and −∞.

`exp` of a rational gives exponential polynomials Σ c·e^r with rational c and r. The powers e^r for distinct rational r
are linearly independent over the rationals (Lindemann–Weierstrass theorem), so that such a number is 0 only if all its
coefficients are 0. So equality of quotients is decidable, and so is the order, by enclosures that are narrowed until
they exclude 0. Other reals (logarithms, roots, `exp` of these) are enclosed by two rationals, rounded outwards: numbers
whose enclosures are disjoint differ. Nothing is sampled, and there is no floating point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TypeAlias

from catdiag.execute.philox import uniform_of_integers
from catdiag.prover.refute.enclosures import (
    NARROWEST,
    ceil_quotient,
    erf_bounds,
    exp_bounds,
    log_bounds,
    sin_bounds,
    sqrt_bounds,
)
from catdiag.prover.refute.enclosures import Unclear as Unclear

BITS = 120
"""The default precision of an enclosure, in bits."""
_TERMS = 160


class Undefined(Exception):
    """An operation outside of its domain: the program is undefined on this input."""


@dataclass(frozen=True)
class Interval:
    """All reals from `low` to `high`."""

    low: Fraction
    high: Fraction

    def __str__(self) -> str:
        return _decimal((self.low + self.high) / 2)

    def __float__(self) -> float:
        return float((self.low + self.high) / 2)


@dataclass(frozen=True)
class MinusInfinity:
    """−∞; `reason` says where it comes from."""

    reason: str = "-inf"

    def __repr__(self) -> str:
        return "-inf"

    def __float__(self) -> float:
        return float("-inf")


BOTTOM = MinusInfinity()
EMPTY = MinusInfinity("the maximum of nothing")

Terms: TypeAlias = tuple[tuple[Fraction, Fraction], ...]
"""An exponential polynomial Σ c·e^r: pairs of an exponent r and a coefficient c ≠ 0, by increasing exponent."""
_ONE: Terms = ((Fraction(0), Fraction(1)),)
_EXPONENT = 4000
"""Exponents up to this are kept as they are; below its negative, a power is anything from 0 on."""


@dataclass(frozen=True)
class Powers:
    """A quotient of two exponential polynomials that is not rational; the denominator starts with 1·e⁰."""

    top: Terms
    bottom: Terms = _ONE

    def __str__(self) -> str:
        top = _show(self.top)
        if self.bottom == _ONE:
            return top
        return (top if len(self.top) == 1 else f"({top})") + f"/({_show(self.bottom)})"

    def __float__(self) -> float:
        low, high = bounds(self)
        return float((low + high) / 2)


Value: TypeAlias = Fraction | Powers | Interval | MinusInfinity | bool


def _decimal(x: Fraction) -> str:
    try:
        return f"{float(x):.12g}"
    except OverflowError:
        return f"{'-' if x < 0 else ''}1e{len(str(abs(x.numerator) // x.denominator)) - 1}"


def _show(terms: Terms) -> str:
    def one(r: Fraction, c: Fraction) -> str:
        power = "" if r == 0 else "e" if r == 1 else f"e^{r}" if r.denominator == 1 and r > 0 else f"e^({r})"
        return power if power and c == 1 else f"{c}·{power}" if power else str(c)

    return " + ".join(one(r, c) for r, c in terms) or "0"


# -- enclosures ---------------------------------------------------------------------------------------------


def _make(low: Fraction, high: Fraction) -> Value:
    """The enclosure of an interval, its ends rounded outwards by far less than its width."""
    if low == high:
        return low
    width = high - low
    shift = width.denominator.bit_length() - width.numerator.bit_length() + 16
    if shift <= 0 or low.denominator.bit_length() <= shift >= high.denominator.bit_length():
        return Interval(low, high)
    return Interval(
        Fraction((low.numerator << shift) // low.denominator, 1 << shift),
        Fraction(-((-high.numerator << shift) // high.denominator), 1 << shift),
    )


def bounds(x: Value, bits: int = BITS) -> tuple[Fraction, Fraction]:
    """The ends of an enclosure. Raises Undefined for −∞."""
    if isinstance(x, Fraction):
        return x, x
    if isinstance(x, Interval):
        return x.low, x.high
    if isinstance(x, Powers):
        return _quotient_bounds(x, bits)
    if isinstance(x, MinusInfinity):
        raise Undefined(f"{x.reason} where a real is needed")
    value = Fraction(x)
    return value, value


def _sum_bounds(terms: Terms, bits: int) -> tuple[Fraction, Fraction]:
    low = high = Fraction(0)
    for r, c in terms:
        a, b = exp_bounds(r, bits)
        low, high = (low + c * a, high + c * b) if c > 0 else (low + c * b, high + c * a)
    return low, high


def _narrowed(enclose: Callable[[int], tuple[Fraction, Fraction]], bits: int) -> tuple[Fraction, Fraction]:
    """An enclosure that is narrowed until it excludes 0."""
    while True:
        low, high = enclose(bits)
        if low > 0 or high < 0:
            return low, high
        if bits > NARROWEST:
            raise Unclear("a number too close to 0 to tell from it")
        bits *= 4


def _quotient_bounds(x: Powers, bits: int) -> tuple[Fraction, Fraction]:
    a, b = _sum_bounds(x.top, bits)
    if x.bottom == _ONE:
        return a, b
    c, d = _narrowed(lambda more: _sum_bounds(x.bottom, more), bits)
    ends = (a / c, a / d, b / c, b / d)
    return min(ends), max(ends)


# -- quotients of exponential polynomials -------------------------------------------------------------------


def _terms(x: Fraction | Powers) -> tuple[Terms, Terms]:
    if isinstance(x, Powers):
        return x.top, x.bottom
    return (((Fraction(0), x),) if x else ()), _ONE


def _plus(a: Terms, b: Terms) -> Terms:
    found = dict(a)
    for r, c in b:
        found[r] = found.get(r, Fraction(0)) + c
    return tuple(sorted((r, c) for r, c in found.items() if c))


def _times(a: Terms, b: Terms) -> Terms:
    if a == _ONE or b == _ONE:
        return b if a == _ONE else a
    found: dict[Fraction, Fraction] = {}
    for r, c in a:
        for s, d in b:
            found[r + s] = found.get(r + s, Fraction(0)) + c * d
    return tuple(sorted((r, c) for r, c in found.items() if c))


def _over(top: Terms, bottom: Terms) -> Value:
    """A quotient with a nonzero denominator: a rational if it is one, an enclosure if it would be too long."""
    if not top:
        return Fraction(0)
    r, c = bottom[0]
    if r or c != 1:
        top = tuple((s - r, d / c) for s, d in top)
        bottom = tuple((s - r, d / c) for s, d in bottom)
    if len(top) == len(bottom):
        ratio = top[0][1]
        if top[0][0] == 0 and all(s == t and d == ratio * e for (s, d), (t, e) in zip(top, bottom, strict=True)):
            return ratio
    made = Powers(top, bottom)
    if len(top) + len(bottom) > _TERMS:
        return _make(*_quotient_bounds(made, BITS))
    return made


def _short(*lengths: int) -> bool:
    """Whether a product of polynomials with this many terms is still computed exactly."""
    product = 1
    for n in lengths:
        product *= n
    return product <= 4 * _TERMS


def _exact(x: Value) -> Fraction | Powers | None:
    if isinstance(x, (Fraction, Powers)):
        return x
    return Fraction(x) if isinstance(x, bool) else None


# -- operations ---------------------------------------------------------------------------------------------


def add(x: Value, y: Value) -> Value:
    """x + y; −∞ if either is."""
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x + y
    if isinstance(x, MinusInfinity) or isinstance(y, MinusInfinity):
        return x if isinstance(x, MinusInfinity) else y
    u, v = _exact(x), _exact(y)
    if u is not None and v is not None:
        (a, b), (c, d) = _terms(u), _terms(v)
        if b == d:
            return _over(_plus(a, c), b)
        if _short(len(a), len(d)) and _short(len(b), len(c)) and _short(len(b), len(d)):
            return _over(_plus(_times(a, d), _times(c, b)), _times(b, d))
    (a_, b_), (c_, d_) = bounds(x), bounds(y)
    return _make(a_ + c_, b_ + d_)


def mul(x: Value, y: Value) -> Value:
    """x · y. Raises Undefined if either is −∞."""
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x * y
    u, v = _exact(x), _exact(y)
    if u is not None and v is not None:
        (a, b), (c, d) = _terms(u), _terms(v)
        if a == d or b == c:
            a, b, c, d = (_ONE, b, c, _ONE) if a == d else (a, _ONE, _ONE, d)
        if _short(len(a), len(c)) and _short(len(b), len(d)):
            return _over(_times(a, c), _times(b, d))
    (low, high), (least, most) = bounds(x), bounds(y)
    ends = (low * least, low * most, high * least, high * most)
    return _make(min(ends), max(ends))


def neg(x: Value) -> Value:
    """−x. Raises Undefined for −∞."""
    if isinstance(x, MinusInfinity):
        raise Undefined(f"{x.reason} is subtracted")
    return mul(Fraction(-1), x)


def inv(x: Value) -> Value:
    """1/x. Raises Undefined for 0, Unclear where an enclosure contains 0."""
    if isinstance(x, Powers):
        return _over(x.bottom, x.top)
    a, b = bounds(x)
    if a == b == 0:
        raise Undefined("division by 0")
    if a <= 0 <= b:
        raise Unclear("a divisor near 0")
    return _make(1 / b, 1 / a)


def exp(x: Value, bits: int = BITS) -> Value:
    """eˣ; 0 at −∞. Raises Unclear for an exponent that is too large to enclose."""
    if isinstance(x, MinusInfinity):
        return Fraction(0)
    if isinstance(x, (Fraction, bool)):
        r = Fraction(x)
        if r == 0:
            return Fraction(1)
        if abs(r) <= _EXPONENT and r.denominator.bit_length() <= 64:
            return Powers(((r, Fraction(1)),))
    a, b = bounds(x, bits)
    if b > _EXPONENT:
        raise Unclear("an exponent too large to enclose")
    # Ends with few digits: they widen the enclosure by little.
    low, high = bounds(_make(max(a, Fraction(-_EXPONENT)), max(b, Fraction(-_EXPONENT))))
    least = Fraction(0) if a < -_EXPONENT else exp_bounds(_shortened(low), bits)[0]
    return _make(least, exp_bounds(_shortened(high, up=True), bits)[1])


def _shortened(x: Fraction, up: bool = False) -> Fraction:
    """The number itself, or a nearby one below (or above) it with fewer digits."""
    if x.denominator.bit_length() <= 1024:
        return x
    scaled = x.numerator << 1024
    return Fraction(ceil_quotient(scaled, x.denominator) if up else scaled // x.denominator, 1 << 1024)


def log(x: Value, bits: int = BITS) -> Value:
    """The natural logarithm; r for e^r. Raises Undefined at 0 and below."""
    a, b = _narrow_from_zero(x, bits)
    if b <= 0:
        raise Undefined("logarithm of a number that is not positive")
    if a <= 0:
        raise Unclear("logarithm near 0")
    if a == b == 1:
        return Fraction(0)
    if isinstance(x, Powers) and len(x.top) == 1 and x.bottom == _ONE:
        ((r, c),) = x.top
        return add(r, log(c, bits))
    return _make(log_bounds(a, bits)[0], log_bounds(b, bits)[1])


def _narrow_from_zero(x: Value, bits: int) -> tuple[Fraction, Fraction]:
    return _narrowed(lambda more: bounds(x, more), bits) if isinstance(x, Powers) else bounds(x)


def sqrt(x: Value, bits: int = BITS) -> Value:
    """The square root; exact for squares of rationals, and for e^r of such. Raises Undefined below 0."""
    a, b = _narrow_from_zero(x, bits)
    if b < 0:
        raise Undefined("square root of a negative number")
    if a < 0:
        raise Unclear("square root near 0")
    if a == b:
        root = Fraction(isqrt(a.numerator), isqrt(a.denominator))
        if root * root == a:
            return root
    if isinstance(x, Powers) and len(x.top) == 1 and x.bottom == _ONE:
        ((r, c),) = x.top
        return mul(exp(r / 2, bits), sqrt(c, bits))
    return _make(sqrt_bounds(a, bits)[0], sqrt_bounds(b, bits)[1])


def erf(x: Value, bits: int = BITS) -> Value:
    """The error function; 0 at 0. It increases. Raises Undefined for −∞."""
    low, high = bounds(x, bits)
    if low == high == 0:
        return Fraction(0)
    return _make(erf_bounds(_shortened(low), bits)[0], erf_bounds(_shortened(high, up=True), bits)[1])


def sin(x: Value, bits: int = BITS) -> Value:
    """The sine; 0 at 0. Raises Undefined for −∞, Unclear for numbers too large to enclose it."""
    return _wave(x, bits, 0)


def cos(x: Value, bits: int = BITS) -> Value:
    """The cosine; 1 at 0. Raises Undefined for −∞, Unclear for numbers too large to enclose it."""
    return _wave(x, bits, 1)


def _wave(x: Value, bits: int, quarters: int) -> Value:
    """sin(x + quarters·π/2), which changes by no more than its argument does."""
    low, high = bounds(x, bits)
    if low == high == 0:
        return Fraction(quarters)
    middle = _shortened((low + high) / 2)
    off = max(high - middle, middle - low)
    least, most = sin_bounds(middle, bits, quarters)
    return _make(max(least - off, Fraction(-1)), min(most + off, Fraction(1)))


def rounded(x: Value, to_integer: Callable[[Fraction], int]) -> Value:
    """A number rounded by a function that increases. Raises Undefined for −∞, Unclear where the enclosure does not
    decide."""
    least, most = map(to_integer, bounds(x))
    if least != most:
        raise Unclear("a number too close to a step to round")
    return Fraction(least)


def maximum(x: Value, y: Value) -> Value:
    """The larger of two values; −∞ is the least."""
    if isinstance(x, MinusInfinity):
        return y
    if isinstance(y, MinusInfinity):
        return x
    if _exact(x) is not None and _exact(y) is not None:
        return y if compare("le", x, y) else x
    (a, b), (c, d) = bounds(x), bounds(y)
    if b <= c or d <= a:
        return y if b <= c else x
    return _make(max(a, c), max(b, d))


def compare(op: str, x: Value, y: Value) -> bool:
    """x < y, x ≤ y or x = y. Raises Unclear where enclosures overlap."""
    if isinstance(x, MinusInfinity) or isinstance(y, MinusInfinity):
        both = isinstance(x, MinusInfinity) and isinstance(y, MinusInfinity)
        if op == "eq":
            return both
        return isinstance(x, MinusInfinity) and (op == "le" or not both)
    if isinstance(x, Powers) or isinstance(y, Powers):
        gap = add(y, neg(x))
        if isinstance(gap, (Fraction, Powers)):
            a, b = _narrow_from_zero(gap, BITS)
            return (a == 0 if a == b else False) if op == "eq" else a > 0 or (op == "le" and a == b == 0)
    (a, b), (c, d) = bounds(x), bounds(y)
    if a == b and c == d:
        return {"lt": a < c, "le": a <= c, "eq": a == c}[op]
    if b < c:
        return op != "eq"
    if d < a:
        return False
    raise Unclear("a comparison of values too close to tell apart")


def different(x: Value, y: Value) -> bool:
    """Whether two values certainly differ."""
    try:
        return not compare("eq", x, y)
    except Unclear:
        return False


def truth(x: Value) -> bool:
    """The truth value of a number: whether it is not 0."""
    return x if isinstance(x, bool) else not compare("eq", x, Fraction(0))


def random_number(args: Sequence[Value]) -> Value:
    """The random number of a seed and a counter. Raises Undefined for −∞, and Unclear for what is no known integer."""
    words = []
    for a in args:
        if isinstance(a, MinusInfinity):
            raise Undefined(f"{a.reason} is the seed or the counter of a random number")
        if not isinstance(a, Fraction) or a.denominator != 1:
            raise Unclear("a random number of what is no known integer")
        words.append(a.numerator)
    return Fraction(uniform_of_integers(*words))
