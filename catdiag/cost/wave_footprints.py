"""The pieces that the groups of each wave load, summed over all waves, without going through the groups.

A wave is an interval of groups in row-major order. What it loads of an array is the projection of the interval to the
tiles that the array has. Along one tile an interval is a suffix of the groups at its first place, all groups at the
places between, and a prefix of those at its last place; where the array lacks the tile these lie upon each other. So
the size of a projection follows from the sizes along the faster tiles, here for many waves at once.

Waves repeat: after lcm(wave, groups along all tiles but the slowest) groups the pattern begins again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

# Waves that are worked out at once.
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Places:
    """The places along a tile: the first `full` of `count` are of length `long`, the others of length `short`."""

    count: int
    full: int
    long: int
    short: int

    @staticmethod
    def of(whole: int, tile: int) -> Places:
        """An axis in tiles, of which the last may be shorter.

        >>> Places.of(10, 4), Places.of(8, 4)
        (Places(count=3, full=2, long=4, short=2), Places(count=2, full=2, long=4, short=4))
        """
        full, rest = divmod(whole, tile)
        return Places(full + (rest > 0), full, tile, rest or tile)

    def before(self, place: Any) -> Any:
        """The length of all places before one."""
        return np.minimum(place, self.full) * self.long + np.maximum(place - self.full, 0) * self.short

    def at(self, place: Any) -> Any:
        """The length of a place."""
        return np.where(place < self.full, self.long, self.short)

    @property
    def whole(self) -> int:
        """The length of all places."""
        return self.full * self.long + (self.count - self.full) * self.short


@dataclass(frozen=True)
class Loaded:
    """An array that groups load: its amount per unit of length, how often each group loads its piece, and for each tile
    whether it has it."""

    unit: Fraction
    times: int
    has: tuple[bool, ...]


@dataclass(frozen=True)
class Footprint:
    """What is fetched of each array in the whole run, and the most that the distinct pieces of a wave take."""

    fetched: tuple[Fraction, ...]
    most: Fraction


def footprint(wave: int, capacity: int | None, grid: Sequence[Places], arrays: Sequence[Loaded]) -> Footprint:
    """Where the distinct pieces of a wave fit the capacity together each is fetched once, otherwise at every load."""
    grid, arrays = _merged(grid, arrays)
    groups = math.prod(p.count for p in grid)
    inner = math.prod(p.count for p in grid[1:])
    period = math.lcm(wave, inner)
    repeats = grid[0].full * inner // period if grid else 0
    parts = [(0, groups, 1)]
    if repeats > 1:
        parts = [(0, period, repeats), (repeats * period, groups, 1)]
    scale = math.lcm(*(a.unit.denominator for a in arrays))
    units = [int(a.unit * scale) for a in arrays]
    limit = None if capacity is None else capacity * scale
    # No number below is larger than this: whole numbers of 64 bits do, or those of Python.
    bound = (sum(units) + 1) * math.prod(p.whole for p in grid)
    kind: Any = np.int64 if max(bound, limit or 0, groups + wave) < 1 << 62 else object
    totals, most = [0] * len(arrays), 0
    for first, last in _waves(parts, wave):
        times = parts[0][2] if last <= parts[0][1] else 1
        start = np.arange(first // wave, -(-last // wave)).astype(kind) * wave
        stop = np.minimum(start + (wave - 1), groups - 1)
        pieces = [unit * _distinct(grid, a.has, start, stop) for unit, a in zip(units, arrays, strict=True)]
        touched = sum(pieces, np.zeros_like(start))
        most = max(most, int(np.max(touched)))
        fits = np.full(len(start), True) if limit is None else (touched <= limit).astype(bool)
        for k, (unit, a) in enumerate(zip(units, arrays, strict=True)):
            totals[k] += times * int(np.sum(pieces[k][fits]))
            if not np.all(fits):
                every = _all_loads(grid, a.has, start[~fits], stop[~fits])
                totals[k] += times * unit * a.times * int(np.sum(every))
    return Footprint(tuple(Fraction(t, scale) for t in totals), Fraction(most, scale))


def _waves(parts: Sequence[tuple[int, int, int]], wave: int) -> Iterator[tuple[int, int]]:
    """The groups of each part, in runs of so many waves."""
    for begin, end, _ in parts:
        for first in range(begin, end, _CHUNK * wave):
            yield first, min(first + _CHUNK * wave, end)


def _merged(grid: Sequence[Places], arrays: Sequence[Loaded]) -> tuple[list[Places], list[Loaded]]:
    """Without tiles of one place, and with neighboring tiles in one if the same arrays have them.

    The faster one of them must have places of one length.
    """
    units = [a.unit for a in arrays]
    made: list[tuple[Places, tuple[bool, ...]]] = []
    for k, places in enumerate(grid):
        has = tuple(a.has[k] for a in arrays)
        if places.count == 1:
            units = [u * places.whole if h else u for u, h in zip(units, has, strict=True)]
        elif made and made[-1][1] == has and places.full == places.count:
            slow, n = made[-1][0], places.long
            both = Places(slow.count * places.count, slow.full * places.count, slow.long * n, slow.short * n)
            made[-1] = both, has
        else:
            made.append((places, has))
    return [p for p, _ in made], [
        Loaded(u, a.times, tuple(has[k] for _, has in made)) for k, (u, a) in enumerate(zip(units, arrays, strict=True))
    ]


def _digits(grid: Sequence[Places], start: Any, stop: Any) -> Iterator[tuple[Places, Any, Any]]:
    """Each tile with the places of the first and of the last group of a wave, the fastest tile first."""
    for places in reversed(grid):
        yield places, start % places.count, stop % places.count
        start, stop = start // places.count, stop // places.count


def _distinct(grid: Sequence[Places], has: Sequence[bool], start: Any, stop: Any) -> Any:
    """The size of the projection of each interval of groups, both ends included, to the tiles that an array has."""
    full: Any = 1
    # Of the groups from the first on, of those up to the last, of those between, and of the first two together.
    suffix = prefix = between = either = np.ones_like(start)
    for (places, a, b), own in zip(_digits(grid, start, stop), reversed(has), strict=True):
        if own:
            before, after = places.before(b) * full, (places.whole - places.before(a + 1)) * full
            first, last = places.at(a), places.at(b)
            inside = (places.before(b) - places.before(a + 1)) * full
            apart = after + first * suffix + before + last * prefix
            one = (places.whole - first) * full + first * either
            between = np.where(a == b, first * between, first * suffix + inside + last * prefix)
            either = np.where(a > b, apart, np.where(a == b, one, places.whole * full))
            suffix, prefix = first * suffix + after, before + last * prefix
            full = places.whole * full
        else:
            between = np.where(a == b, between, np.where(b - a >= 2, full, either))
            either = np.where((a == places.count - 1) & (b == 0), either, full)
            suffix, prefix = np.where(a < places.count - 1, full, suffix), np.where(b > 0, full, prefix)
    return between


def _all_loads(grid: Sequence[Places], has: Sequence[bool], start: Any, stop: Any) -> Any:
    """The size of the pieces of all groups of each interval: a piece is loaded at each place of a tile that the array
    lacks."""
    counted = [p if own else Places(p.count, p.count, 1, 1) for p, own in zip(grid, has, strict=True)]
    return _distinct(counted, [True] * len(counted), start, stop)
