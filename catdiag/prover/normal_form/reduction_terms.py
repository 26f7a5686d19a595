"""Reductions in normal form.

A sum over indices is an atom `Σ_i Σ_j … monomial` in canonical order of binders. Its binders are connected by the
factors: a factor that does not depend on a binder is outside of it, and a sum that depends on a binder is moved inside
it. Maxima have the summands that do not depend on their binder outside. A sum whose guards leave one index is replaced
by its element there.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import comb

from catdiag.kernel.context import Context
from catdiag.kernel.facts import natural
from catdiag.kernel.polynomial import to_poly, to_term
from catdiag.kernel.rationals import quotient
from catdiag.kernel.terms import (
    MONOIDS,
    ONE,
    ZERO,
    KernelError,
    Term,
    add,
    bound,
    fn,
    idx,
    leaves,
    mul,
    num,
    open_body,
    sub,
    term_data,
)
from catdiag.prover.normal_form.binder_order import canonical_order
from catdiag.prover.normal_form.guards import is_guard, of_ring
from catdiag.prover.normal_form.index_arithmetic import Indices, guards_of
from catdiag.prover.proof_trace import Change, Path

_THROUGH = ("exp", "inv", "sqrt", "log")
"""The functions that may come out of a reduction, by the rule `through`."""


class Reductions(Indices):
    """Rewrites reductions."""

    def region(self, ctx: Context, t: Term, path: Path) -> Term:
        """The normal form of a term whose outermost operation is a polynomial one."""
        raise NotImplementedError

    def maximum(self, ctx: Context, t: Term, path: Path) -> Term:
        """The normal form of a maximum of terms in normal form."""
        raise NotImplementedError

    def reduction(self, ctx: Context, t: Term, path: Path) -> Term:
        """The normal form of a reduction."""
        n = t.args[0]
        while n.op == "mul" and any(a.op == "mul" for a in n.args):
            # Factors keep their order: it is the layout of the axis.
            t = self.part(ctx, t, path, 0, lambda c, u, p: self.step(c, u, p, "flatten"))
            n = t.args[0]
        if n.op in ("add", "mul") and not natural(n):
            t = self.part(ctx, t, path, 0, self.ring)
            n = t.args[0]
        if n == ZERO:
            return self.step(ctx, t, path, "empty")
        if n == ONE:
            done = self.attempt(ctx, t, path, "single")
            if done is not t:
                return self.normal(ctx, done, path)
        if n.op == "add" and natural(n):
            return self.normal(ctx, self.step(ctx, t, path, "split"), path)
        if n.op == "mul" and natural(n):
            return self.normal(ctx, self.step(ctx, t, path, "nest"), path)
        t = self.under(ctx, t, path, self.normal)
        return self.reduced(ctx, t, path)

    def reduced(self, ctx: Context, t: Term, path: Path) -> Term:
        """A reduction with a normal body, in normal form."""
        monoid, body = str(t.data), t.args[1]
        if body.op == MONOIDS[monoid]:
            t = self.step(ctx, t, path, "part")
            t = self.parts(ctx, t, path, self.reduced)
            return self.maximum(ctx, t, path) if monoid == "max" else self.ring(ctx, t, path)
        constant = t if body.loose else self.attempt(ctx, t, path, "constant")
        if constant is not t:
            return self.region(ctx, constant, path)
        collapsed = self.collapsed(ctx, t, path)
        if collapsed is not None:
            return collapsed
        # A sum of logarithms stays one, whatever factors it has.
        stays = (monoid, body.op) == ("sum", "log")
        joined = self.attempt(ctx, t, path, "through") if body.op in _THROUGH and not stays else t
        if joined is not t:
            return self.normal(ctx, joined, path)
        turned = self.turned(ctx, t, path)
        if turned is not None:
            return turned
        if monoid == "sum":
            return self._sum(ctx, t, path)
        if monoid == "max":
            return self._max(ctx, t, path)
        return self.binders_in_order(ctx, t, path)

    # -- a single index -------------------------------------------------------------------------------

    def collapsed(self, ctx: Context, t: Term, path: Path) -> Term | None:
        """A reduction whose body is an if-then-else with a condition free of the index, as an if-then-else; or its
        element at the single index that its guards leave.

        None for other reductions.
        """
        body = t.args[1]
        if body.op == "ite" and not is_guard(body) and not body.args[0].loose:
            return self.distinguished(ctx, t, path, body.args[0])
        name = "%here"
        at = open_body(t.args[1], idx(name))
        for condition in guards_of(str(t.data), at):
            for k in _solutions(ctx, condition, name):
                found = self._at_index(ctx, t, path, k)
                if found is not None:
                    return found
        return None

    def _at_index(self, ctx: Context, t: Term, path: Path, k: Term) -> Term | None:
        """⊕_i t(i) as t(k), where t(i) is the unit for i ≠ k. Splits on whether k is in range, if that is not known."""
        for c in (fn("le", ZERO, k), fn("lt", k, t.args[0])):
            if not self.known(ctx, c):
                return self.distinguished(ctx, t, path, c)
        try:
            t = self.step(ctx, t, path, "reindex", *map(term_data, (ONE, k, ZERO)))
        except KernelError:
            return None
        return self.normal(ctx, self.step(ctx, t, path, "single"), path)

    # -- sums -----------------------------------------------------------------------------------------

    @staticmethod
    def _free(body: Term) -> list[int]:
        """The positions of the parts of a body that do not mention its index."""
        name = "%free"
        return [k for k, a in enumerate(body.args) if name not in leaves(open_body(a, idx(name)), "idx")]

    def _split_exp(self, ctx: Context, t: Term, path: Path) -> Term:
        """The body of a sum, with the part of its exponential that does not depend on the index as a separate
        factor.
        """

        def change(inner: Context, body: Term, at: Path) -> Term:
            name = list(inner.ranges)[-1]

            def divide(_: Context, e: Term, where: Path) -> Term:
                if e.op != "exp" or e.args[0].op != "add":
                    return e
                free = [k for k, a in enumerate(e.args[0].args) if name not in leaves(a, "idx")]
                if not free or len(free) == len(e.args[0].args):
                    return e
                return self.step(inner, e, where, "exp_add", free)

            return self.parts(inner, body, at, divide) if body.op == "mul" else divide(inner, body, at)

        return self.under(ctx, t, path, change)

    def _pull(self, ctx: Context, t: Term, path: Path) -> Term:
        """A sum with the factors that do not depend on its index moved out: `outside · Σ rest`."""
        t = self._split_exp(ctx, t, path)
        body = t.args[1]
        if body.op != "mul":
            return t
        free = self._free(body)
        nested = next((k for k, a in enumerate(body.args) if a.op == "mul"), None)
        if nested is not None and nested not in free:
            t = self.under(ctx, t, path, lambda c, b, p: self.step(c, b, p, "flatten"))
            free = self._free(t.args[1])
        return self.attempt(ctx, t, path, "pull", free) if free else t

    def _sum(self, ctx: Context, t: Term, path: Path) -> Term:
        pulled = self._pull(ctx, t, path)
        if pulled.op == "big":
            return self._closed(ctx, pulled, path) or self._gather(ctx, pulled, path)

        def rest(c: Context, u: Term, p: Path) -> Term:
            constant = self.attempt(c, u, p, "constant")
            return constant if constant is not u else self._closed(c, u, p) or self._gather(c, u, p)

        return self.ring(ctx, self.part(ctx, pulled, path, len(pulled.args) - 1, rest), path)

    def _closed(self, ctx: Context, t: Term, path: Path) -> Term | None:
        """Σ of a power of the index, in closed form (Faulhaber)."""
        factors = t.args[1].args if t.args[1].op == "mul" else (t.args[1],)
        if t.data != "sum" or any(f != bound(0) for f in factors) or not natural(t.args[0]):
            return None
        done = self.attempt(ctx, t, path, "telescope", term_data(_faulhaber(len(factors))))
        return None if done is t else self.region(ctx, done, path)

    def _gather(self, ctx: Context, t: Term, path: Path) -> Term:
        """Moves sums that depend on a binder inside of it, then orders the binders."""
        before = t
        t = self.under(ctx, t, path, self._draw_in)
        if t != before and _detached(t):
            t = self.under(ctx, t, path, self._factor_out)
            return self.reduced(ctx, t, path) if t.op == "big" else self.ring(ctx, t, path)
        return self.binders_in_order(ctx, t, path)

    def _draw_in(self, ctx: Context, t: Term, path: Path) -> Term:
        if t.op == "big" and t.data == "sum":
            return self.under(ctx, t, path, self._draw_in)
        if t.op == "mul":
            for k, a in enumerate(t.args):
                if a.op == "big" and a.data == "sum":
                    pushed = self.attempt(ctx, t, path, "push", k)
                    if pushed is not t:
                        return self.under(ctx, pushed, path, self._draw_in)
        return self.ring(ctx, t, path) if of_ring(t) else t

    def _factor_out(self, ctx: Context, t: Term, path: Path) -> Term:
        """Moves factors out of every sum of a chain, from the innermost one on."""
        if t.op != "big" or t.data != "sum":
            return t
        t = self.under(ctx, t, path, self._factor_out)
        pulled = self._pull(ctx, t, path)
        if pulled.op == "big":
            return self.attempt(ctx, pulled, path, "constant")
        last = len(pulled.args) - 1
        t = self.part(ctx, pulled, path, last, lambda c, u, p: self.attempt(c, u, p, "constant"))
        return self.ring(ctx, t, path)

    # -- maxima ---------------------------------------------------------------------------------------

    def _max(self, ctx: Context, t: Term, path: Path) -> Term:
        body = t.args[1]
        free = self._free(body) if body.op in ("add", "mul") else []
        choices = [free] if body.op == "add" else [free, [k for k in free if body.args[k].op == "num"]]
        for chosen in choices:
            rule = "pull" if body.op == "add" else "scale"
            pulled = self.attempt(ctx, t, path, rule, chosen) if chosen else t
            if pulled is not t:
                pulled = self.part(ctx, pulled, path, len(pulled.args) - 1, self.reduced)
                return self.ring(ctx, pulled, path)
        return self.binders_in_order(ctx, t, path)

    # -- binders --------------------------------------------------------------------------------------

    def binders_in_order(self, ctx: Context, t: Term, path: Path) -> Term:
        """Nested reductions of one monoid with their binders in canonical order."""
        sizes: list[Term] = []
        body = t
        while body.op == "big" and body.data == t.data and not (sizes and body.args[0].loose):
            sizes.append(body.args[0])
            body = body.args[1]
        depth = len(sizes)
        if depth < 2:
            return t
        names = [f"%c{k}" for k in range(depth)]
        for k, name in enumerate(names):
            body = open_body(body, idx(name), depth - 1 - k)
        place = self._determined(ctx, str(t.data), sizes, body, names)
        if place is not None:
            for k in range(place, depth - 1):
                t = self.at_depth(ctx, t, path, k, lambda c, u, p: self.step(c, u, p, "swap"))
            return self.normal(ctx, t, path)
        best = canonical_order(sizes, body, names)
        order = list(range(depth))
        if list(best) == order:
            return t
        for target, wanted in enumerate(best):
            for place in range(order.index(wanted), target, -1):
                t = self.at_depth(ctx, t, path, place - 1, lambda c, u, p: self.step(c, u, p, "swap"))
                order[place - 1], order[place] = order[place], order[place - 1]
        return self.at_depth(ctx, t, path, depth, self._resorted)

    def _determined(self, ctx: Context, monoid: str, sizes: list[Term], body: Term, names: list[str]) -> int | None:
        """The place of an outer binder for which a guard leaves one index, in range, that depends on inner binders."""
        inner = ctx
        for name, size in zip(names, sizes, strict=True):
            inner = inner.with_index(name, size)
        for condition in guards_of(monoid, body):
            for place, name in enumerate(names[:-1]):
                for k in _solutions(ctx, condition, name):
                    if all(self.known(inner, c) for c in (fn("le", ZERO, k), fn("lt", k, sizes[place]))):
                        return place
        return None

    def _resorted(self, ctx: Context, t: Term, path: Path) -> Term:
        """A body whose indices were renamed, with everything that is sorted by names sorted again."""
        if is_guard(t):
            return self.part(ctx, t, path, 0, lambda c, u, p: self.attempt(c, u, p, "difference"))
        if t.op == "mul":
            t = self.parts(ctx, t, path, lambda c, u, p: self._resorted(c, u, p) if is_guard(u) else u)
        return self.region(ctx, t, path) if of_ring(t) else t

    def at_depth(self, ctx: Context, t: Term, path: Path, depth: int, change: Change) -> Term:
        """A chain of reductions, changed under `depth` binders."""
        if depth == 0:
            return change(ctx, t, path)
        return self.under(ctx, t, path, lambda c, u, p: self.at_depth(c, u, p, depth - 1, change))


def _solutions(ctx: Context, condition: Term, name: str) -> Iterator[Term]:
    """The solutions of an equation for an index, as terms without the index."""
    if condition.op != "eq" or name not in leaves(condition, "idx"):
        return
    here = idx(name)
    try:
        p = to_poly(sub(*condition.args), ctx.with_index(name, ONE))
    except KernelError:
        return
    mine = [m for m in p if any(name in leaves(a, "idx") for a, _ in m)]
    if mine == [((here, 1),)] and abs(p[mine[0]]) == 1:
        yield to_term({m: quotient(-a, p[mine[0]]) for m, a in p.items() if m not in mine})


def _faulhaber(power: int) -> Term:
    """Σ_{i<n} i^power as a polynomial in n, which is bound variable 0 (Faulhaber's formula)."""
    # The coefficients c of n^(k+1) follow from T(n + 1) − T(n) = n^power, from the highest on.
    count = power + 1
    wanted = [Fraction(int(k == power)) for k in range(count)]
    found = [Fraction(0)] * (count + 1)
    for k in reversed(range(count)):
        found[k + 1] = (wanted[k] - sum(found[j] * comb(j, k) for j in range(k + 2, count + 1))) / (k + 1)
    return add(*(mul(num(c), *([bound(0)] * k)) for k, c in enumerate(found) if c))


def _detached(t: Term) -> bool:
    """Whether the binders of a chain of sums are not connected by the factors of its body."""
    names: list[str] = []
    while t.op == "big" and t.data == "sum":
        names.append(f"%d{len(names)}")
        t = open_body(t.args[1], idx(names[-1]))
    if len(names) < 2:
        return False
    factors: list[Term] = []
    for f in t.args if t.op == "mul" else (t,):
        factors.extend(f.args[0].args if f.op == "exp" and f.args[0].op == "add" else (f,))
    groups = [{n} for n in names]
    for f in factors:
        used = leaves(f, "idx") & set(names)
        touched = [g for g in groups if g & used]
        if len(touched) > 1:
            groups = [g for g in groups if not g & used] + [set().union(*touched)]
    return len(groups) > 1
