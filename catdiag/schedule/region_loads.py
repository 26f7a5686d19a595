"""The loads of arrays that groups read in place, in the whole run, as formulas.

Take the footprint of `catdiag.schedule.footprint`, an axis of n positions and tiles of g. Summed over the tiles it is
σ·n + (δ·(k - 1) + 1 - σ)·⌈n/g⌉, minus what lies outside of the array. For a padding of p, the tiles lose p, p - σ·g, p
- 2·σ·g, … of it, at most p(p + 1)/2 in all on either side. The form without rounding is smaller by that much (derived
here). `catdiag.schedule.load_imbalance` computes the same in numbers.

>>> import catdiag as cd
>>> from catdiag.rewrite.group import find
>>> io = cd.Program(find(cd.library.get("conv1d").diagram, ["y"])).io()
>>> next(t.exact for t in io.traffic if t.array == "a")
c*k*n*ceiling(y/g_y) + c*n*y - c*n*ceiling(y/g_y)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy

from catdiag.category.index_maps import leaves
from catdiag.category.integer_polynomial import ZERO, IntPolynomial, symbol
from catdiag.schedule.footprint import AccessRange, linear
from catdiag.schedule.grid_formulas import GroupMax, GroupSum
from catdiag.schedule.lowered_kernel import LoweredKernel, Transfer
from catdiag.schedule.mask_counts import index_of, written
from catdiag.schedule.tile_counts import Ranges, power_sum, summed

Expr = Any
Cuts = Callable[[str], Sequence[Expr]]
"""The tiles of an axis at each level that cuts it, by the symbol of its tile at the first level."""


def most(side: AccessRange, kernel: LoweredKernel) -> Expr:
    """The most elements of the array that any group of a kernel reads along an axis, at least 1."""
    tile_ends, ends = _within([side], kernel, kernel.tiles)
    size = _clipped(side, tile_ends)
    for tile, j in ends.items():
        size = GroupMax(size, (j, 0, _last(tile, kernel)))
    return sympy.Max(1, size)


def _within(
    sides: Sequence[AccessRange], kernel: LoweredKernel, taken: Mapping[str, Any]
) -> tuple[dict[Any, Expr], dict[str, Expr]]:
    """The ends of the tiles that these sides depend on, as formulas of the group's index along each tile, and those
    indices."""
    tile_of = {axis: tile for tile, axis in kernel.axes.items()}
    mine = sorted({tile_of[v[1]] for s in sides for e in (s.start, s.stop) for v in leaves(e) if isinstance(v, tuple)})
    indices = {tile: index_of(kernel.axes[tile], taken) for tile in mine}
    tile_ends: dict[Any, Expr] = {}
    for tile, j in indices.items():
        g, whole = symbol(tile), kernel.tiles[tile].expr()
        tile_ends["first", kernel.axes[tile]] = g * j
        tile_ends["last", kernel.axes[tile]] = sympy.Min(whole, g * (j + 1)) - 1
    return tile_ends, indices


def _clipped(side: AccessRange, there: Mapping[Any, Expr]) -> Expr:
    """How many elements of a side lie in the array, given the ends of the tiles."""
    low, high = written(side.start, there), written(side.stop, there) + 1
    size = IntPolynomial.of(side.size).expr()
    return sympy.Max(0, (sympy.Min(size, high) if side.above else high) - (sympy.Max(0, low) if side.below else low))


def _last(tile: str, kernel: LoweredKernel) -> Expr:
    """The index of the last group along a tile."""
    return sympy.ceiling(kernel.tiles[tile].expr() / symbol(tile)) - 1


def moved(transfer: Transfer, kernel: LoweredKernel, cuts: Cuts) -> tuple[Expr, Expr]:
    """What all groups load of the array together: exactly, and without rounding (a lower bound).

    `cuts` gives the tiles of an axis at each level; one level only, if part of the footprint may lie outside of the
    array.
    """
    wholes = {**kernel.tiles, **dict(transfer.loops)}
    ranges = {name: (whole.expr(), cuts(name)) for name, whole in wholes.items()}
    partly = [side for side in transfer.region if not side.is_interior]
    if not partly:
        terms = transfer.local.terms.items()
        return summed(transfer.local, ranges), sympy.Add(*(c * _unrounded(monomial, ranges) for monomial, c in terms))
    tile_of = {axis: tile for tile, axis in kernel.axes.items()}
    tile_ends, indices = _within(partly, kernel, wholes)
    lengths = {
        tile: tile_ends["last", kernel.axes[tile]] + 1 - tile_ends["first", kernel.axes[tile]] for tile in indices
    }
    clipped_size = sympy.Mul(*(_clipped(side, tile_ends) for side in partly))
    exact = sympy.S.Zero
    for monomial, coefficient in transfer.local.terms.items():
        outside, inside = sympy.Integer(coefficient), clipped_size
        for name in monomial:
            if name not in ranges:
                outside *= symbol(name)
        for name, (whole, tiles) in ranges.items():
            power = monomial.count(name)
            if name in lengths:
                inside *= lengths[name] ** power
            else:
                outside *= power_sum(whole, tiles, power)
        for tile, j in indices.items():
            inside = GroupSum(inside, (j, 0, _last(tile, kernel)))
        exact += outside * inside
    return exact, sympy.expand(_less(transfer, kernel, ranges, tile_of, partly))


def _unrounded(monomial: Sequence[str], ranges: Ranges) -> Expr:
    """A monomial summed over the tiles of its axes, with n/g for ⌈n/g⌉."""
    term = sympy.S.One
    for name in monomial:
        if name not in ranges:
            term *= symbol(name)
    for name, (whole, tiles) in ranges.items():
        term *= whole * (tiles[-1] if tiles else whole) ** (monomial.count(name) - 1)
    return term


def _less(
    transfer: Transfer,
    kernel: LoweredKernel,
    ranges: Ranges,
    tile_of: Mapping[str, str],
    partly: Sequence[AccessRange],
) -> Expr:
    """The form without rounding, minus the most that may lie outside of the array; 0 if it is not known."""
    full: list[Expr] = []
    lost: list[Expr] = []
    used: set[str] = set()
    for side in partly:
        tiles = sorted({tile_of[v[1]] for e in (side.start, side.stop) for v in leaves(e) if isinstance(v, tuple)})
        if len(tiles) != 1 or tiles[0] in used:
            return sympy.S.Zero
        (tile,) = tiles
        used.add(tile)
        low, high = linear(side.start), linear(side.stop)
        step = low.get(("first", kernel.axes[tile]), ZERO).expr()
        if not step.is_positive:
            return sympy.S.Zero
        terms = side.length.terms.items()
        full.append(sympy.Add(*(c * _unrounded(m, {tile: ranges[tile]}) for m, c in terms)))
        below = -low.get(None, ZERO).expr()
        above = (
            high.get(None, ZERO).expr()
            + step * (kernel.tiles[tile].expr() - 1)
            + 1
            - IntPolynomial.of(side.size).expr()
        )
        beyond = (below if side.below else sympy.S.Zero, above if side.above else sympy.S.Zero)
        lost.append(sympy.Add(*(p * (p + 1) / 2 for p in beyond)))
    # A product of sums, each minus its loss, is at least the product minus each loss times the other sums.
    sums = sympy.Mul(*full)
    for k, less in enumerate(lost):
        sums -= less * sympy.Mul(*(f for j, f in enumerate(full) if j != k))
    rest = sympy.S.Zero
    for monomial, coefficient in transfer.local.terms.items():
        if used & set(monomial):
            return sympy.S.Zero
        rest += coefficient * _unrounded(monomial, {k: v for k, v in ranges.items() if k not in used})
    return sums * rest
