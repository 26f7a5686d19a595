"""Equality of two terms: by normal forms, congruence, case splits, or as a sum that is zero.

`meet` is called where the normal forms of two terms differ. Its attempts, each on the result of the previous one:

1. the normal forms are equal, or their difference vanishes as a rational function; 2. congruence: the same operation on
arguments that are equal by all of these attempts; 3. maxima become if-then-else; 4. a split on a condition of a
subterm; 5. sums over one range become one sum, whose body is zero.

The work is bounded by a count, not by the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from catdiag.kernel.context import Context
from catdiag.kernel.facts import arithmetic, fresh, negate
from catdiag.kernel.polynomial import Monomial, Poly, TooLarge, term_of_monomial, to_poly, vanishes
from catdiag.kernel.rewrite_rules import apply
from catdiag.kernel.terms import LOGICAL, ZERO, KernelError, Term, add, fn, idx, mul, num, open_body, sub, term_data
from catdiag.prover.normal_form.guards import is_guard
from catdiag.prover.normal_form.normalize import Normalizer
from catdiag.prover.proof_trace import WorkBudget
from catdiag.prover.subterms import subterms, undecided_conditions

Step = list[Any]

_DEPTH = 4
_SPLITS = 5
_PAIRS = 24
_PARTS = {"inv", "log", "sqrt", "exp", "apply", "big", "max", "ite", "lt", "le", "eq", "not", "and", "or"}


class TermSide:
    """One of the two terms: its current form, and the steps that led to it."""

    def __init__(self, ctx: Context, t: Term) -> None:
        self.ctx, self.term, self.steps = ctx, t, list[Step]()

    def take(self, steps: Sequence[Step], at: Sequence[int] = ()) -> None:
        """Applies steps at a position."""
        for rule, path, *args in steps:
            self.do(rule, [*at, *path], *args)

    def do(self, rule: str, path: Sequence[int], *args: Any) -> None:
        """Applies one more step."""
        self.term = apply(self.ctx, self.term, rule, path, args)
        self.steps.append([rule, list(path), *args])

    def normalize(self, work: WorkBudget, cases: bool = False) -> None:
        """Rewrites the term to its normal form."""
        search = Normalizer(work, cases)
        self.term = search.with_equations(self.ctx, search.normal(self.ctx, self.term), ())
        self.steps += search.steps


class Meeting:
    """A search for steps that rewrite two terms to one, within a work bound."""

    def __init__(self, work: WorkBudget | None = None) -> None:
        self.work = work or WorkBudget(100_000)

    def meet(
        self, ctx: Context, left: Term, right: Term, depth: int = _DEPTH, splits: int = _SPLITS
    ) -> tuple[list[Step], list[Step]] | None:
        """Steps that rewrite left and right to one term; None if none are found. Raises TooLarge beyond the
        work bound.
        """
        if left == right:
            return [], []
        if arithmetic(left) and arithmetic(right):
            return self._one_position(ctx, left, right)
        x, y = TermSide(ctx, left), TermSide(ctx, right)
        if depth > 0 and left.op == right.op == "big" and self._parts_meet(x, y, [], [], depth, splits):
            return x.steps, y.steps
        for cases in (False, True):
            x.normalize(self.work, cases)
            y.normalize(self.work, cases)
            if self._one(x, y) or (depth > 0 and self._congruent(x, y, depth, splits)):
                return x.steps, y.steps
            if not any(t.op in ("max", "sqrt") for t in subterms(x.term, y.term)):
                break
        if depth > 0 and self._compared_one_way(x, y) and self._one(x, y):
            return x.steps, y.steps
        if splits > 0:
            conditions = undecided_conditions(ctx, x.term, y.term, signs=True)
            condition = min(conditions, key=lambda c: c.op != "eq", default=None)
            if condition is not None:
                return (x.steps, y.steps) if self._split(x, y, condition, depth, splits) else None
        if depth > 0 and self._summed(x, y, depth, splits):
            return x.steps, y.steps
        return None

    @staticmethod
    def _one_position(ctx: Context, left: Term, right: Term) -> tuple[list[Step], list[Step]] | None:
        """Steps for integers that are known to be equal."""
        equal = fn("eq", left, right)
        known = left.op not in LOGICAL and right.op not in LOGICAL and ctx.entails(equal)
        return ([["same", [], term_data(right), [[term_data(equal), term_data(num(1))]]]], []) if known else None

    @staticmethod
    def _one(x: TermSide, y: TermSide) -> bool:
        """Whether both terms are equal, or become equal by the rule `same`."""
        if x.term == y.term:
            return True
        try:
            if x.term.op in LOGICAL or not vanishes(to_poly(sub(x.term, y.term), x.ctx), x.ctx):
                return False
        except TooLarge:
            raise
        except KernelError:
            return False
        x.do("same", [], term_data(y.term))
        return True

    def _compared_one_way(self, x: TermSide, y: TermSide) -> bool:
        """Whether what sums compare both ways, i <= j here and j <= i there, is compared one way: i <= j as
        i < j or i = j, of which the second leaves one term."""
        found = {t.args[0] for t in subterms(x.term, y.term) if is_guard(t) and t.args[0].op == "le"}
        both = [c for c in found if fn("le", *c.args[::-1]) in found]
        if not both:
            return False
        condition = min(both, key=lambda c: c.key)
        for side in (x, y):
            for path in _guards_of(side.term, condition):
                side.do("turn", path, "equal")
            side.normalize(self.work)
        return True

    # -- congruence -----------------------------------------------------------------------------------

    def _congruent(self, x: TermSide, y: TermSide, depth: int, splits: int) -> bool:
        """Whether the terms become equal by making differing parts with the same outermost operation equal."""
        for _ in range(_PAIRS):
            if not self._some_pair_meets(x, y, depth, splits):
                return False
            x.normalize(self.work)
            y.normalize(self.work)
            if self._one(x, y):
                return True
        return False

    def _some_pair_meets(self, x: TermSide, y: TermSide, depth: int, splits: int) -> bool:
        """Whether two differing subterms with one operation can be made equal."""
        floors = any(t.op == "div" for t in subterms(x.term, y.term))
        ours, theirs = dict(_atoms(x.term, floors)), dict(_atoms(y.term, floors))
        mine = [t for t in ours if t not in theirs]
        others = [t for t in theirs if t not in ours]
        if len(mine) * len(others) > _PAIRS:
            return False
        for s in mine:
            for t in others:
                if (s.op, s.data, len(s.args)) == (t.op, t.data, len(t.args)):
                    u, v = TermSide(x.ctx, s), TermSide(y.ctx, t)
                    if self._parts_meet(u, v, [], [], depth, splits) and u.term == v.term:
                        for path in _places(x.term, s):
                            x.take(u.steps, path)
                        for path in _places(y.term, t):
                            y.take(v.steps, path)
                        return True
        return False

    def _parts_meet(
        self, x: TermSide, y: TermSide, at: Sequence[int], on: Sequence[int], depth: int, splits: int
    ) -> bool:
        """Whether two terms with one operation become equal by making their arguments equal, one by one."""
        s, t = x.term, y.term
        if (s.op, s.data, len(s.args)) != (t.op, t.data, len(t.args)):
            return False
        found = []
        for k, (a, b) in enumerate(zip(s.args, t.args, strict=True)):
            inner = x.ctx
            if s.op == "big" and k == 1:
                name = fresh(inner.ranges)
                inner = inner.with_index(name, s.args[0])
                a, b = open_body(a, idx(name)), open_body(b, idx(name))
            elif s.op == "ite" and k:
                inner = inner.with_condition(s.args[0] if k == 1 else negate(s.args[0]))
            steps = self.meet(inner, a, b, depth - 1, min(splits, 3)) if not (s.op == "big" and k == 0) else None
            if s.op == "big" and k == 0:
                steps = ([], []) if a == b else None
            if steps is None:
                return False
            found.append(steps)
        for k, (mine, theirs) in enumerate(found):
            x.take(mine, [*at, k])
            y.take(theirs, [*on, k])
        return x.term == y.term

    # -- cases ----------------------------------------------------------------------------------------

    def _split(self, x: TermSide, y: TermSide, condition: Term, depth: int, splits: int) -> bool:
        """Whether the terms become equal in both cases of a condition."""
        found = []
        for c in (condition, negate(condition)):
            steps = self.meet(x.ctx.with_condition(c), x.term, y.term, depth, splits - 1)
            if steps is None:
                return False
            found.append(steps)
        for k, side in enumerate((x, y)):
            if side.term.op in LOGICAL:
                return False
            side.do("distinguish", [], term_data(condition))
            for branch, steps in enumerate(found):
                side.take(steps[k], [branch + 1])
        return True

    # -- sums -----------------------------------------------------------------------------------------

    def _summed(self, x: TermSide, y: TermSide, depth: int, splits: int) -> bool:
        """Whether the difference is a sum over one range whose body is zero."""
        try:
            p = to_poly(sub(x.term, y.term), x.ctx)
        except TooLarge:
            raise
        except KernelError:
            return False
        ranges = {a.args[0] for m in p for a, e in m if _is_sum(a) and e == 1}
        for n in sorted(ranges, key=lambda n: n.key):
            parts = _with_sum_last(p, n)
            if parts is None or len(parts) < 2:
                continue
            trial = TermSide(x.ctx, x.term)
            trial.do("same", [], term_data(add(y.term, add(*parts))))
            for k, part in enumerate(parts):
                if part.op == "mul":
                    trial.do("push", [1, k], len(part.args) - 1)
            trial.do("join", [1])
            name = fresh(x.ctx.ranges)
            inner = x.ctx.with_index(name, n)
            steps = self.meet(inner, open_body(trial.term.args[1].args[1], idx(name)), ZERO, depth - 1, splits)
            if steps is None or steps[1]:
                continue
            trial.take(steps[0], [1, 1])
            trial.do("constant", [1])
            trial.do("same", [], term_data(y.term))
            x.term, x.steps = trial.term, x.steps + trial.steps
            return True
        return False


def _is_sum(t: Term) -> bool:
    return t.op == "big" and t.data == "sum"


def _with_sum_last(p: Poly, n: Term) -> list[Term] | None:
    """The monomials of a polynomial as products that end with a sum over n; None where some monomial has
    no such sum.
    """
    found = []
    for m, c in p.items():
        last = next((a for a, e in m if e == 1 and _is_sum(a) and a.args[0] == n), None)
        if last is None:
            return None
        rest: Monomial = tuple((a, e) for a, e in m if a != last)
        factors = [f for f in (num(c), term_of_monomial(rest)) if f != num(1)]
        found.append(mul(*factors, last))
    return found


def _atoms(t: Term, reads: bool = False) -> Iterator[tuple[Term, None]]:
    """The outermost subterms of a polynomial, or of a truth value, that are functions of others; array reads only with
    `reads`.
    """
    if t.op in ("add", "mul"):
        for a in t.args:
            yield from _atoms(a, reads)
    elif t.op in _PARTS or (reads and t.op in ("read", "holds")):
        yield t, None


def _guards_of(t: Term, condition: Term, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """The positions of the indicators of a condition, inside sums too."""
    if is_guard(t) and t.args[0] == condition:
        return [path]
    return [place for k, a in enumerate(t.args) for place in _guards_of(a, condition, (*path, k))]


def _places(t: Term, part: Term, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """The positions at which a part occurs in a polynomial."""
    if t == part:
        return [path]
    if t.op not in ("add", "mul"):
        return []
    return [place for k, a in enumerate(t.args) for place in _places(a, part, (*path, k))]
