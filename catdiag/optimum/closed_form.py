"""The closed forms of geometric programs that are known, with their tiles.

None of these functions searches, and none is trusted: callers check what they get
(`catdiag.optimum.closed_form_certificate.check_certificate`, `catdiag.optimum.optimality_certificate`).

Sources: the dual of geometric programs of zero degree of difficulty is from Duffin, Peterson, Zener, *Geometric
Programming* (1967), chapter 3. One tile by the root of a quadratic, and two tiles with their product, are derived here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import sympy
from sympy import Expr, Symbol

from catdiag.optimum.closed_form_certificate import Monotone, Problem, Shifted, Weights, two_tiles
from catdiag.optimum.posynomial import (
    CertificateError,
    Posynomial,
    PosynomialTerm,
    Tiles,
    combination,
    echelon,
    number,
    power,
    powers,
    settled,
    times,
)


def exponents_of(problem: Problem, groups: Sequence[Symbol]) -> list[list[Fraction]]:
    """The exponent matrix: one row for each varying term, transfers first."""
    terms = [*problem.transfers.varying, *(t for b in problem.memory for t in b.varying)]
    return [[t.exponents.get(v, Fraction(0)) for v in groups] for t in terms]


Found: TypeAlias = tuple[Expr, Tiles, Weights | Monotone | Shifted | None]


def nothing_left(problem: Problem, groups: Sequence[Symbol]) -> Found | None:
    """The case without varying transfers: nothing to choose."""
    return None if problem.transfers.varying else (problem.transfers.constant, (), None)


def by_weights(problem: Problem, groups: Sequence[Symbol]) -> Found | None:
    """Zero degree of difficulty under one memory."""
    if len(problem.memory) != 1:
        return None
    memory = problem.memory[0]
    found = weighted(problem.transfers.varying, [(memory, problem.capacity - memory.constant)], groups)
    if found is None:
        return None
    varying, tiles, transfers, (weights_of_memory,) = found
    return problem.transfers.constant + varying, tiles, Weights(transfers, weights_of_memory)


def weighted(
    costs: Sequence[PosynomialTerm], memory: Sequence[tuple[Posynomial, Expr]], groups: Sequence[Symbol]
) -> tuple[Expr, Tiles, tuple[Fraction, ...], tuple[tuple[Fraction, ...], ...]] | None:
    """The closed form of a program of zero degree of difficulty; `None` for any other, or without positive weights.

    `memory` pairs each memory with its room: the capacity less what no tile changes. Gives the value, the sizes of
    monomials of tiles, and the dual weights of transfers and of each memory. The weights solve one linear system. At
    the optimum each term is a known share of its sum. Reducing `[exponents | identity]` gives the monomials of tiles
    that are determined, each as a product of terms of known value.
    """
    terms = [*costs, *(t for m, _ in memory for t in m.varying)]
    exponents = [[t.exponents.get(v, Fraction(0)) for v in groups] for t in terms]
    count, zero, one = len(terms), Fraction(0), Fraction(1)
    system = [[row[i] for row in exponents] + [zero] for i in range(len(groups))]
    solved, pivots = echelon([[one] * len(costs) + [zero] * (count - len(costs)) + [one], *system])
    if pivots != list(range(count)):
        return None
    weights = [row[-1] for row in solved[:count]]
    if any(w <= 0 for w in weights):
        return None
    factors = [power(t.coefficient / number(w), w) for t, w in zip(costs, weights)]
    shares, weights_of_memory, start = [], [], len(costs)
    for resident, room in memory:
        mine = tuple(weights[start : start + len(resident.varying)])
        start, whole = start + len(mine), sum(mine, Fraction(0))
        shares += [room * number(w / whole) / t.coefficient for w, t in zip(mine, resident.varying)]
        weights_of_memory.append(mine)
    factors += [power(1 / share, w) for share, w in zip(shares, weights[len(costs) :])]
    varying = sympy.Mul(*factors)
    shares = [varying * number(w) / t.coefficient for w, t in zip(weights, costs)] + shares
    # Memory first: its shares are the simpler expressions.
    order = [*range(len(costs), count), *range(len(costs))]
    rows, leads = echelon([exponents[i] + [one if i == j else zero for j in order] for i in order])
    tiles = []
    for row, lead in zip(rows, leads):
        if lead < len(groups):
            key = powers(dict(zip(groups, row)))
            parts = (power(shares[i], e) for i, e in zip(order, row[len(groups) :]) if e)
            tiles.append((key, sympy.Mul(*parts)))
    return varying, tuple(tiles), tuple(weights[: len(costs)]), tuple(weights_of_memory)


def by_root(problem: Problem, groups: Sequence[Symbol]) -> Found | None:
    """One monomial `x`, where each branch of the memory is linear or quadratic in one power of `x`."""
    limiting = [b for b in problem.memory if b.varying]
    if not limiting:
        return None
    first = limiting[0].varying[0].powers
    shared = math.gcd(*(e.numerator for _, e in first))
    first = times((first, Fraction(math.lcm(*(e.denominator for _, e in first)), shared)))
    roots, values = [], []
    for branch in limiting:
        found = [combination([first], t.powers) for t in branch.varying]
        if any(f is None or f[0] <= 0 for f in found):
            return None
        by_degree = {f[0]: t.coefficient for f, t in zip(found, branch.varying) if f is not None}
        low, room = min(by_degree), problem.capacity - branch.constant
        if len(by_degree) == 1:
            unit = room / by_degree[low]
        elif set(by_degree) == {low, 2 * low}:
            alpha, beta = by_degree[2 * low], by_degree[low]
            unit = 2 * room / (beta + sympy.sqrt(sympy.factor(beta**2 + 4 * alpha * room)))
        else:
            return None
        roots.append(power(unit, 1 / low))
        values.append(value := sympy.Integer(0))
        for term in problem.transfers.terms:
            step = combination([first], term.powers)
            if step is None or step[0] > 0:
                return None
            value += term.coefficient * power(unit, step[0] / low)
        values[-1] = value
    proof = Monotone(first, tuple(roots), tuple(values))
    return sympy.Max(*values), ((first, sympy.Min(*roots)),), proof


def by_shift(problem: Problem, groups: Sequence[Symbol]) -> Found | None:
    """Two tiles, or two independent monomials of tiles, and their product."""
    falling = [times((t.powers, -1)) for t in problem.transfers.varying]
    for x, y in itertools.combinations(falling, 2):
        try:
            a, b, c, alpha, beta, gamma, room = two_tiles(problem, x, y)
        except CertificateError:
            continue
        floor = alpha * room + beta * gamma
        root = square_root(a * b * floor)
        bound = sympy.factor_terms(c * alpha + a * beta + b * gamma + 2 * root) / room
        # The sizes at U = root/A', V = root/B', where U = S/x - beta and V = S/y - gamma.
        tiles = (
            (x, room / (beta + square_root(floor * b / a))),
            (y, room / (gamma + square_root(floor * a / b))),
        )
        return problem.transfers.constant + bound, settled(tiles), Shifted(x, y, root)
    return None


def square_root(expression: Expr) -> Expr:
    """A square root with squares of factors moved outside.

    Sympy would write `Abs` for a factor of unknown sign. Here the conditions settle the sign: only the positive root
    gives tiles of at least one.
    """
    result = sympy.Integer(1)
    for side, sign in zip(sympy.fraction(sympy.together(expression)), (1, -1)):
        constant, factors = sympy.factor_list(side)
        result *= sympy.sqrt(constant) ** sign
        under = sympy.Integer(1)
        for factor, count in factors:
            result *= factor ** (sign * (count // 2))
            under *= factor ** (count % 2)
        result *= sympy.sqrt(under) ** sign
    return result


def by_two_memories(
    cost: Posynomial, memory: Sequence[tuple[Posynomial, Expr]], names: Sequence[Symbol]
) -> list[tuple[dict[Symbol, Expr], dict[int, Expr]]] | None:
    """Two tiles x, y with two full memories `alpha*x*y + beta*x + gamma*y`: up to two solutions, with multipliers.

    Gives for each solution the sizes and the multipliers of the memories, by Cramer's rule. `None` for memories of
    another form. Derived here.
    """
    x, y = names
    keys = (powers({x: 1, y: 1}), powers({x: 1}), powers({y: 1}))
    rows = []
    for p, capacity in memory:
        of = {t.powers: t.coefficient for t in p.varying}
        if not set(of) <= set(keys):
            return None
        rows.append([*(of.get(key, sympy.S.Zero) for key in keys), capacity - p.constant])
    (first, second), pairs = rows, []
    if first[0] == 0:
        first, second = second, first
    # Both memories are full on the line along - across * x - up * y = 0.
    across, up, along = (sympy.expand(second[0] * u - first[0] * v) for u, v in zip(first[1:], second[1:]))
    if first[0] == 0:
        (_, across, up, along), first = second, [sympy.S.Zero, *first[1:]]
    alpha, beta, gamma, room = first
    if up == 0 and across == 0:
        return []
    if up == 0:
        size = along / across
        pairs.append((size, (room - beta * size) / (alpha * size + gamma)))
    else:
        a, b, c = -alpha * across, alpha * along + beta * up - gamma * across, gamma * along - room * up
        if sympy.expand(a) == 0:
            found = [-c / b] if sympy.expand(b) != 0 else []
        else:
            root = sympy.sqrt(sympy.factor(sympy.expand(b**2 - 4 * a * c)))
            found = [(-b + root) / (2 * a), (-b - root) / (2 * a)]
        pairs += [(size, (along - across * size) / up) for size in found]
    points = []
    for sizes in pairs:
        at = {x: sizes[0], y: sizes[1]}
        slopes = [[(v * p.expr.diff(v)).subs(at) for v in names] for p in (cost, *(p for p, _ in memory))]
        (fx, fy), (mx, my), (nx, ny) = slopes
        whole = mx * ny - my * nx
        points.append((at, {0: (fy * nx - fx * ny) / whole, 1: (fx * my - fy * mx) / whole}))
    return points
