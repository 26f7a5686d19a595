"""What launch configurations need that do not fit, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from catdiag.planner.resources.block_resources import Resources
from catdiag.schedule.lowered_kernel import ProgramPoint

if TYPE_CHECKING:
    from catdiag.chip.hardware import Hardware


@dataclass(frozen=True)
class Excess:
    """A candidate that does not fit: by what factor it is over what the chip has, and what it needs."""

    over: float
    tiles: Mapping[str, int]
    stages: int
    smem: int
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
        return Excess(float(over[place]), tiles, stages, int(smem[place]), int(registers[place]), most, words)


def listed_of(moments: list[ProgramPoint], values: Mapping[Any, Any], level: str) -> list[str]:
    """The arrays of the fullest moment, each with its bytes."""
    fullest = max(moments, key=lambda m: int(m.total.value(values)))
    lines = [f"  {int(fullest.total.value(values)):,} bytes of arrays, too much for {level}:"]
    return lines + [f"    {int(a.value(values)):>16,}  {name} ({role})" for name, role, a in fullest.live]
