"""Formulas over the groups of a grid: floor, ceiling, sum and maximum that become numbers once all sizes are numbers.

sympy's own versions are wrong or slow for the formulas that occur here (see `_Quotient`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import sympy

from catdiag.category.formula import Formula, infix

Expr = Any


class _Quotient(sympy.Function):  # type: ignore[misc]
    """A rounded quotient of integers; a number as soon as both are. sympy's own floor and ceiling of a minimum can be
    wrong: up to version 1.14 it takes Min(12, 2*k + 2)/10 for an integer."""

    nargs = 2
    is_integer = True

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        """The number, if both arguments are numbers."""
        if b == 1 or a == 0:
            return a
        if a.is_Rational and b.is_Rational:
            return cls.rounding(a / b)
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        a, b = self.args
        return True if a.is_nonnegative and b.is_positive else None

    def _sympystr(self, printer: Any) -> str:
        return str(printer._print(self.rounding(self.args[0] / self.args[1], evaluate=False)))

    def as_formula(self, of: Callable[[Expr], Formula]) -> Formula:
        """The quotient, rounded, as a formula."""
        return Formula("floor" if self.rounding is sympy.floor else "ceiling", (infix("/", *map(of, self.args)),))


class Down(_Quotient):
    """⌊a/b⌋.

    >>> k = sympy.Symbol("k", integer=True)
    >>> found = Down(sympy.Min(12, 2 * k + 2), 10)
    >>> found, found.subs(k, 3)
    (floor(Min(12, 2*k + 2)/10), 0)
    """

    rounding = sympy.floor


class Up(_Quotient):
    """⌈a/b⌉."""

    rounding = sympy.ceiling


class GroupSum(sympy.Sum):  # type: ignore[misc]
    """A sum over groups. It becomes a number as soon as no symbol is left."""

    def __new__(cls, function: Expr, *limits: Any, **options: Any) -> Expr:
        made = sympy.Sum.__new__(cls, function, *limits, **options)
        if isinstance(made, GroupSum) and not made.free_symbols:
            return _added(made.function, [(j, int(first), int(last)) for j, first, last in made.limits])
        return made

    def doit(self, **hints: Any) -> Expr:
        """Itself: sympy's own rules for sums do not treat roundings."""
        return self


class GroupMax(sympy.Expr):  # type: ignore[misc]
    """The maximum of a formula over the groups `first` to `last`. It becomes a number as soon as no symbol is left."""

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, function: Expr, limit: Any) -> Any:
        j, first, last = limit = sympy.Tuple(*limit)
        if not (function.free_symbols | first.free_symbols | last.free_symbols) - {j}:
            return max(_values(function, [(j, int(first), int(last))]))
        return sympy.Expr.__new__(cls, function, limit)

    @property
    def free_symbols(self) -> set[Any]:
        """All symbols but the index of the group."""
        function, (j, first, last) = self.args
        found: set[Any] = (function.free_symbols - {j}) | first.free_symbols | last.free_symbols
        return found

    def _sympystr(self, printer: Any) -> str:
        function, limit = self.args
        return f"Max({printer.doprint(function)}, {printer.doprint(limit)})"

    def as_formula(self, of: Callable[[Expr], Formula]) -> Formula:
        """The maximum over the groups as a formula."""
        function, (j, first, last) = self.args
        return Formula("big", (infix("≤", of(first), of(j), of(last)), of(function)), "max")


def _added(function: Expr, limits: Sequence[tuple[Expr, int, int]]) -> Expr:
    """The sum of a rational function of integers with roundings, minima and maxima, computed exactly."""
    return sympy.Add(*_values(function, limits))


def _values(function: Expr, limits: Sequence[tuple[Expr, int, int]]) -> Iterator[Expr]:
    """The value of such a function at each of the integers."""
    order = list(sympy.postorder_traversal(function))
    places = {e: k for k, e in reversed(list(enumerate(order)))}
    code = [(e.func, [places[a] for a in e.args], e) for e in order]
    kept = [k for k, e in enumerate(order) if places[e] == k]
    for at in itertools.product(*(range(first, last + 1) for _, first, last in limits)):
        here = {j: Fraction(value) for (j, _, _), value in zip(limits, at, strict=True)}
        values: dict[int, Fraction] = {}
        for k in kept:
            func, arguments, e = code[k]
            values[k] = here[e] if e in here else _applied(func, [values[a] for a in arguments], e)
        yield sympy.Rational(values[places[function]].numerator, values[places[function]].denominator)


def _applied(func: Any, arguments: list[Fraction], e: Expr) -> Fraction:
    if e.is_Rational:
        return Fraction(int(e.p), int(e.q))
    if func is sympy.Add:
        return sum(arguments, Fraction(0))
    if func is sympy.Mul:
        product = Fraction(1)
        for a in arguments:
            product *= a
        return product
    if func is sympy.Pow and arguments[1].denominator == 1:
        power: Fraction = arguments[0] ** int(arguments[1])
        return power
    if func in (Down, Up):
        ratio = arguments[0] / arguments[1]
        return Fraction(ratio.__floor__() if func is Down else ratio.__ceil__())
    if func in (sympy.Max, sympy.Min):
        return (max if func is sympy.Max else min)(arguments)
    raise ValueError(f"{e} in a sum over groups: expected sums, products, powers, roundings, minima and maxima")
