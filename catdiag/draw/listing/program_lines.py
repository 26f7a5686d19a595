"""A program line by line: the listing from which pictures of programs are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catdiag.category.diagram import Diagram
from catdiag.category.formula import Formula
from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.types import ArrayType
from catdiag.schedule.kernel_analysis import Account
from catdiag.schedule.lowered_kernel import LoweredKernel
from catdiag.schedule.placement import Placement

LineText = tuple[str | Formula, ...]
"""Words and formulas in a row; how formulas are printed is up to whoever shows the line."""


def plain(text: LineText) -> str:
    """A line as plain text.

    >>> from catdiag.category.formula import infix, symbol
    >>> plain(("t1 = ", infix("·", symbol("a"), symbol("b"))))
    't1 = a·b'
    """
    return "".join(map(str, text))


LiveArrays = tuple[int, str, IntPolynomial]
"""A variable, the place where it is allocated, and its size there."""


@dataclass
class Variable:
    """An allocation for consecutive arrays: an array that is written over another one takes its place.

    `type` is the array's, `element` the type of its values, `slow` says that it comes from slow memory. `stages` are
    the numbers of buffers of a streamed block, by place (1 where left out).
    """

    type: ArrayType
    element: str
    name: str
    slow: bool = False
    stages: Mapping[str, int] = field(default_factory=dict)


@dataclass
class ListingLine:
    """A line of the program: its text, its loops, the variables that it reads and writes, and the allocations then.

    `kind` is "load", "save", "start", "let", "carry" or "unless". `names` are the names of the written variables from
    here on. For the result of a box, `formula` is the right side, and `merges` says that a single scalar function reads
    it, once.
    """

    kind: str
    parts: LineText
    loops: tuple[int, ...]
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    live: tuple[LiveArrays, ...] = ()
    names: tuple[str, ...] = ()
    formula: Formula | None = None
    merges: bool = False

    @property
    def text(self) -> str:
        """The line as plain text."""
        return plain(self.parts)

    def total(self, place: str) -> IntPolynomial:
        """All that is allocated at a place."""
        return sum((amount for _, p, amount in self.live if p == place), ZERO)


@dataclass
class LoopHead:
    """A loop: its head, the loops around it, and its states."""

    parts: LineText
    inside: tuple[int, ...]
    states: tuple[int, ...] = ()

    @property
    def head(self) -> str:
        """The head as plain text."""
        return plain(self.parts)


@dataclass
class KernelListing:
    """A kernel line by line."""

    kernel: LoweredKernel
    variables: list[Variable] = field(default_factory=list)
    lines: list[ListingLine] = field(default_factory=list)
    loops: list[LoopHead] = field(default_factory=list)


@dataclass(frozen=True)
class ProgramListing:
    """A program line by line, kernel by kernel, as counted."""

    account: Account
    kernels: tuple[KernelListing, ...]
    places: Placement
    diagram: Diagram
