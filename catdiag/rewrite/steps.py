"""Steps of a derivation: one immutable class for each kind of rewrite. `str` gives the words that users read.

>>> str(Stream("x", 2)), str(Group(("q", "d"))), str(Distribute())
('stream x in 2 passes', 'group q d', 'distribute')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Stream:
    """An axis run in a loop over blocks, or in several such loops in sequence (`passes`)."""

    axis: str
    passes: int = 1

    def __str__(self) -> str:
        return f"stream {self.axis}" + (f" in {self.passes} passes" if self.passes > 1 else "")


@dataclass(frozen=True)
class Group:
    """Axes tiled; each tile is independent of the others. With `scatters`, sums over one-hot rows are scatter-adds."""

    axes: tuple[str, ...]
    scatters: bool = False

    def __str__(self) -> str:
        return f"group {' '.join(self.axes)}" + (", scatter-add" if self.scatters else "")


@dataclass(frozen=True)
class Scheduled:
    """Loops, their parts, groups and skipped blocks that were proved together."""

    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.actions))


@dataclass(frozen=True)
class Split:
    """A loop run in parallel parts (split-K). `parts` is the symbol of their number, where one was given."""

    axis: str
    parts: str | None = None

    def __str__(self) -> str:
        return f"split {self.axis}"


@dataclass(frozen=True)
class Skip:
    """Blocks of the streamed axis skipped where a mask makes them irrelevant (block sparsity); `tested`: each block of
    a loop is tested where its bounds do not say all that the mask says."""

    axis: str
    tested: bool = True

    def __str__(self) -> str:
        return f"skip {self.axis}{'' if self.tested else ' by bounds'}"


@dataclass(frozen=True)
class Distribute:
    """Products distributed over sums along the axes; with no axes named, wherever that is cheaper."""

    axes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(["distribute", *self.axes])


@dataclass(frozen=True)
class Stabilize:
    """Maxima subtracted in exponentials that had none (safe softmax)."""

    def __str__(self) -> str:
        return "stabilize"


@dataclass(frozen=True)
class Fuse:
    """Boxes put into kernels, so that arrays between them stay on chip."""

    def __str__(self) -> str:
        return "fuse"


@dataclass(frozen=True)
class Cut:
    """The diagram partitioned into kernels, with the arrays that pass between them saved."""

    saved: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"cut: save {', '.join(self.saved)}" if self.saved else "cut: one kernel"


@dataclass(frozen=True)
class ApplyRule:
    """A user's rewrite rule applied, identified by its name."""

    name: str

    def __str__(self) -> str:
        return f"rule {self.name}"


@dataclass(frozen=True)
class RenameTiles:
    """Tile and block sizes under other symbols: pairs of old and new ones."""

    symbols: tuple[tuple[str, str], ...]

    @staticmethod
    def of(symbols: Mapping[str, str]) -> RenameTiles:
        """The step of a mapping from old to new symbols."""
        return RenameTiles(tuple(symbols.items()))

    def __str__(self) -> str:
        return f"tiles renamed: {', '.join(f'{old} is {new}' for old, new in self.symbols)}"


@dataclass(frozen=True)
class Reassociate:
    """Products of several arrays taken in another order, two at a time (contraction order), or `merged` axes that they
    are summed over in place of several; both, if it is `reordered` too. Or reductions over coproducts taken `by_terms`
    (`catdiag.rewrite.coproduct_sums`). `scales`: scales of blocks are applied first, or last, after the blocks are
    multiplied with others."""

    merged: tuple[str, ...] = ()
    reordered: bool = True
    by_terms: tuple[str, ...] = ()
    scales: str = ""

    def __str__(self) -> str:
        words = ["reassociate"] if self.reordered else []
        words += [f"scale {self.scales}"] if self.scales else []
        return ", ".join(
            [*words, *(f"merge {name}" for name in self.merged), *(f"{n} by terms" for n in self.by_terms)]
        )


@dataclass(frozen=True)
class CastFactors:
    """Factors of products that are small integers cast to the type of the products
    (`catdiag.rewrite.integer_factors`)."""

    dtype: str

    def __str__(self) -> str:
        return f"cast integer factors to {self.dtype}"


@dataclass(frozen=True)
class Compose:
    """Derivations composed in sequence or in parallel."""

    parallel: bool = False

    def __str__(self) -> str:
        return "compose in parallel" if self.parallel else "compose"


@dataclass(frozen=True)
class Weave:
    """Source and derived diagram mapped over one more axis."""

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
    | Reassociate
    | CastFactors
    | Compose
    | Weave
)


def makes_kernels(action: Action) -> bool:
    """Whether a step only decides what runs in which kernel, and leaves the scalar operations as they are.

    >>> makes_kernels(Group(("q",))), makes_kernels(Stream("x"))
    (True, False)
    """
    return isinstance(action, (Group, Fuse, Cut)) or (
        isinstance(action, Scheduled) and all(isinstance(part, Group) for part in action.actions)
    )


@dataclass(frozen=True)
class WholeArrays:
    """Arrays that are on chip along a whole axis, each with the axis of its own that has this length."""

    axis: str
    arrays: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.arrays)

    @property
    def itself(self) -> bool:
        """Whether an array is kept along the axis itself, and not only along another axis of the same size."""
        return any(own == self.axis for _, own in self.arrays)

    def __str__(self) -> str:
        if not self:
            return ""
        names = [name if own == self.axis else f"{name} (along {own}, of that size)" for name, own in self.arrays]
        verb = "is" if len(names) == 1 else "are"
        return f"{', '.join(names)} {verb} on chip along all of axis {self.axis!r}, and memory grows with it"
