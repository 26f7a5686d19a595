"""The energy of transfers, edge by edge, for hardware of which somebody published what a byte costs.

>>> from catdiag.chip.hierarchy import Edge, Hierarchy, Level
>>> chip = Hierarchy("chip", (Level("HBM", None), Level("SMEM", 1 << 16)), (Edge("HBM", "SMEM", 1e12, 30.0),))
>>> energy({("HBM", "SMEM"): 10**9}, chip).total
0.03

No figure is made up: an edge without one is named, and has no energy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catdiag.chip.hierarchy import Hierarchy
from catdiag.util.errors import CatdiagError, require

Expr = Any
Ends = tuple[str, str]


@dataclass(frozen=True)
class Energy:
    """Joules by edge; `missing` are the edges that arrays cross and for which no figure is published."""

    name: str
    joules: Mapping[Ends, Expr]
    missing: tuple[Ends, ...]

    @property
    def total(self) -> Expr:
        """Joules of all edges. Raises CatdiagError where an edge has no published figure."""
        if self.missing:
            raise CatdiagError(
                f"no published figure for the energy of {_named(self.missing)} of {self.name}: give the edge a "
                "pj_per_byte that you trust, or read .joules of the edges that have one"
            )
        return sum(self.joules.values())

    def __str__(self) -> str:
        lines = [f"{upper} to {lower}: {joules} J" for (upper, lower), joules in self.joules.items()]
        return "\n".join([*lines, *(f"{_named([ends])}: no published figure" for ends in self.missing)])


def _named(edges: Any) -> str:
    return ", ".join(f"{upper} to {lower}" for upper, lower in edges)


def energy(moved: Mapping[Ends, Expr] | Any, hierarchy: Hierarchy) -> Energy:
    """What transfers cost in joules: bytes over each edge, times the edge's published picojoules a byte.

    `moved` gives bytes by (upper, lower), numbers or formulas, or is what `io(levels=…, dtype=…)` returns. Raises
    CatdiagError for edges that the hierarchy lacks, and for transfers that are counted in values.
    """
    ends = getattr(moved, "edges", moved)
    edged = isinstance(ends, Mapping) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in ends)
    require(edged, "what is moved", moved, "what .io(levels=…, dtype=…) gives, or transfers by pairs of levels")
    require(isinstance(hierarchy, Hierarchy), "the hierarchy", hierarchy, "a Hierarchy, such as .hierarchy of a chip")
    if getattr(moved, "unit", "bytes") != "bytes":
        raise CatdiagError("transfers are in values, and energy is of bytes: give io a dtype")
    edges = getattr(moved, "edges", moved)
    joules: dict[Ends, Expr] = {}
    missing: list[Ends] = []
    for (upper, lower), crossing in edges.items():
        amount = getattr(crossing, "transfers", crossing)
        figure = hierarchy.edge(upper, lower).pj_per_byte
        if figure is None:
            missing.append((upper, lower))
        else:
            joules[upper, lower] = amount * figure * 1e-12
    return Energy(hierarchy.name, joules, tuple(missing))
