"""A kernel whose loops keep their states above the innermost level: a sequence of phases (see
`catdiag.cost.traffic_by_level`).

Down to the states' home, what is live is counted phase by phase; below it each phase is walked as a kernel of its own,
which loads what it reads from above and saves what later phases and the next block need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Graph, Node
from catdiag.category.integer_polynomial import ZERO, IntPolynomial
from catdiag.category.ops import FoldOp, array_name
from catdiag.category.types import ArrayType, Ty
from catdiag.schedule.element_widths import Widths
from catdiag.schedule.liveness import (
    Buffer,
    LivenessWalk,
    Loop,
    LoweredKernel,
    Transfer,
    Walks,
    is_view,
    live_ranges,
    only_streamed,
    rematerialized,
)
from catdiag.schedule.placement import Placement
from catdiag.util.errors import CatdiagError

Incoming = Sequence[tuple[IntPolynomial, tuple[str, ...]]]


def part(
    graph: Graph,
    types: Sequence[ArrayType],
    free: Sequence[bool],
    root: Sequence[int],
    places: Sequence[int],
    leaving: Collection[int],
) -> tuple[Graph, list[int], list[int]]:
    """Some boxes of a graph as one, the wires outside that its inputs are, and those of `leaving` that it makes.

    Arrays that are computed on the spot it makes itself."""
    first: list[int] = []
    maker = [-1] * len(graph.dom)
    for place, node in enumerate(graph.nodes):
        first.append(len(maker))
        maker += [place] * len(node.box.cod)
    reached, todo = set(places), list(places)
    while todo:
        read = {maker[w] for w in graph.nodes[todo.pop()].inputs if free[w] and maker[w] >= 0} - reached
        read = {p for p in read if graph.nodes[p].inputs}
        reached |= read
        todo += read
    places = sorted(reached)
    inside = {first[p] + k for p in places for k in range(len(graph.nodes[p].box.cod))}
    outside: dict[int, int] = {}
    for p in places:
        for w in graph.nodes[p].inputs:
            source = w if free[w] else root[w]
            if source not in inside:
                outside.setdefault(source, len(outside))
    local: dict[int, int] = dict(outside)
    nodes: list[Node] = []
    count = len(outside)
    for p in places:
        node = graph.nodes[p]
        for w in node.inputs:
            if w not in local:  # a view made before these boxes, or between them
                local[w] = local[root[w]]
        nodes.append(Node(node.box, tuple(local[w] for w in node.inputs)))
        for k in range(len(node.box.cod)):
            local[first[p] + k] = count + k
        count += len(node.box.cod)
    ends = [w for w in sorted(inside) if w in leaving and not free[w]]
    dom = Ty(*(types[w] for w in outside))
    return Graph(dom, tuple(nodes), tuple(local[w] for w in ends)), list(outside), ends


@dataclass
class _Phase:
    """Boxes between two loops, or a loop: what it reads and makes, as wires that are no views."""

    places: list[int]
    loop: Loop | None = None
    reads: list[int] = field(default_factory=list)
    made: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _PhaseArray:
    """An array that one phase makes for others, or a loop for its next block: it lies at home as long as that."""

    name: str
    local: IntPolynomial
    width: int
    state: bool
    since: int
    until: int


class Phases:
    """The walk along one kernel in phases; `wires` are its inputs, `incoming` what they are as a whole."""

    def __init__(
        self,
        kernel: LoweredKernel,
        graph: Graph,
        wires: list[Buffer | None],
        incoming: Incoming,
        widths: Widths,
        places: Placement,
        walks: Walks = LivenessWalk,
    ) -> None:
        self.kernel, self.graph, self.wires, self.widths, self.places = kernel, graph, wires, widths, places
        self.incoming, self.walks = incoming, walks
        reached = next((b.name for b in wires if b is not None and b.region), None)
        if reached is not None:
            raise CatdiagError(
                f"of {reached} a group loads what its positions reach, which overlaps: that is not counted where "
                f"states are above the innermost level; expected them at {places.names[-1]}"
            )
        self.types = graph.wire_types()
        self.free = rematerialized(graph, [b is None for b in wires])
        self.root = live_ranges(graph, self.free, 0, False).root
        for buffer, only in zip(wires, only_streamed(graph, self.root, wires), strict=True):
            if buffer is not None:
                buffer.streamed_only = only
        home = places.names.index(places.state)
        self.upper, self.lower = places.names[: home + 1], places.names[home + 1 :]
        self.maker: dict[int, tuple[int, int]] = {}
        count = len(graph.dom)
        for place, node in enumerate(graph.nodes):
            self.maker.update({count + k: (place, k) for k in range(len(node.box.cod))})
            count += len(node.box.cod)
        self.phases = self._phases()
        self.ends = {self.root[w] for w in graph.outputs}
        self.arrays = self._arrays()
        self.transfers: list[Transfer] = []

    def _phases(self) -> list[_Phase]:
        found: list[_Phase] = []
        open_run = False
        for place, node in enumerate(self.graph.nodes):
            made = [w for w, (p, _) in self.maker.items() if p == place]
            op = node.box.op
            if is_view(node.box) or (made and all(self.free[w] for w in made)):
                continue
            if isinstance(op, FoldOp):
                whole = next(
                    (IntPolynomial.of(a.size) for t in node.box.dom if (a := t.axis(op.axis)) is not None), ZERO
                )
                found.append(_Phase([], (op.block, whole)))
            elif not open_run:
                found.append(_Phase([]))
            open_run = not isinstance(op, FoldOp)
            phase = found[-1]
            phase.places.append(place)
            phase.made += made
            reads = [self.root[w] for w in node.inputs if not self.free[w]]
            phase.reads = list(dict.fromkeys([*phase.reads, *(w for w in reads if w not in phase.made)]))
        return found

    def _arrays(self) -> dict[int, _PhaseArray]:
        found: dict[int, _PhaseArray] = {}
        for number, phase in enumerate(self.phases):
            for w in phase.made:
                later = [n for n, other in enumerate(self.phases) if w in other.reads]
                if phase.loop is None and not later:
                    continue
                place, k = self.maker[w]
                box = self.graph.nodes[place].box
                name, width = array_name(box, k), self.widths.by_producer(box, self.types[w])
                if isinstance(box.op, FoldOp):
                    name = box.op.components[k] if k < len(box.op.components) else f"state {k}"
                    width = self.widths.on_chip(self.types[w], name)
                local = IntPolynomial.elements(self.types[w].axes)
                found[w] = _PhaseArray(name, local, width, phase.loop is not None, number, max([number, *later]))
        return found

    def run(self) -> tuple[list[Transfer], list[str]]:
        """What is loaded, and what moves between the home and the levels below; and the roles of the outputs."""
        loads: dict[int, int] = {}
        for phase in self.phases:
            self._below(phase, loads)
            self._aside(phase)
        self._above()
        copied = [w for w in self.ends if w < len(self.wires) and not self.free[w]]
        self._copies(copied)
        upper = []
        for w, (amount, again) in enumerate(self.incoming):
            buffer = self.wires[w]
            if buffer is None or not (loads.get(w) or w in copied):
                continue
            role = "streamed" if buffer.streamed_only else "operand"
            path = tuple(p for p in self.places.path(role) if p not in self.lower)
            times = loads[w] if buffer.streamed_only else int(bool(loads.get(w)))
            whole = self.places.path(role)
            if times:
                moved = amount.scaled(buffer.width * times)
                upper.append(Transfer(buffer.name, "load", moved, again, role, path, times=times, wire=buffer.wire))
            if w in copied:
                upper.append(
                    Transfer(buffer.name, "load", amount.scaled(buffer.width), again, role, whole, wire=buffer.wire)
                )
        return [*upper, *self.transfers], [self._role(w) for w in self.graph.outputs]

    def _role(self, w: int) -> str:
        w = self.root[w]
        if self.free[w]:
            return "spot"
        if w < len(self.wires):
            return "operand"
        return "accumulator" if w in self.arrays and self.arrays[w].state else "output"

    def _below(self, phase: _Phase, loads: dict[int, int]) -> None:
        """One phase at the innermost level, and what it moves."""
        last = self.lower[-1]
        leaving = {w for w in phase.made if w in self.arrays or w in self.ends}
        graph, outside, ends = part(self.graph, self.types, self.free, self.root, phase.places, leaving)
        inside: list[Buffer | None] = []
        for w in outside:
            if self.free[w]:
                inside.append(None)
            elif w in self.arrays:
                held = self.arrays[w]
                inside.append(Buffer(held.name, "operand", held.local, held.width, (last,), loaded=False))
            else:
                given = self.wires[w]
                assert given is not None
                there = (last,) if last in self.places.operand else ()
                inside.append(replace(given, places=there, loaded=False, loads=0))
        walk = self.walks(self.kernel, self.widths, _only(self.places, (last,)), (self.graph, outside, ends))
        walk.body(graph, inside)
        for w, buffer in zip(outside, inside, strict=True):
            if buffer is None or not buffer.loads:
                continue
            if w in self.arrays:
                held = self.arrays[w]
                self._moved(held, "load", "passed", phase.loop)
                continue
            loads[w] = loads.get(w, 0) + buffer.loads
            role = "streamed" if buffer.streamed_only else "operand"
            path = self.places.path(role)
            kept = [p for p in path if p not in self.lower]
            amount, again = self.incoming[w]
            iteration = None if buffer.streamed_only else phase.loop
            self.transfers.append(
                Transfer(
                    buffer.name,
                    "load",
                    amount.scaled(buffer.width * buffer.loads),
                    again,
                    role,
                    (kept[-1], *path[len(kept) :]),
                    iteration,
                )
            )
        for w in phase.made:
            if w in self.arrays and phase.loop is not None:
                self._moved(self.arrays[w], "load", "state", phase.loop)
                self._moved(self.arrays[w], "save", "state", phase.loop)
            elif w in self.arrays and w not in self.ends:
                self._moved(self.arrays[w], "save", "passed", None)

    def _moved(self, held: _PhaseArray, direction: str, role: str, iteration: Loop | None) -> None:
        """An array that moves between home and the levels below; one transfer for each product of sizes in it."""
        path = (self.places.state, *self.lower)
        for monomial, number in held.local.terms.items():
            again = tuple(t for t in self.kernel.tiles if t not in monomial)
            amount = IntPolynomial({(): number * held.width})
            for size in monomial:
                amount = amount * self.kernel.tiles.get(size, IntPolynomial.of(size))
            self.transfers.append(Transfer(held.name, direction, amount, again, role, path, iteration))

    def _aside(self, phase: _Phase) -> None:
        """One phase at the levels between home and the innermost: all that it loads."""
        between = self.lower[:-1]
        if not between:
            return
        walk = self.walks(self.kernel, self.widths, _only(self.places, between), None)
        for buffer in self._loaded(phase, between):
            walk.add(buffer)
        walk.note(self._words(phase))

    def _above(self) -> None:
        """All phases at the levels down to the states' home."""
        walk = self.walks(self.kernel, self.widths, _only(self.places, self.upper), None)
        held: dict[int, Buffer] = {}
        for number, phase in enumerate(self.phases):
            passing: list[Buffer] = []
            for w in phase.reads:
                given = self.wires[w] if w < len(self.wires) else None
                if given is None or w in held:
                    continue
                buffer = self._copy(given, phase, self.upper)
                if given.streamed_only:
                    passing.append(buffer)
                else:
                    held[w] = buffer
                    walk.add(buffer)
            for w in phase.made:
                if w in self.arrays:
                    found = self.arrays[w]
                    role = "accumulator" if found.state else "temporary"
                    held[w] = Buffer(found.name, role, found.local, found.width, (self.places.state,))
                    walk.add(held[w])
                there = held[w].places if w in held else ()
                extra = tuple(p for p in self.places.output if p in self.upper and p not in there)
                if w in self.ends and extra:
                    place, k = self.maker[w]
                    box = self.graph.nodes[place].box
                    width = held[w].width if w in held else self.widths.by_producer(box, self.types[w])
                    size = IntPolynomial.elements(self.types[w].axes)
                    passing.append(Buffer(array_name(box, k), "output", size, width, extra))
            for buffer in passing:
                walk.add(buffer)
            walk.note(self._words(phase))
            for buffer in passing:
                walk.drop(buffer)
            for w in list(held):
                if not any(w in later.reads for later in self.phases[number + 1 :]):
                    walk.drop(held.pop(w))

    def _copies(self, copied: Sequence[int]) -> None:
        """Outputs that are inputs, at the end."""
        for w in copied:
            given = self.wires[w]
            if given is not None:
                walk = self.walks(self.kernel, self.widths, self.places, None)
                walk.add(replace(given, places=self.places.operand))
                walk.note("copy")

    def _copy(self, given: Buffer, phase: _Phase, places: Sequence[str]) -> Buffer:
        """What of an operand, or of a streamed array's block, lies at some levels."""
        if not given.streamed_only:
            return replace(given, places=tuple(p for p in self.places.operand if p in places))
        node = self.graph.nodes[phase.places[0]]
        assert isinstance(node.box.op, FoldOp)
        k = next(k for k, w in enumerate(node.inputs) if self.wires[self.root[w]] is given)
        ty = node.box.op.step.dom[len(node.box.cod) + k]
        there = tuple(p for p in self.places.streamed if p in places)
        stages: Mapping[str, int] = self.places.stages
        return Buffer(given.name, "streamed", IntPolynomial.elements(ty.axes), given.width, there, stages=stages)

    def _loaded(self, phase: _Phase, places: Sequence[str]) -> list[Buffer]:
        """What a phase loads."""
        found: list[Buffer] = []
        for w in phase.reads:
            given = self.wires[w] if w < len(self.wires) else None
            if given is not None:
                found.append(self._copy(given, phase, places))
            elif w in self.arrays:
                held = self.arrays[w]
                found.append(Buffer(held.name, "operand", held.local, held.width, tuple(places)))
        for w in phase.made:
            if w in self.arrays and self.arrays[w].state:
                held = self.arrays[w]
                found.append(Buffer(held.name, "accumulator", held.local, held.width, tuple(places)))
        return found

    def _words(self, phase: _Phase) -> str:
        return f"loop over {phase.loop[0]}" if phase.loop else self.graph.nodes[phase.places[-1]].box.name


def _only(places: Placement, names: tuple[str, ...]) -> Placement:
    """The places where only some of them are counted; what is made is at the last."""
    return Placement(
        names,
        tuple(p for p in places.operand if p in names),
        tuple(p for p in places.streamed if p in names),
        names[-1],
        names[-1],
        (),
        places.stages,
    )
