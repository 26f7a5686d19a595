"""The one lowering: a diagram as loops of statements, with what they load, compute, carry and save, in order.

`lower` gives a whole program, `lower_body` the boxes of one kernel: a wire becomes a value, and a box appends a
statement (`catdiag.schedule.statements`). Four facts that all readers share are settled here:

- what is computed from positions, sizes and constants alone is rematerialized where it is read (`NestValue.inlined`):
  it is neither saved nor loaded;
- a reduction whose result is added to an array that dies there runs where it is added, and loads its operands there;
- an array is loaded before its first use in a kernel; one that only loops read is loaded block by block (`streamed`),
  by the innermost loops that read it (`postponed`);
- a view of an array is loaded as the array, a gather loads the elements that it reads itself.

Code generators (`pseudocode`, `numpy_source`, `triton`) decide on names, and on which expressions are inlined;
`catdiag.schedule.liveness` adds what is allocated on chip.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from catdiag.category.diagram import Diagram, Graph
from catdiag.category.ops import Box, FoldOp, GroupOp, Map
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType
from catdiag.schedule.access_region import (
    PickedElements,
    TileWindow,
    gathered_inputs,
    inputs_in_place,
    with_access_regions,
)
from catdiag.schedule.kernel_cut import KernelCut, all_free, kernel_cut, reshaped_results
from catdiag.schedule.live_ranges import (
    is_view,
    live_ranges,
    only_streamed,
    postponed,
    rematerialized,
    view_roots,
)
from catdiag.schedule.statements import (
    POSTPONED,
    RESIDENT,
    STREAMED,
    Body,
    Carry,
    For,
    Let,
    Load,
    LoopSpan,
    LoopStep,
    Make,
    NestValue,
    Save,
    Slice,
    Start,
    Statement,
    Unless,
    Within,
)
from catdiag.util.errors import CatdiagError


@dataclass(frozen=True)
class LoopNest:
    """A program: its inputs, its statements and its results. `saved` gives the wire of the diagram's `graph` for each
    array that a kernel saves. `reshaped` gives, for each that a group saves and that is a result up to a reshape, this
    reshape, box by box: the array lies where the result does. Such a result is a view of the array in `outputs`."""

    title: str
    inputs: tuple[NestValue, ...]
    body: list[Statement]
    outputs: tuple[NestValue, ...]
    graph: Graph
    saved: Mapping[NestValue, int]
    reshaped: Mapping[NestValue, Sequence[Box]] = field(default_factory=dict)

    @property
    def stored(self) -> tuple[NestValue, ...]:
        """The arrays that lie where the results do."""
        return tuple(v.view if v.view is not None and v.view in self.reshaped else v for v in self.outputs)


def lower(diagram: Diagram, calls: Collection[int] = (), scatters: bool = True) -> LoopNest:
    """The loop nest of a diagram, with named boxes inlined. Each Group box is a kernel, and so are the boxes between
    two. `calls` are the numbers of those groups which write arrays as they are, and no reshapes of them. Without
    `scatters`, sums over one-hot rows are lowered as they are written (`catdiag.schedule.scatter_add`).

    >>> import catdiag as cd
    >>> from catdiag.schedule.statements import statements
    >>> total = cd.algorithm("q x", name="total")(lambda A: cd.sum(A, "x"))
    >>> [type(s).__name__ for _, s in statements(lower(total).body)]
    ['Load', 'Let', 'Save']
    """
    flat = with_access_regions(diagram, scatters)
    inputs = tuple(NestValue(ty, name, slow=True) for name, ty in zip(flat.input_names, flat.dom, strict=True))
    multiple = len(flat.cod) > 1
    ends: dict[int, str] = {}
    for k, w in enumerate(flat.graph.outputs):
        ends.setdefault(w, f"out{k}" if multiple else "out")
    lowering = _Lowering(stores=True)
    lowering.reshaped = reshaped_results(flat.graph, calls)
    ends.update({made: ends[w] for w, (made, _) in lowering.reshaped.items()})
    outputs = lowering.program(flat.graph, inputs, ends)
    wires = {w: value for value, w in lowering.saved.items()}
    reshaped = {wires[made]: boxes for made, boxes in lowering.reshaped.values()}
    return LoopNest(flat.title, inputs, lowering.body, outputs, flat.graph, lowering.saved, reshaped)


def lower_body(
    graph: Graph, inputs: Sequence[NestValue], nested: bool = True, streamed: Sequence[bool] | None = None
) -> Body:
    """The boxes of a kernel as statements. With `nested`, inner loops load what only they read (see `postponed`).

    `streamed` says of each input whether it is loaded block by block; None finds it out.
    """
    return _Lowering(nested).boxes(graph, inputs, streamed=streamed)


def streamed_inputs(graph: Graph, inputs: Sequence[object], nested: bool = True) -> list[bool]:
    """For each input of a kernel's graph, whether only loops read it, so that at most a block of it is on chip. Inputs
    that are None take no memory."""
    here = only_streamed(graph, inputs)
    if not nested:
        return here
    in_place = inputs_in_place(graph)
    return [here[k] if k in in_place else deep for k, deep in enumerate(only_streamed(graph, inputs, nested=True))]


def order_of(places: Collection[int], in_place: Mapping[int, int]) -> list[int]:
    """The order in which boxes run: a reduction in place runs with the box that combines its result."""
    return sorted(places, key=lambda place: (in_place.get(place, place), place not in in_place))


@dataclass
class _Lowering:
    """The statement list under construction, the arrays that are loaded already, and those that kernels save, with
    their wires."""

    nested: bool = True
    stores: bool = False
    """Whether what kernels save is said, and not only what they compute."""
    body: list[Statement] = field(default_factory=list)
    loaded: set[NestValue] = field(default_factory=set)
    saved: dict[NestValue, int] = field(default_factory=dict)
    emitted: dict[tuple[int, int], Save] = field(default_factory=dict)
    """Where the blocks that a loop emits are saved: by the index of the loop's box and the number of its result, the
    store of the result, whose value is that of an iteration."""
    reshaped: Mapping[int, tuple[int, Sequence[Box]]] = field(default_factory=dict)
    """The results that are reshapes of arrays which groups save (`reshaped_results`)."""

    # -- kernels -------------------------------------------------------------------------------------

    def program(self, graph: Graph, inputs: tuple[NestValue, ...], ends: Mapping[int, str]) -> tuple[NestValue, ...]:
        """Lowers the boxes of a diagram, kernel after kernel. `ends` names the wires that are results, which are
        saved."""
        cut, first = kernel_cut(graph), graph.first_wires()
        in_place, streamed = _of_kernels(cut)
        values: dict[int, NestValue] = dict(enumerate(inputs))
        saved: dict[NestValue, NestValue] = {}
        for place in order_of(range(len(graph.nodes)), in_place):
            node, box = graph.nodes[place], graph.nodes[place].box
            args = tuple(values[w] for w in node.inputs)
            wires = range(first[place], first[place] + len(box.cod))
            names = [ends.get(w, "") for w in wires]
            if isinstance(box.op, GroupOp):
                self.loaded = set()
                values.update(zip(wires, self.group(box, box.op, args, names, place), strict=True))
                self.saved.update((values[w], w) for w in wires)
                self.loaded = set()
                continue
            if place in cut.gathered:
                made = self.gathered(box, args, place)
            else:
                blocks = {values[w].origin for w in node.inputs if (place, w) in streamed}
                emitted = self.emitting(box, names, place)
                made = self.box(box, args, cut.is_free(place), blocks, place)
                made = [*made[: len(made) - len(emitted)], *emitted]
                self.saved.update(zip(emitted, wires[len(made) - len(emitted) :], strict=True))
            values.update(zip(wires, made, strict=True))
            for w, name, value in zip(wires, names, made, strict=True):
                if value in self.saved:
                    continue
                if name and not (is_view(box) and value.slow):
                    saved[value] = NestValue(value.ty, name, slow=True)
                    self.saved[saved[value]] = w
                    self.body.append(Save(saved[value], value))
                elif w in cut.crossing and not (value.slow or value.inlined):
                    self.saved[value] = w
                    self.body.append(Save(value, value))
                    value.slow = True
                    self.loaded.add(value)
        outputs = [values[w] for w in graph.outputs]
        for k, value in enumerate(outputs):
            if graph.outputs[k] in self.reshaped:
                value.name = ends[graph.outputs[k]]
            elif value in saved:
                outputs[k] = saved[value]
            elif value in inputs or (value.slow and not value.name):
                outputs[k] = NestValue(value.ty, ends[graph.outputs[k]], slow=True)
                self.saved[outputs[k]] = graph.outputs[k]
                self.body.append(Save(outputs[k], value))
                saved[value] = outputs[k]
        return tuple(outputs)

    def emitting(self, box: Box, names: Sequence[str], place: int) -> list[NestValue]:
        """The arrays of which a loop outside of groups emits blocks, which are saved to them."""
        op = box.op
        if not isinstance(op, FoldOp) or not op.emitted:
            return []
        results = [NestValue(ty, name, slow=True) for ty, name in zip(box.cod, names, strict=True)][op.state_count :]
        self.body.append(Make(tuple(results)))
        self.emitted = {(place, op.state_count + k): Save(result, result) for k, result in enumerate(results)}
        return results

    def group(
        self, box: Box, op: GroupOp, args: Sequence[NestValue], names: Sequence[str], place: int
    ) -> list[NestValue]:
        """Lowers a group: its body runs for each tile, and saves its tile of the results."""
        spans = tuple(LoopSpan(axis, symbol, box.size_of(axis)) for axis, symbol in op.tiles)
        results = [NestValue(ty, name, slow=True) for ty, name in zip(box.cod, names, strict=True)]
        lacking = op.accumulated()
        cleared = tuple(result for result, axes in zip(results, lacking, strict=True) if axes)
        self.body.append(Make(tuple(results), cleared))
        outside, self.body = self.body, []
        flat = inline(op.body)
        inputs: list[NestValue] = []
        slices: dict[tuple[NestValue, ArrayType], NestValue] = {}
        for arg, ty in zip(args, flat.dom, strict=True):
            if (arg, ty) not in slices:
                spans_here = tuple(s for s in spans if s.axis in ty.names)
                slices[arg, ty] = NestValue(ty, arg.name, arg.slow, arg.inlined, of=arg.of) if spans_here else arg
                if spans_here:
                    self.body.append(Slice(slices[arg, ty], arg, spans_here))
            inputs.append(slices[arg, ty])
        stores = [
            Save(result, result, tuple(s for s in spans if s.axis in ty.names), result in cleared)
            for result, ty in zip(results, flat.cod, strict=True)
        ]
        self.emitted = emissions(flat.graph, stores)
        found = self.inside(flat.graph, inputs)
        emitted = {id(store) for store in self.emitted.values()}
        self.emitted = {}
        for store, value in zip(stores, found, strict=True):
            if id(store) not in emitted:
                self.ensure_loaded([value])
                self.body.append(replace(store, value=value))
        outside.append(For("tiles", spans, self.body, place=place))
        self.body = outside
        return results

    def inside(self, graph: Graph, inputs: Sequence[NestValue]) -> list[NestValue]:
        """Lowers the boxes of a body here, and gives its results."""
        body = self.boxes(graph, inputs)
        self.body += body.statements
        return [body.wires[w] for w in graph.outputs]

    def boxes(
        self,
        graph: Graph,
        inputs: Sequence[NestValue],
        states: int | None = None,
        streamed: Sequence[bool] | None = None,
    ) -> Body:
        """Lowers the boxes of a body, in the order in which they run. Of a loop's step, the first `states` inputs are
        the states."""
        outside, self.body = self.body, []
        free = rematerialized(graph, [v.inlined for v in inputs])
        found = live_ranges(graph, free, states or 0, states is not None)
        if streamed is None:
            slow = [v if v.slow and not v.inlined and v.origin not in self.loaded else None for v in inputs]
            streamed = streamed_inputs(graph, slow, self.nested) if any(slow) else [False] * len(inputs)
        gathers = gathered_inputs(graph)
        read = [(v.origin, only) for k, (v, only) in enumerate(zip(inputs, streamed, strict=True)) if k not in gathers]
        blocks = {v for v, only in read if only} - {v for v, only in read if not only}
        first, values = graph.first_wires(), dict(enumerate(inputs))
        for place in order_of(range(len(graph.nodes)), found.in_place):
            node, start = graph.nodes[place], first[place]
            args = [values[w] for w in node.inputs]
            made = self.box(node.box, args, all_free(free, start, node.box), blocks, place)
            values.update(enumerate(made, start))
        statements, self.body = self.body, outside
        return Body(graph, tuple(values[w] for w in range(len(values))), free, found, streamed, statements)

    # -- boxes ---------------------------------------------------------------------------------------

    def box(
        self, box: Box, args: Sequence[NestValue], inlined: bool, blocks: Collection[NestValue], place: int
    ) -> Sequence[NestValue]:
        """Lowers one box. Arrays in slow memory are loaded before they are read, except `blocks`, of which loops load
        blocks."""
        op = box.op
        if isinstance(op, FoldOp):
            return self.fold(box, op, args, blocks, place)
        if isinstance(op, GroupOp):
            return self.group(box, op, args, [""] * len(box.cod), place)
        view = is_view(box)
        slow = view and args[0].slow
        made = tuple(NestValue(ty, slow=slow, inlined=inlined, view=args[0].origin if slow else None) for ty in box.cod)
        if not view or isinstance(op, TileWindow):
            self.ensure_loaded(args)
        if isinstance(op, PickedElements):  # some elements of it: what else reads the array loads it
            self.loaded.discard(args[0].origin)
        self.body.append(Let(made, box, tuple(args), place))
        return made

    def gathered(self, box: Box, args: Sequence[NestValue], place: int) -> Sequence[NestValue]:
        """Lowers a view that groups gather an array through: it stays in slow memory."""
        inlined = isinstance(box.op, Map)  # the index arrays
        source = args[0].origin
        made = tuple(
            NestValue(ty, slow=not inlined, inlined=inlined, of="" if inlined else source.of or source.name)
            for ty in box.cod
        )
        self.body.append(Let(made, box, tuple(args), place))
        return made

    def ensure_loaded(self, values: Sequence[NestValue]) -> None:
        """Loads the arrays that are in slow memory and are not loaded yet."""
        origins = [v.origin for v in values if v.slow and not v.inlined]
        missing = tuple(dict.fromkeys(v for v in origins if v not in self.loaded))
        if missing:
            self.loaded.update(missing)
            self.body.append(Load(missing))

    # -- loops ---------------------------------------------------------------------------------------

    def fold(
        self, box: Box, op: FoldOp, args: Sequence[NestValue], blocks: Collection[NestValue], place: int
    ) -> Sequence[NestValue]:
        """Lowers a loop over blocks. A split loop is several such loops, whose states are merged."""
        access = self.access(box, op, args, blocks)
        self.ensure_loaded([a for a, how in zip(args, access, strict=True) if how == RESIDENT])
        size = box.size_of(op.axis)
        bounds: tuple[NestValue, ...] = ()
        if op.bounds is not None:
            outside, self.body = self.body, []
            bounds = tuple(self.aside(op.bounds, args))
            outside.append(Within(op.block, size, self.body))
            self.body = outside
        states = self.states(op, box)
        span = LoopSpan(op.axis, op.block, size)
        if op.parts is None:
            self.start(op, states)
            self.body.append(self.blocks(op, box, args, access, states, span, bounds, place))
            return [*states, *(NestValue(ty, slow=True) for ty in box.cod.arrays[op.state_count :])]
        if op.emitted:
            raise CatdiagError(f"the loop over {op.axis!r} emits blocks: it is not run in parts")
        outside, self.body = self.body, []
        before = set(self.loaded)
        partial = [NestValue(v.ty, v.name + "_p") for v in states]
        self.start(op, partial)
        self.body.append(self.blocks(op, box, args, access, partial, span, bounds, place))
        self.loaded = before
        parts = (LoopSpan(op.axis, op.parts, size),)
        outside.append(For("parts", parts, self.body, partial_states=tuple(partial), place=place))
        self.body = outside
        self.start(op, states)
        outside, self.body = self.body, []
        merged = tuple(self.aside(op.merge, (*states, *partial)))
        self.body.append(Carry(tuple(states), merged))
        outside.append(For("merge", parts, self.body, partial_states=tuple(partial), place=place))
        self.body = outside
        return states

    def access(self, box: Box, op: FoldOp, args: Sequence[NestValue], blocks: Collection[NestValue]) -> tuple[str, ...]:
        """How an iteration of a loop gets each input (see `LoopStep`)."""
        late = postponed(box, [id(a.origin) for a in args]) if self.nested else [False] * len(args)
        found: list[str] = []
        for arg, ty, left in zip(args, box.dom, late, strict=True):
            if not arg.slow or arg.inlined or arg.origin in self.loaded or arg.origin not in blocks:
                found.append(RESIDENT)
            else:
                found.append(POSTPONED if left else STREAMED if ty.axis(op.axis) is not None else RESIDENT)
        return tuple(found)

    def states(self, op: FoldOp, box: Box) -> list[NestValue]:
        """The variables of a loop's states."""
        count = op.state_count
        names = op.components if len(op.components) == count else [f"state{k}" for k in range(count)]
        return [NestValue(ty, name) for ty, name in zip(box.cod.arrays[:count], names, strict=True)]

    def start(self, op: FoldOp, states: Sequence[NestValue]) -> None:
        """Sets the states to those of the empty list."""
        outside, self.body = self.body, []
        values = tuple(self.aside(op.unit, ()))
        outside.append(Within(op.block, 0, [*self.body, Start(tuple(states), values)]))
        self.body = outside

    def blocks(
        self,
        op: FoldOp,
        box: Box,
        args: Sequence[NestValue],
        access: tuple[str, ...],
        states: Sequence[NestValue],
        span: LoopSpan,
        bounds: tuple[NestValue, ...],
        place: int,
    ) -> For:
        """A loop with one iteration for each block."""
        outside, self.body = self.body, []
        step = inline(op.step)
        inputs: list[NestValue] = []
        slices: dict[tuple[NestValue, ArrayType], NestValue] = {}
        for arg, whole, ty in zip(args, box.dom, step.dom.arrays[len(states) :], strict=True):
            along = whole.axis(op.axis) is not None
            if along and (arg, ty) not in slices:
                slow = arg.slow and arg.origin not in self.loaded
                slices[arg, ty] = NestValue(ty, arg.name, slow, arg.inlined, of=arg.of)
                self.body.append(Slice(slices[arg, ty], arg, (span,)))
            inputs.append(slices[arg, ty] if along else arg)
        left = {v.origin for v, how in zip(inputs, access, strict=True) if how == POSTPONED}
        self.ensure_loaded([v for v in inputs if v.origin not in left])
        if op.block_test is not None:
            (live,) = self.aside(op.block_test, inputs)
            self.body.append(Unless(live))
        body = self.boxes(step.graph, (*states, *inputs), len(states))
        ends = tuple(body.wires[w] for w in step.graph.outputs)
        count = len(states)
        saves = [self._emitted(op, place, k, value, span) for k, value in enumerate(ends) if k >= count]
        statements = [*self.body, *body.statements, *saves, Carry(tuple(states), ends[:count])]
        self.body = outside
        return For("blocks", (span,), statements, bounds, (), place, LoopStep(box, op, body, access))

    def _emitted(self, op: FoldOp, place: int, k: int, value: NestValue, span: LoopSpan) -> Save:
        """The store of a block that an iteration emits."""
        store = self.emitted.get((place, k))
        if store is None and self.stores:
            raise CatdiagError(
                f"the loop over {op.axis!r} emits blocks of an array that is no result of its group: group first, so "
                "that they are saved as they are made"
            )
        if store is None:
            return Save(value, value, (span,))
        return replace(store, value=value, spans=(*store.spans, span))

    def aside(self, diagram: Diagram, inputs: Sequence[NestValue]) -> list[NestValue]:
        """Lowers what is computed beside the boxes of a body: initial states, bounds, block tests and merges."""
        first = len(self.body)
        found = self.inside(inline(diagram).graph, inputs)
        self.body[first:] = [replace(s, place=-1) if isinstance(s, (Let, For)) else s for s in self.body[first:]]
        return found


def emissions(graph: Graph, stores: Sequence[Save]) -> dict[tuple[int, int], Save]:
    """The stores of the results of a graph that loops emit: by the index of the loop's box, and the number of its
    result.

    >>> import catdiag as cd
    >>> emissions(cd.id(cd.category.Ty()).diagram.graph, [])
    {}
    """
    maker, first = graph.makers(), graph.first_wires()
    found: dict[tuple[int, int], Save] = {}
    for w, store in zip(graph.outputs, stores, strict=True):
        place = maker[w]
        if place >= 0 and isinstance(op := graph.nodes[place].box.op, FoldOp) and w - first[place] >= op.state_count:
            found[place, w - first[place]] = store
    return found


def _of_kernels(cut: KernelCut) -> tuple[dict[int, int], set[tuple[int, int]]]:
    """Of the kernels that are no groups: the reductions in place, and the inputs of boxes that are loaded block by
    block, as (box, wire)."""
    in_place: dict[int, int] = {}
    streamed: set[tuple[int, int]] = set()
    nodes, root = cut.graph.nodes, view_roots(cut.graph)
    for places in cut.kernels:
        if isinstance(nodes[places[0]].box.op, GroupOp):
            continue
        part = cut.part(places)
        inside = [cut.free[w] for w in part.inputs]
        found = live_ranges(part.graph, rematerialized(part.graph, inside), 0, False)
        in_place |= {part.places[p]: part.places[end] for p, end in found.in_place.items()}
        only = streamed_inputs(part.graph, [None if f else w for w, f in zip(part.inputs, inside, strict=True)])
        blocks = {w for w, o in zip(part.inputs, only, strict=True) if o}
        streamed |= {(p, w) for p in places for w in nodes[p].inputs if root[w] in blocks}
    return in_place, streamed
