"""Gluon: kernels whose loads are warps' of their own (warp specialization), with one block a core.

A warpgroup begins the first products of an iteration and the last ones of the iteration before, and does the rest
meanwhile; warpgroups do not meet, and buffers are filled by a warp of its own, so that no load is waited for in the
middle. `LAG`, `BLOCK_SECONDS` and `RANGE_SECONDS` were fitted to 23 kernels of one run on an H200
(docs/explanation/time_model.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from catdiag.planner.resources.block_resources import Numbers, Resources
from catdiag.planner.resources.gluon_resources import WARPS, GluonBlock
from catdiag.planner.time_model.ideal_backend import BlockWork, GroupWaves, IdealBackend
from catdiag.planner.time_model.kernel_instance import KernelInstance
from catdiag.planner.time_model.matrix_units import (
    block_row_instructions,
    copy_seconds,
    warpgroup_product_seconds,
    widened_factor_seconds,
)
from catdiag.planner.time_model.memory_traffic import MemoryTraffic
from catdiag.planner.time_model.queueing import mean_value_analysis, queued_at_memory_seconds

LAG = 0.7
"""How far a warpgroup's work is two iterations at a time, since products of one go on beside the rest of the next: 0
one after the other, 1 as if they were of two warpgroups."""
FILL_CLOCKS = 96
"""Clocks that the matrix units are not full in, for each piece of rows of a product of an iteration."""
BLOCK_SECONDS = 5e-6
"""Before a block's first product and after its last, beside which the core has no other block."""
RANGE_SECONDS = 2e-6
"""For each further range of its loop, since products of one are over before another begins."""


@dataclass(frozen=True)
class GluonBackend(IdealBackend):
    """`block` is what a block takes, whose loop is run in so many ranges."""

    producer_warps: int = 1
    block: GluonBlock = field(kw_only=True)
    ranges: int = field(default=1, kw_only=True)

    def resources(self, k: KernelInstance) -> Resources:
        return self.block.resources(k.values, k.warps)

    def blocks_per_sm(self, k: KernelInstance) -> Numbers:
        return np.ones_like(np.asarray(k.groups))

    def block_work(self, k: KernelInstance, traffic: MemoryTraffic) -> BlockWork:
        """That of the ideal backend, but matrix units wait for copies to shared memory, fill and drain."""
        work = super().block_work(k, traffic)
        matrix, reading = warpgroup_product_seconds(k, self.block.triton)
        filling = FILL_CLOCKS * block_row_instructions(k) / k.chip.clock_hz
        tensor = np.maximum(matrix, reading + copy_seconds(k, work.load_bytes)) + filling
        passing = work.part_seconds["registers"] + widened_factor_seconds(k)
        return replace(
            work,
            part_seconds={**work.part_seconds, "tensor": tensor, "registers": passing},
            fixed_seconds=BLOCK_SECONDS + (self.ranges - 1) * RANGE_SECONDS,
        )

    def computing_seconds(self, k: KernelInstance, work: BlockWork, blocks: list[Numbers]) -> list[Numbers]:
        """Warpgroups queue for pipelines, each with two iterations in work, to a share of `LAG`."""
        warpgroups = k.warps // WARPS
        demands = [work.part_seconds[name] / warpgroups for name in ("tensor", "exp", "alu", "registers")]
        customers, stalls = [n * warpgroups for n in blocks], work.stall_seconds
        two = mean_value_analysis([demand / 2 for demand in demands], stalls / 2, [2 * n for n in customers])
        one = mean_value_analysis(demands, stalls, customers)
        return [LAG * a + (1 - LAG) * b for a, b in zip(two, one, strict=True)]

    def loading_seconds(self, k: KernelInstance, work: BlockWork, blocks: Numbers, computing: Numbers) -> Numbers:
        return work.part_seconds["L2"]

    def run_seconds(
        self, k: KernelInstance, waves: GroupWaves, full_round: Numbers, last_round: Numbers, outer_seconds: Numbers
    ) -> Numbers:
        """Seconds of a run: memory is a server that all blocks queue at, each with two loads on their way."""
        started = waves.full + (waves.rest > 0)
        if k.kernel.loop_bounds:  # groups of other lengths fill up the last wave
            started = np.maximum(k.groups / waves.concurrent_groups, 1)
        cores = started * full_round
        customers = 2 * np.minimum(k.groups, k.chip.sms)
        return queued_at_memory_seconds(cores, outer_seconds, customers)
