"""Load imbalance: groups whose loops run different numbers of iterations, for candidates of tiles.

A loop that skips blocks has another trip count in each group (a causal mask: early rows have few blocks). The values of
a candidate (numbers, or NumPy arrays for many candidates) get these entries, which `catdiag.planner.time_model` reads:

- `("trip_count", block)`: the trip count of the loop in a group;
- `("moved", transfer)`: the bytes that an array moves in the whole run;
- `("share", block)` is an input: the share of its blocks that a loop with a block test runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from catdiag.category.index_maps import leaves
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.schedule.contractions import Loop
from catdiag.schedule.footprint import AccessRange
from catdiag.schedule.loop_bounds import IterationCounts, LoopBounds, number
from catdiag.schedule.lowered_kernel import LoweredKernel, Transfer

Values = Mapping[Any, Any]


def iteration_counts(kernel: LoweredKernel, values: Values) -> tuple[Values, Values]:
    """The values of candidates, with the trip counts of the average group, and with those of the longest group."""
    tally = IterationCounts(kernel.tiles, values, {key[1]: v for key, v in values.items() if key[0] == "share"})
    average, longest = dict(values), dict(values)
    for (block, _), bounds in kernel.loop_bounds.items():
        sums, longest_group = tally.iterations(bounds)
        groups: Any = 1
        for _, tile in bounds.tiles:
            groups = groups * -(-kernel.tiles[tile].value(values) // values[tile])
        average["trip_count", block], longest["trip_count", block] = sums / groups, longest_group
    for moved in kernel.transfers:
        if moved.region:
            average["moved", moved] = longest["moved", moved] = window_loads(moved, kernel, values)
        elif moved.bounds is not None:
            total = summed_over_groups(moved.local, moved.loops, moved.bounds, kernel, values, tally)
            average["moved", moved] = longest["moved", moved] = total
    return average, longest


def summed_over_groups(
    amount: IntPolynomial,
    loops: Iterable[Loop],
    bounds: LoopBounds,
    kernel: LoweredKernel,
    values: Values,
    tally: IterationCounts | None = None,
) -> Any:
    """An amount for each group and block, summed over all groups and over the blocks that a loop runs."""

    if tally is None:
        tally = IterationCounts(kernel.tiles, values, {key[1]: v for key, v in values.items() if key[0] == "share"})
    ranges = {**kernel.tiles, **dict(loops)}
    inner = [*(tile for _, tile in bounds.tiles), bounds.block]
    total: Any = 0
    for monomial, coefficient in amount.terms.items():
        term: Any = coefficient
        for name in monomial:
            if name not in ranges:
                term = term * values[name]
        for name, axis_size in ranges.items():
            if name not in inner:
                term = term * tile_powers(axis_size.value(values), values[name], monomial.count(name))
        total = total + term * tally.total(bounds, tuple(monomial.count(name) for name in inner))[0]
    return total


def tile_powers(size: Any, tile: Any, power: int) -> Any:
    """The sum of a power of the tile lengths of an axis, in numbers (see `catdiag.schedule.tile_counts.power_sum`).

    >>> tile_powers(10, 4, 0), tile_powers(10, 4, 1), tile_powers(10, 4, 2)
    (3, 10, 36)
    """
    if power == 0:
        return -(-size // tile)
    full = size // tile
    return full * tile**power + (size - full * tile) ** power


def window_loads(transfer: Transfer, kernel: LoweredKernel, values: Mapping[Any, Any]) -> Any:
    """What is loaded of an array that is read in place, in the whole run: a number, or an array of them for candidates.

    The sum over groups factors: it is a product of sums over the tiles that occur together in one side of the
    footprint.
    """
    import numpy as np

    ranges = {**kernel.tiles, **dict(transfer.loops)}
    parts = _together(transfer, kernel)
    total: Any = 0
    for monomial, coefficient in transfer.local.terms.items():
        term: Any = coefficient
        for name in monomial:
            if name not in ranges:
                term = term * values[name]
        for tiles, sides in parts:
            if sides:
                term = term * _over(tiles, sides, [monomial.count(t) for t in tiles], kernel, values)
            else:
                for tile in tiles:
                    term = term * tile_powers(kernel.tiles[tile].value(values), values[tile], monomial.count(tile))
        for block, axis in transfer.loops:
            term = term * tile_powers(axis.value(values), values[block], monomial.count(block))
        total = total + term
    return np.asarray(total)[()]


def _together(transfer: Transfer, kernel: LoweredKernel) -> list[tuple[list[str], list[AccessRange]]]:
    """The groups of tiles that occur together in some side of the footprint, with these sides."""
    of = {kernel.axes[tile]: tile for tile in kernel.tiles}
    found: list[tuple[set[str], list[AccessRange]]] = [({tile}, []) for tile in kernel.tiles]
    for side in transfer.region:
        if side.is_interior:
            continue
        read = [v for e in (side.start, side.stop) for v in leaves(e) if isinstance(v, (str, tuple))]
        used = {v if isinstance(v, str) else of.get(v[1], "") for v in read}
        mine = [f for f in found if f[0] & used]
        tiles, sides = {t for f in mine for t in f[0]}, [s for f in mine for s in f[1]]
        found = [f for f in found if not f[0] & used] + [(tiles, [*sides, side])]
    return [([t for t in kernel.tiles if t in tiles], sides) for tiles, sides in found]


def _over(
    tiles: Sequence[str],
    sides: Sequence[AccessRange],
    powers: Sequence[int],
    kernel: LoweredKernel,
    values: Mapping[Any, Any],
) -> Any:
    """The sum over the tiles of some axes: of the tile lengths to these powers, times the lengths of the sides."""
    import numpy as np

    # The length of an axis may differ between candidates too: of that of the parts of a loop, as many as there are.
    lengths = [*(kernel.tiles[tile] for tile in tiles), *(IntPolynomial.of(side.size) for side in sides)]
    names = sorted(
        {
            *tiles,
            *(name for length in lengths for name in length.symbols()),
            *(v for s in sides for e in (s.start, s.stop) for v in leaves(e) if isinstance(v, str)),
        }
    )
    # Sizes are the same for all candidates as a rule, so that only the tiles differ.
    fixed = {name: int(values[name]) for name in names if not np.ndim(values[name])}
    names = [name for name in names if name not in fixed]
    columns = np.broadcast_arrays(*(np.asarray(values[name]) for name in names)) if names else []
    shape = columns[0].shape if columns else ()
    table = np.stack([c.ravel() for c in columns], axis=1) if columns else np.zeros((1, 0), dtype=np.int64)
    rows, places = np.unique(table, axis=0, return_inverse=True)
    found = []
    for row in rows:
        known = {**values, **fixed, **dict(zip(names, map(int, row), strict=True))}
        seen: dict[Any, Any] = dict(known)
        counts: Any = 1
        for k, (tile, power) in enumerate(zip(tiles, powers, strict=True)):
            whole = int(kernel.tiles[tile].value(known))
            starts = np.arange(0, whole, known[tile]).reshape([-1 if i == k else 1 for i in range(len(tiles))])
            stops = np.minimum(starts + known[tile], whole)
            seen["first", kernel.axes[tile]], seen["last", kernel.axes[tile]] = starts, stops - 1
            counts = counts * (stops - starts) ** power
        for side in sides:
            low, high = number(side.start, seen), number(side.stop, seen) + 1
            size = int(IntPolynomial.of(side.size).value(known))
            low, high = np.maximum(low, 0) if side.below else low, np.minimum(high, size) if side.above else high
            counts = counts * np.maximum(0, high - low)
        found.append(int(np.sum(counts)))
    return np.array(found)[places.ravel()].reshape(shape)[()]
