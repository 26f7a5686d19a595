"""What of a memory's formula matters where sizes grow: the leading order of a posynomial, and branches of optima."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import sympy
from sympy import Expr, Symbol

from catdiag.optimum.posynomial import (
    Posynomial,
    PosynomialTerm,
    Powers,
    collect,
    powers,
    times,
)
from catdiag.util.errors import FormulaError


def branches(expression: Expr) -> tuple[Expr, ...]:
    """The expressions of which this is the maximum: `Max` moved out of sums and of products of positive factors. Raises
    FormulaError for a maximum inside of another function.

    >>> x, y = sympy.symbols("x y", positive=True)
    >>> branches(2 * sympy.Max(x, y) + 1)
    (2*x + 1, 2*y + 1)
    """
    if not expression.has(sympy.Max):
        return (expression,)
    parts = [branches(argument) for argument in expression.args]
    if isinstance(expression, sympy.Max):
        return tuple(sorted({b for part in parts for b in part}, key=sympy.default_sort_key))
    if isinstance(expression, sympy.Add):
        return tuple(sympy.Add(*choice) for choice in itertools.product(*parts))
    if isinstance(expression, sympy.Mul) and not any(a.is_negative for a in expression.args):
        return tuple(sympy.Mul(*choice) for choice in itertools.product(*parts))
    raise FormulaError(f"a maximum inside {expression} cannot be split into branches")


def leading_order(memory: Posynomial, streams: Sequence[Symbol], growing: Collection[Symbol]) -> Posynomial:
    """The leading terms of memory when sizes and the tiles `growing` are large.

    Terms with a stream block are dropped. Of those with the same powers of growing tiles, the ones of the highest total
    degree in sizes are kept. Then terms are dropped whose ratio to another decreases as tiles grow, at all sizes.

    >>> from catdiag.optimum.posynomial import posynomial
    >>> g, d, s = sympy.symbols("g d s", positive=True)
    >>> leading_order(posynomial(2 * d * g + 2 * d * s + g * s + 3 * g, [g]), [s], [g]).expr
    2*d*g
    """
    parts: dict[Powers, list[tuple[Expr, Powers]]] = {}
    for term in memory.terms:
        effective = powers({v: e for v, e in term.powers if v in growing})
        for monomial in sympy.Add.make_args(sympy.expand(term.coefficient)):
            if not monomial.free_symbols & set(streams):
                parts.setdefault(effective, []).append((monomial, term.powers))
    for effective, same in parts.items():
        highest = max(_degree(monomial) for monomial, _ in same)
        parts[effective] = [part for part in same if _degree(part[0]) == highest]

    def negligible(monomial: Expr, effective: Powers) -> bool:
        for other, kept in parts.items():
            gap = dict(times((other, 1), (effective, -1))).values()
            if gap and all(e > 0 for e in gap) and any(_bounded(monomial / c) for c, _ in kept):
                return True
        return False

    return collect(
        PosynomialTerm(monomial, original)
        for effective, same in parts.items()
        for monomial, original in same
        if not negligible(monomial, effective)
    )


def fastest_terms(transfers: Posynomial, growing: Collection[Symbol]) -> Posynomial:
    """The leading terms of transfers.

    A term is dropped if its ratio to another decreases with growing tiles and increases with no tile.
    """

    def falls(term: PosynomialTerm, other: PosynomialTerm) -> bool:
        gap = times((term.powers, 1), (other.powers, -1))
        return bool(other.powers and gap) and all(e < 0 and v in growing for v, e in gap)

    return Posynomial(tuple(t for t in transfers.terms if not any(falls(t, other) for other in transfers.terms)))


def _degree(monomial: Expr) -> Expr:
    """The total degree of a monomial in its symbols; a factor that is a sum counts with its degree as a polynomial."""
    total = sympy.Integer(0)
    for base, exponent in monomial.as_powers_dict().items():
        names = base.free_symbols
        if names:
            total += exponent * (sympy.Poly(base, *names).total_degree() if base.is_polynomial(*names) else 0)
    return total


def _bounded(ratio: Expr) -> bool:
    """Whether a ratio of monomials increases with no size."""
    return all(
        base.is_number or (base.is_Symbol and exponent.is_negative) for base, exponent in ratio.as_powers_dict().items()
    )
