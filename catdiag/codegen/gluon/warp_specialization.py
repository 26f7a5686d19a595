"""Warp specialization: producer warps that load, consumer warps that compute.

The form is for loops in which one matrix product feeds another, as in attention, on chips with asynchronous matrix
products (Hopper's `wgmma`).

- One producer warp copies the blocks of each iteration into rings of buffers in shared memory (pipeline stages), as
  soon as a slot is free.
- Each consumer warpgroup computes at least 64 rows. It waits at a barrier for each block that it reads.

An iteration of a consumer is software pipelined:

1. It starts its *first products*, whose factors are loaded or computed before the loop (QKᵀ in attention).
2. It starts the *last products* of the iteration before, which accumulate into states (PV).
3. While the matrix units run the last products, the warps compute all that lies between the two (the softmax).
4. It waits for the last products, then rescales the states that they accumulate into.

So an iteration must not read the states into which its last products accumulate, except to rescale them.

A loop without this form raises Unfit. It then has the plain Triton form only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catdiag.codegen.gluon.gluon_printer import GLUON, RowPrinter, Unfit
from catdiag.codegen.gluon.pipelined_loop import LoopIteration, Ring, load_of, started, waited
from catdiag.codegen.kernel_tree import Assign, Do, ForLoop, If, Pass, PythonStatement, Update
from catdiag.codegen.syntax import (
    BinaryOperation,
    ListOf,
    Name,
    Number,
    Parens,
    PythonExpression,
    TupleOf,
    call,
    compared,
    dotted,
    joined,
    length_of,
    method,
)
from catdiag.codegen.triton.array_accesses import Pull, StoredArray, state_of
from catdiag.codegen.triton.kernel_body import Writing
from catdiag.codegen.triton.kernel_builder import KernelLoop
from catdiag.codegen.triton.kernel_signature import ModuleContext
from catdiag.codegen.triton.tile_nodes import Dim, Scope, TileNode, reached
from catdiag.codegen.triton.triton_printer import TritonPrinter
from catdiag.schedule.statements import For, LoopSpan, NestValue

SHORT = ("bf16", "fp16")
"""The element types of factors of matrix products in these kernels."""


class GluonWriting(Writing):
    """Writes the code of a consumer warpgroup, which computes its rows of a tile."""

    dialect = GLUON

    def __init__(
        self, shared: ModuleContext, env: Mapping[NestValue, Pull], spans: Sequence[LoopSpan], row: LoopSpan
    ) -> None:
        self.row = row
        """The tile of the grid whose rows warpgroups divide."""
        super().__init__(shared, env, spans)
        self.k.units_first = False
        fixed = ("each", "me", "rows", "groups", "stages", "iteration")
        self.names = {n: self.own.fresh(n) for n in fixed}
        plain = self.printer
        self.printer = self._printer(plain)
        self.printer.twins, self.printer.lefts = plain.twins, plain.lefts
        self.rings: dict[TileNode, Ring] = {}
        self.iteration: LoopIteration | None = None
        self.invariant: dict[TileNode, str] = {}
        """Row factors that are computed before the loop, by the names of their registers."""

    def _padding(self, spans: Sequence[LoopSpan]) -> set[str]:
        """No tile is padded: a warpgroup has 64 rows or a multiple, for any number of warpgroups."""
        return set()

    def _printer(self, plain: TritonPrinter) -> TritonPrinter:
        printer = RowPrinter(self.own.fresh, self.types.factors, dialect=self.dialect)
        printer.begin(self.row.symbol, *(self.names[n] for n in ("each", "me", "rows")))
        return printer

    @property
    def rowed(self) -> RowPrinter:
        """The printer. Raises Unfit in the producer, which computes nothing."""
        if not isinstance(self.printer, RowPrinter):
            raise Unfit("the producer warp computes no tiles")
        return self.printer

    def is_row(self, dim: Dim) -> bool:
        """Whether a dimension is the row dimension."""
        return dim.size == self.row.symbol

    # -- statements --------------------------------------------------------------------------------------------

    def _unless(self, live: NestValue) -> None:
        raise Unfit("blocks are skipped on a condition that the iteration computes")

    def _start(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> None:
        k, p = self.k, self.rowed
        for state, value in zip(states, values, strict=True):
            node = k.tile(value)
            dims = self.dims_of(state.ty)
            p.count([node])
            start = p.ref(node, k.scope)
            name = self.own.fresh(state.name or "state")
            kind = self.dialect.type_of(state.ty.element)
            if node.kind == "const":
                number = start if node.element != "bool" else Number(int(node.data))
                start = p.full(dims, number, kind) if dims else call("gl.to_tensor", number)
            elif set(node.dims) != set(dims):
                raise Unfit("the initial value of a state is broadcast")
            else:
                start = method(p.aligned(node, dims), "to", kind)
            k.scope.write(Assign((Name(name),), start, note=f"the state {state.name} of no entries"))
            self.enter_state(state, name, dims, k.scope)

    def _loop(self, loop: For) -> None:
        if self.k.loops or self.iteration is not None or self.parts is not None:
            raise Unfit("the kernel has more than one loop: expected one")
        super()._loop(loop)

    def _repeated(self, tile: PythonExpression, dims: Sequence[Dim]) -> PythonExpression:
        raise Unfit("the next value of a state is broadcast")

    # -- an iteration ------------------------------------------------------------------------------------------

    def _carry(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> None:
        """Divides the products of an iteration into first and last ones. Raises Unfit if they cannot be pipelined."""
        p, k = self.printer, self.k
        made = self._after(states, values)
        p.count(made)
        p.accumulate(made)
        iteration = self.iteration = LoopIteration()
        dots = [n for n in reached(made) if n.kind == "dot"]
        late: dict[NestValue, tuple[TileNode, TileNode]] = {}
        for state, node in zip(states, made, strict=True):
            if node.kind == "add":
                dot = next((a for a in node.args if a in p.accumulated), None)
                if dot is not None:
                    late[state] = (next(a for a in node.args if a is not dot), dot)
        old = {s: state_of(k.env[s]) for s in states}
        added = {old[s] for s in late}
        early = [d for d in dots if d not in {dot for _, dot in late.values()}]
        computed = [dot for _, dot in late.values() if not self._loaded(self._sides(dot)[0])]
        rest = [node for s, node in zip(states, made, strict=True) if s not in late]
        if not early or not computed or any(d.scope is not k.scope for d in dots):
            raise Unfit("no matrix product reads the result of another one in the loop")
        for node in [*rest, *early, *(self._sides(dot)[0] for _, dot in late.values())]:
            if added & reached([node]).keys():
                raise Unfit("an iteration reads a state into which its last products accumulate")
        for s, (before, _) in late.items():
            if (added - {old[s]}) & reached([before]).keys():
                raise Unfit("the rescaling of one accumulated state reads another accumulated state")
        for dot in [*early, *(dot for _, dot in late.values())]:
            self._rings(dot)
        self._write(iteration, states, made, late, early, added)

    def _after(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> list[TileNode]:
        """The states after an iteration.

        A product scaled by a factor per row becomes a product of scaled rows, which can accumulate into a state.
        """
        return [self._added_to(node) for node in super()._after(states, values)]

    def _added_to(self, node: TileNode) -> TileNode:
        if node.kind != "add":
            return node
        nodes = self.k.nodes
        for before, product in (node.args, node.args[::-1]):
            if product.kind not in ("scaled", "mul"):
                continue
            for dot, factor in (product.args, product.args[::-1]):
                of_rows = all(self.is_row(d) for d in factor.dims)
                if dot.kind != "dot" or not of_rows or factor.kind == "dot":
                    continue
                own, columns = self._sides(dot)
                if not self._loaded(own):
                    rows = nodes.op("mul", own, factor)
                    args = (rows, columns) if own is dot.args[0] else (columns, rows)
                    made = nodes.make("dot", args, dot.dims, "real", dot.data, heavy=True)
                    return nodes.op("add", before, made)
        return node

    def _write(
        self,
        iteration: LoopIteration,
        states: Sequence[NestValue],
        made: Sequence[TileNode],
        late: Mapping[NestValue, tuple[TileNode, TileNode]],
        early: Sequence[TileNode],
        added: set[TileNode],
    ) -> None:
        """Fills in an iteration.

        `late` gives for each accumulated state its rescaled old value and the product to add, `early` the first
        products, and `added` the old values of accumulated states.
        """
        p, scope = self.rowed, self.k.scope
        old = {s: state_of(self.k.env[s]) for s in states}
        p.main = str(p.layout(early[0].dims))
        iteration.loads = self._loads(made)
        for dot in early:
            p.layout(dot.dims)
            p.names[dot] = self.own.fresh("t")
            iteration.first.append((p.names[dot], dot))
            self._still(dot)
        scope.taken()
        for before, dot in late.values():
            rows = self._sides(dot)[0]
            if not self._loaded(rows):
                p.ref(rows, scope)
                if rows not in p.names:
                    p.name(rows)
            self._settled(before, added)
        others = [(s, n) for s, n in zip(states, made, strict=True) if s not in late]
        self._assign([s for s, _ in others], [n for _, n in others])
        iteration.between = scope.taken()
        for s, (before, dot) in late.items():
            name, dims = p.names[old[s]], self.dims_of(s.ty)
            if set(before.dims) != set(dims) or set(dot.dims) != set(dims):
                raise Unfit("the next value of a state is broadcast")
            if self._loaded(self._sides(dot)[0]):
                self._still(dot)
                factor = ""
            else:
                factor = self.own.fresh("rows_of_" + name)
                scope.write(Assign((Name(factor),), self._as_rows(dot), note=dot.note))
            iteration.last.append((name, dot, factor))
            if before is not old[s]:
                p.ref(before, scope, bare=True)
                now = p.aligned(before, dims)
                scope.write(Assign((Name(name),), now, note=f"{s.name}, as much as it is to be now"))
        iteration.after = scope.taken()

    def _loads(self, made: Sequence[TileNode]) -> list[PythonStatement]:
        """The statements that load vectors that no product reads and no product's result decides: their latency passes
        while the products run. Tiles would take registers meanwhile that the states need: on an H200 a decoding step of
        latent attention took 0.59 ms so, and 0.48 where its scores are loaded after the wait."""
        p, scope = self.printer, self.k.scope
        for node in reached(made):
            in_iteration = node.kind == "load" and node.scope is scope and node not in self.rings
            if in_iteration and len(node.dims) < 2 and not any(n.kind == "dot" for n in reached([node])):
                p.ref(node, scope)
        return scope.taken()

    def _settled(self, node: TileNode, added: set[TileNode]) -> None:
        """Names every part of a node that reads no accumulated state, so that it is computed before the wait."""
        p, scope = self.printer, self.k.scope
        stack = [node]
        while stack:
            item = stack.pop()
            if item in p.names or item.kind in ("const", "symbol"):
                continue
            if added & reached([item]).keys():
                stack += item.args
                continue
            p.ref(item, scope)
            if item not in p.names and item.scope is scope:
                p.name(item)

    def _still(self, dot: TileNode) -> None:
        """Puts a computed, loop-invariant row factor in registers before the loop, in the matrix units' layout."""
        p, rows = self.rowed, self._sides(dot)[0]
        if self._loaded(rows) or rows in self.invariant:
            return
        if rows.scope is self.k.scope:
            raise Unfit("a first product reads what the iteration computes")
        p.ref(rows, rows.scope)
        name = self.own.fresh("invariant")
        rows.scope.write(Assign((Name(name),), self._as_rows(dot), note=rows.note))
        self.invariant[rows] = name

    def _as_rows(self, dot: TileNode) -> PythonExpression:
        """The expression that converts a computed row factor to the matrix units' operand layout."""
        p, (rows, columns) = self.rowed, self._sides(dot)
        kind = self.types.factors(rows, columns)[0]
        p.layout(rows.dims)
        factor = p.aligned(rows, rows.dims)
        factor = factor if isinstance(factor, Name) else Parens(factor)
        if kind is not None:
            factor = method(factor, "to", kind)
        return call("gl.convert_layout", factor, call("gl.DotOperandLayout", Number(0), p.layout(dot.dims), Number(2)))

    # -- rings -------------------------------------------------------------------------------------------------

    def _loaded(self, node: TileNode) -> bool:
        """Whether a factor is a block that the copy engine (TMA) loaded, unchanged."""
        found = load_of(node)
        return found is not None and found.data[4] is not None and found.element == "raw"

    def _rings(self, dot: TileNode) -> None:
        """Makes the rings of the factors that a product reads from shared memory. Raises Unfit if it cannot."""
        batch, *lengths = dot.data
        if batch or any(len(dims) != 1 for dims in lengths) or not any(self.is_row(d) for d in dot.dims):
            raise Unfit("a product is batched, has several axes on a side, or has no row dimension")
        sides = self._sides(dot)
        kinds = self.types.factors(*sides)
        if not self._loaded(sides[1]) or kinds[1] is not None:
            raise Unfit("the column factor of a product is computed or converted: expected a loaded block")
        if self._loaded(sides[0]) and kinds[0] is not None:
            raise Unfit("the loaded row factor of a product has another type than the product")
        for n, arg in enumerate(sides):
            if self._loaded(arg):
                self._ring(arg, n == 0)

    def _sides(self, dot: TileNode) -> tuple[TileNode, TileNode]:
        """The row factor of a product and its column factor; either may be the first argument."""
        _, rows, columns, _ = dot.data
        swapped = any(self.is_row(d) for d in columns) and not any(self.is_row(d) for d in rows)
        one, other = dot.args
        return (other, one) if swapped else (one, other)

    def _ring(self, node: TileNode, rows: bool) -> Ring:
        load = load_of(node)
        if load is None:
            raise Unfit("a factor of a product is not loaded")
        found = self.rings.get(load) or self._same_block(load)
        if found is not None:
            self.rings[load] = found
        if found is None:
            array, boxes = load.data[0], load.data[4]
            looped = any(d.loop is not None for d in load.dims)
            if self.shared.dtypes.get(array.name, self.shared.dtype) not in SHORT:
                raise Unfit(f"the factor {array.name} of a product has another element type than {' or '.join(SHORT)}")
            if looped == rows or any(self.is_row(d) for d in load.dims) != rows or len(load.dims) != 2:
                raise Unfit("expected row factors that are the same in all iterations, and column factors that are not")
            base = array.name
            names = [self.own.fresh(f"{base}_{what}") for what in ("ring" if not rows else "rows", "full", "free")]
            found = Ring(names[0], names[1], names[2], boxes, load, rows)
            self.rings[load] = found
        elif found.rows != rows:
            raise Unfit("one block is the row factor of a product and the column factor of another")
        return found

    def _same_block(self, load: TileNode) -> Ring | None:
        """The ring of a block that another product reads too: it is copied once for both."""
        for other, ring in self.rings.items():
            if (load.args, load.data[0], load.data[4]) == (other.args, other.data[0], other.data[4]):
                return ring
        return None

    def view(self, node: TileNode, order: Sequence[Dim], slot: PythonExpression) -> PythonExpression:
        """The expression of a factor in shared memory, in slot `slot` of its ring, with its dimensions in `order`."""
        ring = self._ring(node, self.is_row(order[0]))
        dims = list(node.dims)
        lengths = tuple(length_of(self.names["each"] if self.is_row(d) else d.block) for d in dims)
        found = method(method(Name(ring.name), "index", slot), "reshape", ListOf(lengths))
        return found if dims == list(order) else method(found, "permute", TupleOf((Number(1), Number(0))))

    @property
    def reuses_blocks(self) -> bool:
        """Whether the last products of an iteration read a block that its first ones read."""
        first, last = (self.iteration.first, self.iteration.last) if self.iteration is not None else ([], [])
        late = self._reads([dot for _, dot, _ in last])
        return any(ring in late for ring in self._reads([dot for _, dot in first]))

    @property
    def distinct_rings(self) -> tuple[Ring, ...]:
        """The rings, each once."""
        return tuple(dict.fromkeys(self.rings.values()))

    # -- the loop ----------------------------------------------------------------------------------------------

    def _head(
        self, span: LoopSpan, context: KernelLoop, exact: str, low: TileNode, high: TileNode, first: str, scope: Scope
    ) -> None:
        """Writes the software-pipelined loop: a prologue with the first block, the loop, an epilogue with the last."""
        outside, iteration = self.k.scope, self.iteration
        if iteration is None:
            raise Unfit("the loop carries no state")
        number = Name(self.names["iteration"])
        outside.write(Assign((number,), call("gl.to_tensor", Number(0))))
        for ring in self.distinct_rings:
            if ring.rows:
                outside.write(Do(call("hopper.mbarrier.wait", Name(ring.full), Number(0))))
        phase = self._phases(span, context, exact, low, high)
        start, stop = self.bounds
        early = self._reads([dot for _, dot in iteration.first])
        late = self._reads([dot for _, dot, _ in iteration.last])
        both = [r for r in early if r in late]
        once = [r for r in early if r not in late]
        done = [r for r in late if r not in both]
        before, at, block = Parens(joined(number, "-", Number(1))), Name(first), length_of(span.symbol)
        body = [
            Update(number, "+", Number(1)),
            *iteration.loads,
            *self._begin(number, early),
            *self._add(before, done),
            *self._ended(iteration, len(iteration.last)),
            *self._free(once, number),
            *iteration.between,
            # The assembler (ptxas) moves a wait for products up to the first wait of any kind, and moves the work that
            # should overlap behind it. It does not move code across a wait for a barrier, even a complete one.
            *self._wait(late[-1:], before),
            *self._added(),
            *self._free([*both, *done], before),
            *iteration.after,
        ]
        blocks = [
            Pass(note="the first block"),
            Assign((at,), start),
            *iteration.loads,
            *self._begin(number, early),
            *self._ended(iteration, 0),
            *self._free(once, number),
            *iteration.between,
            *iteration.after,
            Pass(note="the products of a block go on while the next one is computed"),
            ForLoop(at, call("range", joined(start, "+", block), stop, block), body),
            *self._add(number, done),
            *self._added(),
            *self._free([*both, *done], number),
            Update(number, "+", Number(1)),
        ]
        phase.append(If(compared(start, "<", stop), blocks))

    def _reads(self, dots: Sequence[TileNode]) -> list[Ring]:
        """The rings that products read and that each iteration fills, in order of first use."""
        found: dict[Ring, None] = {}
        for dot in dots:
            for arg in dot.args:
                load = load_of(arg)
                if load in self.rings and not self.rings[load].rows:
                    found[self.rings[load]] = None
        return list(found)

    def _slot(self, barriers: str, iteration: PythonExpression) -> PythonExpression:
        """The barrier, or the block, of an iteration."""
        return method(Name(barriers), "index", joined(iteration, "%", Name(self.names["stages"])))

    def _wait(self, rings: Sequence[Ring], iteration: PythonExpression) -> list[PythonStatement]:
        """The statements that wait until the blocks of an iteration are loaded."""
        parity = BinaryOperation(joined(iteration, "//", Name(self.names["stages"])), "&", Number(1))
        return [Do(call("hopper.mbarrier.wait", self._slot(r.full, iteration), parity)) for r in rings]

    def _free(self, rings: Sequence[Ring], iteration: PythonExpression) -> list[PythonStatement]:
        """The statements that mark the slots of an iteration as free."""
        return [Do(call("hopper.mbarrier.arrive", self._slot(r.free, iteration), count=Number(1))) for r in rings]

    def _begin(self, iteration: PythonExpression, rings: Sequence[Ring]) -> list[PythonStatement]:
        """The statements that start the first products of an iteration."""
        p = self.rowed
        found = self._wait(rings, iteration)
        for name, dot in self.iteration.first if self.iteration else []:
            zero = call("gl.zeros", p.shape(dot.dims), dotted("gl.float32"), p.layout(dot.dims))
            found.append(started(name, dot, (*self._factors(dot, "", iteration), zero), use_acc=Number(False)))
        return found

    def _factors(
        self, dot: TileNode, computed: str, iteration: PythonExpression
    ) -> tuple[PythonExpression, PythonExpression]:
        """The two factors of a product; `computed` is the name of a computed row factor, if it has one."""
        a, b = self._sides(dot)
        _, rows, columns, summed = dot.data
        if a is not dot.args[0]:
            rows, columns = columns, rows
        slot = joined(iteration, "%", Name(self.names["stages"]))
        if self._loaded(a):
            left = self.view(a, (*rows, *summed), Name(self.names["me"]))
        else:
            left = Name(computed or self.invariant[a])
        return left, self.view(b, (*summed, *columns), slot)

    def _ended(self, iteration: LoopIteration, left: int) -> list[PythonStatement]:
        """The statement that waits for the first products, while `left` others stay in flight."""
        return [waited([name for name, _ in iteration.first], left)]

    def _add(self, iteration: PythonExpression, rings: Sequence[Ring]) -> list[PythonStatement]:
        """The statements that start the last products of an iteration."""
        found = self._wait(rings, iteration)
        for name, dot, computed in self.iteration.last if self.iteration else []:
            found.append(started(name, dot, (*self._factors(dot, computed, iteration), Name(name))))
        return found

    def _added(self) -> list[PythonStatement]:
        """The statement that waits for the last products."""
        return [waited([name for name, _, _ in (self.iteration.last if self.iteration else [])], 0)]

    # -- stores ------------------------------------------------------------------------------------------------

    def store(self, array: StoredArray, node: TileNode, places: Mapping[str, TileNode], adds: bool = False) -> None:
        """Stores a tile at an index of an array. Raises Unfit for a broadcast, and for a tile without rows."""
        _, _, dims = self.k.offsets(array, places)
        if set(node.dims) != set(dims):
            raise Unfit("a store broadcasts its tile")
        if dims and not any(self.is_row(d) for d in dims):
            raise Unfit("a stored tile has no row dimension: all warpgroups would store the same entries")
        super().store(array, node, places, adds)
