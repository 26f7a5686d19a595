"""Which configuration comes first of those that are predicted alike.

Of those that wait for memory all keep it busy by the model, which does not know how well a thread's loads are spread in
time, and how memory is cut into lines and pages (`MemoryBoundTies`).

Where something is multiplied, the largest blocks of a loop come first, if as many of them are loaded ahead. On an H200
two products of a row of 4,096 by 14,336 columns took 62.1 µs in blocks of 32 × 64 of a factor, 59.7 in 64 × 64, 58.3 in
64 × 128 and 55.3 in 128 × 128 (54.7 to 55.0 predicted); attention of 64 × 8 × 4 queries on 8,192 keys each 511 in
blocks of 32 keys, and 476 of 128 (499.9 and 502.2 predicted).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.types import BYTES
from catdiag.codegen.triton.tile_runs import PROGRAMS_PER_SM
from catdiag.planner.configuration_proposal import Proposal
from catdiag.planner.resources.gluon_resources import WARPS
from catdiag.planner.tile_search import TileSearch

CLOSE = 1.02
"""Of the same tiles within this, the one with fewer stages is the first, and with warp specialization that with one
more than warpgroups, which may be an iteration apart: with two a load begins when the iteration before is over, which
took up to 12% longer (H200)."""
DOUBLE_BUFFERED = 2
"""Buffers of a block, of which one is loaded while the other is multiplied."""
TIE = 1.05
"""What is predicted alike within this counts as alike."""
LOAD_BYTES = 16
"""Bytes that a thread can load at once. On an H200, `silu(G) * U` of 8,192 × 14,336 in bf16 took 172.7 µs with 8 bytes
of each array a thread, and 160.9 to 162.4 µs with 16 or 32."""
MOVED_BYTES = 32
"""Bytes of the largest array that a thread should load where it waits for no sum, or half of what it should store. On
an H200, a bias, GELU and a residual of 8,192 × 16,384 in bf16 took 263 µs with 16 in blocks of 2 × 512, and 230 with 32
in blocks of 2 × 1,024; `exp(-(x - y)²)` of 8,192 × 8,192 34.7 where a thread stores 32 bytes, and 31.1 with 64."""
ROW = 512
"""Bytes of the rows of a block that are enough, where there is no loop. The first of these programs took 247 µs in
blocks of 32 × 64, 242 in 16 × 128, 230 in 8 × 256, and as long in 2 × 1,024."""
LOADS = 4
"""Loads that each thread should begin before it waits for a sum. On an H200 a softmax of 65,536 rows of 1,024 took
69.1 µs with one and 66.4 with four, a LayerNorm of 16,384 rows of 8,192 139.9 µs with two and 129.6 with eight."""
AHEAD = 3
"""Stages of a run of groups: two are on their way while one is computed with. On an H200 a fourth made none of six
gradients of norms quicker, and five 1 to 4% slower; with two stages they took as long as with one."""
LINE = 128
"""Bytes of a line of memory, four sectors."""


@dataclass(frozen=True)
class MemoryBoundTies:
    """The preferences among configurations of one kernel. `rows` are the tiles that cut rows of arrays
    (`catdiag.planner.memory_sectors`), `sizes` those of axes, filled up to what a kernel indexes."""

    search: TileSearch
    rows: Sequence[str]
    sizes: Mapping[str, int]

    def first_of(self, ranked: list[Proposal], multiplies: bool) -> Proposal:
        """The one that is preferred of those that are alike and wait for memory, of the ones that are `ranked`: within
        `TIE`, or `CLOSE` where something is multiplied."""
        best = ranked[0]
        if not multiplies:
            return self.first([p for p in ranked if p.time_s <= TIE * best.time_s])
        if not best.waits_for_memory:
            return best
        usual = first_first(ranked)[0]
        tied = [p for p in ranked if p.time_s <= CLOSE * best.time_s and p.stages >= usual.stages]
        tied = [p for p in tied if p.specialized == best.specialized]
        return max(tied, key=lambda p: (self.block_bytes(p), -p.time_s))

    def first(self, tied: Sequence[Proposal]) -> Proposal:
        """The one that is preferred of some that are alike, the quickest of which is the first.

        First whose tiles have whole lines of memory, of `ROW` bytes where there is no loop; then the longest blocks of
        loops, since memory is read in longer pieces, and sums are put together less often. Without a loop, those whose
        threads have enough to move at once (`MOVED_BYTES`, and to load, before a sum, `LOADS` times `LOAD_BYTES`): of
        them the one with most blocks on a core; then with fewest warps, which wait for each other, where other blocks
        run meanwhile. Of blocks that go through runs of groups, first those that all have a place on a core, then those
        that load `AHEAD`, with fewest warps.
        """
        blocks = [block for block, _ in self.search.kernel.loops]

        def with_loops(p: Proposal) -> tuple[float, ...]:
            return -self.row_bytes(p), -math.prod(p.tiles[block] for block in blocks), p.time_s

        def without(p: Proposal) -> tuple[float, ...]:
            shared = p.blocks_per_sm > 1
            return -self.row_bytes(p, ROW), -p.blocks_per_sm, p.warps * shared, self.thread_bytes(p) * shared, p.time_s

        def in_runs(p: Proposal) -> tuple[float, ...]:
            return -min(p.blocks_per_sm, PROGRAMS_PER_SM), abs(p.stages - AHEAD), p.warps, p.time_s

        if blocks:
            return min(tied, key=with_loops)
        if self.search.kernel.in_runs:
            return min(tied, key=in_runs)
        if any(self.search.kernel.chains.values()):
            busy = [p for p in tied if self.thread_bytes(p) >= LOADS * LOAD_BYTES]
        else:
            busy = [p for p in tied if max(self.thread_bytes(p), self.stored_bytes(p) / 2) >= MOVED_BYTES]
        return min(busy or tied[:1], key=without)

    def row_bytes(self, p: Proposal, most: int = LINE) -> float:
        """The bytes in memory of the shortest row that a tile cuts out of an array, up to what is enough: `most`, or a
        line where tiles cut rows of arrays along several axes."""
        lengths = [p.tiles[name] for name in self.rows if name in p.tiles]
        return min([most if len(lengths) == 1 else LINE, *(self._narrow() * length for length in lengths)])

    def block_bytes(self, p: Proposal) -> float:
        """The bytes in memory of the largest block that an iteration loads, in the narrowest type."""
        values, split = self.search.full({**self.sizes, **p.tiles}), self.search.split_loop
        loops = [
            (block, IntPolynomial.of(split.axis_size) if split and whole.symbols() == {split.length} else whole)
            for block, whole in self.search.kernel.loops
        ]
        found = 0.0
        for array in (a for part in self.search.kernel.parts for a in part.loads()):
            own = [(block, whole) for block, whole in loops if whole.symbols() <= array.size.symbols()]
            share = math.prod(values[block] / whole.value(values) for block, whole in own)
            found = max(found, array.size.value(values) * share)
        return self._narrow() * found

    def thread_bytes(self, p: Proposal) -> float:
        """The bytes in memory of what a thread has of the largest tile that is loaded, in the narrowest type."""
        values = self.search.full({**self.sizes, **p.tiles})
        loaded = [array.size.value(values) for part in self.search.kernel.parts for array in part.loads()]
        return self._narrow() * max(loaded, default=0) / (self.search.chip.warp * p.warps)

    def stored_bytes(self, p: Proposal) -> float:
        """The bytes in memory of what a thread stores of the largest result."""
        kernel, values = self.search.kernel, self.search.full({**self.sizes, **p.tiles})
        groups = math.prod(math.ceil(whole.value(values) / values[tile]) for tile, whole in kernel.tiles.items())
        stored = [t.size.value(values) / groups for t in kernel.transfers if t.direction == "save"]
        return max(stored, default=0) / (self.search.chip.warp * p.warps)

    def _narrow(self) -> float:
        """The bytes of an entry in the narrowest type of an array."""
        kinds = [self.search.dtypes] if isinstance(self.search.dtypes, str) else list(self.search.dtypes.values())
        return min((BYTES[kind] for kind in kinds if kind in BYTES), default=LOAD_BYTES)


def first_first(ranked: list[Proposal]) -> list[Proposal]:
    """The same with the model's choice first: of those of the quickest's tiles that are alike within `CLOSE`, the one
    with fewer stages, or with more where it waits for memory, or with warp specialization one more than warpgroups.

    Of two buffers one is being multiplied, so that a block that is late is waited for, as the model does not see: other
    tiles with three that are alike come first. On an H200 a sum over 32 heads of products of 8,192 × 128 by 128 × 4,096
    took 622 µs in 128 × 256 with two, and 470 in 128 × 128 with three (523.6 and 524.0 predicted)."""
    best = ranked[0]
    if best.in_runs:  # whose number of stages is chosen (`MemoryBoundTies`)
        return ranked
    if best.stages == DOUBLE_BUFFERED and not (best.specialized or best.waits_for_memory):
        best = next((p for p in ranked if p.stages > DOUBLE_BUFFERED and p.time_s <= CLOSE * best.time_s), best)
    tied = [p for p in ranked if (p.tiles, p.warps) == (best.tiles, best.warps) and p.time_s <= CLOSE * best.time_s]
    tied = [p for p in tied if p.specialized == best.specialized]
    ahead, sign = best.warps // WARPS + 1, -1 if best.waits_for_memory else 1
    first = min(tied, key=lambda p: abs(p.stages - ahead) if p.specialized else sign * p.stages)
    return [first, *(p for p in ranked if p is not first)]
