"""A launch configuration that is proposed: tiles, warps, stages, and what is predicted of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Proposal:
    """A launch configuration: `tiles` by symbol, `stages` and `warps`, keyword arguments of a generated kernel.

    Predicted are `time_s`, the bytes of shared memory of a block (with what Triton needs beside the operands at most),
    the registers of a thread, how many blocks share a core, and `bytes_moved` at the edge to shared memory.
    `differences` says in what it differs from the first.
    """

    tiles: Mapping[str, int] = field(hash=False)
    stages: int
    warps: int
    time_s: float
    shared_bytes: int
    registers: int
    blocks_per_sm: int
    differences: tuple[str, ...] = ()
    specialized: bool = False
    bytes_moved: int = 0
    in_runs: bool = False
    """Whether blocks go through runs of groups."""
    waits_for_memory: bool = False
    """Whether HBM is busy for nearly all of the time: then more loads on their way do no harm, and may help."""

    @property
    def arguments(self) -> dict[str, int]:
        """The keyword arguments of a launch: tiles that are not 1, `num_warps` and `num_stages`."""
        tiles = {name: tile for name, tile in self.tiles.items() if tile != 1}
        return {**tiles, "num_warps": self.warps, "num_stages": self.stages}

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "tiles": dict(self.tiles), "differences": list(self.differences)}

    def __str__(self) -> str:
        tiles = ", ".join(f"{name}={tile}" for name, tile in self.tiles.items()) or "no tiles"
        specialized = ", warp-specialized" * self.specialized
        return f"{tiles}; {self.stages} stage{'s' * (self.stages != 1)}, {self.warps} warps{specialized}"
