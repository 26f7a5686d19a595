"""Two rationals around exp, log, √, sin, cos and erf of a rational: power series in fixed point, rounded outwards.

Each bounds what its series leaves out. `bits` is the precision that is asked for.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

NARROWEST = 4096
"""The most bits to which enclosures are narrowed."""


class Unclear(Exception):
    """The enclosures are too wide to decide a comparison or a domain."""


@lru_cache(maxsize=4096)
def exp_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Two rationals around eˣ, in fixed point: argument reduction below 1/4, the power series, repeated squaring.
    Raises Unclear for an exponent of too many digits."""
    if x < 0:
        low, high = exp_bounds(-x, bits)
        return 1 / high, 1 / low
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 2)
    shift = bits + 2 * halvings + 16
    if halvings > 14 or x.denominator.bit_length() > 4 * NARROWEST:
        raise Unclear("an exponent too large to enclose")
    scaled, divisor = x.numerator << shift, x.denominator << halvings
    under, over = scaled // divisor, ceil_quotient(scaled, divisor)
    lower = upper = least = most = 1 << shift
    k = 0
    while most > 1 and k <= bits:
        k += 1
        least = (least * under >> shift) // k
        most = ceil_quotient(ceil_quotient(most * over, 1 << shift), k)
        lower, upper = lower + least, upper + most
    # The argument is at most 1/4, so that the remainder of the series is less than its last term.
    upper += most + 1
    for _ in range(halvings):
        lower, upper = lower * lower >> shift, ceil_quotient(upper * upper, 1 << shift)
    return Fraction(lower, 1 << shift), Fraction(upper, 1 << shift)


def ceil_quotient(a: int, b: int) -> int:
    """⌈a/b⌉."""
    return -(-a // b)


def _artanh_bounds(t: Fraction, shift: int) -> tuple[int, int]:
    """2·artanh t = log((1+t)/(1−t)) for 0 ≤ t ≤ 1/3, times 2^shift: a lower and an upper bound."""
    under, over = (t.numerator << shift) // t.denominator, ceil_quotient(t.numerator << shift, t.denominator)
    low, high, k = under, over, 1
    least, most = under, over
    while most > 1:
        least, most = least * under * under >> 2 * shift, ceil_quotient(most * over * over, 1 << 2 * shift)
        k += 2
        low, high = low + least // k, high + ceil_quotient(most, k)
        if k > 2 * shift:
            break
    return 2 * low, 2 * (high + most + 1)


@lru_cache(maxsize=4096)
def log_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Two rationals around log x: x = y·2^k with 1 ≤ y ≤ 2, and the series of artanh."""
    k = x.numerator.bit_length() - x.denominator.bit_length()
    y = x / Fraction(2) ** k
    if y < 1:
        y, k = y * 2, k - 1
    shift = bits + abs(k).bit_length() + 24
    low, high = _artanh_bounds((y - 1) / (y + 1), shift)
    two = _artanh_bounds(Fraction(1, 3), shift)
    low, high = (low + k * two[0], high + k * two[1]) if k >= 0 else (low + k * two[1], high + k * two[0])
    return Fraction(low, 1 << shift), Fraction(high, 1 << shift)


@lru_cache(maxsize=64)
def _pi(shift: int) -> tuple[int, int]:
    """π times 2^shift, a lower and an upper bound: 16·arctan(1/5) − 4·arctan(1/239) (Machin)."""

    def arctan(n: int) -> tuple[int, int]:
        # The terms alternate and fall: the sum is between two partial sums, each of whose terms is off by less than 1.
        power, total, k = one // n, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power, k = power // (n * n), k + 1
        return total - 2 * k - 2, total + 2 * k + 2

    one = 1 << shift
    (low, high), (least, most) = arctan(5), arctan(239)
    return 16 * low - 4 * most, 16 * high - 4 * least


@lru_cache(maxsize=4096)
def sin_bounds(x: Fraction, bits: int, quarters: int = 0) -> tuple[Fraction, Fraction]:
    """Two rationals around sin(x + quarters·π/2), in fixed point: x less a multiple of π/2, and the power series.
    Raises Unclear for an angle of too many digits."""
    shift = bits + max(0, x.numerator.bit_length() - x.denominator.bit_length()) + 24
    if shift > 4 * NARROWEST:
        raise Unclear("an angle too large to enclose its sine")
    low, high = _pi(shift)
    multiple = round(Fraction(x.numerator << shift + 1, x.denominator * low))
    # The distance from the multiple is `rest`, off by less than `off`, in units of 2^−shift.
    rest = (x.numerator << shift) // x.denominator - multiple * low // 2
    off = abs(multiple) * (high - low) // 2 + 3
    odd = (multiple + quarters) % 2
    term, total, k = (1 << shift if odd else rest), 0, 1 - odd
    terms = 0
    while abs(term) > 1:
        total += term
        # Each term is off by less than 2 more than the one before it times its factor, which is below 1.
        term = -((term * rest >> shift) * rest >> shift) // ((k + 1) * (k + 2))
        k, terms = k + 2, terms + 1
    # What the series leaves out is less than its next term, since its terms alternate and fall.
    off += (terms + 1) * (8 * terms + 8) + 2
    total = -total if (multiple + quarters) % 4 >= 2 else total
    return Fraction(total - off, 1 << shift), Fraction(total + off, 1 << shift)


@lru_cache(maxsize=4096)
def erf_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Two rationals around erf x = 2/√π·x·e^(−x²)·Σ_n 2ⁿ·x²ⁿ/(1·3·…·(2n+1)), whose terms are positive for x > 0.

    For x ≥ 1 it is less than 1 by less than e^(−x²).
    """
    if x < 0:
        least, most = erf_bounds(-x, bits)
        return -most, -least
    if x * x >= bits:
        return 1 - Fraction(1, 1 << bits), Fraction(1)
    shift = bits + 24
    doubled = ceil_quotient(2 * x.numerator**2 << shift, x.denominator**2)
    under, over = doubled - 1, doubled
    low = high = below = above = 1 << shift
    n = 0
    while above > 1 or over > (2 * n + 3 << shift - 1):
        n += 1
        below, above = (
            (below * under >> shift) // (2 * n + 1),
            ceil_quotient(ceil_quotient(above * over, 1 << shift), 2 * n + 1),
        )
        low, high = low + below, high + above
    # From here on each term is at most half of the one before it: the rest is less than the last term.
    high += above
    pi = _pi(shift)
    root = sqrt_bounds(Fraction(4 << shift, pi[1]), shift)[0], sqrt_bounds(Fraction(4 << shift, pi[0]), shift)[1]
    power = exp_bounds(-x * x, shift)
    return root[0] * x * power[0] * Fraction(low, 1 << shift), min(
        Fraction(1), root[1] * x * power[1] * Fraction(high, 1 << shift)
    )


def sqrt_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Two rationals around √x, by the root of an integer."""
    shift = bits + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    root = isqrt((x.numerator << (2 * shift)) // x.denominator)
    return Fraction(root, 1 << shift), Fraction(root + 1, 1 << shift)
