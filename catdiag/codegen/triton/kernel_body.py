"""One kernel from the statements of a group: its grid of tiles, loops over blocks with states in registers, stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from catdiag.category.ops import Box
from catdiag.category.types import ArrayType
from catdiag.codegen.kernel_tree import Assign, Do, ForLoop, If, PythonStatement
from catdiag.codegen.names import Names, identifier
from catdiag.codegen.syntax import (
    ATOM,
    IfElse,
    ListOf,
    Name,
    Number,
    PythonExpression,
    call,
    compared,
    dotted,
    joined,
    joined_all,
    length_of,
    method,
)
from catdiag.codegen.triton import carried_states
from catdiag.codegen.triton.additions import Addition, addition
from catdiag.codegen.triton.array_accesses import At, Made, Pull, StoredArray, reshaped_index, state_of
from catdiag.codegen.triton.edge_masks import EdgeMasks
from catdiag.codegen.triton.kernel_builder import Build, KernelLoop, Tile, axes_text, tile_number
from catdiag.codegen.triton.kernel_signature import KernelSpec, ModuleContext
from catdiag.codegen.triton.mask_ranges import edge, grows, unmasked_blocks
from catdiag.codegen.triton.product_types import ProductTypes
from catdiag.codegen.triton.scattered_entries import ScatteredEntries, add_at_positions, scattered
from catdiag.codegen.triton.tile_expressions import reduced_rows
from catdiag.codegen.triton.tile_nodes import Dim, Scope, TileNode
from catdiag.codegen.triton.triton_dialect import TRITON
from catdiag.codegen.triton.triton_printer import TritonPrinter, tile_shape
from catdiag.schedule.scatter_add import ScatterAdd
from catdiag.schedule.statements import (
    Carry,
    For,
    Let,
    Load,
    LoopSpan,
    Make,
    NestValue,
    Save,
    Slice,
    Start,
    Statement,
    Unless,
    Within,
)
from catdiag.util.errors import TypeMismatch


class Writing:
    """Writes one kernel: nodes for values (`k`), statements for loops, states and stores (`printer`).

    `spans` are the tiles of the grid, and `env` gives the arrays and values that the kernel reads.
    """

    dialect = TRITON

    def __init__(self, shared: ModuleContext, env: Mapping[NestValue, Pull], spans: Sequence[LoopSpan]) -> None:
        self.shared, self.tl = shared, self.dialect.module
        self.own = Names(set(shared.names.taken))
        self.k = Build(self.own, env, shared.sizes, shared.dtypes, shared.merged_array, shared.array_part)
        self.types = ProductTypes(shared, self.k.arrays, self.tl)
        self.printer = TritonPrinter(self.own.fresh, self.types.factors, self.types.precision, self.dialect)
        self.printer.twins, self.printer.lefts = self.k.nodes.twins, self.k.nodes.lefts
        self.all_spans = tuple(spans)
        self.starts: dict[str, str] = {}
        self.padded: dict[str, str] = {}
        self.exact: dict[str, LoopSpan] = {}
        self.edges: dict[str, EdgeMasks] = {}
        self.loops: dict[str, LoopSpan] = {}
        self.reverse: set[str] = set()
        self.imbalance: set[str] = set()
        self.parts: LoopSpan | None = None
        self.bounds: tuple[PythonExpression, PythonExpression] = (Name(""), Name(""))
        self.phases = 0
        self.added: dict[StoredArray, str] = {}
        self.additions: list[Addition] = []
        self.read_once: set[NestValue] = set()
        self.carried: dict[NestValue, TileNode] = {}
        """States that a loop carries as what is added to them has them, with that."""
        self.pad = self._padding(spans)
        for span in spans:
            self._grid(span)

    # -- the grid ------------------------------------------------------------------------------------------

    def _grid(self, span: LoopSpan) -> None:
        """Enters a tile of the grid: the name of its start, its mask, and the length of its block."""
        k, nodes = self.k, self.k.nodes
        axis = identifier(span.axis)
        start = self.own.fresh(axis + "0") if self._tile(span) != 1 else self.own.fresh(axis + "_at")
        self.starts[span.symbol] = start
        place = nodes.start(start)
        whole = k.size(span.size)
        single = self._tile(span) == 1
        exact = self.own.fresh(f"even_{axis}")
        block = span.symbol
        if not single:
            if span.symbol in self.pad:
                block = self.padded[span.symbol] = self.own.fresh(f"{axis}_block")
            self.exact[exact] = span
        k.tiles[span.symbol] = Tile(
            span, place, whole, k.root, single, block, exact, length=self._tile(span) if block == span.symbol else 0
        )

    def _padding(self, spans: Sequence[LoopSpan]) -> set[str]:
        """The tiles whose length is no power of two: their blocks are padded to one, as Triton requires."""
        tiles = self.shared.tiles
        return {s.symbol for s in spans if tiles.get(s.symbol, 1) > 1 and tiles[s.symbol].bit_count() > 1}

    def _tile(self, span: LoopSpan) -> int:
        """The default length of a tile, in entries."""
        return self.shared.tiles.get(span.symbol, 0)

    # -- statements --------------------------------------------------------------------------------------------

    def body(self, body: Sequence[Statement]) -> None:
        """Lowers statements in order. Loops and stores write statements; the rest makes nodes. Raises TypeMismatch for
        a group or a split loop inside of a loop."""
        for s in body:
            match s:
                case Let(targets, Box(op=ScatterAdd())):
                    self.k.env[targets[0]] = scattered(self.k, s)
                case Let():
                    self.k.let(s)
                case Slice(target, source, spans):
                    self.k.part(target, source, spans)
                case Within(symbol, size, inner):
                    before = self.k.local.get(symbol)
                    self.k.local[symbol] = self.k.size(size)
                    self.body(inner)
                    del self.k.local[symbol]
                    self.k.local.update({} if before is None else {symbol: before})
                case Start(states, values):
                    self._start(states, values)
                case For(kind="blocks"):
                    self._loop(s)
                case Unless(live):
                    self._unless(live)
                case Carry(states, values):
                    self._carry(states, values)
                case Save(target, value, spans, adds):
                    self.save(target, value, spans, adds)
                case Load() | Make():
                    pass
                case For():
                    raise TypeMismatch(
                        "a group or a split loop inside a loop cannot be one kernel: expected groups outside loops. "
                        "Group the whole program first, then split the loop"
                    )

    def _start(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> None:
        """The statements that set states to their initial values."""
        k = self.k
        for state, given in zip(states, values, strict=True):
            node = k.nodes.real(k.tile(given)) if state.ty.element in ("real", "extended") else k.tile(given)
            dims = self.dims_of(state.ty)
            self.printer.count([node])
            value = self.printer.ref(node, k.scope)
            name = self.own.fresh(state.name or "state")
            kind = self.dialect.type_of(state.ty.element)
            if node.kind == "const":
                number = Number(int(node.data)) if node.element == "bool" else value
                value = call(f"{self.tl}.full", tile_shape(dims) if dims else ListOf(()), number, kind)
            elif set(node.dims) == set(dims):
                value = method(self.printer.aligned(node, dims), "to", kind)
            elif dims:
                value = method(self._repeated(self.printer.aligned(node, dims), dims), "to", kind)
            k.scope.write(
                Assign((Name(name),), value, note=f"the state {state.name}{axes_text(state.ty)} of no entries")
            )
            self.enter_state(state, name, dims, k.scope)

    def dims_of(self, ty: ArrayType) -> tuple[Dim, ...]:
        """The dimensions of a tile of an array."""
        return tuple(d for a in ty.axes if (d := self.k.dim(a)) is not None)

    def enter_state(self, state: NestValue, name: str, dims: Sequence[Dim], scope: Scope) -> TileNode:
        """The node of a state in a scope; it has the name `name` there."""
        element = {"int": "int", "bool": "bool"}.get(state.ty.element, "real")
        node = self.k.nodes.make("symbol", (), dims, element, (name, False), scope, heavy=True)
        self.k.env[state] = Made(state.ty, node, tuple(self.k.dim(a) for a in state.ty.axes), state.name)
        self.printer.names[node] = name
        return node

    # -- loops -------------------------------------------------------------------------------------------------

    def _loop(self, loop: For) -> None:
        """A loop over blocks: its body is lowered first, since that finds the masks by which its range is divided."""
        k, nodes = self.k, self.k.nodes
        (span,) = loop.spans
        outside = k.scope
        carry = next(s for s in reversed(loop.body) if isinstance(s, Carry))
        low, high = self._ends(loop, span)
        scope = Scope(outside)
        context = KernelLoop("phase" if not k.loops else self.own.fresh("phase"))
        first = self.own.fresh((span.axis if span.axis.isidentifier() else "i") + "0")
        place = nodes.start(first, scope)
        axis = first[:-1] if first.endswith("0") else first
        single = self._tile(span) == 1
        blocks = LoopSpan(span.axis, "1" if single else span.symbol, span.size)
        exact = next((e for e, s in self.exact.items() if s == blocks), None)
        if exact is None:
            exact = self.own.fresh(f"even_{axis}")
            self.exact[exact], self.edges[exact] = blocks, EdgeMasks()
        context.edge = self.edges[exact]
        self.loops[span.symbol] = blocks
        before = k.tiles.get(span.symbol)
        k.tiles[span.symbol] = Tile(
            span, place, k.size(span.size), scope, single, blocks.symbol, exact, context, self._tile(span)
        )
        k.loops.append(k.tiles[span.symbol])
        names = {s: self.printer.names[state_of(k.env[s])] for s in carry.states}
        dims = {s: self.dims_of(s.ty) for s in carry.states}
        for state in carry.states:
            self.enter_state(state, names[state], dims[state], scope)
        k.scope = scope
        self.body(loop.body)
        k.scope = outside
        k.loops.pop()
        del k.tiles[span.symbol]
        k.tiles.update({} if before is None else {span.symbol: before})
        for state in carry.states:
            self.enter_state(state, names[state], dims[state], outside)
        added = [(names[s], dims[s], self.carried.pop(s)) for s in carry.states if s in self.carried]
        carried = [(Name(n), d, a, Name(self.own.fresh(n + "_before"))) for n, d, a in added]
        outside.write(*(line for one in carried for line in carried_states.before(self.printer, one)))
        self._head(blocks, context, exact, low, high, first, scope)
        outside.write(*(line for one in carried for line in carried_states.after(self.printer, one)))
        for name in (Name(names[s]) for s in carry.states if s in self.read_once):
            outside.write(Assign((name,), joined(name, "+", Number(0.0)), note=f"{name}, which is read once so"))

    def _ends(self, loop: For, span: LoopSpan) -> tuple[TileNode, TileNode]:
        """The positions at which a loop starts and ends: those of its part, narrowed to where a mask may hold."""
        k, nodes = self.k, self.k.nodes
        zero, whole = nodes.const(0, "int"), k.size(span.size)
        low, high = zero, whole
        if self.parts is not None and self.parts.axis == span.axis:
            part, chunk = nodes.symbol("part"), nodes.symbol("chunk", positive=True)
            low = nodes.op("mul", part, chunk)
            high = nodes.op("min", nodes.op("add", low, chunk), whole)
        if not loop.bounds:
            return low, high
        found = []
        for value, upper in zip(loop.bounds, (False, True), strict=True):
            node = k.tile(value)
            end = edge(nodes, node, upper)
            if end is None:
                end = node
                for d in node.dims:
                    end = nodes.reduce("max" if upper else "min", end, d)
            found.append(end)
        for span_, tile in ((s, k.tiles[s.symbol]) for s in self.all_spans):
            if grows(found[1], tile.start) or grows(found[0], tile.start):
                self.imbalance.add(span_.symbol)
            if grows(found[1], tile.start) > 0 and not grows(found[0], tile.start) > 0:
                self.reverse.add(span_.symbol)
        start = nodes.op("max", low, found[0])
        if start.value != 0 and self._tile(span) != 1:
            block = nodes.symbol(span.symbol, positive=True)
            start = nodes.op("mul", nodes.op("floordiv", start, block), block)
        return start, nodes.op("min", high, found[1])

    def _head(
        self, span: LoopSpan, context: KernelLoop, exact: str, low: TileNode, high: TileNode, first: str, scope: Scope
    ) -> None:
        """The loop over blocks, divided into up to three phases: blocks inside all masks, and blocks at the edges."""
        phase = self._phases(span, context, exact, low, high)
        over = call(f"{self.tl}.range", *self.bounds, length_of(span.symbol))
        phase.append(ForLoop(Name(first), over, scope.body))

    def _phases(
        self, span: LoopSpan, context: KernelLoop, exact: str, low: TileNode, high: TileNode
    ) -> list[PythonStatement]:
        """Writes the loop over phases with the range of each, and returns its body, for the loop over blocks."""
        k, p = self.k, self.printer
        outside, single = k.scope, span.symbol.isdigit()
        masks = bool(context.unmasked.lower or context.unmasked.upper)
        ranged = low.value != 0 or high is not k.size(span.size)
        ends = [(low, "low"), (high, "high")]
        if not single:  # else each block is inside of all masks
            begin, end = unmasked_blocks(k.nodes, context.unmasked, k.size(span.size), span.symbol, (low, high))
            ends[1:1] = [(begin, "begin"), (end, "end")]
        p.count([node for node, _ in ends] * 2)
        edges: list[PythonExpression] = []
        for node, wanted in ends:
            p.ref(node, outside)
            at = p.plain(node)
            known = isinstance(at, (Name, Number)) and at.level == ATOM
            edges.append(at if known else Name(p.name(node, wanted)))
        phases = list(pairwise(edges))[0 if context.unmasked.lower or single else 1 :]
        several = masks or ranged or single
        number = Number(len(phases)) if several else IfElse(Name(exact), Number(1), Number(2))
        self.phases += len(phases) if several else 1
        base = span.axis if span.axis.isidentifier() else "i"
        start, stop = self.bounds = Name(self.own.fresh(f"{base}_from")), Name(self.own.fresh(f"{base}_to"))
        body: list[PythonStatement] = []
        for n, (a, b) in enumerate(phases):
            last = IfElse(Name(exact), edges[-1], b) if n == 0 and context.edge.zero_filled and not several else b
            both = [Assign((start,), a), Assign((stop,), last)]
            body += both if n == 0 else [If(compared(Name(context.phase), "==", Number(n)), both)]
        if self.printer.accumulated and not (masks or ranged):  # else ptxas waits for each product: C7515
            body.append(If(Name(exact), [Do(call(f"{self.tl}.assume", compared(stop, ">", Number(0))))]))
        note = f"{'blocks inside all masks' if masks else 'whole blocks'}, and those at an edge apart"
        note = "one entry at a time" if single else note
        outside.write(
            ForLoop(Name(context.phase), call(f"{self.tl}.static_range", number), body, note=note, beside=True)
        )
        return body

    def _unless(self, live: NestValue) -> None:
        """Skips the rest of an iteration if the condition `live` holds for no entry of the block."""
        k, p = self.k, self.printer
        node = k.tile(live)
        for dim in node.dims:
            node = k.nodes.reduce("any", k.nodes.masked(node, dim, 0.0), dim)
        p.count([node])
        condition = p.ref(node, k.scope)
        if node.value is None:
            rest: list[PythonStatement] = []
            k.scope.write(If(condition, rest, note="unless a mask empties the block"))
            k.scope.end = rest

    def _carry(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> None:
        """Writes the statements that update states at the end of an iteration."""
        made = self._after(states, values)
        for boxes in self.k.boxes.values() if self.k.nodes.sides else ():
            boxes.looped |= boxes.windowed
        reduced = (reduced_rows(node, state_of(self.k.env[s])) for s, node in zip(states, made, strict=True))
        self.read_once.update(s for s, a in zip(states, reduced) if self.shared.dtypes.get(a) == "fp32")
        self.printer.count(made)
        self.printer.accumulate(made)
        self._assign(states, made)

    def _after(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> list[TileNode]:
        """The next values of states."""
        tiles, real = [self.k.tile(value) for value in values], ("real", "extended")
        return [self.k.nodes.real(n) if s.ty.element in real else n for s, n in zip(states, tiles, strict=True)]

    def _assign(self, states: Sequence[NestValue], made: Sequence[TileNode]) -> None:
        """Writes assignments of next values to states.

        A state that a later assignment still reads is assigned last; its next value has a name of its own until then.
        """
        k, p = self.k, self.printer
        old = {s: state_of(k.env[s]) for s in states}
        later: list[tuple[str, Name]] = []
        for n, (state, node) in enumerate(zip(states, made, strict=True)):
            name = p.names[old[state]]
            if node is old[state]:
                continue
            dims, note = self.dims_of(state.ty), f"{state.name}{axes_text(state.ty)}"
            read_later = any(p.still_reads(other, old[state]) for other in made[n + 1 :])
            if read_later and node not in p.names and node.kind not in ("const", "symbol", "relabel"):
                node.wanted = self.own.fresh(name + "_new")
                self.own.taken.discard(node.wanted)
                node.note = note
            added = carried_states.only_added(p, node, old[state], k.scope)
            if added is not None:
                self.carried[state] = added
                for arg in added.args:
                    p.ref(arg, k.scope)
                k.scope.write(Assign((Name(name),), carried_states.addition(p, added, Name(name)), note=note))
                continue
            p.ref(node, k.scope, bare=not read_later and node.kind != "guard")
            value = p.aligned(node, dims)
            if (
                read_later
                and node in p.names
                and p.names[node] == node.wanted
                and set(node.dims) == set(dims)
                and isinstance(value, Name)
            ):
                later.append((name, value))
                continue
            if set(node.dims) != set(dims):
                value = self._repeated(value, dims)
            if read_later:
                fresh = self.own.fresh(name + "_new")
                k.scope.write(Assign((Name(fresh),), value, note=note))
                p.names[node] = fresh
                later.append((name, Name(fresh)))
            else:
                k.scope.write(Assign((Name(name),), value, note=note))
        for name, new in later:
            k.scope.write(Assign((Name(name),), new))

    def _repeated(self, tile: PythonExpression, dims: Sequence[Dim]) -> PythonExpression:
        """A tile broadcast along the dimensions that it lacks."""
        return call(f"{self.tl}.broadcast_to", tile, tile_shape(dims))

    # -- stores ------------------------------------------------------------------------------------------------

    def save(self, target: NestValue, value: NestValue, spans: Sequence[LoopSpan], adds: bool = False) -> None:
        """Stores a tile at its position in an array in global memory, or adds it to what is there."""
        k = self.k
        array = self.shared.saved[target]
        k.arrays[array] = None
        entries = k.env.get(value)
        index = entries.index(k) if isinstance(entries, ScatteredEntries) else k.index(value.ty)
        places = {}
        for axis in target.ty.axes:
            start = next((k.tiles[s.symbol].start for s in spans if s.axis == axis.name), None)
            at = index[axis.name]
            places[axis.name] = at if start is None else k.nodes.op("add", start, at)
        for box in self.shared.reshaped.get(target, ()):
            places = reshaped_index(k, box, places)
        if isinstance(entries, ScatteredEntries):
            add_at_positions(self, array, entries, places)
        else:
            self.store(array, k.tile(value), places, adds)

    def located(
        self, array: StoredArray, node: TileNode, places: At, inside: Sequence[TileNode] = ()
    ) -> tuple[Sequence[Dim], PythonExpression, PythonExpression, dict[str, PythonExpression]]:
        """What is stored of a tile at an index of an array, an integer node for each axis: its dimensions, its value,
        its addresses, and the mask of the entries that are in the array and `inside`."""
        k, p = self.k, self.printer
        k.arrays[array] = None
        k.writes.setdefault(array, {})[tuple(places[a.name] for a in array.ty.axes)] = None
        scalar, tiled, dims = k.offsets(array, places)
        order = (*(d for d in node.dims if d in dims), *(d for d in dims if d not in node.dims))
        masks = [*(d.within for d in order if d.within is not None), *inside]
        p.count([node, scalar, tiled, *masks])
        value = p.ref(node, k.scope)
        if set(node.dims) != set(dims) and dims:
            same = (tile_shape(order), value, dotted(f"{self.tl}.float32"))
            value = self._repeated(p.aligned(node, order), order) if node.dims else call(f"{self.tl}.full", *same)
        parts: list[PythonExpression] = [Name(array.name)]
        for part in (scalar, tiled):
            if part.value != 0:
                p.ref(part, k.scope)
                parts.append(p.aligned(part, order if part.dims else ()))
        mask = p.all_of(masks, order, k.scope)
        return order, value, joined_all("+", parts), {} if mask is None else {"mask": mask}

    def store(self, array: StoredArray, node: TileNode, places: At, adds: bool = False) -> None:
        """Stores a tile at an index of an array, an integer node for each axis; with `adds`, by atomic additions, whose
        order nothing depends on."""
        k = self.k
        order, value, at, mask = self.located(array, node, places)
        if not adds:
            k.scope.write(Do(call(f"{self.tl}.store", at, value, **mask), note=f"save {array.name}"))
            return
        # What is added is named, since both forms of the addition read it.
        self.added[array], tiles = self.shared.parts[array]
        added, place = Name(self.own.fresh("added")), Name(self.own.fresh("place"))
        k.scope.write(Assign((added,), value, note=f"add to {array.name}"))
        k.scope.write(Assign((place,), at))
        number = tile_number(tiles, self.starts, k, self.tl)
        written = addition(place, added, mask, number, self.added[array], self.tl)
        k.scope.write(written)
        shape = tile_shape(order) if order else ListOf(())
        self.additions.append(Addition(array.name, added, shape, place, mask, self.added[array], written))

    # -- the kernel --------------------------------------------------------------------------------------------

    def done(self, name: str, note: str, place: int, chunk: LoopSpan | None = None) -> KernelSpec:
        """The finished kernel; `note` is its docstring, `place` the number of its group, `chunk` its split axis."""
        k = self.k
        boxes = tuple(b for b in k.boxes.values() if b.looped)
        tiled = tuple(s for s in self.all_spans if not k.tiles[s.symbol].single)
        single = tuple(s for s in self.all_spans if k.tiles[s.symbol].single)
        return KernelSpec(
            name, tuple(k.root.body), note, tuple(k.arrays), dict(k.strides), dict(k.scalars), dict(k.sizes),
            tuple(k.constants), dict(k.blocks), tiled, single, tuple(self.loops.values()), dict(self.padded),
            dict(self.exact), boxes, self.parts, chunk, place, dict(k.nodes.summed), tuple(k.nodes.sides),
            tuple(k.nodes.rows), tuple(sorted(self.reverse)), tuple(sorted(self.imbalance)),
            frozenset(self.printer.helpers), self.phases, frozenset(k.nodes.short) - frozenset(k.nodes.filled),
            tuple(k.nodes.merged_rows), tuple(k.reaches), {array: tuple(at) for array, at in k.reads.items()},
            {array: tuple(at) for array, at in k.writes.items()}, k.nodes.separately_rounded, dict(self.starts),
            # Named last, since a name that the body has already might be that of an array.
            {s.symbol: self.own.fresh(f"{identifier(s.axis)}_tile") for s in self.all_spans},
            dict(self.added), tuple(self.additions), self.shared.l2_bytes, self.shared.programs_of(place),
            zero_filled={name: edge.zero_filled for name, edge in self.edges.items() if edge.zero_filled},
        )  # fmt: skip
