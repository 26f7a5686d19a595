"""The counting machine: it moves blocks between memories and computes on them, and counts while it does.

The slow memory holds whole arrays. Those on chip are allocated and freed while a diagram runs, group by group and block
by block. The rules are those stated in `catdiag.cost.traffic`, and with several levels on chip in
`catdiag.cost.traffic_by_level`. The counts are of the real lengths of blocks, the last and shorter ones included. The
machine shares no formula with `io`, and its results are compared with a direct run: each checks the other. Reading an
array that was freed or overwritten, or loading it from a level that does not hold it, raises an error, so that the
rules are tested as well.

>>> import catdiag as cd
>>> total = cd.algorithm("q x")(lambda a: cd.sum(a, "x"))
>>> counts = count(total, {"q": 3, "x": 5})
>>> counts.load, counts.save, counts.peak
(15, 3, 18)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from catdiag.category.diagram import Diagram, Graph, HasDiagram, Node, diagram_of
from catdiag.category.ops import Box, GroupOp, Map, array_name
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType, size_symbols, size_value
from catdiag.execute.array_values import conform
from catdiag.execute.interpreter import Functions, Runner, run
from catdiag.execute.named_arrays import NamedArray
from catdiag.execute.size_inference import tile_lengths, within
from catdiag.schedule.access_region import gathered_inputs, with_access_regions
from catdiag.schedule.full_precision import statistics
from catdiag.schedule.gathers import gathered
from catdiag.schedule.scatter_add import scattered_entries
from catdiag.schedule.split_k import is_split
from catdiag.simulate.byte_widths import MachineWidths
from catdiag.simulate.graph_readers import Outline, is_view
from catdiag.simulate.memory_cells import Allocation as Allocation
from catdiag.simulate.memory_cells import Chain, MachineTile, value_count
from catdiag.simulate.memory_cells import MachineWire as MachineWire
from catdiag.simulate.on_chip_memory import Chip
from catdiag.simulate.phased_kernels import Phased
from catdiag.simulate.read_regions import region_lengths
from catdiag.simulate.split_diagram import two_kernels
from catdiag.util.errors import SizeError

Dtype = str | Mapping[str, str] | None


@dataclass(frozen=True)
class Counts:
    """The transfers of the whole run, also by array, and the peak of the fast memory.

    In values, or in bytes where a dtype was given.
    """

    load: int
    save: int
    peak: int
    loads: Mapping[str, int]
    saves: Mapping[str, int]
    outputs: tuple[Any, ...] = field(repr=False)


def count(
    diagram: Diagram | HasDiagram,
    sizes: Mapping[str, int],
    tiles: Mapping[str, int] | None = None,
    stages: int = 1,
    *,
    dtype: Dtype = None,
    fused: bool = True,
    arrays: Sequence[Any] | None = None,
    functions: Functions | None = None,
) -> Counts:
    """Runs a diagram at these sizes and tiles (whole axes where left out), counting values, or bytes with `dtype`.

    `arrays` are the inputs (arbitrary ones if left out). `fused=False` runs each box outside groups as a kernel of its
    own. `dtype` is as in `catdiag.cost.traffic.io`.

    Raises SizeError for a size that is missing or not positive, for sizes at which a view reads outside its array, and
    for a tile that is none of the diagram's. Raises CatdiagError for unknown dtypes, and ArithmeticError where the
    result in blocks differs from a direct run's, which no rewrite of this library should do.
    """
    diagram = diagram_of(diagram)
    chain = Chain(("slow", "fast"), (1,), (1,), (), 1, 1, (tile_lengths(diagram, tiles or {}),), (stages,), nested=True)
    chip, outputs = ran(diagram, sizes, chain, MachineWidths(diagram, dtype), fused, arrays, functions)
    loads, saves = chip.loads[0, 1], chip.saves[0, 1]
    return Counts(sum(loads.values()), sum(saves.values()), chip.peaks[1], dict(loads), dict(saves), outputs)


def ran(
    diagram: Diagram,
    sizes: Mapping[str, int],
    chain: Chain,
    widths: MachineWidths,
    fused: bool = True,
    arrays: Sequence[Any] | None = None,
    functions: Functions | None = None,
) -> tuple[Chip, tuple[Any, ...]]:
    """Runs a diagram through a chain of memories; returns the machine with its counts, and the outputs.

    The outputs are compared with a direct run's. Raises as `count` does.
    """
    known = _checked(diagram, sizes)
    if arrays is None:
        generator = np.random.default_rng(0)
        arrays = [_arbitrary(ty, known, generator) for ty in diagram.dom]
    whole, called, moved, place = dict(known), dict[int, str](), with_access_regions(diagram), None
    if is_split(diagram):
        kernels = two_kernels(moved, fused)
        moved, place, split_loop = kernels.diagram, kernels.index, kernels.loop
        number, axis = chain.lengths[0].get(split_loop.parts, 1), size_value(split_loop.axis_size, known)
        if axis % number:
            raise SizeError(
                f"{split_loop.parts} is {number} and its axis has length {axis}: expected a number of parts that "
                "divides the length, since the formulas count parts of equal lengths"
            )
        whole |= {split_loop.parts: number, split_loop.length: axis // number}
        lengths = ({**dict(chain.lengths[0]), **dict.fromkeys(split_loop.single, 1)}, *chain.lengths[1:])
        chain = replace(chain, lengths=lengths)
        first = sum(len(n.box.cod) for n in moved.graph.nodes[:place]) + len(moved.dom)
        called = {first + k: f"{name} of a part" for k, name in enumerate(split_loop.names)}
    machine = Machine(Chip(Runner(np.dtype(np.float64), {}, functions or {}), chain, widths), called, place)
    values = [NamedArray(np.asarray(a), ty.names) for a, ty in zip(arrays, diagram.dom, strict=True)]
    with np.errstate(all="ignore"):
        results = machine.diagram(moved, values, whole, fused)
    outputs = tuple(np.asarray(conform(v, ty, known)) for v, ty in zip(results, diagram.cod, strict=True))
    direct = run(diagram, arrays, None, None, functions, known)
    for k, (got, want) in enumerate(zip(outputs, direct if len(outputs) != 1 else (direct,), strict=True)):
        if not np.allclose(got, want, rtol=1e-6, atol=1e-9, equal_nan=True):
            raise ArithmeticError(
                f"output {k} computed in blocks differs from a direct run: expected equal values, within 1e-6 relative"
            )
    return machine.chip, outputs


def _checked(diagram: Diagram, sizes: Mapping[str, int]) -> dict[str, int]:
    needed = {s for ty in inline(diagram).graph.wire_types() for a in ty.axes for s in size_symbols(a.size)}
    for name in sorted(needed | set(sizes)):
        value = sizes.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise SizeError(f"size {name} is {value!r}: expected a positive integer")
    within(diagram, sizes)
    return dict(sizes)


def _arbitrary(ty: ArrayType, sizes: dict[str, int], generator: np.random.Generator) -> Any:
    shape = [size_value(a.size, sizes) for a in ty.axes]
    if ty.element == "bool":
        return generator.random(shape) < 0.5
    return np.zeros(shape, np.int64) if ty.element == "int" else generator.uniform(0.5, 1.5, shape)


class Machine:
    """The slow memory, and the kernels that run one after the other.

    `names` gives arrays between kernels their names, by wire. `parts` is the position of the kernel that saves the
    partial states of a split loop (split-K), or None.
    """

    def __init__(self, chip: Chip, names: Mapping[int, str], parts: int | None = None) -> None:
        self.chip, self.names, self.parts = chip, names, parts

    def diagram(
        self, diagram: Diagram, inputs: Sequence[NamedArray], sizes: dict[str, int], fused: bool
    ) -> list[NamedArray]:
        """Runs one kernel after the other; arrays between kernels are in slow memory.

        Each group is a kernel, and so are the boxes between two groups. With `fused=False`, each box outside groups is
        a kernel of its own.
        """
        graph, widths = diagram.graph, self.chip.widths
        whole = Outline(graph, range(len(graph.nodes)), {}, 0, False)
        wires = {
            w: MachineWire(slow(name, widths.inputs[w]), value)
            for w, (name, value) in enumerate(zip(diagram.input_names, inputs, strict=True))
        }
        names = self.name_arrays(whole)
        run_now: list[int] = []
        seen, late, shown = gathered(graph), list[int](), set[int]()
        for place, node in enumerate(graph.nodes):
            if place in seen or (is_view(node.box) and node.inputs[0] in shown):
                late.append(place)
                shown.update(whole.output_wires(place))
                continue
            if isinstance(node.box.op, GroupOp):
                self.kernel(graph, run_now, wires, sizes, names)
                run_now = []
                for view in late:
                    self.view_gathered(graph.nodes[view], whole.first[view], wires, sizes)
                late = []
                needed = Outline(graph, [place], {}, 0, False).leaving
                made = whole.output_wires(place)
                results = self.group(node.box, node.box.op, [wires[w] for w in node.inputs], sizes)
                lacking = node.box.op.accumulated()
                for w, (value, amount, level), axes in zip(made, results, lacking, strict=True):
                    wires[w] = MachineWire(slow(names[w], self.between_widths[w]), value)
                    if w in needed and axes:
                        self.add(w, names[w], amount, value.data.size, level)
                    elif w in needed:
                        self.save(w, names[w], amount, level)
                continue
            run_now.append(place)
            alone = not is_view(node.box) and not all(whole.rematerialized[w] for w in whole.output_wires(place))
            if alone and not fused:
                self.kernel(graph, run_now, wires, sizes, names)
                run_now = []
        self.kernel(graph, run_now, wires, sizes, names)
        for base in dict.fromkeys(whole.base[w] for w in graph.outputs if whole.rematerialized[w]):
            self.save(base, names[base], value_count(whole.types[base], wires[base].value, sizes), self.chip.chain.last)
        return [wires[w].value for w in graph.outputs]

    def name_arrays(self, whole: Outline) -> dict[int, str]:
        """The names of arrays in slow memory by wire; also sets their widths and what each result is stored as."""
        graph, widths = whole.graph, self.chip.widths
        names: dict[int, str] = {}
        self.between_widths: dict[int, int] = {}
        statistic_wires = statistics(graph)
        for w, p in whole.maker.items():
            box, k = graph.nodes[p].box, w - whole.first[p]
            names[w] = array_name(box, k)
            self.between_widths[w] = (
                widths.of_a_part(box, k) if p == self.parts else widths.between(box, k, w in statistic_wires)
            )
            if widths.in_bytes and isinstance(box.op, GroupOp) and box.op.accumulated()[k]:
                self.between_widths[w] = max(4, self.between_widths[w])
        names.update(self.names)
        several = len(graph.outputs) > 1
        self.results: dict[int, list[tuple[str, int]]] = {}
        for k, w in enumerate(graph.outputs):
            result = (f"out{k}" if several else "out", widths.outputs[k])
            self.results.setdefault(whole.base[w], []).append(result)
        for w, ends in self.results.items():
            names[w], self.between_widths[w] = ends[0]
        return names

    def save(self, w: int, name: str, amount: int, level: int) -> None:
        """Counts a store of so many values of array `w`: once for each output that it is, or once between kernels."""
        for end, width in self.results.get(w, [(name, self.between_widths[w])]):
            self.chip.save(end, amount * width, level)

    def add(self, w: int, name: str, amount: int, whole: int, level: int) -> None:
        """Counts additions of so many values to array `w`, which is cleared before: each is a load and a store, at 4
        bytes or more. An array of fewer bytes is loaded once more, and stored as such."""
        for end, width in self.results.get(w, [(name, self.between_widths[w])]):
            wide = max(4, width) if self.chip.widths.in_bytes else width
            self.chip.save(end, (whole + amount) * wide, level)
            self.chip.reload(end, amount * wide, level)
            if wide > width:
                self.chip.reload(end, whole * wide, level)
                self.chip.save(end, whole * width, level)

    def view_gathered(self, node: Node, made: int, wires: dict[int, MachineWire], sizes: dict[str, int]) -> None:
        """A view through which groups gather from an array: it has no memory, and its reads count as the array's."""
        (value,) = self.chip.runner.box(node.box, tuple(wires[w].value for w in node.inputs), sizes)
        cell = wires[node.inputs[0]].cell
        rematerialized = isinstance(node.box.op, Map)
        wires[made] = MachineWire(
            Allocation(rematerialized=True) if rematerialized else slow(cell.name, cell.width), value
        )

    def work(self, outline: Outline, root: MachineTile, copied: bool) -> None:
        """Runs a kernel by the tiles of one group."""
        chip = self.chip
        if chip.chain.home < chip.chain.last:
            Phased(chip, outline, root, copied).run()
        else:
            chip.boxes(outline, list(root.all()), copied)
        chip.finish(root)
        chip.waves.ended()

    def kernel(
        self,
        graph: Graph,
        places: Sequence[int],
        wires: dict[int, MachineWire],
        sizes: dict[str, int],
        names: Mapping[int, str],
    ) -> None:
        """Runs some boxes of the whole diagram as one group; its results are in slow memory afterwards."""
        chip = self.chip
        outline = Outline(graph, places, {w: wire.cell.rematerialized for w, wire in wires.items()}, 0, False)
        first = MachineTile(0, sizes, {}, wires)
        root = chip.part(first, {}, ())
        self.work(outline, root, False)
        chip.waves.flush()
        (lane,) = root.at(chip.chain.work)
        moved: dict[Allocation, Allocation] = {}
        for place in places:
            for w in outline.output_wires(place):
                cell = lane.wires[w].cell
                if w in outline.leaving and not cell.rematerialized and outline.base[w] == w:
                    moved[cell] = slow(names[w], self.between_widths[w])
                    amount = value_count(outline.types[w], lane.wires[w].value, sizes)
                    self.save(w, names[w], amount, chip.leaves_from(outline, w))
        for w, wire in lane.wires.items():
            if w not in wires:
                wires[w] = MachineWire(moved.get(wire.cell) or slow_cell_of(wire.cell), wire.value)

    def group(
        self, box: Box, op: GroupOp, args: Sequence[MachineWire], sizes: dict[str, int]
    ) -> list[tuple[NamedArray, int, int]]:
        """Runs the body on each tile, and puts the results together in slow memory.

        Returns for each result the array, the number of values written, and the level that it was stored from. Tiles
        along a grouped axis that an output lacks are added to it.
        """
        chip = self.chip
        bounds: dict[str, tuple[int, int]] = {}
        for axis, _ in op.tiles:
            found = [a.value.lengths()[axis] for a in args if axis in a.value.names]
            bounds[axis] = 0, found[0] if found else size_value(box.size_of(axis), sizes)
        body = inline(op.body)
        # An array is loaded once at each type that it is read at.
        same: dict[tuple[Allocation, ArrayType], Allocation] = {}
        alone = gathered_inputs(body.graph)  # gathered inputs share no load with other inputs
        wires: dict[int, MachineWire] = {}
        for k, (arg, ty) in enumerate(zip(args, body.dom, strict=True)):
            cell = arg.cell
            if not cell.rematerialized:
                tile = Allocation(cell.name, False, width=cell.width, room=False, above=cell)
                cell = tile if k in alone else same.setdefault((cell, ty), tile)
            wires[k] = MachineWire(cell, arg.read())
        first = MachineTile(0, sizes, bounds, wires)
        graph = body.graph
        outline = Outline(
            graph, range(len(graph.nodes)), {w: wire.cell.rematerialized for w, wire in wires.items()}, 0, False
        )
        outputs: list[NamedArray] = []
        lacking = op.accumulated()
        levels = [chip.leaves_from(outline, w) for w in graph.outputs]
        written, entries = [0] * len(body.cod), scattered_entries(graph)
        tiles = chip.tiled(1, bounds, op.tiles)
        most = region_lengths(outline, (chip.part(first, tile, op.tiles) for tile in tiles))
        for tile in tiles:
            root = chip.part(first, tile, op.tiles)
            for w, lengths in most.items():
                root.wires[w].cell.region_limit = lengths
            self.work(outline, root, True)
            for k, (w, ty) in enumerate(zip(graph.outputs, body.cod, strict=True)):
                for grid_tile in root.at(levels[k]):
                    there = levels[k] == chip.chain.work or (
                        outline.base[w] < len(graph.dom) and not outline.rematerialized[w]
                    )
                    shown = grid_tile.wires[w].value if there and k not in entries else NamedArray(0.0, ())
                    written[k] += value_count(entries.get(k, ty), shown, grid_tile.sizes)
                for lane in root.at(chip.chain.work):
                    value = lane.wires[w].value
                    order = (*(n for n in value.names if ty.axis(n) is None), *ty.names)
                    data = conform(value, ty, lane.sizes)
                    if len(outputs) <= k:
                        lengths = {axis: stop for axis, (_, stop) in bounds.items()}
                        shape = [lengths.get(n, m) for n, m in zip(order, data.shape, strict=True)]
                        outputs.append(NamedArray(np.zeros(shape, chip.runner.tile_dtype(ty, data)), order))
                    place = tuple(slice(*lane.bounds[n]) if n in bounds else slice(None) for n in order)
                    outputs[k].data[place] = outputs[k].data[place] + data if lacking[k] else data
        chip.waves.flush()
        return list(zip(outputs, written, levels, strict=True))


def slow(name: str, width: int) -> Allocation:
    """The cell of an array in slow memory."""
    return Allocation(name, loaded=False, width=width, room=False)


def slow_cell_of(cell: Allocation) -> Allocation:
    """The slow-memory cell that a cell on chip was cut from; a rematerialized cell gives itself."""
    while cell.above is not None:
        cell = cell.above
    return cell
