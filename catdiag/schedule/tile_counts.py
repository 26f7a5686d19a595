"""Tiles within tiles: the number of tiles, and sums of powers of their lengths.

The first level cuts an axis into tiles of `g1`, the last one smaller; each further level cuts every tile again. There
are remainders at every level, so the counts are sums over full tiles and one rest. Derived here.

>>> import sympy
>>> n, g, t = sympy.symbols("n g t", positive=True, integer=True)
>>> tile_count(n, (g,)), tile_count(n, (g, t)).subs({n: 23, g: 10, t: 4})       # 4 4 2, 4 4 2, 3
(ceiling(n/g), 7)
>>> power_sum(n, (g, t), 2).subs({n: 23, g: 10, t: 4})                     # sum of squares
81
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catdiag.category.integer_polynomial import IntPolynomial, symbol

Expr = Any
Ranges = Mapping[str, tuple[Expr, Sequence[Expr]]]
"""For the symbol of a tile: the size of its axis, and its tile sizes by level."""


def tile_count(whole: Expr, tiles: Sequence[Expr]) -> Expr:
    """The number of tiles of an axis at the last of these levels; 1 if no level cuts it.

    `whole` is the size of the axis and `tiles` are the tile sizes at each level, slowest first. All are positive
    integers.
    """
    import sympy

    if not tiles:
        return sympy.Integer(1)
    if len(tiles) == 1:
        return sympy.ceiling(whole / tiles[0])
    full = sympy.floor(whole / tiles[0])
    rest = whole - tiles[0] * full
    return full * tile_count(tiles[0], tiles[1:]) + tile_count(rest, tiles[1:])


def power_sum(whole: Expr, tiles: Sequence[Expr], power: int) -> Expr:
    """The sum of a power of the tile lengths, over all tiles of the last level."""
    import sympy

    if power == 0:
        return tile_count(whole, tiles)
    if power == 1 or not tiles:
        return whole**power
    full = sympy.floor(whole / tiles[0])
    rest = whole - tiles[0] * full
    if len(tiles) == 1:
        return full * tiles[0] ** power + rest**power
    return full * power_sum(tiles[0], tiles[1:], power) + power_sum(rest, tiles[1:], power)


def summed(amount: IntPolynomial, ranges: Ranges) -> Expr:
    """A local amount summed over all tiles of some axes.

    The sizes of an axis's tiles add up to the axis. An amount that does not depend on them is multiplied by their
    number.
    """
    import sympy

    total = sympy.S.Zero
    for monomial, coefficient in amount.terms.items():
        term = sympy.Integer(coefficient)
        for name in monomial:
            if name not in ranges:
                term = term * symbol(name)
        for name, (whole, tiles) in ranges.items():
            term = term * power_sum(whole, tiles, monomial.count(name))
        total = total + term
    return total
