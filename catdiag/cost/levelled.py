"""The transfers and memory of a diagram at several levels, as formulas to be read, evaluated and minimised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from catdiag.cost.hierarchy import Level
from catdiag.cost.io import Resident, Traffic
from catdiag.cost.kernels import Account
from catdiag.cost.places import Places
from catdiag.errors import CatdiagError

Expr = Any
Ends = tuple[str, str]


@dataclass(frozen=True)
class EdgeIO:
    """What crosses between two levels in the whole run, by array and in all: exact sympy expressions."""

    upper: str
    lower: str
    traffic: tuple[Traffic, ...] = ()

    def carrying(self, array: str, direction: str, exact: Expr, relaxed: Expr) -> EdgeIO:
        """The edge with one array more."""
        return replace(self, traffic=(*self.traffic, Traffic(array, direction, exact, relaxed)))

    def _sum(self, direction: str) -> Expr:
        import sympy

        return sympy.Add(*(t.exact for t in self.traffic if t.direction == direction))

    @property
    def load(self) -> Expr:
        """Down, exactly."""
        return self._sum("load")

    @property
    def save(self) -> Expr:
        """Up, exactly."""
        return self._sum("save")

    @property
    def transfers(self) -> Expr:
        """Both, exactly."""
        return self.load + self.save

    @property
    def relaxed(self) -> Expr:
        """Both, without rounding up: a posynomial of tiles and blocks."""
        import sympy

        return sympy.expand(sympy.Add(*(t.relaxed for t in self.traffic)))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; expressions as text."""
        return {
            "upper": self.upper,
            "lower": self.lower,
            **{name: str(getattr(self, name)) for name in ("load", "save", "transfers", "relaxed")},
            "traffic": [
                {"array": t.array, "direction": t.direction, "exact": str(t.exact), "relaxed": str(t.relaxed)}
                for t in self.traffic
            ],
        }


@dataclass(frozen=True)
class Program:
    """What there is to minimise, as posynomials of tiles and blocks (positive sympy symbols).

    `objective` is what crosses each edge, without rounding; `memory` what a piece of each level holds, a posynomial or
    a `Max` of some; `children` how many pieces of a level run side by side in one of the level above, without rounding
    (a monomial); `tiles` and `blocks` give, by level, what each is a piece of, which it is at most. Caches have no
    tiles and are left out, and so are the edges into them.
    """

    objective: Mapping[Ends, Expr]
    memory: Mapping[str, Expr]
    children: Mapping[str, Expr]
    tiles: Mapping[str, Mapping[Expr, Expr]]
    blocks: Mapping[str, Mapping[Expr, Expr]]


@dataclass(frozen=True)
class LevelsIO:
    """Transfers of every edge and memory of every level below the first, in values, or in bytes with a dtype.

    `edges` are by the names of upper and lower level; `memory` is the peak of one piece of a level, `residents` what it
    holds at its fullest; `children` how many pieces of a level run side by side in one of the level above (of the
    first: all groups). `tiles` gives each level's symbols by those of the first level, `groups` and `streams` what the
    tiles and blocks of a level are pieces of; `work` the scalar operations by pipeline, `order` the stored order.
    """

    levels: tuple[Level, ...]
    edges: Mapping[Ends, EdgeIO]
    memory: Mapping[str, Expr]
    residents: Mapping[str, tuple[Resident, ...]]
    children: Mapping[str, Expr]
    tiles: Mapping[str, Mapping[str, Expr]]
    groups: Mapping[str, Mapping[Expr, Expr]]
    streams: Mapping[str, Mapping[Expr, Expr]]
    work: Mapping[str, Expr]
    order: str
    unit: str
    places: Places
    account: Account = field(repr=False, compare=False)

    def edge(self, lower: str) -> EdgeIO:
        """The edge from the level above. Raises CatdiagError for a level that is none of these or the first."""
        names = [level.name for level in self.levels]
        if lower not in names[1:]:
            raise CatdiagError(f"there is no edge down to {lower!r}: expected one of {', '.join(names[1:])}")
        return self.edges[names[names.index(lower) - 1], lower]

    def programs(self) -> Program:
        """Posynomials to minimise: each edge's transfers, each level's memory, the children, and what tiles are of.

        >>> from catdiag.cost.levels import levels_io
        >>> import catdiag as cd
        >>> total = cd.algorithm("q x")(lambda A: cd.sum(A, "x")).stream("x").group("q")
        >>> program = levels_io(total.diagram, ("HBM", "SMEM", "registers")).programs()
        >>> program.memory["registers"], program.tiles["registers"], program.children["registers"]
        (g2_q*s2_x + g2_q, {g2_q: g_q}, g_q/g2_q)
        """
        import sympy

        tiled = {name: self.memory[name] for name in self.groups}
        return Program(
            {ends: edge.relaxed for ends, edge in self.edges.items() if ends[1] in tiled},
            tiled,
            {name: sympy.Mul(*(whole / tile for tile, whole in tiles.items())) for name, tiles in self.groups.items()},
            self.groups,
            self.streams,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; expressions as text."""
        return {
            "unit": self.unit,
            "levels": [
                {"name": lv.name, "kind": lv.kind, "capacity": lv.capacity, "count": lv.count} for lv in self.levels
            ],
            "placement": self.placement(),
            "stages": dict(self.places.stages),
            "edges": [edge.as_dict() for edge in self.edges.values()],
            "memory": {name: str(expr) for name, expr in self.memory.items()},
            "residents": {
                name: [{"array": r.array, "role": r.role, "values": str(r.values)} for r in held]
                for name, held in self.residents.items()
            },
            "children": {name: str(expr) for name, expr in self.children.items()},
            "groups": {name: {str(t): str(a) for t, a in found.items()} for name, found in self.groups.items()},
            "streams": {name: {str(t): str(a) for t, a in found.items()} for name, found in self.streams.items()},
            "work": {name: str(expr) for name, expr in self.work.items()},
            "order": self.order,
        }

    def placement(self) -> dict[str, list[str]]:
        """The levels of each role."""
        p = self.places
        return {
            "operand": list(p.operand),
            "streamed": list(p.streamed),
            "state": [p.state],
            "temporary": [p.temporary],
            "output": list(p.output),
        }

    def __str__(self) -> str:
        lines: list[str] = []
        for (upper, lower), edge in self.edges.items():
            lines += [f"{upper} to {lower}", f"  transfers  {edge.transfers}", f"    relaxed  {edge.relaxed}"]
            width = max((len(t.array) for t in edge.traffic), default=0)
            lines += [f"    {t.direction} {t.array:{width}}  {t.exact}" for t in edge.traffic]
        for name, formula in self.memory.items():
            stages = self.places.stages.get(name, 1)
            buffers = f"  ({stages} buffers of a streamed block)" if stages > 1 else ""
            lines += [f"{name}{buffers}", f"  memory     {formula}"]
            if name not in self.residents:
                lines[-2] += " (a cache)"
                continue
            width = max((len(r.array) for r in self.residents[name]), default=0)
            lines += [f"    hold {r.array:{width}}  {r.values}  ({r.role})" for r in self.residents[name]]
            lines.append(f"  children   {self.children[name]}")
        lines.append(f"in {self.unit}")
        lines += [f"work  {name}: {expr}" for name, expr in self.work.items()]
        lines.append(f"order {self.order}")
        return "\n".join(lines)
