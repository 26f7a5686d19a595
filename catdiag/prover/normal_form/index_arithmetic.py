"""Index arithmetic in normal form: floors of quotients, and reductions with a canonical choice of index.

A floor has no fractions in its dividend, multiples of its divisor outside, no floor as its whole dividend, and no
common factor of dividend and divisor. A reduction over a few indices is unrolled. The index of other reductions is
reversed, rotated or shifted so that their reads start at the ends of their arrays. All steps are kernel rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor, gcd, lcm

from catdiag.kernel.context import Context, integer
from catdiag.kernel.facts import arithmetic, natural
from catdiag.kernel.polynomial import Monomial, Poly, plus, times, to_poly, to_term
from catdiag.kernel.rationals import Rational, quotient
from catdiag.kernel.terms import (
    MINUS,
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
from catdiag.prover.normal_form.guards import Guards
from catdiag.prover.proof_trace import Path
from catdiag.prover.subterms import subterms

_FEW = 6
_LARGE = 400
_FAR = 4


class Indices(Guards):
    """Rewrites floors of quotients, and the indices of reductions."""

    # -- floors -----------------------------------------------------------------------------------------

    def divided(self, ctx: Context, t: Term, path: Path) -> Term:
        """⌊a/n⌋ for normal a and n."""
        if not all(map(ctx.real, t.args)):
            return t
        for q, r in _quotients(ctx, t):
            done = self.attempt(ctx, t, path, "divide", term_data(q), term_data(r))
            if done is not t:
                return self.normal(ctx, done, path)
        return t

    def position(self, ctx: Context, t: Term, path: Path) -> Term:
        """An index, replaced by its value if its range and what is known of it leave only one."""
        value = _only_value(ctx, t) if t.op == "idx" else None
        if value is None:
            return t
        return self.attempt(ctx, t, path, "same", term_data(value), [[term_data(fn("eq", t, value)), term_data(ONE)]])

    # -- reductions -------------------------------------------------------------------------------------

    def turned(self, ctx: Context, t: Term, path: Path) -> Term | None:
        """A reduction with another choice of index; None where its index is canonical."""
        n, body = t.args
        if n.op == "num" and 1 < n.data <= _FEW and body.weight * int(n.data) <= _LARGE:  # type: ignore[operator,arg-type]
            here = bound(0)
            length = add(ONE, num(int(n.data) - 1))  # type: ignore[arg-type]
            return self._over(ctx, t, path, length, here, here)
        name = "%turn"
        at = open_body(body, idx(name))
        cut = self._cut(ctx, t, path, at, name)
        found = dict.fromkeys(_uses(at, name)) if cut is None else {}
        if not found:
            return cut
        return (
            self._reversed(ctx, t, path, found)
            or self._rotated(ctx, t, path, at, name)
            or self._moved(ctx, t, path, found)
        )

    def _cut(self, ctx: Context, t: Term, path: Path, at: Term, name: str) -> Term | None:
        """The reduction over a shorter range, where a guard bounds the index."""
        n = t.args[0]
        for condition in guards_of(str(t.data), at):
            bound_ = _bound(ctx, condition, name) if condition.op in ("lt", "le") else None
            if bound_ is None:
                continue
            upper, limit = bound_
            length = to_term(to_poly(limit if upper else sub(n, limit), ctx))
            if length == n or not natural(length):
                continue
            if leaves(length, "idx") | leaves(limit, "idx") and not _counts_only(at, name, condition):
                continue
            start = ZERO if upper else limit
            if self.known(ctx, fn("le", length, n)):
                done = self._over(ctx, t, path, length, add(start, bound(0)), sub(bound(0), start))
                if done is not None:
                    return done
        return None

    def _over(self, ctx: Context, t: Term, path: Path, length: Term, forth: Term, back: Term) -> Term | None:
        try:
            t = self.step(ctx, t, path, "reindex", *map(term_data, (length, forth, back)))
        except KernelError:
            return None
        return self.normal(ctx, t, path)

    def _reversed(self, ctx: Context, t: Term, path: Path, uses: dict[tuple[str, int, str, Term], None]) -> Term | None:
        """The reduction with its index reversed, where that makes its reads ascending."""
        signs = [(array, place, rest, sign) for array, place, rest, sign in _signs(uses)]
        there = sorted((array, place, -sign, rest) for array, place, rest, sign in signs)
        back = sorted((array, place, sign, rest) for array, place, rest, sign in signs)
        if [s[:3] for s in there] <= [s[:3] for s in back]:
            return None
        other = add(t.args[0], MINUS, mul(MINUS, bound(0)))
        return self._over(ctx, t, path, t.args[0], other, other)

    def _rotated(self, ctx: Context, t: Term, path: Path, at: Term, name: str) -> Term | None:
        """The reduction over j = (i + c) mod n, where its body uses i only in this form."""
        n = t.args[0]
        floors = list(_floors(at, name))
        if len(floors) != 1 or floors[0].args[1] != n or not _only_with(at, name, floors[0]):
            return None
        offset = to_term(to_poly(sub(floors[0].args[0], idx(name)), ctx.with_index(name, n)))
        if name in leaves(offset, "idx"):
            return None
        forth, back = (_modulo(add(bound(0), mul(num(s), offset)), n) for s in (-1, 1))
        return self._over(ctx, t, path, n, forth, back)

    def _moved(self, ctx: Context, t: Term, path: Path, uses: dict[tuple[str, int, str, Term], None]) -> Term | None:
        """Σ_i t(i) as Σ_i t(i ± 1) and the terms at the two ends, so that its reads start at the first element."""
        offsets = [_constant(rest) for _, _, how, rest in uses if how == "+"]
        if t.data != "sum" or not offsets or not 0 < abs(min(offsets)) <= _FAR:
            return None
        moved = self.attempt(ctx, t, path, "shift", "up" if min(offsets) < 0 else "down")
        return None if moved is t else self.normal(ctx, moved, path)


def _only_value(ctx: Context, index: Term) -> Term | None:
    """The number that an index is, where its range and linear conditions on indices leave only one."""
    largest = {name: int(n.data) - 1 for name, n in ctx.ranges.items() if n.op == "num"}  # type: ignore[arg-type]
    lower, upper = 0, largest.get(str(index.data))
    for fact in ctx.facts:
        c = fact.condition
        if c.op not in ("lt", "le") or index.data not in leaves(c, "idx") or leaves(c, "size") or not arithmetic(c):
            continue
        if fact.variables or fact.guards:
            continue
        p = to_poly(sub(c.args[1], c.args[0]), ctx)  # at least `-rest`, in the other indices, too
        rest: Rational = -1 if c.op == "lt" else 0
        own = p.pop(((index, 1),), 0)
        for powers, factor in p.items():
            at = str(powers[0][0].data) if len(powers) == 1 and powers[0][1] == 1 else ""
            if powers and (not at or powers[0][0].op != "idx" or (factor > 0 and at not in largest)):
                break
            rest += factor if not powers else factor * largest[at] if factor > 0 else 0
        else:
            if own > 0:
                lower = max(lower, ceil(quotient(-rest, own)))
            elif own < 0:
                limit = floor(quotient(rest, -own))
                upper = limit if upper is None else min(upper, limit)
    return num(lower) if lower == upper else None


def _constant(rest: Term) -> int:
    """The constant in the offset of an index."""
    numbers = [int(p.data) for p in (rest.args if rest.op == "add" else (rest,)) if p.op == "num"]  # type: ignore[arg-type]
    return numbers[0] if numbers else 0


def _modulo(a: Term, n: Term) -> Term:
    return sub(a, mul(n, fn("div", a, n)))


def guards_of(monoid: str, t: Term) -> Iterator[Term]:
    """Conditions outside of which a body is the unit of its monoid."""
    if t.op == "ite":
        yield from t.args[0].args if t.args[0].op == "and" else (t.args[0],)
        yield from guards_of(monoid, t.args[1])
    elif t.op == "mul" and monoid == "sum":
        for a in t.args:
            yield from guards_of(monoid, a)


def _bound(ctx: Context, condition: Term, name: str) -> tuple[bool, Term] | None:
    """For a condition on an index: (True, limit) if it says i < limit, (False, limit) if limit ≤ i; else None."""
    if not arithmetic(condition):
        return None
    p = to_poly(sub(condition.args[1], condition.args[0]), ctx.with_index(name, ONE))
    here: Monomial = ((idx(name), 1),)
    if abs(p.get(here, 0)) != 1 or any(name in leaves(a, "idx") for m in p if m != here for a, _ in m):
        return None
    rest = to_term({m: c for m, c in p.items() if m != here})
    # 0 < rest − i or 0 ≤ rest − i; 0 < rest + i or 0 ≤ rest + i
    if p[here] < 0:
        return True, rest if condition.op == "lt" else add(rest, ONE)
    return False, mul(MINUS, rest) if condition.op == "le" else sub(ONE, rest)


def _counts_only(t: Term, name: str, condition: Term) -> bool:
    """Whether a body mentions an index in one guard only."""
    parts = t.args if t.op == "mul" else (t,)
    return all(name not in leaves(p, "idx") or p == fn("ite", condition, ONE, ZERO) for p in parts)


# -- how a body uses an index ------------------------------------------------------------------------------


def _uses(t: Term, name: str) -> Iterator[tuple[str, int, str, Term]]:
    """The reads of a body at an index: array, axis position, the sign of the index there (`+`, `-`, or `?` for other
    uses), and the offset.
    """
    for u in subterms(t):
        if u.op in ("read", "holds"):
            for k, a in enumerate(u.args):
                if name in leaves(a, "idx"):
                    yield (f"{u.data}", k, *_counts(a, name))


def _counts(a: Term, name: str) -> tuple[str, Term]:
    parts = a.args if a.op == "add" else (a,)
    mine = [p for p in parts if name in leaves(p, "idx")]
    rest = add(*(p for p in parts if p not in mine))
    if len(mine) != 1:
        return "?", rest
    (p,) = mine
    if p == idx(name):
        return "+", rest
    if p.op == "mul" and idx(name) in p.args and p.args[0].op == "num":
        negative = p.args[0].data < 0  # type: ignore[operator]
        return ("-" if negative else "*"), rest
    return ("*" if p.op == "mul" and idx(name) in p.args else "?"), rest


def _signs(uses: dict[tuple[str, int, str, Term], None]) -> list[tuple[str, int, str, int]]:
    return [(array, k, rest.key, -1 if how == "-" else 1) for array, k, how, rest in uses if how != "?"]


def _floors(t: Term, name: str) -> Iterator[Term]:
    return (u for u in subterms(t) if u.op == "div" and name in leaves(u, "idx") and not u.loose)


def _only_with(t: Term, name: str, floor: Term) -> bool:
    """Whether an index occurs only in positions that mention the floor too."""
    if name not in leaves(t, "idx"):
        return True
    if arithmetic(t):
        return any(floor == f for f in _floors(t, name))
    return all(_only_with(a, name, floor) for a in t.args)


# -- quotients -----------------------------------------------------------------------------------------


def _quotients(ctx: Context, t: Term) -> Iterator[tuple[Term, Term]]:
    """Candidates q and r with a = q·n + r for ⌊a/n⌋, the simplest q first; the kernel checks that 0 ≤ r < n."""
    a, n = (to_poly(u, ctx) for u in t.args)
    for whole, left in _divisions(ctx, a, n):
        yield to_term(whole), to_term(left)
    if len(n) == 1:
        for q in _simpler(ctx, a, *next(iter(n.items()))):
            if q != t:
                yield q, to_term(plus(a, to_poly(mul(MINUS, q, t.args[1]), ctx)))


def _divisions(ctx: Context, a: Poly, n: Poly) -> Iterator[tuple[Poly, Poly]]:
    """Polynomials q and r with a = q·n + r, by polynomial division, for each choice of a leading monomial of n."""
    for lead, c in n.items():
        q: Poly = {}
        r = a
        for _ in range(len(a) + 1):
            found = next((m for m in r if quotient(r[m], c).denominator == 1 and _over(m, lead) is not None), None)
            over = None if found is None else _over(found, lead)
            if found is None or over is None:
                break
            part: Poly = {over: quotient(r[found], c)}
            q, r = plus(q, part), plus(r, times({(): -1}, times(part, n, ctx), ctx))
        yield q, r


def _over(m: Monomial, n: Monomial) -> Monomial | None:
    """The monomial m/n; None where n does not divide m."""
    powers = dict(m)
    for a, e in n:
        powers[a] = powers.get(a, 0) - e
    return tuple((a, e) for a, e in powers.items() if e) if all(e >= 0 for e in powers.values()) else None


def _simpler(ctx: Context, a: Poly, lead: Monomial, c: Rational) -> Iterator[Term]:
    """Candidates for a simpler form of ⌊a/n⌋, for n = c times a product of sizes: a dividend without fractions,
    multiples of n moved out, or a smaller dividend.
    """
    k = int(c)
    if c != k or k < 1:
        return
    n = to_term({lead: c})
    parts = lcm(*(Fraction(d).denominator for d in a.values()))
    if parts > 1:
        yield fn("div", to_term({m: d * parts for m, d in a.items()}), to_term({lead: k * parts}))
    outside: Poly = {}
    rest: Poly = {}
    for m, d in a.items():
        over = _over(m, lead)
        whole = d // k if over is not None and integer(ctx, to_term({over: 1})) else 0
        if over is not None and whole:
            outside[over] = whole
        if d - whole * k:
            rest[m] = d - whole * k
    inner = to_term(rest)
    if outside:
        yield add(to_term(outside), fn("div", inner, n))
        return
    floor = next(
        (m[0][0] for m, d in rest.items() if d == 1 and len(m) == 1 and m[0][0].op == "div" and m[0][1] == 1), None
    )
    if floor is not None:
        b, divisor = floor.args
        others = {m: x for m, x in rest.items() if m != ((floor, 1),)}
        above, below = add(b, mul(divisor, to_term(others))), mul(divisor, n)
        yield fn("div", to_term(to_poly(above, ctx)), to_term(to_poly(below, ctx)))
    yield from _shared(rest, lead, k)


def _shared(rest: Poly, lead: Monomial, k: int) -> Iterator[Term]:
    """⌊(g·a + r)/(g·n)⌋ = ⌊a/n⌋ for 0 ≤ r < g, with g a number or a size."""
    numbers = [int(d) for m, d in rest.items() if m]
    g = gcd(k, *numbers)
    if numbers and g > 1:
        yield fn("div", to_term({m: d // g for m, d in rest.items()}), to_term({lead: k // g}))
    for s, _ in lead:
        one: Monomial = ((s, 1),)
        over = {q: d for m, d in rest.items() if (q := _over(m, one)) is not None}
        below = _over(lead, one)
        if over and below is not None and (below or k > 1):
            yield fn("div", to_term(over), to_term({below: k}))
