"""Linear arithmetic: a comparison as a nonnegative combination of known ones (Farkas' lemma), by an exact simplex
method.

The kernel's rule `decide` checks the combination. Comparisons of integers are proved without a solver in this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import gcd, lcm
from typing import Any

from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact, arithmetic, natural
from catdiag.kernel.polynomial import Poly, to_poly
from catdiag.kernel.rationals import Rational
from catdiag.kernel.scalar_rules import whole
from catdiag.kernel.terms import ONE, ZERO, Data, KernelError, Term, fn, idx, leaves, size, sub, substitute, term_data

_INSTANCES = 20
_MOST = 24
"""The most comparisons in one combination problem."""


def combination(ctx: Context, goal: Term) -> list[list[object]] | None:
    """Coefficients of known comparisons whose combination gives the goal, for the rule `decide`; None if there are
    none.
    """
    p = gap(ctx, goal)
    if p is None or goal.op == "eq":
        return None
    known = _related(p, [(c, q) for c in _known(ctx, goal) if (q := gap(ctx, c)) is not None])
    columns: list[tuple[int, Poly]] = []
    for k, (c, q) in enumerate(known):
        columns.append((k, q))
        if c.op == "eq":
            columns.append((k, {m: -a for m, a in q.items()}))
    rows = sorted({m for _, q in columns for m in q if m} | {m for m in p if m}, key=str)
    matrix = [[q.get(m, 0) for _, q in columns] + [0] for m in rows]
    # The constants: the slack is a column of its own.
    matrix.append([q.get((), 0) for _, q in columns] + [1])
    wanted = [p.get(m, 0) for m in rows] + [p.get((), 0)]
    strict = goal.op == "lt" and not whole(ctx, goal)
    gain = [int(known[k][0].op == "lt" and not whole(ctx, known[k][0])) for k, _ in columns] + [1]
    solution = simplex(matrix, wanted, gain if strict else [0] * len(gain))
    if solution is None or (strict and not sum(x * g for x, g in zip(solution, gain, strict=True))):
        return None
    total: dict[int, Fraction] = {}
    for x, (k, q) in zip(solution, columns, strict=False):
        total[k] = total.get(k, Fraction(0)) + (x if q is known[k][1] else -x)
    return [[term_data(known[k][0]), str(x)] for k, x in total.items() if x]


def gap(ctx: Context, c: Term) -> Poly | None:
    """b − a for a comparison of a with b; one less for a < b of integers. None where the difference is no
    polynomial.
    """
    if c.op not in ("lt", "le", "eq"):
        return None
    try:
        p = to_poly(sub(c.args[1], c.args[0]), ctx)
    except KernelError:
        return None
    if c.op == "lt" and whole(ctx, c):
        p = {**p, (): p.get((), 0) - 1}
    return p


def linear(ctx: Context, goal: Term) -> bool:
    """Whether a goal and the known comparisons are linear, so that a missing combination means that they do not imply
    it.
    """
    conditions = [goal, *_known(ctx, goal)]
    gaps = [q for c in conditions if (q := gap(ctx, c)) is not None]
    plain = [f.condition for f in ctx.facts if not f.variables and not f.guards and arithmetic(f.condition)]
    return all(c.op in ("lt", "le", "eq") for c in plain) and all(
        len(m) <= 1 and all(e == 1 and a.op in ("idx", "size") for a, e in m) for q in gaps for m in q
    )


def _known(ctx: Context, goal: Term) -> list[Term]:
    """The known comparisons: facts and their instances; for integers also the ranges of indices, and the signs of sizes
    and floors.
    """
    found = [f.condition for f in ctx.facts if not f.variables and not f.guards]
    found += [c for f in ctx.facts if f.variables for c in _instances(ctx, f)]
    found = [c for c in found if c.op in ("lt", "le", "eq") and whole(ctx, c) == whole(ctx, goal)]
    if whole(ctx, goal):
        for i, n in ctx.ranges.items():
            if arithmetic(n):
                found += [fn("le", ZERO, idx(i)), fn("lt", idx(i), n)]
        names = {name for t in (goal, *ctx.ranges.values(), *found) for name in leaves(t, "size")}
        found += [fn("le", ONE if ctx.positive_size(size(n)) else ZERO, size(n)) for n in sorted(names)]
        found = [c for c in found if not (c.op == "le" and c.args[0] == ZERO and c.args[1].op == "num")]
        found += [fn("le", ZERO, a) for a in _floors(goal) if natural(a)]
    return list(dict.fromkeys(found))


def _instances(ctx: Context, fact: Fact) -> list[Term]:
    """Instances of a fact about all indices: at the indices that occur, and at the first and the last index."""
    if fact.condition.op not in ("lt", "le", "eq"):
        return []
    spoken = set().union(*(leaves(c, "idx") for c in (fact.condition, *fact.guards)))
    names, values = [], []
    for name, n in fact.variables:
        if n is not None and name in spoken:
            here = sorted((idx(i) for i, m in ctx.ranges.items() if m == n), key=lambda i: (i.data != name, i.key))
            names.append(name)
            ends = [ZERO, sub(n, ONE)] if ctx.positive_size(n) else []
            values.append([*here, *(sub(sub(n, ONE), i) for i in here), *ends])
    # The indices that occur come first, then those that differ from them in fewer places.
    ranked = sorted(product(*map(range, map(len, values))), key=lambda chosen: (sum(chosen), chosen))[:_INSTANCES]
    choices: list[dict[tuple[str, Data], Term]] = [
        {("idx", name): vs[k] for name, vs, k in zip(names, values, chosen, strict=True)} for chosen in ranked
    ]
    plain = {f.condition for f in ctx.facts if not f.variables and not f.guards}
    found = []
    for put in choices:
        condition = substitute(fact.condition, put)
        guards = [substitute(g, put) for g in fact.guards]
        spoken = set().union(*(leaves(c, "idx") for c in (condition, *guards)))
        # Calling a solver for each of many instances would take too long.
        if spoken <= set(ctx.ranges) and plain.issuperset(guards):
            found.append(condition)
    return found


def _floors(t: Term) -> list[Term]:
    return ([t] if t.op == "div" else []) + [f for a in t.args for f in _floors(a)]


def _related(p: Poly, known: list[tuple[Term, Poly]]) -> list[tuple[Term, Poly]]:
    """The comparisons that are connected with p by shared monomials, the nearest first."""
    reached, chosen, rest = {m for m in p if m}, list[tuple[Term, Poly]](), known
    while rest and len(chosen) < _MOST:
        near = [(c, q) for c, q in rest if reached & set(q)]
        if not near:
            break
        chosen += near
        rest = [item for item in rest if item not in near]
        reached |= {m for _, q in near for m in q if m}
    return chosen[:_MOST]


def simplex(
    matrix: Sequence[Sequence[Rational]], wanted: Sequence[Rational], gain: Sequence[Rational]
) -> list[Fraction] | None:
    """Some x ≥ 0 with matrix·x = wanted that maximizes gain·x, or makes it large where it is unbounded; None if
    infeasible.

    >>> simplex([[1, 2]], [4], [1, 0])
    [Fraction(4, 1), Fraction(0, 1)]
    """
    width = len(gain)
    table = _Tableau(matrix, wanted)
    table.maximize([0] * width + [-1] * len(matrix), width)
    if not table.without_slack(width):
        return None
    unbounded = table.maximize([*gain, *[0] * len(matrix)], width)
    return table.solution(width, unbounded)


class _Tableau:
    """The tableau of the simplex method, with a slack variable for each row; rows are integers, up to a factor each."""

    def __init__(self, matrix: Sequence[Sequence[Rational]], wanted: Sequence[Rational]) -> None:
        count = len(matrix)
        self.rows: list[list[int]] = []
        for k, (row, b) in enumerate(zip(matrix, wanted, strict=True)):
            numbers = _integral([-a for a in (*row, b)] if b < 0 else [*row, b])
            self.rows.append([*numbers[:-1], *(int(j == k) for j in range(count)), numbers[-1]])
        width = len(matrix[0]) if matrix else 0
        self.basis = [width + k for k in range(count)]

    def pivot(self, r: int, c: int, further: list[int] | None = None) -> list[int]:
        """Makes column `c` basic in row `r`; gives a further row without that column too."""
        if self.rows[r][c] < 0:
            self.rows[r] = [-a for a in self.rows[r]]
        chosen = self.rows[r]

        def cleared(row: list[int]) -> list[int]:
            if row is chosen or not row[c]:
                return row
            return _coprime([chosen[c] * a - row[c] * b for a, b in zip(row, chosen, strict=True)])

        self.rows, self.basis[r] = [cleared(row) for row in self.rows], c
        return [] if further is None else cleared(further)

    def maximize(self, value: Sequence[Rational], columns: int) -> int | None:
        """Improves the value over the first columns, by Bland's rule; gives the column along which it is unbounded."""
        ends = _integral([*value, 0])
        priced = [(ends[basic], row[basic], row) for basic, row in zip(self.basis, self.rows, strict=True)]
        n = lcm(*(pivot for price, pivot, _ in priced if price))
        shares = [(n // pivot * price, row) for price, pivot, row in priced if price]
        reduced = _coprime([n * e - sum(share * row[c] for share, row in shares) for c, e in enumerate(ends)])
        for _ in range(50 * (len(self.rows) + columns)):
            enter = next((c for c in range(columns) if reduced[c] > 0), None)
            if enter is None:
                return None
            leave = [
                (Fraction(row[-1], row[enter]), self.basis[k], k) for k, row in enumerate(self.rows) if row[enter] > 0
            ]
            if not leave:
                return enter
            reduced = self.pivot(min(leave)[2], enter, reduced)
        return None

    def without_slack(self, width: int) -> bool:
        """Whether the equations have a solution; then slack variables leave the basis where they can."""
        if any(basic >= width and row[-1] for basic, row in zip(self.basis, self.rows, strict=True)):
            return False
        for k, basic in enumerate(list(self.basis)):
            column = next((c for c in range(width) if self.rows[k][c]), None) if basic >= width else None
            if column is not None:
                self.pivot(k, column)
        return True

    def solution(self, width: int, unbounded: int | None) -> list[Fraction]:
        """The values of the first variables; one further along the column that is unbounded, if there is one."""
        x = [Fraction(int(c == unbounded)) for c in range(width)]
        for basic, row in zip(self.basis, self.rows, strict=True):
            if basic < width:
                x[basic] = Fraction(row[-1] - (0 if unbounded is None else row[unbounded]), row[basic])
        return x


def _integral(row: Sequence[Rational]) -> list[int]:
    """A positive multiple of a row of rationals with integer entries."""
    n = lcm(*(a.denominator for a in row))
    return _coprime([a.numerator * (n // a.denominator) for a in row])


def _coprime(row: list[int]) -> list[int]:
    n = gcd(*row)
    return [a // n for a in row] if n > 1 else row


def steps_by_sum(ctx: Context, condition: Term) -> list[list[Any]] | None:
    """The steps that decide a comparison, or one of those of which at least one is to hold, by adding up known ones;
    None where there are none."""
    for k, part in enumerate(condition.args if condition.op == "or" else (condition,)):
        found = combination(ctx, part) if part.op in ("lt", "le") else None
        if found is not None:
            return [["decide", [k], found], ["logic", []]] if condition.op == "or" else [["decide", [], found]]
    return None
