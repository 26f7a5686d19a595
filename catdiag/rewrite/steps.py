"""What a step of a derivation did: one class for each rewrite, printed as people read it.

>>> str(Stream("x", 2)), str(Group(("q", "d"))), str(Distribute())
('stream x in 2 passes', 'group q d', 'distribute')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Stream:
    """An axis in a loop over blocks, or in several, one after the other."""

    axis: str
    passes: int = 1

    def __str__(self) -> str:
        return f"stream {self.axis}" + (f" in {self.passes} passes" if self.passes > 1 else "")


@dataclass(frozen=True)
class Group:
    """Tiles of axes, each on its own."""

    axes: tuple[str, ...]

    def __str__(self) -> str:
        return f"group {' '.join(self.axes)}"


@dataclass(frozen=True)
class Scheduled:
    """A loop and groups that were proved at once."""

    loop: Stream | None
    groups: Group | None

    def __str__(self) -> str:
        return ", ".join(str(part) for part in (self.loop, self.groups) if part is not None)


@dataclass(frozen=True)
class Split:
    """A loop in several parts at once; `parts` is the symbol for how many, where one was given."""

    axis: str
    parts: str | None = None

    def __str__(self) -> str:
        return f"split {self.axis}"


@dataclass(frozen=True)
class Skip:
    """The blocks of an axis that a mask empties left out."""

    axis: str

    def __str__(self) -> str:
        return f"skip {self.axis}"


@dataclass(frozen=True)
class Distribute:
    """Products distributed over sums along the axes; along all that it pays for, if none is named."""

    axes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(["distribute", *self.axes])


@dataclass(frozen=True)
class Stabilize:
    """Maxima subtracted in the exponentials that had none."""

    def __str__(self) -> str:
        return "stabilize"


@dataclass(frozen=True)
class Fuse:
    """Boxes put into kernels."""

    def __str__(self) -> str:
        return "fuse"


@dataclass(frozen=True)
class Cut:
    """The diagram in kernels, with the arrays that pass between them saved."""

    saved: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"cut: save {', '.join(self.saved)}" if self.saved else "cut: one kernel"


@dataclass(frozen=True)
class ApplyRule:
    """A user's rule, by its name."""

    name: str

    def __str__(self) -> str:
        return f"rule {self.name}"


@dataclass(frozen=True)
class RenameTiles:
    """Tiles and blocks under other symbols, new ones by old ones."""

    symbols: tuple[tuple[str, str], ...]

    @staticmethod
    def of(symbols: Mapping[str, str]) -> RenameTiles:
        """The renaming of a mapping."""
        return RenameTiles(tuple(symbols.items()))

    def __str__(self) -> str:
        return f"tiles renamed: {', '.join(f'{old} is {new}' for old, new in self.symbols)}"


@dataclass(frozen=True)
class Contract:
    """Products of several arrays in an order, two arrays at a time."""

    def __str__(self) -> str:
        return "products of two arrays at a time"


@dataclass(frozen=True)
class Compose:
    """Derivations one after the other, or beside each other."""

    parallel: bool = False

    def __str__(self) -> str:
        return "compose in parallel" if self.parallel else "compose"


@dataclass(frozen=True)
class Weave:
    """The source and what was derived from it, mapped over one more axis."""

    axis: str

    def __str__(self) -> str:
        return f"weave {self.axis}"


Action: TypeAlias = (
    Stream
    | Group
    | Scheduled
    | Split
    | Skip
    | Distribute
    | Stabilize
    | Fuse
    | Cut
    | ApplyRule
    | RenameTiles
    | Contract
    | Compose
    | Weave
)


def makes_kernels(action: Action) -> bool:
    """Whether a step only says what runs in which kernel: it does the scalar operations that were there before.

    >>> makes_kernels(Group(("q",))), makes_kernels(Stream("x"))
    (True, False)
    """
    return isinstance(action, (Group, Fuse, Cut)) or (isinstance(action, Scheduled) and action.loop is None)


@dataclass(frozen=True)
class WholeArrays:
    """The arrays that are on chip along all of an axis, each with the axis of its own that is so long."""

    axis: str
    arrays: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.arrays)

    @property
    def itself(self) -> bool:
        """Whether the axis itself is held, and not only another one of its size."""
        return any(own == self.axis for _, own in self.arrays)

    def __str__(self) -> str:
        if not self:
            return ""
        names = [name if own == self.axis else f"{name} (along {own}, of that size)" for name, own in self.arrays]
        verb = "is" if len(names) == 1 else "are"
        return f"{', '.join(names)} {verb} on chip along all of axis {self.axis!r}, and memory grows with it"
