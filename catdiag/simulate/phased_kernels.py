"""Kernels whose loop states are placed above the last level, run by the counting machine.

Such a kernel is a sequence of phases: a loop, or the boxes between two loops. Down to the home level of the states, all
tiles go through the phases together. Below it, tiles run one after the other, for each phase and each block of the
home level. A tile loads what it reads, and stores the states and what later phases read.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from catdiag.category.ops import FoldOp, array_name
from catdiag.execute.named_arrays import NamedArray
from catdiag.execute.size_inference import local_sizes
from catdiag.simulate.graph_readers import Outline, is_view
from catdiag.simulate.loop_iterations import MachineLoop
from catdiag.simulate.memory_cells import PASSED, RESIDENT, Allocation, MachineTile, MachineWire, blocks, value_count
from catdiag.simulate.on_chip_memory import Chip
from catdiag.simulate.read_regions import set_access_regions
from catdiag.util.errors import CatdiagError


@dataclass
class ExecutionPhase:
    """The boxes at `places`, the wires that they make (`produced`), and those that they read (array to view read).

    `before` are the places of views and of rematerialized arrays that come first.
    """

    before: list[int]
    places: list[int]
    loop: bool
    reads: dict[int, int] = field(default_factory=dict)
    produced: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class RetainedArray:
    """An array allocated at the home level from the phase that makes it to its last reader."""

    name: str
    width: int


class Phased:
    """One run of a kernel by the tiles of one group."""

    def __init__(self, chip: Chip, outline: Outline, root: MachineTile, copied: bool) -> None:
        chain = chip.chain
        if chain.work < chain.last:
            raise CatdiagError(
                f"states at {chain.names[chain.home]} and temporaries at {chain.names[chain.work]}: expected "
                f"temporaries at {chain.names[-1]} where states are above it"
            )
        self.chip, self.outline, self.root, self.copied, self.home = chip, outline, root, copied, chain.home
        self.below = copy(chip)
        self.below.chain = replace(chain, home=chain.last, output=())
        self.given = set(root.wires)
        self.phases = self.split_phases()
        self.retained = self.lasting()
        self.streamed: dict[MachineTile, set[Allocation]] = {}
        self.states: dict[MachineTile, Sequence[NamedArray]] = {}

    # -- phases and live ranges -------------------------------------------------------------------------------------

    def split_phases(self) -> list[ExecutionPhase]:
        """The phases, in order."""
        outline, graph = self.outline, self.outline.graph
        found: list[ExecutionPhase] = []
        waiting: list[int] = []
        for place in outline.places:
            box, made = graph.nodes[place].box, list(outline.output_wires(place))
            light = is_view(box) or (bool(made) and all(outline.rematerialized[w] for w in made))
            loop = isinstance(box.op, FoldOp)
            if light and not (found and not found[-1].loop):
                waiting.append(place)
                continue
            if not light and (loop or not found or found[-1].loop):
                found.append(ExecutionPhase(waiting, [], loop))
                waiting = []
            phase = found[-1]
            phase.places.append(place)
            if light:
                continue
            phase.produced += made
            for w in graph.nodes[place].inputs:
                source = w if w in self.given else outline.base[w]
                if not outline.rematerialized[w] and source not in phase.produced:
                    phase.reads.setdefault(source, w)
        return found

    def lasting(self) -> dict[int, RetainedArray]:
        """The arrays allocated at the home level between phases."""
        outline, widths = self.outline, self.chip.widths
        found: dict[int, RetainedArray] = {}
        for phase in self.phases:
            for w in phase.produced:
                if not phase.loop and not any(w in other.reads for other in self.phases):
                    continue
                place = outline.maker[w]
                box, k = outline.graph.nodes[place].box, w - outline.first[place]
                name, width = array_name(box, k), widths.of_result(box, k)
                if isinstance(box.op, FoldOp):
                    name = box.op.components[k] if k < len(box.op.components) else f"state {k}"
                    width = widths.state(box.op, k, box.cod[k])
                found[w] = RetainedArray(name, width)
        return found

    def is_streamed(self, tile: MachineTile, w: int) -> bool:
        """Whether a tile loads an array block by block."""
        return w in tile.wires and tile.wires[w].cell in self.streamed[tile]

    # -- down to the home ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs all phases."""
        chip, outline = self.chip, self.outline
        everyone = list(self.root.all())
        upper = [p for p in everyone if p.level <= self.home]
        self.lanes = [p for p in everyone if p.level == chip.chain.last]
        for tile in everyone:
            set_access_regions(outline, tile)
            self.look(tile, [place for place in outline.places if is_view(outline.graph.nodes[place].box)])
            self.streamed[tile] = chip.roles(outline, tile, self.copied)
        rooms: dict[tuple[MachineTile, int], int] = {}
        for number, phase in enumerate(self.phases):
            for lane in self.lanes:
                self.look(lane, phase.before)
            passing: list[tuple[MachineTile, int]] = []
            for tile in upper:
                for base, w in phase.reads.items():
                    if base not in self.given:
                        continue
                    if self.is_streamed(tile, w):
                        passing.append((tile, self.ring(tile, phase, w)))
                    else:
                        chip.fetch(tile, outline, w)
                for w in phase.produced:
                    amount = chip.length(tile, outline.types[w])
                    if w in self.retained and tile.level == self.home:
                        rooms[tile, w] = tile.memory.allocate(amount * self.retained[w].width)
                    elif w in outline.leaving and tile.level in chip.chain.output:
                        place = outline.maker[w]
                        box = outline.graph.nodes[place].box
                        made = chip.widths.of_result(box, w - outline.first[place])
                        width = self.retained[w].width if w in self.retained else made
                        passing.append((tile, tile.memory.allocate(amount * width)))
            self.work(phase, upper)
            for tile, amount in passing:
                tile.memory.free(amount)
            later = {w for other in self.phases[number + 1 :] for w in other.reads}
            for tile, w in [key for key in rooms if key[1] not in later]:
                tile.memory.free(rooms.pop((tile, w)))
            for tile in upper:
                ended = {tile.wires[w].cell for w in phase.reads if w in self.given}
                for cell in ended - {tile.wires[w].cell for w in later if w in self.given}:
                    if cell.loaded and cell.alive and not cell.rematerialized:
                        cell.free()
        for lane in self.lanes:
            self.look(lane, outline.places)
        if self.copied:
            self.copies()

    def look(self, tile: MachineTile, places: Sequence[int]) -> None:
        """Adds to a tile the views of the arrays that it has, and rematerialized arrays."""
        outline, graph, runner = self.outline, self.outline.graph, self.chip.runner
        for place in places:
            box, inputs, made = graph.nodes[place].box, graph.nodes[place].inputs, outline.output_wires(place)
            if any(w in tile.wires for w in made) or not all(w in tile.wires for w in inputs):
                continue
            if is_view(box):
                seen = tile.wires[inputs[0]]
                (value,) = runner.box(box, tuple(tile.wires[w].value for w in inputs), tile.sizes)
                tile.wires[made[0]] = MachineWire(seen.cell, value)
            elif box.cod and all(outline.rematerialized[w] for w in made):
                results = runner.box(box, tuple(tile.wires[w].value for w in inputs), tile.sizes)
                for w, value in zip(made, results, strict=True):
                    tile.wires[w] = MachineWire(Allocation(rematerialized=True), value)

    def ring(self, tile: MachineTile, phase: ExecutionPhase, w: int) -> int:
        """Allocates the ring of buffers for the blocks of a streamed array; returns its size in values or bytes."""
        chain, loop = self.chip.chain, self.loop(phase)
        cell = tile.wires[w].cell
        if not cell.room:
            return 0
        longest = loop.blocks[tile.level]
        part = tile.wires[w].value.sliced(loop.op.axis, 0, longest)
        local = local_sizes(tile.sizes, {loop.op.axis: (loop.op.block, longest)})
        amount = value_count(self.outline.types[w], part, local, cell.window) * cell.width
        return tile.memory.allocate(chain.stages[tile.level - 1] * amount)

    def loop(self, phase: ExecutionPhase) -> MachineLoop:
        """The loop of a phase, as the first tile of the last level runs it. Raises CatdiagError if it skips blocks."""
        (place,) = phase.places
        box = self.outline.graph.nodes[place].box
        assert isinstance(box.op, FoldOp)
        if box.op.bounds is not None or box.op.is_live is not None:
            raise CatdiagError(
                f"the loop over {box.op.axis!r} skips blocks: expected one memory on chip to count it, not more"
            )
        inputs = self.outline.graph.nodes[place].inputs
        return MachineLoop(self.below, box, box.op, inputs, self.outline, self.lanes[:1], {})

    def work(self, phase: ExecutionPhase, upper: Sequence[MachineTile]) -> None:
        """Runs a phase, block by block of the home level."""
        homes = [tile for tile in upper if tile.level == self.home]
        if not phase.loop:
            for home in homes:
                for child in home.children:
                    self.visit(child, phase, 0, 0)
            return
        loop = self.loop(phase)
        for lane in self.lanes:
            self.states[lane] = loop.unit(lane)

        def iterate(level: int, start: int, stop: int) -> None:
            # The recursion is as deep as there are levels of memory.
            for begin, end in blocks(start, stop, loop.blocks[level]):
                for tile in upper:
                    if tile.level == level:
                        self.arrive(tile, phase, loop, begin, end)
                if level < self.home:
                    iterate(level + 1, begin, end)
                    continue
                for home in homes:
                    for child in home.children:
                        self.visit(child, phase, begin, end)

        iterate(1, 0, loop.total)
        (place,) = phase.places
        for lane in self.lanes:
            self.store(lane, dict(zip(self.outline.output_wires(place), self.states[lane], strict=True)))

    def arrive(self, tile: MachineTile, phase: ExecutionPhase, loop: MachineLoop, begin: int, end: int) -> None:
        """Loads a block of each streamed array into the rings of a tile."""
        for w in phase.reads.values():
            if self.is_streamed(tile, w) and tile.wires[w].cell.room:
                loop.load_block(tile, tile.wires[w], self.outline.types[w], begin, end)

    # -- below the home level -----------------------------------------------------------------------------------------

    def visit(self, tile: MachineTile, phase: ExecutionPhase, start: int, stop: int) -> None:
        """One tile below the home level runs its part of a phase or block; states are loaded first and stored last.
        Raises RuntimeError where memory is not freed after it: a rule about live ranges is wrong."""
        chip, edge = self.chip, (tile.level - 1, tile.level)
        states = [(self.retained[w], chip.length(tile, self.outline.types[w])) for w in phase.produced if phase.loop]
        for kept, amount in states:
            chip.loads[edge][kept.name] += amount * kept.width
        if tile.level == chip.chain.last:
            self.compute(tile, phase, start, stop)
        else:
            self.pass_down(tile, phase, start, stop)
        for kept, amount in states:
            chip.saves[edge][kept.name] += amount * kept.width
        if tile.memory.allocated:
            raise RuntimeError(
                f"after a phase, a tile has {tile.memory.allocated} still allocated in memory "
                f"{chip.chain.names[tile.level]}: expected 0; a rule about live ranges is wrong"
            )

    def pass_down(self, tile: MachineTile, phase: ExecutionPhase, start: int, stop: int) -> None:
        """Between the home and the last level: what the phase loads stays allocated while the tiles below run."""
        chip, memory = self.chip, tile.memory
        allocated = 0
        fetched: list[Allocation] = []
        for base, w in phase.reads.items():
            ty = self.outline.types[w]
            if base not in self.given:
                amount = chip.length(tile, ty) * self.retained[base].width
                chip.loads[tile.level - 1, tile.level][self.retained[base].name] += amount
                allocated += memory.allocate(amount)
            elif self.is_streamed(tile, w):
                allocated += self.ring(tile, phase, w)
            else:
                cell = tile.wires[w].cell
                cell.loaded, cell.alive = False, True
                chip.fetch(tile, self.outline, w)
                fetched.append(cell)
        if phase.loop:
            for w in phase.produced:
                allocated += memory.allocate(chip.length(tile, self.outline.types[w]) * self.retained[w].width)
            loop = self.loop(phase)
            for begin, end in blocks(start, stop, loop.blocks[tile.level]):
                self.arrive(tile, phase, loop, begin, end)
                for child in tile.children:
                    self.visit(child, phase, begin, end)
        else:
            for child in tile.children:
                self.visit(child, phase, 0, 0)
        memory.free(allocated)
        for cell in dict.fromkeys(fetched):
            cell.free()

    def compute(self, leaf: MachineTile, phase: ExecutionPhase, start: int, stop: int) -> None:
        """Runs a phase at the last level, as a kernel of its own."""
        below, outline = self.below, self.outline
        fresh: dict[Allocation, Allocation] = {}
        wires: dict[int, MachineWire] = {}
        for w, wire in leaf.wires.items():
            cell = wire.cell
            if not cell.rematerialized:
                kind = cell.kind or ("" if cell in self.streamed[leaf] else RESIDENT)
                made = Allocation(cell.name, False, width=cell.width, above=cell.above, kind=kind, window=cell.window)
                cell = fresh.setdefault(cell, made)
            wires[w] = MachineWire(cell, wire.value)
        lane = replace(leaf, wires=wires, children=[])
        rematerialized = {w: wire.cell.rematerialized for w, wire in wires.items()}
        part = Outline(outline.graph, phase.places, rematerialized, 0, False)
        if not phase.loop:
            below.boxes(part, [lane], False)
            self.store(leaf, {w: wire.value for w, wire in lane.wires.items() if w not in leaf.wires})
            for w in phase.produced:
                if w in self.retained and w not in outline.leaving:
                    amount = below.length(leaf, outline.types[w]) * self.retained[w].width
                    for level in range(self.home + 1, leaf.level + 1):
                        self.chip.saves[level - 1, level][self.retained[w].name] += amount
            return
        (place,) = phase.places
        node = outline.graph.nodes[place]
        assert isinstance(node.box.op, FoldOp)
        streamed = below.roles(part, lane, False)
        loop = MachineLoop(below, node.box, node.box.op, node.inputs, part, [lane], {lane: streamed})
        loop.start(self.states[leaf])
        loop.iterations(leaf.level, start, stop)
        ended = loop.end()[lane]
        self.states[leaf] = [wire.value for wire in ended]
        for wire in ended:
            wire.cell.free()
        for cell in fresh.values():
            if cell.loaded and cell.alive:
                cell.free()

    def store(self, leaf: MachineTile, values: dict[int, NamedArray]) -> None:
        """Makes the results of a phase known to later phases, which load them again."""
        outline = self.outline
        for w, value in values.items():
            base = outline.base[w]
            if outline.rematerialized[w]:
                leaf.wires[w] = MachineWire(Allocation(rematerialized=True), value)
            elif base != w and base in leaf.wires:
                leaf.wires[w] = MachineWire(leaf.wires[base].cell, value)
            else:
                kept = self.retained.get(w)
                name, width = (kept.name, kept.width) if kept is not None else ("", 1)
                leaf.wires[w] = MachineWire(Allocation(name, False, width=width, kind=PASSED), value)

    def copies(self) -> None:
        """Loads the outputs that are inputs, at the end of the kernel."""
        chip, outline = self.chip, self.outline
        done: set[Allocation] = set()
        for w in dict.fromkeys(outline.base[w] for w in outline.graph.outputs):
            if outline.rematerialized[w] or w not in self.given or self.root.wires[w].cell in done:
                continue
            done.add(self.root.wires[w].cell)
            rooms: list[tuple[MachineTile, int]] = []
            for tile in self.root.all():
                if tile.level in chip.chain.operand:
                    cell, value = tile.wires[w].cell, tile.wires[w].value
                    amount = value_count(outline.types[w], value, tile.sizes) * cell.width
                    chip.arrive(tile, cell, value, amount, False, amount)
                    rooms.append((tile, tile.memory.allocate(amount)))
            for tile, amount in rooms:
                tile.memory.free(amount)
