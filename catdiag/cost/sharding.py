"""A diagram sharded over several devices: one more level, above their memories.

An axis that a diagram runs in groups of is sharded over P devices by tiles of 1/P of it, each device working on one; an
axis that it runs a loop over, by parts of 1/P, whose states are merged. Nothing else is chosen: which arrays must move
follows from the axes that they have.

- **Needed.** A device works on the tile of each array along the sharded axes that the array has.
- **Stored.** An array lies in the devices' memories in equal shares. One that has a sharded axis is stored along it,
  so that the share is the tile that is needed: it *stays*. One that lacks it is stored along some other axis, and is
  needed whole by all devices along it. If loops read it block by block, blocks of a share each *rotate* from device
  to device, and only two of them need room (ring attention: Liu, Zaharia and Abbeel 2023); if not, it is *gathered*
  before it is used. An array of one value is stored by all. `stored` says otherwise: another axis (tokens that come
  by position and are needed by expert: an *all-to-all*), or None, for an array of which every device has all that it
  needs.
- **Windows.** Of an array that is read at sums of positions and indices (a convolution) a device needs the window of
  its tile, which reaches into its neighbours' shares: that *halo* it receives. Windows are taken to overlap or touch;
  with steps between them it is less.
- **States** of parts are merged in shares: each device receives the P − 1 other states of its share (a reduce-scatter),
  and with `stored={"out": None}` the shares of the result after that (together an all-reduce). Where the states have no
  grouped axis to be shared along, each device receives them whole.
- **Received** by a device is what it needs, less what it holds of that: shares are equal, so that formulas are exact
  where the numbers of devices divide the axes.

It is the edge of `io` between a level that holds whole arrays and one of which there are P, at the tiles `g_a = a/P`
and blocks `s_x = x/P`, but for what a device holds itself and so does not load. Derived here.

>>> import catdiag as cd
>>> product = cd.algorithm("a b, b c -> a c", name="product")(lambda A, B: cd.einsum("a b, b c -> a c", A, B))
>>> print(sharding(product.stream("b").group("a c").diagram, {"a": "P"}, dtype="bf16"))
a over P: each device
  A    stays: holds 2*a*b/P, receives 0
  B    rotates: holds 2*b*c/P, receives 2*b*c*(P - 1)/P
  out  stays: holds 2*a*c/P, receives 0
received   2*b*c*(P - 1)/P bytes, in P iterations
memory     2*(a*b + 3*a*c + 2*b*c)/P
intensity  a/P
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from catdiag.category.diagram import Diagram, Graph, HasDiagram, diagram_of
from catdiag.category.integer_polynomial import IntPolynomial, symbol
from catdiag.category.ops import FoldOp, GroupOp
from catdiag.category.substitution import inline
from catdiag.category.types import ArrayType
from catdiag.chip.hierarchy import Hierarchy
from catdiag.cost.traffic import io
from catdiag.schedule.element_widths import Dtype
from catdiag.schedule.kernel_analysis import Account, measure
from catdiag.schedule.live_ranges import is_view, only_streamed, view_roots
from catdiag.schedule.stored_types import output_names, widths_of
from catdiag.util import argument_checks
from catdiag.util.argument_checks import formula
from catdiag.util.errors import AxisError, CatdiagError, require

Expr = Any
Layouts = Mapping[str, str | None]


@dataclass(frozen=True)
class Shard:
    """What becomes of one array, in the unit of the `Sharding`, a device: what it needs, holds and receives of it.

    `pattern` is one of: stays, copied (every device has it), rotates, gathered, halo, all-to-all, merged (states of
    parts).
    """

    array: str
    pattern: str
    needed: Expr
    stored: Expr
    received: Expr
    steps: Expr


@dataclass(frozen=True)
class Sharding:
    """A diagram on several devices: what each receives, holds and computes, in values, or bytes with a dtype.

    `mesh` gives how many there are along each sharded axis; `count` of them there are in all. `received` is what one
    device receives in the whole run, and `transfers` what all of them do: H of the edge. `memory` is what a device
    holds at once: its shares, arrays gathered whole, two blocks of those that rotate, states. `flops` is the
    contractions' work of one device. `steps` is in how many steps blocks come round: 1 where nothing rotates.
    """

    mesh: Mapping[str, Expr]
    shares: tuple[Shard, ...]
    memory: Expr
    flops: Expr
    unit: str

    @property
    def count(self) -> Expr:
        """How many devices there are."""
        import sympy

        return sympy.Mul(*self.mesh.values())

    @property
    def received(self) -> Expr:
        """What one device receives in the whole run."""
        import sympy

        return sympy.factor(sympy.Add(*(share.received for share in self.shares)))

    @property
    def transfers(self) -> Expr:
        """What all devices receive in the whole run."""
        return self.count * self.received

    @property
    def steps(self) -> Expr:
        """In how many steps the blocks of arrays that rotate come round."""
        import sympy

        return sympy.Max(1, *(s.steps for s in self.shares if s.pattern == "rotates"))

    @property
    def rotating(self) -> Expr:
        """What a device receives in one iteration: a block of each array that rotates; the mean, where these have
        different numbers of blocks."""
        import sympy

        return sympy.Add(*(s.needed for s in self.shares if s.pattern == "rotates")) / self.steps

    @property
    def intensity(self) -> Expr:
        """Contraction work of one iteration by what is received meanwhile: FLOP a byte (or a value).

        Communication hides behind compute where this is at least the device's FLOP/s by its bytes/s of the edge; of
        arrays that do not rotate it says the same of the whole run. Infinite where nothing is received.
        """
        import sympy

        if self.rotating != 0:
            return sympy.factor(self.flops / self.steps / self.rotating)
        return sympy.oo if self.received == 0 else sympy.factor(self.flops / self.received)

    def overlaps(self, flops_per_s: Expr, bytes_per_s: Expr) -> Expr:
        """The condition that communication hides behind compute: `intensity ≥ flops_per_s / bytes_per_s` of a device.

        With a `dtype`, else per value. `bytes_per_s` is what one device can receive.
        """
        import sympy

        rates = [formula(flops_per_s, "flops_per_s"), formula(bytes_per_s, "bytes_per_s")]
        for what, rate in zip(("flops_per_s", "bytes_per_s"), rates, strict=True):
            require(rate.is_positive is not False, what, rate, "a number above 0, or a symbol")
        return sympy.Ge(self.intensity, rates[0] / rates[1])

    def on(
        self, hierarchy: Hierarchy, upper: str, lower: str, sizes: Mapping[str, int], flops_per_s: float | None = None
    ) -> ShardingCost:
        """The numbers on a hierarchy whose level `lower` has as many memories as there are devices.

        Raises CatdiagError where the counts differ, sizes are missing, or no dtype was given.
        """
        require(isinstance(hierarchy, Hierarchy), "the hierarchy", hierarchy, "a catdiag.chip.hierarchy.Hierarchy")
        level, edge = hierarchy.level(lower), hierarchy.edge(upper, lower)
        if self.unit != "bytes":
            raise CatdiagError("levels are in bytes: shard the diagram with a dtype, such as dtype='bf16'")

        def at(formula: Expr) -> Any:
            put = {s: sizes[s.name] for s in formula.free_symbols if s.name in sizes}
            value = formula.subs(put)
            if value.free_symbols:
                left = ", ".join(sorted(map(str, value.free_symbols)))
                raise CatdiagError(f"no size was given for {left}: give one for each axis and number of devices")
            return value

        count = int(at(self.count))
        if count != level.count:
            raise CatdiagError(
                f"the diagram is sharded over {count} devices, and hierarchy {hierarchy.name!r} has {level.count} of "
                f"{lower!r}: expected as many"
            )
        memory, received = int(at(self.memory)), int(at(self.received))
        one = None if edge.bytes_per_s is None else edge.bytes_per_s / count
        return ShardingCost(
            memory_bytes=memory,
            fits=level.capacity is None or memory <= level.capacity,
            received_bytes=received,
            seconds=None if one is None else received / one,
            compute_seconds=None if flops_per_s is None else float(at(self.flops)) / flops_per_s,
            overlaps=None if one is None or flops_per_s is None else float(at(self.intensity)) >= flops_per_s / one,
        )

    def __str__(self) -> str:
        over = ", ".join(f"{axis} over {count}" for axis, count in self.mesh.items())
        width = max(len(s.array) for s in self.shares)
        lines = [f"{over}: each device"]
        for s in self.shares:
            lines.append(f"  {s.array:{width}}  {s.pattern}: holds {s.stored}, receives {s.received}")
        iterations = f"{self.steps} iteration{'s' * (self.steps != 1)}"
        lines.append(f"received   {self.received} {self.unit}, in {iterations}")
        lines.append(f"memory     {self.memory}")
        lines.append(f"intensity  {self.intensity}")
        return "\n".join(lines)


@dataclass(frozen=True)
class ShardingCost:
    """Of one device, in bytes and seconds: memory, and whether it fits; received, and how long that takes; how long
    computing takes; and whether in each iteration the transfers hide behind it. None where a rate is unknown."""

    memory_bytes: int
    fits: bool
    received_bytes: int
    seconds: float | None
    compute_seconds: float | None
    overlaps: bool | None


def sharding(
    diagram: Diagram | HasDiagram, over: Mapping[str, int | str], *, stored: Layouts | None = None, dtype: Dtype = None
) -> Sharding:
    """A derived diagram on several devices, of one kernel, whose axes `over` are each sharded over so many of them.

    `over` gives a number, or the symbol of one (`"P"`), for axes that the diagram is grouped over, and for one that it
    streams. `stored` says of arrays by name along which axis they are stored, if not as the module says, or None: each
    device has what it needs of it. Without `dtype` in values, else in bytes (of states, in theirs).

    Raises AxisError for an axis that is neither grouped nor streamed, CatdiagError for several kernels, names of arrays
    and axes that there are not, and numbers below 1.
    """
    import sympy

    diagram = diagram_of(diagram)
    argument_checks.dtypes(dtype)
    require(isinstance(over, Mapping), "over", over, "a number of devices for each axis, such as {'q': 8}")
    counts: dict[str, Expr] = {}
    for axis, count in over.items():
        if isinstance(count, bool) or not isinstance(count, (int, str)) or (isinstance(count, int) and count < 1):
            raise CatdiagError(f"axis {axis!r} is sharded over {count!r}: expected a number of devices, or its symbol")
        counts[axis] = symbol(count) if isinstance(count, str) else sympy.Integer(count)
    if not counts:
        raise CatdiagError("no axis to shard: give one with a number of devices, such as {'q': 8}")
    layout = _ShardLayout(diagram, counts, dict(stored or {}), dtype)
    shares = [*layout.inputs(), *layout.results()]
    account = io(diagram, dtype=dtype)
    tiles = {symbol(t): _tile(name, size, counts) for name, (t, size) in layout.tiles.items()}
    blocks = {s: axis / counts[str(axis)] if str(axis) in counts else axis for s, axis in account.streams.items()}
    flops = account.work["tensor"].subs({**tiles, **blocks}, simultaneous=True) / sympy.Mul(*counts.values())
    memory = sympy.Add(*layout.room(shares), layout.states)
    return Sharding(
        mesh=counts,
        shares=tuple(shares),
        memory=sympy.factor_terms(sympy.expand(memory)),
        flops=sympy.factor(flops),
        unit="values" if dtype is None else "bytes",
    )


def _tile(name: str, size: Expr, counts: Mapping[str, Expr]) -> Expr:
    return size / counts[name] if name in counts else size


class _ShardLayout:
    """Where the arrays of a diagram of one kernel are needed and stored."""

    def __init__(
        self, diagram: Diagram, counts: Mapping[str, Expr], stored: dict[str, str | None], dtype: Dtype
    ) -> None:
        flat = inline(diagram)
        self.flat, self.counts, self.layouts = flat, counts, stored
        self.widths = widths_of(flat, dtype)
        working = [k for k, node in enumerate(flat.graph.nodes) if isinstance(node.box.op, (GroupOp, FoldOp))]
        groups = [k for k in working if isinstance(flat.graph.nodes[k].box.op, GroupOp)]
        if len(groups) > 1 or (not groups and not working):
            raise CatdiagError(
                f"{len(groups)} kernels are in the diagram: one that is derived by .stream and .group is sharded"
            )
        self.tiles: dict[str, tuple[str, Expr]] = {}
        body = flat.graph
        self.entry: dict[int, int] = {w: w for w in range(len(flat.dom))}
        if groups:
            node = flat.graph.nodes[groups[0]]
            op = node.box.op
            assert isinstance(op, GroupOp)
            axes = {a.name: a for ty in (*node.box.dom, *node.box.cod) for a in ty.axes}
            self.tiles = {name: (t, IntPolynomial.of(axes[name].size).expr()) for name, t in op.tiles}
            body = inline(op.body).graph
            roots = view_roots(flat.graph)
            self.entry = {k: roots[w] for k, w in enumerate(node.inputs)}
        self.loops = [node.box for node in body.nodes if isinstance(node.box.op, FoldOp)]
        streamed = {box.op.axis: box for box in self.loops if isinstance(box.op, FoldOp)}
        self.partitioned = [axis for axis in counts if axis not in self.tiles]
        for axis in self.partitioned:
            if axis not in streamed:
                known = ", ".join([*self.tiles, *streamed]) or "none"
                raise AxisError(f"axis {axis!r} is neither grouped nor streamed, so not sharded: {known} are")
        inner = _streamed(body)
        self.rotating = {self.entry[k] for k in self.entry if k in inner} - {
            self.entry[k] for k in self.entry if k not in inner
        }
        names = [*flat.input_names, *output_names(flat)]
        for name in stored:
            if name not in names:
                raise CatdiagError(f"stored names an array {name!r} that the diagram lacks: it has {', '.join(names)}")
        self.states = self._states()
        self.halos, self.reaching = self._halos(measure(diagram, dtype), counts)

    def _halos(self, account: Account, counts: Mapping[str, Expr]) -> tuple[dict[str, Expr], dict[str, set[str]]]:
        """What a device needs of arrays of which it reads a window that depends on a sharded axis, and on which."""
        tiles = {symbol(t): _tile(name, size, counts) for name, (t, size) in self.tiles.items()}
        names = {t: name for name, (t, _) in self.tiles.items()}
        found: dict[str, Expr] = {}
        reaching: dict[str, set[str]] = {}
        account.adds_nothing("what devices then receive is not counted")
        for kernel in account.kernels:
            if kernel.loop_bounds:
                account.runs_all("what devices then receive is not counted")
            for transfer in kernel.transfers:
                on = {names[t] for side in transfer.region for t in side.length.symbols() if t in names} & set(counts)
                if on and not all(side.is_interior for side in transfer.region):
                    account.runs_all("what devices receive of windows that reach beyond arrays is not counted")
                if on:
                    needed = transfer.local.expr().subs(tiles, simultaneous=True)
                    blocks = {symbol(s): axis.expr() for s, axis in transfer.loops}
                    found[transfer.array] = needed.subs(blocks, simultaneous=True)
                    reaching[transfer.array] = on
        return found, reaching

    def size(self, ty: ArrayType) -> Expr:
        """The elements of an array, the tiles of groups being whole axes."""
        whole = {symbol(t): size for t, size in self.tiles.values()}
        return IntPolynomial.elements(ty.axes).expr().subs(whole, simultaneous=True)

    def _along(self, name: str, ty: ArrayType, fallback: str) -> str | None:
        """The axis along which an array is stored; `fallback` where it is not said."""
        axis = self.layouts.get(name, fallback)
        if axis is not None and axis != fallback and axis not in ty.names:
            raise CatdiagError(
                f"{name} has no axis {axis!r} to be stored along: it has {', '.join(ty.names) or 'none'}"
            )
        return axis

    def inputs(self) -> list[Shard]:
        """The shares of the inputs."""
        import sympy

        found = []
        for w, (name, ty) in enumerate(zip(self.flat.input_names, self.flat.dom, strict=True)):
            total = self.size(ty) * self.widths.inputs.get(name, 1)
            needed, own, iterations = total, sympy.Integer(1), sympy.Integer(1)
            moved, copied = False, False
            for axis, count in self.counts.items():
                along = self._along(name, ty, axis) if ty.axes else None
                has = axis in ty.names
                needed = needed / count if has else needed
                if along is None:
                    copied = copied or not has
                elif not has or along != axis:
                    own = own / count
                    moved = moved or has
                    iterations = iterations if has else iterations * count
            devices = sympy.Mul(*self.counts.values())
            share = needed if copied else total / devices
            received = sympy.factor(needed * (1 - own))
            how = "stays"
            window = self.halos.get(name)
            if window is not None and not moved:
                needed, share = window, share if copied else total / devices
                received = sympy.factor(needed - total / devices)
                how = "halo" if not any(a not in ty.names and a not in self.reaching[name] for a in self.counts) else ""
                found.append(Shard(name, how or "gathered", needed, share, received, sympy.Integer(1)))
                continue
            if received != 0:
                how = "all-to-all" if moved else "rotates" if w in self.rotating else "gathered"
            elif copied:
                how = "copied"
            found.append(
                Shard(name, how, needed, share, received, iterations if how == "rotates" else sympy.Integer(1))
            )
        return found

    def results(self) -> list[Shard]:
        """The shares of the results, and of the states that are merged into them."""
        import sympy

        found: list[Shard] = []
        one = sympy.Integer(1)
        parts = sympy.Mul(*(self.counts[axis] for axis in self.partitioned))
        for axis in self.partitioned:
            states = self._states(axis)
            shared = self._shared(axis)
            received = states * (parts - 1) / parts if shared else states * (parts - 1)
            found.append(Shard(f"states over {axis}", "merged", states, sympy.S.Zero, sympy.factor(received), one))
        for name, ty in zip(output_names(self.flat), self.flat.cod, strict=True):
            total = self.size(ty) * self.widths.outputs.get(name, 1)
            made = total / sympy.Mul(*(c for axis, c in self.counts.items() if axis in ty.names))
            scattered = bool(self.partitioned) and all(self._shared(axis) for axis in self.partitioned)
            part = made / parts if scattered else made
            along = self.layouts.get(name, "")
            how, share, received = "stays", part, sympy.S.Zero
            if along is None:
                how, share, received = "gathered", total, total - part
            elif along and along not in self.counts:
                if along not in ty.names:
                    raise CatdiagError(f"{name} has no axis {along!r} to be stored along: it has {', '.join(ty.names)}")
                how, received = "all-to-all", part * (1 - 1 / sympy.Mul(*self.counts.values()))
            found.append(Shard(name, how, part, share, sympy.factor(received), one))
        return found

    def _shared(self, axis: str) -> bool:
        """Whether the states of the loop over an axis all have a grouped axis, along which they may be shared."""
        return any(
            all(name in ty.names for box in self._over(axis) for ty in box.cod)
            for name in self.tiles
        )  # fmt: skip

    def _over(self, axis: str) -> list[Any]:
        return [box for box in self.loops if isinstance(box.op, FoldOp) and box.op.axis == axis]

    def _states(self, axis: str | None = None) -> Expr:
        """The elements (or bytes) of loops' states, of one device; of the loops over an axis, or all."""
        import sympy

        total = sympy.S.Zero
        for box in self.loops if axis is None else self._over(axis):
            assert isinstance(box.op, FoldOp)
            for k, ty in enumerate(box.cod):
                name = box.op.components[k] if k < len(box.op.components) else f"state {k}"
                size = self.size(ty) * self.widths.on_chip(ty, name)
                total = total + size / sympy.Mul(*(c for a, c in self.counts.items() if a in ty.names))
        return total

    def room(self, shares: Collection[Shard]) -> list[Expr]:
        """What each array takes of a device's memory at once."""
        taken = []
        for s in shares:
            if s.pattern == "rotates":
                taken.append(s.stored + s.needed / s.steps)
            elif s.pattern in ("gathered", "halo", "all-to-all") and s.array in self.flat.input_names:
                taken.append(s.stored + s.received)
            elif s.pattern != "merged":
                taken.append(s.stored + (s.received if s.pattern == "all-to-all" else 0))
        return taken


def _streamed(body: Graph) -> set[int]:
    """The inputs of a kernel that only loops read, along their axes: they come block by block."""
    root = view_roots(body)
    read = {root[w] for node in body.nodes if not is_view(node.box) for w in node.inputs}
    return {w for w, only in enumerate(only_streamed(body, [True] * len(body.dom))) if only and w in read}
