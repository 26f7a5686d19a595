"""Kernels whose loop states are placed above the last level, run by the counting machine.

Such a kernel is a sequence of phases: a loop, or the boxes between two loops. Down to the home level of the states, all
pieces go through the phases together. Below it, pieces run one after the other, for each phase and each block of the
home level. A piece loads what it reads, and stores the states and what later phases read.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from catdiag.category.ops import Fold, array_name
from catdiag.execute.named_arrays import Named
from catdiag.execute.size_inference import local_sizes
from catdiag.simulate.graph_readers import Outline, is_view
from catdiag.simulate.loop_iterations import Loop
from catdiag.simulate.memory_cells import PASSED, RESIDENT, Cell, Piece, Wire, cut, extent
from catdiag.simulate.on_chip_memory import Chip
from catdiag.simulate.read_regions import windows
from catdiag.util.errors import CatdiagError


@dataclass
class Phase:
    """The boxes at `places`, the wires that they make (`made`), and those that they read (array to view read).

    `before` are the places of views and of rematerialized arrays that come first.
    """

    before: list[int]
    places: list[int]
    loop: bool
    reads: dict[int, int] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Kept:
    """An array allocated at the home level from the phase that makes it to its last reader, phase number `until`."""

    name: str
    width: int
    state: bool
    until: int


class Phased:
    """One run of a kernel by the pieces of one group."""

    def __init__(self, chip: Chip, outline: Outline, root: Piece, copied: bool) -> None:
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
        self.phases = self.cut_up()
        self.kept = self.lasting()
        self.streamed: dict[Piece, set[Cell]] = {}
        self.states: dict[Piece, Sequence[Named]] = {}

    # -- phases and live ranges -------------------------------------------------------------------------------------

    def cut_up(self) -> list[Phase]:
        """The phases, in order."""
        outline, graph = self.outline, self.outline.graph
        found: list[Phase] = []
        waiting: list[int] = []
        for place in outline.places:
            box, made = graph.nodes[place].box, list(outline.made(place))
            light = is_view(box) or (bool(made) and all(outline.spot[w] for w in made))
            loop = isinstance(box.op, Fold)
            if light and not (found and not found[-1].loop):
                waiting.append(place)
                continue
            if not light and (loop or not found or found[-1].loop):
                found.append(Phase(waiting, [], loop))
                waiting = []
            phase = found[-1]
            phase.places.append(place)
            if light:
                continue
            phase.made += made
            for w in graph.nodes[place].inputs:
                source = w if w in self.given else outline.base[w]
                if not outline.spot[w] and source not in phase.made:
                    phase.reads.setdefault(source, w)
        return found

    def lasting(self) -> dict[int, Kept]:
        """The arrays allocated at the home level between phases, with their live ranges."""
        outline, widths = self.outline, self.chip.widths
        found: dict[int, Kept] = {}
        for number, phase in enumerate(self.phases):
            for w in phase.made:
                later = [n for n, other in enumerate(self.phases) if w in other.reads]
                if not phase.loop and not later:
                    continue
                place = outline.maker[w]
                box, k = outline.graph.nodes[place].box, w - outline.first[place]
                name, width = array_name(box, k), widths.made(box, k)
                if isinstance(box.op, Fold):
                    name = box.op.components[k] if k < len(box.op.components) else f"state {k}"
                    width = widths.state(box.op, k, box.cod[k])
                found[w] = Kept(name, width, phase.loop, max([number, *later]))
        return found

    def is_streamed(self, piece: Piece, w: int) -> bool:
        """Whether a piece loads an array block by block."""
        return w in piece.wires and piece.wires[w].cell in self.streamed[piece]

    # -- down to the home ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs all phases."""
        chip, outline = self.chip, self.outline
        everyone = list(self.root.all())
        upper = [p for p in everyone if p.level <= self.home]
        self.lanes = [p for p in everyone if p.level == chip.chain.last]
        for piece in everyone:
            windows(outline, piece)
            self.look(piece, [place for place in outline.places if is_view(outline.graph.nodes[place].box)])
            self.streamed[piece] = chip.roles(outline, piece, self.copied)
        rooms: dict[tuple[Piece, int], int] = {}
        for number, phase in enumerate(self.phases):
            for lane in self.lanes:
                self.look(lane, phase.before)
            passing: list[tuple[Piece, int]] = []
            for piece in upper:
                for base, w in phase.reads.items():
                    if base not in self.given:
                        continue
                    if self.is_streamed(piece, w):
                        passing.append((piece, self.ring(piece, phase, w)))
                    else:
                        chip.fetch(piece, outline, w)
                for w in phase.made:
                    amount = chip.length(piece, outline.types[w])
                    if w in self.kept and piece.level == self.home:
                        rooms[piece, w] = piece.memory.allocate(amount * self.kept[w].width)
                    elif w in outline.leaving and piece.level in chip.chain.output:
                        place = outline.maker[w]
                        box = outline.graph.nodes[place].box
                        made = chip.widths.made(box, w - outline.first[place])
                        width = self.kept[w].width if w in self.kept else made
                        passing.append((piece, piece.memory.allocate(amount * width)))
            self.work(phase, upper)
            for piece, amount in passing:
                piece.memory.free(amount)
            later = {w for other in self.phases[number + 1 :] for w in other.reads}
            for piece, w in [key for key in rooms if key[1] not in later]:
                piece.memory.free(rooms.pop((piece, w)))
            for piece in upper:
                ended = {piece.wires[w].cell for w in phase.reads if w in self.given}
                for cell in ended - {piece.wires[w].cell for w in later if w in self.given}:
                    if cell.loaded and cell.alive and not cell.spot:
                        cell.free()
        for lane in self.lanes:
            self.look(lane, outline.places)
        if self.copied:
            self.copies()

    def look(self, piece: Piece, places: Sequence[int]) -> None:
        """Adds to a piece the views of the arrays that it has, and rematerialized arrays."""
        outline, graph, runner = self.outline, self.outline.graph, self.chip.runner
        for place in places:
            box, inputs, made = graph.nodes[place].box, graph.nodes[place].inputs, outline.made(place)
            if any(w in piece.wires for w in made) or not all(w in piece.wires for w in inputs):
                continue
            if is_view(box):
                seen = piece.wires[inputs[0]]
                (value,) = runner.box(box, tuple(piece.wires[w].value for w in inputs), piece.sizes)
                piece.wires[made[0]] = Wire(seen.cell, value)
            elif box.cod and all(outline.spot[w] for w in made):
                results = runner.box(box, tuple(piece.wires[w].value for w in inputs), piece.sizes)
                for w, value in zip(made, results, strict=True):
                    piece.wires[w] = Wire(Cell(spot=True), value)

    def ring(self, piece: Piece, phase: Phase, w: int) -> int:
        """Allocates the ring of buffers for the blocks of a streamed array; returns its size in values or bytes."""
        chain, loop = self.chip.chain, self.loop(phase)
        cell = piece.wires[w].cell
        if not cell.room:
            return 0
        longest = loop.blocks[piece.level]
        part = piece.wires[w].value.cut(loop.op.axis, 0, longest)
        local = local_sizes(piece.sizes, {loop.op.axis: (loop.op.block, longest)})
        amount = extent(self.outline.types[w], part, local, cell.window) * cell.width
        return piece.memory.allocate(chain.stages[piece.level - 1] * amount)

    def loop(self, phase: Phase) -> Loop:
        """The loop of a phase, as the first piece of the last level runs it. Raises CatdiagError if it skips blocks."""
        (place,) = phase.places
        box = self.outline.graph.nodes[place].box
        assert isinstance(box.op, Fold)
        if box.op.extent is not None or box.op.live is not None:
            raise CatdiagError(
                f"the loop over {box.op.axis!r} skips blocks: expected one memory on chip to count it, not more"
            )
        inputs = self.outline.graph.nodes[place].inputs
        return Loop(self.below, box, box.op, inputs, self.outline, self.lanes[:1], {})

    def work(self, phase: Phase, upper: Sequence[Piece]) -> None:
        """Runs a phase, block by block of the home level."""
        homes = [piece for piece in upper if piece.level == self.home]
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
            for begin, end in cut(start, stop, loop.blocks[level]):
                for piece in upper:
                    if piece.level == level:
                        self.arrive(piece, phase, loop, begin, end)
                if level < self.home:
                    iterate(level + 1, begin, end)
                    continue
                for home in homes:
                    for child in home.children:
                        self.visit(child, phase, begin, end)

        iterate(1, 0, loop.total)
        (place,) = phase.places
        for lane in self.lanes:
            self.store(lane, dict(zip(self.outline.made(place), self.states[lane], strict=True)))

    def arrive(self, piece: Piece, phase: Phase, loop: Loop, begin: int, end: int) -> None:
        """Loads a block of each streamed array into the rings of a piece."""
        axis = loop.op.axis
        local = local_sizes(piece.sizes, {axis: (loop.op.block, end - begin)})
        for w in phase.reads.values():
            if not self.is_streamed(piece, w) or not piece.wires[w].cell.room:
                continue
            cell, value, ty = piece.wires[w].cell, piece.wires[w].value, self.outline.types[w]
            source = cell.source()
            if source is not None and not (source.block and source.block[0] <= begin and end <= source.block[1]):
                raise RuntimeError(f"a block of {cell.name} is loaded from a level that does not hold it")
            amount = extent(ty, value.cut(axis, begin, end), local, cell.window, True) * cell.width
            whole = extent(ty, value, piece.sizes, cell.window, True) * cell.width
            self.chip.arrive(piece, cell, value, amount, True, whole)
            cell.block = begin, end

    # -- below the home level -----------------------------------------------------------------------------------------

    def visit(self, piece: Piece, phase: Phase, start: int, stop: int) -> None:
        """One piece below the home level runs its part of a phase or block; states are loaded first and stored last."""
        chip, edge = self.chip, (piece.level - 1, piece.level)
        states = [(self.kept[w], chip.length(piece, self.outline.types[w])) for w in phase.made if phase.loop]
        for kept, amount in states:
            chip.loads[edge][kept.name] += amount * kept.width
        if piece.level == chip.chain.last:
            self.compute(piece, phase, start, stop)
        else:
            self.pass_down(piece, phase, start, stop)
        for kept, amount in states:
            chip.saves[edge][kept.name] += amount * kept.width
        if piece.memory.held:
            raise RuntimeError(
                f"after a phase, a piece has {piece.memory.held} still allocated in memory "
                f"{chip.chain.names[piece.level]}: expected 0; a rule about live ranges is wrong"
            )

    def pass_down(self, piece: Piece, phase: Phase, start: int, stop: int) -> None:
        """Between the home and the last level: whatever the phase loads stays allocated while the pieces below run."""
        chip, memory = self.chip, piece.memory
        held = 0
        fetched: list[Cell] = []
        for base, w in phase.reads.items():
            ty = self.outline.types[w]
            if base not in self.given:
                amount = chip.length(piece, ty) * self.kept[base].width
                chip.loads[piece.level - 1, piece.level][self.kept[base].name] += amount
                held += memory.allocate(amount)
            elif self.is_streamed(piece, w):
                held += self.ring(piece, phase, w)
            else:
                cell = piece.wires[w].cell
                cell.loaded, cell.alive = False, True
                chip.fetch(piece, self.outline, w)
                fetched.append(cell)
        if phase.loop:
            for w in phase.made:
                held += memory.allocate(chip.length(piece, self.outline.types[w]) * self.kept[w].width)
            loop = self.loop(phase)
            for begin, end in cut(start, stop, loop.blocks[piece.level]):
                self.arrive(piece, phase, loop, begin, end)
                for child in piece.children:
                    self.visit(child, phase, begin, end)
        else:
            for child in piece.children:
                self.visit(child, phase, 0, 0)
        memory.free(held)
        for cell in dict.fromkeys(fetched):
            cell.free()

    def compute(self, leaf: Piece, phase: Phase, start: int, stop: int) -> None:
        """Runs a phase at the last level, as a kernel of its own."""
        below, outline = self.below, self.outline
        fresh: dict[Cell, Cell] = {}
        wires: dict[int, Wire] = {}
        for w, wire in leaf.wires.items():
            cell = wire.cell
            if not cell.spot:
                kind = cell.kind or ("" if cell in self.streamed[leaf] else RESIDENT)
                made = Cell(cell.name, False, width=cell.width, above=cell.above, kind=kind, window=cell.window)
                cell = fresh.setdefault(cell, made)
            wires[w] = Wire(cell, wire.value)
        lane = replace(leaf, wires=wires, children=[])
        spot = {w: wire.cell.spot for w, wire in wires.items()}
        part = Outline(outline.graph, phase.places, spot, 0, False)
        if not phase.loop:
            below.boxes(part, [lane], False)
            self.store(leaf, {w: wire.value for w, wire in lane.wires.items() if w not in leaf.wires})
            for w in phase.made:
                if w in self.kept and w not in outline.leaving:
                    amount = below.length(leaf, outline.types[w]) * self.kept[w].width
                    for level in range(self.home + 1, leaf.level + 1):
                        self.chip.saves[level - 1, level][self.kept[w].name] += amount
            return
        (place,) = phase.places
        node = outline.graph.nodes[place]
        assert isinstance(node.box.op, Fold)
        streamed = below.roles(part, lane, False)
        loop = Loop(below, node.box, node.box.op, node.inputs, part, [lane], {lane: streamed})
        loop.start(self.states[leaf])
        loop.turns(leaf.level, start, stop)
        ended = loop.end()[lane]
        self.states[leaf] = [wire.value for wire in ended]
        for wire in ended:
            wire.cell.free()
        for cell in fresh.values():
            if cell.loaded and cell.alive:
                cell.free()

    def store(self, leaf: Piece, values: dict[int, Named]) -> None:
        """Makes the results of a phase known to later phases, which load them again."""
        outline = self.outline
        for w, value in values.items():
            base = outline.base[w]
            if outline.spot[w]:
                leaf.wires[w] = Wire(Cell(spot=True), value)
            elif base != w and base in leaf.wires:
                leaf.wires[w] = Wire(leaf.wires[base].cell, value)
            else:
                kept = self.kept.get(w)
                name, width = (kept.name, kept.width) if kept is not None else ("", 1)
                leaf.wires[w] = Wire(Cell(name, False, width=width, kind=PASSED), value)

    def copies(self) -> None:
        """Loads the outputs that are inputs, at the end of the kernel."""
        chip, outline = self.chip, self.outline
        done: set[Cell] = set()
        for w in dict.fromkeys(outline.base[w] for w in outline.graph.outputs):
            if outline.spot[w] or w not in self.given or self.root.wires[w].cell in done:
                continue
            done.add(self.root.wires[w].cell)
            rooms: list[tuple[Piece, int]] = []
            for piece in self.root.all():
                if piece.level in chip.chain.operand:
                    cell, value = piece.wires[w].cell, piece.wires[w].value
                    amount = extent(outline.types[w], value, piece.sizes) * cell.width
                    chip.arrive(piece, cell, value, amount, False, amount)
                    rooms.append((piece, piece.memory.allocate(amount)))
            for piece, amount in rooms:
                piece.memory.free(amount)
