"""Lengths of a program that was traced with symbols for them: each as what it is in the example, and as an extent.

A trace with symbols says how each length is computed from those of the inputs: `s0 + s1`, `s0 - 1`, `s0 // 4`. The axes
that an importer makes have the sizes that these expressions are, and not only their lengths in the example: a sum, a
product, what is left of a size without a part (`s0 = n + 1`), a factor of one (`s0 = 4 n`). Of other expressions only
the length in the example is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from catdiag.importers.dimensions import (
    Dimension,
    Extent,
    Factors,
    NotAligned,
    TracedLength,
    extent_of,
    product_of,
    same_size,
)


@dataclass
class SizeSum:
    """A sum of extents, each a number of times, and an integer: what an expression of lengths is computed as. `value`
    is its value in the example; `terms` are None where it is no such sum."""

    factors: Factors
    value: int
    terms: list[tuple[Extent, int]] | None
    number: int = 0

    @staticmethod
    def of(factors: Factors, extent: Extent) -> SizeSum:
        """An extent."""
        return SizeSum(factors, extent.length, [(extent, 1)])

    def _lift(self, other: SizeSum | int) -> SizeSum:
        return other if isinstance(other, SizeSum) else SizeSum(self.factors, int(other), [], int(other))

    def __add__(self, other: SizeSum | int) -> SizeSum:
        b = self._lift(other)
        terms = None if self.terms is None or b.terms is None else [*self.terms, *b.terms]
        return SizeSum(self.factors, self.value + b.value, terms, self.number + b.number)

    __radd__ = __add__

    def __neg__(self) -> SizeSum:
        return self * -1

    def __sub__(self, other: SizeSum | int) -> SizeSum:
        return self + self._lift(other) * -1

    def __rsub__(self, other: SizeSum | int) -> SizeSum:
        return self * -1 + other

    def __mul__(self, other: SizeSum | int) -> SizeSum:
        b, value = self._lift(other), self.value * int(other.value if isinstance(other, SizeSum) else other)
        if self.terms is None or b.terms is None:
            return SizeSum(self.factors, value, None)
        if self.terms and b.terms:
            one, another = self.extent(), b.extent()
            both = None if one is None or another is None else [(product_of([one, another]), 1)]
            return SizeSum(self.factors, value, both)
        sums, number = (self, b.number) if self.terms else (b, self.number)
        scaled = [(e, n * number) for e, n in sums.terms or () if number]
        return SizeSum(self.factors, value, scaled, sums.number * number)

    __rmul__ = __mul__

    def __floordiv__(self, other: SizeSum | int) -> SizeSum:
        """A factor, where the other one divides it in the example: then it is a multiple at all sizes."""
        b = self._lift(other)
        whole, divisor, value = self.extent(), b.extent(), self.value // b.value
        if whole is None or divisor is None or self.value % b.value or value < 2:
            return SizeSum(self.factors, value, None)
        try:
            found, rest = self.factors.divided(whole, value)
            self.factors.equate(rest, divisor)
        except NotAligned:
            return SizeSum(self.factors, value, None)
        return SizeSum.of(self.factors, found)

    def __mod__(self, other: SizeSum | int) -> SizeSum:
        """The remainder: none, where the quotient is a factor."""
        b = self._lift(other)
        quotient = self // b
        return SizeSum(self.factors, self.value % b.value, None if quotient.terms is None else [])

    def __divmod__(self, other: SizeSum | int) -> tuple[SizeSum, SizeSum]:
        return self // other, self % other

    def extent(self) -> Extent | None:
        """The extent that this is; a size that something is taken from becomes a sum. None where there is none."""
        if self.terms is None or self.value < 1:
            return None
        found = self._collected()
        below = [(e, -n) for e, n in found if n < 0]
        parts = [self._times(e, n) for e, n in found if n > 0]
        away = [self._times(e, n) for e, n in below]
        if self.number > 0:
            parts.append(Extent(self.number, fixed=True))
        elif self.number < 0:
            away.append(Extent(-self.number, fixed=True))
        if away:
            for k, part in enumerate(parts):
                left = self.factors.rest(part, away)
                if left is not None:
                    parts[k] = left
                    break
            else:
                return None
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else Extent(self.value, parts=tuple(parts), op="+")

    def _collected(self) -> list[tuple[Extent, int]]:
        total: dict[Extent, int] = {}
        for extent, number in self.terms or ():
            total[extent_of(extent)] = total.get(extent_of(extent), 0) + number
        return [(e, n) for e, n in total.items() if n]

    def _times(self, extent: Extent, number: int) -> Extent:
        return extent if number == 1 else product_of([Extent(number, fixed=True), extent])


@dataclass
class SymbolicLengths:
    """The lengths of a trace by the texts of their expressions, which are computed when they are first asked for: then
    a size may become a sum or a product."""

    factors: Factors
    _known: dict[str, Extent | None] = field(default_factory=dict)

    def symbol(self, name: str, length: int) -> Extent:
        """The extent of a symbol."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = Extent(length, fixed=self.factors.is_fixed(length), traced=True)
        return found

    def length(self, text: str, value: int, compute: Callable[[], SizeSum | int]) -> TracedLength:
        """The length that an expression is."""

        def extent() -> Extent | None:
            if text not in self._known:
                found = compute()
                self._known[text] = found.extent() if isinstance(found, SizeSum) else Extent(found, fixed=True)
            return self._known[text]

        return TracedLength(value, text, extent)

    def learn(self, length: TracedLength, extents: Sequence[Extent]) -> None:
        """Notes that a length is the product of extents, as a result has it. Raises NotAligned."""
        known, made = self._known.get(length.text), product_of(extents)
        if known is None:
            self._known[length.text] = made
        elif len(extents) == 1 and not same_size(known, made):
            self.factors.equate(known, made)

    def learn_shape(self, shape: Sequence[int], dims: Sequence[Dimension]) -> None:
        """Notes the lengths of a result that the trace computes. Raises NotAligned."""
        for length, dim in zip(shape, dims, strict=False):
            if isinstance(length, TracedLength):
                self.learn(length, [f.extent for f in self.factors.resolve(dim)])
