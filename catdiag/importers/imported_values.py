"""What the first pass of an importer records of arrays and numbers, and what the second pass finds them by.

See `catdiag.importers.program_builder` for the two passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.category.types import Axis, product
from catdiag.frontend.indexing import indexed
from catdiag.frontend.reshape import merged
from catdiag.frontend.tracing import Traced, running
from catdiag.importers.dimensions import AxisFactor, AxisNames, Dimension
from catdiag.importers.positions import Positions


def at(line: str | None) -> str:
    """How a note ends that is about a user's line."""
    return f" ({line})" if line else ""


@dataclass(eq=False)
class ArrayValue:
    """An array of the imported program: its dimensions, and of their factors those that it really has; it is broadcast
    along the others. `contracted` is what the product that made it summed over; `number` what all elements are, and
    `positions` what they are of integers that are known from where they stand; `pending` what it was multiplied by.
    `along` makes it along other axes, of what is made of positions only: then no array is renamed. `whole` are the
    integers that real numbers are, `quotient` the integers and the positive one that they are the quotient of."""

    dims: tuple[Dimension, ...]
    axes: Dimension
    element: str = "real"
    contracted: Dimension = ()
    number: float | None = None
    pending: tuple[PendingNumber, ...] = ()
    positions: Positions | None = None
    along: Callable[[Swap], Make] | None = None
    whole: ArrayValue | None = None
    quotient: tuple[ArrayValue, int] | None = None


@dataclass(eq=False)
class PendingNumber:
    """A number that may be a function of a size, which `make` computes once that is known. `note` says what it is read
    as until then, empty for itself."""

    number: float
    line: str | None
    note: str = ""
    make: Callable[[Environment], Any] | None = None


@dataclass(frozen=True)
class SizeNumber:
    """A number that depends on sizes: its value in the example, and how it is computed."""

    value: float
    make: Callable[[Environment], Any]


Operand = ArrayValue | SizeNumber | int | float | bool


@dataclass
class Environment:
    """The second pass: traced arrays for values, and names for factors."""

    names: AxisNames
    arrays: dict[ArrayValue, Traced]
    together: dict[ArrayValue, tuple[Traced, ...]] = field(default_factory=dict)
    """All results of a box, by the first of them."""

    def __getitem__(self, operand: Operand) -> Any:
        if isinstance(operand, ArrayValue):
            return self.arrays[operand]
        if isinstance(operand, bool):
            return running().lift(int(operand)) > 0
        return operand.make(self) if isinstance(operand, SizeNumber) else operand

    def of(self, factors: Iterable[AxisFactor]) -> str:
        """The names of axes, as functions of arrays take them."""
        return " ".join(self.names.name(f) for f in self.names.factors.resolve(factors))

    def axes(self, factors: Iterable[AxisFactor]) -> list[Axis]:
        """The axes of factors."""
        return [self.names.axis(f) for f in self.names.factors.resolve(factors)]

    def size(self, factors: Iterable[AxisFactor]) -> Any:
        """The number of indices of a dimension."""
        total: Any = 1
        for axis in self.axes(factors):
            total = running().size(axis.size) if isinstance(total, int) else total * running().size(axis.size)
        return total

    def index(self, factors: Iterable[AxisFactor]) -> Any:
        """The position along a dimension: that of a product, from those of its factors."""
        total: Any = running().lift(0, element="int")
        for k, axis in enumerate(self.axes(factors)):
            at = running().index(axis)
            total = at if k == 0 else total * running().size(axis.size) + at
        return total

    def merged(self, array: Traced, factors: Iterable[AxisFactor]) -> tuple[Traced, str]:
        """An array in which some factors are one axis, and its name."""
        axes = self.axes(factors)
        return (merged(running(), array, axes) if len(axes) > 1 else array), product(*axes).name

    def read(
        self,
        array: Traced,
        positions: Sequence[tuple[AxisFactor, Any]],
        made: Iterable[AxisFactor],
        fill: Any = None,
        fits: Callable[..., Any] | None = None,
    ) -> Traced:
        """An array over new axes, with factors read at positions; a factor that was split is read as one axis."""
        at: dict[str, Any] = {}
        for factor, position in positions:
            array, name = self.merged(array, [factor])
            at[name] = position
        return indexed(running(), array, tuple(self.axes(made)), at, fill, fits)


Make = Callable[[Environment], Traced]
Swap = Callable[[Iterable[AxisFactor]], Dimension]
"""Factors with others in place of some of them."""
