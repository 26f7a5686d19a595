"""The data of the counting machine: chains of memories, allocations of arrays (cells), and the tiles of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from catdiag.category.types import ArrayType, size_value
from catdiag.execute.named_arrays import NamedArray

Reach = Mapping[str, tuple[int, int] | int]
"""The access region of a tile, by axis: the first and last index that it reads, or the number of gathered elements."""
NOWHERE: Reach = MappingProxyType({})
RESIDENT, PASSED = "resident", "passed"
UNSEEN = NamedArray(0.0, ())
"""The value of an array at a level that holds it but does not compute on it."""


@dataclass(frozen=True)
class Chain:
    """The chain of memories, level 0 the slow one, and the placement of arrays in it.

    `operand`, `streamed` and `output` are the levels that hold arrays of that role, in order. `home` is the level of
    loop states, `work` that of all other temporaries. `lengths` gives for each level the tile and block lengths by
    symbol, and `stages` the number of buffers for each streamed block; both leave out level 0. `caches` are the
    capacities (bytes, or None: unbounded) of the caches between levels 0 and 1; caches are not counted as levels here.
    `wave` is the number of groups that run at a time. With `nested`, an array that only inner loops read is loaded
    there block by block, in every iteration of the outer loop.
    """

    names: tuple[str, ...]
    operand: tuple[int, ...]
    streamed: tuple[int, ...]
    output: tuple[int, ...]
    home: int
    work: int
    lengths: tuple[Mapping[str, int], ...]
    stages: tuple[int, ...]
    caches: tuple[int | None, ...] = ()
    wave: int = 1
    nested: bool = False

    @property
    def last(self) -> int:
        """The fastest level."""
        return len(self.names) - 1

    def length(self, level: int, symbol: str, whole: int) -> int:
        """The length of a tile or block at a level, clipped to the length `whole` of the axis that it divides."""
        return min(self.lengths[level - 1].get(symbol, whole), whole)

    def upper(self, level: int, streamed: bool) -> int:
        """The level that a level loads operands from, or streamed arrays if `streamed`."""
        return max((k for k in (self.streamed if streamed else self.operand) if k < level), default=0)


class Memory:
    """Counts what is allocated (`allocated`), and the peak, in values or bytes."""

    def __init__(self) -> None:
        self.allocated = self.peak = 0

    def allocate(self, amount: int) -> int:
        """Allocates an amount, and returns it."""
        self.allocated += amount
        self.peak = max(self.peak, self.allocated)
        return amount

    def free(self, amount: int) -> None:
        """Frees an amount."""
        self.allocated -= amount


@dataclass(eq=False)
class Allocation:
    """Where an array is: in slow memory under `name`, `loaded` into memories on chip, or rematerialized.

    `rooms` are its allocations, by level: pairs of memory and amount. `width` is the amount per value (1, or
    its bytes). `readers` is the number of reads left, and a `pinned` cell is not freed at its last read. `above` is the
    cell of the array in the tile that this one is cut from. Without `room`, the level of the cell is not on the
    array's path, and reads go to the cell above. `block` is the interval of a streamed axis that the ring of buffers
    holds.

    `window` is the access region of an array that is read in place, or the number of gathered elements. It may extend
    past the ends of the array; the allocation is no more than `region_limit`, the largest over all groups of the
    kernel. `kind` is empty, or says that the array is RESIDENT in this memory or PASSED from another phase of its
    kernel.
    """

    name: str = ""
    loaded: bool = True
    rematerialized: bool = False
    rooms: dict[int, list[tuple[Memory, int]]] = field(default_factory=dict)
    readers: int = 0
    pinned: bool = False
    alive: bool = True
    width: int = 1
    room: bool = True
    above: Allocation | None = None
    block: tuple[int, int] | None = None
    window: dict[str, tuple[int, int] | int] = field(default_factory=dict)
    region_limit: dict[str, int] = field(default_factory=dict)
    kind: str = ""

    def reach(self) -> Reach:
        """The lengths allocated along the axes of the access region."""
        return {**self.window, **self.region_limit}

    def free(self) -> None:
        """Frees all its allocations."""
        for rooms in self.rooms.values():
            for memory, amount in rooms:
                memory.free(amount)
        self.rooms = {}
        self.alive = False

    def source(self) -> Allocation | None:
        """The cell of the next level above that has room for the array; None if it is loaded from slow memory."""
        cell = self.above
        while cell is not None and not cell.room:
            cell = cell.above
        return cell


@dataclass(frozen=True)
class MachineWire:
    """An array as one wire shows it; views of one array share a cell."""

    cell: Allocation
    value: NamedArray

    def read(self) -> NamedArray:
        """Its values. Raises RuntimeError if the array was freed."""
        if not self.cell.alive:
            raise RuntimeError("the machine reads an array that was freed: a rule about live ranges is wrong")
        return self.value


@dataclass(eq=False)
class MachineTile:
    """The tile of a kernel that one memory of a level works on, with the smaller tiles (`children`) of the level below.

    `bounds` gives the interval of each grouped axis, `sizes` the size of each symbol in the tile.
    """

    level: int
    sizes: dict[str, int]
    bounds: dict[str, tuple[int, int]]
    wires: dict[int, MachineWire]
    memory: Memory = field(default_factory=Memory)
    children: list[MachineTile] = field(default_factory=list)

    def all(self) -> Iterator[MachineTile]:
        """This tile and those below, upper levels first."""
        level = [self]
        while level:
            yield from level
            level = [child for tile in level for child in tile.children]

    def at(self, level: int) -> list[MachineTile]:
        """The tiles of one level, in order."""
        return [tile for tile in self.all() if tile.level == level]


def value_count(
    ty: ArrayType,
    value: NamedArray,
    sizes: Mapping[str, int],
    window: Reach = NOWHERE,
    there: bool = False,
) -> int:
    """The number of values of an array: over the axes of its type, and the further axes that its box is weaved over.

    Along the axes of `window` (an access region) only that region counts. With `there`, only the part of the region
    that lies within the array.
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


def blocks(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    """An interval in blocks; the last one is shorter where `step` does not divide the length.

    >>> list(blocks(2, 7, 2))
    [(2, 4), (4, 6), (6, 7)]
    """
    for begin in range(start, stop, step):
        yield begin, min(begin + step, stop)
