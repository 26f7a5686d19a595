"""The loops of the counting machine: nested blocks, loaded into a ring of buffers at each level."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from catdiag.category.ops import Box, FoldOp
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, size_value
from catdiag.execute.array_values import filled, put_together
from catdiag.execute.interpreter import Runner
from catdiag.execute.named_arrays import NamedArray
from catdiag.execute.size_inference import local_sizes
from catdiag.simulate.byte_widths import MachineWidths
from catdiag.simulate.graph_readers import Outline
from catdiag.simulate.memory_cells import Allocation, Chain, MachineTile, MachineWire, blocks, value_count
from catdiag.util.errors import CatdiagError


class LoopMachine(Protocol):
    """What runs the boxes of a kernel, loops among them, on the memories of a chip."""

    runner: Runner
    chain: Chain
    widths: MachineWidths

    def fetch(self, tile: MachineTile, outline: Outline, w: int) -> None:
        """Loads an operand's tile."""

    def allot(self, lane: MachineTile, level: int, ty: ArrayType, value: NamedArray, width: int) -> Allocation:
        """Allocates memory for an array."""

    def arrive(
        self, tile: MachineTile, cell: Allocation, value: NamedArray, amount: int, streamed: bool, whole: int
    ) -> None:
        """Counts one load."""

    def boxes(self, outline: Outline, workers: Sequence[MachineTile], copied: bool) -> None:
        """Runs the boxes of a body."""


class MachineLoop:
    """One run of a loop by the tiles of a group.

    `blocks` gives the block length of each level, `rings` the allocation of the ring of buffers for each streamed
    array, and `states_by_tile` the current states of each tile that computes.
    """

    def __init__(
        self,
        chip: LoopMachine,
        box: Box,
        op: FoldOp,
        inputs: Sequence[int],
        outline: Outline,
        workers: Sequence[MachineTile],
        streamed: Mapping[MachineTile, Collection[Allocation]],
    ) -> None:
        self.chip, self.box, self.op, self.inputs, self.outline = chip, box, op, inputs, outline
        self.workers, self.streamed, self.chain = workers, streamed, chip.chain
        if outline.outputs_retained and chip.chain.home != chip.chain.work:
            raise CatdiagError(
                f"the loop over {op.axis!r} is within another loop: expected states and temporaries at one level"
            )
        self.lanes = [tile for tile in workers if tile.level == chip.chain.work]
        self.step = inline(op.step).graph
        self.states = op.state_count
        self.types = self.step.dom.arrays[self.states :]
        lane = self.lanes[0]
        lengths = [v.lengths()[op.axis] for w in inputs if op.axis in (v := lane.wires[w].value).names]
        size = next((a.size for ty in box.dom for a in ty.axes if a.name == op.axis), op.axis)
        self.total = lengths[0] if lengths else size_value(size, lane.sizes)
        self.blocks = [self.total]
        for level in range(1, self.chain.last + 1):
            self.blocks.append(self.chain.length(level, op.block, self.blocks[-1]))
        self.reads: set[int] = set()  # the inputs that the mask test of a block reads
        if op.block_test is not None:
            guide = inline(op.block_test).graph
            used = {w for node in guide.nodes for w in node.inputs} | set(guide.outputs)
            self.reads = {k for k in range(len(guide.dom)) if k in used}
        place = next(p for p in outline.places if outline.graph.nodes[p].box is box)
        self.inside = outline.left_inside(place) if self.chain.nested else frozenset[int]()
        self.rings: dict[Allocation, int] = {}
        self.states_by_tile: dict[MachineTile, list[MachineWire]] = {}
        self.emitted: dict[MachineTile, list[list[NamedArray]]] = {}

    def left(self, tile: MachineTile, w: int) -> bool:
        """Whether an input is left to loops inside the body, which load it block by block."""
        return self.outline.base[w] in self.inside and not tile.wires[w].cell.window

    def start(self, states: Sequence[NamedArray] | None = None) -> None:
        """Loads the operands that are not streamed, allocates the rings, and sets the states: `states`, or the unit."""
        chip, op = self.chip, self.op
        for tile in self.workers:
            streamed = self.streamed[tile]
            for w in self.inputs:
                if w in tile.wires and tile.wires[w].cell not in streamed:
                    chip.fetch(tile, self.outline, w)
            longest = self.blocks[tile.level]
            for w, ty in zip(self.inputs, self.types, strict=True):
                if w in tile.wires and self.left(tile, w):
                    continue
                if w in tile.wires and (cell := tile.wires[w].cell) in streamed and cell not in self.rings:
                    first = tile.wires[w].value.sliced(op.axis, 0, longest)
                    amount = value_count(
                        ty, first, local_sizes(tile.sizes, {op.axis: (op.block, longest)}), cell.reach()
                    )
                    ring = self.chain.stages[tile.level - 1] * amount * cell.width if cell.room else 0
                    self.rings[cell] = tile.memory.allocate(ring)
                    cell.block = None
        for lane in self.lanes:
            initial = self.unit(lane) if states is None else states
            self.states_by_tile[lane] = []
            for k, (value, ty) in enumerate(zip(initial, self.box.cod.arrays[: self.states], strict=True)):
                self.states_by_tile[lane].append(self.state(lane, k, ty, value))

    def unit(self, lane: MachineTile) -> Sequence[NamedArray]:
        """The initial states: the unit of the fold."""
        unit = self.chip.runner.diagram(self.op.unit, (), {**lane.sizes, self.op.block: 0})
        return filled(unit, self.box.cod.arrays[: self.states], lane.sizes)

    def state(self, lane: MachineTile, k: int, ty: ArrayType, value: NamedArray) -> MachineWire:
        """A state in memory of its own."""
        width = self.chip.widths.state(self.op, k, ty)
        return MachineWire(self.chip.allot(lane, self.chain.home, ty, value, width), value)

    def iterations(self, level: int, start: int, stop: int) -> None:
        """Runs the blocks of a level within one block of the level above."""
        # The recursion is as deep as there are levels of memory.
        for begin, end in self.ends(level, start, stop, False) if self.reads else ():
            for tile in self.workers:
                if tile.level == level:
                    self.arrive(tile, begin, end, True)
        for begin, end in self.ends(level, start, stop, True):
            for tile in self.workers:
                if tile.level == level:
                    self.arrive(tile, begin, end, False)
            if level < self.chain.last:
                self.iterations(level + 1, begin, end)
            if level == self.chain.work:
                self.iteration(begin, end)

    def ends(self, level: int, start: int, stop: int, run: bool) -> Any:
        """The bounds of a level's blocks: those that run, or, without `run`, those for which the mask test is
        evaluated. Raises CatdiagError where blocks are skipped and there are several memories on chip."""
        op, block = self.op, self.blocks[level]
        if op.bounds is None and op.is_live is None:
            return blocks(start, stop, block)
        if self.chain.last > 1:
            raise CatdiagError(
                f"the loop over {op.axis!r} skips blocks: expected one memory on chip to count it, not more"
            )
        lane = self.lanes[0]
        values = [lane.wires[w].value for w in self.inputs]
        chosen = op if run else replace(op, is_live=None, tests_blocks=False)
        return self.chip.runner.blocks(chosen, values, stop, block, lane.sizes)

    def arrive(self, tile: MachineTile, begin: int, end: int, tested: bool) -> None:
        """Loads a block into the rings of a tile: of the arrays that the mask test reads, or of the others."""
        seen: set[Allocation] = set()
        test_inputs = {tile.wires[w].cell for k, w in enumerate(self.inputs) if k in self.reads and w in tile.wires}
        for w, ty in zip(self.inputs, self.types, strict=True):
            if w not in tile.wires:
                continue
            cell = tile.wires[w].cell
            if cell not in self.rings or cell in seen or (cell in test_inputs) != tested:
                continue
            seen.add(cell)
            if cell.room:
                self.load_block(tile, tile.wires[w], ty, begin, end)

    def load_block(self, tile: MachineTile, wire: MachineWire, ty: ArrayType, begin: int, end: int) -> None:
        """Loads a block of a streamed array into its ring, from the level above that holds it. Raises RuntimeError
        where that does not hold it: a rule about live ranges is wrong."""
        cell, value, axis = wire.cell, wire.value, self.op.axis
        source = cell.source()
        if source is not None and not (source.block and source.block[0] <= begin and end <= source.block[1]):
            raise RuntimeError(f"a block of {cell.name} is loaded from a level that does not hold it")
        local = local_sizes(tile.sizes, {axis: (self.op.block, end - begin)})
        amount = value_count(ty, value.sliced(axis, begin, end), local, cell.window, True) * cell.width
        whole = value_count(ty, value, tile.sizes, cell.window, True) * cell.width
        self.chip.arrive(tile, cell, value, amount, True, whole)
        cell.block = begin, end

    def iteration(self, begin: int, end: int) -> None:
        """Runs one iteration: the step, by each tile that computes."""
        op = self.op
        for lane in self.lanes:
            wires = dict(enumerate(self.states_by_tile[lane]))
            blocks: dict[Allocation, Allocation] = {}
            for k, w in enumerate(self.inputs):
                wire = lane.wires[w]
                part, own = wire.value.sliced(op.axis, begin, end), wire.cell
                cell = Allocation(rematerialized=own.rematerialized, pinned=True, width=own.width)
                if self.left(lane, w) and own in self.streamed[lane]:
                    fresh = Allocation(own.name, False, width=own.width, above=own.above)
                    cell = blocks.setdefault(own, fresh)
                wires[self.states + k] = MachineWire(cell, part)
            local = local_sizes(lane.sizes, {op.axis: (op.block, end - begin)})
            worker = replace(lane, wires=wires, sizes=local)
            rematerialized = {w: wire.cell.rematerialized for w, wire in wires.items()}
            outline = Outline(self.step, range(len(self.step.nodes)), rematerialized, self.states, True)
            self.chip.boxes(outline, [worker], False)
            self.states_by_tile[lane] = self.renewed(lane, [worker.wires[w] for w in self.step.outputs], local)

    def renewed(self, lane: MachineTile, ends: Sequence[MachineWire], sizes: Mapping[str, int]) -> list[MachineWire]:
        """The new states, each in memory of its own. Emitted blocks leave it."""
        taken: set[Allocation] = set()
        found: list[MachineWire] = []
        values = [wire.read() for wire in ends]
        for k, (wire, value, ty) in enumerate(zip(ends, values, self.box.cod.arrays[: self.states], strict=False)):
            if wire.cell.rematerialized or wire.cell.pinned or wire.cell in taken:
                found.append(self.state(lane, k, ty, value))
            else:
                taken.add(wire.cell)
                wire.cell.free()
                found.append(self.state(lane, k, ty, value))
        for wire in ends[self.states :]:
            if not (wire.cell.rematerialized or wire.cell.pinned or wire.cell in taken):
                taken.add(wire.cell)
                wire.cell.free()
        types = self.op.step.cod.arrays[self.states :]
        self.emitted.setdefault(lane, []).append(filled(values[self.states :], types, sizes))
        return found

    def end(self) -> dict[MachineTile, list[MachineWire]]:
        """Frees the rings, and returns the final states, and what was emitted, which is in slow memory."""
        for tile in self.workers:
            for cell in dict.fromkeys(wire.cell for wire in tile.wires.values()):
                if cell in self.rings:
                    tile.memory.free(self.rings.pop(cell))
        if not self.op.emitted:
            return self.states_by_tile
        found: dict[MachineTile, list[MachineWire]] = {}
        for lane, states in self.states_by_tile.items():
            whole = put_together(self.emitted[lane], self.op.axis)
            found[lane] = [*states, *(MachineWire(Allocation(), value) for value in whole)]
        return found
