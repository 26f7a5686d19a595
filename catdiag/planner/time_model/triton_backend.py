"""Triton: what its compiler makes of a loop without warp specialization.

`EXPOSED`, `FILL_CLOCKS`, `WAITED_CLOCKS` and `INDEPENDENCE` were chosen on one H200 with Triton 3.6: on 27 kernels that
copy boxes of arrays (a streaming loop at d = 64 and 128, and a product) and 51 more (forward and backward passes of
attention), and on 440 that copy by addresses (`benchmarks/tiles.py`). Those kernels are a calibration, no test.
docs/explanation/time_model.md says how near the first choice is to the quickest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.ops import Box
from catdiag.chip.hardware import Hardware
from catdiag.codegen.triton.tile_runs import PROGRAMS_PER_SM
from catdiag.planner.resources.block_resources import Numbers, Resources, ceil_div
from catdiag.planner.resources.triton_resources import TritonBlock
from catdiag.planner.time_model.core_pipelines import exposed_load_seconds, gather_seconds, loop_overhead_seconds
from catdiag.planner.time_model.ideal_backend import BlockWork, GroupWaves, IdealBackend
from catdiag.planner.time_model.kernel_instance import KernelInstance
from catdiag.planner.time_model.matrix_units import (
    copy_seconds,
    drained_row_instructions,
    uses_warp_products,
    warp_padding_ratio,
    warp_product_seconds,
    warpgroup_product_seconds,
    widened_factor_seconds,
)
from catdiag.planner.time_model.memory_traffic import MemoryTraffic
from catdiag.planner.time_model.queueing import mean_value_analysis, queued_at_memory_seconds
from catdiag.schedule.kernel_analysis import ADDED
from catdiag.schedule.lowered_kernel import LoweredKernel, reduces_columns

EXPOSED = 0.4
"""The part of a load's latency that an iteration waits for where there are two buffers."""
FILL_CLOCKS = {True: 96, False: 64}
"""Clocks that the matrix units of a core are not full in, for each piece of rows of the products that an iteration adds
to states: they fill and drain, all together, since Triton waits for them in the next iteration. For kernels that copy
boxes, and those that copy by addresses."""
WAITED_CLOCKS = {True: 48, False: 64}
"""The same of each other product: Triton 3.6 waits for each of these right after it was begun
(`ttng.warp_group_dot_wait` with no product pending), also for one after the other of two that do not depend on each
other."""
INDEPENDENCE = {True: 0.5, False: 1.0}
"""How far the warpgroups of a block work independently, for the same: 0 in step, 1 as if they were blocks."""
INDEPENDENCE_WITHOUT_PRODUCTS = 0.3
"""The same where nothing is multiplied: all warps of a block put the sums of its rows together."""
BLOCK_SECONDS = {True: 1.5e-6, False: 0.0}
"""Before the first product of the blocks that share a core and after their last, beside which nothing is multiplied,
for the same. On an H200, 64 products of 1,024³ take 3 µs a block more than their iterations do, and causal loops over
2,048 positions of 64 entries 2 µs."""
DEPENDENT_CLOCKS = 33
"""Clocks until a warp's own matrix instruction can be added to: the source is that of `matrix_units.WARP_RATE`."""
CROSSING = 2
"""Stalls more for a sum of what several warps hold: written and read twice, between barriers."""
BUSY_LATENCY = 1.0
"""How many times `Hardware.latency_s` a load from a busy HBM takes beside it, since others are served before. On an
H200 iterations of a product of 64 × 8,192 × 8,192, each of which loads 32 KiB, half of it from HBM, took 0.66 µs with
two loads on their way and 0.54 µs, at the bandwidth of HBM, with three. Not where products are of single warps, which
wait for their own iterations too."""
ROW_SUM_INSTRUCTIONS = 50
"""Instructions of a warp that puts a row's sum together with others: adding up, shuffling, and shared memory. On an
H200 rows of 16,384 took 64, 67, 93 and 103 µs where 4, 8, 16 and 16 warps did so for each, for five sums (correlation),
and 62, 63, 69 and 78 µs for three (covariance)."""
SHARED_COLUMN_CLOCKS = 2
"""Clocks for each column that is added up by several warps, and each of these. On an H200 the gradients of RMSNorm of
8,192 × 2,048, in tiles of four rows, took 39.5 µs with 8 warps of which each has columns of its own, and 70.0 with 16;
those of LayerNorm of 8,192 × 1,024 19.8 with 4 warps, 54.6 with 8 and 163 with 16."""
WARP_LOAD_BYTES = 512
"""Bytes of a row that a warp loads at once, 16 a thread."""
REQUEST_BYTES = 64
"""Bytes of a row of an array that the L2 hands over in the time that it takes for fewer."""
PORT_BYTES_PER_CLOCK = 64
"""Bytes of a clock that a core can take from the L2 while others take less."""


def unoverlapped_seconds(kernel: LoweredKernel, chip: Hardware) -> float:
    """Seconds that a kernel takes at least as Triton runs it, beside what it takes by the ideal backend: those of one
    round of blocks (`BLOCK_SECONDS`), where a loop multiplies blocks that are loaded ahead."""
    multiplies = any(c.loops and c.dtype in chip.tensor for c in kernel.contractions)
    if not multiplies or chip.accumulators == "SMEM" or any(b.tests_blocks for b in kernel.loop_bounds.values()):
        return 0.0
    return BLOCK_SECONDS[chip.by_warpgroups]


@dataclass(frozen=True)
class TritonBackend(IdealBackend):
    """`block` is what a block takes; where `known_blocks_per_sm` is given, so many share a core."""

    block: TritonBlock = field(kw_only=True)
    known_blocks_per_sm: Numbers = field(default=None, kw_only=True)

    def instance(self, k: KernelInstance) -> KernelInstance:
        """Groups that add to results that they share are run by blocks that go through runs of them."""
        return replace(k, run_blocks=np.clip(self.blocks_per_sm(k), 1, PROGRAMS_PER_SM)) if k.kernel.in_runs else k

    # -- who is on a core ----------------------------------------------------------------------------------------

    def resources(self, k: KernelInstance) -> Resources:
        return self.block.resources(k.values, k.warps)

    def blocks_per_sm(self, k: KernelInstance) -> Numbers:
        return super().blocks_per_sm(k) if self.known_blocks_per_sm is None else self.known_blocks_per_sm

    # -- what a block needs --------------------------------------------------------------------------------------

    def block_work(self, k: KernelInstance, traffic: MemoryTraffic) -> BlockWork:
        """That of the ideal backend, but: stalls for loads that are begun late, and matrix units that wait for copies
        to shared memory, fill and drain."""
        work = super().block_work(k, traffic)
        by_warps = uses_warp_products(k) if self.block.staged else False
        parts = dict(work.part_seconds)
        parts["L2"] = parts["L2"] + self.reload_seconds(k)
        stalls = work.stall_seconds + self.late_load_seconds(k, parts["L2"], by_warps)
        if not self.block.staged:
            short = (short_row_ratio(k) - 1) * parts["L2"]
            parts["L2"] = parts["L2"] + short
            waits = 1 if k.loads_from_cache else np.maximum(k.iterations, 1)
            stalls = stalls + short + waits * busy_seconds(k, work) + sum_seconds(k)
            parts["alu"] = parts["alu"] + row_sum_seconds(k)
        parts["alu"] = parts["alu"] + (column_sum_seconds(k) if k.persistent else shared_column_seconds(k))
        if k.matrix_products:
            matrix, reading = warpgroup_product_seconds(k, self.block)
            added, waited = drained_row_instructions(k)
            clocks = FILL_CLOCKS[self.block.boxes] * added + WAITED_CLOCKS[self.block.boxes] * waited
            filling = clocks / k.chip.clock_hz
            copying = copy_seconds(k, work.load_bytes) if self.block.staged else 0.0
            parts["tensor"] = np.maximum(matrix, reading + copying) + filling
            parts["registers"] = parts["registers"] + widened_factor_seconds(k)
        fixed = BLOCK_SECONDS[self.block.boxes] if k.matrix_products and self.block.staged else 0.0
        work = replace(work, part_seconds=parts, stall_seconds=stalls, by_warps=by_warps, fixed_seconds=fixed)
        return self._with_warp_products(k, work) if k.matrix_products and np.any(by_warps) else work

    def reload_seconds(self, k: KernelInstance) -> Numbers:
        """What a product reads and an iteration sums too is loaded twice: as boxes, and into registers."""
        if not self.block.staged:
            return 0.0
        bytes_reloaded = self.block.reloaded.value(k.values) * np.maximum(k.iterations, 1)
        return bytes_reloaded * k.chip.sms / k.chip.l2_bytes_per_s

    def late_load_seconds(self, k: KernelInstance, l2_seconds: Numbers, by_warps: Numbers) -> Numbers:
        """Loads that are waited for: of loops without products all, since they are not begun ahead, and of others those
        that no product reads, since Triton begins only loads ahead that lead to a product. With two buffers
        Triton asks for block i + 1 when iteration i is over, so that an iteration waits for a part of the latency
        (`EXPOSED`); with more, the whole iterations between hide it, as long as they take that long."""
        if not self.block.staged:
            return exposed_load_seconds(k, l2_seconds) if k.stages > 1 else 0.0
        if k.persistent:  # a single buffer is loaded once what was in it has been read into registers
            return k.iterations * k.chip.latency_s if k.stages == 2 else 0.0
        if self.block.late_arrays and k.stages > 1:
            return np.maximum(k.iterations, 1) * k.chip.latency_s
        if k.stages != 2:
            return 0.0
        return np.where(by_warps, 0.0, (np.maximum(k.iterations, 1) - 1) * EXPOSED * k.chip.latency_s)

    def _with_warp_products(self, k: KernelInstance, work: BlockWork) -> BlockWork:
        """The work of candidates whose products are instructions of single warps: a warp waits `DEPENDENT_CLOCKS` for
        each step of a sum along the depth, and what is summed along a row goes from warp to warp through shared memory;
        their pieces have fewer rows to fill up."""
        by_warps, parts = work.by_warps, work.part_seconds
        iterations = np.maximum(k.iterations, 1)
        matrix, reading, steps = warp_product_seconds(k, self.block)
        crossing = CROSSING * sum(length for nest, length in k.kernel.chains.items() if nest) * iterations
        waited = (steps * DEPENDENT_CLOCKS + crossing * k.chip.wait_clocks) / k.chip.clock_hz
        ratio = np.where(by_warps, warp_padding_ratio(k), 1.0)
        overhead = loop_overhead_seconds(k, iterations) + gather_seconds(k)
        return replace(
            work,
            part_seconds={
                **parts,
                "tensor": np.where(by_warps, np.maximum(matrix, reading), parts["tensor"]),
                "exp": parts["exp"] * ratio,
                "alu": (parts["alu"] - overhead) * ratio + overhead,
            },
            stall_seconds=work.stall_seconds + np.where(by_warps, waited, 0.0),
        )

    # -- how long blocks take ------------------------------------------------------------------------------------

    def computing_seconds(self, k: KernelInstance, work: BlockWork, blocks: list[Numbers]) -> list[Numbers]:
        """Without warp specialization the warpgroups of a block meet at barriers in each iteration, so that one may
        have no products while the other has exponentials: a block of w warpgroups stands between one worker and w of
        them, by `INDEPENDENCE`. Where boxes are copied it is nearer to one: other blocks of the core overlap more than
        it does itself."""
        in_flight = np.where(work.by_warps, 1, k.iterations_in_flight if self.block.staged else 1)
        demands, stalls = [seconds / in_flight for seconds in work.demands], work.stall_seconds / in_flight
        in_step = mean_value_analysis(demands, stalls, [n * in_flight for n in blocks])
        warpgroups, share = max(1, k.warps // 4), INDEPENDENCE[self.block.boxes]
        if self.block.boxes and not k.matrix_products:
            share = INDEPENDENCE_WITHOUT_PRODUCTS
        if warpgroups == 1:
            return in_step
        customers = [n * in_flight * warpgroups for n in blocks]
        independent = mean_value_analysis([demand / warpgroups for demand in demands], stalls, customers)
        return [share * a + (1 - share) * b for a, b in zip(independent, in_step, strict=True)]

    def loading_seconds(self, k: KernelInstance, work: BlockWork, blocks: Numbers, computing: Numbers) -> Numbers:
        """One of the buffers is in use, the others are loaded. Products by single warps are over when the iteration is,
        and its buffers are reloaded then, so that use counts too, as in the ideal backend."""
        ring: Numbers = 0.0
        loads = work.part_seconds["L2"]
        if self.block.staged and k.stages > 1:
            port = work.load_bytes / (PORT_BYTES_PER_CLOCK * k.chip.clock_hz)
            moved = np.where(work.by_warps, port + computing, loads)
            latency = k.chip.latency_s + np.where(work.by_warps, 0.0, busy_seconds(k, work))
            ring = (np.maximum(k.iterations, 1) * latency + moved) / (k.stages - 1)
        return np.maximum(ring, blocks * loads)

    def run_seconds(
        self, k: KernelInstance, waves: GroupWaves, full_round: Numbers, last_round: Numbers, outer_seconds: Numbers
    ) -> Numbers:
        """Memory is a server that all blocks of the chip queue at, with as many customers as there are buffers being
        loaded: with few bytes on their way it is not busy all the time."""
        buffers, each = max(1, k.stages - 1) if self.block.staged else 1, outer_seconds / k.groups

        def wave(cores: Numbers, groups: Numbers) -> Numbers:
            queued = queued_at_memory_seconds(cores, groups * each, np.maximum(groups, 1) * buffers)
            return np.where(groups > 0, queued, 0.0)

        full = wave(full_round, np.minimum(k.groups, waves.concurrent_groups))
        return waves.full * full + wave(last_round, waves.rest)


def busy_seconds(k: KernelInstance, work: BlockWork) -> Numbers:
    """Seconds that a load takes longer since HBM is busy, as far as it comes from there."""
    return BUSY_LATENCY * work.hbm_part * k.chip.latency_s


def sum_seconds(k: KernelInstance) -> Numbers:
    """What iterations wait for sums of rows that they add up in place, where they wait for no other: the warps put each
    together in every iteration. What is added entry by entry waits for nothing."""
    if any(k.kernel.chains.values()):
        return 0.0
    columns = k.kernel.column_sums()
    boxes = (body.graph.nodes[place].box for body in k.kernel.bodies() for place in body.found.in_place)
    crossing: Numbers = 0
    for box in boxes:
        if box not in columns:
            crossing = np.where(summed_entries(k, box) > 1, CROSSING, crossing)
    return crossing * k.chip.wait_clocks / k.chip.clock_hz * k.iterations


def summed_entries(k: KernelInstance, box: Box) -> Numbers:
    """How many entries of its inputs an entry of the result of a box is a sum of, in a block."""
    kept = {name for ty in box.cod for name in ty.names}
    axes = {a.name: a for ty in box.dom for a in ty.axes if a.name not in kept}
    return IntPolynomial.elements(tuple(axes.values())).value(k.values)


def row_sum_seconds(k: KernelInstance) -> Numbers:
    """What warps compute to put together the sums of rows that iterations add up in place: each warp that has a part
    of a row takes `ROW_SUM_INSTRUCTIONS`, on four schedulers."""
    found: Numbers = 0.0
    for body in k.kernel.bodies():
        widths = [b.width for b in body.inputs if b is not None and b.role == "streamed"]
        for box in (body.graph.nodes[place].box for place in body.found.in_place if widths):
            row = box.dom[0].axes[-1]
            if row.name not in box.cod[0].names:
                rows = IntPolynomial.elements(box.cod[0].axes).value(k.values)
                length = IntPolynomial.of(row.size).value(k.values)
                parts = ceil_div(length * min(widths), WARP_LOAD_BYTES)
                found = found + rows * np.where(length > 1, np.minimum(parts, k.warps), 0)
    return found * k.iterations * ROW_SUM_INSTRUCTIONS / 4 / k.chip.clock_hz


def column_sum_seconds(k: KernelInstance) -> Numbers:
    """What it takes to add up columns in each iteration of a run where warps share them: where rows are shorter than
    what all warps load at once."""
    found: Numbers = 0.0
    (rows,) = (k.values[tile] for tile in k.kernel.tiles)
    loaded: Numbers = 1
    for array in (array for part in k.kernel.parts for array in part.loads()):
        loaded = np.maximum(loaded, array.size.value(k.values) * array.width)
    for added in (t for t in k.kernel.transfers if t.array in k.kernel.added and t.reload_axes):
        columns = added.size.value(k.values) / ADDED
        sharing = np.minimum(k.warps * WARP_LOAD_BYTES * rows / loaded, rows)
        found = found + np.where(sharing > 1, columns * sharing, 0.0)
    return found * k.iterations * SHARED_COLUMN_CLOCKS / k.chip.clock_hz


def shared_column_seconds(k: KernelInstance) -> Numbers:
    """What it takes to put sums of columns together that warps share: once after a loop, or of a tile without one."""
    whole = [node.box for part in k.kernel.parts for node in part.body.graph.nodes if reduces_columns(node.box)]
    narrow = min((array.width for part in k.kernel.parts for array in part.loads() if array.axes), default=1)
    clocks: Numbers = 0.0
    for box in (*k.kernel.column_sums(), *(() if k.kernel.loops else whole)):
        columns = IntPolynomial.elements(box.cod[0].axes).value(k.values)
        rows = IntPolynomial.elements(box.dom[0].axes).value(k.values) / columns
        sharing = np.minimum(np.minimum(k.warps * WARP_LOAD_BYTES / (columns * narrow), rows), k.warps)
        clocks = clocks + np.where(sharing > 1, columns * sharing, 0.0) * SHARED_COLUMN_CLOCKS
    return clocks / k.chip.clock_hz


def short_row_ratio(k: KernelInstance) -> Numbers:
    """How many times longer loads take since rows of tiles are shorter than `REQUEST_BYTES`, on average; of those that
    are read entry by entry the core's cache has the rest."""
    blocks = {} if k.loads_from_cache else {whole: k.values[block] for block, whole in k.kernel.loops}
    moved: Numbers = 0
    taken: Numbers = 0
    for array in (array for part in k.kernel.parts for array in part.loads() if array.axes):
        length = IntPolynomial.of(array.axes[-1].size)
        row_bytes = array.width * blocks.get(length, length.value(k.values))
        size = array.size.value(k.values)
        moved, taken = moved + size, taken + size * np.maximum(1, REQUEST_BYTES / row_bytes)
    return taken / np.maximum(moved, 1)
