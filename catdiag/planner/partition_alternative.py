"""Another way than the one that a plan takes: how many kernels, what it saves, and what that would take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PartitionAlternative:
    """Another way: how many kernels, which arrays it saves, and the predicted seconds; without `time_s`, why it does
    not fit. `flops` and `bytes_moved` (at the edge to shared memory) are 0 where they are not known. `recomputed` says
    what iterations of its loops make for products, and in how many tiles."""

    kernels: int
    saved: tuple[str, ...]
    time_s: float | None
    misfit: str = ""
    flops: int = 0
    bytes_moved: int = 0
    recomputed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The way in words."""
        return "one kernel" if self.kernels == 1 else f"{self.kernels} kernels, saving {', '.join(self.saved)}"

    def against(self, time_s: float, flops: int = 0, bytes_moved: int = 0) -> str:
        """What it takes beside another way with these numbers, or why it does not fit."""
        if self.time_s is None:
            first, *rest = self.misfit.splitlines()
            over = next((line.strip() for line in rest if "too much for" in line), "")
            return f"{first} {over}".strip().rstrip(":")
        words = f"{1e6 * self.time_s:,.1f} µs, {self.time_s / time_s:.2f} times the time"
        if self.flops and flops:
            words += f"; {self.flops / flops:.2f} times the FLOPs"
        if self.bytes_moved and bytes_moved:
            words += f", {self.bytes_moved / bytes_moved:.2f} times the bytes at the edge to shared memory"
        if self.recomputed and self.time_s > time_s:
            words += f"; products wait for {', '.join(self.recomputed)}, each through registers in every iteration"
        if self.kernels > 1 and self.time_s < time_s:
            words += "; too little quicker, as predictions go, to save arrays for"
        return words
