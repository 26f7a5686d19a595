"""What caches fetch for the groups that the counting machine runs: a wave of groups at a time, each piece once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

Pieces = dict[Hashable, tuple[str, int]]


class Waves:
    """The caches between slow memory and the first level with tiles, by their capacities (None: anything fits).

    >>> waves = Waves([100], wave=2)
    >>> for tile in range(3):
    ...     waves.load("Q", ("Q", tile), 8, 8)
    ...     waves.load("K", "K", 20, 20)
    ...     waves.ended()
    >>> waves.flush()
    >>> dict(waves.fetched[0]), waves.most[0]
    ({'Q': 24, 'K': 40}, 36)
    """

    def __init__(self, capacities: Sequence[int | None], wave: int) -> None:
        self.capacities, self.wave = capacities, wave
        self.fetched: list[Counter[str]] = [Counter() for _ in capacities]
        self.most = [0] * len(capacities)
        self.groups: list[tuple[Pieces, Counter[str]]] = [({}, Counter())]

    def load(self, name: str, piece: Hashable, amount: int, whole: int) -> None:
        """The group at work loads so much of an array's piece, which is so large as a whole."""
        pieces, loads = self.groups[-1]
        pieces[piece] = name, whole
        loads[name] += amount

    def ended(self) -> None:
        """Another group begins."""
        self.groups.append(({}, Counter()))

    def flush(self) -> None:
        """A kernel has ended: its groups ran in waves, in their order."""
        groups, self.groups = self.groups[:-1], [({}, Counter())]
        for start in range(0, len(groups), self.wave):
            distinct: Pieces = {}
            loads: Counter[str] = Counter()
            for pieces, loaded in groups[start : start + self.wave]:
                distinct.update(pieces)
                loads.update(loaded)
            total = sum(whole for _, whole in distinct.values())
            for k, capacity in enumerate(self.capacities):
                self.most[k] = max(self.most[k], total)
                if capacity is not None and total > capacity:
                    self.fetched[k].update(loads)
                    continue
                for name, whole in distinct.values():
                    self.fetched[k][name] += whole
