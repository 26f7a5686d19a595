"""A topological order of numbered vertices that does not depend on how a mapping iterates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush


def topological_order(needs: Mapping[int, Collection[int]]) -> list[int]:
    """The vertices, each after those that it needs, and the smallest first among those that could be next.

    Where there is a cycle, the vertices on it and after it are left out.

    >>> topological_order({0: [2], 1: [], 2: [1], 3: [1]})
    [1, 2, 0, 3]
    >>> topological_order({0: [1], 1: [0], 2: []})
    [2]
    """
    missing = {v: len(before) for v, before in needs.items()}
    after: dict[int, list[int]] = {}
    for v, before in needs.items():
        for u in before:
            after.setdefault(u, []).append(v)
    ready = [v for v, n in missing.items() if n == 0]
    heapify(ready)
    found: list[int] = []
    while ready:
        u = heappop(ready)
        found.append(u)
        for v in after.get(u, ()):
            missing[v] -= 1
            if missing[v] == 0:
                heappush(ready, v)
    return found
