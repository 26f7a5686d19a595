"""Whole numbers that know which polynomial of tiles they are.

A launch function and a kernel's text reckon with lengths: that of a block is the product of tiles, its bytes are that
and the width of an element. Given a tile as a `Length`, what they make of it by sums, products and exact quotients is
one too, so that the bytes of a buffer are known as a polynomial of tiles beside the number. Whatever else is made of it
is a plain number.

>>> rows, keys = Length.of(128, "g_q"), Length.of(64, "s_x")
>>> held = 2 * rows * keys + 16 * keys // 8
>>> int(held), str(amount_of(held)), str(amount_of(max(16, rows // 3)))
(16512, '2*g_q*s_x + 2*s_x', '42')
"""

from __future__ import annotations

from typing import Any

from catdiag.category.integer_polynomial import IntPolynomial


class Length(int):
    """A whole number, and the polynomial of tiles whose value it is."""

    amount: IntPolynomial

    @staticmethod
    def made(value: int, amount: IntPolynomial) -> Length:
        """A number as a polynomial."""
        found = Length(value)
        found.amount = amount
        return found

    @staticmethod
    def of(value: int, symbol: str) -> Length:
        """The length of a tile."""
        return Length.made(value, IntPolynomial.of(symbol))

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return Length.made(int(self) + int(other), self.amount + amount_of(other))

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return Length.made(int(self) * int(other), self.amount * amount_of(other))

    def __floordiv__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        exact = _quotient(self.amount, amount_of(other))
        value = int(self) // int(other)
        return value if exact is None else Length.made(value, exact)

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << other) if isinstance(other, int) and other >= 0 else NotImplemented

    __radd__, __rmul__ = __add__, __mul__


def amount_of(number: int) -> IntPolynomial:
    """The polynomial that a number is; of a plain one, the number."""
    return number.amount if isinstance(number, Length) else IntPolynomial.of(int(number))


def _quotient(amount: IntPolynomial, divisor: IntPolynomial) -> IntPolynomial | None:
    """The quotient where it leaves nothing, by a single term; else None."""
    if len(divisor.terms) != 1:
        return None
    ((symbols, factor),) = divisor.terms.items()
    found: dict[tuple[str, ...], int] = {}
    for monomial, coefficient in amount.terms.items():
        left = list(monomial)
        for symbol in symbols:
            if symbol not in left:
                return None
            left.remove(symbol)
        if coefficient % factor:
            return None
        found[tuple(left)] = coefficient // factor
    return IntPolynomial(found)
