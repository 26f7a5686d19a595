"""Minimax: the largest of several edges' transfers, for edges that work at the same time, as a geometric program.

Minimizing `max_e H_e` is minimizing `unit * t` with each `H_e <= unit * t`: a posynomial program with one more unknown
(Boyd, Kim, Vandenberghe, Hassibi, *A tutorial on geometric programming*, 2007, section 3.3). `unit` is a lower bound of
one of the edges, so that `t` is at least one, like a tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy
from sympy import Expr, Symbol

from catdiag.optimum.optimality_certificate import PowerProgram
from catdiag.optimum.posynomial import Posynomial, PosynomialTerm, collect, power, powers, times
from catdiag.util.errors import FormulaError

NAME = "slowest"
"""The name of the unknown among the tiles; underscores are added where a size has that name."""


def minimax(edges: Sequence[Posynomial], rest: PowerProgram, bounds: Mapping[Symbol, Expr]) -> PowerProgram:
    """`rest` with the largest of `edges` as its transfers.

    `bounds` gives the upper bound of each tile, which may be another tile. Raises FormulaError where no edge has a
    positive lower bound.

    >>> from catdiag.optimum.posynomial import posynomial
    >>> n, g, M = sympy.symbols("n g M", positive=True)
    >>> rest = PowerProgram(Posynomial(()), ((posynomial(g, [g]), M),), ((g, n),))
    >>> found = minimax([posynomial(n**2 / g, [g]), posynomial(3 * n, [g])], rest, {g: n})
    >>> found.transfers.expr, [memory.expr for memory, _ in found.memory]
    (n*slowest, [g, n/(g*slowest), 3/slowest])
    """
    whole = {v: _outermost(v, bounds) for v, _ in rest.tiles}
    units = [u for edge in edges if (u := _lower_bound(edge, whole)) != 0]
    if not units:
        raise FormulaError("no edge has a lower bound above zero: give the bounds of tiles")
    unit, name = units[0], NAME
    while name in {s.name for s in rest.symbols | {v for v, _ in rest.tiles}}:
        name += "_"
    most = Symbol(name, positive=True)
    limits = []
    for edge in edges:
        terms = (
            PosynomialTerm(t.coefficient / unit, times((t.powers, 1), (powers({most: 1}), -1))) for t in edge.terms
        )
        limits.append((collect(terms), sympy.S.One))
    objective = Posynomial((PosynomialTerm(unit, powers({most: 1})),))
    return PowerProgram(objective, (*rest.memory, *limits), (*rest.tiles, (most, None)))


def _outermost(tile: Symbol, bounds: Mapping[Symbol, Expr]) -> Expr | None:
    """The bound of a tile in terms of sizes alone."""
    end = bounds.get(tile)
    for _ in bounds:
        if end is None or not end.free_symbols & set(bounds):
            break
        end = end.subs(bounds)
    return end


def _lower_bound(edge: Posynomial, whole: Mapping[Symbol, Expr | None]) -> Expr:
    """A lower bound of an edge's transfers: each term at the tiles that minimize it."""
    total = sympy.S.Zero
    for term in edge.terms:
        ends = [(whole[v], e) for v, e in term.powers if e < 0]
        if all(end is not None for end, _ in ends):
            total += term.coefficient * sympy.Mul(*(power(end, e) for end, e in ends if end is not None))
    return sympy.factor(total)
