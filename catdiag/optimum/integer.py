"""Integer tiles: the least exact transfers, with ceilings, by branch and bound; proved optimal, or the best found.

For a box of tiles, interval arithmetic on the exact formula gives a lower bound of the transfers, and its smallest
tiles a lower bound of the memory. A box whose bound is not below the best tiles found is pruned. Where no box remains,
those tiles are the optimum. All arithmetic is exact, without rounding. Derived here; convexity is not used.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import sympy
from sympy import Expr, Symbol

from catdiag.util.errors import SizeError

_BOXES = 20_000
"""The search stops after this many boxes, with the best tiles found."""

Number: TypeAlias = int | Fraction
Range: TypeAlias = tuple[Number, Number]
_Formula: TypeAlias = Callable[[Sequence[Range]], Range]
_Box: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class IntegerOptimum:
    """The exact transfers at integer `tiles`, in the unit of the formula.

    No allowed tiles move less than `lower_bound`; `proved` says whether that equals `transfers`. `relaxed`, where
    given, is a lower bound over real tiles.
    """

    transfers: Number
    tiles: Mapping[Symbol, int]
    memory: tuple[Number, ...]
    lower_bound: Number
    relaxed: Fraction | None = None

    @property
    def proved(self) -> bool:
        """Whether these are the best integer tiles, and not only the best found."""
        return self.lower_bound >= self.transfers

    @property
    def gap(self) -> float | None:
        """An upper bound of how far the transfers are above the best real tiles, as a share of the latter."""
        return None if not self.relaxed else float((self.transfers - self.relaxed) / self.relaxed)

    def __str__(self) -> str:
        at = ", ".join(f"{tile} = {size}" for tile, size in self.tiles.items())
        how = (
            "the least of all integer tiles" if self.proved else f"best found; none moves less than {self.lower_bound}"
        )
        over = "" if self.gap is None else f", {100 * self.gap:.2g} % above real tiles"
        return f"{self.transfers} at {at} ({how}{over})"


def integer_optimum(
    transfers: Expr,
    memory: Sequence[tuple[Expr, Expr | int]],
    bounds: Mapping[Symbol, Expr | int],
    sizes: Mapping[Symbol, int],
    multiples: Mapping[Symbol, int] | None = None,
    *,
    divisors: bool = False,
    relaxed: Fraction | None = None,
    boxes: int = _BOXES,
) -> IntegerOptimum | None:
    """The least `transfers` over integer tiles from one to their `bounds` with each memory at most its capacity.

    `transfers` may have ceilings and floors; every other symbol must have a size. `multiples` gives what a tile must be
    a multiple of; with `divisors`, tiles must divide their axis. The bound of a tile may be another tile. `relaxed` is
    reported against. `boxes` limits the search. `None` where no allowed tiles fit.

    Raises `SizeError` for sizes that are missing and for an axis with no allowed tile, and `ValueError` for a formula
    that is not of sums, products, powers, ceilings, floors, maxima and minima.

    >>> a, b, c, g, h, M = sympy.symbols("a b c g h M", positive=True)
    >>> moved = a * b * sympy.ceiling(c / h) + b * c * sympy.ceiling(a / g) + a * c
    >>> found = integer_optimum(moved, [(g * h + g + h, M)], {g: a, h: c}, {a: 512, b: 512, c: 512, M: 4096})
    >>> found.transfers, found.tiles, found.proved
    (4718592, {g: 74, h: 52}, True)
    """
    tiles = list(bounds)
    at = {v: sympy.Integer(n) for v, n in sizes.items()}
    cost = sympy.sympify(transfers).subs(at)
    constraints = [sympy.sympify(m).subs(at) - sympy.sympify(c).subs(at) for m, c in memory]
    ends = {v: sympy.sympify(end).subs(at) for v, end in bounds.items()}
    constraints += [v - end for v, end in ends.items() if end.free_symbols & set(tiles)]
    if missing := sorted(
        map(str, set().union(*(e.free_symbols for e in (cost, *constraints, *ends.values()))) - set(tiles))
    ):
        raise SizeError(f"no size was given for {', '.join(missing)}")
    moved, rooms = _formula(cost, tiles), [_formula(e, tiles) for e in constraints]
    lists = []
    for v in tiles:
        end = _outermost(v, ends)
        step = (multiples or {}).get(v, 1)
        allowed = [g for g in range(step, end + 1, step) if not divisors or end % g == 0]
        if not allowed:
            kind = f"multiple of {step}" + (" that divides it" if divisors else "")
            raise SizeError(f"{v}: no {kind} is at most its axis, {end}: allow a smaller step, or pad the axis")
        lists.append(_representatives(cost, constraints, v, end, allowed))
    found = _BranchAndBound(moved, rooms, lists).search(boxes)
    if found is None:
        return None
    point, value, least = found
    at_point: list[Range] = [(g, g) for g in point]
    kept = tuple(room(at_point)[0] for room in rooms[: len(memory)])
    capacities = [int(sympy.sympify(c).subs(at)) for _, c in memory]
    holds = tuple(room + capacity for room, capacity in zip(kept, capacities, strict=True))
    return IntegerOptimum(value, dict(zip(tiles, point, strict=True)), holds, least, relaxed)


def _outermost(tile: Symbol, ends: Mapping[Symbol, Expr]) -> int:
    end = ends[tile]
    for _ in ends:
        end = end.subs(ends)
    if not end.is_Integer:
        raise ValueError(f"the bound of {tile} is {end}: expected a whole number, or another tile")
    return int(end)


def _representatives(cost: Expr, constraints: Sequence[Expr], tile: Symbol, end: int, allowed: list[int]) -> list[int]:
    """For each number of groups the smallest allowed tile that gives it.

    These suffice where transfers depend on the tile only through that number, and memory grows with the tile; otherwise
    all allowed tiles are returned.
    """
    count = sympy.ceiling(end / tile)
    grows = all(
        t.as_coeff_Mul()[0] > 0 for e in constraints for t in sympy.Add.make_args(sympy.expand(e)) if t.has(tile)
    )
    if not grows or cost.subs(count, sympy.Dummy(positive=True)).has(tile):
        return allowed
    least: dict[int, int] = {}
    for g in reversed(allowed):
        least[-(-end // g)] = g
    return sorted(least.values())


class _BranchAndBound:
    """The search for the best tiles: the box of all tiles is halved until no part can hold better ones.

    `moved` are the transfers, `rooms` what each memory holds beyond its capacity, both as interval arithmetic. `lists`
    are the tiles of each variable, by increasing size. A box is a range of places in each list. `best` are the best
    tiles found and their transfers, and `heap` the boxes that may hold better ones, with the lower bound in each.
    """

    def __init__(self, moved: _Formula, rooms: Sequence[_Formula], lists: Sequence[list[int]]) -> None:
        self.moved, self.rooms, self.lists = moved, rooms, lists
        self.best: tuple[tuple[int, ...], Number] | None = None
        self.heap: list[tuple[Number, int, _Box]] = []
        self.counter = itertools.count()

    def search(self, most: int) -> tuple[tuple[int, ...], Number, Number] | None:
        """The best tiles found, their transfers, and a lower bound over all tiles; `most` boxes are halved."""
        self.push(tuple((0, len(values) - 1) for values in self.lists))
        for _ in range(most):
            if not self.heap or not self.better(self.heap[0][0]):
                break
            _, _, box = heapq.heappop(self.heap)
            for part in self.halves(box):
                self.push(part)
        if self.best is None:
            return None
        point, value = self.best
        return point, value, min(value, self.heap[0][0]) if self.heap else value

    def better(self, low: Number) -> bool:
        """Whether transfers are less than the best found."""
        return self.best is None or low < self.best[1]

    def push(self, box: _Box) -> None:
        """Tries tiles in a box, and keeps the box if it may hold better ones."""
        inside = self.tightened(box)
        if inside is None:
            return
        low = self.moved(self.ranges(inside))[0]
        if self.better(low):
            self.consider(inside)
            if self.better(low):
                heapq.heappush(self.heap, (low, next(self.counter), inside))

    def ranges(self, box: _Box) -> list[Range]:
        """The smallest and the largest tile of each variable."""
        return [(values[i], values[j]) for values, (i, j) in zip(self.lists, box, strict=True)]

    def overflows(self, point: Sequence[Range]) -> bool:
        """Whether no tiles in the ranges fit."""
        return any(room(point)[0] > 0 for room in self.rooms)

    def fits(self, point: Sequence[Range]) -> bool:
        """Whether all tiles in the ranges fit."""
        return all(room(point)[1] <= 0 for room in self.rooms)

    def tightened(self, box: _Box) -> _Box | None:
        """The box without tiles that fit with nothing else in it; `None` where it is empty then."""
        at = self.ranges(box)
        if self.overflows(at):
            return None
        found = []
        for k, (i, j) in enumerate(box):

            def over(n: int, k: int = k) -> bool:
                return self.overflows([*at[:k], (self.lists[k][n], self.lists[k][n]), *at[k + 1 :]])

            if over(j) and not over(i):
                # The lower bound of memory need not be monotone in a tile with inner tiles: verify each pruned tile.
                low = bisect.bisect_left(range(i, j + 1), True, key=over)
                if all(over(n) for n in range(i + low, j + 1)):
                    j = i + low - 1
            found.append((i, j))
        return tuple(found)

    def consider(self, box: _Box) -> None:
        """Tries tiles in the box: from its smallest, each in turn made as large as fits."""
        point: list[Range] = [(values[i], values[i]) for values, (i, _) in zip(self.lists, box, strict=True)]
        for order in (range(len(self.lists)), reversed(range(len(self.lists)))):
            trial = list(point)
            for k in order:
                i, j = box[k]
                for n in range(j, i, -1) if j - i < 8 else _halving(i, j):
                    grown = [*trial[:k], (self.lists[k][n], self.lists[k][n]), *trial[k + 1 :]]
                    if self.fits(grown):
                        trial = grown
                        break
            if self.fits(trial):
                value = self.moved(trial)[0]
                if self.better(value):
                    self.best = tuple(int(g) for g, _ in trial), value

    def halves(self, box: _Box) -> list[_Box]:
        """The box cut at the variable whose tiles differ most; none of a single point, which has been considered."""
        widths = [Fraction(high, low) if high > low else Fraction(0) for low, high in self.ranges(box)]
        k = max(range(len(box)), key=lambda k: widths[k], default=-1)
        if k < 0 or not widths[k]:
            return []
        (i, j), values = box[k], self.lists[k]
        half = min(max(i, bisect.bisect_right(values, _middle(values[i], values[j])) - 1), j - 1)
        return [(*box[:k], part, *box[k + 1 :]) for part in ((i, half), (half + 1, j))]


def _middle(low: int, high: int) -> int:
    """The geometric mean of two sizes, rounded down."""
    return int(sympy.integer_nthroot(low * high, 2)[0])


def _halving(i: int, j: int) -> Iterator[int]:
    while j > i:
        yield j
        j = (i + j) // 2


def _formula(e: Expr, tiles: Sequence[Symbol]) -> _Formula:
    """An expression as interval arithmetic: a function from ranges of tiles to a range that contains its values."""
    if e.is_Rational:
        value: Number = int(e) if e.is_Integer else Fraction(int(e.p), int(e.q))
        return lambda at: (value, value)
    if e in tiles:
        place = list(tiles).index(e)
        return lambda at: at[place]
    parts = [_formula(argument, tiles) for argument in e.args]
    if e.is_Add:
        return lambda at: _sum([part(at) for part in parts])
    if e.is_Mul:
        return lambda at: _product([part(at) for part in parts])
    if e.is_Pow and e.exp.is_Integer:
        base, exponent = parts[0], int(e.exp)
        return lambda at: _power(base(at), exponent)
    if isinstance(e, sympy.ceiling | sympy.floor):
        inner = parts[0]
        if isinstance(e, sympy.ceiling):
            return lambda at: tuple(-(-x.numerator // x.denominator) for x in inner(at))  # type: ignore[return-value]
        return lambda at: tuple(x.numerator // x.denominator for x in inner(at))  # type: ignore[return-value]
    if isinstance(e, sympy.Max | sympy.Min):
        pick = max if isinstance(e, sympy.Max) else min
        return lambda at: tuple(pick(side) for side in zip(*(part(at) for part in parts)))
    raise ValueError(f"{e} is no sum, product, whole power, ceiling, floor, maximum or minimum of tiles")


def _sum(ranges: Sequence[Range]) -> Range:
    return sum(low for low, _ in ranges), sum(high for _, high in ranges)


def _product(ranges: Sequence[Range]) -> Range:
    low, high = ranges[0]
    for other_low, other_high in ranges[1:]:
        if low >= 0 and other_low >= 0:
            low, high = low * other_low, high * other_high
        else:
            ends = (low * other_low, low * other_high, high * other_low, high * other_high)
            low, high = min(ends), max(ends)
    return low, high


def _power(base: Range, exponent: int) -> Range:
    low, high = base
    if exponent < 0:
        if low <= 0:
            raise ValueError("a divisor may be zero at tiles of the box: write it so that it is positive")
        return Fraction(1) / high**-exponent, Fraction(1) / low**-exponent
    if low >= 0 or exponent % 2:
        return low**exponent, high**exponent
    return 0, max(low**exponent, high**exponent)
