"""Which arrays are on chip when: the walk along a diagram's stored order that `io` and `plan` read.

The rules are said in `catdiag.cost.traffic`. A diagram is cut into kernels: each Group box is one, and so is what
lies between two of them (a diagram without Group is one kernel of everything). In a kernel, each wire has a
`Buffer`, or none if its value is computed on the spot; the walk adds and removes buffers, and notes the
moments at which most is live. Amounts are polynomials in local sizes (tiles `g_q`, blocks `s_x`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Graph, inline
from catdiag.category.integer_polynomial import ONE, ZERO, IntPolynomial
from catdiag.category.ops import (
    Box,
    Einsum,
    FoldOp,
    GroupOp,
    Map,
    Reduce,
    array_name,
)
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
"""The body of a kernel, and the wires of it that a part of it reads and gives."""
SPECIAL = ("exp", "log", "sqrt", "tanh", "sigmoid")


@dataclass(eq=False)
class Buffer:
    """An array on chip, in some places (see `Placement`), in so many `stages` of buffers by place (1 where left out).

    `pinned` ones outlast the loop turn that reads them, so none may write over them.
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
    """For each loop that leaves blocks out and streams it: a block of it, and which blocks are run. Of what is read in
    place: what of it is loaded at a time, and in which loop."""
    region: tuple[AccessRange, ...] = ()
    interior: IntPolynomial = ZERO
    """Of what is read in place, how much there is along the axes that never lie outside of the array."""
    stages: Mapping[str, int] = field(default_factory=dict)
    wire: int = -1
    """Of an operand, which array of slow memory it is."""
    axes: tuple[Axis, ...] = ()
    """The axes of an operand, a state or what a box makes, with the sizes that they have on chip."""
    source: Buffer | None = None
    """Of what a loop leaves to loops inside its turns: the array; `reload_loops` are the loops around that lack none of
    it, so that it is loaded in each of their turns, and `nested` of the array those loops for each time it is loaded
    so."""
    reload_loops: tuple[Loop, ...] = ()
    nested: list[tuple[Loop, ...]] = field(default_factory=list)

    def at(self, place: str) -> IntPolynomial:
        """What it takes there: values times their width, for each buffer."""
        return self.size.scaled(self.width * self.stages.get(place, 1))


@dataclass(frozen=True)
class ProgramPoint:
    """A point of the order at which `total` is live at a place, by array: (name, role, amount)."""

    at: str
    total: IntPolynomial
    live: tuple[tuple[str, str, IntPolynomial], ...]


@dataclass(frozen=True)
class Transfer:
    """An array that crosses the edge: `size` bytes (or values), once for each tile of the axes that it lacks.

    `role` is that of a load, operand or streamed, and of a save what is saved: the state of a loop (accumulator), what
    a box makes (output), an operand as it is, or what is computed on the spot (spot). `path` lists the places that it
    passes, the slow memory (`""`) first. With a `loop`, it crosses once for each block of that loop of the place above.
    `times` is how often a group loads it, which `size` has as a factor.

    Of an array with an `bounds` only the blocks that the loop in `loops` runs are loaded, each as `local` says.
    Of one with a `region`, what of that lies in the array, times `local`, once a group or for each block of `loops`.
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
    """Of what comes from slow memory, which array it is: two may have one name."""
    loop_nest: tuple[Loop, ...] = ()
    """Loops in each of whose turns it is loaded anew, by a loop inside them."""


@dataclass
class LoweredKernel:
    """One kernel: its tiles (symbol → whole size, and axis), its loops, what it moves, holds and computes."""

    tiles: dict[str, IntPolynomial]
    axes: dict[str, str] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    points: dict[str, list[ProgramPoint]] = field(default_factory=lambda: {LEVEL: [], REGISTERS: []})
    work: dict[tuple[str, tuple[Loop, ...]], IntPolynomial] = field(default_factory=dict)
    contractions: list[Contraction] = field(default_factory=list)
    """Those that matrix units take."""
    by_vectors: list[Contraction] = field(default_factory=list)
    """Those that have no rows or no columns, which they do not take."""
    factors: list[Factor] = field(default_factory=list)
    """What products read that turns of loops make of the blocks that they load."""
    loop_bounds: dict[Loop, LoopBounds] = field(default_factory=dict)
    """Of loops that leave blocks out, which they run."""
    chains: dict[tuple[Loop, ...], int] = field(default_factory=dict)
    """For each nest of loops, how often a turn waits for sums (see `chain`)."""
    clipped: dict[str, AccessRange] = field(default_factory=dict)
    """Symbols for how much of a window lies in the array, at most, where `measure` is asked for that."""
    order: list[str] = field(default_factory=list)
    reads: tuple[int, ...] = ()
    """The wires of the flat diagram that the inputs of its body are."""
    leaves: tuple[tuple[int, int], ...] = ()
    """The outputs of its body that it saves, in the order of its transfers, and what wires of the flat diagram these
    are."""


class LivenessWalk:
    """The walk along one kernel, or along a part: some wires of its body are then the inputs."""

    def __init__(self, kernel: LoweredKernel, widths: Widths, places: Placement, within: Within | None = None) -> None:
        self.kernel, self.widths, self.places = kernel, widths, places
        self.present: dict[Buffer, None] = {}
        self.sums = dict.fromkeys(places.names, ZERO)
        self.seen: set[tuple[str, IntPolynomial]] = set()
        self.values: list[Bound | None] = []
        self.products: set[frozenset[str]] = set()

    def output_placement(self, role: str, ty: ArrayType) -> tuple[str, ...]:
        """The places of what is made on chip."""
        if self.places.matrix and frozenset(ty.names) in self.products:
            return (self.places.matrix,)
        return self.places.of(role)

    def reach(self, place: int) -> None:
        """The walk comes to a box of the sequence that it is in: for those who watch it."""

    # -- what is live ------------------------------------------------------------------------

    def add(self, buffer: Buffer) -> None:
        """An array is live from here on."""
        self.present[buffer] = None
        for place in buffer.places:
            self.sums[place] = self.sums[place] + buffer.at(place)

    def drop(self, buffer: Buffer) -> None:
        """It is no more."""
        if buffer in self.present:
            del self.present[buffer]
            for place in buffer.places:
                self.sums[place] = self.sums[place] - buffer.at(place)

    def leave(self, buffer: Buffer, place: str) -> bool:
        """Another array is written over the copy in one place; whether that was the only one."""
        self.drop(buffer)
        kept = tuple(p for p in buffer.places if p != place)
        if kept:
            buffer.places = kept
            self.add(buffer)
        return not kept

    def load(self, buffer: Buffer) -> None:
        """An operand is live from here on, and crosses the edge, unless it is there already."""
        if not buffer.loaded:
            buffer.loaded = True
            if buffer.region:
                buffer.masked_loads.append((buffer.interior, None, ()))
            else:
                buffer.loads += 1
            self.add(buffer)

    def note(self, at: str, extra: Sequence[Buffer] = ()) -> None:
        """Keeps this moment unless another is at least as heavy at every size."""
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
        """Which blocks the loop runs, where it leaves some out."""
        bounds = bounds_of(box, inputs, self.kernel.tiles)
        if bounds is not None and loops:
            raise CatdiagError(f"the loop over {op.axis!r} leaves blocks out inside another loop: that is not counted")
        if self.kernel.loop_bounds.get(loop) != bounds and loop in self.kernel.loops:
            raise CatdiagError(
                f"two loops over {op.axis!r} leave out other blocks than each other: leave out the same, or none"
            )
        if bounds is not None:
            self.kernel.loop_bounds[loop] = bounds
        return bounds

    def kernel_body(self, graph: Graph, wires: list[Buffer | None], given: Sequence[Bound | None]) -> list[str]:
        """A whole kernel: inputs are loaded at their first use, outputs saved as soon as they are made.

        Returns what is saved of each output, as `Transfer.role` says it.
        """
        self.values = known_values(graph, given)
        root = live_ranges(graph, rematerialized(graph, [b is None for b in wires]), 0, False).root
        here, left = (only_streamed(graph, root, wires, n) for n in (False, self.places.nested))
        for buffer, single_use, only in zip(wires, here, left, strict=True):
            if buffer is not None:
                buffer.streamed_only = single_use if buffer.region else only
        return self.body(graph, wires)

    def body(self, graph: Graph, wires: list[Buffer | None]) -> list[str]:
        """The same where it is known which inputs are only streamed."""
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
            # What another array was written over later, after it was saved, has no buffer any more.
            made_here = "output" if b is None or b.role == "temporary" else b.role
            roles.append("spot" if free[w] else made_here)
        return roles

    def sequence(
        self, graph: Graph, wires: list[Buffer | None], found: LiveRanges, free: Sequence[bool], loops: tuple[Loop, ...]
    ) -> list[Buffer | None]:
        """The boxes of a graph, one after the other; returns each wire's buffer."""
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
                raise CatdiagError(f"{box.name} lies within another loop: io() counts two levels, with groups outside")
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
                    held = self.output_placement(role, ty)
                    taken = self._overwritten(node.inputs, box, buffers, found, place, held[-1])
                    if taken is not None and (over := buffers[taken]) is not None and self.leave(over, held[-1]):
                        buffers[taken] = None
                    if taken is None and self.places.fleeting and found.passes(graph, place):
                        made_of = [v for w in reads if buffers[w] is not None for v in found.view_sources.get(w, [w])]
                        if self._sharing(ty, made_of, buffers, held[-1]):
                            held = ()
                            found.extend(first, made_of)
                    made = IntPolynomial.elements(ty.axes)
                    result = Buffer(
                        array_name(box, k), role, made, self.widths.by_producer(box, ty), held, axes=ty.axes
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
        """Whether one of these arrays is in a place, element by element beside what is made of it there."""
        size = IntPolynomial.elements(ty.axes)
        return any((b := buffers[w]) is not None and where in b.places and b.size == size for w in wires)

    def _overwritten(
        self, inputs: tuple[int, ...], box: Box, buffers: list[Buffer | None], found: LiveRanges, place: int, where: str
    ) -> int | None:
        """The input (its root wire) whose copy in the place where a box's result is that result takes over; or what an
        input that takes no room is made of, which ends with it."""
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
        """A loop: resident inputs, staged blocks and states are live through it, temporaries within a turn."""
        if loops and self.places.state != self.places.temporary:
            raise CatdiagError(
                f"the loop over {op.axis!r} lies within another, with temporaries at {self.places.temporary} and "
                f"states at {self.places.state}: expected both at one level, or loops one after the other"
            )
        step, states = inline(op.step).graph, len(box.cod)
        whole = ZERO
        for ty in box.dom:
            axis = ty.axis(op.axis)
            whole = IntPolynomial.of(axis.size) if axis is not None else whole
        clash = whole.symbols() & set(self.kernel.tiles)
        if clash:
            raise CatdiagError(
                f"axis {op.axis!r} is streamed in blocks and grouped in tiles of {', '.join(sorted(clash))}: "
                "group other axes than the streamed one"
            )
        loop = (op.block, whole)
        bounds = self._bounds(box, op, known, loop, loops)
        if loop not in self.kernel.loops:
            self.kernel.loops.append(loop)
        staged: dict[Buffer, Buffer] = {}
        inner: list[Buffer | None] = []
        asked = bounds.reads if bounds is not None else frozenset[int]()
        first_asked = {b for k, b in enumerate(inputs) if k in asked and b is not None}
        later = postponed(box, [id(b) for b in inputs]) if self.places.nested else [False] * len(inputs)
        passed: dict[Buffer, Buffer] = {}
        for b, ty, left in zip(inputs, step.dom.arrays[states:], later, strict=True):
            if b is not None and b.streamed_only and left and not b.region:
                if b not in passed:
                    reload_loops = b.reload_loops if ty.axis(op.axis) is not None else (*b.reload_loops, loop)
                    passed[b] = replace(
                        b, size=IntPolynomial.elements(ty.axes), source=b.source or b, reload_loops=reload_loops
                    )
                inner.append(passed[b])
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
                                f"{b.name} is read in place in a loop that leaves blocks out: not counted"
                            )
                        b.masked_loads.append((interior_size(ty, b.region), None, (*loops, loop)))
                    elif bounds is None:
                        b.loads += 1
                    else:  # what is read to ask about a block is loaded for each that is asked about
                        here = replace(bounds, tests_blocks=bounds.tests_blocks and b not in first_asked)
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
        """Adds the scalar operations of a box; `given`: its divisor is computed on the spot."""
        op = box.op
        space = IntPolynomial.elements(union((*box.dom, *box.cod)))
        if isinstance(op, Map):
            if op.fn == "div" and not given:
                self._work("exp", IntPolynomial.elements(box.dom[1].axes), loops)
            self._work("exp" if op.fn in SPECIAL else "alu", space, loops)
        elif isinstance(op, Reduce):
            self._work("alu", space, loops)
        elif isinstance(op, Einsum):
            if multiplies(box):
                self._work("tensor", space.scaled(len(box.dom)), loops)
                of = contraction(box, set(self.kernel.tiles), loops)
                vector = ONE in (of.rows, of.columns, of.depth)
                (self.kernel.by_vectors if vector else self.kernel.contractions).append(of)
            else:  # products one by one, and where an axis is summed a sum of them
                self._work("alu", space.scaled(len(box.dom) - 1 + contracts(box)), loops)

    def _work(self, pipeline: str, amount: IntPolynomial, loops: tuple[Loop, ...]) -> None:
        key = (pipeline, loops)
        self.kernel.work[key] = self.kernel.work.get(key, ZERO) + amount


Walks = Callable[[LoweredKernel, Widths, Placement, "Within | None"], LivenessWalk]
"""What makes a walk: `LivenessWalk` itself, or what watches it."""
