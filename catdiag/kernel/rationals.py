"""Rational numbers as coefficients and exponents: whole ones as `int`, others as `Fraction`."""

from __future__ import annotations

from fractions import Fraction

Rational = int | Fraction
"""A rational number: a whole one is mostly an `int`, whose arithmetic is many times as quick. `/` of two of these may
round, and types refuse it: it is `quotient`."""


def simplest(x: Rational) -> Rational:
    """The same number, as an `int` if it is whole."""
    return x.numerator if x.denominator == 1 else x


def quotient(x: Rational, y: Rational) -> Rational:
    """x / y, exactly, for y ≠ 0.

    >>> quotient(6, 3), quotient(1, 2), quotient(Fraction(3, 2), Fraction(1, 2))
    (2, Fraction(1, 2), 3)
    """
    return simplest(Fraction(x, y))


def absolute(x: Rational) -> Rational:
    """|x|."""
    return x if x >= 0 else -x
