"""The normal form for indexed sums, as a trace of kernel steps.

What it aims at: a polynomial over atoms, where a sum over indices is an atom `Σ_i Σ_j … monomial` whose binders
hang together (a factor free of a binder stands outside it, a sum that depends on a binder is drawn inside it) and
stand in a canonical order; maxima have the summands free of their binder outside. Every change is a kernel rule
applied here and recorded, so nothing in this file needs to be believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import permutations, product
from math import factorial, prod
from typing import Any

from catdiag.kernel.axioms import RULES
from catdiag.kernel.context import Context, arithmetic, fresh, natural, negate
from catdiag.kernel.polynomial import (
    Facts,
    Monomial,
    Poly,
    TooLarge,
    constant,
    plus,
    times,
    to_poly,
    to_term,
)
from catdiag.kernel.terms import (
    BOT,
    MONOIDS,
    ONE,
    ZERO,
    KernelError,
    Term,
    close_body,
    idx,
    leaves,
    open_body,
    rebuild,
    term_data,
)

_RING = {"add", "mul", "inv", "exp", "log", "sqrt"}
Path = tuple[int, ...]


class Work:
    """How much may still be rewritten, in parts of terms: a count, so that the limit does not depend on the machine."""

    def __init__(self, parts: int = 300_000) -> None:
        self.left = parts


class Normaliser:
    """Rewrites terms to normal form; `.steps` is the trace. `work` bounds what it and others that share it do."""

    def __init__(self, work: Work | None = None) -> None:
        self.steps: list[list[Any]] = []
        self.work = work or Work()

    def step(self, ctx: Context, t: Term, path: Path, rule: str, *args: Any) -> Term:
        """One kernel rule at the subterm t, recorded if it changes it."""
        self.work.left -= t.weight
        if self.work.left < 0:
            raise TooLarge("the normal form takes too much work")
        result = RULES[rule](ctx, t, *args)
        if result != t:
            self.steps.append([rule, list(path), *args])
        return result

    def attempt(self, ctx: Context, t: Term, path: Path, rule: str, *args: Any) -> Term:
        """A step if the kernel allows it, else the term as it is."""
        try:
            return self.step(ctx, t, path, rule, *args)
        except TooLarge:
            raise
        except KernelError:
            return t

    # -- by form ---------------------------------------------------------------------------------

    def normal(self, ctx: Context, t: Term, path: Path = ()) -> Term:
        """The normal form of a closed term in a context."""
        if t.op in _RING:
            return self._region(ctx, t, path)
        if t.op == "big":
            return self._big(ctx, t, path)
        if t.op == "ite":
            return self._ite(ctx, t, path)
        if not t.args:
            return t
        t = rebuild(t, [self.normal(ctx, a, (*path, k)) for k, a in enumerate(t.args)])
        if t.op == "max":
            return self._maximum(ctx, t, path)
        if t.op in ("and", "or", "not"):
            return self._logic(ctx, t, path)
        if t.op == "div":
            return self._divide(ctx, t, path)
        compared = self.attempt(ctx, t, path, "compare")
        if compared is t and t.op in ("lt", "le"):
            compared = self.attempt(ctx, t, path, "order")
            if compared is not t:
                return self.normal(ctx, compared, path)
        if compared is t and not arithmetic(t):
            return self.attempt(ctx, t, path, "difference")
        return compared

    def _logic(self, ctx: Context, t: Term, path: Path) -> Term:
        """A connective of normal conditions. Driving `not` inwards turns comparisons round, so these are redone."""
        t = self.step(ctx, t, path, "logic")
        if t.op in ("and", "or") and not arithmetic(t) and any(map(arithmetic, t.args)):
            # Which part of a concatenation an index is in may be known here.
            parts = [
                self.attempt(ctx, a, (*path, k), "decide") if a.op in ("lt", "le") and arithmetic(a) else a
                for k, a in enumerate(t.args)
            ]
            t = self.step(ctx, rebuild(t, parts), path, "logic")
        if t.op in ("lt", "le") and not arithmetic(t):
            return self.attempt(ctx, t, path, "difference")
        if t.op in ("and", "or"):
            parts = [
                self.attempt(ctx, a, (*path, k), "difference") if a.op in ("lt", "le") and not arithmetic(a) else a
                for k, a in enumerate(t.args)
            ]
            return self.step(ctx, rebuild(t, parts), path, "logic")
        return t

    def _divide(self, ctx: Context, t: Term, path: Path) -> Term:
        """⌊a/n⌋ for normal a and n, where a is a multiple of n and a remainder below n."""
        if not arithmetic(t):
            return t
        for q, r in _quotients(to_poly(t.args[0], ctx), to_poly(t.args[1], ctx), ctx):
            divided = self.attempt(ctx, t, path, "divide", term_data(to_term(q)), term_data(to_term(r)))
            if divided is not t:
                return divided
        return t

    def _maximum(self, ctx: Context, t: Term, path: Path) -> Term:
        """A maximum of several terms, each in normal form."""
        t = self.step(ctx, t, path, "lattice")
        if t.op != "max":
            return t
        t = self.attempt(ctx, t, path, "larger")
        if t.op == "max" and all(a.op == "exp" for a in t.args):
            return self._region(ctx, self.step(ctx, t, path, "exp_max"), path)
        return t

    def _region(self, ctx: Context, t: Term, path: Path) -> Term:
        t = self._atoms(ctx, t, path)
        return self._ring(ctx, t, path) if t.op in _RING else t

    def _atoms(self, ctx: Context, t: Term, path: Path) -> Term:
        if t.op not in _RING:
            return self.normal(ctx, t, path)
        t = rebuild(t, [self._atoms(ctx, a, (*path, k)) for k, a in enumerate(t.args)])
        return self.step(ctx, t, path, "bottom") if BOT in t.args else t

    def _ring(self, ctx: Context, t: Term, path: Path) -> Term:
        result = self.attempt(ctx, t, path, "ring")
        if result is t and t.op in _RING:
            # Not all parts are known to be real: those that are get their normal form.
            t = rebuild(t, [self._ring(ctx, a, (*path, k)) if a.op in _RING else a for k, a in enumerate(t.args)])
            return self.attempt(ctx, t, path, "ring")
        return result

    def _ite(self, ctx: Context, t: Term, path: Path) -> Term:
        condition = self.normal(ctx, t.args[0], (*path, 0))
        t = rebuild(t, (condition, *t.args[1:]))
        decided = self.attempt(ctx, t, path, "decide")
        if decided is not t:
            return self.normal(ctx, decided, path)
        yes = self.normal(ctx.with_condition(condition), t.args[1], (*path, 1))
        no = self.normal(ctx.with_condition(negate(condition)), t.args[2], (*path, 2))
        t = rebuild(t, (condition, yes, no))
        if yes == no:
            return self.step(ctx, t, path, "decide")
        guarded = self.attempt(ctx, t, path, "guard")
        return t if guarded is t else self._ring(ctx, guarded, path)

    # -- reductions --------------------------------------------------------------------------------

    def _under(self, ctx: Context, t: Term, path: Path, change: Callable[[Context, Term, Path], Term]) -> Term:
        """A reduction with its body changed."""
        name = fresh(ctx.ranges)
        body = change(ctx.with_index(name, t.args[0]), open_body(t.args[1], idx(name)), (*path, 1))
        return rebuild(t, (t.args[0], close_body(body, name)))

    def _big(self, ctx: Context, t: Term, path: Path) -> Term:
        n = t.args[0]
        while n.op == "mul" and any(a.op == "mul" for a in n.args):
            # Factors keep their order, which is the layout of the axis.
            n = self.step(ctx, n, (*path, 0), "flatten")
            t = rebuild(t, (n, t.args[1]))
        if n.op in ("add", "mul") and not natural(n):
            n = self._ring(ctx, n, (*path, 0))
            t = rebuild(t, (n, t.args[1]))
        if n == ZERO:
            return self.step(ctx, t, path, "empty")
        if n == ONE:
            done = self.attempt(ctx, t, path, "single")
            if done is not t:
                return self.normal(ctx, done, path)
        if n.op == "add":
            return self.normal(ctx, self.step(ctx, t, path, "split"), path)
        if n.op == "mul" and not any(a.op == "num" and a.data != int(a.data) for a in n.args):  # type: ignore[arg-type]
            return self.normal(ctx, self.step(ctx, t, path, "nest"), path)
        t = self._under(ctx, t, path, self.normal)
        return self._reduced(ctx, t, path)

    def _reduced(self, ctx: Context, t: Term, path: Path) -> Term:
        """A reduction whose body is normal."""
        monoid = str(t.data)
        if t.args[1].op == MONOIDS[monoid]:
            if monoid == "sum" or monoid == "max":
                t = self.step(ctx, t, path, "part")
                parts = [self._reduced(ctx, a, (*path, k)) for k, a in enumerate(t.args)]
                t = rebuild(t, parts)
                return self._ring(ctx, t, path) if monoid == "sum" else self._maximum(ctx, t, path)
            t = self.step(ctx, t, path, "part")
            t = rebuild(t, [self._reduced(ctx, a, (*path, k)) for k, a in enumerate(t.args)])
            return self._ring(ctx, t, path)
        constant = self.attempt(ctx, t, path, "constant")
        if constant is not t:
            return self._ring(ctx, constant, path)
        collapsed = self.attempt(ctx, t, path, "collapse")
        if collapsed is not t:
            return self.normal(ctx, collapsed, path)
        if t.args[1].op == "exp" and monoid != "sum":
            joined = self.attempt(ctx, t, path, "exp_max" if monoid == "max" else "exp_sum")
            if joined is not t:
                return self._region(ctx, joined, path)
        if monoid == "sum":
            return self._sum(ctx, t, path)
        if monoid == "max":
            return self._max(ctx, t, path)
        return self._chain(ctx, t, path)

    def _free(self, body: Term) -> list[int]:
        """The positions of the parts of a body that do not mention its index."""
        name = "%free"
        return [k for k, a in enumerate(body.args) if name not in leaves(open_body(a, idx(name)), "idx")]

    def _split_exp(self, ctx: Context, t: Term, path: Path) -> Term:
        """The body of a sum with the part of its exponential that is free of the index as a factor of its own."""

        def change(inner: Context, body: Term, at: Path) -> Term:
            name = list(inner.ranges)[-1]

            def divide(e: Term, where: Path) -> Term:
                if e.op != "exp" or e.args[0].op != "add":
                    return e
                free = [k for k, a in enumerate(e.args[0].args) if name not in leaves(a, "idx")]
                if not free or len(free) == len(e.args[0].args):
                    return e
                return self.step(inner, e, where, "exp_add", free)

            if body.op == "mul":
                return rebuild(body, [divide(a, (*at, k)) for k, a in enumerate(body.args)])
            return divide(body, at)

        t = self._under(ctx, t, path, change)
        body = t.args[1]
        if body.op == "mul" and any(a.op == "mul" for a in body.args):
            # The two exponentials became a product inside the product; it is flattened by pulling in two turns.
            return t
        return t

    def _pull(self, ctx: Context, t: Term, path: Path) -> Term:
        """A sum with the factors free of its index outside: `outside · Σ rest`, or as it is."""
        t = self._split_exp(ctx, t, path)
        body = t.args[1]
        if body.op != "mul":
            return t
        free = self._free(body)
        nested = next((k for k, a in enumerate(body.args) if a.op == "mul"), None)
        if nested is not None and nested not in free:
            t = self._under(ctx, t, path, lambda c, b, p: self.step(c, b, p, "flatten"))
            body = t.args[1]
            free = self._free(body)
        return self.attempt(ctx, t, path, "pull", free) if free else t

    def _sum(self, ctx: Context, t: Term, path: Path) -> Term:
        pulled = self._pull(ctx, t, path)
        if pulled.op == "big":
            return self._gather(ctx, pulled, path)
        last = len(pulled.args) - 1
        inner = pulled.args[last]
        at = (*path, last)
        constant = self.attempt(ctx, inner, at, "constant")
        inner = constant if constant is not inner else self._gather(ctx, inner, at)
        return self._ring(ctx, rebuild(pulled, (*pulled.args[:last], inner)), path)

    def _gather(self, ctx: Context, t: Term, path: Path) -> Term:
        """Draws sums that depend on a binder inside it, then puts the binders into canonical order."""
        before = t
        t = self._under(ctx, t, path, self._draw_in)
        loose = self._detached(t)
        if loose and t != before:
            t = self._under(ctx, t, path, self._spread)
            return self._reduced(ctx, t, path) if t.op == "big" else self._ring(ctx, t, path)
        return self._chain(ctx, t, path)

    def _draw_in(self, ctx: Context, t: Term, path: Path) -> Term:
        if t.op == "big" and t.data == "sum":
            return self._under(ctx, t, path, self._draw_in)
        if t.op == "mul":
            for k, a in enumerate(t.args):
                if a.op == "big" and a.data == "sum":
                    pushed = self.attempt(ctx, t, path, "push", k)
                    if pushed is not t:
                        return self._under(ctx, pushed, path, self._draw_in)
        return self._ring(ctx, t, path) if t.op in _RING else t

    def _detached(self, t: Term) -> bool:
        """Whether the binders of a chain of sums do not hang together through the factors of its body."""
        names: list[str] = []
        while t.op == "big" and t.data == "sum":
            names.append(f"%d{len(names)}")
            t = open_body(t.args[1], idx(names[-1]))
        if len(names) < 2:
            return False
        factors: list[Term] = []
        for f in t.args if t.op == "mul" else (t,):
            if f.op == "exp" and f.args[0].op == "add":
                factors.extend(f.args[0].args)
            else:
                factors.append(f)
        groups = [{n} for n in names]
        for f in factors:
            used = leaves(f, "idx") & set(names)
            touched = [g for g in groups if g & used]
            if len(touched) > 1:
                groups = [g for g in groups if not g & used] + [set().union(*touched)]
        return len(groups) > 1

    def _spread(self, ctx: Context, t: Term, path: Path) -> Term:
        """Factors pulled out of every sum of a chain again, from the innermost on."""
        if t.op != "big" or t.data != "sum":
            return t
        t = self._under(ctx, t, path, self._spread)
        pulled = self._pull(ctx, t, path)
        if pulled.op == "big":
            return self.attempt(ctx, pulled, path, "constant")
        last = len(pulled.args) - 1
        inner = self.attempt(ctx, pulled.args[last], (*path, last), "constant")
        return self._ring(ctx, rebuild(pulled, (*pulled.args[:last], inner)), path)

    def _max(self, ctx: Context, t: Term, path: Path) -> Term:
        body = t.args[1]
        if body.op == "add" and (free := self._free(body)):
            pulled = self.attempt(ctx, t, path, "pull", free)
            if pulled is not t:
                last = len(pulled.args) - 1
                inner = self._reduced(ctx, pulled.args[last], (*path, last))
                return self._ring(ctx, rebuild(pulled, (*pulled.args[:last], inner)), path)
        if body.op == "mul" and (free := self._free(body)):
            for chosen in (free, [k for k in free if body.args[k].op == "num"]):
                scaled = self.attempt(ctx, t, path, "scale", chosen) if chosen else t
                if scaled is not t:
                    last = len(scaled.args) - 1
                    inner = self._reduced(ctx, scaled.args[last], (*path, last))
                    return self._ring(ctx, rebuild(scaled, (*scaled.args[:last], inner)), path)
        return self._chain(ctx, t, path)

    def _chain(self, ctx: Context, t: Term, path: Path) -> Term:
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
        for name in names:
            body = open_body(body, idx(name), depth - 1 - names.index(name))
        best = min(_orders(sizes), key=lambda order: _chain_key(sizes, body, names, order), default=None)
        if best is None:
            return t
        order = list(range(depth))
        for target, wanted in enumerate(best):
            for place in range(order.index(wanted), target, -1):
                at = (*path, *([1] * (place - 1)))
                t = self._at(ctx, t, path, place - 1, lambda c, u, p: self.step(c, u, p, "swap"))
                order[place - 1], order[place] = order[place], order[place - 1]
                del at
        return self._at(ctx, t, path, depth, self._again)

    def _again(self, ctx: Context, t: Term, path: Path) -> Term:
        return self._region(ctx, t, path) if t.op in _RING else t

    def _at(self, ctx: Context, t: Term, path: Path, depth: int, change: Callable[[Context, Term, Path], Term]) -> Term:
        if depth == 0:
            return change(ctx, t, path)
        return self._under(ctx, t, path, lambda c, u, p: self._at(c, u, p, depth - 1, change))


def _quotients(a: Poly, n: Poly, facts: Facts) -> Iterator[tuple[Poly, Poly]]:
    """Polynomials q and r with a = q·n + r, by division, for each choice of a leading monomial of n."""
    for lead, c in n.items():
        q: Poly = {}
        r = a
        for _ in range(len(a) + 1):
            found = next((m for m in r if (r[m] / c).denominator == 1 and _over(m, lead) is not None), None)
            over = None if found is None else _over(found, lead)
            if found is None or over is None:
                break
            part = {over: r[found] / c}
            q, r = plus(q, part), plus(r, times(constant(Fraction(-1)), times(part, n, facts), facts))
        yield q, r


def _over(m: Monomial, n: Monomial) -> Monomial | None:
    """The monomial that n must be multiplied by to give m."""
    powers = dict(m)
    for a, e in n:
        powers[a] = powers.get(a, Fraction(0)) - e
    return tuple((a, e) for a, e in powers.items() if e) if all(e >= 0 for e in powers.values()) else None


_MOST_ORDERS = 720


def _orders(sizes: list[Term]) -> Iterator[tuple[int, ...]]:
    """The orders of binders that sort their sizes: those of one size in every order, if these are not too many."""
    groups: dict[str, list[int]] = {}
    for k, n in enumerate(sizes):
        groups.setdefault(n.key, []).append(k)
    if prod(factorial(len(group)) for group in groups.values()) > _MOST_ORDERS:
        return
    for parts in product(*(permutations(groups[key]) for key in sorted(groups))):
        yield tuple(k for part in parts for k in part)


def _chain_key(sizes: list[Term], body: Term, names: list[str], order: tuple[int, ...]) -> tuple[list[str], str]:
    renamed = {names[old]: f"%k{new}" for new, old in enumerate(order)}
    return [sizes[k].key for k in order], _sorted_key(body, renamed)


def _sorted_key(t: Term, names: dict[str, str]) -> str:
    """A text of a term under new names for its indices, blind to the order of factors and summands."""
    if t.op == "idx":
        return names.get(str(t.data), str(t.data))
    parts = [_sorted_key(a, names) for a in t.args]
    if t.op in ("add", "mul", "max", "and", "or"):
        parts.sort()
    return f"{t.op}:{t.data}({','.join(parts)})"
