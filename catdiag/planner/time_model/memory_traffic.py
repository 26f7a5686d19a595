"""Bytes that cross each edge in a whole run, and the seconds that memory needs for them.

What crosses the edge to shared memory shares the L2's bandwidth. A cache holds what a wave of groups touches, if that
fits: then each array crosses the edge above it once; else what each wave touches is reloaded, its groups forming a
block of the grid that is about square. A copy of what several dies share goes into the cache of each, once if it stays;
a last-level cache holds what a wave of the whole chip touches. Where there is no cache, all that crosses the edge to
shared memory comes from HBM.

What a loop inside a loop reads again in every iteration comes from a cache too, if that holds what an iteration of all
groups at work touches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from catdiag.planner.resources.block_resources import Numbers, ceil_div
from catdiag.planner.time_model.kernel_instance import KernelInstance
from catdiag.schedule.contractions import Loop
from catdiag.schedule.lowered_kernel import Transfer

SECTOR_BYTES = 32
"""Bytes of the L2 that an addition, or a row that is saved, takes at least."""
ADDED_SECTORS = 0.28
"""The part of the L2's bandwidth that atomic additions reach: on an H200 rows of 1,024 entries, 16,384 of them, took
31 µs (68 billion sectors a second), and 2^24 single entries of an array of 2^20 took 180 (93 billion)."""
SPREAD_BYTES, LEAST_SPREAD = 2**15, 0.04
"""Bytes of an array from which on all slices of the L2 take part in additions to it, and the least part that does: 2^20
single entries took 34 µs in an array of 16 KiB, and 309 in one of 256 bytes; 2^24 took 4,332 in one of 1 KiB."""


@dataclass(frozen=True)
class MemoryTraffic:
    """Bytes in the whole run: loaded and saved at the edge to shared memory, across each edge above it (`edge_bytes`,
    the one to HBM first); and what a wave touches in each cache (`touched_bytes`)."""

    load_bytes: Numbers
    save_bytes: Numbers
    edge_bytes: Mapping[tuple[str, str], Numbers]
    touched_bytes: Mapping[str, Numbers]

    @staticmethod
    def of(k: KernelInstance, concurrent_groups: Numbers) -> MemoryTraffic:
        """That of a run, so many groups of which are at work at once."""
        load, save = crossing_bytes(k, "load"), crossing_bytes(k, "save")
        below = load + save
        chip = k.chip
        if not chip.l2_bytes:
            return MemoryTraffic(load, save, {("HBM", "SMEM"): below}, {})
        near, touched = cache_bytes(k, concurrent_groups, chip.l2_bytes, chip.l2_count)
        near = np.minimum(near, below)
        if not chip.llc_bytes:
            return MemoryTraffic(load, save, {("HBM", "L2"): near, ("L2", "SMEM"): below}, {"L2": touched})
        far, touched_by_all = cache_bytes(k, concurrent_groups, chip.llc_bytes, 1)
        edges = {("HBM", "LLC"): np.minimum(far, near), ("LLC", "L2"): near, ("L2", "SMEM"): below}
        return MemoryTraffic(load, save, edges, {"LLC": touched_by_all, "L2": touched})

    @property
    def hbm_bytes(self) -> Numbers:
        """Bytes that cross the edge to HBM."""
        return next(iter(self.edge_bytes.values()))

    def then(self, after: MemoryTraffic) -> MemoryTraffic:
        """That of this run and of one after it."""
        edges = {edge: crossing + after.edge_bytes[edge] for edge, crossing in self.edge_bytes.items()}
        load, save = self.load_bytes + after.load_bytes, self.save_bytes + after.save_bytes
        return MemoryTraffic(load, save, edges, self.touched_bytes)

    def outer_seconds(self, k: KernelInstance) -> Numbers:
        """What HBM needs for its bytes, or a last-level cache for its, if that is longer."""
        rates = k.chip.sustained_bytes_per_s
        longest: Numbers = 0.0
        for (upper, _), crossing in self.edge_bytes.items():
            if upper != "L2" and (rate := rates.get(upper)):
                longest = np.maximum(longest, crossing / rate)
        return longest


def crossing_bytes(k: KernelInstance, direction: str) -> Numbers:
    """Bytes that cross the edge to shared memory in the whole run, loaded or saved."""
    total: Numbers = 0
    for moved in k.kernel.transfers:
        if moved.direction == direction:
            crossing: Numbers = moved.size.value(k.values)
            for tile in moved.reload_axes:
                added = direction == "save" and k.kernel.in_runs
                crossing = crossing * (k.programs if added else k.tile_counts[tile])
            crossing = crossing * k.trip_count(moved.loop_nest)
            total = total + k.values.get(("moved", moved), crossing)
    return total


def l2_seconds(k: KernelInstance, load_bytes: Numbers, save_bytes: Numbers) -> Numbers:
    """What a block's bytes take at a core's share of the L2's bandwidth."""
    return (load_bytes + save_bytes) / k.groups * k.chip.sms / k.chip.l2_bytes_per_s


def cache_bytes(
    k: KernelInstance, concurrent_groups: Numbers, capacity_bytes: int, copies: int
) -> tuple[Numbers, Numbers]:
    """Bytes that go into and out of a cache, or `copies` equal ones that share the groups, in the whole run, and those
    that a wave touches in one.

    Where what a wave touches in one of them fits, each array crosses once for each copy that needs it.
    """
    shares = _wave_shares(k, np.maximum(concurrent_groups // copies, 1))
    waves = ceil_div(k.groups, concurrent_groups) * copies
    least: Numbers = sum(t.size.value(k.values) for t in k.kernel.transfers if t.direction == "save")
    touched: Numbers = 0
    again: Numbers = 0
    for moved, share in shares:
        whole, repeated = moved.size.value(k.values), 1
        for tile in moved.reload_axes:
            repeated = repeated * k.tile_counts[tile]
        once = whole * np.minimum(repeated, copies)
        loaded = k.values.get(("moved", moved), whole * repeated)
        touched = touched + whole * share
        again = again + np.maximum(once, np.minimum(loaded, waves * (whole * share))) - once
        least = least + once
    fetched = least + np.where(touched > capacity_bytes, again, 0)
    for moved, share in shares:
        if moved.loop_nest:
            missed = _iteration_bytes(k, shares, moved.loop_nest) > capacity_bytes
            part = waves * (moved.size.value(k.values) * share)
            fetched = fetched + np.where(missed, (k.trip_count(moved.loop_nest) - 1) * part, 0)
    return fetched, touched


Shares = list[tuple[Transfer, Numbers]]
"""Loads, each with the part of its array that a wave touches."""


def _wave_shares(k: KernelInstance, groups: Numbers) -> Shares:
    """The part of each array that is loaded which so many groups touch, where these form a block of the grid that is
    about square along the axes that arrays are shared along, then grows along what is left."""
    loads = [t for t in k.kernel.transfers if t.direction == "load"]
    shared = [t for t in k.tile_counts if any(t in moved.reload_axes for moved in loads)]
    bounds: dict[str, Numbers] = {}
    left = groups
    for place, tile in enumerate(shared):
        side = np.maximum(1, np.floor(left ** (1.0 / (len(shared) - place)) + 1e-9))
        bounds[tile] = np.minimum(k.tile_counts[tile], side)
        left = np.maximum(1, left // bounds[tile])
    for tile in k.tile_counts:
        grown = np.minimum(k.tile_counts[tile], bounds.get(tile, 1) * left)
        left = np.maximum(1, left * bounds.get(tile, 1) // grown)
        bounds[tile] = grown
    found: Shares = []
    for moved in loads:
        share: Numbers = 1.0
        for tile, count in k.tile_counts.items():
            if tile not in moved.reload_axes:
                share = share * bounds[tile] / count
        found.append((moved, share))
    return found


def _iteration_bytes(k: KernelInstance, shares: Shares, loops: tuple[Loop, ...]) -> Numbers:
    """What all groups of a wave touch in an iteration of some loops."""
    total: Numbers = 0
    for moved, share in shares:
        if moved.role != "operand":
            around = tuple(loop for loop in loops if loop not in moved.loop_nest)
            total = total + moved.size.value(k.values) * share / k.trip_count(around)
    return total


def scatter_seconds(k: KernelInstance) -> Numbers:
    """What the L2 takes longer to add entries where integers say than to load and save them, in the whole run: a sector
    for each row of neighbors, at `ADDED_SECTORS` of its bandwidth, and less where the array is so small that few of its
    slices have a part."""
    total: Numbers = 0.0
    for added in k.kernel.scattered:
        entries: Numbers = added.entries.value(k.values)
        for tile in added.reload_axes:
            entries = entries * k.tile_counts[tile]
        together = np.minimum(added.row.value(k.values), SECTOR_BYTES // added.width)
        spread = np.clip(added.elements.value(k.values) * added.width / SPREAD_BYTES, LEAST_SPREAD, 1)
        sectors = entries / together * SECTOR_BYTES / (ADDED_SECTORS * spread)
        total = total + np.maximum(sectors - 2 * entries * added.width, 0)
    return total / k.chip.l2_bytes_per_s


def short_row_save_seconds(k: KernelInstance) -> Numbers:
    """What the L2 takes longer to save rows of tiles that are shorter than a sector, in the whole run."""
    total: Numbers = 0.0
    for moved in k.kernel.transfers:
        if moved.row.terms:
            saved: Numbers = moved.size.value(k.values)
            for tile in moved.reload_axes:
                saved = saved * k.tile_counts[tile]
            total = total + saved * (SECTOR_BYTES / np.minimum(moved.row.value(k.values), SECTOR_BYTES) - 1)
    return total / k.chip.l2_bytes_per_s
