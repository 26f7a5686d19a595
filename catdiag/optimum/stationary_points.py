"""The candidate stationary points of an active set, by the known closed forms (`catdiag.optimum.closed_form`).

None is trusted: callers check each point.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

import sympy
from sympy import Expr, Symbol

from catdiag.optimum.active_sets import in_words
from catdiag.optimum.closed_form import by_root, by_shift, by_two_memories, weighted
from catdiag.optimum.closed_form_certificate import Problem
from catdiag.optimum.optimality_certificate import (
    FREE,
    ONE,
    Coordinate,
    PowerProgram,
    Stationary,
    derivative,
    reduced_to,
)
from catdiag.optimum.posynomial import (
    Posynomial,
    Powers,
    Tiles,
    combination,
    dominates,
    number,
    power,
    powers,
    value_at,
)


def stationary_points(
    program: PowerProgram,
    monomials: Sequence[Powers],
    ends: Sequence[Expr | None],
    status: Sequence[str],
    full: tuple[int, ...],
) -> Iterator[Stationary | str]:
    """The points of an active set that may be stationary; a text in place of one where no closed form is known."""
    fixed: Tiles = tuple(
        (m, sympy.S.One if h == ONE else end)
        for m, h, end in zip(monomials, status, ends, strict=True)
        if (h != FREE and end is not None) or h == ONE
    )
    names = [(m, sympy.Dummy(positive=True)) for m, h in zip(monomials, status, strict=True) if h == FREE]
    transfers = reduced_to(program.transfers, fixed, names)
    memory = {k: reduced_to(program.memory[k][0], fixed, names) for k in full}
    if any(not m.varying for m in memory.values()):
        return  # full only by coincidence
    solved: list[list[_Point]] = []
    for group in _components([name for _, name in names], [transfers, *memory.values()]):
        cost = Posynomial(tuple(t for t in transfers.varying if {v for v, _ in t.powers} <= group))
        mine = [k for k in full if memory[k].variables & group]
        if len(mine) > len(group):
            return
        limits = [(memory[k], program.memory[k][1]) for k in mine]
        points: list[_Point] | None
        if not mine or not cost.terms:
            points = [] if all(_one_sign(cost, v) for v in group) else None
        elif any(c == e and dominates(m, n) for (m, c), (n, e) in itertools.permutations(limits, 2)):
            return
        else:
            points = _closed(cost, limits, sorted(group, key=lambda v: [name for _, name in names].index(v)))
        if points is None:
            yield in_words(program, monomials, status, full)
            return
        solved.append([(sizes, {mine[k]: factor for k, factor in factors.items()}) for sizes, factors in points])
    for chosen in itertools.product(*solved):
        sizes = {v: size for of, _ in chosen for v, size in of.items()}
        factors = {k: factor for _, of in chosen for k, factor in of.items()}
        at = {**dict(fixed), **{m: sizes[name] for m, name in names}}
        coordinates = tuple(Coordinate(m, end, h, at[m]) for m, h, end in zip(monomials, status, ends, strict=True))
        value = value_at(program.transfers, tuple((c.monomial, c.size) for c in coordinates))
        yield Stationary(
            program, coordinates, tuple(factors.get(k, sympy.S.Zero) for k in range(len(program.memory))), value
        )


def _one_sign(cost: Posynomial, v: Symbol) -> bool:
    """Whether transfers are monotone in a coordinate, and therefore nowhere stationary."""
    signs = {e > 0 for t in cost.terms for u, e in t.powers if u == v}
    return len(signs) <= 1


def _components(names: Sequence[Symbol], parts: Sequence[Posynomial]) -> list[set[Symbol]]:
    """The connected components of free coordinates: joined by each term of transfers, and by each full memory."""
    links = [{v for v, _ in t.powers} for t in parts[0].varying] + [set(p.variables) for p in parts[1:]]
    groups = [{name} for name in names]
    for link in links:
        touched = [g for g in groups if g & link]
        if touched:
            groups = [g for g in groups if not g & link] + [set().union(*touched)]
    return groups


_Point: TypeAlias = tuple[dict[Symbol, Expr], dict[int, Expr]]
"""Sizes of free coordinates, and multipliers of full memories by position."""


def _closed(
    cost: Posynomial, memory: Sequence[tuple[Posynomial, Expr]], names: Sequence[Symbol]
) -> list[_Point] | None:
    """The stationary points with these memories full, or `None` where no closed form is known.

    The list is empty where some coordinates are undetermined: then another active set, with one of them at an end of
    its range, has an optimum as well.
    """
    rooms = [sympy.Dummy(positive=True) for _ in memory]
    back = {room: capacity - m.constant for room, (m, capacity) in zip(rooms, memory, strict=True)}
    by_shares = weighted(cost.terms, [(m, room) for room, (m, _) in zip(rooms, memory, strict=True)], names)
    if by_shares is not None:
        value, tiles, _, status = by_shares
        sizes = _each(tiles, names)
        factors = [number(sum(ws, Fraction(0))) * value / room for ws, room in zip(status, rooms, strict=True)]
        return [] if sizes is None else [_written(sizes, factors, back)]
    if len(memory) == 2 and len(names) == 2:
        points = by_two_memories(cost, memory, names)
        if points is not None:
            return points
    if len(memory) != 1:
        return _eliminated(cost, memory, names)
    resident, room = memory[0][0], rooms[0]
    problem = Problem(cost, (resident,), room + resident.constant)
    for attempt in (by_root, by_shift):
        answer = attempt(problem, names)
        if answer is None:
            continue
        sizes = _each(answer[1], names)
        if sizes is None:
            return []
        units, at = [powers({v: 1}) for v in names], tuple((powers({v: 1}), s) for v, s in sizes.items())
        i = next(i for i, v in enumerate(names) if v in resident.variables)
        slopes = [value_at(derivative(p, units, i), at) for p in (cost, resident)]
        return [_written(sizes, [-slopes[0] / slopes[1]], back)]
    return _eliminated(cost, memory, names)


def _eliminated(
    cost: Posynomial, memory: Sequence[tuple[Posynomial, Expr]], names: Sequence[Symbol]
) -> list[_Point] | None:
    """The stationary points where a memory of one term is full.

    Such a memory gives one coordinate as a product of powers of the others, which remain to be chosen. Its multiplier
    follows from the derivative in that coordinate.
    """
    k = next((k for k, (m, _) in enumerate(memory) if len(m.varying) == 1), None)
    if k is None:
        return None
    (term,), capacity = memory[k][0].varying, memory[k][1]
    (v, degree), *others = term.powers
    room = capacity - memory[k][0].constant
    unit = power(room / term.coefficient, 1 / degree)
    keys = [powers({v: 1, **{u: e / degree for u, e in others}})]
    left = [(powers({u: 1}), u) for u in names if u != v]
    fixed: Tiles = ((keys[0], unit),)
    try:
        parts = [reduced_to(p, fixed, left) for p in (cost, *(m for j, (m, _) in enumerate(memory) if j != k))]
    except ValueError:
        return None
    rest = [(m, c) for m, (_, c) in zip(parts[1:], (pair for j, pair in enumerate(memory) if j != k), strict=True)]
    if any(not m.varying for m, _ in rest):
        return []
    if any(u not in frozenset[Symbol]().union(parts[0].variables, *(m.variables for m, _ in rest)) for _, u in left):
        return []
    points = _closed(Posynomial(parts[0].varying), rest, [u for _, u in left]) if left else [({}, {})]
    found: list[_Point] = []
    for sizes, factors in points or ():
        size = unit * sympy.Mul(*(power(sizes[u], -e / degree) for u, e in others))
        at = {**sizes, v: size}
        by_place = {j if j < k else j + 1: factor for j, factor in factors.items()}
        tiles = tuple((powers({u: 1}), at[u]) for u in names)
        i, units = list(names).index(v), [powers({u: 1}) for u in names]
        slope = value_at(derivative(cost, units, i), tiles)
        for j, factor in by_place.items():
            slope += factor * value_at(derivative(memory[j][0], units, i), tiles)
        found.append((at, {**by_place, k: -slope / (number(degree) * room)}))
    return None if points is None else found


def _each(tiles: Tiles, names: Sequence[Symbol]) -> dict[Symbol, Expr] | None:
    """The size of each coordinate, or `None` where the monomials do not determine all of them."""
    keys, sizes = [key for key, _ in tiles], {}
    for v in names:
        steps = combination(keys, powers({v: 1}))
        if steps is None:
            return None
        sizes[v] = sympy.Mul(*(power(size, e) for (_, size), e in zip(tiles, steps, strict=True)))
    return sizes


def _written(sizes: Mapping[Symbol, Expr], factors: Sequence[Expr], back: Mapping[Expr, Expr]) -> _Point:
    return {v: size.subs(back) for v, size in sizes.items()}, {k: factor.subs(back) for k, factor in enumerate(factors)}
