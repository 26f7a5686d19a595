"""What the groups of a kernel load through caches: the arrays, each once (see `catdiag.cost.cache`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catdiag.schedule.lowered_kernel import LoweredKernel, Transfer

Expr = Any


class Fetches:
    """The loads of a kernel's groups; `grid` gives the tile, the axis and its piece, slowest first."""

    def __init__(self, wave: Expr, grid: Sequence[tuple[str, Expr, Expr]], kernel: LoweredKernel) -> None:
        from catdiag.cost.cache import Fetched

        self.wave = wave
        self.grid = [(whole, piece) for _, whole, piece in grid]
        found: dict[tuple[int, tuple[bool, ...]], Fetched] = {}
        for moved in kernel.transfers:
            if moved.direction != "load" or moved.path[0]:
                continue
            has = tuple(tile not in moved.reload_axes for tile, _, _ in grid)
            known = found.get((moved.wire, has))
            times = moved.times + (known.times if known else 0)
            found[moved.wire, has] = Fetched(moved.array, moved.size.expr() / moved.times, times, has)
        self.tiles = [tile for tile, _, _ in grid]
        self.found = found
        self.counted: set[tuple[str, tuple[int, tuple[bool, ...]]]] = set()

    def of(self, moved: Transfer, cache: str, capacity: int | None) -> tuple[Expr, Expr] | None:
        """What a cache fetches of an array, exactly and without rounding; None if counted for that cache before."""
        from catdiag.cost.cache import about, fetched

        key = moved.wire, tuple(tile not in moved.reload_axes for tile in self.tiles)
        if (cache, key) in self.counted:
            return None
        self.counted.add((cache, key))
        which, arrays = list(self.found).index(key), list(self.found.values())
        return (
            fetched(which, self.wave, capacity, self.grid, arrays),
            about(which, self.wave, capacity, self.grid, arrays),
        )

    def resident_bytes(self) -> Expr:
        """The most that a wave's pieces take together."""
        from catdiag.cost.cache import resident_bytes

        return resident_bytes(self.wave, self.grid, list(self.found.values()))
