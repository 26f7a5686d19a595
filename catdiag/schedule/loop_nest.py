"""The loop nest of a diagram: what is loaded, computed, carried from iteration to iteration, and saved, in order.

`lower` interprets a diagram (`catdiag.category.functor`): a wire becomes an array, and a box appends a statement. Code
generators (`pseudocode`, `numpy_source`) decide on names, and on which expressions are inlined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from catdiag.category.diagram import Diagram, Graph, inline
from catdiag.category.functor import interpret
from catdiag.category.ops import Box, Const, FoldOp, GroupOp, Index, Map, SizeOf
from catdiag.category.types import ArrayType, Size
from catdiag.schedule.gathers import gathered
from catdiag.schedule.kernel_cut import kernel_cut
from catdiag.schedule.live_ranges import is_view, only_streamed, postponed


@dataclass(eq=False)
class NestValue:
    """An array of the loop nest. `name` is the user's name, or that of a state or result; empty for intermediate
    arrays.

    - `slow`: it is in slow memory;
    - `inlined`: it is made of positions, sizes and constants only, so it is recomputed where it is read;
    - `view`: the array that it is a view of;
    - `of`: the name of the user's array whose elements are gathered through it.
    """

    ty: ArrayType
    name: str = ""
    slow: bool = False
    inlined: bool = False
    view: NestValue | None = None
    of: str = ""

    @property
    def origin(self) -> NestValue:
        """The array that is loaded for it: itself, or the array that it is a view of."""
        return self if self.view is None else self.view


@dataclass(frozen=True)
class LoopSpan:
    """The range of an axis that one loop iteration covers: `symbol` indices (or one of `symbol` parts, for split-K)."""

    axis: str
    symbol: str
    size: Size


@dataclass(frozen=True, eq=False)
class Let:
    """Computes the results of a box from some values."""

    targets: tuple[NestValue, ...]
    box: Box
    args: tuple[NestValue, ...]


@dataclass(frozen=True, eq=False)
class Load:
    """Loads arrays from slow memory: the part that the surrounding loops select."""

    values: tuple[NestValue, ...]


@dataclass(frozen=True, eq=False)
class Slice:
    """The part of an array that the current loop iteration covers."""

    target: NestValue
    source: NestValue
    spans: tuple[LoopSpan, ...]


@dataclass(frozen=True, eq=False)
class Start:
    """Sets the states of a loop before its first iteration."""

    states: tuple[NestValue, ...]
    values: tuple[NestValue, ...]


@dataclass(frozen=True, eq=False)
class Carry:
    """Sets the states of a loop at the end of an iteration (loop-carried values)."""

    states: tuple[NestValue, ...]
    values: tuple[NestValue, ...]


@dataclass(frozen=True, eq=False)
class For:
    """A loop over ranges of axes.

    `kind` is "tiles" (in any order, or in parallel), "blocks" (in order), "parts" (as tiles; each part of a split loop
    has states of its own, stored in `partial_states`) or "merge" (over the states in `partial_states`, in order).
    Blocks outside of `bounds`, two arrays lo and hi, are skipped.
    """

    kind: str
    spans: tuple[LoopSpan, ...]
    body: list[Statement]
    bounds: tuple[NestValue, ...] = ()
    partial_states: tuple[NestValue, ...] = ()


@dataclass(frozen=True, eq=False)
class Within:
    """Statements in which the symbol of a block has this size, such as bounds, which are about a whole axis."""

    symbol: str
    size: Size
    body: list[Statement]


@dataclass(frozen=True, eq=False)
class Unless:
    """Skips the rest of the iteration unless some entry of an array is true (the block test)."""

    condition: NestValue


@dataclass(frozen=True, eq=False)
class Make:
    """Allocates arrays in slow memory that tiles are saved to."""

    values: tuple[NestValue, ...]


@dataclass(frozen=True, eq=False)
class Save:
    """Saves a value to slow memory, to the part of `target` that the surrounding loops select."""

    target: NestValue
    value: NestValue
    spans: tuple[LoopSpan, ...] = ()


Statement: TypeAlias = Let | Load | Slice | Start | Carry | For | Within | Unless | Make | Save


@dataclass(frozen=True)
class LoopNest:
    """A program: its inputs, its statements and its results."""

    title: str
    inputs: tuple[NestValue, ...]
    body: list[Statement]
    outputs: tuple[NestValue, ...]


def inner(statement: Statement) -> list[Statement]:
    """The statements in the body of a statement."""
    return statement.body if isinstance(statement, (For, Within)) else []


def read(statement: Statement) -> tuple[NestValue, ...]:
    """The values that a statement itself reads, once for each occurrence; loads read nothing."""
    match statement:
        case Let(args=args):
            return args
        case Slice(source=source):
            return (source,)
        case Start(values=values) | Carry(values=values):
            return values
        case For(bounds=extent):
            return extent
        case Unless(live):
            return (live,)
        case Save(value=value):
            return (value,)
    return ()


def statements(body: Sequence[Statement]) -> Iterator[tuple[Sequence[Statement], Statement]]:
    """All statements in order, nested ones included, each with the list that contains it."""
    stack = [(body, iter(body))]
    while stack:
        found = next(stack[-1][1], None)
        if found is None:
            stack.pop()
            continue
        yield stack[-1][0], found
        if inner(found):
            stack.append((inner(found), iter(inner(found))))


def lower(diagram: Diagram) -> LoopNest:
    """The loop nest of a diagram, with named boxes inlined. Each Group box is a kernel, and so are the boxes between
    two.

    >>> import catdiag as cd
    >>> total = cd.algorithm("q x", name="total")(lambda A: cd.sum(A, "x"))
    >>> [type(s).__name__ for _, s in statements(lower(total).body)]
    ['Load', 'Let', 'Save']
    """
    flat = inline(diagram)
    inputs = tuple(NestValue(ty, name, slow=True) for name, ty in zip(flat.input_names, flat.dom, strict=True))
    multiple = len(flat.cod) > 1
    ends: dict[int, str] = {}
    for k, w in enumerate(flat.graph.outputs):
        ends.setdefault(w, f"out{k}" if multiple else "out")
    lowering = _Lowering()
    outputs = lowering.kernels(flat, inputs, ends)
    return LoopNest(flat.title, inputs, lowering.body, outputs)


@dataclass
class _Lowering:
    """The statement list under construction, and the arrays that are loaded already."""

    body: list[Statement] = field(default_factory=list)
    loaded: set[NestValue] = field(default_factory=set)

    # -- kernels -------------------------------------------------------------------------------------

    def kernels(self, flat: Diagram, inputs: tuple[NestValue, ...], ends: Mapping[int, str]) -> tuple[NestValue, ...]:
        """Lowers the boxes of a diagram, kernel after kernel. `ends` names the wires that are results, which are
        saved."""
        graph = flat.graph
        count = len(inputs)
        place = 0
        streamed = _streamed_only(graph, inputs)
        gathers = gathered(graph)
        crossing = kernel_cut(graph, gathers)[1] | ends.keys()
        saved: dict[NestValue, NestValue] = {}

        def action(box: Box, args: tuple[NestValue, ...]) -> Sequence[NestValue]:
            nonlocal count, place
            first, count, place = count, count + len(box.cod), place + 1
            names = [ends.get(first + k, "") for k in range(len(box.cod))]
            if isinstance(box.op, GroupOp):
                self.loaded = set()
                results = self.group(box, box.op, args, names)
                self.loaded = set()
                return results
            made = self.gathered(box, args) if place - 1 in gathers else self.box(box, args, streamed)
            for k, value in enumerate(made):
                if names[k] and not (is_view(box) and value.slow):
                    saved[value] = NestValue(value.ty, names[k], slow=True)
                    self.body.append(Save(saved[value], value))
                elif first + k in crossing and not (value.slow or value.inlined):
                    self.body.append(Save(value, value))
                    value.slow = True
                    self.loaded.add(value)
            return made

        outputs = list(interpret(flat, inputs, action))
        for k, value in enumerate(outputs):
            if value in saved:
                outputs[k] = saved[value]
            elif value in inputs or (value.slow and not value.name):
                outputs[k] = NestValue(value.ty, ends[graph.outputs[k]], slow=True)
                self.body.append(Save(outputs[k], value))
                saved[value] = outputs[k]
        return tuple(outputs)

    def group(self, box: Box, op: GroupOp, args: Sequence[NestValue], names: Sequence[str]) -> list[NestValue]:
        """Lowers a group: its body runs for each tile, and saves its tile of the results."""
        spans = tuple(LoopSpan(axis, symbol, box.size_of(axis)) for axis, symbol in op.tiles)
        results = [NestValue(ty, name, slow=True) for ty, name in zip(box.cod, names, strict=True)]
        self.body.append(Make(tuple(results)))
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
        made = self.inside(flat, inputs)
        for result, value, ty in zip(results, made, flat.cod, strict=True):
            self.ensure_loaded([value])
            spans_here = tuple(s for s in spans if s.axis in ty.names)
            self.body.append(Save(result, value, spans_here))
        outside.append(For("tiles", spans, self.body))
        self.body = outside
        return results

    def inside(self, flat: Diagram, inputs: Sequence[NestValue]) -> tuple[NestValue, ...]:
        """Lowers the boxes of a body in order."""
        streamed = _streamed_only(flat.graph, inputs)
        return interpret(flat, inputs, lambda box, args: self.box(box, args, streamed))

    # -- boxes ---------------------------------------------------------------------------------------

    def box(self, box: Box, args: Sequence[NestValue], streamed: set[NestValue]) -> Sequence[NestValue]:
        """Lowers one box. Arrays in slow memory are loaded before they are read, except the `streamed` ones, which
        loops load in blocks."""
        op = box.op
        if isinstance(op, FoldOp):
            return self.fold(box, op, args, streamed)
        if isinstance(op, GroupOp):
            return self.group(box, op, args, [""] * len(box.cod))
        view = is_view(box)
        inlined = isinstance(op, (Index, SizeOf, Const)) or (
            bool(args) and all(a.inlined for a in args) and (view or not box.cod[0].axes)
        )
        slow = view and args[0].slow
        made = tuple(NestValue(ty, slow=slow, inlined=inlined, view=args[0].origin if slow else None) for ty in box.cod)
        if not view:
            self.ensure_loaded(args)
        self.body.append(Let(made, box, tuple(args)))
        return made

    def gathered(self, box: Box, args: Sequence[NestValue]) -> Sequence[NestValue]:
        """Lowers a view that groups gather an array through: it stays in slow memory."""
        inlined = isinstance(box.op, Map)  # the index arrays
        source = args[0].origin
        made = tuple(
            NestValue(ty, slow=not inlined, inlined=inlined, of="" if inlined else source.of or source.name)
            for ty in box.cod
        )
        self.body.append(Let(made, box, tuple(args)))
        return made

    def ensure_loaded(self, values: Sequence[NestValue]) -> None:
        """Loads the arrays that are in slow memory and are not loaded yet."""
        origins = [v.origin for v in values if v.slow and not v.inlined]
        missing = tuple(dict.fromkeys(v for v in origins if v not in self.loaded))
        if missing:
            self.loaded.update(missing)
            self.body.append(Load(missing))

    # -- loops ---------------------------------------------------------------------------------------

    def fold(self, box: Box, op: FoldOp, args: Sequence[NestValue], streamed: set[NestValue]) -> Sequence[NestValue]:
        """Lowers a loop over blocks. A split loop is several such loops, whose states are merged."""
        along = [ty.axis(op.axis) is not None for ty in box.dom]
        left = _left(box, args)
        self.ensure_loaded([a for a in args if a.origin not in streamed and a.origin not in left])
        size = box.size_of(op.axis)
        bounds: tuple[NestValue, ...] = ()
        if op.bounds is not None:
            outside, self.body = self.body, []
            bounds = tuple(self.inside(inline(op.bounds), args))
            outside.append(Within(op.block, size, self.body))
            self.body = outside
        states = self.states(op, box)
        if op.parts is None:
            self.start(op, states)
            self.blocks(op, box, args, along, states, LoopSpan(op.axis, op.block, size), bounds)
            return states
        outside, self.body = self.body, []
        before = set(self.loaded)
        partial = [NestValue(v.ty, v.name + "_p") for v in states]
        self.start(op, partial)
        self.blocks(op, box, args, along, partial, LoopSpan(op.axis, op.block, size), bounds)
        self.loaded = before
        outside.append(For("parts", (LoopSpan(op.axis, op.parts, size),), self.body, partial_states=tuple(partial)))
        self.body = outside
        self.start(op, states)
        outside, self.body = self.body, []
        merged = self.inside(inline(op.merge), (*states, *partial))
        self.body.append(Carry(tuple(states), merged))
        outside.append(For("merge", (LoopSpan(op.axis, op.parts, size),), self.body, partial_states=tuple(partial)))
        self.body = outside
        return states

    def states(self, op: FoldOp, box: Box) -> list[NestValue]:
        """The variables of a loop's states."""
        names = op.components if len(op.components) == len(box.cod) else [f"state{k}" for k in range(len(box.cod))]
        return [NestValue(ty, name) for ty, name in zip(box.cod, names, strict=True)]

    def start(self, op: FoldOp, states: Sequence[NestValue]) -> None:
        """Sets the states to those of the empty list."""
        outside, self.body = self.body, []
        values = self.inside(inline(op.unit), ())
        outside.append(Within(op.block, 0, [*self.body, Start(tuple(states), values)]))
        self.body = outside

    def blocks(
        self,
        op: FoldOp,
        box: Box,
        args: Sequence[NestValue],
        along: Sequence[bool],
        states: Sequence[NestValue],
        span: LoopSpan,
        extent: tuple[NestValue, ...],
    ) -> None:
        """One iteration for each block."""
        outside, self.body = self.body, []
        step = inline(op.step)
        inputs: list[NestValue] = []
        slices: dict[tuple[NestValue, ArrayType], NestValue] = {}
        for arg, has, ty in zip(args, along, step.dom.arrays[len(states) :], strict=True):
            if has and (arg, ty) not in slices:
                slow = arg.slow and arg.origin not in self.loaded
                slices[arg, ty] = NestValue(ty, arg.name, slow, arg.inlined, of=arg.of)
                self.body.append(Slice(slices[arg, ty], arg, (span,)))
            inputs.append(slices[arg, ty] if has else arg)
        left = _left(box, inputs)
        self.ensure_loaded([v for v in inputs if v.origin not in left])
        if op.block_test is not None:
            (live,) = self.inside(inline(op.block_test), inputs)
            self.body.append(Unless(live))
        new = self.inside(step, (*states, *inputs))
        self.body.append(Carry(tuple(states), new))
        outside.append(For("blocks", (span,), self.body, extent))
        self.body = outside


def _streamed_only(graph: Graph, inputs: Sequence[NestValue]) -> set[NestValue]:
    """The inputs that only loops read, along their axis or through inner loops: at most a block of them is loaded at a
    time."""
    only_loops = only_streamed(graph, [True] * len(graph.dom), nested=True)
    return {v.origin for v, only in zip(inputs, only_loops, strict=True) if only} - {
        v.origin for v, only in zip(inputs, only_loops, strict=True) if not only
    }


def _left(box: Box, args: Sequence[NestValue]) -> set[NestValue]:
    """The inputs that a loop leaves to its inner loops to load."""
    found = postponed(box, [id(a.origin) for a in args])
    return {a.origin for a, left in zip(args, found, strict=True) if left}
