"""The merge of the parts of a split loop (split-K): a loop over their states, in order."""

from __future__ import annotations

from collections.abc import Mapping

from catdiag.codegen.kernel_tree import ForLoop
from catdiag.codegen.syntax import IfElse, Name, Number, call, compared, joined_all
from catdiag.codegen.triton.array_accesses import PartialState, StoredArray, state_of
from catdiag.codegen.triton.kernel_body import Writing
from catdiag.codegen.triton.kernel_builder import UNROLLED
from catdiag.codegen.triton.launch_expressions import product_of
from catdiag.codegen.triton.tile_nodes import Scope
from catdiag.schedule.statements import Carry, For, LoopSpan, NestValue

FEW, MANY_UNROLLED = 1024, 16
"""Up to so many entries of all states of a tile, so many parts are loaded before the first is waited for."""


def merge_parts(writing: Writing, loop: For, partial_states: Mapping[NestValue, StoredArray], span: LoopSpan) -> None:
    """Writes a loop that merges the states of the parts of a split loop, in order; `partial_states` are their
    arrays."""
    k, p = writing.k, writing.printer
    outside, scope = k.scope, Scope(k.scope)
    carry = next(s for s in reversed(loop.body) if isinstance(s, Carry))
    names = {s: p.names[state_of(k.env[s])] for s in carry.states}
    for state in carry.states:
        writing.enter_state(state, names[state], writing.dims_of(state.ty), scope)
    part = k.nodes.symbol(writing.own.fresh("part_at"), scope=scope)
    for value in loop.partial_states:
        starts = {a.name: k.tiles[a.size].start for a in value.ty.axes if isinstance(a.size, str) and a.size in k.tiles}
        k.env[value] = PartialState(value.ty, partial_states[value], part, starts)
    k.scope = scope
    writing.body(loop.body)
    k.scope = outside
    for state in carry.states:
        writing.enter_state(state, names[state], writing.dims_of(state.ty), outside)
    count = call(f"{writing.tl}.cdiv", p.plain(k.size(span.size)), Name("chunk"))
    entries = joined_all("+", [product_of([Name(d.block) for d in writing.dims_of(v.ty)]) for v in loop.partial_states])
    at_once = IfElse(compared(entries, "<=", Number(FEW)), Number(MANY_UNROLLED), Number(UNROLLED))
    over = call(f"{writing.tl}.range", Number(0), count, loop_unroll_factor=at_once)
    outside.write(ForLoop(Name(part.data[0]), over, scope.body))
