"""The memories on chip of the counting machine: boxes run on the tiles of a kernel, which load what they read.

Each memory of a level works on one tile of the kernel (that of a thread block, that of a warp). The tiles of all levels
go through the boxes together, in the stored order. Those of the fastest level compute. At each level a tile loads what
its box reads into its own memory, from the level above, and frees an array after its last read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from catdiag.category.op_facts import elementwise
from catdiag.category.ops import Box, FoldOp, GroupOp
from catdiag.category.types import ArrayType
from catdiag.execute.interpreter import Runner
from catdiag.execute.named_arrays import NamedArray
from catdiag.execute.size_inference import local_sizes
from catdiag.schedule.scatter_add import ScatterAdd
from catdiag.simulate.byte_widths import MachineWidths
from catdiag.simulate.cache_waves import Waves
from catdiag.simulate.graph_readers import Outline, is_view
from catdiag.simulate.loop_iterations import MachineLoop
from catdiag.simulate.memory_cells import (
    PASSED,
    UNSEEN,
    Allocation,
    Chain,
    MachineTile,
    MachineWire,
    blocks,
    value_count,
)
from catdiag.simulate.read_regions import set_access_regions
from catdiag.util.errors import CatdiagError

Edge = tuple[int, int]


class Chip:
    """Runs the boxes of kernels, and counts the transfers over each edge between levels.

    Counts are in values, or in bytes if the widths are of a dtype. `peaks` is the peak allocation of one memory, by
    level; `children` is the largest number of tiles of a level within one tile of the level above.
    """

    def __init__(self, runner: Runner, chain: Chain, widths: MachineWidths) -> None:
        self.runner, self.chain, self.widths = runner, chain, widths
        self.loads: defaultdict[Edge, Counter[str]] = defaultdict(Counter)
        self.saves: defaultdict[Edge, Counter[str]] = defaultdict(Counter)
        self.peaks = [0] * len(chain.names)
        self.children = [1] * len(chain.names)
        self.waves = Waves(chain.caches, chain.wave)

    # -- tiles ---------------------------------------------------------------------------------------------------

    def tile(self, level: int, wires: dict[int, MachineWire], sizes: dict[str, int], bounds: dict[str, tuple[int, int]],
              tiles: Sequence[tuple[str, str]]) -> MachineTile:  # fmt: skip
        """A tile of a kernel at a level, with the smaller tiles of the levels below."""
        tile = MachineTile(level, sizes, bounds, wires)
        if level == self.chain.last:
            return tile
        for inner in self.tiled(level + 1, bounds, tiles):
            tile.children.append(self.part(tile, inner, tiles))
        self.children[level + 1] = max(self.children[level + 1], len(tile.children))
        return tile

    def tiled(self, level: int, bounds: Mapping[str, tuple[int, int]], tiles: Sequence[tuple[str, str]]) -> list[Any]:
        """The tiles of a level within a tile of the level above, in launch order: the last axis varies fastest."""
        found: list[dict[str, tuple[int, int]]] = [{}]
        for axis, symbol in tiles:
            start, stop = bounds[axis]
            step = self.chain.length(level, symbol, stop - start)
            found = [{**inner, axis: ends} for inner in found for ends in blocks(start, stop, step)]
        return found

    def part(
        self, above: MachineTile, bounds: dict[str, tuple[int, int]], tiles: Sequence[tuple[str, str]]
    ) -> MachineTile:
        """The part of a tile that one memory of the next level works on."""
        wires: dict[int, MachineWire] = {}
        cells: dict[Allocation, Allocation] = {}
        for w, wire in above.wires.items():
            value = wire.value
            for axis, (start, stop) in bounds.items():
                origin = above.bounds[axis][0]
                value = value.sliced(axis, start - origin, stop - origin)
            cell = wire.cell
            inner = (
                cell
                if cell.rematerialized
                else cells.setdefault(cell, Allocation(cell.name, False, width=cell.width, above=cell))
            )
            wires[w] = MachineWire(inner, value)
        sizes = local_sizes(above.sizes, {a: (s, bounds[a][1] - bounds[a][0]) for a, s in tiles})
        return self.tile(above.level + 1, wires, sizes, bounds, tiles)

    def finish(self, root: MachineTile) -> None:
        """Records the peak of each tile's memory, and checks that all of it was freed: raises RuntimeError if not."""
        for tile in root.all():
            self.peaks[tile.level] = max(self.peaks[tile.level], tile.memory.peak)
            if tile.memory.allocated:
                raise RuntimeError(
                    f"after its kernel, a tile has {tile.memory.allocated} still allocated in memory "
                    f"{self.chain.names[tile.level]}: expected 0; a rule about live ranges is wrong"
                )

    def save(self, name: str, amount: int, level: int) -> None:
        """Counts the stores of an array from the level where it was made: it crosses every edge above."""
        for k in range(level):
            self.saves[k, k + 1][name] += amount

    def reload(self, name: str, amount: int, level: int) -> None:
        """Counts the loads of what is in slow memory already and is added to, as `save` counts stores."""
        for k in range(level):
            self.loads[k, k + 1][name] += amount

    # -- boxes ---------------------------------------------------------------------------------------------------

    def roles(self, outline: Outline, tile: MachineTile, copied: bool) -> set[Allocation]:
        """Counts the reads of a tile's arrays, and returns those that are streamed.

        An array is streamed if it is not loaded yet and all its readers are loops along one of its axes. An array that
        a loop body leaves to an inner loop counts as streamed too, if the chain is `nested`.
        """
        graph, base, wires = outline.graph, outline.base, tile.wires
        cells = dict.fromkeys(wire.cell for wire in wires.values())
        along: set[Allocation] = set()
        elsewhere: set[Allocation] = set()
        readers: Counter[Allocation] = Counter()
        for place in outline.places:
            node = graph.nodes[place]
            if is_view(node.box):
                continue
            inner = outline.left_inside(place) if self.chain.nested else frozenset()
            for k, w in enumerate(node.inputs):
                if base[w] in wires or w in wires:
                    cell = wires[w if w in wires else base[w]].cell
                    readers[cell] += 1
                    op = node.box.op
                    loop = isinstance(op, FoldOp) and node.box.dom[k].axis(op.axis) is not None
                    loop = (loop or (base[w] in inner and not cell.window)) and w not in outline.read_in_region
                    (along if loop else elsewhere).add(cell)
        for w in graph.outputs if copied or outline.outputs_retained else ():
            if base[w] in wires:
                readers[wires[base[w]].cell] += outline.outputs_retained
                elsewhere.add(wires[base[w]].cell)
        for cell in cells:
            cell.readers = readers[cell]
            if outline.outputs_retained:
                self.release(cell)
        streamed = {cell for cell in along - elsewhere if not (cell.loaded or cell.rematerialized or cell.kind)}
        for cell in cells:
            if not cell.loaded and cell.kind != PASSED:
                cell.room = tile.level in (self.chain.streamed if cell in streamed else self.chain.operand)
        return streamed

    def boxes(self, outline: Outline, workers: Sequence[MachineTile], copied: bool) -> None:
        """Runs the boxes of an outline in order, and adds their results to the wires of the tiles.

        `workers` are the tiles that take part, those of upper levels first. With `copied`, inputs that are also outputs
        are loaded, so that they can be stored. A view shares the memory of the array that it shows. A rematerialized
        result takes no memory. A reduction with a host (see `Outline.host`) runs with its host, into the other
        operand's memory.

        Raises CatdiagError for a group within a loop.
        """
        graph = outline.graph
        if not outline.outputs_retained:
            for tile in workers:
                set_access_regions(outline, tile)
        streamed = {tile: self.roles(outline, tile, copied) for tile in workers}
        inside = {host: place for place in outline.places if (host := outline.host(place)) is not None}
        for place in outline.places:
            box, inputs = graph.nodes[place].box, graph.nodes[place].inputs
            if is_view(box):
                self.view(outline, place, workers)
            elif place in inside.values():
                continue
            elif all(outline.rematerialized[w] for w in outline.output_wires(place)) and box.cod:
                self.rematerialize(outline, place, workers)
            elif isinstance(box.op, GroupOp):
                raise CatdiagError(
                    f"{box.name} lies within another loop: expected groups outside of loops, the only ones that the "
                    "counting machine runs"
                )
            elif isinstance(box.op, ScatterAdd):
                self.scatter(outline, place, workers)
            elif isinstance(box.op, FoldOp):
                made = self.fold(box, box.op, inputs, outline, workers, streamed)
                self.settle(outline, place, workers, inputs, made)
            else:
                self.run_box(outline, place, workers, inside.get(place))
        for place in (p for p in outline.places if isinstance(graph.nodes[p].box.op, ScatterAdd)):
            self.settle(outline, place, workers, graph.nodes[place].inputs, {})
        if copied:
            for w in dict.fromkeys(outline.base[w] for w in graph.outputs):
                passing = [p for p in workers if w < len(graph.dom) and not p.wires[w].cell.loaded]
                for tile in passing:
                    self.fetch(tile, outline, w)
                for tile in passing:
                    self.release(tile.wires[w].cell)

    def view(self, outline: Outline, place: int, workers: Sequence[MachineTile]) -> None:
        """Shows an array in its own memory, at the tiles that have it."""
        node = outline.graph.nodes[place]
        for tile in workers:
            if node.inputs[0] in tile.wires:
                seen = tile.wires[node.inputs[0]]
                value = seen.value
                if value is not UNSEEN:
                    (value,) = self.runner.box(node.box, tuple(tile.wires[w].value for w in node.inputs), tile.sizes)
                tile.wires[outline.first[place]] = MachineWire(seen.cell, value)

    def rematerialize(self, outline: Outline, place: int, workers: Sequence[MachineTile]) -> None:
        """Computes what takes no memory, at the tiles that have its inputs."""
        node = outline.graph.nodes[place]
        for tile in workers:
            if all(w in tile.wires for w in node.inputs):
                results = self.runner.box(node.box, tuple(tile.wires[w].read() for w in node.inputs), tile.sizes)
                for w, value in zip(outline.output_wires(place), results, strict=True):
                    tile.wires[w] = MachineWire(Allocation(rematerialized=True), value)

    def scatter(self, outline: Outline, place: int, workers: Sequence[MachineTile]) -> None:
        """Loads what a box adds at positions, and these. Its result takes no memory: entries are added to the array in
        slow memory at the end, until which they stay."""
        node = outline.graph.nodes[place]
        for tile in workers:
            for w in node.inputs:
                self.fetch(tile, outline, w)
        for lane in (lane for lane in workers if lane.level == self.chain.work):
            (value,) = self.runner.box(node.box, tuple(lane.wires[w].read() for w in node.inputs), lane.sizes)
            lane.wires[outline.first[place]] = MachineWire(Allocation(rematerialized=True), value)

    def run_box(self, outline: Outline, place: int, workers: Sequence[MachineTile], hosted: int | None) -> None:
        """Loads what a box reads, computes it at the tiles that compute, and releases what nothing reads again.

        `hosted` is the place of the reduction that runs with it.
        """
        graph = outline.graph
        box, inputs = graph.nodes[place].box, graph.nodes[place].inputs
        read = list(inputs)
        if hosted is not None:
            first, source = outline.first[hosted], graph.nodes[hosted]
            read = [*source.inputs, *(w for w in inputs if w != first)]
        for tile in workers:
            for w in read:
                self.fetch(tile, outline, w)
        made: dict[MachineTile, list[MachineWire]] = {}
        for lane in workers:
            if lane.level != self.chain.work:
                continue
            if hosted is not None:
                values = tuple(lane.wires[w].read() for w in source.inputs)
                (value,) = self.runner.box(source.box, values, lane.sizes)
                lane.wires[first] = MachineWire(Allocation(rematerialized=True), value)
            ends = [outline.outputs_retained and w in outline.leaving for w in outline.output_wires(place)]
            made[lane] = self.compute(box, lane, [lane.wires[w] for w in inputs], ends)
        for tile in workers:
            if tile not in made:
                self.allocate_outputs(outline, tile, place)
        self.settle(outline, place, workers, read, made)

    def settle(
        self,
        outline: Outline,
        place: int,
        workers: Sequence[MachineTile],
        read: Sequence[int],
        made: Mapping[MachineTile, Sequence[MachineWire]],
    ) -> None:
        """Adds the results of a box to the wires of the tiles that made them, and releases what nothing reads again."""
        for tile in workers:
            if tile in made:
                for w, wire in zip(outline.output_wires(place), made[tile], strict=True):
                    wire.cell.readers = outline.reads[w]
                    tile.wires[w] = wire
            touched = [tile.wires[w].cell for w in read if w in tile.wires]
            for cell in touched:
                cell.readers -= 1
            touched += [tile.wires[w].cell for w in outline.output_wires(place) if w in tile.wires]
            for cell in dict.fromkeys(touched):
                self.release(cell)

    def allocate_outputs(self, outline: Outline, tile: MachineTile, place: int) -> None:
        """At the levels that hold outputs, allocates what a box makes for slow memory until its last use."""
        if outline.outputs_retained or tile.level not in self.chain.output:
            return
        for k, w in enumerate(outline.output_wires(place)):
            if w in outline.leaving:
                width = self.widths.of_result(outline.graph.nodes[place].box, k)
                allocation = tile.memory.allocate(width * self.length(tile, outline.types[w]))
                rooms = {tile.level: [(tile.memory, allocation)]}
                tile.wires[w] = MachineWire(Allocation(rooms=rooms, readers=outline.reads[w]), UNSEEN)

    def leaves_from(self, outline: Outline, w: int) -> int:
        """The level that an array is stored from when it leaves a kernel.

        That is the fastest level for a rematerialized array, the last level of operands for an input, the home level
        for the state of a loop, and the level of temporaries for the rest.
        """
        base = outline.base[w]
        if outline.rematerialized[w]:
            return self.chain.last
        if base not in outline.maker:
            return self.chain.operand[-1]
        loop = isinstance(outline.graph.nodes[outline.maker[base]].box.op, FoldOp)
        return self.chain.home if loop else self.chain.work

    def length(self, tile: MachineTile, ty: ArrayType) -> int:
        """The number of values of an array at a tile."""
        return value_count(ty, UNSEEN, tile.sizes)

    def allot(self, lane: MachineTile, level: int, ty: ArrayType, value: NamedArray, width: int) -> Allocation:
        """Allocates memory for an array of a tile that computes, at a level at or above it."""
        if level == lane.level:
            amount = value_count(ty, value, lane.sizes) * width
            return Allocation(rooms={level: [(lane.memory, lane.memory.allocate(amount))]}, width=width)
        rooms = [(p.memory, p.memory.allocate(self.length(p, ty) * width)) for p in lane.at(level)]
        return Allocation(rooms={level: rooms}, width=width)

    def fetch(self, tile: MachineTile, outline: Outline, w: int) -> None:
        """Loads an operand's tile, unless it is loaded already or the level is not on its path. Raises RuntimeError
        where the level above does not hold it: a rule about live ranges is wrong."""
        if w not in tile.wires:
            return
        w = w if w not in outline.read_in_region else outline.base[w]
        wire, ty = tile.wires[w], outline.types[w]
        cell = wire.cell
        if cell.loaded or cell.rematerialized:
            return
        cell.loaded = True
        if cell.room:
            source = cell.source()
            if source is not None and not (source.loaded and source.alive):
                raise RuntimeError(f"{cell.name} is loaded from a level that does not hold it")
            amount = value_count(ty, wire.value, tile.sizes, cell.reach())
            cell.rooms[tile.level] = [(tile.memory, tile.memory.allocate(amount * cell.width))]
            amount = value_count(ty, wire.value, tile.sizes, cell.window, True)
            self.arrive(tile, cell, wire.value, amount * cell.width, False, amount * cell.width)

    def arrive(
        self, tile: MachineTile, cell: Allocation, value: NamedArray, amount: int, streamed: bool, whole: int
    ) -> None:
        """Counts one load of `amount`; `whole` is all that the tile ever reads of the array. In values or bytes."""
        upper = tile.level - 1 if cell.kind == PASSED else self.chain.upper(tile.level, streamed)
        self.loads[upper, tile.level][cell.name] += amount
        if upper == 0:
            top = cell
            while top.above is not None:
                top = top.above
            own = tuple((axis, ends) for axis, ends in tile.bounds.items() if axis in value.names)
            self.waves.load(cell.name, (top, own), amount, whole)

    def release(self, cell: Allocation) -> None:
        """Frees an array that has no reads left."""
        if cell.readers == 0 and cell.alive and cell.loaded and not (cell.rematerialized or cell.pinned):
            cell.free()

    def compute(
        self, box: Box, lane: MachineTile, args: Sequence[MachineWire], ends: Sequence[bool]
    ) -> list[MachineWire]:
        """Runs one box on arrays in memory, and allocates its results.

        An elementwise box writes over an input of the same axes and width that it is the last to read. `ends` tells
        which results are the new states at the end of a loop iteration.
        """
        values = self.runner.box(box, tuple(a.read() for a in args), lane.sizes)
        plain = elementwise(box)
        made: list[MachineWire] = []
        for k, (value, ty) in enumerate(zip(values, box.cod, strict=True)):
            width, level = self.widths.of_result(box, k), self.chain.home if ends[k] else self.chain.work
            over = None
            for arg, arg_ty in zip(args, box.dom, strict=True) if plain else ():
                cell = arg.cell
                last = cell.readers == sum(a.cell is cell for a in args)
                free = last and level in cell.rooms and not (cell.rematerialized or cell.pinned or cell.window)
                if free and cell.width == width and set(arg_ty.names) == set(ty.names):
                    over = cell
                    break
            if over is None:
                room = self.allot(lane, level, ty, value, width)
            else:
                room = Allocation(rooms={level: over.rooms.pop(level)}, width=width)
                over.alive = bool(over.rooms)
            made.append(MachineWire(room, value))
        return made

    # -- loops ---------------------------------------------------------------------------------------------------

    def fold(
        self,
        box: Box,
        op: FoldOp,
        inputs: Sequence[int],
        outline: Outline,
        workers: Sequence[MachineTile],
        streamed: Mapping[MachineTile, Collection[Allocation]],
    ) -> dict[MachineTile, list[MachineWire]]:
        """Runs a loop: at each level, blocks are loaded into a ring of buffers, in sub-blocks of those of the level
        above.
        """
        loop = MachineLoop(self, box, op, inputs, outline, workers, streamed)
        loop.start()
        loop.iterations(1, 0, loop.total)
        return loop.end()
