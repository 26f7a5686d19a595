"""Which constraints bind, and the optimum where they do: the least transfers over real tiles between one and their
axes, as formulas with the sizes and capacities for which each holds.

A regime is a choice of tiles held at one, of tiles held at their axis, and of full memories, with the closed form of
what is left free (`catdiag.cost.optima.closed`) and a certificate (`catdiag.cost.optima.stationary`), whose
inequalities are the conditions of the regime: there, it is the optimum. Where memory is below what tiles of one need,
nothing fits: that is a regime too. Points that are optimal at none of some hundred random sizes are put aside; z3
decides whether the others cover all sizes. Where they do not, or z3 cannot tell, the choices that have no closed form
are listed. Where two regimes both hold they agree, since each is the optimum; `Regimes.disagreements` has z3 look for
an exception all the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import sympy
from sympy import Expr, Symbol
from sympy.core.relational import Relational

from catdiag.cost.optima.closed import by_root, by_shift, by_two_memories, weighted
from catdiag.cost.optima.likely import Sample
from catdiag.cost.optima.posynomial import (
    CertificateError,
    Posynomial,
    Powers,
    Problem,
    Term,
    Tiles,
    combination,
    dominates,
    number,
    power,
    powers,
    value_at,
)
from catdiag.cost.optima.signs import RLIMIT, Signs
from catdiag.cost.optima.stationary import (
    BOUND,
    FREE,
    ONE,
    Coordinate,
    Program,
    Stationary,
    check_stationary,
    coordinates_of,
    derivative,
    ranges,
    reduced_to,
)
from catdiag.errors import SizeError

_MOST = 200
"""How many choices of what binds are tried; the rest is `open`."""


_LONG = 90
"""How many operations the formulas of a regime, its value and its tiles, may have together."""
_WORK = 700
"""How many operations the formulas of all regimes may have."""


@dataclass(frozen=True)
class Regime:
    """The optimum where `conditions` hold. `tiles` gives the size of each tile, or of a product of powers of tiles
    where only that is determined. `certificate` is `None`, and `value` infinite, where nothing fits: then `least` is
    the least capacity that would do."""

    value: Expr
    tiles: Mapping[Expr, Expr]
    conditions: tuple[Relational, ...]
    certificate: Stationary | None
    least: Expr | None = None

    @property
    def feasible(self) -> bool:
        """Whether anything fits."""
        return self.certificate is not None

    @property
    def binding(self) -> str:
        """What binds, in words."""
        if self.certificate is None:
            return f"nothing fits below {self.least}"
        held = [
            f"{_product(c.monomial)} {'at its axis' if c.held == BOUND else 'at 1'}"
            for c in self.certificate.coordinates
            if c.held != FREE
        ]
        full = [_full(self.certificate.program, k) for k in self.certificate.full]
        return ", ".join([*full, *held]) or "nothing to choose"

    def holds(self, sizes: Mapping[Symbol, object]) -> bool:
        """Whether the conditions hold at sizes (of every symbol in them)."""
        return all(_real(relation).subs(sizes) == sympy.true for relation in self.conditions)

    def __str__(self) -> str:
        lines = [f"{self.binding}: {self.value if self.feasible else 'no tiles fit'}"]
        if self.tiles:
            lines.append("  at " + ", ".join(f"{tile} = {size}" for tile, size in self.tiles.items()))
        if self.conditions:
            lines.append("  if " + ", ".join(map(str, self.conditions)))
        return "\n".join(lines)


@dataclass(frozen=True)
class Regimes:
    """All regimes that were found. `covers` says whether z3 showed that at all sizes of at least one and all positive
    capacities one of them holds. Where it did not, `open` names the choices of what binds for which there is no closed
    form, and `unlikely` are points that were stationary at none of some hundred random sizes: only `at` looks at them.
    """

    regimes: tuple[Regime, ...]
    covers: bool
    open: tuple[str, ...] = ()
    unlikely: tuple[Stationary, ...] = field(default=(), repr=False)

    @property
    def piecewise(self) -> Expr:
        """The optimum as a `Piecewise`: infinite where nothing fits, and `nan` where none of the regimes holds."""
        pieces = [(r.value, sympy.And(*map(_real, r.conditions))) for r in self.regimes]
        return sympy.Piecewise(*pieces, (sympy.nan, True))

    def at(self, sizes: Mapping[Symbol, object] | Mapping[str, object]) -> Regime | None:
        """The regime at these sizes, given by symbol or by name; `None` where no closed form was found for what binds
        there. Raises SizeError where a size, a block or a capacity that the regimes depend on is missing."""
        sizes = self._named(sizes)
        found = next((r for r in self.regimes if r.holds(sizes)), None)
        for certificate in self.unlikely if found is None else ():
            regime = _checked(certificate)
            if not isinstance(regime, str) and regime.holds(sizes):
                return regime
        return found

    def _named(self, sizes: Mapping[Symbol, object] | Mapping[str, object]) -> dict[Symbol, object]:
        conditions = [c for r in self.regimes for c in r.conditions]
        wanted = {str(s): s for s in sorted(set[Symbol]().union(*(c.free_symbols for c in conditions)), key=str)}
        found: dict[Symbol, object] = {}
        for key, value in sizes.items():
            if isinstance(key, Symbol):
                found[key] = value
            elif key in wanted:
                found[wanted[key]] = value
        if missing := [name for name, s in wanted.items() if s not in found]:
            raise SizeError(
                f"the regimes depend on {', '.join(wanted)}: give {', '.join(missing)} too, as numbers by name"
            )
        return found

    def disagreements(self) -> tuple[tuple[Regime, Regime], ...]:
        """The pairs of regimes for which z3 does not show that they agree where both hold."""
        feasible = [r for r in self.regimes if r.feasible]
        signs = _signs(self.regimes, 8)
        return tuple(
            (one, other)
            for one, other in itertools.combinations(feasible, 2)
            if not signs.impossible([*one.conditions, *other.conditions, sympy.Ne(one.value, other.value)])
        )

    def __iter__(self) -> Iterator[Regime]:
        return iter(self.regimes)

    def __len__(self) -> int:
        return len(self.regimes)

    def __str__(self) -> str:
        lines = [*map(str, self.regimes), *(f"no closed form: {choice}" for choice in self.open)]
        return "\n".join([*lines, *([] if self.covers else ["not shown to cover all sizes"])])


def regimes(program: Program) -> Regimes:
    """The regimes of a program, each checked.

    >>> from catdiag.cost.optima.posynomial import posynomial
    >>> a, b, c, g_a, g_c, M = sympy.symbols("a b c g_a g_c M", positive=True)
    >>> f, m = posynomial(a*b*c/g_a + a*b*c/g_c, [g_a, g_c]), posynomial(g_a*g_c, [g_a, g_c])
    >>> found = regimes(Program(f, ((m, M),), ((g_a, a), (g_c, c))))
    >>> at = {a: 100, b: 100, c: 100}
    >>> [found.at({**at, M: size}).value for size in (400, 20000)]
    [2*a*b*c/sqrt(M), a*b + b*c]
    >>> found.at({"a": 100, "b": 100, "c": 100, "M": 400}).value
    2*a*b*c/sqrt(M)
    """
    monomials = coordinates_of(program)
    ends = ranges(program, monomials)
    found, left = _infeasible(program)
    options = [_options(program, monomials, i, end) for i, end in enumerate(ends)]
    touched = [[_touched(t, monomials) for t in p.terms] for p in (program.transfers, *(m for m, _ in program.memory))]
    sample, unlikely = Sample(program), list[Stationary]()
    seen = sample.nowhere
    for k in range(len(program.memory)):
        seen = seen | sample.too_small(k)
    tried = work = 0
    for held in sorted(itertools.product(*options), key=lambda choice: sum(h != FREE for h in choice)):
        for full in _subsets(len(program.memory), sum(h == FREE for h in held)):
            if not _stopped(touched, held, full):
                continue
            tried += 1
            if tried > _MOST:
                left.append(f"more than {_MOST} choices of what binds")
                break
            for answer in _stationary(program, monomials, ends, held, full):
                if isinstance(answer, str):
                    left.append(answer)
                elif (operations := _operations(answer)) > _LONG:
                    left.append(f"{_named(program, answer.coordinates, full)} (no short one)")
                elif not (here := sample.holds(answer)).any():
                    unlikely.append(answer)
                elif (work := work + operations) > _WORK:
                    left.append(f"{_named(program, answer.coordinates, full)} (not worked out)")
                elif isinstance(regime := _checked(answer), str):
                    left.append(regime)
                elif sympy.false not in regime.conditions:
                    found.append(regime)
                    seen = seen | here
    covers = bool(seen.all()) and _cover(found)
    if not covers and not left:
        looked = [_checked(certificate) for certificate in unlikely]
        found += [r for r in looked if not isinstance(r, str) and sympy.false not in r.conditions]
        unlikely, covers = [], _cover(found)
    if covers:
        return Regimes(tuple(found), True)
    return Regimes(tuple(found), False, tuple(dict.fromkeys(left)), tuple(unlikely))


def _operations(certificate: Stationary) -> int:
    """How many operations a point's formulas have: too many are not read by anyone, nor checked in a moment."""
    return sum(int(e.count_ops()) for e in (certificate.value, *(c.size for c in certificate.coordinates)))


def _cover(found: Sequence[Regime]) -> bool:
    return _signs(found).impossible([], [r.conditions for r in found])


def _signs(found: Sequence[Regime], more: int = 1) -> Signs:
    memories = {c for r in found if r.certificate for _, c in r.certificate.program.memory}
    return Signs({c for c in memories if c.is_Symbol}, more * RLIMIT)


def _real(relation: Relational) -> Relational:
    """A relation that may be evaluated anywhere: roots of what may be negative are taken of zero there. That they are
    of nothing negative is a condition of its own."""
    return relation.replace(
        lambda e: e.is_Pow and e.exp.is_Rational and not e.exp.is_Integer and not e.base.is_nonnegative,
        lambda e: sympy.Pow(sympy.Max(0, e.base), e.exp),
    )


def _checked(certificate: Stationary) -> Regime | str:
    try:
        conditions = check_stationary(certificate)
    except CertificateError as error:
        return f"{_named(certificate.program, certificate.coordinates, certificate.full)} ({error})"
    tiles = {_product(c.monomial): c.size for c in certificate.coordinates}
    return Regime(certificate.value, tiles, conditions, certificate)


def _infeasible(program: Program) -> tuple[list[Regime], list[str]]:
    """A regime for each memory that may be too small for tiles of one."""
    found, left = [], []
    ones = tuple((powers({v: 1}), sympy.S.One) for v, _ in program.tiles)
    for k, (memory, capacity) in enumerate(program.memory):
        least = value_at(memory, ones)
        if any(e < 0 for t in memory.terms for _, e in t.powers):
            if sympy.Le(least, capacity) != sympy.true:
                left.append(f"memory {k} falls with a tile, so the least that would do has no closed form")
            continue
        others = [(value_at(m, ones), c) for j, (m, c) in enumerate(program.memory) if j != k]
        if any(c == capacity and _above(m, least) for m, c in others):
            continue
        too_small = sympy.Lt(capacity, least)
        if too_small != sympy.false:
            found.append(Regime(sympy.oo, {}, () if too_small == sympy.true else (too_small,), None, least))
    return found, left


def _above(larger: Expr, smaller: Expr) -> bool:
    return larger != smaller and bool((larger - smaller).is_nonnegative)


def _options(program: Program, monomials: Sequence[Powers], i: int, end: Expr | None) -> list[str]:
    """Where an optimum may have a coordinate: what is certain from signs alone is settled here."""

    growing = {e > 0 for term in program.terms if (e := _power(term, monomials, i))}
    if False not in growing:
        return [ONE]
    if True not in growing and end is not None:
        return [BOUND]
    return [FREE, BOUND, ONE] if end is not None else [FREE, ONE]


def _power(term: Term, monomials: Sequence[Powers], i: int) -> Fraction:
    steps = combination(monomials, term.powers)
    return steps[i] if steps else Fraction(0)


def _touched(term: Term, monomials: Sequence[Powers]) -> frozenset[int]:
    return frozenset(i for i, e in enumerate(combination(monomials, term.powers) or ()) if e)


def _stopped(touched: Sequence[Sequence[frozenset[int]]], held: Sequence[str], full: tuple[int, ...]) -> bool:
    """Whether no memory is full by chance only: one without free coordinates, or more memories than there are
    coordinates in a group that transfers or full memories join."""
    free = {i for i, h in enumerate(held) if h == FREE}
    whole = [frozenset[int]().union(*touched[1 + k]) & free for k in full]
    groups: list[tuple[frozenset[int], int]] = [(frozenset((i,)), 0) for i in sorted(free)]
    for link, count in [*((t & free, 0) for t in touched[0]), *((m, 1) for m in whole)]:
        met = [g for g in groups if g[0] & link]
        if met:
            groups = [g for g in groups if not g[0] & link]
            groups.append((frozenset[int]().union(*(g for g, _ in met)), count + sum(n for _, n in met)))
    return all(whole) and all(count <= len(group) for group, count in groups)


def _subsets(memories: int, free: int) -> Iterator[tuple[int, ...]]:
    for count in range(min(memories, free) + 1):
        yield from itertools.combinations(range(memories), count)


def _stationary(
    program: Program,
    monomials: Sequence[Powers],
    ends: Sequence[Expr | None],
    held: Sequence[str],
    full: tuple[int, ...],
) -> Iterator[Stationary | str]:
    """The points of a choice that may be stationary; text where no closed form is known."""
    fixed: Tiles = tuple(
        (m, sympy.S.One if h == ONE else end)
        for m, h, end in zip(monomials, held, ends, strict=True)
        if (h != FREE and end is not None) or h == ONE
    )
    names = [(m, sympy.Dummy(positive=True)) for m, h in zip(monomials, held, strict=True) if h == FREE]
    transfers = reduced_to(program.transfers, fixed, names)
    memory = {k: reduced_to(program.memory[k][0], fixed, names) for k in full}
    if any(not m.varying for m in memory.values()):
        return  # full by chance only
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
            yield _choice(program, monomials, held, full)
            return
        solved.append([(sizes, {mine[k]: factor for k, factor in factors.items()}) for sizes, factors in points])
    for chosen in itertools.product(*solved):
        sizes = {v: size for of, _ in chosen for v, size in of.items()}
        factors = {k: factor for _, of in chosen for k, factor in of.items()}
        at = {**dict(fixed), **{m: sizes[name] for m, name in names}}
        coordinates = tuple(Coordinate(m, end, h, at[m]) for m, h, end in zip(monomials, held, ends, strict=True))
        value = value_at(program.transfers, tuple((c.monomial, c.size) for c in coordinates))
        yield Stationary(
            program, coordinates, tuple(factors.get(k, sympy.S.Zero) for k in range(len(program.memory))), value
        )


def _one_sign(cost: Posynomial, v: Symbol) -> bool:
    """Whether transfers surely change with a coordinate, always the same way, so that they are nowhere stationary."""
    signs = {e > 0 for t in cost.terms for u, e in t.powers if u == v}
    return len(signs) <= 1


def _components(names: Sequence[Symbol], parts: Sequence[Posynomial]) -> list[set[Symbol]]:
    """Free coordinates in groups that no term, and no full memory, joins: transfers by terms, memory whole."""
    links = [{v for v, _ in t.powers} for t in parts[0].varying] + [set(p.variables) for p in parts[1:]]
    groups = [{name} for name in names]
    for link in links:
        touched = [g for g in groups if g & link]
        if touched:
            groups = [g for g in groups if not g & link] + [set().union(*touched)]
    return groups


_Point: TypeAlias = tuple[dict[Symbol, Expr], dict[int, Expr]]
"""Sizes of free coordinates, and multipliers of full memories by their place."""


def _closed(
    cost: Posynomial, memory: Sequence[tuple[Posynomial, Expr]], names: Sequence[Symbol]
) -> list[_Point] | None:
    """The stationary points with these memories full, or `None` where no closed form is known. None is listed where
    some coordinates are undetermined: then an optimum lies in another choice too, where one of them is held."""
    rooms = [sympy.Dummy(positive=True) for _ in memory]
    back = {room: capacity - m.constant for room, (m, capacity) in zip(rooms, memory, strict=True)}
    by_shares = weighted(cost.terms, [(m, room) for room, (m, _) in zip(rooms, memory, strict=True)], names)
    if by_shares is not None:
        value, tiles, _, held = by_shares
        sizes = _each(tiles, names)
        factors = [number(sum(ws, Fraction(0))) * value / room for ws, room in zip(held, rooms, strict=True)]
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
    """The stationary points where a memory of one term is full: that gives one coordinate as a product of powers of the
    others, which are left to choose; its multiplier follows from that coordinate's derivative."""
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
    """The size of each coordinate, where monomials determine all of them."""
    keys, sizes = [key for key, _ in tiles], {}
    for v in names:
        steps = combination(keys, powers({v: 1}))
        if steps is None:
            return None
        sizes[v] = sympy.Mul(*(power(size, e) for (_, size), e in zip(tiles, steps, strict=True)))
    return sizes


def _written(sizes: Mapping[Symbol, Expr], factors: Sequence[Expr], back: Mapping[Expr, Expr]) -> _Point:
    return {v: size.subs(back) for v, size in sizes.items()}, {k: factor.subs(back) for k, factor in enumerate(factors)}


def _choice(program: Program, monomials: Sequence[Powers], held: Sequence[str], full: Sequence[int]) -> str:
    words = [f"{_product(m)} {h}" for m, h in zip(monomials, held, strict=True)]
    return ", ".join([*(_full(program, k) for k in full), *words])


def _full(program: Program, k: int) -> str:
    """A full memory in words; of a tile cut from another, that it is all of it."""
    memory, capacity = program.memory[k]
    if capacity == 1 and len(memory.terms) == 1 and memory.terms[0].coefficient == 1:
        signs = [[(v, abs(e)) for v, e in memory.terms[0].powers if (e > 0) == sign] for sign in (True, False)]
        return " = ".join(str(_product(tuple(side))) for side in signs)
    return f"{capacity} full"


def _named(program: Program, coordinates: Sequence[Coordinate], full: Sequence[int]) -> str:
    return _choice(program, [c.monomial for c in coordinates], [c.held for c in coordinates], full)


def _product(monomial: Powers) -> Expr:
    return sympy.Mul(*(power(v, Fraction(e)) for v, e in monomial))
