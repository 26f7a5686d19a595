"""Rational enclosures of logarithms and roots of fractions, in integer arithmetic."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

_BITS = 128
_TERMS = 42  # 9**-42 is below 2**-128


def logarithm(value: Fraction) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound of the natural logarithm of a positive fraction; raises ValueError for another.

    They are about `2**-120` apart (more for values far from one). `log m = 2 artanh z` with `z = (m - 1) / (m + 1)`:
    partial sums of the series are below it, and the remainder is below the next term over `1 - z**2`.

    >>> low, high = logarithm(Fraction(10))
    >>> low < high, float(low), float(high - low) < 1e-30
    (True, 2.302585092994046, True)
    """
    if value <= 0:
        raise ValueError(f"{value} has no logarithm: it is not positive")
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    mantissa = value / Fraction(2) ** shift
    if mantissa < 1:
        shift, mantissa = shift - 1, mantissa * 2
    low, high = _twice_artanh((mantissa - 1) / (mantissa + 1))
    if not shift:
        return low, high
    first, second = _two()
    return low + min(shift * first, shift * second), high + max(shift * first, shift * second)


@lru_cache(maxsize=1)
def _two() -> tuple[Fraction, Fraction]:
    return _twice_artanh(Fraction(1, 3))


def _twice_artanh(z: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of `2 artanh z` for `0 <= z <= 1/3`; each step rounds to multiples of `2**-_BITS`."""
    unit = 1 << _BITS
    down = (z.numerator << _BITS) // z.denominator
    total, power, square = 0, down, down * down >> _BITS
    for k in range(_TERMS):
        total += power // (2 * k + 1)
        power = power * square >> _BITS
    # Rounding down loses less than three units in each term.
    return Fraction(2 * total, unit), Fraction(2 * (total + 12 * _TERMS + 8), unit)


def root(value: Fraction, degree: int) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound of the root of a positive fraction; both are the fraction itself for degree one.

    >>> low, high = root(Fraction(2), 2)
    >>> low**2 <= 2 <= high**2, float(high - low) < 1e-30
    (True, True)
    """
    if degree == 1:
        return value, value
    import sympy

    whole = sympy.integer_nthroot((value.numerator << degree * _BITS) // value.denominator, degree)[0]
    return Fraction(int(whole), 1 << _BITS), Fraction(int(whole) + 1, 1 << _BITS)


def power(value: Fraction, exponent: Fraction) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound of `value ** exponent`."""
    low, high = root(value, exponent.denominator)
    raised = low**exponent.numerator, high**exponent.numerator
    return min(raised), max(raised)
