"""What launch configurations need that do not fit, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from catdiag.planner.plan import plural
from catdiag.planner.resources.block_resources import Resources
from catdiag.planner.resources.emitted_smem import SmemCount
from catdiag.planner.resources.triton_resources import MIN_DOT, TritonBlock
from catdiag.schedule.lowered_kernel import ProgramPoint
from catdiag.schedule.placement import LEVEL, REGISTERS
from catdiag.util.errors import DoesNotFit

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware
    from catdiag.planner.tile_search import TileSearch


@dataclass(frozen=True)
class Excess:
    """A candidate that does not fit: by what factor it is over what the chip has, and what it needs."""

    over: float
    tiles: Mapping[str, int]
    stages: int
    warps: int
    smem_bytes: int
    registers: int
    most_registers: int
    words: str

    @staticmethod
    def of(taken: Resources, stages: int, chip: Hardware, grid: Mapping[str, Any]) -> Excess:
        """The candidate of a grid that is least over."""
        count, most = len(next(iter(grid.values()))) if grid else 1, taken.most_registers
        smem = np.broadcast_to(taken.aligned_smem_bytes, (count,))
        registers = np.broadcast_to(taken.registers_per_thread, (count,))
        over = np.maximum(smem / chip.smem_per_block, registers / most)
        place = int(np.argmin(over))
        tiles = {name: int(axis[place]) for name, axis in grid.items()}
        shown = ", ".join(f"{name}={tile}" for name, tile in tiles.items()) or "no tiles"
        words = (
            f"{shown} with {taken.warps} warps needs {int(smem[place]):,} of {chip.smem_per_block:,} bytes of "
            f"{chip.word('SMEM')} and {int(registers[place])} of {most} registers a thread"
        )
        return Excess(
            float(over[place]), tiles, stages, taken.warps, int(smem[place]), int(registers[place]), most, words
        )


def _listed_of(moments: list[ProgramPoint], values: Mapping[Any, Any], level: str) -> list[str]:
    """The arrays of the fullest moment, each with its bytes."""
    fullest = max(moments, key=lambda m: int(m.total.value(values)))
    lines = [f"  {int(fullest.total.value(values)):,} bytes of arrays, too much for {level}:"]
    return lines + [f"    {int(a.value(values)):>16,}  {name} ({role})" for name, role, a in fullest.live]


def refusal(
    search: TileSearch,
    blocks: Mapping[int, TritonBlock],
    options: Mapping[str, Sequence[int]],
    sizes: Mapping[str, int],
    found: Sequence[Excess],
) -> DoesNotFit:
    """Why no candidate of a search fits: what the one that comes nearest to it needs, and which arrays. `blocks` are
    by stages, `options` what tiles may be, `sizes` those of axes, filled up to what a kernel indexes."""
    chip, how = search.chip, "; stream an axis, or group more axes, for smaller tiles"
    if not found:
        listed = ", ".join(f"{name} up to {values[-1]}" for name, values in options.items())
        return DoesNotFit(
            f"no Triton kernel on {chip.name}: no tiles ({listed}) give a product {MIN_DOT} along each side{how}"
        )
    least = min(found, key=lambda e: (e.over, e.smem_bytes))
    values, block = search.full({**sizes, **least.tiles}), replace(blocks[least.stages], smem_count=SmemCount.ALL)
    tile = {name: np.array([length]) for name, length in least.tiles.items()}
    least = Excess.of(block.resources(values, least.warps), least.stages, chip, tile)
    lines = [f"no Triton kernel fits {chip.name}: {least.words}{how}"]
    full = {LEVEL: least.smem_bytes > chip.smem_per_block, REGISTERS: least.registers > least.most_registers}
    for place, over in full.items():
        moments = block.kernel.points.get(place, [])
        if over and moments:
            name = chip.word("SMEM" if place == LEVEL else "registers")
            lines += _listed_of(moments, values, f"{name}, with {plural(least.stages, 'buffer')} of a block")
    error = DoesNotFit("\n".join(lines))
    error.excess = least.over
    return error
