"""The ideal backend where it is given which pipelines run at once: the longest of these counts, others are added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from catdiag.planner.resources.block_resources import Numbers
from catdiag.planner.time_model.core_pipelines import barrier_stall_seconds
from catdiag.planner.time_model.ideal_backend import BlockWork, GroupWaves, IdealBackend
from catdiag.planner.time_model.kernel_instance import KernelInstance
from catdiag.planner.time_model.timing import PIPELINES

Pipeline = Literal["tensor", "exp", "alu", "registers", "SMEM", "L2", "HBM"]
Overlap = Literal["queue", "add", "max"] | tuple[Pipeline, ...]
"""What runs at once: "queue" (the model, in which blocks queue for pipelines), "add" (nothing), "max" (all, with no
stalls), or the pipelines that do."""


@dataclass(frozen=True)
class GivenOverlap(IdealBackend):
    """Blocks run one after the other, each with these pipelines at once; nothing stalls where `stalls` is false."""

    pipelines: frozenset[str] = frozenset()
    stalls: bool = True

    def computing_seconds(self, k: KernelInstance, work: BlockWork, blocks: list[Numbers]) -> list[Numbers]:
        longest: Numbers = 0.0
        total: Numbers = 0.0
        for name, seconds in work.part_seconds.items():
            if name in self.pipelines and name != "SMEM":
                longest = np.maximum(longest, seconds)
            elif name != "SMEM":  # reading it is part of the matrix units' time
                total = total + seconds
        block = longest + total
        if self.stalls:
            exposed_loads = np.maximum(k.iterations, 1) if k.stages == 1 else 1
            block = block + barrier_stall_seconds(k) + k.chip.latency_s * exposed_loads
        return [n * block for n in blocks]

    def loading_seconds(self, k: KernelInstance, work: BlockWork, blocks: Numbers, computing: Numbers) -> Numbers:
        return 0.0

    def run_seconds(
        self, k: KernelInstance, waves: GroupWaves, full_round: Numbers, last_round: Numbers, outer_seconds: Numbers
    ) -> Numbers:
        cores = waves.full * full_round + last_round
        return np.maximum(cores, outer_seconds) if "HBM" in self.pipelines else cores + outer_seconds


def ideal_backend(overlap: Overlap = "queue", producer_warps: int = 0) -> IdealBackend:
    """The ideal backend, with what is taken to run at once."""
    if overlap == "queue":
        return IdealBackend(producer_warps)
    if overlap == "max":
        return GivenOverlap(producer_warps, frozenset(PIPELINES), stalls=False)
    return GivenOverlap(producer_warps, frozenset(() if overlap == "add" else overlap))
