"""The ideal backend: each warp does what suits it best, whatever a compiler makes of it. Derived here, save where
named.

A block does its steps one after the other: its warps run in step, since they share barriers. Other blocks of the SM
fill the gaps: n blocks circulate between the pipelines, where they queue, and the stalls, where they do not
(`catdiag.planner.time_model.queueing`). Where iterations wait for no sums (a matrix product adds up in place) and
products read blocks as they were loaded, those of one block overlap too, as many as there are buffers not being loaded.

Weak: kernels whose warpgroups work on different steps (FlashAttention-3, cuDNN) gain what this does not see, most at
128 rows and more; the same numbers are assumed of the A100 without measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from catdiag.planner.resources.block_resources import Numbers, Resources, ceil_div
from catdiag.planner.resources.ideal_resources import IdealBlock
from catdiag.planner.time_model import core_pipelines
from catdiag.planner.time_model.kernel_instance import KernelInstance
from catdiag.planner.time_model.matrix_units import grid_product_seconds
from catdiag.planner.time_model.memory_traffic import MemoryTraffic, l2_seconds, scatter_seconds, short_row_save_seconds
from catdiag.planner.time_model.queueing import mean_value_analysis


@dataclass(frozen=True)
class BlockWork:
    """What a full block needs: seconds by pipeline (`inner_seconds` of those on matrix units are in inner loops whose
    iterations wait for no sums), seconds that it waits for itself in iterations (`stall_seconds`), and once
    (`fixed_seconds`). It loads `load_bytes`; `hbm_part` of all bytes that it moves cross the edge to HBM, the others
    stay in caches. `by_warps`: its products are instructions of single warps."""

    part_seconds: Mapping[str, Numbers]
    stall_seconds: Numbers
    load_bytes: Numbers
    inner_seconds: Numbers = 0.0
    fixed_seconds: float = 0.0
    by_warps: Numbers = False
    hbm_part: Numbers = 0.0

    @property
    def demands(self) -> list[Numbers]:
        """Seconds at each station: matrix units and what passes through registers to them, special functions, ALUs."""
        parts = self.part_seconds
        return [parts["tensor"] + parts["registers"], parts["exp"], parts["alu"]]


@dataclass(frozen=True)
class GroupWaves:
    """How the groups of a run follow each other: `full` waves of `concurrent_groups`, `most_blocks` on an SM, and a
    last one of the `rest`, `last_blocks` on an SM."""

    blocks_per_sm: Numbers
    concurrent_groups: Numbers
    full: Numbers
    rest: Numbers
    most_blocks: Numbers
    last_blocks: Numbers

    @staticmethod
    def of(k: KernelInstance, blocks_per_sm: Numbers) -> GroupWaves:
        """Those of a run where so many blocks share a core."""
        concurrent = k.chip.sms * blocks_per_sm
        rest = k.groups % concurrent
        most = np.minimum(blocks_per_sm, ceil_div(k.groups, k.chip.sms))
        last = np.minimum(most, ceil_div(rest, k.chip.sms))
        return GroupWaves(blocks_per_sm, concurrent, k.groups // concurrent, rest, most, last)


@dataclass(frozen=True)
class IdealBackend:
    """In what backends may differ, each with the ideal answer. `producer_warps` beside the others only load."""

    producer_warps: int = 0

    def instance(self, k: KernelInstance) -> KernelInstance:
        """The kernel as the backend launches it."""
        return k

    # -- who is on a core ----------------------------------------------------------------------------------------

    def resources(self, k: KernelInstance) -> Resources:
        """What a block takes."""
        return IdealBlock(k.kernel, k.chip, self.producer_warps).resources(k.values, k.warps)

    def blocks_per_sm(self, k: KernelInstance) -> Numbers:
        """Blocks that share a core."""
        return self.resources(k).blocks_per_sm(k.chip)

    def concurrent_groups(self, k: KernelInstance) -> Numbers:
        """Groups whose loads meet in caches: those of a wave of the ideal backend, whichever runs the kernel."""
        ideal = IdealBlock(k.kernel, k.chip, self.producer_warps).resources(k.values, k.warps)
        return np.minimum(k.groups, k.chip.sms * ideal.blocks_per_sm(k.chip))

    # -- what a block needs --------------------------------------------------------------------------------------

    def block_work(self, k: KernelInstance, traffic: MemoryTraffic) -> BlockWork:
        """What a block needs. With one buffer the loads of streamed blocks are stalls too."""
        products = grid_product_seconds(k)
        loads = l2_seconds(k, traffic.load_bytes, traffic.save_bytes)
        loads = loads + (scatter_seconds(k) + short_row_save_seconds(k)) / k.groups * k.chip.sms
        parts = {
            "tensor": products.total,
            "exp": core_pipelines.special_function_seconds(k, products.row_padding_ratio),
            "alu": core_pipelines.alu_seconds(k, products.row_padding_ratio),
            "registers": core_pipelines.register_pass_seconds(k),
            "SMEM": products.reading,
            "L2": loads,
        }
        stalls = core_pipelines.stall_seconds(k, loads)
        if k.stages == 1:
            stalls = stalls + core_pipelines.exposed_load_seconds(k, loads)
        moved = traffic.load_bytes + traffic.save_bytes
        part = np.minimum(traffic.hbm_bytes / np.maximum(moved, 1), 1.0)
        return BlockWork(parts, stalls, traffic.load_bytes / k.groups, products.inner, hbm_part=part)

    # -- how long blocks take ------------------------------------------------------------------------------------

    def computing_seconds(self, k: KernelInstance, work: BlockWork, blocks: list[Numbers]) -> list[Numbers]:
        """Seconds of a round of so many blocks on a core, loads not counted, for each of some numbers of blocks."""
        in_flight = k.iterations_in_flight
        demands = [seconds / in_flight for seconds in work.demands]
        rounds = mean_value_analysis(demands, work.stall_seconds / in_flight, [n * in_flight for n in blocks])
        if k.independent_inner_loops and k.stages > 2:
            return list(map(np.minimum, rounds, self._inner_loops_first(k, work, blocks)))
        return rounds

    def _inner_loops_first(self, k: KernelInstance, work: BlockWork, blocks: list[Numbers]) -> list[Numbers]:
        """The same where inner loops whose iterations wait for no sums overlap these, as those of a product do, and the
        rest of the outer iterations comes after them."""
        in_flight, iterations = k.stages - 1, sum(k.trip_count(nest) for nest in k.independent_inner_loops)
        overhead = core_pipelines.loop_overhead_seconds(k, iterations)
        stalls = iterations * k.chip.wait_clocks / k.chip.clock_hz / in_flight
        demands = [work.inner_seconds / in_flight, overhead / in_flight]
        inner = mean_value_analysis(demands, stalls, [n * in_flight for n in blocks])
        parts = work.part_seconds
        beside = [
            np.maximum(parts["tensor"] - work.inner_seconds, 0.0) + parts["registers"],
            parts["exp"],
            np.maximum(parts["alu"] - overhead, 0.0),
        ]
        rest = mean_value_analysis(beside, np.maximum(work.stall_seconds - stalls, 0.0), blocks)
        return [a + b for a, b in zip(inner, rest, strict=True)]

    def loading_seconds(self, k: KernelInstance, work: BlockWork, blocks: Numbers, computing: Numbers) -> Numbers:
        """Seconds in which the loads of so many blocks on a core arrive, which compute for `computing` seconds. With s
        buffers loads go on beside: a buffer is loaded (latency and transfer) and used, then loaded again, so that an
        iteration takes at least 1/s of both. Loads of all blocks share the L2's bandwidth."""
        loads = work.part_seconds["L2"]
        ring = (k.iterations * k.chip.latency_s + loads + computing) / k.stages if k.stages > 1 else 0.0
        return np.maximum(ring, blocks * loads)

    def round_seconds(self, work: BlockWork, blocks: Numbers, computing: Numbers, loading: Numbers) -> Numbers:
        """Seconds that so many blocks on a core take, none if there are none."""
        return np.where(blocks > 0, np.maximum(computing, loading) + work.fixed_seconds, 0.0)

    def run_seconds(
        self, k: KernelInstance, waves: GroupWaves, full_round: Numbers, last_round: Numbers, outer_seconds: Numbers
    ) -> Numbers:
        """Seconds of the run, whose bytes take memory so many seconds: no less than these."""
        return np.maximum(waves.full * full_round + last_round, outer_seconds)
