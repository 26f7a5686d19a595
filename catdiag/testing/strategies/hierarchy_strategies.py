"""A strategy for memory hierarchies."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from catdiag.chip.hierarchy import CACHE, SCRATCHPAD, Edge, Hierarchy, Level
from catdiag.testing.strategies.type_strategies import drawn_by, strategies_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


_NAMES = ("HBM", "L2", "SMEM", "registers", "tensor")


def hierarchies(max_levels: int = 4, caches: bool = True, branches: bool = True) -> SearchStrategy[Hierarchy]:
    """Hierarchies of 2 to `max_levels` levels (at most 5), with larger and slower levels above; the first is unbounded.

    With `caches`, levels between the first and the last may be caches. With `branches`, edges may bypass a level.
    Shrinks to two levels of small memories.

    >>> from hypothesis import find
    >>> [level.name for level in find(hierarchies(), lambda h: True).levels]
    ['HBM', 'L2']
    """
    st = strategies_of()

    def hierarchy(draw: Callable[[Any], Any]) -> Hierarchy:
        count = draw(st.integers(2, min(max_levels, len(_NAMES))))
        names = _NAMES[:count]
        levels, capacity = [Level(names[0], None)], draw(st.integers(1, 64)) * 4 ** (2 * count)
        for k, name in enumerate(names[1:], 1):
            cache = caches and k < count - 1 and draw(st.integers(0, 3)) == 3
            levels.append(Level(name, capacity, CACHE if cache else SCRATCHPAD, draw(st.integers(1, 132))))
            capacity = max(1, capacity // draw(st.integers(2, 16)))
        speed = float(draw(st.integers(1, 4))) * 1e12
        edges = []
        for upper, lower in pairwise(names):
            edges.append(Edge(upper, lower, speed if draw(st.integers(0, 7)) else None))
            speed *= draw(st.integers(1, 8))
        if branches and count > 2 and draw(st.booleans()):
            start = draw(st.integers(0, count - 3))
            edges.append(Edge(names[start], names[start + 2], speed, bidirectional=draw(st.booleans())))
        return Hierarchy("drawn", tuple(levels), tuple(edges))

    return drawn_by(hierarchy)
