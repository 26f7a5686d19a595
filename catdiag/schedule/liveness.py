"""Liveness: which arrays are allocated on chip at each point of a kernel. `io` and `plan` read it.

A diagram is cut into kernels: each Group box is one, and so are the boxes between two of them (a diagram without Group
is one kernel). `LivenessWalk` visits the boxes of a kernel in stored order. Each wire has a `Buffer`, or none if its
value is rematerialized. The walk adds a buffer where its live range begins and drops it after its last use
(`catdiag.schedule.live_ranges`). At each box it notes what is live, and keeps the points where that is maximal: the
kernel needs as much memory as the largest of them.

Sizes are integer polynomials in tiles (`g_q`), stream blocks (`s_x`) and axis sizes. The rules are stated in
`catdiag.cost.traffic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Graph, inline
from catdiag.category.integer_polynomial import ONE, ZERO, IntPolynomial
from catdiag.category.ops import Box, Einsum, FoldOp, GroupOp, Map, Reduce, array_name
from catdiag.category.types import ArrayType, Axis, union
from catdiag.schedule.contractions import Contraction, Factor, Loop, contraction, factors, products
from catdiag.schedule.element_widths import Widths
from catdiag.schedule.footprint import AccessRange, interior_size
from catdiag.schedule.footprint import region_size as box_of
from catdiag.schedule.live_ranges import (
    LiveRanges,
    chain,
    contracts,
    elementwise,
    is_view,
    live_ranges,
    multiplies,
    only_streamed,
    pointwise,
    postponed,
    rematerialized,
)
from catdiag.schedule.loop_bounds import Bound, LoopBounds, bounds_of
from catdiag.schedule.loop_bounds import known as known_values
from catdiag.schedule.pipelines import pipeline
from catdiag.schedule.placement import LEVEL, REGISTERS, Placement
from catdiag.util.errors import CatdiagError

__all__ = [
    "LEVEL",
    "REGISTERS",
    "Contraction",
    "Loop",
    "contracts",
    "elementwise",
    "is_view",
    "live_ranges",
    "multiplies",
    "only_streamed",
    "rematerialized",
]
Within = tuple[Graph, Sequence[int], Sequence[int]]
"""The body of a kernel, and which of its wires a part of it reads and makes."""


@dataclass(eq=False)
class Buffer:
    """An array that is allocated on chip: `size` elements of `width` bytes, at each of the levels `places` (see
    `Placement`).

    `stages` is the number of pipeline buffers at a level, 1 if it is not there. A `pinned` buffer is live beyond the
    loop iteration that reads it, so no result may be written over it. `loaded` says that it has been loaded,
    `streamed_only` that only loops read it, block by block. `loads` counts the full loads of it.
    """

    name: str
    role: str
    size: IntPolynomial
    width: int
    places: tuple[str, ...]
    pinned: bool = False
    loaded: bool = True
    streamed_only: bool = False
    loads: int = 0
    masked_loads: list[tuple[IntPolynomial, LoopBounds | None, tuple[Loop, ...]]] = field(default_factory=list)
    """Loads that are not of the whole array: the elements loaded at a time, which blocks are run (None: all), and in
    which loops. They are those of loops that skip blocks and of arrays that are read in place."""
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
    the outer loops that run along no axis that it lacks: each of their iterations loads it again. The array's `nested`
    lists these loops once for each such load."""
    reload_loops: tuple[Loop, ...] = ()
    nested: list[tuple[Loop, ...]] = field(default_factory=list)

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


class LivenessWalk:
    """The liveness analysis of one kernel, or of a part of one whose inputs are wires of the kernel's body."""

    def __init__(self, kernel: LoweredKernel, widths: Widths, places: Placement, within: Within | None = None) -> None:
        self.kernel, self.widths, self.places = kernel, widths, places
        self.present: dict[Buffer, None] = {}
        self.sums = dict.fromkeys(places.names, ZERO)
        self.seen: set[tuple[str, IntPolynomial]] = set()
        self.values: list[Bound | None] = []
        self.products: set[frozenset[str]] = set()

    def output_placement(self, role: str, ty: ArrayType) -> tuple[str, ...]:
        """The levels at which a result with this role and type is allocated."""
        if self.places.matrix and frozenset(ty.names) in self.products:
            return (self.places.matrix,)
        return self.places.of(role)

    def reach(self, place: int) -> None:
        """Called when the walk comes to the box at index `place` of the current sequence. Subclasses that trace the
        walk override it."""

    # -- what is live ------------------------------------------------------------------------

    def add(self, buffer: Buffer) -> None:
        """Begins a live range: allocates the buffer at its levels."""
        self.present[buffer] = None
        for place in buffer.places:
            self.sums[place] = self.sums[place] + buffer.at(place)

    def drop(self, buffer: Buffer) -> None:
        """Ends a live range: frees the buffer at its levels."""
        if buffer in self.present:
            del self.present[buffer]
            for place in buffer.places:
                self.sums[place] = self.sums[place] - buffer.at(place)

    def leave(self, buffer: Buffer, place: str) -> bool:
        """Frees the copy at one level, because a result is written over it. Returns whether it was the only copy."""
        self.drop(buffer)
        others = tuple(p for p in buffer.places if p != place)
        if others:
            buffer.places = others
            self.add(buffer)
        return not others

    def load(self, buffer: Buffer) -> None:
        """Loads an operand unless it is loaded already: it is live from here on, and the load is counted."""
        if not buffer.loaded:
            buffer.loaded = True
            if buffer.region:
                buffer.masked_loads.append((buffer.interior, None, ()))
            else:
                buffer.loads += 1
            self.add(buffer)

    def note(self, at: str, extra: Sequence[Buffer] = ()) -> None:
        """Records what is live at each level here, unless another recorded point has at least as much for all sizes."""
        for place in self.places.names:
            total, moments = self.sums[place], self.kernel.points[place]
            for buffer in extra:
                if place in buffer.places:
                    total = total + buffer.at(place)
            if (place, total) in self.seen:
                continue
            self.seen.add((place, total))
            if not total or any(m.total.dominates(total) for m in moments):
                continue
            held = (*self.present, *extra)
            live = tuple((b.name, b.role, b.at(place)) for b in held if place in b.places)
            moments[:] = [m for m in moments if not total.dominates(m.total)]
            moments.append(ProgramPoint(at, total, live))

    # -- boxes in order -----------------------------------------------------------------------

    def _bounds(
        self, box: Box, op: FoldOp, inputs: Sequence[Bound | None], loop: Loop, loops: tuple[Loop, ...]
    ) -> LoopBounds | None:
        """The blocks that a loop runs, if it skips some; None if it runs all."""
        bounds = bounds_of(box, inputs, self.kernel.tiles)
        if bounds is not None and loops:
            raise CatdiagError(
                f"the loop over {op.axis!r} skips blocks inside another loop: the cost of that is not counted; skip "
                f"blocks in the outermost loop only"
            )
        if self.kernel.loop_bounds.get(loop) != bounds and loop in self.kernel.loops:
            raise CatdiagError(
                f"two loops over {op.axis!r} skip different blocks: expected both to skip the same blocks, or none"
            )
        if bounds is not None:
            self.kernel.loop_bounds[loop] = bounds
        return bounds

    def kernel_body(self, graph: Graph, wires: list[Buffer | None], given: Sequence[Bound | None]) -> list[str]:
        """Analyzes a whole kernel. Inputs are loaded at their first use, outputs are saved as soon as they are made.

        `given` are the index expressions of inputs that are positions. Returns the role of what is saved for each
        output (see `Transfer.role`).
        """
        self.values = known_values(graph, given)
        root = live_ranges(graph, rematerialized(graph, [b is None for b in wires]), 0, False).root
        here, left = (only_streamed(graph, root, wires, n) for n in (False, self.places.nested))
        for buffer, single_use, only in zip(wires, here, left, strict=True):
            if buffer is not None:
                buffer.streamed_only = single_use if buffer.region else only
        return self.body(graph, wires)

    def body(self, graph: Graph, wires: list[Buffer | None]) -> list[str]:
        """`kernel_body` for wires of which it is known already which are only streamed."""
        if self.places.matrix:
            self.products = products(graph)
        free = rematerialized(graph, [b is None for b in wires])
        made = self.sequence(graph, wires, live_ranges(graph, free, 0, False), free, ())
        for w in graph.outputs:
            buffer = made[w]
            if buffer is not None and not buffer.loaded:
                self.load(buffer)
                self.note("copy")
                self.drop(buffer)
        roles: list[str] = []
        for w in graph.outputs:
            b = made[w]
            # A result that was saved, and then overwritten by a later result, has no buffer any more.
            made_here = "output" if b is None or b.role == "temporary" else b.role
            roles.append("spot" if free[w] else made_here)
        return roles

    def sequence(
        self, graph: Graph, wires: list[Buffer | None], found: LiveRanges, free: Sequence[bool], loops: tuple[Loop, ...]
    ) -> list[Buffer | None]:
        """Visits the boxes of a graph in order, inside `loops`. Returns the buffer of each wire, None if it has none.

        For each box: its inputs are loaded and its operations counted. Its results are allocated, over an input that
        dies there if possible. The point is noted, and the buffers whose last use this was are dropped.
        """
        buffers = list(wires)
        states = sum(b is not None and b.role == "accumulator" for b in wires)
        self.kernel.chains[loops] = self.kernel.chains.get(loops, 0) + chain(graph, found, states)
        sources: dict[int, int] = {c: r for r, c in found.in_place.items()}
        outputs = {found.root[w] for w in graph.outputs}
        blocks = [b.width if b is not None and b.role == "streamed" else 0 for b in wires]
        for place, node in enumerate(graph.nodes):
            box, first = node.box, len(buffers)
            self.reach(place)
            if loops and multiplies(box):
                tiles = set(self.kernel.tiles)
                self.kernel.factors += factors(graph, place, blocks, tiles, loops, self.widths.inner)
            if is_view(box):
                buffers.append(buffers[node.inputs[0]])
                continue
            if isinstance(box.op, GroupOp):
                raise CatdiagError(
                    f"{box.name} is inside a loop: io() counts kernels with groups outside and loops inside; expected "
                    f".group after .stream"
                )
            if place in found.in_place or all(free[first + k] for k in range(len(box.cod))):
                buffers.extend([None] * len(box.cod))
                if place in found.in_place or (pointwise(box) and box.cod[0].axes):
                    self.count(box, loops, box.name == "div" and free[node.inputs[1]])
                continue
            reads = [found.root[w] for w in node.inputs]
            if isinstance(box.op, FoldOp):
                values = [None if loops or not self.values else self.values[w] for w in node.inputs]
                buffers.extend(self.fold(box, box.op, [buffers[w] for w in reads], values, loops))
            else:
                source = graph.nodes[sources[place]] if place in sources else None
                if source is not None:
                    reads = [found.root[w] for w in source.inputs] + [w for w in reads if buffers[w] is not None]
                for w in reads:
                    if (b := buffers[w]) is not None:
                        self.load(b)
                if source is None:
                    self.count(box, loops, box.name == "div" and free[node.inputs[1]])
                for k, ty in enumerate(box.cod):
                    ends = found.last_use[first + k] == len(graph.nodes)
                    role = "accumulator" if ends else "output" if first + k in outputs else "temporary"
                    levels = self.output_placement(role, ty)
                    overwritten = self._overwritten(node.inputs, box, buffers, found, place, levels[-1])
                    if (
                        overwritten is not None
                        and (over := buffers[overwritten]) is not None
                        and self.leave(over, levels[-1])
                    ):
                        buffers[overwritten] = None
                    if overwritten is None and self.places.fleeting and found.passes(graph, place):
                        made_of = [v for w in reads if buffers[w] is not None for v in found.view_sources.get(w, [w])]
                        if self._sharing(ty, made_of, buffers, levels[-1]):
                            levels = ()
                            found.extend(first, made_of)
                    elements = IntPolynomial.elements(ty.axes)
                    result = Buffer(
                        array_name(box, k), role, elements, self.widths.by_producer(box, ty), levels, axes=ty.axes
                    )
                    buffers.append(result)
                    self.add(result)
                self.note(array_name(box) if box.cod else box.name)
            for w in (*reads, *range(first, len(buffers))):
                b = buffers[w]
                if b is not None and found.last_use[w] <= place and not b.pinned and b.loaded:
                    self.drop(b)
        return [buffers[found.root[w]] if buffers[w] is not None else None for w in range(len(buffers))]

    def _sharing(self, ty: ArrayType, wires: Sequence[int], buffers: Sequence[Buffer | None], where: str) -> bool:
        """Whether one of these arrays is allocated at a level and has as many elements as an array of type `ty`."""
        size = IntPolynomial.elements(ty.axes)
        return any((b := buffers[w]) is not None and where in b.places and b.size == size for w in wires)

    def _overwritten(
        self, inputs: tuple[int, ...], box: Box, buffers: list[Buffer | None], found: LiveRanges, place: int, where: str
    ) -> int | None:
        """The input (its root wire) that the result of an elementwise box is written over at a level, or None.

        It dies at this box, and has the axes, the size and the width of the result. An array that a rematerialized
        input is recomputed from counts as an input, as its live range ends there too.
        """
        if not elementwise(box):
            return None
        ty = box.cod[0]
        roots = [(found.root[w], set(box.dom[k].names)) for k, w in enumerate(inputs)]
        roots += [(v, names) for w, names in roots for v in found.view_sources.get(w, ())]
        for root, names in roots:
            b = buffers[root]
            if b is None or b.pinned or b.region or found.last_use[root] != place or not b.loaded or not b.places:
                continue
            same = (
                names == set(ty.names)
                and b.size == IntPolynomial.elements(ty.axes)
                and b.width == self.widths.by_producer(box, ty)
            )
            if same and where in b.places:
                return root
        return None

    def fold(
        self,
        box: Box,
        op: FoldOp,
        inputs: Sequence[Buffer | None],
        known: Sequence[Bound | None],
        loops: tuple[Loop, ...],
    ) -> list[Buffer]:
        """Visits a loop. Its resident inputs, the pipeline buffers of streamed blocks, and its states are live
        throughout; temporaries are live within an iteration. Returns the buffers of the final states.

        `known` are the index expressions of inputs that are positions, `loops` the loops around this one.
        """
        if loops and self.places.state != self.places.temporary:
            raise CatdiagError(
                f"the loop over {op.axis!r} is inside another one, with temporaries at {self.places.temporary} and "
                f"states at {self.places.state}: expected both at one level, or loops one after the other"
            )
        step, states = inline(op.step).graph, len(box.cod)
        axis_size = ZERO
        for ty in box.dom:
            axis = ty.axis(op.axis)
            axis_size = IntPolynomial.of(axis.size) if axis is not None else axis_size
        clash = axis_size.symbols() & set(self.kernel.tiles)
        if clash:
            raise CatdiagError(
                f"axis {op.axis!r} is streamed in blocks and grouped in tiles of {', '.join(sorted(clash))}: "
                "group other axes than the streamed one"
            )
        loop = (op.block, axis_size)
        bounds = self._bounds(box, op, known, loop, loops)
        if loop not in self.kernel.loops:
            self.kernel.loops.append(loop)
        staged: dict[Buffer, Buffer] = {}
        inner: list[Buffer | None] = []
        test_reads = bounds.reads if bounds is not None else frozenset[int]()
        tested = {b for k, b in enumerate(inputs) if k in test_reads and b is not None}
        inner_loads = postponed(box, [id(b) for b in inputs]) if self.places.nested else [False] * len(inputs)
        postponed_inputs: dict[Buffer, Buffer] = {}
        for b, ty, left in zip(inputs, step.dom.arrays[states:], inner_loads, strict=True):
            if b is not None and b.streamed_only and left and not b.region:
                if b not in postponed_inputs:
                    reload_loops = b.reload_loops if ty.axis(op.axis) is not None else (*b.reload_loops, loop)
                    postponed_inputs[b] = replace(
                        b, size=IntPolynomial.elements(ty.axes), source=b.source or b, reload_loops=reload_loops
                    )
                inner.append(postponed_inputs[b])
                continue
            if b is not None and b.streamed_only:
                if b not in staged:
                    if b.reload_loops and b.source is not None:
                        b.source.nested.append(b.reload_loops)
                    elif b.source is not None:
                        b.source.loads += 1
                    elif b.region:
                        if bounds is not None:
                            raise CatdiagError(
                                f"{b.name} is read in place in a loop that skips blocks: its loads are not counted"
                            )
                        b.masked_loads.append((interior_size(ty, b.region), None, (*loops, loop)))
                    elif bounds is None:
                        b.loads += 1
                    else:  # What the block test reads is loaded for each block that is tested.
                        here = replace(bounds, tests_blocks=bounds.tests_blocks and b not in tested)
                        b.masked_loads.append((IntPolynomial.elements(ty.axes), here, (*loops, loop)))
                    block, buffers = box_of(ty, b.region), self.places.stages
                    staged[b] = Buffer(
                        b.name, "streamed", block, b.width, self.places.streamed, pinned=True, stages=buffers
                    )
                    self.add(staged[b])
                inner.append(staged[b])
                continue
            if b is not None:
                self.load(b)
            inner.append(None if b is None else replace(b, pinned=True))
        carried: list[Buffer] = []
        for k, ty in enumerate(step.dom.arrays[:states]):
            name = op.components[k] if k < len(op.components) else f"state {k}"
            size, width = IntPolynomial.elements(ty.axes), self.widths.on_chip(ty, name)
            carried.append(
                Buffer(name, "accumulator", size, width, self.output_placement("accumulator", ty), axes=ty.axes)
            )
        for state in carried:
            self.add(state)
        self.note(f"start of the loop over {op.axis}")
        wires = [*carried, *inner]
        free = rematerialized(step, [b is None for b in wires])
        found = live_ranges(step, free, states, True)
        for w, state in enumerate(carried):
            if found.last_use[w] == -1:
                self.drop(state)
        made = self.sequence(step, wires, found, free, (*loops, loop))
        ends: dict[Buffer, None] = {}
        copies: list[Buffer] = []
        for k, w in enumerate(step.outputs):
            b = made[w]
            if b is None or b.pinned or b in ends:
                copies.append(replace(carried[k]))
            else:
                ends[b] = None
        if copies:
            self.note(f"end of the loop over {op.axis}", copies)
        for b in (*ends, *staged.values()):
            self.drop(b)
        results = [replace(state) for state in carried]
        for state in results:
            self.add(state)
        return results

    # -- work ------------------------------------------------------------------------------------

    def count(self, box: Box, loops: tuple[Loop, ...], given: bool) -> None:
        """Adds the operations of a box that is run in `loops`. `given` says that its divisor is rematerialized, so that
        no reciprocal is computed."""
        op = box.op
        space = IntPolynomial.elements(union((*box.dom, *box.cod)))
        if isinstance(op, Map):
            if op.fn == "div" and not given:
                self._work("exp", IntPolynomial.elements(box.dom[1].axes), loops)
            self._work(pipeline(op.fn), space, loops)
        elif isinstance(op, Reduce):
            self._work("alu", space, loops)
        elif isinstance(op, Einsum):
            if multiplies(box):
                self._work("tensor", space.scaled(len(box.dom)), loops)
                of = contraction(box, set(self.kernel.tiles), loops)
                vector = ONE in (of.rows, of.columns, of.depth)
                (self.kernel.by_vectors if vector else self.kernel.contractions).append(of)
            else:  # elementwise products, and a sum of them if an axis is summed
                self._work("alu", space.scaled(len(box.dom) - 1 + contracts(box)), loops)

    def _work(self, pipeline: str, amount: IntPolynomial, loops: tuple[Loop, ...]) -> None:
        key = (pipeline, loops)
        self.kernel.work[key] = self.kernel.work.get(key, ZERO) + amount


Walks = Callable[[LoweredKernel, Widths, Placement, "Within | None"], LivenessWalk]
"""What makes a walk: `LivenessWalk`, or a subclass that traces it."""
