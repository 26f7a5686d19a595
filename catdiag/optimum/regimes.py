"""The regimes of an optimum: which constraints bind, with a formula and the sizes and capacities where it holds.

The optimum is the least transfers over real tiles between one and their axes. A regime is an active set: tiles at one,
tiles at their axis, and full memories, with the closed form of the free tiles (`catdiag.optimum.closed_form`) and a
certificate (`catdiag.optimum.optimality_certificate`). The inequalities of the certificate are the conditions of the
regime; where they hold, its formula is the optimum. Where memory is below what tiles of one need, nothing fits; that is
a regime too.

The active sets at some hundred random sizes are derived, the most frequent first, within a limit on the length of
formulas. z3 decides whether these regimes cover all sizes. Where they do not, or z3 cannot decide, the active sets that
have no closed form, or were too much work, are listed, and `Regimes.at` tries them. Where two regimes both hold they
agree, since each is the optimum; `Regimes.disagreements` lets z3 search for an exception all the same.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
from sympy import Expr, Symbol
from sympy.core.relational import Relational

from catdiag.optimum.active_constraints import Choice
from catdiag.optimum.active_sets import (
    AT_AXIS,
    AT_ONE,
    ActiveConstraint,
    choices,
    full_memory,
    in_words,
    options_of,
    product,
)
from catdiag.optimum.optimality_certificate import (
    BOUND,
    FREE,
    Coordinate,
    PowerProgram,
    Stationary,
    check_stationary,
    coordinates_of,
    ranges,
)
from catdiag.optimum.posynomial import CertificateError, Powers, powers, value_at
from catdiag.optimum.screening import ScreeningSample
from catdiag.optimum.sign_proofs import RLIMIT, SignSolver
from catdiag.optimum.stationary_points import stationary_points
from catdiag.util.display import AsHTML
from catdiag.util.errors import SizeError

_MOST = 25
"""The number of active sets tried that bind at none of the random sizes; the rest is `open`."""


_LONG = 90
"""The most operations that the formulas of a regime (value and tiles together) may have."""
_WORK = 55_000
"""A limit on the work of checking: per regime, the square of its operations times the terms of the program."""
_FURTHER = 40_000
"""The additional work allowed for regimes that hold at none of the random sizes, where the others do not cover all."""
_DERIVED = 1200
"""After this many operations in all derived formulas, active sets of two or more free tiles are no longer derived."""


@dataclass(frozen=True)
class Regime:
    """The optimum where `conditions` hold.

    `tiles` gives the size of each tile, or of a product of powers of tiles where only that is determined. Where nothing
    fits, `certificate` is `None`, `value` is infinite, and `minimum` is the smallest capacity that would suffice.
    """

    value: Expr
    tiles: Mapping[Expr, Expr]
    conditions: tuple[Relational, ...]
    certificate: Stationary | None
    minimum: Expr | None = None

    @property
    def feasible(self) -> bool:
        """Whether anything fits."""
        return self.certificate is not None

    @property
    def active(self) -> tuple[ActiveConstraint, ...]:
        """The constraints that bind: full memories first. None where nothing fits."""
        if self.certificate is None:
            return ()
        full = [full_memory(self.certificate.program, k) for k in self.certificate.full]
        fixed = [c for c in self.certificate.coordinates if c.status != FREE]
        return (
            *full,
            *(ActiveConstraint((product(c.monomial),), AT_AXIS if c.status == BOUND else AT_ONE) for c in fixed),
        )

    @property
    def binding(self) -> str:
        """The constraints that bind, in words."""
        if self.certificate is None:
            return f"nothing fits below {self.minimum}"
        return ", ".join(map(str, self.active)) or "nothing to choose"

    def contains(self, sizes: Mapping[Symbol, object]) -> bool:
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
class Regimes(AsHTML):
    """All regimes that were found.

    `covers` says whether z3 showed that one of them holds at all sizes of at least one and all positive capacities.
    Where it did not, `open` names the active sets without a closed form, or without a short one. `program` and
    `screened_out` (the active sets that bind at none of some hundred random sizes, or were too much work) serve `at`
    only.
    """

    regimes: tuple[Regime, ...]
    covers: bool
    open: tuple[str, ...] = ()
    program: PowerProgram | None = field(default=None, repr=False)
    screened_out: tuple[Choice, ...] = field(default=(), repr=False)

    @property
    def piecewise(self) -> Expr:
        """The optimum as a `Piecewise`: infinite where nothing fits, and `nan` where none of the regimes holds."""
        pieces = [(r.value, sympy.And(*map(_real, r.conditions))) for r in self.regimes]
        return sympy.Piecewise(*pieces, (sympy.nan, True))

    def at(self, sizes: Mapping[Symbol, object] | Mapping[str, object]) -> Regime | None:
        """The regime at these sizes, given by symbol or by name; `None` where no closed form was found there.

        Raises SizeError where a size, a block or a capacity that the regimes depend on is missing.
        """
        sizes = self._named(sizes)
        found = next((r for r in self.regimes if r.contains(sizes)), None)
        if found is not None or self.program is None:
            return found
        program, monomials = self.program, coordinates_of(self.program)
        ends = ranges(program, monomials)
        for choice in self._ordered(sizes, monomials, ends):
            for point in stationary_points(program, monomials, ends, *choice):
                if isinstance(point, str) or _operations(point) > _LONG:
                    continue
                regime = _checked(point)
                if not isinstance(regime, str) and regime.contains(sizes):
                    return regime
        return None

    def _ordered(
        self, sizes: Mapping[Symbol, object], monomials: Sequence[Powers], ends: Sequence[Expr | None]
    ) -> Sequence[Choice]:
        """The active sets that were not derived; only the one that binds at these sizes, if it is found numerically."""
        if self.program is None or not self.program.symbols <= set(sizes):
            return self.screened_out
        options = [options_of(self.program, monomials, i, end) for i, end in enumerate(ends)]
        at = {s: float(sympy.sympify(sizes[s])) for s in self.program.symbols}
        (binds,) = ScreeningSample(self.program, at).binding(monomials, ends, options)
        return [binds] if binds in self.screened_out else self.screened_out if binds is None else ()

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


def regimes(program: PowerProgram) -> Regimes:
    """The regimes of a program, each checked.

    >>> from catdiag.optimum.posynomial import posynomial
    >>> a, b, c, g_a, g_c, M = sympy.symbols("a b c g_a g_c M", positive=True)
    >>> f, m = posynomial(a*b*c/g_a + a*b*c/g_c, [g_a, g_c]), posynomial(g_a*g_c, [g_a, g_c])
    >>> found = regimes(PowerProgram(f, ((m, M),), ((g_a, a), (g_c, c))))
    >>> at = {a: 100, b: 100, c: 100}
    >>> [found.at({**at, M: size}).value for size in (400, 20000)]
    [2*a*b*c/sqrt(M), a*b + b*c]
    >>> found.at({"a": 100, "b": 100, "c": 100, "M": 400}).value
    2*a*b*c/sqrt(M)
    """
    monomials = coordinates_of(program)
    ends = ranges(program, monomials)
    found, left = _infeasible(program)
    options = [options_of(program, monomials, i, end) for i, end in enumerate(ends)]
    search = _RegimeSearch(program, monomials, ends, found, left)
    binds = search.sample.binding(monomials, ends, options)
    counts = Counter(binds)
    every = list(choices(program, monomials, options))
    rest = [choice for choice in every if choice not in counts]
    for choice in sorted((c for c in every if c in counts), key=lambda c: -counts[c]):
        search.add(choice, [b == choice for b in binds])
    covers = search.covers()
    if not covers and (not left or not search.reported.all()):
        before, everywhere = len(found), not left
        search.work_limit = search.work + _FURTHER if everywhere else _WORK
        more, rest = rest[:_MOST], rest[_MOST:]
        for choice in more:
            search.add(choice, everywhere=everywhere)
        if rest:
            left.append(f"more than {_MOST} choices of what binds")
        covers = len(found) > before and search.covers()
    place = {choice: i for i, choice in enumerate(every)}
    found.sort(key=lambda r: -1 if r.certificate is None else place[_choice_of(r.certificate)])
    if covers:
        return Regimes(tuple(found), True)
    return Regimes(tuple(found), False, tuple(dict.fromkeys(left)), program, (*search.postponed, *rest))


class _RegimeSearch:
    """The regimes found so far, and the random sizes at which one of them holds."""

    def __init__(
        self,
        program: PowerProgram,
        monomials: Sequence[Powers],
        ends: Sequence[Expr | None],
        found: list[Regime],
        left: list[str],
    ) -> None:
        self.sample, self.postponed = ScreeningSample(program), list[Choice]()
        self._of, self._found, self._left = (program, monomials, ends), found, left
        self.work, self.work_limit, self.derived = 0, _WORK, 0
        self.seen = self.sample.empty_mask
        for k in range(len(program.memory)):
            self.seen = self.seen | self.sample.too_small(k)
        self.reported = self.seen
        """The sizes at which it is known what binds: a regime holds there, or the active set is listed as open."""

    def covers(self) -> bool:
        """Whether the regimes found are shown to cover all sizes."""
        return bool(self.seen.all()) and _cover(self._found)

    def add(self, choice: Choice, where: Sequence[bool] | None = None, everywhere: bool = False) -> None:
        """Derives the regimes of an active set.

        `where` marks the random sizes at which it binds, if known. A point that is stationary at none of the sizes is
        derived only if `everywhere`.
        """
        if self.derived > _DERIVED and sum(status == FREE for status in choice[0]) > 1:
            self.postponed.append(choice)
            self._left.append(f"{in_words(*self._of[:2], *choice)} (not worked out)")
            self.reported = self.reported if where is None else self.reported | where
            return
        for answer in stationary_points(*self._of, *choice):
            why: str | Stationary | None = answer
            self.derived += 0 if isinstance(answer, str) else _operations(answer)
            if not isinstance(answer, str):
                here = self.sample.feasible_mask(answer)
                if not here.any() and not everywhere:
                    self.postponed.append(choice)
                    continue
                why = self._worked_out(answer, here)
            if isinstance(why, str):
                self._left.append(why)
                self.reported = self.reported if where is None else self.reported | where

    def _worked_out(self, point: Stationary, here: Any) -> str | None:
        operations = _operations(point)
        name = _named(point.program, point.coordinates, point.full)
        if operations > _LONG:
            return f"{name} (no short one)"
        work = operations**2 * len(point.program.terms)
        if self.work + work > self.work_limit:
            self.postponed.append(_choice_of(point))
            return f"{name} (not worked out)"
        self.work += work
        regime = _checked(point)
        if isinstance(regime, str):
            return regime
        if sympy.false not in regime.conditions:
            self._found.append(regime)
            self.seen = self.seen | here
            self.reported = self.reported | here
        return None


def _choice_of(point: Stationary) -> Choice:
    return tuple(c.status for c in point.coordinates), point.full


def _operations(certificate: Stationary) -> int:
    """The number of operations in a point's formulas: long ones are neither readable nor quick to check."""
    return sum(int(e.count_ops()) for e in (certificate.value, *(c.size for c in certificate.coordinates)))


def _cover(found: Sequence[Regime]) -> bool:
    return _signs(found).impossible([], [r.conditions for r in found])


def _signs(found: Sequence[Regime], more: int = 1) -> SignSolver:
    memories = {c for r in found if r.certificate for _, c in r.certificate.program.memory}
    return SignSolver({c for c in memories if c.is_Symbol}, more * RLIMIT)


def _real(relation: Relational) -> Relational:
    """A relation that can be evaluated at any sizes: a root of a negative number is taken as zero.

    That radicands are nonnegative is a separate condition.
    """
    return relation.replace(
        lambda e: e.is_Pow and e.exp.is_Rational and not e.exp.is_Integer and not e.base.is_nonnegative,
        lambda e: sympy.Pow(sympy.Max(0, e.base), e.exp),
    )


def _checked(certificate: Stationary) -> Regime | str:
    try:
        conditions = check_stationary(certificate)
    except CertificateError as error:
        return f"{_named(certificate.program, certificate.coordinates, certificate.full)} ({error})"
    tiles = {product(c.monomial): c.size for c in certificate.coordinates}
    return Regime(certificate.value, tiles, conditions, certificate)


def _infeasible(program: PowerProgram) -> tuple[list[Regime], list[str]]:
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


def _named(program: PowerProgram, coordinates: Sequence[Coordinate], full: Sequence[int]) -> str:
    return in_words(program, [c.monomial for c in coordinates], [c.status for c in coordinates], full)
