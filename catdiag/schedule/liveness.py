"""Liveness: the boxes of a kernel as statements, with the arrays that are allocated on chip at each point.

A diagram is cut into kernels: each Group box is one, and so are the boxes between two of them (a diagram without Group
is one kernel). `LivenessWalk` visits the boxes of a kernel in stored order. Each wire has a `Buffer`, or none if its
value is rematerialized. The walk adds a buffer where its live range begins and drops it after its last use
(`catdiag.schedule.live_ranges`). At each box it notes what is live, and keeps the points where that is maximal: the
kernel needs as much memory as the largest of them.

Sizes are integer polynomials in tiles (`g_q`), stream blocks (`s_x`) and axis sizes. The rules are stated in
`catdiag.cost.traffic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catdiag.category.diagram import Graph, inline
from catdiag.category.integer_polynomial import ONE, ZERO, IntPolynomial
from catdiag.category.ops import Box, Einsum, FoldOp, GroupOp, Map, Reduce, array_name
from catdiag.category.types import ArrayType, union
from catdiag.schedule.contractions import Contraction, contraction, factors, products
from catdiag.schedule.element_widths import Widths
from catdiag.schedule.footprint import interior_size
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
from catdiag.schedule.lowered_kernel import (
    Alloc,
    Body,
    Buffer,
    For,
    Free,
    KernelPart,
    Loop,
    LoweredKernel,
    Overwrite,
    Point,
    ProgramPoint,
    Statement,
    Transfer,
    Visit,
    Within,
)
from catdiag.schedule.pipelines import pipeline
from catdiag.schedule.placement import LEVEL, REGISTERS, Placement
from catdiag.util.errors import CatdiagError

__all__ = [
    "LEVEL",
    "REGISTERS",
    "Contraction",
    "Loop",
    "LoweredKernel",
    "ProgramPoint",
    "Transfer",
    "contracts",
    "elementwise",
    "is_view",
    "live_ranges",
    "multiplies",
    "only_streamed",
    "rematerialized",
]


class LivenessWalk:
    """The liveness analysis of one kernel, or of a part of one whose inputs are wires of the kernel's body."""

    def __init__(self, kernel: LoweredKernel, widths: Widths, places: Placement) -> None:
        self.kernel, self.widths, self.places = kernel, widths, places
        self.statements: list[Statement] = []
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

    # -- what is live ------------------------------------------------------------------------

    def add(self, buffer: Buffer, load: bool = False) -> None:
        """Begins a live range: allocates the buffer at its levels."""
        self.statements.append(Alloc(buffer, load))
        self._begin(buffer)

    def drop(self, buffer: Buffer) -> None:
        """Ends a live range: frees the buffer at its levels."""
        if buffer in self.present:
            self.statements.append(Free(buffer))
            self._end(buffer)

    def _begin(self, buffer: Buffer) -> None:
        self.present[buffer] = None
        for place in buffer.places:
            self.sums[place] = self.sums[place] + buffer.at(place)

    def _end(self, buffer: Buffer) -> None:
        del self.present[buffer]
        for place in buffer.places:
            self.sums[place] = self.sums[place] - buffer.at(place)

    def overwrite(self, buffer: Buffer, place: str) -> Buffer | None:
        """Frees the copy at one level, because a result is written over it. Returns the copies at other levels."""
        others = tuple(p for p in buffer.places if p != place)
        rest = replace(buffer, places=others) if others else None
        self.statements.append(Overwrite(buffer, rest))
        self._end(buffer)
        if rest is not None:
            self._begin(rest)
        return rest

    def load(self, buffer: Buffer) -> None:
        """Loads an operand unless it is loaded already: it is live from here on, and the load is counted."""
        if not buffer.loaded:
            buffer.loaded = True
            if buffer.region:
                buffer.masked_loads.append((buffer.interior, None, ()))
            else:
                buffer.loads += 1
            self.add(buffer, load=True)

    def note(self, at: str, extra: Sequence[Buffer] = ()) -> None:
        """Records what is live at each level here, unless another recorded point has at least as much for all sizes."""
        self.statements.append(Point(at, tuple(extra)))
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

    def body(self, graph: Graph, wires: list[Buffer | None], within: Within | None = None) -> list[str]:
        """`kernel_body` for wires of which it is known already which are only streamed, and for phases (`within`)."""
        if self.places.matrix:
            self.products = products(graph)
        free = rematerialized(graph, [b is None for b in wires])
        body = self.sequence(graph, wires, live_ranges(graph, free, 0, False), free, ())
        made = body.made
        for w in graph.outputs:
            buffer = made[w]
            if buffer is not None and not buffer.loaded:
                self.load(buffer)
                self.note("copy")
                self.drop(buffer)
        self.kernel.parts.append(KernelPart(wires, body, self.statements, self.places, within))
        roles: list[str] = []
        for w in graph.outputs:
            b = made[w]
            # A result that was saved, and then overwritten by a later result, has no buffer any more.
            made_here = "output" if b is None or b.role == "temporary" else b.role
            roles.append("spot" if free[w] else made_here)
        return roles

    def sequence(
        self, graph: Graph, wires: list[Buffer | None], found: LiveRanges, free: Sequence[bool], loops: tuple[Loop, ...]
    ) -> Body:
        """Visits the boxes of a graph in order, inside `loops`.

        For each box: its inputs are loaded and its operations counted. Its results are allocated, over an input that
        dies there if possible. The point is noted, and the buffers whose last use this was are dropped.
        """
        outside, self.statements = self.statements, []
        buffers = list(wires)
        states = sum(b is not None and b.role == "accumulator" for b in wires)
        self.kernel.chains[loops] = self.kernel.chains.get(loops, 0) + chain(graph, found, states)
        sources: dict[int, int] = {c: r for r, c in found.in_place.items()}
        outputs = {found.root[w] for w in graph.outputs}
        blocks = [b.width if b is not None and b.role == "streamed" else 0 for b in wires]
        for place, node in enumerate(graph.nodes):
            box, first = node.box, len(buffers)
            self.statements.append(Visit(place))
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
                    if overwritten is not None and (over := buffers[overwritten]) is not None:
                        buffers[overwritten] = self.overwrite(over, levels[-1])
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
        made = [buffers[found.root[w]] if buffers[w] is not None else None for w in range(len(buffers))]
        statements, self.statements = self.statements, outside
        return Body(graph, found, free, statements, made)

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
    ) -> tuple[Buffer, ...]:
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
        outside, self.statements = self.statements, []
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
        head, body = self.statements, self.sequence(step, wires, found, free, (*loops, loop))
        made, self.statements = body.made, []
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
        results = tuple(replace(state) for state in carried)
        for state in results:
            self.add(state)
        tail, self.statements = self.statements, outside
        self.statements.append(For(op, tuple(inputs), tuple(inner_loads), head, body, tail, results))
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
