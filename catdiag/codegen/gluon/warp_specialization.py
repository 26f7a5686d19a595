"""A kernel in which the warps that load are apart from those that compute: for loops whose products of matrices feed
other products, on chips whose matrix units work while warps go on (Hopper).

One warp copies the blocks of each turn into rings of shared memory, as soon as they are free; the others wait for what
they read, a warpgroup for at least 64 rows. In a turn the first products (of what is loaded alone) are begun, then the
last ones of the turn before, which add to states what was computed there; while the matrix units have these, warps do
all that stands between. So what a turn computes must not read the states that its last products add to, apart from
how these are scaled, which is done once the products are over.

What has no such form raises Unfit, and is a kernel in the plain form alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catdiag.codegen.gluon.gluon_printer import KINDS, RowPrinter, Unfit
from catdiag.codegen.triton.array_accesses import Pull, StoredArray
from catdiag.codegen.triton.kernel_body import Writing, state_of
from catdiag.codegen.triton.kernel_builder import Boxes, KernelLoop
from catdiag.codegen.triton.kernel_signature import KernelSpec, ModuleContext
from catdiag.codegen.triton.tile_expressions import Dim, Scope, TileNode
from catdiag.codegen.triton.triton_printer import TritonPrinter
from catdiag.schedule.loop_nest import For, LoopSpan, NestValue

SHORT = ("bf16", "fp16")
"""The element types of what matrix units read here."""


@dataclass(eq=False)
class Ring:
    """Blocks of an array in shared memory: of the turns to come, or (`rows`) what all turns read, once a warpgroup."""

    name: str
    full: str
    free: str
    boxes: Boxes
    load: TileNode
    rows: bool = False


@dataclass(frozen=True, eq=False)
class WarpSpecialized:
    """A kernel as two texts, what loads and what computes, and the rings between them."""

    name: str
    compute: KernelSpec
    load: KernelSpec
    rings: tuple[Ring, ...]
    names: Mapping[str, str]
    tiles: Mapping[str, str]
    """Layouts by the length of their columns."""
    main: str
    """That of them of which rows are a slice."""
    row: LoopSpan


@dataclass
class LoopIteration:
    """The lines of a turn, by when they stand in it."""

    first: list[tuple[str, TileNode]] = field(default_factory=list)
    """Products that are begun at the start of a turn, by the names of what they give."""
    between: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    last: list[tuple[str, TileNode, str]] = field(default_factory=list)
    """Products that are begun in the next turn: the state they add to, and the name of their rows."""


class GluonWriting(Writing):
    """Writes what a warpgroup computes, for its rows."""

    def __init__(self, shared: ModuleContext, env: Mapping[NestValue, Pull], spans: Sequence[LoopSpan]) -> None:
        own = [s for s in spans if shared.tiles.get(s.symbol, 0) != 1]
        if len(own) != 1:
            raise Unfit("rows are the entries of one tile")
        self.row = own[0]
        super().__init__(shared, env, spans)
        fixed = ("each", "me", "rows", "groups", "stages", "turn")
        self.names = {n: self.own.fresh(n) for n in fixed}
        plain = self.printer
        self.printer = self._printer(plain)
        self.printer.twins, self.printer.lefts = plain.twins, plain.lefts
        self.rings: dict[TileNode, Ring] = {}
        self.iteration: LoopIteration | None = None
        self.held: dict[TileNode, str] = {}

    def _padding(self, spans: Sequence[LoopSpan]) -> set[str]:
        """None: rows of a warpgroup are 64, or so many times that, and of how many warpgroups is open."""
        return set()

    def _printer(self, plain: TritonPrinter) -> TritonPrinter:
        printer = RowPrinter(self.own.fresh, self._element)
        printer.begin(self.row.symbol, *(self.names[n] for n in ("each", "me", "rows")))
        return printer

    @property
    def rowed(self) -> RowPrinter:
        """The printer, as one of rows."""
        if not isinstance(self.printer, RowPrinter):
            raise Unfit("nothing is computed here")
        return self.printer

    def is_row(self, dim: Dim) -> bool:
        """Whether a dimension is that of the rows."""
        return dim.size == self.row.symbol

    # -- statements --------------------------------------------------------------------------------------------

    def _unless(self, live: NestValue) -> None:
        raise Unfit("blocks are left out by what is computed of them")

    def _start(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> None:
        k, p = self.k, self.rowed
        for state, value in zip(states, values, strict=True):
            node = k.tile(value)
            dims = self._dims(state.ty)
            p.count([node])
            text = p.ref(node, k.scope)[0]
            name = self.own.fresh(state.name or "state")
            kind = KINDS.get(state.ty.element, "tl.float32")
            if node.kind == "const":
                number = text if node.element != "bool" else str(int(node.data))
                line = f"{name} = {p.full(dims, number, kind) if dims else f'gl.to_tensor({number})'}"
            elif set(node.dims) != set(dims):
                raise Unfit("a state begins as something repeated")
            else:
                line = f"{name} = {p.aligned(node, dims)[0]}.to({kind})"
            p.write(k.scope, line, f"the state {state.name} of no entries")
            self._state(state, name, dims, k.scope)

    def _loop(self, loop: For) -> None:
        if self.k.loops or self.iteration is not None or self.parts is not None:
            raise Unfit("a kernel has one loop here")
        super()._loop(loop)

    def _repeated(self, text: str, dims: Sequence[Dim]) -> str:
        raise Unfit("a state is something repeated")

    # -- a turn ------------------------------------------------------------------------------------------------

    def _carry(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> None:
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
            raise Unfit("no product is made of what another product is made of")
        for node in [*rest, *early, *(self._sides(dot)[0] for _, dot in late.values())]:
            if added & reached([node]).keys():
                raise Unfit("a turn reads the states that its last products add to")
        for s, (before, _) in late.items():
            if (added - {old[s]}) & reached([before]).keys():
                raise Unfit("a state that products add to is read by another")
        for dot in [*early, *(dot for _, dot in late.values())]:
            self._rings(dot)
        self._write(iteration, states, made, late, early, added)

    def _after(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> list[TileNode]:
        """What states are after a turn; what a product is multiplied by in each row, its rows are multiplied by, so
        that it can add to a state."""
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
        """The lines of a turn."""
        p, scope = self.rowed, self.k.scope
        old = {s: state_of(self.k.env[s]) for s in states}
        p.main = p.layout(early[0].dims)
        for dot in early:
            p.layout(dot.dims)
            p.names[dot] = self.own.fresh("t")
            iteration.first.append((p.names[dot], dot))
            self._still(dot)
        scope.lines = []
        for before, dot in late.values():
            rows = self._sides(dot)[0]
            if not self._loaded(rows):
                p.ref(rows, scope)
                if rows not in p.names:
                    p.name(rows)
            self._settled(before, added)
        kept = [(s, n) for s, n in zip(states, made, strict=True) if s not in late]
        self._assign([s for s, _ in kept], [n for _, n in kept])
        iteration.between = scope.lines
        scope.lines = []
        for s, (before, dot) in late.items():
            name, dims = p.names[old[s]], self._dims(s.ty)
            if set(before.dims) != set(dims) or set(dot.dims) != set(dims):
                raise Unfit("a state is something repeated")
            if self._loaded(self._sides(dot)[0]):
                self._still(dot)
                held = ""
            else:
                held = self.own.fresh("rows_of_" + name)
                p.write(scope, f"{held} = {self._as_rows(dot)}", dot.note)
            iteration.last.append((name, dot, held))
            if before is not old[s]:
                p.ref(before, scope, bare=True)
                p.write(scope, f"{name} = {p.aligned(before, dims)[0]}", f"{s.name}, as much as it is to be now")
        iteration.after = scope.lines
        scope.lines = []

    def _settled(self, node: TileNode, added: set[TileNode]) -> None:
        """Gives names to all parts of a node that do not read the states that products add to."""
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
        """The rows of a product that all turns read, if they are computed: in registers, as the matrix units read."""
        p, rows = self.rowed, self._sides(dot)[0]
        if self._loaded(rows) or rows in self.held:
            return
        if rows.scope is self.k.scope:
            raise Unfit("a first product reads what a turn computes")
        p.ref(rows, rows.scope)
        name = self.own.fresh("held")
        p.write(rows.scope, f"{name} = {self._as_rows(dot)}", rows.note)
        self.held[rows] = name

    def _as_rows(self, dot: TileNode) -> str:
        """Computed rows as matrix units read them."""
        p, (rows, columns) = self.rowed, self._sides(dot)
        kind = self._element(rows, columns)[0]
        p.layout(rows.dims)
        text = p.aligned(rows, rows.dims)[0]
        text = f"({text})" if not text.isidentifier() else text
        if kind is not None:
            text = f"{text}.to({kind})"
        return f"gl.convert_layout({text}, gl.DotOperandLayout(0, {p.layout(dot.dims)}, 2))"

    # -- rings -------------------------------------------------------------------------------------------------

    def _loaded(self, node: TileNode) -> bool:
        """Whether a factor is a block as it was loaded by the copy engine."""
        found = _load_of(node)
        return found is not None and found.data[4] is not None and found.element == "raw"

    def _rings(self, dot: TileNode) -> None:
        """The rings of what a product reads from shared memory."""
        batch, *lengths = dot.data
        if batch or any(len(dims) != 1 for dims in lengths) or not any(self.is_row(d) for d in dot.dims):
            raise Unfit("a product is none of rows and columns")
        sides = self._sides(dot)
        kinds = self._element(*sides)
        if not self._loaded(sides[1]) or kinds[1] is not None:
            raise Unfit("columns of a product are not as they were loaded")
        if self._loaded(sides[0]) and kinds[0] is not None:
            raise Unfit("rows of a product are not of its type")
        for n, arg in enumerate(sides):
            if self._loaded(arg):
                self._ring(arg, n == 0)

    def _sides(self, dot: TileNode) -> tuple[TileNode, TileNode]:
        """The factor of a product that has the rows, and the other: either may be the first."""
        _, rows, columns, _ = dot.data
        turned = any(self.is_row(d) for d in columns) and not any(self.is_row(d) for d in rows)
        one, other = dot.args
        return (other, one) if turned else (one, other)

    def _ring(self, node: TileNode, rows: bool) -> Ring:
        load = _load_of(node)
        if load is None:
            raise Unfit("what a product reads is not loaded")
        found = self.rings.get(load)
        if found is None:
            array, boxes = load.data[0], load.data[4]
            looped = any(d.loop is not None for d in load.dims)
            if self.shared.dtypes.get(array.name, self.shared.dtype) not in SHORT:
                raise Unfit("matrix units read 16 bits here")
            if looped == rows or any(self.is_row(d) for d in load.dims) != rows or len(load.dims) != 2:
                raise Unfit("rows stay, and columns are of turns")
            base = array.name
            names = [self.own.fresh(f"{base}_{what}") for what in ("ring" if not rows else "rows", "full", "free")]
            found = Ring(names[0], names[1], names[2], boxes, load, rows)
            self.rings[load] = found
        elif found.rows != rows:
            raise Unfit("a block is rows and columns")
        return found

    def view(self, node: TileNode, order: Sequence[Dim], slot: str) -> str:
        """A factor of a product, in shared memory."""
        ring = self._ring(node, self.is_row(order[0]))
        dims = list(node.dims)
        lengths = ", ".join(self.names["each"] if self.is_row(d) else d.block for d in dims)
        turned = ".permute((1, 0))" if dims != list(order) else ""
        return f"{ring.name}.index({slot}).reshape([{lengths}]){turned}"

    # -- the loop ----------------------------------------------------------------------------------------------

    def _head(
        self, span: LoopSpan, context: KernelLoop, exact: str, low: TileNode, high: TileNode, first: str, scope: Scope
    ) -> None:
        p, iteration = self.printer, self.iteration
        outside = self.k.scope
        if iteration is None:
            raise Unfit("a loop that carries nothing")
        number, stages = self.names["turn"], self.names["stages"]
        p.write(outside, f"{number} = gl.to_tensor(0)")
        for ring in self.rings.values():
            if ring.rows:
                p.write(outside, f"hopper.mbarrier.wait({ring.full}, 0)")
        inner = self._phases(span, context, exact, low, high)
        start, stop = self.bounds
        base = 4 * scope.depth

        def put(lines: Sequence[str], depth: int) -> None:
            outside.lines.extend("    " * depth + line[base:] if line.strip() else line for line in lines)

        def of(depth: int, *lines: str) -> None:
            outside.lines.extend("    " * depth + line for line in lines)

        d = inner.depth
        early, late = (
            self._reads([dot for _, dot in iteration.first]),
            self._reads([dot for _, dot, _ in iteration.last]),
        )
        kept = [r for r in early if r in late]
        once = [r for r in early if r not in late]
        done = [r for r in late if r not in kept]
        of(d, f"if {start} < {stop}:", "    # the first block")
        of(d + 1, *self._begin(number, early, stages), *self._ended(iteration, 0), *self._free(once, number, stages))
        of(d + 1, f"{first} = {start}")
        put(iteration.between, d + 1)
        put(iteration.after, d + 1)
        of(d + 1, "# the products of a block go on while the next one is computed")
        of(d + 1, f"for {first} in range({start} + {span.symbol}, {stop}, {span.symbol}):")
        of(d + 2, f"{number} += 1", *self._begin(number, early, stages))
        before = f"({number} - 1)"
        of(d + 2, *self._add(before, done, stages))
        of(d + 2, *self._ended(iteration, len(iteration.last)), *self._free(once, number, stages))
        put(iteration.between, d + 2)
        # The assembler moves a wait for products up to where a warp first waits for anything, and the work that was
        # to go on meanwhile behind it; what waits for a barrier, even one that is open, it leaves where it is.
        of(d + 2, *self._wait(late[-1:], before, stages))
        of(d + 2, *self._added(), *self._free([*kept, *done], before, stages))
        put(iteration.after, d + 2)
        of(d + 1, *self._add(number, done, stages), *self._added(), *self._free([*kept, *done], number, stages))
        of(d + 1, f"{number} += 1")

    def _reads(self, dots: Sequence[TileNode]) -> list[Ring]:
        """The rings of turns that products read."""
        found: dict[Ring, None] = {}
        for dot in dots:
            for arg in dot.args:
                load = _load_of(arg)
                if load in self.rings and not self.rings[load].rows:
                    found[self.rings[load]] = None
        return list(found)

    def _wait(self, rings: Sequence[Ring], iteration: str, stages: str) -> list[str]:
        return [
            f"hopper.mbarrier.wait({r.full}.index({iteration} % {stages}), {iteration} // {stages} & 1)" for r in rings
        ]

    def _free(self, rings: Sequence[Ring], iteration: str, stages: str) -> list[str]:
        return [f"hopper.mbarrier.arrive({r.free}.index({iteration} % {stages}), count=1)" for r in rings]

    def _begin(self, iteration: str, rings: Sequence[Ring], stages: str) -> list[str]:
        """The first products are begun."""
        p, made = self.rowed, self.iteration.first if self.iteration else []
        lines = self._wait(rings, iteration, stages)
        for name, dot in made:
            zero = f"gl.zeros({p.shape(dot.dims)}, gl.float32, {p.layout(dot.dims)})"
            lines.append(
                f"{name}_next = hopper.warpgroup_mma({self._factors(dot, '', iteration, stages)}, {zero}, "
                f"use_acc=False, "
                "is_async=True)" + (f"  # {dot.note}" if dot.note and len(dot.note) < 40 else "")
            )
        return lines

    def _factors(self, dot: TileNode, held: str, iteration: str, stages: str) -> str:
        a, b = self._sides(dot)
        _, rows, columns, summed = dot.data
        if a is not dot.args[0]:
            rows, columns = columns, rows
        slot = f"{iteration} % {stages}"
        if self._loaded(a):
            left = self.view(a, (*rows, *summed), self.names["me"])
        else:
            left = held or self.held[a]
        return f"{left}, {self.view(b, (*summed, *columns), slot)}"

    def _ended(self, iteration: LoopIteration, left: int) -> list[str]:
        """The first products are waited for, while `left` others go on."""
        names = ", ".join(name for name, _ in iteration.first)
        return [
            f"{names} = hopper.warpgroup_mma_wait({left}, deps=[{', '.join(n + '_next' for n, _ in iteration.first)}])"
        ]

    def _add(self, iteration: str, rings: Sequence[Ring], stages: str) -> list[str]:
        """The last products of a turn are begun."""
        lines = self._wait(rings, iteration, stages)
        for name, dot, held in self.iteration.last if self.iteration else []:
            lines.append(
                f"{name}_next = hopper.warpgroup_mma({self._factors(dot, held, iteration, stages)}, {name}, "
                f"is_async=True)" + (f"  # {dot.note}" if dot.note and len(dot.note) < 40 else "")
            )
        return lines

    def _added(self) -> list[str]:
        names = [name for name, _, _ in (self.iteration.last if self.iteration else [])]
        return [f"{', '.join(names)} = hopper.warpgroup_mma_wait(0, deps=[{', '.join(n + '_next' for n in names)}])"]

    # -- stores ------------------------------------------------------------------------------------------------

    def store(self, array: StoredArray, node: TileNode, places: Mapping[str, TileNode]) -> None:
        """A tile to the entries of an array at an index."""
        _, _, dims = self.k.offsets(array, places)
        if set(node.dims) != set(dims):
            raise Unfit("something repeated is saved")
        if dims and not any(self.is_row(d) for d in dims):
            raise Unfit("all warpgroups would save the same")
        super().store(array, node, places)


def in_gluon(line: str) -> str:
    """A line of Triton that means the same in Gluon."""
    code, mark, note = line.partition("  # ")
    code = re.sub(r"\btl\.", "gl.", code)
    code = re.sub(r"\b_(times|load|tanh|floor)\b", r"_\1_rows", code)
    return code + mark + note


def reached(roots: Sequence[TileNode]) -> dict[TileNode, None]:
    """All nodes that some are made of, and they."""
    found: dict[TileNode, None] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            found[node] = None
            stack += node.args
    return found


def _load_of(node: TileNode) -> TileNode | None:
    while node.kind == "relabel":
        (node,) = node.args
    return node if node.kind == "load" else None


__all__ = ["GluonWriting", "LoopIteration", "Ring", "WarpSpecialized", "in_gluon"]
