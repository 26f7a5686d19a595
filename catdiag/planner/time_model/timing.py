"""What is predicted of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from catdiag.planner.resources.block_resources import Numbers, Resources
from catdiag.planner.time_model.memory_traffic import MemoryTraffic

PIPELINES = ("tensor", "exp", "alu", "registers", "SMEM", "L2", "HBM")
"""What may run at once: matrix units, special functions, ALUs, passing blocks through registers, reading of shared
memory, loads, and HBM."""
STATIONS = ("tensor", "exp", "alu", "registers")
"""What a block queues for; in one queue for matrix units and for what passes through registers to them."""


@dataclass(frozen=True)
class Timing:
    """Predictions, an entry for each candidate. `part_seconds` are those of a block by pipeline, `stall_seconds` those
    that it waits for itself, `single_block_seconds` those that it takes with an SM of its own. In a full wave (or the
    only one) loads are `loading_seconds` and what is computed from them `computing_seconds`. `imbalance_seconds` are
    those that a run takes more since groups differ in length, where loops skip blocks; `longest` is the prediction for
    groups that are all as long as the longest."""

    resources: Resources
    traffic: MemoryTraffic
    blocks_per_sm: Numbers
    groups: Numbers
    waves: Numbers
    iterations: Numbers
    part_seconds: Mapping[str, Numbers]
    stall_seconds: Numbers
    single_block_seconds: Numbers
    computing_seconds: Numbers
    loading_seconds: Numbers
    seconds: Numbers
    imbalance_seconds: Numbers = 0.0
    longest: Timing | None = None

    @property
    def bytes_moved(self) -> Numbers:
        """All bytes that cross the edge to shared memory."""
        return self.traffic.load_bytes + self.traffic.save_bytes

    def then(self, after: Timing) -> Timing:
        """This and a kernel after it: what crosses edges and the time of both, on chip what the larger takes."""
        return replace(
            self,
            resources=self.resources.larger(after.resources),
            traffic=self.traffic.then(after.traffic),
            seconds=self.seconds + after.seconds,
        )

    @staticmethod
    def of_unlike_groups(average: Timing, longest: Timing, longest_first: bool = False) -> Timing:
        """That for groups of different lengths, from that for groups of the average length, and that for groups that
        are all as long as the longest.

        An SM takes the next group as soon as it is done with one, so that waves even out. At the end the longest group
        is waited for: what it takes more than the average one, alone on its SM, is added once, as in the bound on list
        scheduling (Graham 1969: no more than all work over the processors and the longest job), but no more than if all
        groups were as long as it. Where the longest groups begin first, the last ones are short: the run takes as long
        as all work over the processors, or as the longest group.
        """
        waited = np.maximum(longest.single_block_seconds - average.single_block_seconds, 0)
        if longest_first:
            waited = np.maximum(longest.single_block_seconds - average.seconds, 0)
        imbalance = np.maximum(np.minimum(waited, longest.seconds - average.seconds), 0)
        return replace(average, imbalance_seconds=imbalance, seconds=average.seconds + imbalance, longest=longest)
