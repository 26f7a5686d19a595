"""A kernel whose loops keep their states above the innermost level (in shared memory, say): a sequence of phases.

A phase is a loop, or the boxes between two loops. The *home* is the level of the states. From slow memory down to the
home, liveness is counted phase by phase. Below the home, each phase is analyzed as a kernel of its own: it loads from
the home what it reads, and saves what later phases and the next block need. The rules are stated in
`catdiag.cost.traffic_by_level`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from catdiag.category.diagram import Graph
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import FoldOp, array_name
from catdiag.schedule.contractions import Loop
from catdiag.schedule.element_widths import Widths
from catdiag.schedule.kernel_cut import PhaseBoxes, phase_cut, subgraph
from catdiag.schedule.live_ranges import only_streamed, rematerialized, view_roots
from catdiag.schedule.liveness import KernelLowering
from catdiag.schedule.lowered_kernel import LoweredKernel, Transfer
from catdiag.schedule.peak_memory import PeakMemory
from catdiag.schedule.placement import Placement
from catdiag.schedule.statements import Buffer
from catdiag.util.errors import CatdiagError

Incoming = Sequence[tuple[IntPolynomial, tuple[str, ...]]]


@dataclass(frozen=True)
class _PhaseArray:
    """An array that one phase makes for others, or a loop for its next block."""

    name: str
    local: IntPolynomial
    width: int
    state: bool


class Phases:
    """The liveness analysis of one kernel in phases. `wires` are the buffers of its inputs; `incoming` gives the size
    of each input as a whole and the tiles that load it again."""

    def __init__(
        self,
        kernel: LoweredKernel,
        graph: Graph,
        wires: list[Buffer | None],
        incoming: Incoming,
        widths: Widths,
        places: Placement,
    ) -> None:
        self.kernel, self.graph, self.wires, self.widths, self.places = kernel, graph, wires, widths, places
        self.incoming = incoming
        in_place = next((b.name for b in wires if b is not None and b.region), None)
        if in_place is not None:
            raise CatdiagError(
                f"{in_place} is read in place: the footprints of neighboring groups overlap, which is not counted "
                f"where states are above the innermost level; expected states at {places.names[-1]}"
            )
        self.types = graph.wire_types()
        self.free = rematerialized(graph, [b is None for b in wires])
        self.root = view_roots(graph)
        for buffer, only in zip(wires, only_streamed(graph, wires), strict=True):
            if buffer is not None:
                buffer.streamed_only = only
        home = places.names.index(places.state)
        self.upper, self.lower = places.names[: home + 1], places.names[home + 1 :]
        first = graph.first_wires()
        self.maker = {w: (place, w - first[place]) for w, place in enumerate(graph.makers()) if place >= 0}
        self.phases = phase_cut(graph, self.free)
        self.ends = {self.root[w] for w in graph.outputs}
        self.arrays = self._arrays()
        self.transfers: list[Transfer] = []

    def _arrays(self) -> dict[int, _PhaseArray]:
        """The arrays that are passed from phase to phase, or from block to block, by wire."""
        found: dict[int, _PhaseArray] = {}
        for phase in self.phases:
            for w in phase.made:
                if phase.loop is None and not any(w in other.reads for other in self.phases):
                    continue
                place, k = self.maker[w]
                box = self.graph.nodes[place].box
                name, width = array_name(box, k), self.widths.by_producer(box, self.types[w])
                if isinstance(box.op, FoldOp):
                    name = box.op.components[k] if k < len(box.op.components) else f"state {k}"
                    width = self.widths.on_chip(self.types[w], name)
                local = IntPolynomial.elements(self.types[w].axes)
                found[w] = _PhaseArray(name, local, width, phase.loop is not None)
        return found

    def run(self) -> tuple[list[Transfer], list[str]]:
        """The transfers: loads from slow memory, and moves between the home and the levels below. And the roles of the
        outputs."""
        loads: dict[int, int] = {}
        for phase in self.phases:
            self._below(phase, loads)
            self._aside(phase)
        self._above()
        copied = [w for w in self.ends if w < len(self.wires) and not self.free[w]]
        self._copies(copied)
        upper = []
        for w, (elements, reload_axes) in enumerate(self.incoming):
            buffer = self.wires[w]
            if buffer is None or not (loads.get(w) or w in copied):
                continue
            role = "streamed" if buffer.streamed_only else "operand"
            path = tuple(p for p in self.places.path(role) if p not in self.lower)
            times = loads[w] if buffer.streamed_only else int(bool(loads.get(w)))
            whole = self.places.path(role)
            if times:
                moved = elements.scaled(buffer.width * times)
                upper.append(
                    Transfer(buffer.name, "load", moved, reload_axes, role, path, times=times, wire=buffer.wire)
                )
            if w in copied:
                upper.append(
                    Transfer(
                        buffer.name, "load", elements.scaled(buffer.width), reload_axes, role, whole, wire=buffer.wire
                    )
                )
        return [*upper, *self.transfers], [self._role(w) for w in self.graph.outputs]

    def _role(self, w: int) -> str:
        """The role of what is saved as an output (see `Transfer.role`)."""
        w = self.root[w]
        if self.free[w]:
            return "rematerialized"
        if w < len(self.wires):
            return "operand"
        return "accumulator" if w in self.arrays and self.arrays[w].state else "output"

    def _below(self, phase: PhaseBoxes, loads: dict[int, int]) -> None:
        """Analyzes one phase at the innermost level, and adds its transfers; `loads` counts the loads by input."""
        last = self.lower[-1]
        leaving = {w for w in phase.made if w in self.arrays or w in self.ends}
        part = subgraph(self.graph, self.types, self.free, phase.places, leaving)
        outside = part.inputs
        inside: list[Buffer | None] = []
        for w in outside:
            if self.free[w]:
                inside.append(None)
            elif w in self.arrays:
                array = self.arrays[w]
                inside.append(Buffer(array.name, "operand", array.local, array.width, (last,), loaded=False))
            else:
                source = self.wires[w]
                assert source is not None
                there = (last,) if last in self.places.operand else ()
                inside.append(replace(source, places=there, loaded=False))
        walk = KernelLowering(self.kernel, self.widths, _only(self.places, (last,)))
        walk.body(part.graph, inside, (self.graph, outside, part.outputs))
        read = self.kernel.parts[-1].loads()
        for w, buffer in zip(outside, inside, strict=True):
            times = 0 if buffer is None else sum(load.is_plain for load in read.get(buffer, ()))
            if buffer is None or not times:
                continue
            if w in self.arrays:
                array = self.arrays[w]
                self._moved(array, "load", "passed", phase.loop)
                continue
            loads[w] = loads.get(w, 0) + times
            role = "streamed" if buffer.streamed_only else "operand"
            path = self.places.path(role)
            upper_path = [p for p in path if p not in self.lower]
            amount, reload_axes = self.incoming[w]
            iteration = None if buffer.streamed_only else phase.loop
            self.transfers.append(
                Transfer(
                    buffer.name,
                    "load",
                    amount.scaled(buffer.width * times),
                    reload_axes,
                    role,
                    (upper_path[-1], *path[len(upper_path) :]),
                    iteration,
                )
            )
        for w in phase.made:
            if w in self.arrays and phase.loop is not None:
                self._moved(self.arrays[w], "load", "state", phase.loop)
                self._moved(self.arrays[w], "save", "state", phase.loop)
            elif w in self.arrays and w not in self.ends:
                self._moved(self.arrays[w], "save", "passed", None)

    def _moved(self, array: _PhaseArray, direction: str, role: str, iteration: Loop | None) -> None:
        """Adds the transfers of an array between the home and the levels below: one for each monomial of its size."""
        path = (self.places.state, *self.lower)
        for monomial, number in array.local.terms.items():
            reload_axes = tuple(t for t in self.kernel.tiles if t not in monomial)
            amount = IntPolynomial({(): number * array.width})
            for size in monomial:
                amount = amount * self.kernel.tiles.get(size, IntPolynomial.of(size))
            self.transfers.append(Transfer(array.name, direction, amount, reload_axes, role, path, iteration))

    def _aside(self, phase: PhaseBoxes) -> None:
        """Analyzes one phase at the levels between the home and the innermost one, where all that it loads is
        allocated."""
        between = self.lower[:-1]
        if not between:
            return
        walk = PeakMemory(self.kernel.points, between)
        for buffer in self._loaded(phase, between):
            walk.add(buffer)
        walk.note(self._words(phase))
        self.kernel.parts[-1].around.extend(walk.present)

    def _above(self) -> None:
        """Analyzes all phases at the levels from slow memory down to the home."""
        walk = PeakMemory(self.kernel.points, self.upper)
        allocated: dict[int, Buffer] = {}
        for number, phase in enumerate(self.phases):
            passing: list[Buffer] = []
            for w in phase.reads:
                given = self._given(w)
                if given is None or w in allocated:
                    continue
                buffer = self._copy(given, phase, self.upper)
                if given.streamed_only:
                    passing.append(buffer)
                else:
                    allocated[w] = buffer
                    walk.add(buffer)
            for w in phase.made:
                if w in self.arrays:
                    found = self.arrays[w]
                    role = "accumulator" if found.state else "temporary"
                    allocated[w] = Buffer(found.name, role, found.local, found.width, (self.places.state,))
                    walk.add(allocated[w])
                there = allocated[w].places if w in allocated else ()
                extra = tuple(p for p in self.places.output if p in self.upper and p not in there)
                if w in self.ends and extra:
                    place, k = self.maker[w]
                    box = self.graph.nodes[place].box
                    width = allocated[w].width if w in allocated else self.widths.by_producer(box, self.types[w])
                    size = IntPolynomial.elements(self.types[w].axes)
                    passing.append(Buffer(array_name(box, k), "output", size, width, extra))
            for buffer in passing:
                walk.add(buffer)
            walk.note(self._words(phase))
            self.kernel.parts[number].around[:0] = walk.present
            for buffer in passing:
                walk.drop(buffer)
            for w in list(allocated):
                if not any(w in later.reads for later in self.phases[number + 1 :]):
                    walk.drop(allocated.pop(w))

    def _copies(self, copied: Sequence[int]) -> None:
        """Notes outputs that are inputs unchanged, which are loaded and saved at the end."""
        for w in copied:
            given = self.wires[w]
            if given is not None:
                walk = PeakMemory(self.kernel.points, self.places.names)
                self.kernel.copied.append(replace(given, places=self.places.operand))
                walk.add(self.kernel.copied[-1])
                walk.note("copy")

    def _given(self, w: int) -> Buffer | None:
        """The buffer of an input of the kernel; None for what a phase makes, and for what is rematerialized."""
        return self.wires[w] if w < len(self.wires) else None

    def _copy(self, given: Buffer, phase: PhaseBoxes, places: Sequence[str]) -> Buffer:
        """The buffer of an operand, or of a block of a streamed array, at some levels."""
        if not given.streamed_only:
            return replace(given, places=tuple(p for p in self.places.operand if p in places))
        node = self.graph.nodes[phase.places[0]]
        assert isinstance(node.box.op, FoldOp)
        k = next(k for k, w in enumerate(node.inputs) if self._given(self.root[w]) is given)
        ty = node.box.op.step.dom[node.box.op.state_count + k]
        there = tuple(p for p in self.places.streamed if p in places)
        stages: Mapping[str, int] = self.places.stages
        size = IntPolynomial.elements(ty.axes)
        return Buffer(given.name, "streamed", size, given.width, there, stages=stages, dtype=given.dtype)

    def _loaded(self, phase: PhaseBoxes, places: Sequence[str]) -> list[Buffer]:
        """The buffers that a phase loads."""
        found: list[Buffer] = []
        for w in phase.reads:
            given = self._given(w)
            if given is not None:
                found.append(self._copy(given, phase, places))
            elif w in self.arrays:
                array = self.arrays[w]
                found.append(Buffer(array.name, "operand", array.local, array.width, tuple(places)))
        for w in phase.made:
            if w in self.arrays and self.arrays[w].state:
                array = self.arrays[w]
                found.append(Buffer(array.name, "accumulator", array.local, array.width, tuple(places)))
        return found

    def _words(self, phase: PhaseBoxes) -> str:
        """The name of a phase in reports."""
        return f"loop over {phase.loop[0]}" if phase.loop else self.graph.nodes[phase.places[-1]].box.name


def _only(places: Placement, names: tuple[str, ...]) -> Placement:
    """The placement with only some of the levels. Results are at the last of them."""
    return Placement(
        names,
        tuple(p for p in places.operand if p in names),
        tuple(p for p in places.streamed if p in names),
        names[-1],
        names[-1],
        (),
        places.stages,
    )
