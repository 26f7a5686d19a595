"""Integers that are sums of positions: `arange`, shifted, subtracted, compared.

Libraries write masks out of arrays of positions: that of packed sequences compares running counts of where positions
jump, which they never do in an `arange`. What follows from positions alone is computed while a program is imported: a
difference that is one number, a comparison that holds everywhere. The rest stays a comparison of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from catdiag.importers.dimensions import AxisFactor, Dimension


class NotPositional(Exception):
    """A result that is no sum of positions, or is not known from them alone."""


@dataclass(frozen=True, eq=False)
class Positions:
    """`offset`, and for each dimension a number times the position along it. Two with the same factors are compared by
    their numbers; comparisons are truth values, and raise NotPositional where they do not hold or fail everywhere.

    >>> from catdiag.importers.dimensions import Factors
    >>> rows = Factors().dimension(4)
    >>> at = Positions.along(rows)
    >>> (at + 1) - at == 1, at < at + 1
    (True, True)
    >>> at == 1
    Traceback (most recent call last):
        ...
    catdiag.importers.positions.NotPositional
    """

    terms: Mapping[Dimension, int]
    offset: int = 0

    @staticmethod
    def along(dim: Dimension, step: int = 1, offset: int = 0) -> Positions:
        """The positions along a dimension, each times `step`, and an offset."""
        return Positions({tuple(dim): step} if dim and step else {}, offset)

    @property
    def factors(self) -> tuple[AxisFactor, ...]:
        """Those that positions are along."""
        return tuple(f for dim in self.terms for f in dim)

    def mapped(self, change: Callable[[Dimension], Dimension]) -> Positions:
        """The same along other dimensions."""
        return Positions(_sum((tuple(change(dim)), step) for dim, step in self.terms.items()), self.offset)

    def without(self, dim: Dimension, position: int = 0) -> Positions | None:
        """The same at one position of a dimension; None where that is a part of another one."""
        rest = {d: step for d, step in self.terms.items() if d != tuple(dim)}
        if set(dim) & {f for d in rest for f in d}:
            return None
        return Positions(rest, self.offset + self.terms.get(tuple(dim), 0) * position)

    @property
    def number(self) -> int:
        """What it is everywhere. Raises NotPositional where it differs."""
        if self.terms:
            raise NotPositional
        return self.offset

    def __add__(self, other: object) -> Positions:
        if not isinstance(other, Positions):
            return Positions(self.terms, self.offset + _integer(other))
        both = _sum([*self.terms.items(), *other.terms.items()])
        return Positions(both, self.offset + other.offset)

    __radd__ = __add__

    def __mul__(self, other: object) -> Positions:
        number = other.number if isinstance(other, Positions) and not other.terms else other
        if isinstance(number, Positions):
            return number * self.number
        by = _integer(number)
        return Positions({dim: step * by for dim, step in self.terms.items() if by}, self.offset * by)

    __rmul__ = __mul__

    def __neg__(self) -> Positions:
        return self * -1

    def __sub__(self, other: object) -> Positions:
        return self + (-other if isinstance(other, Positions) else -_integer(other))

    def __rsub__(self, other: object) -> Positions:
        return -self + other

    def __eq__(self, other: object) -> bool:
        return (self - other).number == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:
        return (self - other).number < 0

    def __le__(self, other: object) -> bool:
        return (self - other).number <= 0

    def __gt__(self, other: object) -> bool:
        return not self <= other

    def __ge__(self, other: object) -> bool:
        return not self < other


def _sum(terms: object) -> dict[Dimension, int]:
    found: dict[Dimension, int] = {}
    for dim, step in terms:  # type: ignore[attr-defined]
        found[dim] = found.get(dim, 0) + step
    return {dim: step for dim, step in found.items() if dim and step}


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotPositional
    return value
