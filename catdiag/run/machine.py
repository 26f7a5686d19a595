"""A machine that counts: it really moves blocks between a slow and a fast memory, and really computes on them.

The slow memory holds whole arrays. The fast one is allocated and freed while a diagram runs group by group and
block by block, under the rules said in `catdiag.cost.io`; what is counted are the lengths that blocks really have,
the last ones' included. It shares no formula with `io`, and its results are compared with a direct run: the two
are two sides of one test. Reading what was freed or written over is an error, so the rules are tested too.

>>> import catdiag as cd
>>> total = cd.algorithm("q x")(lambda a: cd.sum(a, "x"))
>>> counts = count(total, {"q": 3, "x": 5})
>>> counts.load, counts.save, counts.peak
(15, 3, 18)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catdiag.boxes import Box, Einsum, Fold, Group, Map, array_name
from catdiag.diagram import Diagram, Graph, inline
from catdiag.errors import CatdiagError, SizeError
from catdiag.partial import is_split, two_kernels
from catdiag.run.named import Named
from catdiag.run.numpy import Functions, Runner, conform, filled, run
from catdiag.run.outline import Outline, is_view
from catdiag.run.sizes import local_sizes, tile_lengths
from catdiag.types import ArrayType, size_symbols, size_value


@dataclass(frozen=True)
class Counts:
    """Values loaded and saved in the whole run, by array too, and the most that the fast memory ever held."""

    load: int
    save: int
    peak: int
    loads: Mapping[str, int]
    saves: Mapping[str, int]
    outputs: tuple[Any, ...] = field(repr=False)


class FastMemory:
    """Counts what is allocated, and the most that ever was."""

    def __init__(self) -> None:
        self.held = self.peak = 0

    def allocate(self, values: int) -> int:
        """Takes so many values of room."""
        self.held += values
        self.peak = max(self.peak, self.held)
        return values

    def free(self, values: int) -> None:
        """Gives them back."""
        self.held -= values


@dataclass(eq=False)
class Cell:
    """Where an array is: in slow memory under the name `source`, `loaded` into fast memory, or nowhere (`spot`)."""

    source: str = ""
    loaded: bool = True
    spot: bool = False
    held: int = 0
    readers: int = 0
    pinned: bool = False
    alive: bool = True


@dataclass(frozen=True)
class Wire:
    """An array as one wire shows it; views of one array share a cell."""

    cell: Cell
    value: Named

    def read(self) -> Named:
        """The values."""
        if not self.cell.alive:
            raise RuntimeError("the machine reads an array that was freed: a rule about live ranges is wrong")
        return self.value


def count(
    diagram: Diagram,
    sizes: Mapping[str, int],
    tiles: Mapping[str, int] | None = None,
    stages: int = 1,
    *,
    fused: bool = True,
    arrays: Sequence[Any] | None = None,
    functions: Functions | None = None,
) -> Counts:
    """Runs a diagram at these sizes and tiles (whole axes where left out), counting values.

    `arrays` are the inputs (arbitrary ones if left out); `fused=False` runs each box outside groups as a kernel of
    its own. Raises SizeError for a size that is missing or not positive or a tile that is none of the diagram's, and
    ArithmeticError where the result in blocks differs from a direct run's, which no rule of this library does.
    """
    known = _checked(diagram, sizes)
    if arrays is None:
        generator = np.random.default_rng(0)
        arrays = [_arbitrary(ty, known, generator) for ty in diagram.dom]
    lengths, whole, called = tile_lengths(diagram, tiles or {}), dict(known), dict[int, str]()
    moved = diagram
    if is_split(diagram):
        parted = two_kernels(diagram)
        moved = parted.diagram
        number, axis = lengths.pop(parted.parts, 1), size_value(parted.whole, known)
        if axis % number:
            raise SizeError(
                f"{parted.parts} is {number} and the axis {axis} long: expected parts of one length to count"
            )
        whole |= {parted.parts: number, parted.length: axis // number}
        lengths |= dict.fromkeys(parted.single, 1)
        first = sum(len(n.box.cod) for n in moved.graph.nodes[: parted.place]) + len(moved.dom)
        called = {first + k: f"{name} of a part" for k, name in enumerate(parted.names)}
    machine = Machine(Runner(np.dtype(np.float64), lengths, functions or {}), stages, called)
    values = [Named(np.asarray(a), ty.names) for a, ty in zip(arrays, diagram.dom, strict=True)]
    with np.errstate(all="ignore"):
        results = machine.diagram(inline(moved), values, whole, fused)
    outputs = tuple(np.asarray(conform(v, ty, known)) for v, ty in zip(results, diagram.cod, strict=True))
    direct = run(diagram, arrays, None, None, functions, known)
    for k, (got, want) in enumerate(zip(outputs, direct if len(outputs) != 1 else (direct,), strict=True)):
        if not np.allclose(got, want, rtol=1e-6, atol=1e-9, equal_nan=True):
            raise ArithmeticError(f"output {k} computed in blocks differs from the one computed whole")
    loads, saves = machine.loads, machine.saves
    return Counts(sum(loads.values()), sum(saves.values()), machine.fast.peak, dict(loads), dict(saves), outputs)


def _checked(diagram: Diagram, sizes: Mapping[str, int]) -> dict[str, int]:
    needed = {s for ty in inline(diagram).graph.wire_types() for a in ty.axes for s in size_symbols(a.size)}
    for name in sorted(needed | set(sizes)):
        value = sizes.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise SizeError(f"size {name} is {value!r}: expected a positive integer")
    return dict(sizes)


def _arbitrary(ty: ArrayType, sizes: dict[str, int], generator: np.random.Generator) -> Any:
    shape = [size_value(a.size, sizes) for a in ty.axes]
    if ty.element == "bool":
        return generator.random(shape) < 0.5
    return np.zeros(shape, np.int64) if ty.element == "int" else generator.uniform(0.5, 1.5, shape)


def _extent(ty: ArrayType, value: Named, sizes: Mapping[str, int]) -> int:
    """How many values an array takes: the axes of its type, and those that its box is weaved over beside."""
    lengths = value.lengths()
    total = 1
    for axis in ty.axes:
        total *= lengths.pop(axis.name) if axis.name in lengths else size_value(axis.size, dict(sizes))
    for length in lengths.values():
        total *= length
    return total


class Machine:
    """The two memories, and what passed between them."""

    def __init__(self, runner: Runner, stages: int, names: Mapping[int, str]) -> None:
        self.runner, self.stages, self.names = runner, stages, names
        self.fast = FastMemory()
        self.loads: Counter[str] = Counter()
        self.saves: Counter[str] = Counter()

    # -- the slow memory's side ------------------------------------------------------------------------------

    def diagram(self, diagram: Diagram, inputs: Sequence[Named], sizes: dict[str, int], fused: bool) -> list[Named]:
        """Runs kernel after kernel; arrays that pass between them are in slow memory."""
        graph = diagram.graph
        whole = Outline(graph, range(len(graph.nodes)), {}, 0, False)
        wires = {
            w: Wire(Cell(name, loaded=False), value)
            for w, (name, value) in enumerate(zip(diagram.input_names, inputs, strict=True))
        }
        names = {w: array_name(graph.nodes[p].box, w - whole.first[p]) for w, p in whole.maker.items()}
        names.update(self.names)
        several = len(graph.outputs) > 1
        for k, w in reversed(list(enumerate(graph.outputs))):
            names[whole.base[w]] = f"out{k}" if several else "out"
        run_now: list[int] = []
        for place, node in enumerate(graph.nodes):
            if isinstance(node.box.op, Group):
                self.kernel(graph, run_now, wires, sizes, names)
                run_now = []
                made, written = self.group(node.box, node.box.op, [wires[w] for w in node.inputs], sizes)
                needed = Outline(graph, [place], {}, 0, False).leaving
                for w, value, count in zip(whole.made(place), made, written, strict=True):
                    wires[w] = Wire(Cell(names[w], loaded=False), value)
                    if w in needed:
                        self.saves[names[w]] += count
                continue
            run_now.append(place)
            if not fused and not is_view(node.box) and not all(whole.spot[w] for w in whole.made(place)):
                self.kernel(graph, run_now, wires, sizes, names)
                run_now = []
        self.kernel(graph, run_now, wires, sizes, names)
        for w in sorted({w for w in graph.outputs if whole.spot[w]}):
            self.saves[names[whole.base[w]]] += _extent(whole.types[w], wires[w].value, sizes)
        return [wires[w].value for w in graph.outputs]

    def kernel(
        self,
        graph: Graph,
        places: Sequence[int],
        wires: dict[int, Wire],
        sizes: dict[str, int],
        names: Mapping[int, str],
    ) -> None:
        """Runs some boxes of the whole diagram as one group; what leaves them is in slow memory afterwards."""
        outline = Outline(graph, places, {w: wire.cell.spot for w, wire in wires.items()}, 0, False)
        tiles: dict[Cell, Cell] = {}
        local: dict[int, Wire] = {}
        for w, wire in wires.items():
            if not wire.cell.spot:
                tiles.setdefault(wire.cell, Cell(wire.cell.source, loaded=False))
            local[w] = Wire(tiles.get(wire.cell, wire.cell), wire.value)
        self.boxes(outline, local, sizes, False)
        moved = {tile: cell for cell, tile in tiles.items()}
        for place in places:
            for w in outline.made(place):
                cell = local[w].cell
                if w in outline.leaving and not cell.spot and outline.base[w] == w:
                    moved[cell] = Cell(names[w], loaded=False)
                    self.saves[names[w]] += _extent(outline.types[w], local[w].value, sizes)
        for w, wire in local.items():
            wires[w] = Wire(moved.get(wire.cell, wire.cell), wire.value)

    def group(self, box: Box, op: Group, args: Sequence[Wire], sizes: dict[str, int]) -> tuple[list[Named], list[int]]:
        """The body on each tile; the results are put side by side in slow memory. Gives how much was written of each.

        Tiles of an axis that a result lacks write it all again.
        """
        lengths: dict[str, int] = {}
        for axis, _ in op.tiles:
            found = [a.value.lengths()[axis] for a in args if axis in a.value.names]
            size = next((a.size for ty in (*box.dom, *box.cod) for a in ty.axes if a.name == axis), axis)
            lengths[axis] = found[0] if found else size_value(size, sizes)
        steps = {axis: min(self.runner.tiles.get(symbol, lengths[axis]), lengths[axis]) for axis, symbol in op.tiles}
        body = inline(op.body)
        outputs: list[Named] = []
        written = [0] * len(box.cod)
        for place in np.ndindex(*(-(-lengths[axis] // steps[axis]) for axis, _ in op.tiles)):
            bounds = {a: (k * steps[a], min((k + 1) * steps[a], lengths[a])) for (a, _), k in zip(op.tiles, place)}
            local = local_sizes(sizes, {a: (s, bounds[a][1] - bounds[a][0]) for a, s in op.tiles})
            same: dict[tuple[Cell, ArrayType], Cell] = {}
            wires: dict[int, Wire] = {}
            for k, (arg, ty) in enumerate(zip(args, body.dom, strict=True)):
                value = arg.read()
                for axis, (start, stop) in bounds.items():
                    value = value.cut(axis, start, stop)
                fresh = Cell(arg.cell.source, loaded=False, spot=arg.cell.spot)
                wires[k] = Wire(fresh if fresh.spot else same.setdefault((arg.cell, ty), fresh), value)
            spot = {w: wire.cell.spot for w, wire in wires.items()}
            graph = body.graph
            self.boxes(Outline(graph, range(len(graph.nodes)), spot, 0, False), wires, local, True)
            if self.fast.held:
                raise RuntimeError(f"a group left {self.fast.held} values in fast memory")
            for k, (w, ty) in enumerate(zip(graph.outputs, body.cod, strict=True)):
                value = wires[w].value
                order = (*(n for n in value.names if ty.axis(n) is None), *ty.names)
                data = conform(value, ty, local)
                written[k] += int(np.size(data))
                if len(outputs) <= k:
                    shape = [lengths.get(n, m) for n, m in zip(order, data.shape, strict=True)]
                    outputs.append(Named(np.zeros(shape, data.dtype), order))
                outputs[k].data[tuple(slice(*bounds[n]) if n in bounds else slice(None) for n in order)] = data
        return outputs, written

    # -- the fast memory's side ----------------------------------------------------------------------------------

    def boxes(self, outline: Outline, wires: dict[int, Wire], sizes: dict[str, int], copied: bool) -> None:
        """Runs the boxes of an outline in order, adding their wires; `copied`: inputs that are outputs pass through."""
        graph, base = outline.graph, outline.base
        arrays: dict[Cell, list[int]] = {}
        for w, wire in wires.items():
            arrays.setdefault(wire.cell, []).append(w)
        streamed: set[Cell] = set()
        readers: Counter[Cell] = Counter()
        elsewhere: set[Cell] = set()
        for place in outline.places:
            node = graph.nodes[place]
            if is_view(node.box):
                continue
            for k, w in enumerate(node.inputs):
                if base[w] in wires or w in wires:
                    cell = wires[w if w in wires else base[w]].cell
                    readers[cell] += 1
                    op = node.box.op
                    along = isinstance(op, Fold) and node.box.dom[k].axis(op.axis) is not None
                    (streamed if along else elsewhere).add(cell)
        for w in graph.outputs if copied or outline.kept else ():
            if base[w] in wires:
                readers[wires[base[w]].cell] += outline.kept
                elsewhere.add(wires[base[w]].cell)
        for cell in arrays:
            cell.readers = readers[cell]
            if outline.kept:
                self.release(cell)
        streamed = {cell for cell in streamed - elsewhere if not cell.loaded and not cell.spot}
        inside: dict[int, int] = {}
        for place in outline.places:
            host = outline.host(place)
            if host is not None:
                inside[host] = place
        waiting = set(inside.values())
        for place in outline.places:
            box, inputs = graph.nodes[place].box, graph.nodes[place].inputs
            if is_view(box):
                (value,) = self.runner.box(box, (wires[inputs[0]].value,), sizes)
                wires[outline.first[place]] = Wire(wires[inputs[0]].cell, value)
                continue
            if place in waiting:
                continue
            if all(outline.spot[w] for w in outline.made(place)) and box.cod:
                results = self.runner.box(box, tuple(wires[w].read() for w in inputs), sizes)
                for w, value in zip(outline.made(place), results, strict=True):
                    wires[w] = Wire(Cell(spot=True), value)
                continue
            if isinstance(box.op, Group):
                raise CatdiagError(f"{box.name} lies within another loop: the machine has two levels, groups outside")
            read = list(inputs)
            if isinstance(box.op, Fold):
                made = self.fold(
                    box, box.op, [wires[w] for w in inputs], [outline.types[w] for w in inputs], streamed, sizes
                )
            else:
                if place in inside:
                    first, source = outline.first[inside[place]], graph.nodes[inside[place]]
                    read = [*source.inputs, *(w for w in inputs if w != first)]
                for w in read:
                    self.fetch(wires[w], outline.types[w], sizes)
                if place in inside:
                    (value,) = self.runner.box(source.box, tuple(wires[w].read() for w in source.inputs), sizes)
                    wires[first] = Wire(Cell(spot=True), value)
                made = self.compute(box, [wires[w] for w in inputs], sizes)
            for w, wire in zip(outline.made(place), made, strict=True):
                wire.cell.readers = outline.reads[w]
                wires[w] = wire
            for w in read:
                wires[w].cell.readers -= 1
            for cell in dict.fromkeys(wires[w].cell for w in (*read, *outline.made(place))):
                self.release(cell)
        if copied:
            for w in dict.fromkeys(base[w] for w in graph.outputs):
                if w < len(graph.dom) and not wires[w].cell.loaded:
                    self.fetch(wires[w], outline.types[w], sizes)
                    self.release(wires[w].cell)

    def fetch(self, wire: Wire, ty: ArrayType, sizes: Mapping[str, int]) -> None:
        """Loads an operand's tile unless it is there."""
        cell = wire.cell
        if not cell.loaded and not cell.spot:
            cell.held = self.fast.allocate(_extent(ty, wire.value, sizes))
            self.loads[cell.source] += cell.held
            cell.loaded = True

    def release(self, cell: Cell) -> None:
        """Frees an array that nobody will read."""
        if cell.readers == 0 and cell.alive and cell.loaded and not (cell.spot or cell.pinned):
            self.fast.free(cell.held)
            cell.alive = False

    def compute(self, box: Box, args: Sequence[Wire], sizes: dict[str, int]) -> list[Wire]:
        """One box on arrays in fast memory: into fresh room, or over an input that it is the last to read."""
        values = self.runner.box(box, tuple(a.read() for a in args), sizes)
        plain = isinstance(box.op, Map) or (
            isinstance(box.op, Einsum) and {n for t in box.dom for n in t.names} == set(box.cod[0].names)
        )
        made: list[Wire] = []
        for value, ty in zip(values, box.cod, strict=True):
            room = Cell()
            over = None
            if plain:
                for arg, arg_ty in zip(args, box.dom, strict=True):
                    last = arg.cell.readers == sum(a.cell is arg.cell for a in args)
                    if last and not (arg.cell.spot or arg.cell.pinned) and set(arg_ty.names) == set(ty.names):
                        over = arg.cell
                        break
            if over is None:
                room.held = self.fast.allocate(_extent(ty, value, sizes))
            else:
                room.held, over.alive = over.held, False
            made.append(Wire(room, value))
        return made

    def fold(
        self,
        box: Box,
        op: Fold,
        args: Sequence[Wire],
        types: Sequence[ArrayType],
        streamed: Collection[Cell],
        sizes: dict[str, int],
    ) -> list[Wire]:
        """The loop: block after block into a ring of `stages` buffers."""
        lengths = [a.value.lengths()[op.axis] for a in args if op.axis in a.value.names]
        size = next((a.size for ty in box.dom for a in ty.axes if a.name == op.axis), op.axis)
        total = lengths[0] if lengths else size_value(size, sizes)
        block = min(self.runner.tiles.get(op.block, total), total)
        step = inline(op.step).graph
        states = len(box.cod)
        blocks_types = step.dom.arrays[states:]
        for arg, ty in zip(args, types, strict=True):
            if arg.cell not in streamed:
                self.fetch(arg, ty, sizes)
        rings: dict[Cell, int] = {}
        longest = local_sizes(sizes, {op.axis: (op.block, block)})
        for arg, ty in zip(args, blocks_types, strict=True):
            if arg.cell in streamed and arg.cell not in rings:
                first = arg.value.cut(op.axis, 0, block)
                rings[arg.cell] = self.fast.allocate(self.stages * _extent(ty, first, longest))
        unit = self.runner.diagram(op.unit, (), {**sizes, op.block: 0})
        carried: list[Wire] = []
        for value, ty in zip(filled(unit, box, sizes), box.cod, strict=True):
            carried.append(Wire(Cell(held=self.fast.allocate(_extent(ty, value, sizes))), value))
        for start, stop in self.runner.blocks(op, [a.value for a in args], total, block, sizes):
            local = local_sizes(sizes, {op.axis: (op.block, stop - start)})
            wires = dict(enumerate(carried))
            arrived: set[Cell] = set()
            for k, (arg, ty) in enumerate(zip(args, blocks_types, strict=True)):
                part = arg.value.cut(op.axis, start, stop)
                if arg.cell in rings and arg.cell not in arrived:
                    self.loads[arg.cell.source] += _extent(ty, part, local)
                    arrived.add(arg.cell)
                wires[states + k] = Wire(Cell(spot=arg.cell.spot, pinned=True), part)
            spot = {w: wire.cell.spot for w, wire in wires.items()}
            outline = Outline(step, range(len(step.nodes)), spot, states, True)
            self.boxes(outline, wires, local, False)
            carried = self._states([wires[w] for w in step.outputs], box, local)
        for room in rings.values():
            self.fast.free(room)
        return carried

    def _states(self, ends: Sequence[Wire], box: Box, sizes: Mapping[str, int]) -> list[Wire]:
        """The new states, each in room of its own."""
        taken: set[Cell] = set()
        carried: list[Wire] = []
        for wire, ty in zip(ends, box.cod, strict=True):
            value = wire.read()
            if wire.cell.spot or wire.cell.pinned or wire.cell in taken:
                carried.append(Wire(Cell(held=self.fast.allocate(_extent(ty, value, sizes))), value))
            else:
                taken.add(wire.cell)
                carried.append(Wire(Cell(held=wire.cell.held), value))
        return carried
