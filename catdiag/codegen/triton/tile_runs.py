"""Runs of tiles: a program that adds to results goes through several tiles, one after the other, and adds up what they
give in registers. So there are few parts to add up in the end, however many tiles there are.

The loop over the tiles of a run is pipelined: with s stages the loads of s - 1 tiles are on their way to shared memory
while a tile is computed with, as memory of high bandwidth needs (bytes on their way = bandwidth × latency). On an H200
the gradients of LayerNorm, 8,192 × 4,096 in bf16, took 68.5 µs without that and 55.0 with three stages.

A kernel does so if all its programs add to the same entries: its grid has tiles of one axis, and its results lack that
axis or have it whole. What a result's entries are then does not depend on the tile.
"""

from __future__ import annotations

from catdiag.codegen.kernel_tree import Assign, ForLoop, PythonStatement, Update, names_of
from catdiag.codegen.syntax import Name, Number, call, dotted, joined
from catdiag.codegen.triton.dependent_launch import trigger
from catdiag.codegen.triton.kernel_builder import sized
from catdiag.codegen.triton.kernel_signature import KernelSpec
from catdiag.schedule.statements import LoopSpan

PROGRAMS_PER_SM = 2
"""Programs of a core that add up in runs: one loads while the other waits for its sums. On an H200 more of them took
longer, since each adds a part: RMSNorm's gradients of 8,192 × 4,096 54 µs and 3 for the parts with 256 programs, and 56
and 7 with 1,024. Where a core has room for one, so many: LayerNorm's took 66 µs with 256, and 62 with 132."""
RUNS = '''def _run(tiles, most):
    """How many tiles a program goes through that adds up what they give, of so many programs at most."""
    return max(1, _tiles(tiles, most))


def _programs(tiles, most):
    """The number of such programs."""
    return _tiles(tiles, _run(tiles, most))'''
"""The functions of generated modules that say how long runs are; they use `_CHECKS`."""
STAGES = "tiles_ahead"
"""The compile-time constant of a kernel that goes through runs: its pipeline stages."""


def most_programs(sms: int, blocks_per_sm: int = PROGRAMS_PER_SM) -> int:
    """How many programs go through runs on a chip with so many cores, of which each has room for so many."""
    return sms * min(blocks_per_sm, PROGRAMS_PER_SM)


def runs(kernel: KernelSpec) -> bool:
    """Whether the programs of a kernel go through runs of tiles."""
    return bool(kernel.additions) and _tile_axis(kernel) is not None and _before_runs(kernel) is not None


def _tile_axis(kernel: KernelSpec) -> LoopSpan | None:
    """The axis of the grid, if it has one."""
    spans = (*kernel.spans, *kernel.single)
    return spans[0] if len(spans) == 1 and kernel.parts is None and not kernel.loops else None


def _before_runs(kernel: KernelSpec) -> list[PythonStatement] | None:
    """The statements that compute the places and masks of additions, which come before runs; None where they depend on
    the tile, or are not such that they can."""
    needed = names_of([*(a.place for a in kernel.additions), *(m for a in kernel.additions for m in a.mask.values())])
    found: list[PythonStatement] = []
    for s in reversed(kernel.body):
        if isinstance(s, Assign) and not needed.isdisjoint(names_of(s.targets)):
            found.append(s)
            needed |= names_of([s.value])
    changed = {name for s in kernel.body if isinstance(s, (Update, ForLoop)) for name in names_of([s])}
    return None if needed & {*kernel.starts.values(), *changed} else found[::-1]


def in_runs(kernel: KernelSpec, tl: str) -> list[PythonStatement]:
    """The statements of a kernel whose programs go through runs of tiles."""
    span, before = _tile_axis(kernel), _before_runs(kernel)
    assert span is not None and before is not None
    pid, run, tile = Name("pid"), Name("run"), Name("tile")
    totals = [Name(f"{a.added.id}_total") for a in kernel.additions]
    earlier, written = {id(s) for s in before}, {id(a.written) for a in kernel.additions}
    size, single = sized(span.size, kernel.sizes), span in kernel.single
    start = tile if single else joined(tile, "*", Name(span.symbol))
    inside: list[PythonStatement] = [Assign((Name(kernel.starts[span.symbol]),), start)]
    inside += [s for s in kernel.body if id(s) not in earlier | written]
    inside += [Update(total, "+", a.added) for total, a in zip(totals, kernel.additions, strict=True)]
    first = joined(pid, "*", run)
    tiles = size if single else call(f"{tl}.cdiv", size, Name(span.symbol))
    over = call(f"{tl}.range", first, call(f"{tl}.minimum", joined(first, "+", run), tiles), num_stages=Name(STAGES))
    number = call(f"{tl}.cast", pid, dotted(f"{tl}.int64"))
    return [
        Assign((pid,), call(f"{tl}.program_id", Number(0))),
        *before,
        *(Assign((total,), a.zero(tl)) for total, a in zip(totals, kernel.additions, strict=True)),
        ForLoop(tile, over, inside, note="the tiles of a program"),
        *([trigger()] if kernel.triggers else []),
        *(a.of_run(total, number, tl) for total, a in zip(totals, kernel.additions, strict=True)),
    ]
