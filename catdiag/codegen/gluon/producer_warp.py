"""Warp specialization: the producer warp, and the two parts of a kernel together (`specialize_warps`).

The producer warp runs the same iterations as the consumers. In each it waits until a slot of a ring is free. Then it
starts an asynchronous copy (TMA) of the next block into the slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catdiag.codegen.gluon.gluon_printer import Unfit
from catdiag.codegen.gluon.gluon_source import agree
from catdiag.codegen.gluon.pipelined_loop import LoopIteration, Ring, WarpSpecialized
from catdiag.codegen.gluon.warp_specialization import GluonWriting
from catdiag.codegen.kernel_tree import Assign, Do, ForLoop, Update
from catdiag.codegen.syntax import (
    BinaryOperation,
    ListOf,
    Name,
    Number,
    Parens,
    PythonExpression,
    call,
    dotted,
    joined,
    length_of,
    method,
)
from catdiag.codegen.triton.array_accesses import Pull, StoredArray
from catdiag.codegen.triton.kernel_builder import KernelLoop
from catdiag.codegen.triton.kernel_signature import KernelSpec, ModuleContext
from catdiag.codegen.triton.tile_nodes import Dim, Scope, TileNode
from catdiag.codegen.triton.triton_printer import TritonPrinter
from catdiag.schedule.statements import LoopSpan, NestValue, Statement


class Loads(GluonWriting):
    """Writes the producer warp: the loop of the consumers, with copies into rings instead of computation."""

    def _printer(self, plain: TritonPrinter) -> TritonPrinter:
        return plain

    def _start(self, states: Sequence[NestValue], values: Sequence[NestValue]) -> None:
        for state, value in zip(states, values, strict=True):
            self.k.tile(value)
            self.enter_state(state, self.own.fresh(state.name or "state"), self.dims_of(state.ty), self.k.scope)

    def _write(
        self,
        iteration: LoopIteration,
        states: Sequence[NestValue],
        made: Sequence[TileNode],
        late: Mapping[NestValue, tuple[TileNode, TileNode]],
        early: Sequence[TileNode],
        added: set[TileNode],
    ) -> None:
        iteration.first = [("", dot) for dot in early]
        iteration.last = [("", dot, "") for _, dot in late.values()]

    def _head(
        self, span: LoopSpan, context: KernelLoop, exact: str, low: TileNode, high: TileNode, first: str, scope: Scope
    ) -> None:
        """Writes the loads of loop-invariant row factors, then the loop, with a copy for each block of an iteration."""
        outside = self.k.scope
        if self.iteration is None:
            raise Unfit("the loop carries no state")
        number, stages, each, groups = (Name(self.names[n]) for n in ("iteration", "stages", "each", "groups"))
        for ring in self.distinct_rings:
            if not ring.rows:
                continue
            places, barrier = self._places(ring, outside), Name(ring.full)
            at = next(n for n, d in enumerate(_box_dims(ring)) if d is not None and self.is_row(d))
            places[at] = joined(places[at], "+", joined(Name("w"), "*", each))
            outside.write(Do(call("hopper.mbarrier.expect", barrier, joined(groups, "*", _bytes(ring)))))
            copy = Do(_copied(ring, places, barrier, Name("w")))
            outside.write(ForLoop(Name("w"), call("gl.static_range", groups), [copy]))
        outside.write(Assign((number,), call("gl.to_tensor", Number(0))))
        scope.taken()
        slot = joined(number, "%", stages)
        for ring in self.distinct_rings:
            if ring.rows:
                continue
            places = self._places(ring, scope)
            parity = BinaryOperation(
                Parens(BinaryOperation(joined(number, "//", stages), "&", Number(1))), "^", Number(1)
            )
            full = method(Name(ring.full), "index", slot)
            scope.write(
                Do(call("hopper.mbarrier.wait", method(Name(ring.free), "index", slot), parity)),
                Do(call("hopper.mbarrier.expect", full, _bytes(ring))),
                Do(_copied(ring, places, full, slot)),
            )
        scope.write(Update(number, "+", Number(1)))
        phase = self._phases(span, context, exact, low, high)
        phase.append(ForLoop(Name(first), call("range", *self.bounds, length_of(span.symbol)), scope.body))

    def _places(self, ring: Ring, scope: Scope) -> list[PythonExpression]:
        """The position at which a block begins, along each axis of its array."""
        p, load = self.printer, ring.load
        starts = load.args[2 + load.data[3] :]
        p.count(starts)
        for node in starts:
            p.ref(node, scope)
        return [p.plain(a) for a in starts]

    def save(self, target: NestValue, value: NestValue, spans: Sequence[LoopSpan], adds: bool = False) -> None:
        """The producer warp stores nothing."""

    def store(self, array: StoredArray, node: TileNode, places: Mapping[str, TileNode], adds: bool = False) -> None:
        """The producer warp stores nothing."""


def specialize_warps(
    shared: ModuleContext,
    env: Mapping[NestValue, Pull],
    spans: Sequence[LoopSpan],
    body: Sequence[Statement],
    plain: KernelSpec,
) -> WarpSpecialized:
    """The warp-specialized form of a kernel. Raises Unfit if it has none, with the reason for each tile's rows.

    `body` are the statements of the kernel, `spans` the tiles of its grid, `env` the arrays that it reads, and `plain`
    is its plain Triton form, whose name the new form extends. The rows that warpgroups divide are those of the first
    tile longer than 1 of which there is such a form; other tiles may be columns of products.
    """
    reasons: dict[str, list[str]] = {}
    for row in spans:
        if shared.tiles.get(row.symbol, 0) != 1:
            try:
                return _by_rows(shared, env, spans, body, plain, row)
            except Unfit as error:
                reasons.setdefault(error.message, []).append(row.symbol)
    if not reasons:
        raise Unfit("no tile of the group is longer than 1")
    if len(reasons) == 1:
        raise Unfit(next(iter(reasons)))
    raise Unfit("; ".join(f"by rows of {', '.join(rows)}: {why}" for why, rows in reasons.items()))


def _by_rows(
    shared: ModuleContext,
    env: Mapping[NestValue, Pull],
    spans: Sequence[LoopSpan],
    body: Sequence[Statement],
    plain: KernelSpec,
    row: LoopSpan,
) -> WarpSpecialized:
    """The form in which warpgroups divide the rows of one tile of the grid. Raises Unfit if there is none."""
    writing, loading = GluonWriting(shared, env, spans, row), Loads(shared, env, spans, row)
    for w in (writing, loading):
        w.body(body)
        if w.iteration is None:
            raise Unfit("the kernel has no loop that carries a state")
    kernels = [w.done(f"{plain.name}_{what}", plain.note, plain.place)
               for w, what in ((writing, "rows"), (loading, "loads"))]  # fmt: skip
    rings = writing.distinct_rings
    if [(r.name, r.boxes.name, r.boxes.shape) for r in rings] != [
        (r.name, r.boxes.name, r.boxes.shape) for r in loading.distinct_rings
    ]:
        raise Unfit("consumer and producer read other blocks")
    made = WarpSpecialized(
        f"{plain.name}_specialized",
        kernels[0],
        kernels[1],
        rings,
        writing.names,
        dict(writing.rowed.tiles),
        writing.rowed.main,
        writing.row,
        writing.reuses_blocks,
    )
    if not agree(made):
        raise Unfit("consumer and producer have other names for an argument")
    return made


def _box_dims(ring: Ring) -> list[Dim | None]:
    dims = iter(ring.load.dims)
    return [None if length == "1" else next(dims) for length in ring.boxes.shape]


def _bytes(ring: Ring) -> PythonExpression:
    """The bytes of a block."""
    return dotted(f"{ring.boxes.name}.block_type.nbytes")


def _copied(
    ring: Ring, places: Sequence[PythonExpression], full: PythonExpression, slot: PythonExpression
) -> PythonExpression:
    """The copy of a block into a slot of a ring."""
    into = method(Name(ring.name), "index", slot)
    return call("hopper.tma.async_copy_global_to_shared", Name(ring.boxes.name), ListOf(tuple(places)), full, into)
