"""What a cache fetches: of the groups that run at a time, each distinct piece once, if they fit together.

Groups run in waves, in launch order: row-major over the grid of groups in the stored order of tiles, last tile fastest.
A wave's pieces are the distinct (array, tile) that its groups load, whole along streamed axes. Where they fit the
cache together each is fetched once; otherwise every load of the wave passes on to the level above. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy
from sympy.core.symbol import Str

from catdiag.category.formula import Formula, call, infix, number, word
from catdiag.cost.wave_footprints import Loaded, Places, footprint

Expr = Any


@dataclass(frozen=True)
class Fetched:
    """An array that groups load: how much of it there is, how often a group loads its piece, which tiles it has."""

    array: str
    size: Expr
    times: int
    has: tuple[bool, ...]


class Wave(sympy.Expr):  # type: ignore[misc]
    """A number about waves, as a formula that is evaluated once sizes, tiles and the wave are numbers.

    `Wave(what, names, wave, capacity, grid, arrays)`: `what` is the place of an array in `arrays`, whose fetched amount
    this is, or -1 for the most that a wave's pieces take; `capacity` is `oo` where everything fits; `grid` has for each
    tile the axis and the tile; `arrays` the amount of each, how often a group loads it, and for each tile whether it
    has it. See `fetched` and `resident_bytes`.
    """

    is_commutative = True
    is_integer = True
    is_nonnegative = True

    def __new__(cls, *args: Any) -> Any:
        """The number, where everything is one."""
        given = [sympy.sympify(a) for a in args]
        what, _, wave, capacity, grid, arrays = given
        if all(e.is_number for e in (wave, capacity, *sympy.flatten(grid), *(a[0] for a in arrays))):
            return _evaluated(int(what), int(wave), capacity, grid, arrays)
        return sympy.Expr.__new__(cls, *given)

    def _sympystr(self, printer: Any) -> str:
        what, names, wave, capacity, grid, _ = self.args
        groups = ", ".join(f"{printer.doprint(n)}/{printer.doprint(g)}" for n, g in grid)
        name = f"fetched_{names[int(what)]}" if what >= 0 else "distinct"
        within = "" if capacity == sympy.oo else f"; {printer.doprint(capacity)}"
        return f"{name}({printer.doprint(wave)}; {groups or '1'}{within})"

    def as_formula(self, of: Callable[[Expr], Formula]) -> Formula:
        """The number as a function of the wave and the grid, as a formula."""
        what, names, wave, capacity, grid, _ = self.args
        groups = infix(",", *(infix("/", of(n), of(g)) for n, g in grid)) if grid else number(1)
        within = () if capacity == sympy.oo else (of(capacity),)
        array = () if what < 0 else (word(str(names[int(what)])),)
        return call("fetched" if array else "distinct", infix(";", *array, of(wave), groups, *within))


def fetched(
    which: int, wave: Expr, capacity: int | None, grid: Sequence[tuple[Expr, Expr]], arrays: Sequence[Fetched]
) -> Expr:
    """What a cache fetches of one array in the whole run, exactly; `capacity` None: everything fits.

    >>> q, x, g, w = sympy.symbols("q x g w", positive=True, integer=True)
    >>> rows, keys = Fetched("Q", 4 * q, 1, (True,)), Fetched("K", 4 * x, 1, (False,))
    >>> once = fetched(1, w, None, [(q, g)], [rows, keys])
    >>> once, once.subs({q: 10, g: 2, x: 7, w: 2})                   # five groups, in three waves
    (fetched_K(w; q/g), 84)
    >>> fetched(1, w, 30, [(q, g)], [rows, keys]).subs({q: 10, g: 2, x: 7, w: 2})    # a wave's 16 + 28 do not fit
    140
    """
    return _formula(which, wave, capacity, grid, arrays)


def resident_bytes(wave: Expr, grid: Sequence[tuple[Expr, Expr]], arrays: Sequence[Fetched]) -> Expr:
    """The most that the distinct pieces of a wave take together."""
    return _formula(-1, wave, None, grid, arrays)


def _formula(
    which: int, wave: Expr, capacity: int | None, grid: Sequence[tuple[Expr, Expr]], arrays: Sequence[Fetched]
) -> Expr:
    names = sympy.Tuple(*(Str(a.array) for a in arrays))
    about = sympy.Tuple(*(sympy.Tuple(a.size, a.times, sympy.Tuple(*map(int, a.has))) for a in arrays))
    limit = sympy.oo if capacity is None else sympy.Integer(capacity)
    return Wave(which, names, wave, limit, sympy.Tuple(*(sympy.Tuple(n, g) for n, g in grid)), about)


def about(
    which: int, wave: Expr, capacity: int | None, grid: Sequence[tuple[Expr, Expr]], arrays: Sequence[Fetched]
) -> Expr:
    """The same without rounding, for waves that are blocks of the grid: full along the fastest tiles.

    Along each tile a wave spans `min(N, max(1, wave / groups along faster tiles))` of its N groups. An array is fetched
    once for every such span along the tiles that it lacks.
    """
    spans: list[Expr] = []
    faster = sympy.Integer(1)
    for n, g in reversed(grid):
        spans.insert(0, sympy.Min(n / g, sympy.Max(1, wave / faster)))
        faster = faster * n / g

    def once(array: Fetched) -> Expr:
        return array.size * sympy.Mul(
            *(n / g / span for (n, g), span, has in zip(grid, spans, array.has, strict=True) if not has)
        )

    kept = once(arrays[which])
    if capacity is None:
        return kept
    every = arrays[which].size * arrays[which].times
    every = every * sympy.Mul(*(n / g for (n, g), has in zip(grid, arrays[which].has, strict=True) if not has))
    touched = sympy.Add(
        *(
            a.size * sympy.Mul(*(span * g / n for (n, g), span, has in zip(grid, spans, a.has, strict=True) if has))
            for a in arrays
        )
    )
    return sympy.Piecewise((kept, touched <= capacity), (every, True))


def _evaluated(what: int, wave: int, capacity: Expr, grid: Any, arrays: Any) -> Any:
    if wave < 1:
        raise ValueError(f"a wave of {wave} groups: expected 1 or more")
    wholes = [int(n) for n, _ in grid]
    loaded = []
    for amount, times, has in arrays:
        own = tuple(bool(flag) for flag in has)
        piece = math.prod(n for n, flag in zip(wholes, own, strict=True) if flag)
        loaded.append(Loaded(Fraction(int(amount), piece), int(times), own))
    limit = None if capacity == sympy.oo else int(capacity)
    found = footprint(wave, limit, [Places.of(int(n), int(g)) for n, g in grid], loaded)
    value = found.fetched[what] if what >= 0 else found.most
    return sympy.Rational(value.numerator, value.denominator)
