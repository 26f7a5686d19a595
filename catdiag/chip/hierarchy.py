"""The memory hierarchy as a graph: levels, and the edges that arrays cross between them.

>>> small = Hierarchy(
...     "small",
...     (Level("HBM", None), Level("L2", 4 << 20, "cache"), Level("SMEM", 64 << 10, count=8)),
...     (Edge("HBM", "L2", 1e12), Edge("L2", "SMEM", 4e12)),
... )
>>> small.root.name, small.level("SMEM").capacity, small.edge("L2", "SMEM").bytes_per_s
('HBM', 65536, 4000000000000.0)
>>> small.paths("HBM", "SMEM")
(('HBM', 'L2', 'SMEM'),)
>>> small.chain("HBM", "SMEM").edges        # without L2 hits: the slower edge counts
(Edge(upper='HBM', lower='SMEM', bytes_per_s=1000000000000.0, pj_per_byte=None, bidirectional=True),)

Capacities are in bytes, bandwidths in bytes per second, energies in picojoules per byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from catdiag.util.errors import CatdiagError

SCRATCHPAD, CACHE = "scratchpad", "cache"


@dataclass(frozen=True)
class Level:
    """One kind of memory.

    `capacity` is the bytes of one such memory, None if it is unlimited. In a `scratchpad` software places data; a
    `cache` keeps what was used last. `count` is how many there are under one of the level above. `vendor_name` is the
    vendor's name, if it is another one. Raises CatdiagError for an unknown kind, and a capacity or count that is not a
    positive integer.
    """

    name: str
    capacity: int | None
    kind: str = SCRATCHPAD
    count: int = 1
    vendor_name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise CatdiagError("a level of a hierarchy has an empty name: expected one such as 'SMEM'")
        if self.kind not in (SCRATCHPAD, CACHE):
            raise CatdiagError(f"level {self.name!r} is a {self.kind!r}: expected 'scratchpad' or 'cache'")
        for what, value in (("capacity", self.capacity), ("count", self.count)):
            if value is None and what == "capacity":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                words = "a positive integer" + (" of bytes, or None" if what == "capacity" else "")
                raise CatdiagError(f"level {self.name!r} has {what} {value!r}: expected {words}")


@dataclass(frozen=True)
class Edge:
    """A connection of two levels: from the upper one (slower, larger) to the lower one, and back if `bidirectional`.

    `bytes_per_s` is of all lower memories together, None if unknown. `pj_per_byte` is given only if it is published.
    Raises CatdiagError for an edge from a level to itself, a bandwidth that is not positive, and an energy below 0.
    """

    upper: str
    lower: str
    bytes_per_s: float | None
    pj_per_byte: float | None = None
    bidirectional: bool = True

    def __post_init__(self) -> None:
        if self.upper == self.lower:
            raise CatdiagError(f"an edge leads from level {self.upper!r} to itself: expected two levels")
        if self.bytes_per_s is not None and not self.bytes_per_s > 0:
            raise CatdiagError(
                f"the edge {self.upper} to {self.lower} has bandwidth {self.bytes_per_s!r}: expected bytes a second "
                "above 0, or None where it is unknown"
            )
        if self.pj_per_byte is not None and not self.pj_per_byte >= 0:
            raise CatdiagError(
                f"the edge {self.upper} to {self.lower} has energy {self.pj_per_byte!r}: expected picojoules a byte, "
                "or None where none is published"
            )


@dataclass(frozen=True)
class Hierarchy:
    """Levels, slowest first, and edges: an acyclic graph.

    Raises CatdiagError for two levels of one name, edges between unknown levels, repeated edges and cycles.
    """

    name: str
    levels: tuple[Level, ...]
    edges: tuple[Edge, ...]

    def __post_init__(self) -> None:
        names = [level.name for level in self.levels]
        for name in names:
            if names.count(name) > 1:
                raise CatdiagError(f"hierarchy {self.name!r} has two levels {name!r}: expected a name for each")
        seen: set[tuple[str, str]] = set()
        for edge in self.edges:
            for end in (edge.upper, edge.lower):
                if end not in names:
                    raise CatdiagError(
                        f"hierarchy {self.name!r}: the edge {edge.upper} to {edge.lower} names level {end!r}; "
                        f"its levels are {', '.join(names) or 'none'}"
                    )
            if (edge.upper, edge.lower) in seen:
                raise CatdiagError(f"hierarchy {self.name!r} has two edges {edge.upper} to {edge.lower}")
            seen.add((edge.upper, edge.lower))
        left = set(names)
        while left:
            ends = {n for n in left if not any(e.lower == n and e.upper in left for e in self.edges)}
            if not ends:
                raise CatdiagError(f"hierarchy {self.name!r} has a cycle among {', '.join(sorted(left))}")
            left -= ends

    @property
    def root(self) -> Level:
        """The first level that is under no other: the one with whole arrays."""
        return next(level for level in self.levels if not any(e.lower == level.name for e in self.edges))

    def level(self, name: str) -> Level:
        """The level of that name, or of that vendor's name. Raises CatdiagError, listing the levels."""
        for found in self.levels:
            if name == found.name:
                return found
        for found in self.levels:
            if name == found.vendor_name:
                return found
        listed = ", ".join(level.name for level in self.levels)
        raise CatdiagError(f"hierarchy {self.name!r} has no level {name!r}: its levels are {listed}")

    def edge(self, upper: str, lower: str) -> Edge:
        """The edge between two levels. Raises CatdiagError, listing the edges."""
        ends = self.level(upper).name, self.level(lower).name
        for found in self.edges:
            if (found.upper, found.lower) == ends:
                return found
        listed = ", ".join(f"{e.upper} to {e.lower}" for e in self.edges) or "none"
        raise CatdiagError(f"hierarchy {self.name!r} has no edge {upper} to {lower}: its edges are {listed}")

    def paths(self, upper: str, lower: str) -> tuple[tuple[str, ...], ...]:
        """All paths down from one level to another, each as the levels on it, in the order of the edges."""
        ends = self.level(upper).name, self.level(lower).name
        found: list[tuple[str, ...]] = []
        open_paths: list[tuple[str, ...]] = [(ends[0],)]
        while open_paths:
            path = open_paths.pop(0)
            if path[-1] == ends[1]:
                found.append(path)
                continue
            open_paths += [(*path, e.lower) for e in self.edges if e.upper == path[-1]]
        return tuple(found)

    def chain(self, *names: str) -> Hierarchy:
        """The hierarchy of these levels only, each under the one before.

        An edge that skips levels, which then cache nothing, has the least bandwidth of the edges on its path (unknown
        if one is) and the sum of their energies (unknown if one is). Counts multiply. Of several paths the one with the
        most bandwidth is taken. Raises CatdiagError if there is no path down.

        >>> from catdiag.chip import hardware
        >>> [(e.upper, e.lower, e.bytes_per_s) for e in hardware.H100.hierarchy.chain("HBM", "SMEM").edges]
        [('HBM', 'SMEM', 3350000000000.0)]
        """
        levels = [self.level(name) for name in names]
        kept, edges = levels[:1], []
        for upper, lower in pairwise(levels):
            ways = self.paths(upper.name, lower.name)
            if not ways or len(ways[0]) < 2:
                raise CatdiagError(
                    f"hierarchy {self.name!r}: there is no path from {upper.name!r} down to {lower.name!r}"
                )
            way = max((tuple(self._edges(w)) for w in ways), key=lambda es: _lowest_rate(es) or 0.0)
            spent = [e.pj_per_byte for e in way]
            energy = None if None in spent else sum(e for e in spent if e is not None)
            edges.append(Edge(upper.name, lower.name, _lowest_rate(way), energy, all(e.bidirectional for e in way)))
            count = 1
            for e in way:
                count *= self.level(e.lower).count
            kept.append(replace(lower, count=count))
        return Hierarchy(self.name, tuple(kept), tuple(edges))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "levels": [dict(vars(level)) for level in self.levels],
            "edges": [dict(vars(edge)) for edge in self.edges],
        }

    def __str__(self) -> str:
        lines = [f"levels of {self.name}"]
        for level in self.levels:
            name = level.name + (f" ({level.vendor_name})" if level.vendor_name else "")
            capacity = "holds anything" if level.capacity is None else f"{level.capacity:,} bytes"
            above = [e.upper for e in self.edges if e.lower == level.name]
            under = f", {level.count} under each {' or '.join(above)}" if above else ""
            lines.append(f"  {name:22} {capacity:>22}  {level.kind}{under}")
        lines.append("edges")
        for edge in self.edges:
            rate = "unknown" if edge.bytes_per_s is None else f"{edge.bytes_per_s / 1e12:,.2f} TB/s"
            spent = "" if edge.pj_per_byte is None else f", {edge.pj_per_byte:g} pJ a byte"
            ways = "" if edge.bidirectional else ", down only"
            lines.append(f"  {edge.upper + ' to ' + edge.lower:22} {rate:>22}{spent}{ways}")
        return "\n".join(lines)

    def _edges(self, way: tuple[str, ...]) -> Iterator[Edge]:
        return (self.edge(a, b) for a, b in pairwise(way))


def _lowest_rate(edges: tuple[Edge, ...]) -> float | None:
    """The least bandwidth of some edges; None if one is unknown."""
    rates = [e.bytes_per_s for e in edges]
    return None if None in rates else min(r for r in rates if r is not None)
