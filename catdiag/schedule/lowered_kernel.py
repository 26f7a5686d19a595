"""A kernel as lowered: its tiles, loops, transfers and work, and its statements with what is allocated on chip.

`catdiag.schedule.liveness` makes the statements from the boxes of a kernel, in stored order. They say what is on chip
when: listings of programs read them, and so does the search for arrays that a loop keeps whole.

Sizes are integer polynomials in tiles (`g_q`), stream blocks (`s_x`) and axis sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from catdiag.category.diagram import Graph
from catdiag.category.graph import Box
from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.op_facts import reduced_axes
from catdiag.schedule.contractions import Contraction, Factor, Loop, RegisterRead
from catdiag.schedule.footprint import AccessRange
from catdiag.schedule.loop_bounds import LoopBounds
from catdiag.schedule.placement import LEVEL, REGISTERS, Placement
from catdiag.schedule.statements import Alloc, AllocatedLoad, Body, Buffer, For, Statement, flat


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
    the result of a box (output), an operand unchanged, or a rematerialized value. `path` lists the levels on the way,
    slow memory (`""`) first. With a `loop`, the transfer is made once for each block of that loop at the level above.
    `times` is how often a group loads the array; `size` includes that factor. If `bounds` is given, the loop in
    `loops` skips blocks: only the blocks that it runs are loaded, `local` bytes each. If `region` is given, the array
    is read in place: what is loaded is the part of the footprint that lies in the array times `local`, once a group,
    or once for each block of `loops`.
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
    row: IntPolynomial = ZERO
    """For what a tile saves as a result, how many of its bytes lie side by side in memory."""


@dataclass(frozen=True)
class GatheredLoad:
    """A load of windows of an array that is read in place, or of a factor of a product: `entries` are those of all
    windows, which are at so many `places` and have as many `taps`. `row` entries of the array's last axis are read, or,
    where these are `shifted`, at positions that may be anywhere in a row. `width` are the bytes of an entry, `loops`
    those in whose iterations it is loaded."""

    array: str
    entries: IntPolynomial
    places: IntPolynomial
    taps: IntPolynomial
    row: IntPolynomial
    shifted: bool
    width: int
    loops: tuple[Loop, ...] = ()


@dataclass(frozen=True)
class ScatteredStore:
    """Entries that tiles add to an array where integers say (`catdiag.schedule.scatter_add`): `entries` in all, once
    for each tile of `reload_axes`, of which `row` are side by side in the array, of `elements` of `width` bytes. Those
    may be `rounded` to fewer bytes once all are added."""

    entries: IntPolynomial
    reload_axes: tuple[str, ...]
    row: IntPolynomial
    elements: IntPolynomial
    width: int
    rounded: bool


PhaseOf = tuple[Graph, Sequence[int], Sequence[int]]
"""The body of a kernel, and which of its wires a phase of it reads and makes."""


@dataclass(frozen=True, eq=False)
class KernelPart:
    """A kernel, or a phase of one (`within`): its body, and at the end (`copies`) loads of outputs that are inputs
    unchanged. `around` are buffers at other levels, allocated all the while."""

    body: Body
    copies: list[Statement]
    places: Placement
    within: PhaseOf | None = None
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
    register_reads: list[RegisterRead] = field(default_factory=list)
    """What iterations of loops with matrix products read of these blocks into registers."""
    gathered_loads: list[GatheredLoad] = field(default_factory=list)
    """What it may load entry by entry: windows of arrays that it reads in place, and factors with short rows."""
    loop_bounds: dict[Loop, LoopBounds] = field(default_factory=dict)
    """For loops that skip blocks, the blocks that they run."""
    chains: dict[tuple[Loop, ...], int] = field(default_factory=dict)
    """For each loop nest, how many reductions one iteration waits for in sequence (see `chain`)."""
    clipped: dict[str, AccessRange] = field(default_factory=dict)
    """Symbols for how many elements of a footprint lie in the array, if `measure` is asked to clip."""
    computed_type: str = ""
    """The type of products whose factors are both computed; empty where elements are counted instead of bytes."""
    order: list[str] = field(default_factory=list)
    reads: tuple[int, ...] = ()
    """The wires of the flat diagram that are the inputs of the kernel's body."""
    leaves: tuple[tuple[int, int], ...] = ()
    """The outputs of the body that are saved, in the order of the transfers, each with its wire of the flat diagram."""
    sums: frozenset[int] = frozenset()
    """The wires of the flat diagram that are its accumulating outputs."""
    scattered: list[ScatteredStore] = field(default_factory=list)
    """What its tiles add where integers say."""
    parts: list[KernelPart] = field(default_factory=list)
    """The kernel's statements; one part for each phase, if it runs in phases."""
    copied: list[Buffer] = field(default_factory=list)
    """If it runs in phases, the inputs that are outputs unchanged: they are loaded and saved at the end."""

    @property
    def added(self) -> tuple[str, ...]:
        """The names of its accumulating outputs, to which groups add."""
        return tuple(
            dict.fromkeys(t.array for t in self.transfers if self.sums and t.direction == "save" and t.reload_axes)
        )

    @property
    def in_runs(self) -> bool:
        """Whether its groups add to results that all of them share: programs go through runs of groups then, and each
        adds its part once (`catdiag.codegen.triton.tile_runs`)."""
        return len(self.tiles) == 1 and not self.loops and bool(self.added) and not self.scattered

    @property
    def run_bytes(self) -> IntPolynomial:
        """The bytes of a group's loads, which are ahead of the group in a run of groups; none of other kernels."""
        parts = self.parts if self.in_runs else []
        return sum((array.size.scaled(array.width) for part in parts for array in part.loads() if array.axes), ZERO)

    def bodies(self) -> Iterator[Body]:
        """The bodies of its parts, each followed by those of its loops."""
        todo = [part.body for part in reversed(self.parts)]
        while todo:
            body = todo.pop()
            yield body
            todo += [s.live.body for s in reversed(body.statements) if isinstance(s, For) and s.live is not None]

    def column_sums(self) -> list[Box]:
        """The sums over other axes than the last that loops add up in place, where they multiply no matrices and wait
        for no other sums: they carry blocks of partial sums, which are put together after the loop."""
        found = [body.graph.nodes[place].box for body in self.bodies() for place in body.found.in_place]
        waits = bool(self.contractions) or any(length for nest, length in self.chains.items() if nest)
        return [] if waits else [box for box in found if reduces_columns(box)]

    def allocated(self) -> Iterator[Buffer]:
        """All buffers, in the order of their live ranges."""
        for part in self.parts:
            for statement in flat([*part.body.statements, *part.copies]):
                if isinstance(statement, Alloc):
                    yield statement.buffer


def reduces_columns(box: Box) -> bool:
    """Whether a box reduces over another axis than the last one, which it keeps."""
    return bool(reduced_axes(box)) and len(box.dom[0].axes) > 1 and box.dom[0].names[-1] in box.cod[0].names
