"""Liveness: from the statements of a kernel to those with the arrays that are allocated on chip at each point.

`catdiag.schedule.loop_nest` says what a kernel loads and computes, in order; `KernelLowering` reads that. Each wire
has a `Buffer`, or none if its value is rematerialized. A buffer is allocated where its live range begins, and freed
after its last use (`catdiag.schedule.live_ranges`). At each box there is a point at which what is allocated counts: the
kernel needs as much memory as the largest of them (`catdiag.schedule.peak_memory`).

The rules are stated in `catdiag.cost.traffic`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Graph, Node
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.op_facts import elementwise, reverses
from catdiag.category.ops import Box, FoldOp, GroupOp, array_name
from catdiag.category.types import ArrayType, Axis
from catdiag.schedule.array_views import in_memory_order
from catdiag.schedule.contractions import Loop, products
from catdiag.schedule.element_widths import Widths
from catdiag.schedule.footprint import interior_size
from catdiag.schedule.footprint import region_size as box_of
from catdiag.schedule.kernel_work import add_work
from catdiag.schedule.live_ranges import is_view
from catdiag.schedule.loop_bounds import Bound, LoopBounds, bounds_of
from catdiag.schedule.loop_bounds import known as known_values
from catdiag.schedule.loop_nest import lower_body
from catdiag.schedule.lowered_kernel import KernelPart, LoweredKernel, PhaseOf
from catdiag.schedule.peak_memory import PeakMemory
from catdiag.schedule.placement import Placement
from catdiag.schedule.scatter_add import ScatterAdd
from catdiag.schedule.split_k import SplitLoop, whole_axis
from catdiag.schedule.statements import (
    POSTPONED,
    STREAMED,
    Alloc,
    AllocatedLoad,
    Body,
    Buffer,
    Dealloc,
    For,
    Let,
    Load,
    LoopBuffers,
    LoopStep,
    NestValue,
    Overwrite,
    Point,
    Statement,
)
from catdiag.util.errors import CatdiagError


@dataclass
class _OpenBody:
    """A body whose statements are read: the loops around it, the buffers of its wires so far, and the values that the
    next box loads."""

    body: Body
    loops: tuple[Loop, ...]
    buffers: dict[int, Buffer | None]
    loads: set[NestValue] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.graph, self.found, self.free = self.body.graph, self.body.found, self.body.free
        self.outputs = {self.found.root[w] for w in self.graph.outputs}
        self.first = self.graph.first_wires()


class KernelLowering:
    """Makes the statements of one kernel, or of a phase of one whose inputs are wires of the kernel's body.

    `part_of` is the split loop of which the kernel runs a part.
    """

    def __init__(
        self, kernel: LoweredKernel, widths: Widths, places: Placement, part_of: SplitLoop | None = None
    ) -> None:
        self.kernel, self.widths, self.places, self.part_of = kernel, widths, places, part_of
        self.statements: list[Statement] = []
        self.values: list[Bound | None] = []
        self.products: set[frozenset[str]] = set()

    def kernel_body(self, graph: Graph, wires: list[Buffer | None], given: Sequence[Bound | None]) -> list[str]:
        """Lowers a whole kernel. Inputs are loaded at their first use, outputs are saved as soon as they are made.

        `given` are the index expressions of inputs that are positions. Returns the role of what is saved for each
        output (see `Transfer.role`).
        """
        self.values = known_values(graph, given)
        lowered = lower_body(graph, _values(graph, wires), self.places.nested)
        for buffer, only in zip(wires, lowered.streamed, strict=True):
            if buffer is not None:
                buffer.streamed_only = only
        return self._kernel(lowered, wires)

    def body(self, graph: Graph, wires: list[Buffer | None], within: PhaseOf) -> list[str]:
        """`kernel_body` for a phase: it is known already which of its inputs are only streamed."""
        streamed = [b is not None and b.streamed_only for b in wires]
        return self._kernel(lower_body(graph, _values(graph, wires), self.places.nested, streamed), wires, within)

    def _kernel(self, lowered: Body, wires: list[Buffer | None], within: PhaseOf | None = None) -> list[str]:
        graph, free = lowered.graph, lowered.free
        if self.places.matrix:
            self.products = products(graph)
        body = self._boxes(lowered, wires, ())
        for w in graph.outputs:
            buffer = body.made[w]
            if buffer is not None and not buffer.loaded:
                self._load(buffer)
                self.statements += [Point("copy"), Dealloc(buffer)]
        self.kernel.parts.append(KernelPart(body, self.statements, self.places, within))
        add_work(self.kernel, body, self.widths.inner)
        if self.places.peaks:
            PeakMemory(self.kernel.points, self.places.names).read([*body.statements, *self.statements])
        roles: list[str] = []
        for w in graph.outputs:
            b = body.made[w]
            # A result that was saved, and then overwritten by a later result, has no buffer any more.
            made_here = "output" if b is None or b.role == "temporary" else b.role
            roles.append("rematerialized" if free[w] else made_here)
        return roles

    # -- boxes in order -----------------------------------------------------------------------

    def _boxes(self, body: Body, wires: list[Buffer | None], loops: tuple[Loop, ...]) -> Body:
        """Reads the statements of a body in order, inside `loops`."""
        outside, self.statements = self.statements, []
        open_body = _OpenBody(body, loops, dict(enumerate(wires)))
        for statement in body.statements:
            match statement:
                case Load(values):
                    open_body.loads.update(values)
                    self.statements.append(statement)
                case Let(place=place) | For(place=place) if place >= 0:
                    self._box(open_body, place, statement)
                case _:
                    self.statements.append(statement)
        buffers, root = open_body.buffers, body.found.root
        made = [buffers[root[w]] if buffers[w] is not None else None for w in range(len(root))]
        statements, self.statements = self.statements, outside
        return replace(body, statements=statements, inputs=wires, made=made)

    def _box(self, body: _OpenBody, place: int, statement: Let | For) -> None:
        """Reads a box: its inputs are loaded, its results allocated, and the buffers freed whose last use this was."""
        node, buffers, first = body.graph.nodes[place], body.buffers, body.first[place]
        box = node.box
        if not isinstance(statement, For):
            self.statements.append(statement)
        wires = range(first, first + len(box.cod))
        if is_view(box):
            buffers[first] = buffers[node.inputs[0]]
            return
        if isinstance(box.op, GroupOp):
            raise CatdiagError(
                f"{box.name} is inside a loop: io() counts kernels with groups outside and loops inside; expected "
                f".group after .stream"
            )
        if place in body.found.in_place or all(body.free[w] for w in wires):
            buffers.update(dict.fromkeys(wires))
            return
        reads = [body.found.root[w] for w in node.inputs]
        if isinstance(statement, For):
            values = [None if body.loops or not self.values else self.values[w] for w in node.inputs]
            results = self._fold(statement, [buffers[w] for w in reads], values, body.loops)
            buffers.update(zip(wires, results, strict=True))
        else:
            if place in body.found.reduced:  # what was reduced in place is read here
                of = body.graph.nodes[body.found.reduced[place]].inputs
                reads = [body.found.root[w] for w in of] + [w for w in reads if buffers[w] is not None]
            for w in reads:
                if (b := buffers[w]) is not None and body.body.wires[w] in body.loads:
                    self._load(b)
            for k in range(len(box.cod)):
                self._result(body, place, node, k, reads)
            self.statements.append(Point(array_name(box) if box.cod else box.name))
        body.loads.difference_update(body.body.wires[w] for w in reads)
        for w in dict.fromkeys((*reads, *wires)):
            b = buffers[w]
            if b is not None and body.found.last_use[w] <= place and not b.pinned and b.loaded:
                self.statements.append(Dealloc(b))

    def _load(self, buffer: Buffer) -> None:
        """Loads an operand unless it is loaded already: it is live from here on."""
        if not buffer.loaded:
            buffer.loaded = True
            self.statements.append(Alloc(buffer, AllocatedLoad(buffer, buffer.interior if buffer.region else None)))

    def _result(self, body: _OpenBody, place: int, node: Node, k: int, reads: Sequence[int]) -> None:
        """Allocates result `k` of a box that reads these wires, over one of them that dies there if possible."""
        box, found, wire = node.box, body.found, body.first[place] + k
        ty = box.cod[k]
        ends = found.last_use[wire] == len(body.graph.nodes)
        role = "accumulator" if ends else "output" if wire in body.outputs else "temporary"
        levels = self._placed(role, ty)
        overwritten = self._overwritten(body, place, node, levels[-1])
        if overwritten is not None and (over := body.buffers[overwritten]) is not None:
            others = tuple(p for p in over.places if p != levels[-1])
            rest = replace(over, places=others) if others else None
            self.statements.append(Overwrite(over, rest))
            body.buffers[overwritten] = rest
        # What a kernel has made is read at other positions where it is: its threads have all elements.
        reversed_here = reverses(box.op) and reads[0] >= len(body.graph.dom)
        if overwritten is None and self.places.fleeting and (reversed_here or found.passes(body.graph, place)):
            made_of = [v for w in reads if body.buffers[w] is not None for v in found.view_sources.get(w, [w])]
            if self._sharing(ty, made_of, body.buffers, levels[-1]):
                levels = ()
                found.extend(wire, made_of)
        if isinstance(box.op, ScatterAdd):  # its entries are added where they belong at the end
            levels = ()
            found.extend(wire, [w for w in reads if body.buffers[w] is not None])
        size, width = IntPolynomial.elements(ty.axes), self.widths.by_producer(box, ty)
        result = Buffer(array_name(box, k), role, size, width, levels, axes=ty.axes)
        body.buffers[wire] = result
        self.statements.append(Alloc(result))

    def _placed(self, role: str, ty: ArrayType) -> tuple[str, ...]:
        """The levels at which a result with this role and type is allocated."""
        if self.places.matrix and frozenset(ty.names) in self.products:
            return (self.places.matrix,)
        return self.places.of(role)

    def _sharing(self, ty: ArrayType, wires: Sequence[int], buffers: Mapping[int, Buffer | None], where: str) -> bool:
        """Whether one of these arrays is allocated at a level and has as many elements as an array of type `ty`."""
        size = IntPolynomial.elements(ty.axes)
        return any((b := buffers[w]) is not None and where in b.places and b.size == size for w in wires)

    def _overwritten(self, body: _OpenBody, place: int, node: Node, where: str) -> int | None:
        """The input (its root wire) that the result of an elementwise box is written over at a level, or None.

        It dies at this box, and has the axes, the size and the width of the result. An array that a rematerialized
        input is recomputed from counts as an input, as its live range ends there too.
        """
        box, found = node.box, body.found
        if not elementwise(box):
            return None
        ty = box.cod[0]
        roots = [(found.root[w], set(box.dom[k].names)) for k, w in enumerate(node.inputs)]
        roots += [(v, names) for w, names in roots for v in found.view_sources.get(w, ())]
        for root, names in roots:
            b = body.buffers[root]
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

    # -- loops ------------------------------------------------------------------------------------

    def _fold(
        self, statement: For, inputs: Sequence[Buffer | None], known: Sequence[Bound | None], loops: tuple[Loop, ...]
    ) -> tuple[Buffer | None, ...]:
        """Reads a loop. Its resident inputs, the pipeline buffers of streamed blocks, and its states are live
        throughout; temporaries are live within an iteration, and so are blocks that it emits. Returns the buffers of
        the final states, and None for each emitted array.

        `known` are the index expressions of inputs that are positions, `loops` the loops around this one.
        """
        step = statement.step
        if step is None:
            raise CatdiagError(
                f"the loop over {statement.spans[0].axis!r} runs in parts inside another loop: expected parts in the "
                "outermost loop only, as the cost of others is not counted"
            )
        box, op = step.box, step.op
        loop = self._range(box, op, loops)
        bounds = self._bounds(box, op, known, loop, loops)
        if loop not in self.kernel.loops:
            self.kernel.loops.append(loop)
        outside, self.statements = self.statements, []
        states = self._states(box, op)
        inner = self._inputs(step, inputs, (*loops, loop), bounds)
        loaded = [s for s in self.statements if isinstance(s, Alloc)]
        blocks = [s.buffer for s in loaded if s.load is not None and s.load.operand is not s.buffer]
        self.statements += [*map(Alloc, states), Point(f"start of the loop over {op.axis}")]
        last_use = step.body.found.last_use
        self.statements += [Dealloc(state) for w, state in enumerate(states) if last_use[w] == -1]
        head, body = self.statements, self._boxes(step.body, [*states, *inner], (*loops, loop))
        results = tuple(replace(state) for state in states)
        tail = [*self._iteration_end(op, body, states), *map(Dealloc, blocks), *map(Alloc, results)]
        live = LoopBuffers(loop, tuple(inputs), head, body, tail, results)
        # An iteration is: slices, loads and the block test; the boxes of the step; new values of the states.
        after = 1 + op.emitted  # saves of emitted blocks, and the new values of states
        before = statement.body[: -after - len(step.body.statements)]
        iteration = [*before, *body.statements, *statement.body[-after:]]
        self.statements = [*outside, replace(statement, body=iteration, live=live)]
        return (*results, *[None] * op.emitted)

    def _range(self, box: Box, op: FoldOp, loops: tuple[Loop, ...]) -> Loop:
        """The block of a loop and the size of its axis. Raises CatdiagError for loops that are not counted."""
        if loops and self.places.state != self.places.temporary:
            raise CatdiagError(
                f"the loop over {op.axis!r} is inside another one, with temporaries at {self.places.temporary} and "
                f"states at {self.places.state}: expected both at one level, or loops one after the other"
            )
        axis_size = IntPolynomial.of(box.size_of(op.axis))
        clash = axis_size.symbols() & set(self.kernel.tiles)
        if clash:
            raise CatdiagError(
                f"axis {op.axis!r} is streamed in blocks and grouped in tiles of {', '.join(sorted(clash))}: "
                "group other axes than the streamed one"
            )
        return op.block, axis_size

    def _bounds(
        self, box: Box, op: FoldOp, inputs: Sequence[Bound | None], loop: Loop, loops: tuple[Loop, ...]
    ) -> LoopBounds | None:
        """The blocks that a loop runs, if it skips some; None if it runs all."""
        split = self.part_of if self.part_of is not None and self.part_of.axis == op.axis and not loops else None
        if split is None:
            bounds = bounds_of(box, inputs, self.kernel.tiles)
        else:  # bounds are about the whole axis, of which the loop runs a part
            whole = bounds_of(whole_axis(box, split), inputs, self.kernel.tiles)
            bounds = whole and whole.of_part(split.parts, split.single[0], split.length)
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

    def _states(self, box: Box, op: FoldOp) -> list[Buffer]:
        """The buffers of a loop's states."""
        found: list[Buffer] = []
        for k, ty in enumerate(op.step.dom.arrays[: op.state_count]):
            name = op.components[k] if k < len(op.components) else f"state {k}"
            size, width = IntPolynomial.elements(ty.axes), self.widths.on_chip(ty, name)
            found.append(Buffer(name, "accumulator", size, width, self._placed("accumulator", ty), axes=ty.axes))
        return found

    def _inputs(
        self, step: LoopStep, inputs: Sequence[Buffer | None], loops: tuple[Loop, ...], bounds: LoopBounds | None
    ) -> list[Buffer | None]:
        """The buffers that an iteration of the last of `loops` reads: resident inputs are loaded, streamed ones get
        pipeline buffers, and postponed ones are left to inner loops."""
        op, inner = step.op, dict[Buffer, Buffer]()
        tested = frozenset[Buffer | None]()
        if bounds is not None:
            tested = frozenset(inputs[k] for k in bounds.reads)
        blocks = op.step.dom.arrays[op.state_count :]
        for b, ty, access in zip(inputs, blocks, step.access, strict=True):
            if b is None or b in inner:
                continue
            if access == POSTPONED:
                reload_loops = b.reload_loops if ty.axis(op.axis) is not None else (*b.reload_loops, loops[-1])
                size = IntPolynomial.elements(ty.axes)
                inner[b] = replace(b, size=size, source=b.source or b, reload_loops=reload_loops)
            elif access == STREAMED:
                load = self._block_load(b, ty, loops, bounds, b in tested)
                block, buffers = box_of(ty, b.region), self.places.stages
                inner[b] = Buffer(
                    b.name, "streamed", block, b.width, self.places.streamed, pinned=True, stages=buffers,
                    dtype=b.dtype, axes=_streamed_axes(b, ty),
                )  # fmt: skip
                self.statements.append(Alloc(inner[b], load))
            else:
                self._load(b)
                inner[b] = replace(b, pinned=True)
        return [None if b is None else inner[b] for b in inputs]

    def _block_load(
        self, b: Buffer, ty: ArrayType, loops: tuple[Loop, ...], bounds: LoopBounds | None, tested: bool
    ) -> AllocatedLoad:
        """The load of an array of which the last of `loops` loads blocks of type `ty`. `tested` says that the test
        whether to run a block reads it."""
        if b.source is not None:
            return AllocatedLoad(b.source, loop_nest=b.reload_loops)
        if b.region and bounds is not None:
            raise CatdiagError(f"{b.name} is read in place in a loop that skips blocks: its loads are not counted")
        if b.region:
            return AllocatedLoad(b, interior_size(ty, b.region), None, loops)
        if bounds is None:
            return AllocatedLoad(b)
        # What the block test reads is loaded for each block that is tested.
        here = replace(bounds, tests_blocks=bounds.tests_blocks and not tested)
        return AllocatedLoad(b, IntPolynomial.elements(ty.axes), here, loops)

    def _iteration_end(self, op: FoldOp, body: Body, states: Sequence[Buffer]) -> list[Statement]:
        """The end of an iteration: each state needs a buffer of its own. Frees the buffers of the new states."""
        ends: dict[Buffer, None] = {}
        copies: list[Buffer] = []
        for k, w in enumerate(body.graph.outputs):
            b = body.made[w]
            if k >= len(states):
                ends |= {} if b is None or b.pinned else {b: None}
            elif b is None or b.pinned or b in ends:
                copies.append(replace(states[k]))
            else:
                ends[b] = None
        point: list[Statement] = [Point(f"end of the loop over {op.axis}", tuple(copies))] if copies else []
        return [*point, *map(Dealloc, ends)]


def _values(graph: Graph, wires: Sequence[Buffer | None]) -> list[NestValue]:
    """The inputs of a kernel's graph as values of a loop nest."""
    return [
        NestValue(ty, "", inlined=True) if b is None else NestValue(ty, b.name, slow=not b.loaded)
        for ty, b in zip(graph.dom, wires, strict=True)
    ]


def _streamed_axes(array: Buffer, block: ArrayType) -> tuple[Axis, ...]:
    """The axes of a block of an array in the order of memory; none where it is read through a view with other axes."""
    names = [axis.name for axis in array.axes]
    return in_memory_order(block.axes, names) if set(block.names) <= set(names) else ()
