"""The statements of a lowered program: loops, what they load, compute, carry and save, and what is allocated on chip.

`catdiag.schedule.loop_nest` makes the statements of a diagram: `Let`, `Load`, `Slice`, `Start`, `Carry`, `For`,
`Within`, `Unless`, `Make` and `Save`. `catdiag.schedule.liveness` adds where live ranges begin and end, given the
memory levels: `Alloc`, `Dealloc`, `Overwrite` and `Point`. Costs, pictures and code generators read the same
statements; each skips those that it does not need.

Sizes are integer polynomials in tiles (`g_q`), stream blocks (`s_x`) and axis sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from catdiag.category.diagram import Graph
from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.ops import Box, FoldOp
from catdiag.category.types import ArrayType, Axis, Size
from catdiag.schedule.contractions import Loop
from catdiag.schedule.footprint import AccessRange
from catdiag.schedule.live_ranges import LiveRanges
from catdiag.schedule.loop_bounds import LoopBounds

# -- what a program computes ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class NestValue:
    """An array of the loop nest. `name` is the user's name, or that of a state or result; empty for intermediate
    arrays.

    - `slow`: it is in slow memory;
    - `inlined`: it is made of positions, sizes and constants only, so it is recomputed where it is read;
    - `view`: the array that it is a view of;
    - `of`: the name of the user's array whose elements are gathered through it.
    """

    ty: ArrayType
    name: str = ""
    slow: bool = False
    inlined: bool = False
    view: NestValue | None = None
    of: str = ""

    @property
    def origin(self) -> NestValue:
        """The array that is loaded for it: itself, or the array that it is a view of."""
        return self if self.view is None else self.view


@dataclass(frozen=True)
class LoopSpan:
    """The range of an axis that one loop iteration covers: `symbol` indices (or one of `symbol` parts, for split-K)."""

    axis: str
    symbol: str
    size: Size


@dataclass(frozen=True, eq=False)
class Let:
    """Computes the results of a box from some values. `place` is the index of the box in the graph of its body; -1 in
    initial states, bounds, block tests and merges."""

    targets: tuple[NestValue, ...]
    box: Box
    args: tuple[NestValue, ...]
    place: int = -1


@dataclass(frozen=True, eq=False)
class Load:
    """Loads arrays from slow memory: the part that the surrounding loops select."""

    values: tuple[NestValue, ...]


@dataclass(frozen=True, eq=False)
class Slice:
    """The part of an array that the current loop iteration covers."""

    target: NestValue
    source: NestValue
    spans: tuple[LoopSpan, ...]


@dataclass(frozen=True, eq=False)
class Start:
    """Sets the states of a loop before its first iteration."""

    states: tuple[NestValue, ...]
    values: tuple[NestValue, ...]


@dataclass(frozen=True, eq=False)
class Carry:
    """Sets the states of a loop at the end of an iteration (loop-carried values)."""

    states: tuple[NestValue, ...]
    values: tuple[NestValue, ...]


@dataclass(frozen=True, eq=False)
class For:
    """A loop over ranges of axes.

    `kind` is "tiles" (in any order, or in parallel), "blocks" (in order), "parts" (as tiles; each part of a split loop
    has states of its own, stored in `partial_states`) or "merge" (over the states in `partial_states`, in order).
    Blocks outside of `bounds`, two arrays lo and hi, are skipped. `place` is the index of its box as in `Let`. A loop
    over blocks has a `step`, and `live` once it is known what is allocated on chip.
    """

    kind: str
    spans: tuple[LoopSpan, ...]
    body: list[Statement]
    bounds: tuple[NestValue, ...] = ()
    partial_states: tuple[NestValue, ...] = ()
    place: int = -1
    step: LoopStep | None = None
    live: LoopBuffers | None = None


@dataclass(frozen=True, eq=False)
class Within:
    """Statements in which the symbol of a block has this size, such as bounds, which are about a whole axis."""

    symbol: str
    size: Size
    body: list[Statement]


@dataclass(frozen=True, eq=False)
class Unless:
    """Skips the rest of the iteration unless some entry of an array is true (the block test)."""

    condition: NestValue


@dataclass(frozen=True, eq=False)
class Make:
    """Allocates arrays in slow memory that tiles are saved to. Those in `cleared` start at 0, for tiles to be added."""

    values: tuple[NestValue, ...]
    cleared: tuple[NestValue, ...] = ()


@dataclass(frozen=True, eq=False)
class Save:
    """Saves a value to slow memory, to the part of `target` that the surrounding loops select. With `adds`, it is added
    to what is there (an accumulating output): several tiles have a part of each element."""

    target: NestValue
    value: NestValue
    spans: tuple[LoopSpan, ...] = ()
    adds: bool = False


# -- what is on chip ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Buffer:
    """An array that is allocated on chip: `size` elements of `width` bytes, at each of the levels `places` (see
    `Placement`).

    `stages` is the number of pipeline buffers at a level, 1 if it is not there. A `pinned` buffer is live beyond the
    loop iteration that reads it, so no result may be written over it. `loaded` says that it has been loaded,
    `streamed_only` that only loops read it, block by block. `dtype` is the element type of what was loaded as it is; ""
    for what is computed, and where elements are counted instead of bytes.
    """

    name: str
    role: str
    size: IntPolynomial
    width: int
    places: tuple[str, ...]
    pinned: bool = False
    loaded: bool = True
    streamed_only: bool = False
    region: tuple[AccessRange, ...] = ()
    interior: IntPolynomial = ZERO
    """For an array that is read in place: the product of its footprint's lengths along the axes on which the footprint
    never lies outside of the array."""
    stages: Mapping[str, int] = field(default_factory=dict)
    wire: int = -1
    """For an operand, the wire of the flat diagram that it is loaded from."""
    dtype: str = ""
    axes: tuple[Axis, ...] = ()
    """The axes of an operand, a state or a result, with their sizes on chip (tiles and blocks)."""
    source: Buffer | None = None
    """For an input that a loop leaves to its inner loops to load (`postponed`): the array itself. `reload_loops` are
    the outer loops that run along no axis that it lacks: each of their iterations loads it again."""
    reload_loops: tuple[Loop, ...] = ()

    def at(self, place: str) -> IntPolynomial:
        """The bytes that it takes at a level: elements × width × pipeline buffers."""
        return self.size.scaled(self.width * self.stages.get(place, 1))


@dataclass(frozen=True, eq=False)
class AllocatedLoad:
    """A load of an operand, in full or block by block, once for each iteration of the loops in `loop_nest`.

    Of an array that is read in place, and in a loop that skips blocks, `local` elements are loaded at a time, in
    `loops` and for the blocks that `bounds` says (None: all).
    """

    operand: Buffer
    local: IntPolynomial | None = None
    bounds: LoopBounds | None = None
    loops: tuple[Loop, ...] = ()
    loop_nest: tuple[Loop, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is a load of the whole tile of an array."""
        return self.local is None and not self.loop_nest


@dataclass(frozen=True, eq=False)
class Alloc:
    """Begins a live range. With `load`, it is that of an operand, or of the pipeline buffers of its blocks."""

    buffer: Buffer
    load: AllocatedLoad | None = None


@dataclass(frozen=True, eq=False)
class Dealloc:
    """Ends a live range."""

    buffer: Buffer


@dataclass(frozen=True, eq=False)
class Overwrite:
    """Ends the copy of a buffer at one level, because the next result is written over it. `rest` are its copies at
    other levels, None if there are none."""

    buffer: Buffer
    rest: Buffer | None


@dataclass(frozen=True, eq=False)
class Point:
    """A point at which what is live counts, together with `extra` buffers that are live here only."""

    at: str
    extra: tuple[Buffer, ...] = ()


Statement: TypeAlias = (
    Let | Load | Slice | Start | Carry | For | Within | Unless | Make | Save | Alloc | Dealloc | Overwrite | Point
)


# -- bodies ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Body:
    """The boxes of a kernel, of a phase, or of an iteration of a loop, and their statements.

    - `graph`: the boxes; `wires`: the value of each wire; `free`: which wires are rematerialized; `found`: live ranges;
    - `streamed`: of each input, whether only loops read it, block by block;
    - `inputs`, `made`: once it is known what is allocated on chip, the buffers of the inputs, and those of all wires at
      the end, views included.
    """

    graph: Graph
    wires: tuple[NestValue, ...]
    free: Sequence[bool]
    found: LiveRanges
    streamed: Sequence[bool]
    statements: list[Statement]
    inputs: Sequence[Buffer | None] = ()
    made: Sequence[Buffer | None] = ()


RESIDENT, STREAMED, POSTPONED = "resident", "streamed", "postponed"


@dataclass(frozen=True, eq=False)
class LoopStep:
    """The step of a loop over blocks, with its box.

    `access` says of each input of the loop how an iteration gets it: it is on chip as long as the loop runs
    (`RESIDENT`), a block of it is loaded (`STREAMED`), or inner loops load it (`POSTPONED`).
    """

    box: Box
    op: FoldOp
    body: Body
    access: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LoopBuffers:
    """What a loop over blocks allocates on chip. `loop` is its block and the size of its axis, `inputs` are the buffers
    that it reads.

    `head` loads what the whole loop reads and allocates pipeline buffers and states, `tail` ends an iteration and
    allocates the `results`. `body` has the statements of an iteration.
    """

    loop: Loop
    inputs: tuple[Buffer | None, ...]
    head: list[Statement]
    body: Body
    tail: list[Statement]
    results: tuple[Buffer, ...]


# -- readings --------------------------------------------------------------------------------------------------------


def inner(statement: Statement) -> list[Statement]:
    """The statements in the body of a statement."""
    return statement.body if isinstance(statement, (For, Within)) else []


def read(statement: Statement) -> tuple[NestValue, ...]:
    """The values that a statement itself reads, once for each occurrence; loads read nothing."""
    match statement:
        case Let(args=args):
            return args
        case Slice(source=source):
            return (source,)
        case Start(values=values) | Carry(values=values):
            return values
        case For(bounds=extent):
            return extent
        case Unless(live):
            return (live,)
        case Save(value=value):
            return (value,)
    return ()


def statements(body: Sequence[Statement]) -> Iterator[tuple[Sequence[Statement], Statement]]:
    """All statements in order, nested ones included, each with the list that contains it."""
    stack = [(body, iter(body))]
    while stack:
        found = next(stack[-1][1], None)
        if found is None:
            stack.pop()
            continue
        yield stack[-1][0], found
        if inner(found):
            stack.append((inner(found), iter(inner(found))))


def flat(found: Sequence[Statement]) -> Iterator[Statement]:
    """The statements in order, those of one iteration of each loop included; loops themselves are left out."""
    todo = list(reversed(found))
    while todo:
        statement = todo.pop()
        if isinstance(statement, For) and statement.live is not None:
            live = statement.live
            todo += reversed([*live.head, *live.body.statements, *live.tail])
        else:
            yield statement
