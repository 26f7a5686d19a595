"""The transfers and memory of a diagram at several memory levels, as formulas to be read, evaluated and minimized."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catdiag.chip.hierarchy import Level
from catdiag.cost.traffic import LiveArray, Traffic
from catdiag.schedule.kernel_analysis import Account
from catdiag.schedule.placement import Placement
from catdiag.util.display import AsHTML
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.optimum.minimize import Optimum
    from catdiag.optimum.regimes import Regimes

Expr = Any
Ends = tuple[str, str]


@dataclass(frozen=True)
class EdgeIO:
    """What crosses between two levels in the whole run, by array and in all, as exact sympy expressions."""

    upper: str
    lower: str
    traffic: tuple[Traffic, ...] = ()

    def carrying(self, array: str, direction: str, exact: Expr, relaxed: Expr) -> EdgeIO:
        """The edge with the traffic of one more array."""
        return replace(self, traffic=(*self.traffic, Traffic(array, direction, exact, relaxed)))

    def _sum(self, direction: str) -> Expr:
        import sympy

        return sympy.Add(*(t.exact for t in self.traffic if t.direction == direction))

    @property
    def load(self) -> Expr:
        """What moves down (toward the chip), exactly."""
        return self._sum("load")

    @property
    def save(self) -> Expr:
        """What moves up, exactly."""
        return self._sum("save")

    @property
    def transfers(self) -> Expr:
        """What moves in both directions, exactly."""
        return self.load + self.save

    @property
    def relaxed(self) -> Expr:
        """What moves in both directions, without rounding up: a posynomial of tiles and blocks."""
        import sympy

        return sympy.expand(sympy.Add(*(t.relaxed for t in self.traffic)))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with expressions as text."""
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
class LevelProgram:
    """A geometric program: posynomials of tiles and blocks (positive sympy symbols).

    - `objective`: what crosses each edge, without rounding;
    - `memory`: what one tile of each level takes, a posynomial or a `Max` of several;
    - `children`: how many tiles of a level run in parallel in one tile of the level above, without rounding (a
      monomial);
    - `tiles` and `blocks`: by level, the size that each is a tile of, which bounds it.

    Caches have no tiles. They are left out, and so are the edges into them.
    """

    objective: Mapping[Ends, Expr]
    memory: Mapping[str, Expr]
    children: Mapping[str, Expr]
    tiles: Mapping[str, Mapping[Expr, Expr]]
    blocks: Mapping[str, Mapping[Expr, Expr]]


@dataclass(frozen=True)
class LevelsIO(AsHTML):
    """Transfers of every edge and memory of every level below the first, in values, or in bytes with a dtype.

    - `edges`: by the names of the upper and lower level;
    - `memory`: the peak of one tile of a level; `live_arrays`: what is live at the peak;
    - `children`: how many tiles of a level run in parallel in one tile of the level above (for the first level: all
      groups);
    - `tiles`: each level's symbols, by those of the first level; `groups` and `streams`: the size that the tiles and
      blocks of a level are cut from;
    - `work`: scalar operations by pipeline; `order`: the stored order as text.
    """

    levels: tuple[Level, ...]
    edges: Mapping[Ends, EdgeIO]
    memory: Mapping[str, Expr]
    live_arrays: Mapping[str, tuple[LiveArray, ...]]
    children: Mapping[str, Expr]
    tiles: Mapping[str, Mapping[str, Expr]]
    groups: Mapping[str, Mapping[Expr, Expr]]
    streams: Mapping[str, Mapping[Expr, Expr]]
    work: Mapping[str, Expr]
    order: str
    unit: str
    places: Placement
    account: Account = field(repr=False, compare=False)

    def _named(self, level: object, among: Iterable[str] | None = None) -> None:
        """Raises CatdiagError for a name that is no level here."""
        names = [lv.name for lv in self.levels] if among is None else list(among)
        if level not in names:
            raise CatdiagError(f"{level!r} is not a level here: expected one of {', '.join(names)}")

    def edge(self, lower: str) -> EdgeIO:
        """The edge into a level from the one above. Raises CatdiagError for an unknown level, and for the first one."""
        self._named(lower)
        names = [level.name for level in self.levels]
        if lower not in names[1:]:
            raise CatdiagError(f"there is no edge down to {lower!r}: expected one of {', '.join(names[1:])}")
        return self.edges[names[names.index(lower) - 1], lower]

    def capacity(self, level: str) -> Expr:
        """The capacity of a level: a number if it is known, in bytes; else a symbol such as `M_SMEM`.

        Underscores are added if a size has that name.
        """
        import sympy

        self._named(level)
        found = next((lv.capacity for lv in self.levels if lv.name == level), None)
        if found is not None and self.unit == "bytes":
            return sympy.Integer(found)
        used = {str(s) for formula in self.memory.values() for s in formula.free_symbols} | set(self.account.sizes)
        name = "M_" + "".join(c if c.isalnum() else "_" for c in level)
        while name in used:
            name += "_"
        return sympy.Symbol(name, positive=True)

    def reach(self, level: str) -> Expr:
        """The memory of a level and of all levels below that one tile of it uses: its own, and that of the tiles that
        run in parallel below it.

        A number if all capacities are known, in bytes; else a symbol: `M`, or that of `capacity` for the last level.
        Lower bounds on what crosses the edge into the level are for a memory of this size, since states, for one, may
        be further down.
        """
        import sympy

        self._named(level, self.groups)
        names = list(self.groups)
        below = [lv for lv in self.levels if lv.name in names[names.index(level) :]]
        if len(below) == 1:
            return self.capacity(level)
        if self.unit != "bytes" or any(lv.capacity is None for lv in below):
            used = {str(s) for formula in self.memory.values() for s in formula.free_symbols} | set(self.account.sizes)
            name = "M"
            while name in used:
                name += "_"
            return sympy.Symbol(name, positive=True)
        total = 0
        for lv in reversed(below):
            side_by_side = names.index(lv.name) > names.index(level) and names.index(lv.name) <= self._home
            total = (total + (lv.capacity or 0)) * (lv.count if side_by_side else 1)
        return sympy.Integer(total)

    @property
    def _home(self) -> int:
        """The level of the states."""
        return list(self.groups).index(self.places.state)

    def bounded(self, level: str) -> bool:
        """Whether all that is computed on has crossed the edge into a level: nothing is read from above, or bypasses
        the level.

        Then a lower bound for a memory of `reach(level)` holds for what crosses the edge.
        """
        self._named(level)
        names = [lv.name for lv in self.levels]
        place = names.index(level)
        deepest = (self.places.operand[-1], self.places.streamed[-1], self.places.temporary)
        passing = [
            ends
            for ends, edge in self.edges.items()
            if edge.traffic and names.index(ends[0]) < place - 1 and names.index(ends[1]) >= place
        ]
        return all(names.index(p) >= place for p in deepest) and not passing

    def optimum(self, lower: str, capacity: Expr | None = None) -> Optimum:
        """The least that can cross the edge into a scratchpad, without rounding, if the memory of a tile is at most a
        capacity.

        Each edge is minimized by itself, with tiles up to the whole axes. All edges together may do worse, since tiles
        of a level are cut from those above, and since too few of them may run in parallel. Blocks of levels above stay
        as they are. Raises CatdiagError for the first level, a cache, and an unknown level.

        >>> import catdiag as cd
        >>> product = cd.library.get("matmul").stream("b").group("a c")
        >>> product.io(levels=("HBM", "SMEM", "registers")).optimum("registers").leading
        a*c + 2*a*b*c/sqrt(M_registers)
        """
        from catdiag.optimum.minimize import minimize

        self._named(lower)
        tiles = self._axis_sizes(lower)
        limit = self.capacity(lower) if capacity is None else capacity
        found = minimize(
            self.edge(lower).relaxed, self.memory[lower], list(tiles), list(self.streams[lower]), limit, tiles
        )
        return replace(found, unit=self.unit)

    def regimes(self, lower: str, children: Expr | None = None) -> Regimes:
        """The regimes of that optimum, each with its certificate. With `children`, the memory of the states' level is a
        constraint too.

        If the states are further down, a tile of `lower` is as large as the tiles of the states' level that run in
        parallel in it, at most `children` of them (Abbott and Zardini, arXiv 2412.03317, theorem 2; derived here for
        exact memories). This is computed if the memory of the states' level is a multiple of the product of its tiles,
        so that the arrangement of the children does not matter. Raises CatdiagError otherwise.

        >>> import catdiag as cd
        >>> import sympy
        >>> product = cd.library.get("matmul").stream("b").group("a c")
        >>> there = {"operand": "SMEM", "streamed": "SMEM"}
        >>> N = sympy.Symbol("N", positive=True)
        >>> found = product.io(levels=("HBM", "SMEM", "registers"), placement=there).regimes("SMEM", N)
        >>> [str(regime.value) for regime in found if regime.binding == "M_registers full"]
        ['a*c + 2*a*b*c/(sqrt(M_registers)*sqrt(N))']
        """
        from catdiag.optimum.optimality_certificate import PowerProgram as Limits
        from catdiag.optimum.posynomial import posynomial
        from catdiag.optimum.regimes import regimes

        self._named(lower)
        if children is None:
            return self.optimum(lower).regimes
        tiles = self._axis_sizes(lower)
        home = self.places.state
        memory = [(self.memory[lower], self.capacity(lower)), (self._shared(lower, children), self.capacity(home))]
        limits = tuple((posynomial(branch, list(tiles)), limit) for m, limit in memory for branch in _branches(m))
        return regimes(Limits(posynomial(self.edge(lower).relaxed, list(tiles)), limits, tuple(tiles.items())))

    def _axis_sizes(self, lower: str) -> dict[Expr, Expr]:
        """The tiles of a level, with the sizes of the whole axes."""
        if lower not in self.groups:
            raise CatdiagError(f"tiles cannot be chosen for {lower!r}: expected one of {', '.join(self.groups)}")
        wholes: dict[Expr, Expr] = {}
        for found in self.groups.values():
            wholes.update({tile: wholes.get(above, above) for tile, above in found.items()})
        return {tile: wholes[tile] for tile in self.groups[lower]}

    def _shared(self, lower: str, children: Expr) -> Expr:
        """The memory of each of so many tiles of the states' level that together are a tile of `lower`."""
        import sympy

        home, names = self.places.state, list(self.groups)
        if names.index(lower) >= names.index(home):
            raise CatdiagError(f"children are tiles of {home}, the level of states: {lower!r} is not above it")
        here, there = self.tiles[lower], self.tiles[home]
        bases = [base for base in there if there[base] in self.groups[home]]
        if any(base not in here for base in bases):
            raise CatdiagError(f"{home} tiles axes that {lower} does not: its children are not one tile of {lower}")
        inner = sympy.Mul(*(there[base] for base in bases))
        held = [sympy.expand(branch) for branch in _branches(self.memory[home])]
        if any((term / inner).free_symbols & inner.free_symbols for b in held for term in sympy.Add.make_args(b)):
            raise CatdiagError(
                f"{home} holds {self.memory[home]}, which is not a multiple of {inner}: how its tiles are arranged "
                "matters; place operands and streamed arrays above it"
            )
        outer = sympy.Mul(*(here[base] for base in bases)) / children
        return sympy.Max(*(sympy.expand(b / inner) * outer for b in held), evaluate=False)

    def programs(self) -> LevelProgram:
        """The geometric program: each edge's transfers, each level's memory, the children, and the bounds of tiles.

        >>> from catdiag.cost.traffic_by_level import levels_io
        >>> import catdiag as cd
        >>> total = cd.algorithm("q x")(lambda A: cd.sum(A, "x")).stream("x").group("q")
        >>> program = levels_io(total.diagram, ("HBM", "SMEM", "registers")).programs()
        >>> program.memory["registers"], program.tiles["registers"], program.children["registers"]
        (g2_q*s2_x + g2_q, {g2_q: g_q}, g_q/g2_q)
        """
        import sympy

        tiled = {name: self.memory[name] for name in self.groups}
        return LevelProgram(
            {ends: edge.relaxed for ends, edge in self.edges.items() if ends[1] in tiled},
            tiled,
            {name: sympy.Mul(*(whole / tile for tile, whole in tiles.items())) for name, tiles in self.groups.items()},
            self.groups,
            self.streams,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with expressions as text."""
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
                for name, held in self.live_arrays.items()
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
            if name not in self.live_arrays:
                lines[-2] += " (a cache)"
                continue
            width = max((len(r.array) for r in self.live_arrays[name]), default=0)
            lines += [f"    hold {r.array:{width}}  {r.values}  ({r.role})" for r in self.live_arrays[name]]
            lines.append(f"  children   {self.children[name]}")
        lines.append(f"in {self.unit}")
        lines += [f"work  {name}: {expr}" for name, expr in self.work.items()]
        lines.append(f"order {self.order}")
        return "\n".join(lines)


def _branches(formula: Expr) -> tuple[Expr, ...]:
    """The arguments of a maximum, or the formula itself."""
    from catdiag.optimum.minimize import branches

    found: tuple[Expr, ...] = branches(formula)
    return found
