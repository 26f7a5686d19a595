"""Comparisons with maxima over an axis: an element is at most its maximum.

max(v(i), M) = M for M = max_j v(j). A comparison that is not decided may be decided with this bound. It is split into
the cases that the bound holds and that it does not; the second case is impossible.
"""

from __future__ import annotations

from collections.abc import Iterator

from catdiag.kernel.context import REAL, Context
from catdiag.kernel.facts import arithmetic, negate
from catdiag.kernel.polynomial import Poly, to_poly
from catdiag.kernel.terms import MINUS, ONE, ZERO, KernelError, Term, fn, idx, leaves, open_body, sub, term_data
from catdiag.prover.lemmas.linear_arithmetic import combination, gap
from catdiag.prover.proof_trace import Change, Path, ProofTrace

_BOUNDS = 4
"""The most bounds that are tried for one comparison."""


class MaxLemmas(ProofTrace):
    """Rewrites comparisons with maxima."""

    def compare_with_bounds(self, ctx: Context, t: Term, path: Path) -> Term:
        """A comparison decided by a bound of a maximum that facts mention; other comparisons as they are."""
        for v, maximum in _below(ctx, t):
            bound = _bound(v, maximum)
            if self._decides(ctx, t, fn("le", v, maximum)):
                return self._with_bound(ctx, t, path, bound, lambda c, u, p: self.step(c, u, p, "decide"))
        return t

    def attempted_bound(self, ctx: Context, t: Term, path: Path, v: Term, maximum: Term) -> Term:
        """A comparison decided by the bound that an element of a maximum is; as it is where that does not decide it."""
        mark = len(self.steps)
        try:
            return self._with_bound(ctx, t, path, _bound(v, maximum), lambda c, u, p: self.step(c, u, p, "decide"))
        except KernelError:
            del self.steps[mark:]
            return t

    @staticmethod
    def undecided(ctx: Context, t: Term) -> bool:
        """Whether a comparison is an open one of linear expressions in elements and reductions, of which only linear
        facts are known.

        If combining facts does not decide such a comparison, nothing does: a solver is not called.
        """
        if t.op not in ("eq", "lt", "le"):
            return False
        p = _silent(ctx, t)
        if p is None:
            return False
        spoken = leaves(t, "read")
        for f in ctx.facts:
            c = f.condition.args[0] if f.condition.op == "not" else f.condition
            if c.op == "real" or not leaves(c, "read") & spoken:
                continue
            q = _silent(ctx, c) if c.op in ("eq", "lt", "le") and not f.guards else None
            if q is None or (t.op == c.op == "eq" and (p == q or p == {m: -a for m, a in q.items()})):
                return False
        goals = [t, negate(t)] if t.op != "eq" else [fn("lt", *t.args), fn("lt", *reversed(t.args)), fn("le", *t.args)]
        return all(combination(ctx, goal) is None for goal in goals)

    def incomparable(self, ctx: Context, t: Term) -> bool:
        """Whether no argument of a maximum is known to be at most another one, without a solver."""
        pairs = [(a, b) for a in t.args for b in t.args if a is not b]
        if not all(a.op == "big" and a.data == "max" and a.args[1].op not in ("big", "max") for a in t.args):
            return False
        return len(pairs) <= 6 and all(self.undecided(ctx, fn("le", a, b)) for a, b in pairs)

    def by_equations(self, ctx: Context, t: Term, path: Path) -> Term:
        """A comparison in which a maximum is replaced by one that is known to be equal."""
        for fact in ctx.facts:
            c = fact.condition
            if c.op == "eq" and not fact.variables and not fact.guards and all(_is_maximum(a) for a in c.args):
                first, second = sorted(c.args, key=lambda a: a.key)
                by: Term = ONE if second is c.args[0] else MINUS
                modulo: list[list[object]] = [[term_data(c), term_data(by)]]
                t = self._put_for(ctx, t, path, second, first, modulo)
        return t

    def _put_for(self, ctx: Context, t: Term, path: Path, old: Term, new: Term, modulo: list[list[object]]) -> Term:
        if t == old:
            return self.step(ctx, t, path, "same", term_data(new), modulo)
        if t.op in ("eq", "lt", "le", "add", "mul", "max"):
            return self.parts(ctx, t, path, lambda c, u, p: self._put_for(c, u, p, old, new, modulo))
        return t

    def _decides(self, ctx: Context, t: Term, bound: Term) -> bool:
        """Whether a comparison follows by linear arithmetic from a bound and the known facts."""
        inner = ctx.with_condition(bound)
        for c in _strict(ctx):
            inner = inner.with_condition(c)
        goals = [t, negate(t)] if t.op != "eq" else [fn("lt", *t.args), fn("lt", *reversed(t.args))]
        return any(combination(inner, goal) is not None for goal in goals)

    def own_maximum(self, ctx: Context, t: Term, path: Path) -> Term:
        """`M ≤ v` as `v = M`, and `v < M` as its negation, for a maximum M that has v as an element."""
        a, b = (t.args if t.op == "le" else t.args[::-1]) if t.op in ("le", "lt") else (t, t)
        several = [m for m in (a.args if a.op == "max" else (a,)) if _is_maximum(m)]
        if not any(v == b for m in several for v in _terms_of(ctx, m)) or not (ctx.real(a) and ctx.real(b)):
            return t
        equal = fn("eq", b, a)
        target = equal if t.op == "le" else fn("not", equal)
        return self._with_bound(
            ctx, t, path, _bound(b, a), lambda c, u, p: self.step(c, u, p, "same", term_data(target))
        )

    def _with_bound(self, ctx: Context, t: Term, path: Path, bound: Term, change: Change) -> Term:
        """A condition rewritten under the bound of a maximum."""
        mark = len(self.steps)
        try:
            t = self.step(ctx, t, path, "distinguish", term_data(bound))
            t = self.part(ctx, t, path, 0, lambda c, u, p: self.part(c, u, p, 1, change))
            t = self.part(ctx, t, path, 1, lambda c, u, p: self.part(c, u, p, 0, self._never))
            for k in (0, 1):
                t = self.part(ctx, t, path, k, lambda c, u, p: self.step(c, u, p, "logic"))
            t = self.step(ctx, t, path, "logic")
            if t.op == "and":
                place = next(k for k, a in enumerate(t.args) if a == bound)
                t = self.part(ctx, t, path, place, self._always)
                t = self.step(ctx, t, path, "logic")
            return self._always(ctx, t, path) if t == bound else t
        except KernelError:
            del self.steps[mark:]
            raise

    def contradicted(self, ctx: Context, t: Term, path: Path, v: Term, maximum: Term) -> Term:
        """A condition as `false` where with it an element v = [c] of a maximum is 1, which is known to be at most 0; as
        it is where that is not found."""
        some, mark = fn("lt", ZERO, maximum), len(self.steps)

        def excluded(ctx: Context, t: Term, path: Path) -> Term:
            return self.step(ctx, t, path, "decide", [[term_data(negate(t)), "1"]])

        try:
            t = self.step(ctx, t, path, "distinguish", term_data(some))
            t = self.part(ctx, t, path, 0, lambda c, u, p: self.part(c, u, p, 0, excluded))
            t = self.part(ctx, t, path, 1, lambda c, u, p: self.part(c, u, p, 0, lambda c, u, p:
                          self._with_bound(c, u, p, _bound(v, maximum), excluded)))  # fmt: skip
            for k in (0, 1):
                t = self.part(ctx, t, path, k, lambda c, u, p: self.step(c, u, p, "logic"))
            return self.step(ctx, t, path, "logic")
        except KernelError:
            del self.steps[mark:]
            return t

    def _always(self, ctx: Context, t: Term, path: Path) -> Term:
        t = self.part(ctx, t, path, 0, lambda c, u, p: self.step(c, u, p, "larger"))
        return self.step(ctx, t, path, "compare")

    def _never(self, ctx: Context, t: Term, path: Path) -> Term:
        return self.step(ctx, self.part(ctx, t, path, 0, self._always), path, "logic")


def _bound(v: Term, maximum: Term) -> Term:
    """v ≤ M, written so that it is recognized by its form: the comparison itself might be simplified to false where
    facts exclude v.
    """
    return fn("eq", fn("max", v, maximum), maximum)


def _silent(ctx: Context, c: Term) -> Poly | None:
    """The difference of the sides of a comparison that is linear in elements and reductions of unknown
    sign; else None.
    """
    p = gap(ctx, c) if not arithmetic(c) else None
    if p is None or not all(map(ctx.real, c.args)):
        return None
    atoms = [a for m in p for a, e in m if len(m) > 1 or e != 1]
    atoms += [a for m in p for a, _ in m if a.op not in ("read", "big") or ctx.signs(a) & ~REAL]
    return None if atoms else p


def _is_maximum(t: Term) -> bool:
    return t.op == "big" and t.data == "max" and not t.loose


def _terms_of(ctx: Context, maximum: Term) -> Iterator[Term]:
    """The elements of a maximum at the indices that occur."""
    n, body = maximum.args
    return (open_body(body, idx(i)) for i, m in ctx.ranges.items() if m == n)


def _below(ctx: Context, t: Term) -> list[tuple[Term, Term]]:
    """The maxima M that facts compare, each with an element v of it that a comparison mentions."""
    if arithmetic(t) or not ctx.ranges:
        return []
    spoken, here = leaves(t, "read"), leaves(t, "idx")
    found: dict[tuple[Term, Term], None] = {}
    for fact in ctx.facts:
        c = fact.condition.args[0] if fact.condition.op == "not" else fact.condition
        if fact.variables or fact.guards or c.op not in ("lt", "le", "eq") or arithmetic(c):
            continue
        for maximum in _maxima(ctx, c):
            for v in _terms_of(ctx, maximum):
                if leaves(v, "idx") & here and leaves(v, "read") & spoken and ctx.real(v):
                    found[v, maximum] = None
    return list(found)[:_BOUNDS]


def _strict(ctx: Context) -> list[Term]:
    """a < b where a ≤ b and a ≠ b are known."""
    conditions = [f.condition for f in ctx.facts if not f.variables and not f.guards and not arithmetic(f.condition)]
    unequal = [p for c in conditions if c.op == "not" and c.args[0].op == "eq" and (p := gap(ctx, c.args[0]))]
    return [
        fn("lt", *c.args)
        for c in conditions
        if c.op == "le" and (p := gap(ctx, c)) and (p in unequal or {m: -a for m, a in p.items()} in unequal)
    ]


def _maxima(ctx: Context, c: Term) -> list[Term]:
    """The maxima that are summands of a difference of reals."""
    if not any("max" in str(a.key) for a in c.args):
        return []
    try:
        p = to_poly(sub(c.args[1], c.args[0]), ctx)
    except KernelError:
        return []
    return [m[0][0] for m in p if len(m) == 1 and m[0][1] == 1 and _is_maximum(m[0][0])]
