"""The loads that caches pass on, for the groups that the counting machine runs: each distinct tile once per wave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

DistinctBlocks = dict[Hashable, tuple[str, int]]


class Waves:
    """The caches between slow memory and the first level with tiles, by their capacities (bytes; None: unbounded).

    Groups run in waves of `wave` at a time. If the distinct tiles that a wave loads fit a cache together, each is
    fetched once; otherwise all loads of the wave are fetched. `fetched` counts by cache and array, and `peak` is the
    largest total of distinct tiles in a wave.

    >>> waves = Waves([100], wave=2)
    >>> for tile in range(3):
    ...     waves.load("Q", ("Q", tile), 8, 8)
    ...     waves.load("K", "K", 20, 20)
    ...     waves.ended()
    >>> waves.flush()
    >>> dict(waves.fetched[0]), waves.peak[0]
    ({'Q': 24, 'K': 40}, 36)
    """

    def __init__(self, capacities: Sequence[int | None], wave: int) -> None:
        self.capacities, self.wave = capacities, wave
        self.fetched: list[Counter[str]] = [Counter() for _ in capacities]
        self.peak = [0] * len(capacities)
        self.groups: list[tuple[DistinctBlocks, Counter[str]]] = [({}, Counter())]

    def load(self, name: str, tile: Hashable, amount: int, whole: int) -> None:
        """The current group loads `amount` of a tile of an array; `whole` is the size of the tile."""
        tiles, loads = self.groups[-1]
        tiles[tile] = name, whole
        loads[name] += amount

    def ended(self) -> None:
        """Ends the current group."""
        self.groups.append(({}, Counter()))

    def flush(self) -> None:
        """Ends a kernel: its groups ran in waves, in their order."""
        groups, self.groups = self.groups[:-1], [({}, Counter())]
        for start in range(0, len(groups), self.wave):
            distinct: DistinctBlocks = {}
            loads: Counter[str] = Counter()
            for tiles, loaded in groups[start : start + self.wave]:
                distinct.update(tiles)
                loads.update(loaded)
            total = sum(whole for _, whole in distinct.values())
            for k, capacity in enumerate(self.capacities):
                self.peak[k] = max(self.peak[k], total)
                if capacity is not None and total > capacity:
                    self.fetched[k].update(loads)
                    continue
                for name, whole in distinct.values():
                    self.fetched[k][name] += whole
