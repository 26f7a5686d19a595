"""Interpretations of uninterpreted functions: polynomials with exceptions at some arguments, and tables."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from catdiag.category.formula import added, powered, scaled, symbol
from catdiag.prover.refute.exact_reals import Interval, MinusInfinity, Powers, Unclear, add, bounds, mul


@dataclass(frozen=True)
class Function:
    """A polynomial in t = x₁ + 2·x₂ + 3·x₃ + …, coefficients from the constant on, with exceptions in `table`.

    It accepts rationals and other exact numbers, floats, and arrays of floats.

    >>> square = Function((Fraction(0), Fraction(0), Fraction(1)), (((Fraction(3),), Fraction(5)),))
    >>> square(Fraction(1, 2)), square(3), square(4.0)
    (Fraction(1, 4), Fraction(5, 1), 16.0)
    >>> print(square)
    t², t = x₁; 5 at 3
    """

    coefficients: tuple[Fraction, ...]
    table: tuple[tuple[tuple[Fraction, ...], Fraction], ...] = ()

    def __call__(self, *xs: Any) -> Any:
        """The value at numbers, or elementwise at arrays. Raises Unclear near an exception."""
        if any(not isinstance(x, (bool, int, Fraction, Powers, Interval, MinusInfinity)) for x in xs):
            return self._floats(*xs)
        exact: list[Any] = [Fraction(x) if isinstance(x, int) else x for x in xs]
        for known, value in self.table:
            if exact == list(known):
                return value
            # A `Powers` is never rational; an enclosure may contain the argument of an exception.
            if all(_may_be(x, k) for x, k in zip(exact, known, strict=True)):
                raise Unclear("a function of a number too close to another")
        t: Any = exact[0]
        for k, x in enumerate(exact[1:]):
            t = add(t, mul(Fraction(k + 2), x))
        total: Any = Fraction(0)
        for c in reversed(self.coefficients):
            total = add(mul(total, t), c)
        return total

    def _floats(self, *xs: Any) -> Any:
        t: Any = xs[0] * 1.0
        for k, x in enumerate(xs[1:]):
            t = t + (k + 2) * x
        total = t * 0
        for c in reversed(self.coefficients):
            total = total * t + float(c)
        for known, value in self.table:
            here: Any = 1.0
            for x, argument in zip(xs, known, strict=True):
                here = here * (abs(x - float(argument)) < 1e-9)
            total = total + here * (float(value) - total)
        return total

    def data(self) -> dict[str, Any]:
        """The function as plain data.

        >>> Function((Fraction(1, 2), Fraction(1))).data()
        {'polynomial': ['1/2', '1'], 'table': []}
        """
        table = [[[str(x) for x in known], str(value)] for known, value in self.table]
        return {"polynomial": [str(c) for c in self.coefficients], "table": table}

    @staticmethod
    def of_data(data: Any) -> Function:
        """The function in plain data. Raises ValueError, TypeError or KeyError for other data."""
        table = tuple((tuple(Fraction(x) for x in known), Fraction(value)) for known, value in data["table"])
        return Function(tuple(Fraction(c) for c in data["polynomial"]), table)

    def __str__(self) -> str:
        terms = [scaled(c, powered(symbol("t"), k)) for k, c in enumerate(self.coefficients) if c]
        arguments = len(self.table[0][0]) if self.table else 0
        t = "x₁" if arguments == 1 else "x₁ + 2·x₂ + …"
        text = str(reduce(added, terms)) if terms else "0"
        if any(self.coefficients[1:]):
            text += f", t = {t}"
        exceptions = [f"{value} at {', '.join(map(str, known))}" for known, value in self.table]
        return "; ".join([text, *exceptions])


def _may_be(x: Any, k: Fraction) -> bool:
    if isinstance(x, Fraction):
        return x == k
    if isinstance(x, (Powers, MinusInfinity)):
        return False
    low, high = bounds(x)
    return low <= k <= high


class Free:
    """An arbitrary function, defined when it is called: a drawn value for each argument, otherwise 0.

    Equal arguments have equal values; no other law holds.
    """

    def __init__(self, seed: str) -> None:
        self.rng, self.seen = random.Random(seed), dict[tuple[Fraction, ...], Fraction]()

    def __call__(self, *xs: Any) -> Fraction:
        """The value at rational arguments. Raises Unclear for others."""
        if not all(isinstance(x, Fraction) for x in xs):
            raise Unclear("a function of a number that is not rational")
        if xs not in self.seen:
            self.seen[xs] = Fraction(self.rng.randrange(-3, 5))
        return self.seen[xs]

    def function(self) -> Function:
        """The same function as a `Function`, on the arguments that it was called with."""
        return Function((Fraction(0),), tuple(self.seen.items()))
