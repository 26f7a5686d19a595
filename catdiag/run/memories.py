"""What the counting machine keeps in its memories: arrays in cells, and the pieces of a kernel that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from catdiag.run.named import Named
from catdiag.types import ArrayType, size_value

Reach = Mapping[str, tuple[int, int] | int]
"""Along some axes of an array, from which to which index a piece reads; or how many elements it picks."""
NOWHERE: Reach = MappingProxyType({})
RESIDENT, PASSED = "resident", "passed"
UNSEEN = Named(0.0, ())
"""The value of an array where it only takes room."""


class Memory:
    """Counts what is allocated, and the most that ever was."""

    def __init__(self) -> None:
        self.held = self.peak = 0

    def allocate(self, amount: int) -> int:
        """Takes so much room."""
        self.held += amount
        self.peak = max(self.peak, self.held)
        return amount

    def free(self, amount: int) -> None:
        """Gives it back."""
        self.held -= amount


@dataclass(eq=False)
class Cell:
    """Where an array is: in slow memory under the name `name`, `loaded` into memories, or nowhere (`spot`).

    `rooms` says how much it takes of which memories, by level; `width` is how much room a value takes. `above` is the
    cell of the array in the piece that this one is cut from; without `room`, the level of the cell is not on the
    array's path, and it is read where that of `above` is. `block` is what of a streamed axis is in the ring of buffers.
    Of an array that is read in place, `window` says from which to which index along some axes: there may be room for
    more than there is, but no more than `most` says of the kernel's groups. Of one of which elements are picked it says
    how many.
    `kind` is empty unless it is known that the array is resident, or passed from another phase of its kernel.
    """

    name: str = ""
    loaded: bool = True
    spot: bool = False
    rooms: dict[int, list[tuple[Memory, int]]] = field(default_factory=dict)
    readers: int = 0
    pinned: bool = False
    alive: bool = True
    width: int = 1
    room: bool = True
    above: Cell | None = None
    block: tuple[int, int] | None = None
    window: dict[str, tuple[int, int] | int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    kind: str = ""

    def reach(self) -> Reach:
        """What there is room for along the axes of a window."""
        return {**self.window, **self.most}

    def free(self) -> None:
        """Gives all its room back."""
        for rooms in self.rooms.values():
            for memory, amount in rooms:
                memory.free(amount)
        self.rooms = {}
        self.alive = False

    def source(self) -> Cell | None:
        """The cell of the next level above that has room for the array; None: it comes from slow memory."""
        cell = self.above
        while cell is not None and not cell.room:
            cell = cell.above
        return cell


@dataclass(frozen=True)
class Wire:
    """An array as one wire shows it; views of one array share a cell."""

    cell: Cell
    value: Named

    def read(self) -> Named:
        """The values."""
        if not self.cell.alive:
            raise RuntimeError("the machine reads an array that was freed: a rule about live ranges is wrong")
        return self.value


@dataclass(eq=False)
class Piece:
    """The part of a kernel that one memory of a level works on: its tile, and what it cuts it into for those below."""

    level: int
    sizes: dict[str, int]
    bounds: dict[str, tuple[int, int]]
    wires: dict[int, Wire]
    memory: Memory = field(default_factory=Memory)
    children: list[Piece] = field(default_factory=list)

    def all(self) -> Iterator[Piece]:
        """This piece and those below, upper levels first."""
        level = [self]
        while level:
            yield from level
            level = [child for piece in level for child in piece.children]

    def at(self, level: int) -> list[Piece]:
        """The pieces of one level, in order."""
        return [piece for piece in self.all() if piece.level == level]


def extent(
    ty: ArrayType,
    value: Named,
    sizes: Mapping[str, int],
    window: Reach = NOWHERE,
    there: bool = False,
) -> int:
    """How many values an array takes: the axes of its type, and those that its box is weaved over beside.

    Along the axes of a window it is as long as that, or, of what is `there`, as much of it as the array has.
    """
    lengths = value.lengths()
    for name, reach in window.items():
        if isinstance(reach, int):
            lengths[name] = reach
            continue
        low, high = reach
        first, last = (max(low, 0), min(high, lengths[name] - 1)) if there else (low, high)
        lengths[name] = max(0, last - first + 1)
    total = 1
    for axis in ty.axes:
        total *= lengths.pop(axis.name) if axis.name in lengths else size_value(axis.size, dict(sizes))
    for length in lengths.values():
        total *= length
    return total


def cut(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    """An interval in pieces; the last one is what remains.

    >>> list(cut(2, 7, 2))
    [(2, 4), (4, 6), (6, 7)]
    """
    for begin in range(start, stop, step):
        yield begin, min(begin + step, stop)
