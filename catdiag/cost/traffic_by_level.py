"""What a diagram moves across every edge of a chain of memories, and how much of each level it takes.

The levels are L0 > L1 > … > Ln, slowest first: L0 holds whole arrays, scalar work is done at Ln. The rules of
`catdiag.cost.traffic` hold, and these, which `catdiag.execute` follows too, by really moving blocks. With two levels
they are those of `io`.

- **Tiles and blocks are nested.** The theorem of a derived diagram is for all sizes of tiles and all lists of blocks,
  so it may be run with tiles within tiles and blocks within blocks. At level k a tiled axis is cut in pieces of
  `gk_a` within each piece of level k-1, the last one smaller; each block of a streamed axis is cut in blocks of
  `sk_x` likewise. Level 1 has the names of `io` (`g_q`, `s_x`), level 2 `g2_q`, `s2_x`. `within` says which of the
  grouped axes a level cuts; a piece has all of the others that the level above has. An axis that only inner levels are
  to cut is grouped first (`.group("q e")` proves that it may be) and left out above: `within={"SMEM": ("q",)}`.
- **Paths.** An array of each role passes the levels of its path, which each hold a copy from its first use to its last:
  an operand's tile is loaded once for each piece of a level, and again by each piece of an axis that it lacks; of a
  streamed array a level holds `stages` blocks as long as the loop runs. What is left out of a path is passed by:
  operands with the path `("SMEM",)` are read there and not copied into registers.
- **States** of loops have a home, `placement["state"]`, by default Ln. Down to it the pieces of level k+1 within one of
  level k run side by side on the same blocks (`children` is how many), so that level k holds a block once for all of
  them. This is intermediate caching (Abbott and Zardini, arXiv 2412.03317, section 4.4).
- **Below a home** above Ln the pieces run one after the other, for each block of the home: each reloads what it
  reads and its part of the states, runs over its blocks, and saves its part of the states. A kernel is then a sequence
  of phases: a loop outside of loops, or the boxes between two of them. What one phase makes for another is saved to
  the home and loaded from there. Levels down to the home hold operands from the start of the first phase that reads
  them to the end of the last; levels between it and Ln what a phase loads, all of the phase. A state needs all axes
  that are cut below its home, else pieces would update it one after the other. States of inner loops are at Ln.
- **Temporaries** are at `placement["temporary"]`, by default Ln, at its tiles and blocks.
- **Saves** pass every level from where the array is made: that of temporaries; the home, for a loop's state that is
  itself an output. They take room above only at levels that `placement["output"]` names. What crosses is what the
  pieces of the level where it is made write.
- **Writing over** an input is for copies where the result is made; copies elsewhere stay to the end of the box.
- **Caches** come directly below L0, and have no tiles: the first level with tiles is the scratchpad under them. `wave`
  groups run at a time, in launch order (row-major over the grid of groups, in the stored order of tiles). A cache
  fetches each distinct piece that a wave loads once, where they fit it together; otherwise, and below it, every load
  crosses. What it holds is counted as the most that a wave's pieces take. Saves pass. Capacities are in bytes, so a
  dtype is needed to compare them.
- **Loops that skip blocks** are counted at two levels only (`io`), and so are windows that reach beyond an array
  (padding); windows that do not are what each piece of a level reaches (`catdiag.schedule.footprint`), where states
  are at Ln and there is no cache.
- **Work** is that of the pieces and blocks of the temporaries' level.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import HasDiagram, diagram_of
from catdiag.category.formula_names import name_parts
from catdiag.category.integer_polynomial import IntPolynomial, symbol
from catdiag.chip.hierarchy import CACHE, Hierarchy, Level
from catdiag.cost.cache_fetches import Fetches
from catdiag.cost.level_formulas import EdgeIO, LevelsIO
from catdiag.cost.traffic import LiveArray, frontier, order_of, peak_of, presentation_of, whole_run_transfer
from catdiag.schedule.contractions import Loop
from catdiag.schedule.element_widths import Dtype
from catdiag.schedule.kernel_analysis import Account, measure
from catdiag.schedule.lowered_kernel import LoweredKernel, Transfer
from catdiag.schedule.placement import Placement, check_stages
from catdiag.schedule.tile_counts import summed, tile_count
from catdiag.util import argument_checks as given
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram

Expr = Any
Names = str | Sequence[str]
ROLES = ("operand", "streamed", "state", "temporary", "output")


def levels_io(
    diagram: Diagram | HasDiagram,
    levels: Sequence[str] | Hierarchy,
    *,
    placement: Mapping[str, Names] | None = None,
    stages: int | Mapping[str, int] = 1,
    dtype: Dtype = None,
    fused: bool = True,
    within: Mapping[str, Names] | None = None,
    wave: int | None = None,
) -> LevelsIO:
    """Transfers of each edge and memory of each level of a chain, exactly, by the rules above.

    `levels` are names, slowest first, or a `Hierarchy` that is a chain. `placement` gives the levels of `operand`,
    `streamed` and `output`, and the level of `state` and `temporary`; `stages` the buffers of a streamed block by level
    (a number: at the first level that streamed arrays pass); `within` the grouped axes that a level cuts; `wave` how
    many groups run at a time where there is a cache (left out, a symbol `wave`). `dtype` and `fused` are those of `io`:
    values without a dtype, else bytes.
    Raises CatdiagError for fewer than two levels, names that are not known, and what the rules leave out.

    >>> from catdiag.category.ops import einsum_box
    >>> from catdiag.category.diagram import of_box
    >>> from catdiag.category.types import ArrayType, Axis
    >>> a, b, c = Axis("a"), Axis("b"), Axis("c")
    >>> whole = levels_io(of_box(einsum_box([ArrayType((a, b)), ArrayType((b, c))], ["a", "c"])), ["HBM", "SMEM"])
    >>> whole.edges["HBM", "SMEM"].transfers, whole.memory["SMEM"]
    (a*b + a*c + b*c, a*b + a*c + b*c)
    """
    diagram = diagram_of(diagram)
    given.dtypes(dtype)
    chain = chain_of(levels)
    caches = [level for level in chain if level.kind == CACHE]
    if dtype is None and any(level.capacity is not None for level in caches):
        raise CatdiagError(
            f"{caches[0].name} holds {caches[0].capacity} bytes: say how wide values are, as in dtype='bf16'"
        )
    if wave is not None and (isinstance(wave, bool) or not isinstance(wave, int) or wave < 1):
        raise CatdiagError(f"wave is {wave!r}: expected how many groups run at a time, 1 or more")
    places = places_of([level.name for level in chain if level.kind != CACHE], placement or {}, stages)
    if caches and any(p[0] != places.names[0] for p in (places.operand, places.streamed)):
        raise CatdiagError(
            f"placement lets arrays pass by {places.names[0]}, which is under the cache {caches[-1].name}: expected "
            f"paths that begin with {places.names[0]}"
        )
    if caches:
        places = replace(places, nested=False)
    account = measure(diagram, dtype, fused=fused, places=places)
    regions = [side for kernel in account.kernels for moved in kernel.transfers for side in moved.region]
    partly = any(kernel.loop_bounds for kernel in account.kernels) or not all(side.is_interior for side in regions)
    account.adds_nothing("what tiles of several levels add is not counted")
    if partly or places.phased or caches:
        account.runs_all("which are run at each level is not counted")
    return _Count(chain, places, account, within or {}, wave).report("values" if dtype is None else "bytes")


def chain_of(levels: Sequence[str] | Hierarchy) -> tuple[Level, ...]:
    """The levels of a chain, slowest first. Raises CatdiagError for fewer than two, repeated ones, and other graphs."""
    if isinstance(levels, Hierarchy):
        names = [level.name for level in levels.levels]
        missing = [ends for ends in pairwise(names) if ends not in [(e.upper, e.lower) for e in levels.edges]]
        if missing or len(levels.edges) != len(names) - 1:
            raise CatdiagError(
                f"hierarchy {levels.name!r} is no chain of its levels {', '.join(names)}: name the levels that arrays "
                "pass, as in .chain('HBM', 'SMEM', 'registers')"
            )
        found = levels.levels
    else:
        sequence = isinstance(levels, Sequence) and not isinstance(levels, (str, bytes))
        if not sequence or not all(isinstance(name, str) and name for name in levels):
            raise CatdiagError(f"levels is {levels!r}: expected names, as in levels=('HBM', 'SMEM', 'registers')")
        if len(set(levels)) != len(levels):
            raise CatdiagError(f"levels is {', '.join(levels)}: expected each level once")
        found = tuple(Level(name, None) for name in levels)
    kinds = [level.kind == CACHE for level in found]
    if len(found) < 2 or all(kinds[1:]):
        raise CatdiagError("expected two levels or more: one that holds whole arrays, and a scratchpad under it")
    if kinds[0] or sorted(kinds[1:], reverse=True) != kinds[1:]:
        cached = ", ".join(level.name for level in found if level.kind == CACHE)
        raise CatdiagError(
            f"{cached} is a cache: expected caches directly below {found[0].name}, which holds whole arrays"
        )
    return found


def places_of(names: Sequence[str], placement: Mapping[str, Names], stages: int | Mapping[str, int]) -> Placement:
    """Where arrays of each role are, of levels slowest first that are no caches, as `levels_io` says.

    Raises CatdiagError for roles and levels that are not known, and placements that the rules leave out.
    """
    fast = tuple(names[1:])
    for role in placement:
        if role not in ROLES:
            raise CatdiagError(f"placement names a role {role!r}: expected some of {', '.join(ROLES)}")

    def levels_of(role: str, default: tuple[str, ...]) -> tuple[str, ...]:
        given = placement.get(role, default)
        listed = (given,) if isinstance(given, str) else tuple(given)
        for name in listed:
            if name not in fast:
                raise CatdiagError(
                    f"placement puts {role} at {name!r}: expected levels below {names[0]}, of {', '.join(fast)}"
                )
        if (not listed and default) or list(listed) != [name for name in fast if name in listed]:
            raise CatdiagError(f"placement of {role} is {listed!r}: expected levels, slowest first, each once")
        return listed

    def home(role: str) -> str:
        found = levels_of(role, (fast[-1],))
        if len(found) != 1:
            raise CatdiagError(f"placement of {role} is {found!r}: expected one level, its home")
        return found[0]

    streamed = levels_of("streamed", fast)
    buffers = {streamed[0]: stages} if isinstance(stages, int) else dict(stages)
    for name, number in buffers.items():
        check_stages(number)
        if name not in streamed:
            raise CatdiagError(
                f"stages names {name!r}: expected levels that streamed arrays pass, {', '.join(streamed)}"
            )
    state, temporary = home("state"), home("temporary")
    if state != fast[-1] and temporary != fast[-1]:
        raise CatdiagError(
            f"placement has states at {state} and temporaries at {temporary}: where the states are above {fast[-1]}, "
            f"temporaries are expected there"
        )
    phased = state != fast[-1]
    return Placement(
        fast,
        levels_of("operand", fast),
        streamed,
        state,
        temporary,
        levels_of("output", ()),
        buffers,
        phased,
        "",
        len(fast) == 1,
    )


def level_symbol(base: str, level: int, taken: Collection[str] = ()) -> str:
    """The name of a tile or block at a level: that of level 1 with the number of the level.

    >>> level_symbol("g_q", 1), level_symbol("g_q", 2), level_symbol("s_x", 3, {"s3_x"})
    ('g_q', 'g2_q', 's3_x_')
    """
    if level == 1:
        return base
    parts = name_parts(base)
    leveled = parts.base in ("g", "s") and parts.below and not parts.number
    name = f"{parts.base}{level}{base[1:]}" if leveled else f"{base}_{level}"
    while name in taken:
        name += "_"
    return name


class _Count:
    """The kernels of a diagram at several levels: what their tiles are called and what is cut where."""

    def __init__(
        self,
        chain: tuple[Level, ...],
        places: Placement,
        account: Account,
        within: Mapping[str, Names],
        wave: int | None,
    ) -> None:
        self.chain, self.places, self.account = chain, places, account
        self.single, self.present = presentation_of(account)
        tiles: dict[str, str] = {t: k.axes[t] for k in account.kernels for t in k.tiles}
        blocks = dict.fromkeys(block for k in account.kernels for block, _ in k.loops)
        cut = self._within(tiles, within)
        taken = {*account.sizes, *account.inner, *tiles, *blocks}
        name = "wave"
        while name in taken:
            name += "_"
        self.wave: Expr = symbol(name) if wave is None else wave
        self.caches = [level for level in chain if level.kind == CACHE]
        self.symbols: dict[str, dict[str, Expr]] = {}
        for number, name in enumerate(places.names, 1):
            own: dict[str, Expr] = {}
            for base in (*tiles, *blocks):
                if (base in tiles and tiles[base] not in cut[name]) or (base in self.single and number > 1):
                    continue
                found = level_symbol(base, number, taken)
                own[base] = symbol(found)
                if number > 1:
                    taken.add(found)
            self.symbols[name] = own

    def _within(self, tiles: Mapping[str, str], within: Mapping[str, Names]) -> dict[str, set[str]]:
        everything = set(tiles.values())
        found = dict.fromkeys(self.places.names, everything)
        for name, axes in within.items():
            if name not in found:
                raise CatdiagError(f"within names level {name!r}: expected some of {', '.join(self.places.names)}")
            listed = {axes} if isinstance(axes, str) else set(axes)
            for axis in sorted(listed - everything):
                raise CatdiagError(
                    f"within cuts axis {axis!r} at {name}, which the diagram is not grouped by: group it first, as in "
                    f".group({' '.join(sorted({*everything, axis}))!r}), which proves that it may be cut"
                )
            found[name] = {*listed, *(tiles[t] for t in self.single if t in tiles)}
        return found

    def cuts(self, base: str, place: str) -> list[Expr]:
        """The tiles or blocks of an axis at the levels down to a place that cut it."""
        names = self.places.names
        return [self.symbols[p][base] for p in names[: names.index(place) + 1] if base in self.symbols[p]]

    def local(self, base: str, whole: IntPolynomial, place: str) -> Expr:
        """How long a piece is at a level: its tile, or the whole axis where no level cuts it."""
        found = self.cuts(base, place)
        return found[-1] if found else whole.expr()

    def at(self, formula: Expr, place: str) -> Expr:
        """A formula in tiles and blocks in those of a level."""
        put: dict[Expr, Expr] = {}
        for kernel in self.account.kernels:
            for base, whole in (*kernel.tiles.items(), *kernel.loops):
                put[symbol(base)] = self.local(base, whole, place)
        return self.present(formula.xreplace(put))

    def moved(self, transfer: Transfer, kernel: LoweredKernel, place: str) -> tuple[Expr, Expr]:
        """What crosses into or out of all pieces of a level: exactly, and without rounding."""
        exact, relaxed = whole_run_transfer(transfer, kernel, lambda base: self.cuts(base, place))
        return self.present(exact), self.present(relaxed)

    def edges(self) -> dict[tuple[str, str], EdgeIO]:
        """What crosses each edge."""
        import sympy

        names = [level.name for level in self.chain]
        root, first, cached = names[0], self.places.names[0], [level.name for level in self.caches]
        edges = {ends: EdgeIO(*ends) for ends in pairwise(names)}

        def carry(ends: tuple[str, str], moved: Transfer, exact: Expr, relaxed: Expr) -> None:
            edge = edges.get(ends) or EdgeIO(*ends)
            edges[ends] = edge.carrying(moved.array, moved.direction, exact, sympy.expand(relaxed))

        for kernel in self.account.kernels:
            fetched = Fetches(self.wave, self.grid(kernel), kernel) if cached else None
            for moved in kernel.transfers:
                path = [name or root for name in moved.path]
                self._check(moved, kernel, path)
                for ends in pairwise(path):
                    straight = moved.direction == "save" and moved.loop is None
                    exact, relaxed = self.moved(moved, kernel, path[-1] if straight else ends[1])
                    if moved.loop is not None:
                        iterations, about = self.iterations(moved.loop, names[names.index(ends[1]) - 1])
                        exact, relaxed = exact * iterations, relaxed * about
                    if ends[0] != root or fetched is None:
                        carry(ends, moved, exact, relaxed)
                        continue
                    carry((cached[-1], first), moved, exact, relaxed)
                    for pair, cache in zip(pairwise([root, *cached]), self.caches, strict=True):
                        if moved.direction == "save":
                            carry(pair, moved, exact, relaxed)
                        elif (found := fetched.of(moved, cache.name, cache.capacity)) is not None:
                            carry(pair, moved, *map(self.present, found))
        return edges

    def grid(self, kernel: LoweredKernel) -> list[tuple[str, Expr, Expr]]:
        """The tiles of a kernel's groups, with the axis and the piece of the first level."""
        first = self.places.names[0]
        return [(tile, whole.expr(), self.local(tile, whole, first)) for tile, whole in kernel.tiles.items()]

    def iterations(self, loop: Loop, place: str) -> tuple[Expr, Expr]:
        """How many blocks a level cuts a loop's axis in: exactly, and without rounding."""
        block, whole = loop
        found = self.cuts(block, place)
        return self.present(tile_count(whole.expr(), found)), self.present(whole.expr() / found[-1])

    def _check(self, moved: Transfer, kernel: LoweredKernel, path: Sequence[str]) -> None:
        if moved.role != "state":
            return
        for tile in moved.reload_axes:
            place = next((p for p in path[1:] if tile in self.symbols[p]), None)
            if place is not None:
                raise CatdiagError(
                    f"the state {moved.array} lacks axis {kernel.axes[tile]!r}, which {place} cuts: its pieces would "
                    f"update it one after the other; keep states at {self.places.names[-1]}, or cut the axis above "
                    f"{place} only, with within="
                )

    def distinct(self) -> Expr:
        """The most that a wave's pieces take together."""
        import sympy

        found = dict.fromkeys(
            self.present(Fetches(self.wave, self.grid(k), k).resident_bytes()) for k in self.account.kernels
        )
        return sympy.Max(*found, evaluate=False) if len(found) > 1 else next(iter(found), sympy.S.Zero)

    def children(self, place: str) -> Expr:
        """How many pieces of a level run side by side within one of the level above."""
        import sympy

        number = self.places.names.index(place)
        if number > self.places.names.index(self.places.state):
            return sympy.S.One
        found: dict[Expr, None] = {}
        for kernel in self.account.kernels:
            total = sympy.S.One
            for base, whole in kernel.tiles.items():
                if base in self.symbols[place]:
                    above = self.local(base, whole, self.places.names[number - 1]) if number else whole.expr()
                    total = total * sympy.ceiling(above / self.symbols[place][base])
            found[self.present(total)] = None
        return sympy.Max(*found, evaluate=False) if len(found) > 1 else next(iter(found), sympy.S.One)

    def work(self) -> dict[str, Expr]:
        """Scalar operations of the whole run, by pipeline."""
        import sympy

        total = {"tensor": sympy.S.Zero, "exp": sympy.S.Zero, "alu": sympy.S.Zero}
        for kernel in self.account.kernels:
            for (pipeline, loops), amount in kernel.work.items():
                ranges = {**kernel.tiles, **dict(loops)}
                at = self.places.temporary
                total[pipeline] += self.present(
                    summed(amount, {name: (whole.expr(), self.cuts(name, at)) for name, whole in ranges.items()})
                )
        return total

    def bounds(self, place: str, blocks: bool) -> dict[Expr, Expr]:
        """The tiles (or blocks) of a level, with what they are pieces of."""
        number = self.places.names.index(place)
        found: dict[Expr, Expr] = {}
        for kernel in self.account.kernels:
            for base, whole in kernel.loops if blocks else kernel.tiles.items():
                if base in self.symbols[place] and base not in self.single:
                    above = self.local(base, whole, self.places.names[number - 1]) if number else whole.expr()
                    found[self.symbols[place][base]] = self.present(above)
        return found

    def report(self, unit: str) -> LevelsIO:
        """Everything."""
        account, places = self.account, self.places
        fullest = {place: frontier(account, place) for place in places.names}
        return LevelsIO(
            levels=self.chain,
            edges=self.edges(),
            memory={
                **{cache.name: self.distinct() for cache in self.caches},
                **{place: self.at(peak_of(moments), place) for place, moments in fullest.items()},
            },
            live_arrays={
                place: tuple(LiveArray(n, r, self.at(a.expr(), place)) for m in moments[:1] for n, r, a in m.live)
                for place, moments in fullest.items()
            },
            children={place: self.children(place) for place in places.names},
            tiles={
                place: {base: found for base, found in self.symbols[place].items() if base not in self.single}
                for place in places.names
            },
            groups={place: self.bounds(place, False) for place in places.names},
            streams={place: self.bounds(place, True) for place in places.names},
            work=self.work(),
            order="; then ".join(order_of(kernel, account) for kernel in account.kernels),
            unit=unit,
            places=places,
            account=account,
        )
