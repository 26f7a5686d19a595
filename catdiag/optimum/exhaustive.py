"""Exhaustive search: the least transfers at given sizes and capacity over all integer tiles, without formulas.

Transfers depend on a tile only through the number of tiles, and memory grows with the tile. Of the tiles that give the
same number of groups the smallest is therefore enough: `2·√n` candidates for an axis of length `n`. Stream blocks are
1, where memory is least. Derived here.

>>> from catdiag.category.ops import einsum_box
>>> from catdiag.cost.traffic import io
>>> from catdiag.category.diagram import of_box
>>> from catdiag.category.types import ArrayType, Axis
>>> dot = io(of_box(einsum_box([ArrayType((Axis("a"),)), ArrayType((Axis("a"),))], [])))
>>> exhaustive_optimum(dot.account, {"a": 8}, 17).transfers, exhaustive_optimum(dot.account, {"a": 8}, 16) is None
(17, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catdiag.schedule.kernel_analysis import Account
from catdiag.schedule.load_imbalance import window_loads
from catdiag.schedule.placement import LEVEL, REGISTERS
from catdiag.util import argument_checks
from catdiag.util.errors import CatdiagError, require

if TYPE_CHECKING:
    from catdiag.schedule.footprint import AccessRange

_POINTS = 1 << 21


@dataclass(frozen=True)
class ExhaustiveOptimum:
    """The least transfers, their memory, and the tiles (by symbol); transfers and memory in the unit of the account.

    Stream blocks are 1. `exhaustive` says whether all tiles were tried, so that none moves less. Of several that move
    the same amount, the one with the least memory is taken.
    """

    transfers: int
    memory: int
    tiles: Mapping[str, int]
    exhaustive: bool


def exhaustive_optimum(account: Account, sizes: Mapping[str, int], capacity: int) -> ExhaustiveOptimum | None:
    """The least exact transfers of an account at these sizes with memory at most `capacity`; None where nothing fits.

    Raises CatdiagError for sizes that are missing, a split loop, a loop that skips blocks, access regions that reach
    beyond their arrays, a loop nested in a loop that reloads in every iteration, and accumulators counted separately in
    registers.
    """
    import numpy as np

    require(isinstance(account, Account), "the account", account, "the .account of what .io() gives")
    argument_checks.numbers(sizes)
    argument_checks.positive(capacity, "the capacity")
    if any(kernel.loop_bounds for kernel in account.kernels) or not all(
        side.is_interior for _, side in _overlapping_ranges(account)
    ):
        account.runs_all("the tiles that are best whole are sought for loops that run all")
    if account.split_loop is not None:
        raise CatdiagError("the least transfers of a split loop depend on the number of parts: use .plan(…)")
    if any(kernel.points[REGISTERS] for kernel in account.kernels):
        raise CatdiagError("accumulators in registers have a capacity of their own: ask with accumulators='level'")
    if missing := [s for s in account.sizes if s not in sizes]:
        raise CatdiagError(f"no size was given for {', '.join(missing)}: give one for each axis")
    if any(transfer.loop_nest for kernel in account.kernels for transfer in kernel.transfers):
        raise CatdiagError(
            "a loop inside a loop reloads arrays in every iteration: expected loops without such loads, because the "
            "lengths of their blocks are not searched"
        )
    whole = {t: int(axis.value(sizes)) for kernel in account.kernels for t, axis in kernel.tiles.items()}
    lists = {t: tile_sizes(n) for t, n in whole.items()}
    exhaustive = math.prod(map(len, lists.values())) <= _POINTS
    while math.prod(map(len, lists.values())) > _POINTS:
        longest = max(lists, key=lambda t: len(lists[t]))
        lists[longest] = [*lists[longest][:-1:2], lists[longest][-1]]
    grid = np.meshgrid(*(np.array(v, dtype=float) for v in lists.values()), indexing="ij") if lists else []
    values: dict[str, Any] = {**sizes, **{t: g.ravel() for t, g in zip(lists, grid, strict=True)}}
    for kernel in account.kernels:
        values.update(dict.fromkeys((s for s, _ in kernel.loops), 1))
    count = math.prod(map(len, lists.values()))
    memory, moved = (np.broadcast_to(total, (count,)) for total in _totals(account, values))
    room = memory <= capacity
    if not room.any():
        return None
    # Floats are exact up to 2**53. Ties go to the tiles with the least memory.
    cost = np.where(room, moved, np.inf)
    best = np.flatnonzero(cost == cost.min())
    place = int(best[np.argmin(memory[best])])
    tiles = {t: int(values[t][place]) for t in lists}
    at = {**values, **tiles}
    memory, moved = _totals(account, at)
    return ExhaustiveOptimum(int(moved[0]), int(memory[0]), tiles, exhaustive)


def tile_sizes(n: int) -> list[int]:
    """For each number of tiles of an axis of length `n` the smallest tile that gives it, and perhaps a few others.

    >>> tile_sizes(10)
    [1, 2, 3, 4, 5, 10]
    """
    root = math.isqrt(n)
    return sorted({*range(1, root + 1), *(-(-n // count) for count in range(1, root + 2))})


def _totals(account: Account, values: Mapping[str, Any]) -> tuple[Any, Any]:
    """Memory and exact transfers at numbers, or at arrays of numbers."""
    import numpy as np

    memory, moved = (
        np.zeros(1),
        np.zeros(1, dtype=object if all(isinstance(v, int) for v in values.values()) else float),
    )
    for kernel in account.kernels:
        for moment in kernel.points[LEVEL]:
            memory = np.maximum(memory, moment.total.value(values))
        for transfer in kernel.transfers:
            if transfer.region:
                moved = moved + window_loads(transfer, kernel, values)
                continue
            amount = transfer.size.value(values)
            for tile in transfer.reload_axes:
                amount = amount * -(-kernel.tiles[tile].value(values) // values[tile])
            moved = moved + amount
    return memory, moved


def _overlapping_ranges(account: Account) -> Iterator[tuple[str, AccessRange]]:
    for kernel in account.kernels:
        for transfer in kernel.transfers:
            yield from ((transfer.array, side) for side in transfer.region)
