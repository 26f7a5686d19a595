"""Canonical forms of conditions, and which conditions are known.

Comparisons of integers are `a < b`, `a ≤ b + c` or `a = b` with coprime natural coefficients on both sides. Those of
reals compare 0 with a polynomial, up to a positive factor. Connectives are flat and sorted, with `not` inside. That
some index satisfies c is written `0 < max_i [c(i)]`.
"""

from __future__ import annotations

from catdiag.kernel.context import Context
from catdiag.kernel.facts import arithmetic, natural, negate
from catdiag.kernel.polynomial import leading, to_poly, to_term
from catdiag.kernel.rationals import quotient
from catdiag.kernel.terms import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    KernelError,
    Term,
    add,
    fn,
    idx,
    leaves,
    open_body,
    sub,
    term_data,
)
from catdiag.prover.lemmas.linear_arithmetic import combination, linear
from catdiag.prover.lemmas.max_bounds import MaxLemmas
from catdiag.prover.proof_trace import Path, WorkBudget

COMPARISONS = ("lt", "le", "eq")


SUM = 40
"""The work bound of searching a combination of known comparisons."""


class Conditions(MaxLemmas):
    """Rewrites conditions; `normal` is the full normal form."""

    def __init__(self, work: WorkBudget | None = None) -> None:
        super().__init__(work)
        # Conditions that were found to be undecided.
        self._open: set[tuple[Context, Term]] = set()

    def normal(self, ctx: Context, t: Term, path: Path = ()) -> Term:
        """The normal form of a closed term in a context."""
        raise NotImplementedError

    def lifted(self, ctx: Context, t: Term, path: Path) -> Term | None:
        """The normal form of a term with an if-then-else among its arguments; None for other terms."""
        raise NotImplementedError

    def decided(self, ctx: Context, t: Term, path: Path) -> Term:
        """A comparison as `true` or `false` if it is known, by linear arithmetic or by the kernel; else as it is."""
        if (ctx, t) in self._open:
            return t
        result = self.holding_nowhere(ctx, t, path)
        if result is t and t.op in COMPARISONS:
            result = self._decided(ctx, t, path)
        if result is t:
            self._open.add((ctx, t))
        return result

    def _decided(self, ctx: Context, t: Term, path: Path) -> Term:
        for goal in (t, negate(t)) if t.op != "eq" else ():
            self.work.spend(SUM)
            found = combination(ctx, goal)
            if found is not None:
                return self.attempt(ctx, t, path, "decide", found)
        if arithmetic(t):
            if t.op == "eq":
                return self._unequal(ctx, t, path)
            return t if linear(ctx, t) else self.attempt(ctx, t, path, "decide")
        done = t if self.undecided(ctx, t) else self.attempt(ctx, t, path, "decide")
        if done is t and self.says_some(t):
            done = self._instantiated(ctx, t, path)
        return self.compare_with_bounds(ctx, t, path) if done is t else done

    @staticmethod
    def known(ctx: Context, c: Term) -> bool:
        """Whether a condition is known; a solver is called only where that is needed."""
        if c.op in ("lt", "le") and combination(ctx, c) is not None:
            return True
        return not (arithmetic(c) and linear(ctx, c)) and ctx.entails(c)

    def _unequal(self, ctx: Context, t: Term, path: Path) -> Term:
        """An equation of integers; false if one side is known to be less than the other."""
        below = any(combination(ctx, fn("lt", a, b)) is not None for a, b in (t.args, reversed(t.args)))
        equal = all(combination(ctx, fn("le", a, b)) is not None for a, b in (t.args, reversed(t.args)))
        known = fn("eq", *reversed(t.args)) in {f.condition for f in ctx.facts}
        if below or equal or known or not linear(ctx, t):
            return self.attempt(ctx, t, path, "decide")
        return t

    def comparison(self, ctx: Context, t: Term, path: Path) -> Term:
        """A comparison of normal terms in canonical form."""
        lifted = self.lifted(ctx, t, path)
        if lifted is not None:
            return lifted
        t = self.by_equations(ctx, t, path)
        done = self.attempt(ctx, t, path, "compare")
        if done is not t:
            return done
        done = self.decided(ctx, t, path)
        if done is not t:
            return done
        if t.op in ("lt", "le"):
            t = self._isolated(ctx, t, path)
            if self.says_some(t):
                return self._exists(ctx, t, path)
            own = self.own_maximum(ctx, t, path)
            if own is not t:
                return self.normal(ctx, own, path)
            done = self.attempt(ctx, t, path, "order")
            if done is not t:
                return self.normal(ctx, done, path)
        return self.attempt(ctx, t, path, "difference")

    def _isolated(self, ctx: Context, t: Term, path: Path) -> Term:
        """A comparison with one maximum as that maximum against the other terms."""
        if arithmetic(t) or any(a.op == "max" or (a.op == "big" and a.data == "max") for a in t.args):
            return t
        try:
            p = to_poly(sub(t.args[1], t.args[0]), ctx)
        except KernelError:
            return t
        found = [m for m in p if len(m) == 1 and m[0][1] == 1 and _is_maximum(m[0][0])]
        inside = [m for m in p if any(_is_maximum(a) for a, _ in m)]
        if len(found) != 1 or len(inside) != 1:
            return t
        c = p[found[0]]
        rest = {m: quotient(-a, c) for m, a in p.items() if m != found[0]}
        top = found[0][0][0]
        if c > 0:
            target = fn(t.op, to_term(rest), top)
        else:
            target = fn(t.op, top, to_term(rest))
        return self.attempt(ctx, t, path, "same", term_data(target))

    # -- existence of an index ------------------------------------------------------------------------

    @staticmethod
    def says_some(t: Term) -> bool:
        """Whether a condition is 0 < max_i [c(i)]."""
        if t.op != "lt" or t.args[0] != ZERO or not _is_maximum(t.args[1]) or t.args[1].op != "big":
            return False
        body = t.args[1]
        while body.op == "big" and body.data == "max":
            body = body.args[1]
        return body.op == "ite" and body.args[1:] == (ONE, ZERO)

    def _exists(self, ctx: Context, t: Term, path: Path) -> Term:
        """0 < max_i [c(i)] for a normal c: distributed over `or`, with conjuncts that do not depend on i moved out, and
        nested existences flattened.
        """
        t = self.part(ctx, t, path, 1, self._exists_body)
        if t.args[1].op == "max":
            return self.normal(ctx, self.step(ctx, t, path, "order"), path)
        if not self.says_some(t):
            return self.normal(ctx, t, path)
        body = t.args[1].args[1]
        if body.op != "ite":
            return self.part(ctx, t, path, 1, self.binders_in_order)
        c = body.args[0]
        at = open_body(c, idx("%some"))
        if c.op == "or":
            t = self.part(ctx, t, path, 1, self._split_connective)
            return self.normal(ctx, self.step(ctx, t, path, "order"), path)
        if self.says_some(at):
            t = self.step(ctx, t, path, "order", "back")
            return self.part(ctx, t, path, 1, self.binders_in_order)
        free = [a for a in (at.args if at.op == "and" else (at,)) if "%some" not in leaves(a, "idx")]
        if free:
            t = self.step(ctx, t, path, "distinguish", term_data(free[0]))
            for k in (0, 1):
                # The condition is moved out before the existence statement could use it as a fact.
                t = self.part(ctx, t, path, k, lambda c, u, p: self.part(c, u, p, 1, self.normal))
                t = self.part(ctx, t, path, k, lambda c, u, p: self.step(c, u, p, "logic"))
            return self.logic(ctx, t, path)
        return self._instantiated(ctx, t, path)

    def _instantiated(self, ctx: Context, t: Term, path: Path) -> Term:
        """`true` for 0 < max_{i<n} [c(i)] where c is known to hold at 0, at another index, or at n − 1; what is no
        comparison of indices and sizes has to be known as it stands.
        """
        n, body = t.args[1].args
        c = body.args[0]
        facts = {fact.condition for fact in ctx.facts if not fact.variables and not fact.guards}
        for at in (ZERO, *map(idx, ctx.ranges), sub(n, ONE)):
            there = _conjuncts(open_body(c, at))
            read = [a for a in there if not arithmetic(a)]
            inside = fn("le", ZERO, at), fn("lt", at, n), *(a for a in there if arithmetic(a))
            if all(a in facts for a in read) and all(self.known(ctx, a) for a in inside):
                found = self.attempted_bound(ctx, t, path, open_body(body, at), t.args[1])
                if found == TRUE:
                    return found
        return t

    def holding_nowhere(self, ctx: Context, t: Term, path: Path) -> Term:
        """`false` for a condition c(i) where it is known that c, or c and others that hold, is true at no index."""
        for fact in ctx.facts:
            some = negate(fact.condition)
            if fact.variables or fact.guards or not self.says_some(some):
                continue
            n, body = some.args[1].args
            for i in (i for i, m in ctx.ranges.items() if m == n and body.op == "ite"):
                if t in _conjuncts(open_body(body.args[0], idx(i))):
                    t = self.contradicted(ctx, t, path, open_body(body, idx(i)), some.args[1])
                    if t == FALSE:
                        return t
        return t

    def _exists_body(self, ctx: Context, t: Term, path: Path) -> Term:
        """The body of an existence statement: nested maxima are split by their ranges, and conditions are decided."""
        if t.op == "big" and t.data == "max":
            n = t.args[0]
            rule = {ZERO: "empty", ONE: "single"}.get(n, {"add": "split", "mul": "nest"}.get(n.op))
            if rule is not None and natural(n):
                t = self.step(ctx, t, path, rule)
                return self.parts(ctx, t, path, self._exists_body) if t.op == "max" else self._exists_body(ctx, t, path)
            t = self.under(ctx, t, path, self._exists_body)
            return self.step(ctx, t, path, "part") if t.args[1].op == "max" else t
        if t.op != "ite" or t.args[1:] != (ONE, ZERO):
            return t
        t = self.part(ctx, t, path, 0, self.normal)
        return self.step(ctx, t, path, "decide") if t.args[0] in (TRUE, FALSE) else t

    def _split_connective(self, ctx: Context, t: Term, path: Path) -> Term:
        t = self.under(ctx, t, path, lambda c, u, p: self.step(c, u, p, "turn", "max"))
        return self.step(ctx, t, path, "part")

    def binders_in_order(self, ctx: Context, t: Term, path: Path) -> Term:
        """Nested reductions of one monoid with their binders in canonical order."""
        raise NotImplementedError

    def _simplify_known(self, ctx: Context, t: Term, path: Path) -> Term:
        if t.op not in COMPARISONS:
            return t
        return self.decided(ctx, t, path) if self.says_some(t) else self.comparison(ctx, t, path)

    # -- connectives ----------------------------------------------------------------------------------

    def logic(self, ctx: Context, t: Term, path: Path) -> Term:
        """A connective of normal conditions, each simplified under the others."""
        if t.op == "not" and self.says_some(t.args[0]):
            return t
        t = self.step(ctx, t, path, "logic")
        if t.op in COMPARISONS:
            return self.comparison(ctx, t, path)
        if t.op == "not":
            return t
        for _ in range(4):
            before = t
            if t.op in ("and", "or"):
                t = self.parts(ctx, t, path, self._simplify_known)
                t = self.step(ctx, t, path, "logic")
            if t == before:
                break
        target = joined_comparisons(ctx, t)
        done = t if target is None else self.attempt(ctx, t, path, "same", term_data(target))
        if done is t:
            return t
        return self.comparison(ctx, done, path) if done.op in COMPARISONS else self.logic(ctx, done, path)


def joined_comparisons(ctx: Context, t: Term) -> Term | None:
    """A connective in which a comparison of integers and an equation of the same are one comparison: a < b or a = b as
    a ≤ b, and a ≤ b and not a = b as a < b; None where there is none.

    >>> a, b, ctx = idx("a"), idx("b"), Context(lambda goal: False)
    >>> str(joined_comparisons(ctx, fn("or", fn("eq", b, a), fn("lt", a, b))))
    '(0 ≤ ((-1)·i_a + i_b))'
    """
    signed = [p.args[0] if t.op == "and" and p.op == "not" else p if t.op == "or" else None for p in t.args]
    equations = {
        _difference(ctx, left, right): part
        for part, e in zip(t.args, signed, strict=True)
        if e is not None and e.op == "eq" and arithmetic(e)
        for left, right in (e.args, reversed(e.args))
    }
    for part in t.args if equations else ():
        if part.op not in ("lt", "le") or not arithmetic(part):
            continue
        low, high = part.args
        least = _difference(ctx, high, low if part.op == "le" else add(low, ONE))  # an integer that is at least 0
        wider = _difference(ctx, add(least, ONE), ZERO)
        equation = equations.get(wider if t.op == "or" else least)
        if equation is not None:
            others = [a for a in t.args if a not in (part, equation)]
            one = fn("le", ZERO, wider) if t.op == "or" else fn("lt", ZERO, least)
            return fn(t.op, *others, one) if others else one
    return None


def _difference(ctx: Context, left: Term, right: Term) -> Term:
    """Of two terms of indices and sizes, with like terms put together."""
    return to_term(to_poly(sub(left, right), ctx))


def _conjuncts(c: Term) -> tuple[Term, ...]:
    return c.args if c.op == "and" else (c,)


def _is_maximum(t: Term) -> bool:
    return t.op == "max" or (t.op == "big" and t.data == "max")


def compares_maxima(t: Term) -> bool:
    """Whether a polynomial has a maximum over an axis as an atom, which no condition decides."""
    return (t.op == "big" and t.data == "max") or (t.op in ("add", "mul") and any(map(compares_maxima, t.args)))


def upright(ctx: Context, c: Term) -> bool:
    """Whether a canonical comparison, and not its negation, is the one that is written in guards.

    For integers it is the one without a constant on the smaller side, which does not depend on the names of indices.
    """
    if arithmetic(c):
        left = c.args[0].args if c.args[0].op == "add" else (c.args[0],)
        return c.op == "le" and not any(a.op == "num" and a != ZERO for a in left)
    try:
        p = to_poly(sub(c.args[1], c.args[0]), ctx)
    except KernelError:
        return True
    return not p or p[leading(p)] > 0
