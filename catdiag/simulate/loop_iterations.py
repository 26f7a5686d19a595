"""The loops of the counting machine: nested blocks, loaded into a ring of buffers at each level."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from catdiag.category.diagram import inline
from catdiag.category.ops import Box, Fold
from catdiag.category.types import ArrayType, size_value
from catdiag.execute.interpreter import Runner, filled
from catdiag.execute.named_arrays import Named
from catdiag.execute.size_inference import local_sizes
from catdiag.simulate.byte_widths import Widths
from catdiag.simulate.graph_readers import Outline
from catdiag.simulate.memory_cells import Cell, Chain, Piece, Wire, cut, extent
from catdiag.util.errors import CatdiagError


class Machine(Protocol):
    """What runs the boxes of a kernel, loops among them, on the memories of a chip."""

    runner: Runner
    chain: Chain
    widths: Widths

    def fetch(self, piece: Piece, outline: Outline, w: int) -> None:
        """Loads an operand's tile."""

    def allot(self, lane: Piece, level: int, ty: ArrayType, value: Named, width: int) -> Cell:
        """Allocates memory for an array."""

    def arrive(self, piece: Piece, cell: Cell, value: Named, amount: int, streamed: bool, whole: int) -> None:
        """Counts one load."""

    def boxes(self, outline: Outline, crew: Sequence[Piece], copied: bool) -> None:
        """Runs the boxes of a body."""


class Loop:
    """One run of a loop by the pieces of a group.

    `blocks` gives the block length of each level, `rings` the allocation of the ring of buffers for each streamed
    array, and `carried` the current states of each piece that computes.
    """

    def __init__(
        self,
        chip: Machine,
        box: Box,
        op: Fold,
        inputs: Sequence[int],
        outline: Outline,
        crew: Sequence[Piece],
        streamed: Mapping[Piece, Collection[Cell]],
    ) -> None:
        self.chip, self.box, self.op, self.inputs, self.outline = chip, box, op, inputs, outline
        self.crew, self.streamed, self.chain = crew, streamed, chip.chain
        if outline.kept and chip.chain.home != chip.chain.work:
            raise CatdiagError(
                f"the loop over {op.axis!r} lies within another: expected states and temporaries at one level"
            )
        self.lanes = [piece for piece in crew if piece.level == chip.chain.work]
        self.step = inline(op.step).graph
        self.states = len(box.cod)
        self.types = self.step.dom.arrays[self.states :]
        lane = self.lanes[0]
        lengths = [v.lengths()[op.axis] for w in inputs if op.axis in (v := lane.wires[w].value).names]
        size = next((a.size for ty in box.dom for a in ty.axes if a.name == op.axis), op.axis)
        self.total = lengths[0] if lengths else size_value(size, lane.sizes)
        self.blocks = [self.total]
        for level in range(1, self.chain.last + 1):
            self.blocks.append(self.chain.length(level, op.block, self.blocks[-1]))
        self.reads: set[int] = set()  # the inputs that the mask test of a block reads
        if op.asked is not None:
            guide = inline(op.asked).graph
            used = {w for node in guide.nodes for w in node.inputs} | set(guide.outputs)
            self.reads = {k for k in range(len(guide.dom)) if k in used}
        place = next(p for p in outline.places if outline.graph.nodes[p].box is box)
        self.inside = outline.left_inside(place) if self.chain.nested else frozenset[int]()
        self.rings: dict[Cell, int] = {}
        self.carried: dict[Piece, list[Wire]] = {}

    def left(self, piece: Piece, w: int) -> bool:
        """Whether an input is left to loops inside the body, which load it block by block."""
        return self.outline.base[w] in self.inside and not piece.wires[w].cell.window

    def start(self, states: Sequence[Named] | None = None) -> None:
        """Loads the operands that are not streamed, allocates the rings, and sets the states: `states`, or the unit."""
        chip, op = self.chip, self.op
        for piece in self.crew:
            streamed = self.streamed[piece]
            for w in self.inputs:
                if w in piece.wires and piece.wires[w].cell not in streamed:
                    chip.fetch(piece, self.outline, w)
            longest = self.blocks[piece.level]
            for w, ty in zip(self.inputs, self.types, strict=True):
                if w in piece.wires and self.left(piece, w):
                    continue
                if w in piece.wires and (cell := piece.wires[w].cell) in streamed and cell not in self.rings:
                    first = piece.wires[w].value.cut(op.axis, 0, longest)
                    amount = extent(ty, first, local_sizes(piece.sizes, {op.axis: (op.block, longest)}), cell.reach())
                    held = self.chain.stages[piece.level - 1] * amount * cell.width if cell.room else 0
                    self.rings[cell] = piece.memory.allocate(held)
                    cell.block = None
        for lane in self.lanes:
            given = self.unit(lane) if states is None else states
            self.carried[lane] = []
            for k, (value, ty) in enumerate(zip(given, self.box.cod, strict=True)):
                self.carried[lane].append(self.state(lane, k, ty, value))

    def unit(self, lane: Piece) -> Sequence[Named]:
        """The initial states: the unit of the fold."""
        unit = self.chip.runner.diagram(self.op.unit, (), {**lane.sizes, self.op.block: 0})
        return filled(unit, self.box, lane.sizes)

    def state(self, lane: Piece, k: int, ty: ArrayType, value: Named) -> Wire:
        """A state in memory of its own."""
        width = self.chip.widths.state(self.op, k, ty)
        return Wire(self.chip.allot(lane, self.chain.home, ty, value, width), value)

    def turns(self, level: int, start: int, stop: int) -> None:
        """Runs the blocks of a level within one block of the level above."""
        # The recursion is as deep as there are levels of memory.
        for begin, end in self.ends(level, start, stop, False) if self.reads else ():
            for piece in self.crew:
                if piece.level == level:
                    self.arrive(piece, begin, end, True)
        for begin, end in self.ends(level, start, stop, True):
            for piece in self.crew:
                if piece.level == level:
                    self.arrive(piece, begin, end, False)
            if level < self.chain.last:
                self.turns(level + 1, begin, end)
            if level == self.chain.work:
                self.turn(begin, end)

    def ends(self, level: int, start: int, stop: int, run: bool) -> Any:
        """The bounds of a level's blocks: those that run, or, without `run`, those for which the mask test is
        evaluated.
        """
        op, block = self.op, self.blocks[level]
        if op.extent is None and op.live is None:
            return cut(start, stop, block)
        if self.chain.last > 1:
            raise CatdiagError(
                f"the loop over {op.axis!r} skips blocks: expected one memory on chip to count it, not more"
            )
        lane = self.lanes[0]
        values = [lane.wires[w].value for w in self.inputs]
        chosen = op if run else replace(op, live=None, asks=False)
        return self.chip.runner.blocks(chosen, values, stop, block, lane.sizes)

    def arrive(self, piece: Piece, begin: int, end: int, asking: bool) -> None:
        """Loads a block into the rings of a piece: of the arrays that the mask test reads, or of the others."""
        axis = self.op.axis
        local = local_sizes(piece.sizes, {axis: (self.op.block, end - begin)})
        seen: set[Cell] = set()
        asked = {piece.wires[w].cell for k, w in enumerate(self.inputs) if k in self.reads and w in piece.wires}
        for w, ty in zip(self.inputs, self.types, strict=True):
            if w not in piece.wires:
                continue
            cell, value = piece.wires[w].cell, piece.wires[w].value
            if cell not in self.rings or cell in seen or (cell in asked) != asking:
                continue
            seen.add(cell)
            if cell.room:
                source = cell.source()
                if source is not None and not (source.block and source.block[0] <= begin and end <= source.block[1]):
                    raise RuntimeError(f"a block of {cell.name} is loaded from a level that does not hold it")
                amount = extent(ty, value.cut(axis, begin, end), local, cell.window, True) * cell.width
                whole = extent(ty, value, piece.sizes, cell.window, True) * cell.width
                self.chip.arrive(piece, cell, value, amount, True, whole)
                cell.block = begin, end

    def turn(self, begin: int, end: int) -> None:
        """Runs one iteration: the step, by each piece that computes."""
        op = self.op
        for lane in self.lanes:
            wires = dict(enumerate(self.carried[lane]))
            blocks: dict[Cell, Cell] = {}
            for k, w in enumerate(self.inputs):
                wire = lane.wires[w]
                part, own = wire.value.cut(op.axis, begin, end), wire.cell
                cell = Cell(spot=own.spot, pinned=True, width=own.width)
                if self.left(lane, w) and own in self.streamed[lane]:
                    fresh = Cell(own.name, False, width=own.width, above=own.above)
                    cell = blocks.setdefault(own, fresh)
                wires[self.states + k] = Wire(cell, part)
            local = local_sizes(lane.sizes, {op.axis: (op.block, end - begin)})
            worker = replace(lane, wires=wires, sizes=local)
            spot = {w: wire.cell.spot for w, wire in wires.items()}
            outline = Outline(self.step, range(len(self.step.nodes)), spot, self.states, True)
            self.chip.boxes(outline, [worker], False)
            self.carried[lane] = self.renewed(lane, [worker.wires[w] for w in self.step.outputs], local)

    def renewed(self, lane: Piece, ends: Sequence[Wire], sizes: Mapping[str, int]) -> list[Wire]:
        """The new states, each in memory of its own."""
        taken: set[Cell] = set()
        found: list[Wire] = []
        values = [wire.read() for wire in ends]
        for k, (wire, value, ty) in enumerate(zip(ends, values, self.box.cod, strict=True)):
            if wire.cell.spot or wire.cell.pinned or wire.cell in taken:
                found.append(self.state(lane, k, ty, value))
            else:
                taken.add(wire.cell)
                wire.cell.free()
                found.append(self.state(lane, k, ty, value))
        return found

    def end(self) -> dict[Piece, list[Wire]]:
        """Frees the rings, and returns the final states."""
        for piece in self.crew:
            for cell in dict.fromkeys(wire.cell for wire in piece.wires.values()):
                if cell in self.rings:
                    piece.memory.free(self.rings.pop(cell))
        return self.carried
