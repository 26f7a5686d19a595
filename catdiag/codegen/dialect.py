"""A language as a record: how it writes scalar functions, and how it lays out, broadcasts and reduces arrays.

The axes of an array are any labels: names of axes in NumPy and PyTorch, dimensions of tiles in Triton and Gluon.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from catdiag.category.scalars import ScalarFunction, row
from catdiag.codegen.notation import Notation, written
from catdiag.codegen.syntax import CALL, Number, PythonExpression, Subscript, TupleOf, Whole, bracketed, dotted

L = TypeVar("L", bound=Hashable)
_TYPES = {"int": "int32", "bool": "int1"}


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a language writes expressions of arrays.

    Notations take their operands in the order that is given here.
    """

    name: str
    """The name of the language, for messages."""
    functions: Mapping[str, Notation]
    """Each scalar function, applied elementwise to arrays."""
    reductions: Mapping[str, Notation]
    """The reduction of each monoid: the array, the position of the axis."""
    permute: Notation
    """An array with its axes in another order: the array, the tuple of the positions of its axes in that order."""
    transpose: Notation | None = None
    """The transpose of a matrix, where it has a notation of its own."""
    broadcast: Notation
    """An array broadcast to a shape: the array, the shape."""
    positions: Notation
    """The integers from 0: their number."""
    full_rank: bool = False
    """Whether axes of length one are written also before the first axis, where broadcasting would add them."""
    helpers: Mapping[str, str]
    """The helper functions, or the further modules, that notations need, by function or monoid."""

    def applied(self, fn: ScalarFunction, operands: Sequence[PythonExpression]) -> PythonExpression:
        """A scalar function of arrays that broadcast by position. Raises TypeMismatch for an unknown one."""
        return written(row(self.functions, fn, f"written in {self.name}"), operands)

    def reduced(self, monoid: str, array: PythonExpression, place: PythonExpression) -> PythonExpression:
        """An array reduced over the axis at a position."""
        return written(self.reductions[monoid], [array, place])

    def permuted(self, array: PythonExpression, axes: Sequence[L], order: Sequence[L]) -> PythonExpression:
        """An array with its axes in another order."""
        if tuple(axes) == tuple(order):
            return array
        if len(order) == 2 and self.transpose is not None:
            return written(self.transpose, [array])
        return written(self.permute, [array, TupleOf(tuple(Number(list(axes).index(a)) for a in order))])

    def aligned(self, array: PythonExpression, axes: Sequence[L], order: Sequence[L]) -> PythonExpression:
        """An array that broadcasts by position against others over `order`: permuted, with axes of length one."""
        own = [a for a in order if a in axes]
        array = self.permuted(array, axes, own)
        first = 0 if self.full_rank else next((k for k, a in enumerate(order) if a in axes), len(order))
        if not own or len(own) == len(order) - first:
            return array
        places = tuple(Whole() if a in axes else Number(None) for a in order[first:])
        return Subscript(bracketed(array, CALL), places)


@dataclass(frozen=True, kw_only=True)
class TileDialect(Dialect):
    """A language of kernels, whose expressions have tiles as values."""

    module: str
    """The name of its module in kernels."""
    jit: str
    """The module whose decorator `jit` makes a function one of a kernel."""
    own: str = ""
    """The ending of the names of helper functions."""

    def type_of(self, element: str) -> PythonExpression:
        """The type of computed tiles with such elements."""
        return dotted(f"{self.module}.{_TYPES.get(element, 'float32')}")
