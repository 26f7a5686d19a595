"""Mask counts: the trip counts of loops that skip blocks, summed over all groups, exactly and without rounding.

**Exactly.** In the group of the tile from position t to e - 1, a loop runs the blocks that meet `lo` ≤ p < `hi`
(`catdiag.schedule.loop_bounds`). These are the blocks from ⌊max(0, lo)/s⌋ to before ⌈min(x, hi)/s⌉. Their number is
summed over the tiles, as a `GroupSum` if it depends on them.

**Without rounding** (derived here). Nondecreasing bounds take `lo` at a tile's first position and `hi` at its last.
Neighboring tiles at the boundary b share w(b) = hi(b - 1) - lo(b) positions, and the sum telescopes:

    Σ (hi - lo) = hi(q - 1) - lo(0) + Σ w(b)   over the boundaries b = g, 2g, … below q

(with the ends exchanged for nonincreasing bounds). Let w be piecewise linear on [0, q], not negative at q, and g ≤ q.
Let u₁, u₂, … be the points where its slope falls, by δ₁, δ₂, …. Then Σ w(b) ≥ 1/g ∫ w - (w(0) + w(q))/2 - Σ δₖ uₖ/2,
with equality for a linear w and a g that divides q. Proof:

1. Let n = ⌈q/g⌉ and y = n·g ≥ q, and continue w beyond q with its last slope a. Then Σ w(b) is the trapezoid sum over
   [0, y] minus (w(0) + w(y))/2. Compared with 1/g ∫₀^y w, the trapezoid sum is larger at each point where the slope
   rises. Where the slope falls at u, it is smaller by δ·(g/2)·φ(1 - φ), at most δ·u/2. Here φ is the fraction of a tile
   by which u passes a multiple of g.
2. 1/g ∫₀^y w - w(y)/2 is at least its value for y = q. With h = y - q < g the difference is
   (h/g)·w(q) - (a·h/2)(1 - h/g). It is not negative if w(q) ≥ max(0, a)·(q - 1)/2, as q > g if there is a boundary at
   all. If there is none, g is q, and the right side is not positive, as
   ∫ w ≤ q(w(0) + w(q))/2 + Σ δₖ uₖ(q - uₖ)/2.

The integral is the area that the mask leaves, and transfers are proportional to it.

>>> import catdiag as cd
>>> x, q, g, s = (symbol(name) for name in ("x", "q", "g_q", "s_x"))
>>> GroupSum(sympy.Min(q, g * (symbol("j") + 1)), (symbol("j"), 0, sympy.ceiling(q / g) - 1)).subs({q: 7, g: 3})
16
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sympy

from catdiag.category.index_maps import read_off
from catdiag.category.integer_polynomial import IntPolynomial, symbol
from catdiag.schedule.grid_formulas import Down, GroupSum, Up
from catdiag.schedule.loop_bounds import Bound, LoopBounds
from catdiag.schedule.loop_bounds import put as put_leaves
from catdiag.schedule.tile_counts import power_sum
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.schedule.contractions import Loop
    from catdiag.schedule.kernel_analysis import Account
    from catdiag.schedule.lowered_kernel import LoweredKernel, Transfer
    from catdiag.schedule.split_k import SplitLoop

Expr = Any

MaskDensity = float | Fraction | Mapping[str, float | Fraction] | None
"""Mask density: the share of blocks that are run among those that a loop tests, for all loops or by axis."""


class MaskCounts:
    """The mask density of each loop (the share of the tested blocks that it runs), and the assumptions that formulas
    made."""

    def __init__(self, density: MaskDensity, account: Account) -> None:
        self.split_loop = account.split_loop
        self.taken = {*account.sizes, *account.inputs}
        tested = {e.axis for k in account.kernels for e in k.loop_bounds.values() if e.tests_blocks}
        given = density if isinstance(density, Mapping) else {} if density is None else dict.fromkeys(tested, density)
        for axis, share in given.items():
            if axis not in tested:
                raise CatdiagError(
                    f"density is given for axis {axis!r}: expected an axis whose loop tests blocks of data: "
                    f"{', '.join(sorted(tested)) or 'there is none'}"
                )
            if isinstance(share, bool) or not isinstance(share, (int, float, Fraction)) or not 0 <= share <= 1:
                raise CatdiagError(f"density of axis {axis!r} is {share!r}: expected a number from 0 to 1")
        # A float means the decimal number that prints it, not the binary number near that.
        exact = {axis: Fraction(repr(float(s))) if isinstance(s, float) else Fraction(s) for axis, s in given.items()}
        self.given = {axis: sympy.Rational(share.numerator, share.denominator) for axis, share in exact.items()}
        self.said: dict[str, None] = {}
        self.conditions: dict[Expr, None] = {}

    def of(self, bounds: LoopBounds) -> Expr:
        """The share of a loop: 1 if positions alone decide which blocks are run."""
        if not bounds.tests_blocks:
            return sympy.S.One
        share = self.given.get(bounds.axis)
        if share is None:
            name = f"rho_{bounds.axis}"
            while name in self.taken:
                name += "_"
            share = sympy.Symbol(name, positive=True)
        what = f"{share}, at most 1, is" if bounds.axis not in self.given else f"{float(share):g} is taken to be"
        within = "within the bounds that positions give, " if bounds.lo != 0 or bounds.hi != bounds.axis else ""
        self.said[f"{what} the share of the blocks of {bounds.axis} that are run, {within}by the data"] = None
        return share

    def moved(self, transfer: Transfer, kernel: LoweredKernel) -> tuple[Expr, Expr]:
        """What a streamed array moves in the whole run: exactly, and without rounding."""
        assert transfer.bounds is not None
        share = self.of(transfer.bounds)
        exact = exactly(transfer.local, kernel, transfer.loops, transfer.bounds, share, self.split_loop)
        least, conditions = at_least(transfer.local, kernel, transfer.loops, transfer.bounds, share, self.split_loop)
        if least == 0:
            name = transfer.array
            self.said[f"{name} is left out of the form without rounding: its bounds are not piecewise linear"] = None
        self.conditions.update(dict.fromkeys(conditions))
        return exact, least

    def assumptions(self) -> tuple[str, ...]:
        """The assumptions as text."""
        words = [f"without rounding: {', '.join(map(str, self.conditions))}"] if self.conditions else []
        return (*self.said, *words)


# -- exactly ----------------------------------------------------------------------------------------


def written(e: Bound, leaf: Mapping[Any, Expr]) -> Expr:
    """A bound as a formula, given formulas of its leaves. Sizes and scalar inputs become symbols of their names."""

    def read(v: Any) -> Expr:
        if v in leaf:
            return leaf[v]
        return sympy.Integer(v) if isinstance(v, int) else symbol(v if isinstance(v, str) else v[1])

    def join(op: str, a: Expr, b: Expr) -> Expr:
        if op == "+":
            return a + b
        if op == "*":
            return a * b
        if op == "//":
            return Down(a, b)
        return sympy.Max(a, b) if op == "max" else sympy.Min(a, b)

    return read_off(e, read, join)


def exactly(
    amount: IntPolynomial,
    kernel: LoweredKernel,
    loops: tuple[Loop, ...],
    bounds: LoopBounds,
    share: Expr,
    split_loop: SplitLoop | None = None,
) -> Expr:
    """An amount for each group and block, summed over all groups and over the blocks that a loop runs, of which a
    `share` is run.

    `amount` is a polynomial in tile sizes, block sizes and others; `loops` are the loops that it is moved in.
    """
    ranges = {**kernel.tiles, **dict(loops)}
    values: dict[str, Expr] = {}
    if split_loop is not None:
        values = {split_loop.length: IntPolynomial.of(split_loop.axis_size).expr() / symbol(split_loop.parts)}
        values.update(dict.fromkeys(split_loop.single, sympy.S.One))
    single_sizes = {symbol(name): value for name, value in values.items()}
    indices = {tile: index_of(axis, ranges) for axis, tile in bounds.tiles}
    ends: dict[Any, Expr] = dict(values)
    lengths: dict[str, Expr] = {}
    for axis, tile in bounds.tiles:
        g, whole, j = values.get(tile, symbol(tile)), kernel.tiles[tile].expr(), indices[tile]
        stop = j + 1 if g == 1 else sympy.Min(whole, g * (j + 1))
        ends[("first", axis)], ends[("last", axis)] = g * j, stop - 1
        lengths[tile] = stop - g * j
    s, total = symbol(bounds.block), bounds.trip_count.expr().xreplace(single_sizes)
    first = Down(sympy.Max(0, written(bounds.lo, ends)), s)
    end = sympy.Min(total, written(bounds.hi, ends))
    last = Up(end, s)
    summed: dict[Expr, Expr] = {}
    for monomial, coefficient in amount.terms.items():
        outer, inner = sympy.Integer(coefficient), sympy.S.One
        for name in monomial:
            if name not in ranges:
                outer *= values.get(name, symbol(name))
        for name, axis_size in ranges.items():
            power = monomial.count(name)
            if name in lengths:
                inner *= lengths[name] ** power
            elif name == bounds.block:
                inner *= _blocks(first, last, total if end == total else sympy.Min(total, s * last), s, power)
            else:
                outer *= power_sum(axis_size.expr().xreplace(single_sizes), (values.get(name, symbol(name)),), power)
        summed[inner] = summed.get(inner, sympy.S.Zero) + outer
    found = sympy.S.Zero
    for inner, outer in summed.items():
        term = inner
        for tile, j in indices.items():
            term = GroupSum(term, (j, 0, sympy.ceiling(kernel.tiles[tile].expr() / values.get(tile, symbol(tile))) - 1))
        found += share * outer * term
    return found


def index_of(axis: str, taken: Mapping[str, Any]) -> Expr:
    """The symbol for the index of a tile along an axis, with a name that is not in `taken`."""
    name = f"j_{axis}"
    while name in taken:
        name += "_"
    return sympy.Symbol(name, integer=True, nonnegative=True)


def _blocks(first: Expr, last: Expr, stop: Expr, s: Expr, power: int) -> Expr:
    """The sum of a power of the lengths of the blocks from `first` to before `last`; the last block ends at `stop`."""
    if power == 0:
        return sympy.Max(0, last - first)
    if power == 1:
        return sympy.Max(0, stop - s * first)
    full = Down(stop, s)
    return sympy.Max(0, full - first) * s**power + sympy.Max(0, stop - s * sympy.Max(full, first)) ** power


# -- without rounding -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Relaxed:
    """The positions that a loop reads in all groups of one axis: at least `area`/tile + `constant`, if `assumed`
    holds."""

    area: Expr
    constant: Expr
    assumed: tuple[Expr, ...]


@dataclass(frozen=True)
class _Line:
    """The piecewise linear function c + a·b + Σ δ·max(0, b - u) for b from 0 to q."""

    c: Expr
    a: Expr
    bends: tuple[tuple[Expr, Expr], ...] = ()

    def __add__(self, other: _Line) -> _Line:
        return _Line(self.c + other.c, self.a + other.a, (*self.bends, *other.bends))

    def times(self, k: Expr) -> _Line:
        return _Line(self.c * k, self.a * k, tuple((d * k, u) for d, u in self.bends))

    def end(self, q: Expr) -> Expr:
        """The value at q, where all bends lie before."""
        return self.c + self.a * q + sympy.Add(*(d * (q - u) for d, u in self.bends))

    def area(self, q: Expr) -> Expr:
        """The integral from 0 to q."""
        return self.c * q + self.a * q**2 / 2 + sympy.Add(*(d * (q - u) ** 2 / 2 for d, u in self.bends))


class _NoLine(Exception):
    """A bound is not piecewise linear in a way that is known here."""


class _Lines:
    """Bounds as piecewise linear functions of the boundary between two tiles of an axis of size q, and the assumptions
    made."""

    def __init__(self, axis: str, q: Expr) -> None:
        self.axis, self.q = axis, q
        self.assumed: list[Expr] = []

    def of(self, e: Bound, above: bool) -> _Line:
        """A line that equals the bound; if the bound is rounded, a line above it (`above`) or below it."""
        zero = sympy.S.Zero

        def leaf(v: Any) -> tuple[_Line, _Line]:
            if v == ("first", self.axis):
                line = _Line(zero, sympy.S.One)
            elif v == ("last", self.axis):
                line = _Line(sympy.Integer(-1), sympy.S.One)
            elif isinstance(v, tuple) and v[0] in ("first", "last"):
                raise _NoLine
            else:
                line = _Line(written(v, {}), zero)
            return line, line  # from below and from above

        def join(op: str, x: tuple[_Line, _Line], y: tuple[_Line, _Line]) -> tuple[_Line, _Line]:
            if op == "+":
                return x[0] + y[0], x[1] + y[1]
            if op in ("max", "min"):
                low, high = self.larger(x[0], y[0], op == "max"), self.larger(x[1], y[1], op == "max")
                return low, high
            if op == "*" and (x[0].a != 0 or x[0].bends):
                x, y = y, x
            by = (x if op == "*" else y)[0]
            if by.a != 0 or by.bends or (x if op == "*" else y)[1] != by:
                raise _NoLine
            if op == "//":
                if not by.c.is_positive:
                    raise _NoLine
                down = _Line(1 / by.c - 1, zero)
                return x[0].times(1 / by.c) + down, x[1].times(1 / by.c)
            if by.c.is_nonnegative:
                return y[0].times(by.c), y[1].times(by.c)
            if by.c.is_negative:
                return y[1].times(by.c), y[0].times(by.c)
            if y[0] == y[1] and y[0].a == 0 and not y[0].bends:
                line = _Line(by.c * y[0].c, zero)
                return line, line
            raise _NoLine

        return read_off(e, leaf, join)[above]

    def assume(self, condition: Expr) -> None:
        """Adds a condition to the assumptions. Raises _NoLine if it is false."""
        if condition == sympy.false:
            raise _NoLine
        if condition != sympy.true and condition not in self.assumed:
            self.assumed.append(condition)

    def larger(self, f: _Line, g: _Line, largest: bool) -> _Line:
        """The larger (`largest`) or the smaller of two lines, assuming that they cross within the axis."""
        if f == g:
            return f
        if f.bends or g.bends:
            raise _NoLine
        steeper = g.a - f.a
        if steeper == 0:
            return _Line((sympy.Max if largest else sympy.Min)(f.c, g.c), f.a)
        if not steeper.is_positive:
            if not steeper.is_negative:
                raise _NoLine
            f, g, steeper = g, f, -steeper
        u = sympy.expand((f.c - g.c) / steeper)
        if u.is_nonpositive:
            return g if largest else f
        self.assume(sympy.Ge(u, 0))
        self.assume(sympy.Le(u, self.q))
        bend = ((steeper if largest else -steeper, u),)
        return _Line((f if largest else g).c, (f if largest else g).a, bend)


def relaxed(bounds: LoopBounds, axis: str, q: Expr) -> Relaxed | None:
    """The positions that a loop reads in all tiles of an axis of size q, without rounding (the law at the head of the
    module).

    None if its bounds are not piecewise linear functions of the positions of one axis in a way that is known here.
    """
    lines = _Lines(axis, q)
    total = bounds.trip_count.expr()
    try:
        low, high = lines.of(bounds.lo, True), lines.of(bounds.hi, False)
        if low.bends or (low.a != 0 and not low.a.is_positive):
            lines.assume(sympy.Ge(low.c, 0))
            if low.bends or low.a != 0:
                lines.assume(sympy.Ge(low.end(q), 0))
        else:
            low = lines.larger(low, _Line(sympy.S.Zero, sympy.S.Zero), True)
        for at in dict.fromkeys((high.c, high.end(q))):
            if not sympy.expand(total - at).is_nonnegative:
                lines.assume(sympy.Le(sympy.expand(at), total))
        shared = high + low.times(sympy.Integer(-1))
        rising = sympy.Max(0, shared.a + sympy.Add(*(d for d, _ in shared.bends)))
        room = sympy.expand(2 * shared.end(q) - rising * (q - 1))
        if not room.is_nonnegative:
            lines.assume(sympy.Ge(sympy.expand(2 * shared.end(q)), sympy.expand(rising * (q - 1))))
    except _NoLine:
        return None
    last = {v[1] for v in _leaves_of(bounds.hi) if v[0] == "last"}
    first = {v[1] for v in _leaves_of(bounds.lo) if v[0] == "last"}
    beyond = (high.end(q) if last else high.c) - (low.end(q) if first else low.c)
    falls = sympy.Add(*(-d * u / 2 for d, u in shared.bends if d.is_negative))
    constant = beyond - (shared.c + shared.end(q)) / 2 - falls
    return Relaxed(sympy.expand(shared.area(q)), sympy.expand(constant), tuple(lines.assumed))


def _leaves_of(e: Bound) -> list[tuple[str, str]]:
    """The leaves of a bound that are not sizes or integers."""
    found: list[tuple[str, str]] = []

    def leaf(v: Any) -> None:
        if isinstance(v, tuple):
            found.append(v)

    read_off(e, leaf, lambda op, a, b: None)
    return found


def written_at(e: Bound, part: str) -> Bound:
    """A bound for the first part of a split loop."""
    return put_leaves(e, lambda v: 0 if v in (("first", part), ("last", part)) else v)


def at_least(
    amount: IntPolynomial,
    kernel: LoweredKernel,
    loops: tuple[Loop, ...],
    bounds: LoopBounds,
    share: Expr,
    split_loop: SplitLoop | None = None,
) -> tuple[Expr, tuple[Expr, ...]]:
    """A lower bound of `exactly` without rounding, and the conditions under which it holds."""
    ranges = {**kernel.tiles, **dict(loops)}
    found, assumed = sympy.S.Zero, tuple[Expr, ...]()
    if split_loop is not None and any(tile in split_loop.single for _, tile in bounds.tiles):
        # The parts add up to the whole range, so count from its start: 0, that of the first part.
        part = next(axis for axis, tile in bounds.tiles if tile in split_loop.single)
        lo, hi = (written_at(e, part) for e in (bounds.lo, bounds.hi))
        own = tuple((axis, tile) for axis, tile in bounds.tiles if axis != part)
        bounds = replace(bounds, lo=lo, hi=hi, trip_count=IntPolynomial.of(split_loop.axis_size), tiles=own)
        ranges = {name: whole for name, whole in ranges.items() if name not in split_loop.single}
    g: Sequence[str] = [tile for _, tile in bounds.tiles]
    axis = bounds.tiles[0][0] if len(g) == 1 else ""
    q = kernel.tiles[g[0]].expr() if len(g) == 1 else sympy.S.One
    line = relaxed(bounds, axis, q) if len(g) <= 1 else None
    if line is None:
        return found, ()
    assumed = line.assumed
    for monomial, coefficient in amount.terms.items():
        term = sympy.Integer(coefficient)
        for name in monomial:
            if name not in ranges:
                term *= symbol(name)
        for name, whole in ranges.items():
            power = monomial.count(name)
            if name == bounds.block:
                term *= symbol(name) ** (power - 1)
            elif name not in g:
                term *= whole.expr() * symbol(name) ** (power - 1)
        if not g:
            term *= line.constant + line.area
        elif monomial.count(g[0]) == 0:
            term *= line.area / symbol(g[0]) + line.constant
        else:
            # A position that the mask leaves for any row of a tile is read for the whole tile.
            term *= line.area
        found += share * term
    return found, assumed
