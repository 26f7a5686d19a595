"""A kernel as lowered: its tiles, loops, transfers and work, and its statements with what is allocated on chip.

`catdiag.schedule.liveness` makes the statements from the boxes of a kernel, in stored order. They say what is on chip
when: listings of programs read them, and so does the search for arrays that a loop keeps whole.

Sizes are integer polynomials in tiles (`g_q`), stream blocks (`s_x`) and axis sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from catdiag.category.diagram import Graph
from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.ops import FoldOp
from catdiag.category.types import Axis
from catdiag.schedule.contractions import Contraction, Factor, Loop
from catdiag.schedule.footprint import AccessRange
from catdiag.schedule.live_ranges import LiveRanges
from catdiag.schedule.loop_bounds import LoopBounds
from catdiag.schedule.placement import LEVEL, REGISTERS, Placement


@dataclass(eq=False)
class Buffer:
    """An array that is allocated on chip: `size` elements of `width` bytes, at each of the levels `places` (see
    `Placement`).

    `stages` is the number of pipeline buffers at a level, 1 if it is not there. A `pinned` buffer is live beyond the
    loop iteration that reads it, so no result may be written over it. `loaded` says that it has been loaded,
    `streamed_only` that only loops read it, block by block.
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
    axes: tuple[Axis, ...] = ()
    """The axes of an operand, a state or a result, with their sizes on chip (tiles and blocks)."""
    source: Buffer | None = None
    """For an input that a loop leaves to its inner loops to load (`postponed`): the array itself. `reload_loops` are
    the outer loops that run along no axis that it lacks: each of their iterations loads it again."""
    reload_loops: tuple[Loop, ...] = ()

    def at(self, place: str) -> IntPolynomial:
        """The bytes that it takes at a level: elements × width × pipeline buffers."""
        return self.size.scaled(self.width * self.stages.get(place, 1))


@dataclass(frozen=True)
class ProgramPoint:
    """A point of a kernel, named `at`, and what is allocated at one level there: `total` bytes (or values), and the
    `live` arrays as (name, role, bytes)."""

    at: str
    total: IntPolynomial
    live: tuple[tuple[str, str, IntPolynomial], ...]


@dataclass(frozen=True)
class Transfer:
    """A load or save between slow memory and the chip: `size` bytes (or values), once for each tile of `reload_axes`.

    `role` says what is moved: for a load an operand or a streamed array; for a save a state of a loop (accumulator),
    the result of a box (output), an operand unchanged, or a rematerialized value (spot). `path` lists the levels on the
    way, slow memory (`""`) first. With a `loop`, the transfer is made once for each block of that loop at the level
    above. `times` is how often a group loads the array; `size` includes that factor.

    If `bounds` is given, the loop in `loops` skips blocks: only the blocks that it runs are loaded, `local` bytes each.
    If `region` is given, the array is read in place: what is loaded is the part of the footprint that lies in the array
    times `local`, once a group, or once for each block of `loops`.
    """

    array: str
    direction: str
    size: IntPolynomial
    reload_axes: tuple[str, ...]
    role: str = "output"
    path: tuple[str, ...] = ()
    loop: Loop | None = None
    times: int = 1
    local: IntPolynomial = ZERO
    bounds: LoopBounds | None = None
    loops: tuple[Loop, ...] = ()
    region: tuple[AccessRange, ...] = ()
    wire: int = -1
    """For a load from slow memory, the wire that is loaded: two arrays may have the same name."""
    loop_nest: tuple[Loop, ...] = ()
    """The outer loops that load the array again in each of their iterations, through an inner loop."""


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
class Visit:
    """The box at index `place` of the body comes next: what follows up to the next visit is for it."""

    place: int


@dataclass(frozen=True, eq=False)
class Point:
    """A point at which what is live counts, together with `extra` buffers that are live here only."""

    at: str
    extra: tuple[Buffer, ...] = ()


@dataclass(frozen=True, eq=False)
class LoopStatement:
    """The loop of the box visited last. `loop` is its block and the size of its axis, `inputs` are the buffers that it
    reads.

    `head` loads what the whole loop reads and allocates pipeline buffers and states, `tail` ends an iteration and
    allocates the `results`. `postponed` says which inputs are left to inner loops to load.
    """

    op: FoldOp
    loop: Loop
    inputs: tuple[Buffer | None, ...]
    postponed: tuple[bool, ...]
    head: list[Statement]
    body: Body
    tail: list[Statement]
    results: tuple[Buffer, ...]


Statement: TypeAlias = Alloc | Dealloc | Overwrite | Visit | Point | LoopStatement


def flat(statements: Sequence[Statement]) -> Iterator[Statement]:
    """The statements in order, those of one iteration of each loop included; loops themselves are left out."""
    todo = list(reversed(statements))
    while todo:
        statement = todo.pop()
        if isinstance(statement, LoopStatement):
            todo += reversed([*statement.head, *statement.body.statements, *statement.tail])
        else:
            yield statement


@dataclass(frozen=True, eq=False)
class Body:
    """The boxes of a kernel, of a phase, or of an iteration of a loop: their graph with its live ranges, which wires
    are rematerialized (`free`), and the statements. `inputs` are the buffers of its inputs; `made` are those of all
    wires at the end, views included."""

    graph: Graph
    inputs: Sequence[Buffer | None]
    found: LiveRanges
    free: Sequence[bool]
    statements: list[Statement]
    made: Sequence[Buffer | None]


Within = tuple[Graph, Sequence[int], Sequence[int]]
"""The body of a kernel, and which of its wires a phase of it reads and makes."""


@dataclass(frozen=True, eq=False)
class KernelPart:
    """A kernel, or a phase of one (`within`): its body, and at the end (`copies`) loads of outputs that are inputs
    unchanged. `around` are buffers at other levels, allocated all the while."""

    body: Body
    copies: list[Statement]
    places: Placement
    within: Within | None = None
    around: list[Buffer] = field(default_factory=list)

    def loads(self) -> dict[Buffer, list[AllocatedLoad]]:
        """The loads of each operand."""
        found: dict[Buffer, list[AllocatedLoad]] = {}
        for statement in flat([*self.body.statements, *self.copies]):
            if isinstance(statement, Alloc) and (load := statement.load) is not None:
                found.setdefault(load.operand, []).append(load)
        return found


@dataclass
class LoweredKernel:
    """One kernel: its tiles (symbol → size of the axis; `axes`: symbol → name of the axis), loops, transfers, live
    arrays (`points`, by level), and `work` (scalar operations by pipeline and loops)."""

    tiles: dict[str, IntPolynomial]
    axes: dict[str, str] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    points: dict[str, list[ProgramPoint]] = field(default_factory=lambda: {LEVEL: [], REGISTERS: []})
    work: dict[tuple[str, tuple[Loop, ...]], IntPolynomial] = field(default_factory=dict)
    contractions: list[Contraction] = field(default_factory=list)
    """The matrix products that matrix units compute."""
    by_vectors: list[Contraction] = field(default_factory=list)
    """The products with a single row, column or term: scalar units compute these."""
    factors: list[Factor] = field(default_factory=list)
    """Factors of matrix products that loop iterations compute from the blocks that they load."""
    loop_bounds: dict[Loop, LoopBounds] = field(default_factory=dict)
    """For loops that skip blocks, the blocks that they run."""
    chains: dict[tuple[Loop, ...], int] = field(default_factory=dict)
    """For each loop nest, how many reductions one iteration waits for in sequence (see `chain`)."""
    clipped: dict[str, AccessRange] = field(default_factory=dict)
    """Symbols for how many elements of a footprint lie in the array, if `measure` is asked to clip."""
    order: list[str] = field(default_factory=list)
    reads: tuple[int, ...] = ()
    """The wires of the flat diagram that are the inputs of the kernel's body."""
    leaves: tuple[tuple[int, int], ...] = ()
    """The outputs of the body that are saved, in the order of the transfers, each with its wire of the flat diagram."""
    parts: list[KernelPart] = field(default_factory=list)
    """The kernel's statements; one part for each phase, if it runs in phases."""
    copied: list[Buffer] = field(default_factory=list)
    """If it runs in phases, the inputs that are outputs unchanged: they are loaded and saved at the end."""

    def bodies(self) -> Iterator[Body]:
        """The bodies of its parts, each followed by those of its loops."""
        todo = [part.body for part in reversed(self.parts)]
        while todo:
            body = todo.pop()
            yield body
            todo += [s.body for s in reversed(body.statements) if isinstance(s, LoopStatement)]

    def allocated(self) -> Iterator[Buffer]:
        """All buffers, in the order of their live ranges."""
        for part in self.parts:
            for statement in flat([*part.body.statements, *part.copies]):
                if isinstance(statement, Alloc):
                    yield statement.buffer
