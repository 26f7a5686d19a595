"""A program line by line: what pictures of programs are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catdiag.cost.count.amounts import ZERO, Amount
from catdiag.cost.count.kernels import Account
from catdiag.cost.count.live import Kernel
from catdiag.cost.count.places import Places
from catdiag.diagram import Diagram
from catdiag.rewrite.formula import Text
from catdiag.types import ArrayType

Held = tuple[int, str, Amount]
"""A variable, the place where it is, and how much it takes there."""


@dataclass
class Variable:
    """A place for arrays, one after the other: what is written over another takes its place.

    `type` is the array's, `element` the type of its values, `slow` says that it comes from slow memory. `stages` are
    the buffers of a streamed block, by place (1 where left out).
    """

    type: ArrayType
    element: str
    name: str
    slow: bool = False
    stages: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Line:
    """A line of the program: what it says, in which loops, what it reads and writes, and what is held then.

    `kind` is "load", "save", "start", "let", "carry" or "unless". `names` says what the variables that are written are
    called from here on. Of what a box makes, `formula` is the right side, and `joins` says that only a scalar function
    reads it, once.
    """

    kind: str
    text: str
    loops: tuple[int, ...]
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    held: tuple[Held, ...] = ()
    names: tuple[str, ...] = ()
    formula: Text = ("", 0)
    joins: bool = False

    def total(self, place: str) -> Amount:
        """All that is held at a place."""
        return sum((amount for _, p, amount in self.held if p == place), ZERO)


@dataclass
class Turning:
    """A loop: its head, the loop around it, and its states."""

    head: str
    inside: tuple[int, ...]
    states: tuple[int, ...] = ()


@dataclass
class Told:
    """A kernel line by line."""

    kernel: Kernel
    variables: list[Variable] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    loops: list[Turning] = field(default_factory=list)


@dataclass(frozen=True)
class Story:
    """A program line by line, kernel after kernel, as counted."""

    account: Account
    kernels: tuple[Told, ...]
    places: Places
    diagram: Diagram
