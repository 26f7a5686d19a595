"""Integers that carry the polynomial of tile lengths whose value they are (symbolic execution beside concrete values).

A launch function and a kernel compute with lengths: the bytes of a buffer are a product of tile lengths and the width
of an element. If a tile length is a `Length`, then sums, products and exact quotients of it are `Length`s too. So the
bytes of a buffer are known as a polynomial beside the number. Any other function of a `Length` gives a plain number,
that is, a constant polynomial.

>>> rows, keys = Length.of(128, "g_q"), Length.of(64, "s_x")
>>> size = 2 * rows * keys + 16 * keys // 8
>>> int(size), str(amount_of(size)), str(amount_of(max(16, rows // 3)))
(16512, '2*g_q*s_x + 2*s_x', '42')
"""

from __future__ import annotations

from typing import Any

from catdiag.category.integer_polynomial import IntPolynomial


class Length(int):
    """An integer, and the polynomial of tile lengths whose value it is (`amount`)."""

    amount: IntPolynomial

    @staticmethod
    def made(value: int, amount: IntPolynomial) -> Length:
        """An integer with a given polynomial."""
        found = Length(value)
        found.amount = amount
        return found

    @staticmethod
    def of(value: int, symbol: str) -> Length:
        """The length of a tile, as its own symbol."""
        return Length.made(value, IntPolynomial.of(symbol))

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return Length.made(int(self) + int(other), self.amount + amount_of(other))

    def __sub__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return Length.made(int(self) - int(other), self.amount - amount_of(other))

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
    """The polynomial of an integer; of a plain integer, the constant."""
    return number.amount if isinstance(number, Length) else IntPolynomial.of(int(number))


def _quotient(amount: IntPolynomial, divisor: IntPolynomial) -> IntPolynomial | None:
    """The quotient by a polynomial of one term, if the division is exact; else None."""
    if len(divisor.terms) != 1:
        return None
    ((symbols, factor),) = divisor.terms.items()
    found: dict[tuple[str, ...], int] = {}
    for monomial, coefficient in amount.terms.items():
        rest = list(monomial)
        for symbol in symbols:
            if symbol not in rest:
                return None
            rest.remove(symbol)
        if coefficient % factor:
            return None
        found[tuple(rest)] = coefficient // factor
    return IntPolynomial(found)
