"""A diagram cut into kernels, each lowered to its transfers and live arrays. `io` shows them as formulas, `plan`
evaluates them.

>>> from catdiag.category.ops import einsum_box
>>> from catdiag.category.diagram import of_box
>>> from catdiag.category.types import ArrayType, Axis
>>> a, b, c = Axis("a"), Axis("b"), Axis("c")
>>> account = measure(of_box(einsum_box([ArrayType((a, b)), ArrayType((b, c))], ["a", "c"])))
>>> [(t.array, t.direction, str(t.size)) for t in account.kernels[0].transfers]
[('in0', 'load', 'a*b'), ('in1', 'load', 'b*c'), ('out', 'save', 'a*c')]
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from catdiag.category.diagram import Diagram, Graph, Node, of_graph
from catdiag.category.integer_polynomial import ONE, IntPolynomial
from catdiag.category.ops import Box, FoldOp, GroupOp, Map, SizeOf, array_name, tiled_axes
from catdiag.category.substitution import inline
from catdiag.category.traversal import all_boxes
from catdiag.category.types import ArrayType, Axis, Size, Ty, size_symbols
from catdiag.schedule.access_region import gathered_inputs, with_access_regions
from catdiag.schedule.accumulation import added_results
from catdiag.schedule.array_views import in_memory_order, memory_order, result_order
from catdiag.schedule.contractions import deciding
from catdiag.schedule.element_widths import Dtype, Widths
from catdiag.schedule.footprint import clipped, input_regions
from catdiag.schedule.footprint import interior_size as around
from catdiag.schedule.footprint import region_size as box_of
from catdiag.schedule.full_precision import statistics
from catdiag.schedule.kernel_cut import KernelCut, kernel_cut
from catdiag.schedule.live_ranges import is_view, view_roots
from catdiag.schedule.liveness import KernelLowering
from catdiag.schedule.loop_bounds import Bound, known
from catdiag.schedule.lowered_kernel import LoweredKernel, ScatteredStore, Transfer
from catdiag.schedule.operand_types import widest_of
from catdiag.schedule.phases import Phases
from catdiag.schedule.placement import Placement, two
from catdiag.schedule.scatter_add import scattered_entries
from catdiag.schedule.split_k import SplitLoop, one_split_place, split_body
from catdiag.schedule.statements import Buffer
from catdiag.schedule.stored_types import output_names, widths_of
from catdiag.util.errors import CatdiagError

ADDED = 4
"""The bytes of an element of an accumulating output while tiles are added to it: at least those of fp32."""


@dataclass(frozen=True)
class Account:
    """The kernels of a diagram, the sizes of axes that it mentions, and its inputs. `flat` is the diagram with
    named boxes inlined, and with what is read in place marked.

    The kernel of a split loop is two (`catdiag.schedule.split_k`): one saves the states of the parts, and the other
    loads them. `partial_states` are the types of these arrays; their wires follow those of `flat`."""

    kernels: tuple[LoweredKernel, ...]
    sizes: tuple[str, ...]
    inputs: tuple[str, ...]
    flat: Diagram
    split_loop: SplitLoop | None = None
    partial_states: tuple[ArrayType, ...] = ()

    @property
    def inner(self) -> set[str]:
        """The symbols of all sizes on chip: tiles, blocks and axes."""
        return {s for k in self.kernels for ms in k.points.values() for m in ms for s in m.total.symbols()}

    def runs_all(self, what: str) -> None:
        """Raises CatdiagError if a loop skips blocks, or an array is read in place, where `what` is not known."""
        left = next((e.axis for k in self.kernels for e in k.loop_bounds.values()), None)
        if left is not None:
            raise CatdiagError(f"the loop over {left!r} skips blocks: {what}; ask before .skip({left!r})")
        self.adds_nothing(what)
        regions = next((t.array for k in self.kernels for t in k.transfers if t.region), None)
        if regions is not None:
            raise CatdiagError(
                f"{regions} is read in place: the footprints of neighboring groups overlap, which is not counted here"
            )

    def adds_nothing(self, what: str) -> None:
        """Raises CatdiagError if groups add to a result (an accumulating output), of which `what` is not known."""
        added = next((name for k in self.kernels for name in k.added), None)
        if added is not None:
            raise CatdiagError(f"groups add to {added}: {what}; expected groups that each write their own part")

    @property
    def scalars(self) -> tuple[str, ...]:
        """The scalar inputs that trip counts depend on, in order of name."""
        return tuple(sorted({name for k in self.kernels for e in k.loop_bounds.values() for name in e.scalars()}))


def given_sizes(diagram: Diagram) -> set[str]:
    """The symbols of the sizes that a diagram is given: those of its axes, and of the numbers that it makes of sizes;
    not those of blocks and tiles.

    >>> import catdiag as cd
    >>> scaled = cd.algorithm("q x -> q")(lambda A: cd.sum(A, "x") / cd.size("x"))
    >>> sorted(given_sizes(scaled.stream("x").group("q").diagram))
    ['q', 'x']
    """
    return set(diagram.graph.cached(_given_sizes))


def _given_sizes(graph: Graph) -> frozenset[str]:
    diagram = of_graph(graph)
    found = {s for ty in inline(diagram).graph.wire_types() for axis in ty.axes for s in size_symbols(axis.size)}
    numbers, local = set[str](), set[str]()
    for box in all_boxes(diagram):
        numbers |= {s for ty in box.cod for axis in ty.axes for s in size_symbols(axis.size)}
        local |= {symbol for _, symbol in tiled_axes(box.op)}
        if isinstance(box.op, SizeOf):
            numbers |= size_symbols(box.op.size)
    return frozenset(found | (numbers - local))


def measure(
    diagram: Diagram,
    dtype: Dtype = None,
    stages: int = 1,
    registers: bool = False,
    fused: bool = True,
    places: Placement | None = None,
    clip: bool = False,
) -> Account:
    """Cuts a diagram into kernels and analyzes the liveness of each.

    - `dtype`: a type, or types by array; None counts elements instead of bytes;
    - `stages`: pipeline buffers of a streamed block; `registers`: whether registers are a level of their own;
    - `fused`: whether boxes between groups form one kernel, instead of one each;
    - `places`: the memory levels, instead of the two of `stages` and `registers` (`placement.two`);
    - `clip`: an array that is read in place has its whole footprint allocated, padding included, as in a kernel whose
      tiles have one shape. With `clip` only the part that lies in the array is, by the symbols of
      `LoweredKernel.clipped`.

    Raises CatdiagError as `io` does.
    """
    levels = two(stages, registers) if places is None else places
    flat = with_access_regions(diagram)
    slow = _SlowMemory(flat, widths_of(flat, dtype), levels, clip, kernel_cut(flat.graph, fused))
    one_split_place(flat.graph)
    kernels = [kernel for boxes in slow.cut.kernels for kernel in slow.lowered(boxes)]
    types = slow.types
    inlined = [
        (name, types[w]) for name, w in zip(output_names(flat), flat.graph.outputs, strict=True) if slow.cut.free[w]
    ]
    if inlined:
        kernels = kernels or [LoweredKernel({}, points={name: [] for name in levels.names})]
    for name, ty in inlined:
        elements = IntPolynomial.elements(ty.axes).scaled(slow.widths.outputs.get(name, 1))
        kernels[-1].transfers.append(
            Transfer(name, "save", elements, (), "rematerialized", levels.path_up("rematerialized"))
        )
    return Account(
        tuple(kernels),
        tuple(sorted(given_sizes(flat))),
        diagram.input_names,
        flat,
        slow.split_loop,
        tuple(slow.types[len(slow.cut.types) :]),
    )


@dataclass
class _KernelBody:
    """A kernel that is not lowered yet: its record and its body. Of each input there are the buffer (None if it is
    rematerialized), the elements of the whole array, the tiles that load it again, and the index expression of
    positions. `part_of` is the split loop of which it runs a part."""

    kernel: LoweredKernel
    graph: Graph
    inputs: list[Buffer | None]
    incoming: list[tuple[IntPolynomial, tuple[str, ...]]]
    given: list[Bound | None]
    part_of: SplitLoop | None = None


@dataclass
class _SlowMemory:
    """The side of slow memory: its arrays, and what each kernel loads and saves."""

    diagram: Diagram
    widths: Widths
    places: Placement
    clip: bool
    cut: KernelCut

    def __post_init__(self) -> None:
        self.graph, self.types = self.diagram.graph, list(self.cut.types)
        self.split_loop: SplitLoop | None = None
        self.root, self.first = view_roots(self.graph), self.graph.first_wires()
        self.names: dict[int, str] = dict(enumerate(self.diagram.input_names))
        self.deciding = deciding(self.diagram) if self.widths.bytes else ()
        self.between: dict[int, int] = {}
        self.saved_types: dict[int, str] = {}
        statistic_wires = statistics(self.graph)
        for node, first in zip(self.graph.nodes, self.first, strict=True):
            for k in range(len(node.box.cod)):
                self.names[first + k] = array_name(node.box, k)
                self.between[first + k] = self.widths.saved(node.box, k, first + k in statistic_wires)
                self.saved_types[first + k] = self.widths.saved_type(node.box, k, first + k in statistic_wires)
            for k in added_results(node.box) if self.widths.bytes else ():
                if self.between[first + k] < ADDED:
                    self.between[first + k], self.saved_types[first + k] = ADDED, "fp32"
        self.ends: dict[int, list[str]] = {}
        for place in sorted(self.cut.gathered):
            # A view has the elements of its source, and their width.
            if isinstance(self.graph.nodes[place].box.op, Map):
                continue
            w, source = self.first[place], self.root[self.graph.nodes[place].inputs[0]]
            self.names[w], self.between[w] = self.names[source], self.width(source)
            self.saved_types[w] = self.dtype(source)
        for name, w in zip(output_names(self.diagram), self.graph.outputs, strict=True):
            if self.root[w] >= len(self.graph.dom):
                self.ends.setdefault(self.root[w], []).append(name)
        self.names.update((w, names[0]) for w, names in self.ends.items())
        inputs = zip(self.diagram.input_names, self.diagram.dom, strict=True)
        scalars = [("of", name) if ty.element == "int" and not ty.axes else None for name, ty in inputs]
        self.known = known(self.graph, scalars)

    def lowered(self, boxes: list[int]) -> list[LoweredKernel]:
        """The kernel of some boxes, with its transfers; the two kernels of a split loop."""
        node = self.graph.nodes[boxes[0]]
        body = self.group(boxes[0], node) if isinstance(node.box.op, GroupOp) else self.run(boxes)
        if one_split_place(body.graph) is None:
            return [self._lowered(body)]
        tiles = node.box.op.tiles if isinstance(node.box.op, GroupOp) else ()
        sizes = {symbol: node.box.size_of(axis) for axis, symbol in tiles}
        return [self._lowered(kernel) for kernel in self._split(body, sizes)]

    def _lowered(self, body: _KernelBody) -> LoweredKernel:
        made, levels = body.kernel, self.places
        made.points = {name: [] for name in levels.names}
        made.computed_type = self.computed_type(body.inputs)
        if levels.phased:
            loads, saved = Phases(made, body.graph, body.inputs, body.incoming, self.widths, levels).run()
        else:
            lowering = KernelLowering(made, self.widths, levels, body.part_of)
            saved = lowering.kernel_body(body.graph, body.inputs, body.given)
            loads = _loads(body, levels)
        made.transfers = [*loads, *self._saves(body, saved)]
        made.order = describe(body.graph)
        return made

    def _split(self, body: _KernelBody, sizes: Mapping[str, Size]) -> tuple[_KernelBody, _KernelBody]:
        """The kernel of a split loop as two: one saves the states of each part, the other merges them. `sizes` are
        those of grouped axes, by tile."""
        whole = body.kernel
        split = split_body(body.graph, tuple(whole.axes.values()))
        loop = self.split_loop = split.loop
        tile, node = loop.single[0], split.saving.nodes[-1]
        # The first kernel saves its states with the axis of parts.
        states = Ty(*(ArrayType((Axis(loop.parts, tile), *t.axes), t.element) for t in node.box.cod))
        made = Box(node.box.op, node.box.dom, states, node.box.line)
        parts = Graph(split.saving.dom, (*split.saving.nodes[:-1], Node(made, node.inputs)), split.saving.outputs)
        buffers, incoming = list(body.inputs), list(body.incoming)
        leaves: list[tuple[int, int]] = []
        for k, local in enumerate(split.merging.dom.arrays[len(buffers) :]):
            w, name = len(self.types), loop.names[k] if k < len(loop.names) else ""
            own_axes = (Axis(a.name, sizes.get(str(a.size), a.size)) for a in local.axes)
            self.types.append(ArrayType(tuple(own_axes), local.element))
            self.names[w] = f"{name} of a part" if name else array_name(made, k)
            self.between[w] = self.widths.on_chip(self.types[w], name)
            self.saved_types[w] = self.widths.saved_type(made, k, False)
            buffers.append(self._operand(w, local))
            incoming.append((IntPolynomial.elements(self.types[w].axes), _lacking(whole.tiles, local)))
            leaves.append((k, w))
        reads = (*whole.reads, *(w for _, w in leaves))
        merging = replace(whole, reads=reads)
        # A part is not repeated for a grouped axis that neither an input nor a state has.
        inside = {*parts.outputs, *(w for n in parts.nodes for w in n.inputs)}
        read = [self.types[w] for k, w in enumerate(whole.reads) if k in inside]
        had = {n for ty in (*read, *self.types[leaves[0][1] :]) for n in ty.names}
        tiles = {symbol: size for symbol, size in whole.tiles.items() if whole.axes[symbol] in had}
        axes = {symbol: name for symbol, name in whole.axes.items() if symbol in tiles}
        saving = LoweredKernel(
            {**tiles, tile: IntPolynomial.of(loop.parts)}, {**axes, tile: loop.parts},
            reads=whole.reads, leaves=tuple(leaves), clipped=dict(whole.clipped),
        )  # fmt: skip
        of_part = [
            (elements, (*_lacking(tiles, local), *([] if along else [tile])))
            for (elements, _), local, along in zip(body.incoming, body.graph.dom, split.along, strict=True)
        ]
        own = [None if b is None else replace(b) for b in body.inputs]
        return (
            _KernelBody(saving, parts, own, of_part, body.given, loop),
            _KernelBody(merging, split.merging, buffers, incoming, [*body.given, *(None for _ in leaves)]),
        )

    def _saves(self, body: _KernelBody, roles: Sequence[str]) -> Iterator[Transfer]:
        """What a kernel saves: an output once for each result of the diagram that it is, or as an array between
        kernels. Other kernels read the array of the first result."""
        tiles, types, entries = body.kernel.tiles, body.graph.wire_types(), scattered_entries(body.graph)
        for k, w in body.kernel.leaves:
            made = entries.get(k, types[body.graph.outputs[k]])  # what a tile saves
            reload_axes, path = _lacking(tiles, made), self.places.path_up(roles[k])
            for name in self.ends.get(w, [self.names[w]]):
                width = self.widths.outputs.get(name, 1) if w in self.ends else self.between[w]
                elements = IntPolynomial.elements(self.types[w].axes)
                order = result_order(self.graph, w) if w < len(self.root) else made.names
                row = _row_elements(in_memory_order(made.axes, order), tiles).scaled(width)
                saved = Transfer(name, "save", elements.scaled(width), reload_axes, roles[k], path, row=row)
                if w in body.kernel.sums:
                    once = _whole_elements(tiles, made) if k in entries else elements
                    yield from self._added(replace(saved, size=elements), width, once)
                    if k in entries:
                        body.kernel.scattered.append(self._scattered(w, made, reload_axes, once, width))
                else:
                    yield saved

    def _added(self, saved: Transfer, width: int, added: IntPolynomial) -> Iterator[Transfer]:
        """What an accumulating output moves; `saved` counts its elements, which are stored at a width, `added` those
        that tiles add, which they load and save."""
        sums = max(width, ADDED) if self.widths.bytes else width
        once = replace(saved, size=saved.size.scaled(sums), reload_axes=())
        each = replace(saved, size=added.scaled(sums))
        yield once
        yield replace(each, direction="load")
        yield each
        if sums > width:
            yield replace(once, direction="load")
            yield replace(once, size=saved.size.scaled(width))

    def _scattered(
        self, w: int, made: ArrayType, reload_axes: tuple[str, ...], entries: IntPolynomial, width: int
    ) -> ScatteredStore:
        """What tiles add to an array that is stored at a width: entries with the axes of `made`, which include its last
        one if rows are added."""
        axes = self.types[w].axes
        last = made.axis(axes[-1].name)
        row = ONE if last is None else IntPolynomial.of(last.size)
        return ScatteredStore(entries, reload_axes, row, IntPolynomial.elements(axes), ADDED, width < ADDED)

    def width(self, w: int) -> int:
        """Bytes of an element of an array in slow memory."""
        name = self.names[w]
        if w < len(self.graph.dom):
            return self.widths.inputs.get(name, 1)
        return self.widths.outputs.get(name, 1) if w in self.ends else self.between[w]

    def dtype(self, w: int) -> str:
        """The type of an array of real numbers in slow memory; empty where elements are counted."""
        return self.widths.types.get(self.names[w], "" if w < len(self.graph.dom) else self.saved_types[w])

    def computed_type(self, inputs: Sequence[Buffer | None]) -> str:
        """The type of a kernel's products whose factors are both computed: that of the inputs that decide, or of the
        first."""
        types = {b.name: b.dtype for b in inputs if b is not None and b.dtype}
        return widest_of([types[n] for n in self.deciding if n in types] or [*types.values()][:1]) or self.widths.rest

    def _operand(self, wire: int, local: ArrayType) -> Buffer | None:
        """The buffer of an input of a kernel, a tile of a wire; None if it is rematerialized."""
        known = wire < len(self.root)  # not a part of a split loop
        w = self.root[wire] if known else wire
        if w < len(self.cut.free) and self.cut.free[w]:
            return None
        size, placement = IntPolynomial.elements(local.axes), self.places.operand
        axes = in_memory_order(local.axes, memory_order(self.graph, wire)) if known else local.axes
        return Buffer(
            self.names[w], "operand", size, self.width(w), placement, loaded=False, wire=w, axes=axes,
            dtype=self.dtype(w),
        )  # fmt: skip

    def group(self, place: int, node: Node) -> _KernelBody:
        """A Group box as a kernel."""
        op = node.box.op
        if not isinstance(op, GroupOp):
            raise CatdiagError(f"{node.box.name} is not a group: expected a Group box")
        tiles = {symbol: _axis_size(node.box, name) for name, symbol in op.tiles}
        body = inline(op.body).graph
        seen: dict[tuple[int, ArrayType], int] = {}
        single_use = gathered_inputs(body)
        representative = [
            k if k in single_use else seen.setdefault((self.root[w], body.dom[k]), k) for k, w in enumerate(node.inputs)
        ]
        body = _merge_reads(body, representative)
        made = range(self.first[place], self.first[place] + len(op.body.cod))
        leaves = tuple((k, w) for k, w in enumerate(made) if w in self.cut.leaving)
        added = frozenset(w for k, w in enumerate(made) if op.accumulated()[k])
        axes = {symbol: name for name, symbol in op.tiles}
        kernel = LoweredKernel(tiles, axes, reads=node.inputs, leaves=leaves, sums=added)
        wires: list[Buffer | None] = []
        incoming: list[tuple[IntPolynomial, tuple[str, ...]]] = []
        for w, local in zip(node.inputs, body.dom, strict=True):
            wires.append(self._operand(w, local))
            incoming.append((IntPolynomial.elements(self.types[w].axes), _lacking(tiles, local)))
        given = [self.known[w] for w in node.inputs]
        for k, window in input_regions(body, given, dict(op.tiles)).items():
            buffer, local = wires[k], body.dom[k]
            if buffer is not None:
                if self.clip:
                    window, sides = clipped(window, f"{place}.{k}")
                    kernel.clipped |= sides
                buffer.region, buffer.size, buffer.interior = window, box_of(local, window), around(local, window)
        return _KernelBody(kernel, body, wires, incoming, given)

    def run(self, places: list[int]) -> _KernelBody:
        """Consecutive boxes outside of groups as a kernel: a single group of everything."""
        part = self.cut.part(places)
        kernel = LoweredKernel({}, reads=tuple(part.inputs), leaves=tuple(enumerate(part.outputs)))
        incoming = [(IntPolynomial.elements(ty.axes), ()) for ty in part.graph.dom]
        wires = [self._operand(w, self.types[w]) for w in part.inputs]
        return _KernelBody(kernel, part.graph, wires, list(incoming), [self.known[w] for w in part.inputs])


def _loads(body: _KernelBody, levels: Placement) -> list[Transfer]:
    """What a kernel loads: of whole arrays, of parts of arrays, and again by inner loops."""
    found: tuple[list[Transfer], list[Transfer], list[Transfer]] = [], [], []
    (part,) = body.kernel.parts
    read = part.loads()
    for b, (elements, reload_axes) in zip(body.inputs, body.incoming, strict=True):
        if b is None:
            continue
        role = "streamed" if b.streamed_only else "operand"
        once = Transfer(b.name, "load", elements.scaled(b.width), reload_axes, role, levels.path(role), wire=b.wire)
        loads = read.get(b, [])
        if times := sum(load.is_plain for load in loads):
            found[0].append(replace(once, size=once.size.scaled(times), times=times))
        for load in loads:
            if load.local is not None:
                local = load.local.scaled(b.width)
                found[1].append(replace(once, local=local, bounds=load.bounds, loops=load.loops, region=b.region))
        for iterations, times in Counter(load.loop_nest for load in loads if load.loop_nest).items():
            found[2].append(replace(once, size=once.size.scaled(times), times=times, loop_nest=iterations))
    return [transfer for transfers in found for transfer in transfers]


def _whole_elements(tiles: Mapping[str, IntPolynomial], ty: ArrayType) -> IntPolynomial:
    """The elements of an array in all tiles that it has."""
    wholes = (tiles.get(str(axis.size), IntPolynomial.of(axis.size)) for axis in ty.axes)
    return math.prod(wholes, start=ONE)


def _merge_reads(graph: Graph, kept: list[int]) -> Graph:
    """The graph with equal inputs read as one: input `k` is replaced by input `kept[k]`, the same array at the same
    tile."""
    if kept == list(range(len(kept))):
        return graph
    name = [*kept, *range(len(kept), len(graph.wire_types()))]
    nodes = tuple(Node(n.box, tuple(name[w] for w in n.inputs)) for n in graph.nodes)
    return Graph(graph.dom, nodes, tuple(name[w] for w in graph.outputs))


def _axis_size(box: Box, name: str) -> IntPolynomial:
    """The size of an axis that a box groups."""
    if all(ty.axis(name) is None for ty in (*box.dom, *box.cod)):
        raise CatdiagError(f"{box.name} groups axis {name!r}, which no array of it has")
    return IntPolynomial.of(box.size_of(name))


def _row_elements(axes: Sequence[Axis], tiles: Mapping[str, IntPolynomial]) -> IntPolynomial:
    """How many elements of a tile with axes in the order of memory lie side by side in it: along the last axis, and
    along those before of which a tile has what comes after them as a whole."""
    found = ONE
    for axis in reversed(axes):
        found = found * IntPolynomial.of(axis.size)
        if axis.size in tiles:
            break
    return found


def _lacking(tiles: Mapping[str, IntPolynomial], local: ArrayType) -> tuple[str, ...]:
    """The tiles of a kernel that an array does not have: it is loaded again for each of them."""
    have = {s for axis in local.axes for s in IntPolynomial.of(axis.size).symbols()}
    return tuple(t for t in tiles if t not in have)


def describe(graph: Graph) -> list[str]:
    """The order of a kernel's boxes as text, one entry a box or loop."""
    words: list[str] = []
    for node in graph.nodes:
        op = node.box.op
        if isinstance(op, FoldOp):
            iteration = ", ".join(describe(inline(op.step).graph)) or "nothing"
            words.append(f"for each stream block {op.block} of {op.axis} ({iteration})")
        elif not is_view(node.box) and (node.inputs or node.box.op.__class__.__name__ == "Generic"):
            words.append(node.box.name)
    return words
