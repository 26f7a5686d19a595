"""Polynomials in sizes with integer coefficients: the type of counts of values, bytes and operations.

>>> d, g = IntPolynomial.of("d"), IntPolynomial.of("g_q")
>>> tile = d * g + d * g + g
>>> print(tile, "|", tile.value({"d": 4, "g_q": 3}))
2*d*g_q + g_q | 27
>>> tile.dominates(d * g), (d * g).dominates(tile), (d * g).dominates(g)      # sizes are at least 1
(True, False, True)

They are smaller and faster than those of a computer algebra system, and accept NumPy arrays as values.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from catdiag.category.types import Axis, Size, read_off

Monomial = tuple[str, ...]
"""Symbols in order of name, repeated according to their power."""

_DEGREE = 12  # for higher degrees the comparison by shifting (2^degree terms) gives up and answers "not dominated"


class IntPolynomial:
    """A polynomial in sizes; immutable."""

    __slots__ = ("_known", "terms")

    def __init__(self, terms: Mapping[Monomial, int] | None = None) -> None:
        self.terms: dict[Monomial, int] = {m: c for m, c in (terms or {}).items() if c}

    @staticmethod
    def of(size: Size) -> IntPolynomial:
        """A size as a polynomial.

        >>> print(IntPolynomial.of(("*", "b", ("+", "x", 3))))
        b*x + 3*b
        """

        def leaf(item: str | int) -> IntPolynomial:
            return IntPolynomial({(item,): 1} if isinstance(item, str) else {(): item})

        if not isinstance(size, tuple):
            return leaf(size)
        found: IntPolynomial = read_off(size, leaf, lambda op, a, b: a + b if op == "+" else a * b)
        return found

    @staticmethod
    def elements(axes: Iterable[Axis]) -> IntPolynomial:
        """The number of elements of an array over these axes."""
        total = ONE
        for axis in axes:
            total = total * IntPolynomial.of(axis.size)
        return total

    def __add__(self, other: IntPolynomial) -> IntPolynomial:
        found = dict(self.terms)
        for m, c in other.terms.items():
            found[m] = found.get(m, 0) + c
        return IntPolynomial(found)

    def __sub__(self, other: IntPolynomial) -> IntPolynomial:
        return self + other.scaled(-1)

    def __mul__(self, other: IntPolynomial) -> IntPolynomial:
        found: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, e in other.terms.items():
                key = tuple(sorted(m + n))
                found[key] = found.get(key, 0) + c * e
        return IntPolynomial(found)

    def scaled(self, factor: int) -> IntPolynomial:
        """The polynomial times an integer."""
        return IntPolynomial({m: c * factor for m, c in self.terms.items()})

    def at(self, known: Mapping[str, int]) -> IntPolynomial:
        """The polynomial with some symbols at their values.

        >>> str((IntPolynomial.of("a") * IntPolynomial.of("b") + IntPolynomial.of("b")).at({"a": 3}))
        '4*b'
        """
        total: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms.items():
            factor = math.prod((known[name] for name in monomial if name in known), start=coefficient)
            rest = tuple(name for name in monomial if name not in known)
            total[rest] = total.get(rest, 0) + factor
        return IntPolynomial(total)

    def without(self, names: Collection[str]) -> IntPolynomial:
        """The polynomial with some symbols set to 1."""
        return self.at(dict.fromkeys(names, 1))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntPolynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def symbols(self) -> set[str]:
        """The symbols that occur."""
        return {s for m in self.terms for s in m}

    def value(self, values: Mapping[str, Any]) -> Any:
        """Its value, or an array of values where some of `values` are arrays."""
        total: Any = 0
        for m, c in self.terms.items():
            product: Any = c
            arrays: list[Any] = []
            for s in m:
                factor = values[s]
                if getattr(factor, "ndim", 0):
                    arrays.append(factor)
                else:
                    product = product * factor
            for array in arrays:
                product = product * array
            total = total + product
        return total

    def _samples(self) -> tuple[int, int]:
        """Its values where all sizes are 1, and where all are 2."""
        try:
            return self._known
        except AttributeError:
            terms = self.terms.items()
            self._known: tuple[int, int] = sum(self.terms.values()), sum(c << len(m) for m, c in terms)
            return self._known

    def dominates(self, other: IntPolynomial) -> bool:
        """Whether it is at least `other` for all sizes ≥ 1. With each size written as 1 + s, the test is that no
        coefficient of the difference is negative, which is sufficient and not necessary.
        """
        mine, its = self._samples(), other._samples()
        if mine[0] < its[0] or mine[1] < its[1]:
            return False
        difference = (self - other).terms
        positive = {m: c for m, c in difference.items() if c > 0}
        if len(positive) == len(difference):
            return True
        matched = _matched({m: -c for m, c in difference.items() if c < 0}, positive)
        return _nonnegative_shift(difference) if matched is None else matched

    def expr(self) -> Any:
        """The polynomial as a sympy expression in positive integer symbols."""
        import sympy

        return sympy.Add(*(sympy.Mul(c, *map(symbol, m)) for m, c in self.terms.items()))

    def __str__(self) -> str:
        parts = []
        for m, c in sorted(self.terms.items(), key=lambda t: (-len(t[0]), t[0])):
            text = "*".join(f"{s}**{m.count(s)}" if m.count(s) > 1 else s for s in dict.fromkeys(m))
            parts.append(text if text and c == 1 else f"{c}*{text}" if text else str(c))
        return " + ".join(parts).replace("+ -", "- ") or "0"

    def __repr__(self) -> str:
        return f"<amount {self}>"


def symbol(name: str) -> Any:
    """The sympy symbol of a size: a positive integer."""
    import sympy

    return sympy.Symbol(name, positive=True, integer=True)


def _matched(negative: Mapping[Monomial, int], positive: Mapping[Monomial, int]) -> bool | None:
    """Whether positive terms, each a multiple of the negative term that it is matched with, outweigh all of these; None
    where that is not decided. A negative term of which no positive one is a multiple stays negative when sizes are
    written as 1 + s."""
    left = dict(positive)
    undecided = False
    for m, needed in sorted(negative.items(), key=lambda term: -len(term[0])):
        multiples = [n for n in positive if len(n) > len(m) and _divides(m, n)]
        if not multiples:
            return False
        for n in multiples:
            taken = min(needed, left[n])
            left[n] -= taken
            needed -= taken
        undecided |= needed > 0
    return None if undecided else True


def _divides(m: Monomial, n: Monomial) -> bool:
    """Whether a monomial divides another.

    >>> _divides(("a", "b"), ("a", "a", "b")), _divides(("a", "a"), ("a", "b", "c"))
    (True, False)
    """
    rest = iter(n)
    return all(name in rest for name in m)


def _nonnegative_shift(terms: Mapping[Monomial, int]) -> bool:
    """Whether no coefficient is negative once each size is written as 1 + s; False where a degree is too high."""
    shifted: dict[Monomial, int] = {}
    for m, c in terms.items():
        if len(m) > _DEGREE:
            return False
        for bits in range(1 << len(m)):
            key = tuple(s for k, s in enumerate(m) if bits >> k & 1)
            shifted[key] = shifted.get(key, 0) + c
    return all(c >= 0 for c in shifted.values())


ZERO, ONE = IntPolynomial(), IntPolynomial({(): 1})
