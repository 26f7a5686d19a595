"""The transfers and memory of a diagram at several levels, as formulas to be read, evaluated and minimised."""

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
class LevelProgram:
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
class LevelsIO(AsHTML):
    """Transfers of every edge and memory of every level below the first, in values, or in bytes with a dtype.

    `edges` are by the names of upper and lower level; `memory` is the peak of one piece of a level, `live_arrays` what
    it holds at its fullest; `children` how many pieces of a level run side by side in one of the level above (of the
    first: all groups). `tiles` gives each level's symbols by those of the first level, `groups` and `streams` what the
    tiles and blocks of a level are pieces of; `work` the scalar operations by pipeline, `order` the stored order.
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
        """Raises CatdiagError for what is no level here."""
        names = [lv.name for lv in self.levels] if among is None else list(among)
        if level not in names:
            raise CatdiagError(f"{level!r} is no level here: expected one of {', '.join(names)}")

    def edge(self, lower: str) -> EdgeIO:
        """The edge from the level above. Raises CatdiagError for a level that is none of these or the first."""
        self._named(lower)
        names = [level.name for level in self.levels]
        if lower not in names[1:]:
            raise CatdiagError(f"there is no edge down to {lower!r}: expected one of {', '.join(names[1:])}")
        return self.edges[names[names.index(lower) - 1], lower]

    def capacity(self, level: str) -> Expr:
        """How much a level holds: a number where it is known, in bytes, else a symbol `M_SMEM`.

        Underscores are added where a size is called that.
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
        """What all memories from a level down hold that a piece of it uses: its own, and those side by side below it.

        A number where all capacities are known, in bytes; else a symbol: `M`, or that of `capacity` for the last level.
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
        return list(self.groups).index(self.places.state)

    def bounded(self, level: str) -> bool:
        """Whether all that is computed on has crossed the edge into a level: nothing is read from above, or passes by.

        Then what crosses it is no less than a lower bound for a memory of `reach(level)`.
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
        """The least that can cross the edge into a scratchpad, without rounding, if its memory is at most a capacity.

        Each edge is taken by itself, with its tiles up to the whole axes: together edges may do worse, since tiles of a
        level are pieces of those above, and since side by side there may be too few of them. Blocks of levels above
        stay as they are. Raises CatdiagError for the first level, a cache, and one that is none of these.

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
        """The regimes of that optimum, each with its certificate; with `children`, under the memory of the home too.

        Where the states' home is further down, a piece of `lower` is as large as all pieces of the home together that
        run side by side in it: at most `children` (Abbott and Zardini, arXiv 2412.03317, theorem 2; derived here for
        exact memories). That is counted where what the home holds is a multiple of the product of its tiles, so that
        it does not matter how the children are arranged. Raises CatdiagError where it is not.

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
        """The tiles of a level with the whole axes."""
        if lower not in self.groups:
            raise CatdiagError(f"tiles cannot be chosen for {lower!r}: expected one of {', '.join(self.groups)}")
        wholes: dict[Expr, Expr] = {}
        for found in self.groups.values():
            wholes.update({tile: wholes.get(above, above) for tile, above in found.items()})
        return {tile: wholes[tile] for tile in self.groups[lower]}

    def _shared(self, lower: str, children: Expr) -> Expr:
        """What each of so many pieces of the home holds, if together they are a piece of `lower`."""
        import sympy

        home, names = self.places.state, list(self.groups)
        if names.index(lower) >= names.index(home):
            raise CatdiagError(f"children are pieces of {home}, where states are: {lower!r} is not above it")
        here, there = self.tiles[lower], self.tiles[home]
        bases = [base for base in there if there[base] in self.groups[home]]
        if any(base not in here for base in bases):
            raise CatdiagError(f"{home} cuts axes that {lower} does not: its children are no piece of {lower}")
        inner = sympy.Mul(*(there[base] for base in bases))
        amounts = [sympy.expand(branch) for branch in _branches(self.memory[home])]
        if any((term / inner).free_symbols & inner.free_symbols for b in amounts for term in sympy.Add.make_args(b)):
            raise CatdiagError(
                f"{home} holds {self.memory[home]}, which is no multiple of {inner}: how its pieces are arranged "
                "matters; place operands and streamed arrays above it"
            )
        outer = sympy.Mul(*(here[base] for base in bases)) / children
        return sympy.Max(*(sympy.expand(b / inner) * outer for b in amounts), evaluate=False)

    def programs(self) -> LevelProgram:
        """Posynomials to minimise: each edge's transfers, each level's memory, the children, and what tiles are of.

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
                name: [{"array": r.array, "role": r.role, "values": str(r.values)} for r in amounts]
                for name, amounts in self.live_arrays.items()
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
    from catdiag.optimum.leading_order import branches

    found: tuple[Expr, ...] = branches(formula)
    return found
