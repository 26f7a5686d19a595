"""Two schedules compared regime by regime: which moves less for all sizes of a regime, or the crossover.

The optimum of a kernel is a formula in each of its regimes (`catdiag.optimum.regimes`). The optimum of a schedule
is the sum over its kernels. For each pair of regimes, one of each schedule, that hold together somewhere, z3 is asked
whether one of the two never moves more. Where neither is so, the crossover is a formula (`catdiag.optimum.crossover`)
if both optima are sums of powers of the capacity. What z3 does not decide is reported as undecided. Derived here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import sympy
from sympy import Expr, Symbol
from sympy.core.relational import Relational

from catdiag.optimum.crossover import Crossover, crossover
from catdiag.optimum.regimes import Regimes
from catdiag.optimum.sign_proofs import SignSolver

FIRST, SECOND, EQUAL, EITHER = "first", "second", "equal", "either"


@dataclass(frozen=True)
class PiecewiseBranch:
    """A formula and the conditions under which it holds; infinite where nothing fits."""

    value: Expr
    conditions: tuple[Relational, ...]


@dataclass(frozen=True)
class ComparisonCase:
    """Sizes at which each of two schedules has one formula.

    `verdict` is `first` or `second` where that one never moves more (shown by z3, for all these sizes), `equal` where
    both always move the same amount, and else `either`, with the crossover where it is a formula. A value is infinite
    where nothing fits.
    """

    conditions: tuple[Relational, ...]
    first: Expr
    second: Expr
    verdict: str
    crossover: Crossover | None = None

    def __str__(self) -> str:
        verdict = {
            FIRST: "the first never moves more",
            SECOND: "the second never moves more",
            EQUAL: "both move as much",
            EITHER: "either" if self.crossover is None else str(self.crossover),
        }[self.verdict]
        return (
            f"{verdict}\n  {self.first} against {self.second}\n  if {', '.join(map(str, self.conditions)) or 'always'}"
        )


def sequential(
    kernels: Iterable[Regimes], capacity: Symbol, assumed: Sequence[Relational] = ()
) -> tuple[PiecewiseBranch, ...]:
    """The regimes of several kernels that run one after the other: the sums of their formulas.

    A combination is left out where z3 shows that its conditions, with those that are `assumed`, have no solution.
    """
    signs = SignSolver([capacity])
    found = [PiecewiseBranch(sympy.Integer(0), ())]
    for regimes in kernels:
        further = []
        for one in found:
            for regime in regimes:
                value = one.value + regime.value if regime.feasible else sympy.oo
                conditions = _joined(one.conditions, regime.conditions)
                if not signs.impossible([_strict(c) for c in (*assumed, *conditions)]):
                    further.append(PiecewiseBranch(value, conditions))
        found = further
    return tuple(found)


def cases(
    first: Sequence[PiecewiseBranch],
    second: Sequence[PiecewiseBranch],
    capacity: Symbol,
    assumed: Sequence[Relational] = (),
    long: Collection[Symbol] = (),
) -> tuple[ComparisonCase, ...]:
    """The cases in which something fits for at least one of the two schedules.

    Only cases whose conditions, together with those that are `assumed`, hold on an open set of sizes are listed.
    Crossovers are taken where the sizes `long` are large.

    >>> a, d, M = sympy.symbols("a d M", positive=True)
    >>> one, other = (PiecewiseBranch(a * d**2 / M, (M <= d**2,)),), (PiecewiseBranch(a * d / sympy.sqrt(M), ()),)
    >>> [case.verdict for case in cases(one, other, M)]
    ['second']
    """
    signs = SignSolver([capacity])
    found = []
    for one in first:
        for other in second:
            conditions = _joined(one.conditions, other.conditions)
            if one.value == other.value == sympy.oo:
                continue
            if signs.impossible([_strict(c) for c in (*assumed, *conditions)]):
                continue
            if sympy.oo in (one.value, other.value):
                verdict = SECOND if one.value == sympy.oo else FIRST
                found.append(ComparisonCase(conditions, one.value, other.value, verdict))
                continue
            never_more = _never(signs, (*assumed, *conditions), sympy.Gt(one.value, other.value))
            never_less = _never(signs, (*assumed, *conditions), sympy.Lt(one.value, other.value))
            verdict = (EQUAL if never_less else FIRST) if never_more else SECOND if never_less else EITHER
            at = crossover(one.value, other.value, capacity, long) if verdict == EITHER else None
            found.append(
                ComparisonCase(conditions, one.value, other.value, verdict, at if at is not None and at.signs else None)
            )
    return tuple(found)


def _never(signs: SignSolver, conditions: Sequence[Relational], relation: Relational) -> bool:
    if relation in (sympy.true, sympy.false):
        return bool(relation == sympy.false)
    return signs.impossible([*conditions, relation])


def _strict(relation: Relational) -> Relational:
    strict = {">=": sympy.Gt, "<=": sympy.Lt}
    return strict[relation.rel_op](relation.lhs, relation.rhs) if relation.rel_op in strict else relation


def _joined(one: Sequence[Relational], other: Sequence[Relational]) -> tuple[Relational, ...]:
    return tuple(c for c in dict.fromkeys([*one, *other]) if c != sympy.true)
