"""A kernel instance: a lowered kernel on a chip, at sizes, tiles and blocks, launched with so many stages and warps.

All terms of the time model are functions of one. Each number is an array with an entry for each candidate of tiles, or
a number that stands for equal ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from catdiag.chip.hardware import Hardware
from catdiag.codegen.triton.tile_runs import PROGRAMS_PER_SM
from catdiag.planner.resources.block_resources import Numbers, Values, ceil_div
from catdiag.schedule.contractions import Contraction, Loop
from catdiag.schedule.lowered_kernel import GatheredLoad, LoweredKernel

CACHE_LATENCY_CLOCKS = 40
"""Clocks that a load from the cache of a core takes, as assumed: the model was calibrated with it."""


@dataclass(frozen=True)
class KernelInstance:
    """`values` gives every size, tile and block, and the scalar inputs on which it depends how often loops iterate; by
    `("trip_count", block)` how often a loop does, by `("moved", transfer)` what an array moves in the whole run, where
    these do not follow from sizes (`catdiag.schedule.load_imbalance`)."""

    kernel: LoweredKernel
    chip: Hardware
    values: Values
    stages: int
    warps: int
    run_blocks: Numbers = 0
    """Where blocks go through runs of groups, since the kernel adds up what these give, how many of a core; else 0."""

    @cached_property
    def matrix_products(self) -> list[Contraction]:
        """The products that matrix units make: those of a type that they multiply. The ALUs make the others."""
        return [c for c in self.kernel.contractions if c.dtype in self.chip.tensor]

    @cached_property
    def tile_counts(self) -> Mapping[str, Numbers]:
        """How many tiles each grouped axis has."""
        return {t: ceil_div(whole.value(self.values), self.values[t]) for t, whole in self.kernel.tiles.items()}

    @cached_property
    def persistent(self) -> bool:
        """Whether blocks go through runs of groups."""
        return bool(np.any(self.run_blocks))

    @cached_property
    def tiles(self) -> Numbers:
        """Groups of the whole run."""
        total: Numbers = 1
        for count in self.tile_counts.values():
            total = total * count
        return total

    @cached_property
    def programs(self) -> Numbers:
        """Blocks that each add a part to results that they share: those that go through runs of groups, or a block for
        each group."""
        if not self.kernel.in_runs:
            return self.tiles
        most = self.chip.sms * (self.run_blocks if self.persistent else PROGRAMS_PER_SM)
        return ceil_div(self.tiles, np.maximum(1, ceil_div(self.tiles, most)))

    @cached_property
    def groups(self) -> Numbers:
        """Thread blocks of the whole run: one for each group, or for a run of them."""
        return self.programs if self.persistent else self.tiles

    @cached_property
    def run_length(self) -> Numbers:
        """Groups that a block goes through."""
        return self.tiles / self.groups if self.persistent else 1

    def trip_count(self, loops: tuple[Loop, ...]) -> Numbers:
        """Iterations of the innermost of some loops, in one group."""
        total: Numbers = 1
        for block, whole in loops:
            known = self.values.get(("trip_count", block))
            total = total * (ceil_div(whole.value(self.values), self.values[block]) if known is None else known)
        return total

    @cached_property
    def iterations(self) -> Numbers:
        """Iterations of all loops of one block."""
        total: Numbers = 0
        for nest in self.kernel.chains:
            total = total + (self.trip_count(nest) if nest else 0)
        return self.run_length if self.persistent else total

    @cached_property
    def independent_inner_loops(self) -> list[tuple[Loop, ...]]:
        """The loops inside loops whose iterations wait for no sums."""
        return [nest for nest in self.kernel.chains if len(nest) > 1 and is_independent(self.kernel, nest)]

    @cached_property
    def loads_from_cache(self) -> bool:
        """Whether iterations load windows that lie over each other, which are in the core's own cache but the first."""
        return not self.kernel.contractions and any(load.loops for load in self.kernel.gathered_loads)

    @property
    def load_latency_s(self) -> float:
        """Seconds that a load of an iteration takes."""
        return CACHE_LATENCY_CLOCKS / self.chip.clock_hz if self.loads_from_cache else self.chip.latency_s

    def loaded_entries(self, load: GatheredLoad) -> Numbers:
        """The entries that a block loads."""
        return load.entries.value(self.values) * self.trip_count(load.loops) * self.run_length

    @property
    def iterations_in_flight(self) -> int:
        """How many iterations of its loops a block has in work at once where they wait for nothing: beside the buffer
        being loaded, each of the others is in some step."""
        return max(1, self.stages - 1) if iterations_overlap(self.kernel) else 1

    def multiply_adds(self, contraction: Contraction) -> Numbers:
        """Multiply-adds of a product in one block."""
        c = contraction
        return (c.rows * c.columns * c.depth * c.batch).value(self.values) * self.trip_count(c.loops) * self.run_length

    def scalar_operations(self, pipeline: str) -> Numbers:
        """Scalar operations of one block on a pipeline."""
        total: Numbers = 0.0
        for (name, loops), amount in self.kernel.work.items():
            if name == pipeline:
                total = total + amount.value(self.values) * self.trip_count(loops)
        return total * self.run_length


def is_independent(kernel: LoweredKernel, nest: tuple[Loop, ...]) -> bool:
    """Whether iterations of a loop wait for no sums, and its products read what was loaded as it is."""
    return not kernel.chains[nest] and all(one.loops != nest for one in kernel.register_reads)


def iterations_overlap(kernel: LoweredKernel) -> bool:
    """Whether a block may have several iterations of its loops in work at once: a product adds up in place. Where an
    iteration reads blocks into registers, it may not: warps issue in order, and the registers of a factor are read
    until its product is done."""
    return bool(kernel.loops) and all(is_independent(kernel, nest) for nest in kernel.chains if nest)
