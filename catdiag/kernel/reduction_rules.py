"""The rules for reductions ⊕_{i<n} t(i): A3 to A6, A8 and what is monotone or a homomorphism among A7 and A9."""

from __future__ import annotations

from typing import Any

from catdiag.kernel.context import Context, integer
from catdiag.kernel.facts import fresh, natural, negate
from catdiag.kernel.polynomial import to_poly
from catdiag.kernel.rule_arguments import depends, given, given_body, positions, reduction
from catdiag.kernel.scalar_rules import holds
from catdiag.kernel.terms import (
    MONOIDS,
    ONE,
    UNITS,
    ZERO,
    KernelError,
    Term,
    add,
    big,
    close_body,
    combine,
    fn,
    idx,
    maximum,
    mul,
    num,
    open_body,
    sub,
)


def split(ctx: Context, t: Term) -> Term:
    """A5: ⊕_{i<a+b} t(i) = ⊕_{i<a} t(i) ⊕ ⊕_{i<b} t(a+i), for natural a and b."""
    monoid, n, body = reduction(t)
    if n.op != "add" or not natural(n):
        raise KernelError("the range {} is no sum of sizes", n)
    first, rest = n.args[0], add(*n.args[1:])
    name = fresh(ctx.ranges)
    shifted = close_body(open_body(body, add(first, idx(name))), name)
    return combine(monoid, big(monoid, first, body), big(monoid, rest, shifted))


def nest(ctx: Context, t: Term) -> Term:
    """A4: ⊕_{i<a·b} t(i) = ⊕_{j<a} ⊕_{k<b} t(j·b + k), for natural a and b."""
    monoid, n, body = reduction(t)
    if n.op != "mul" or not natural(n):
        raise KernelError("the range {} is no product of sizes", n)
    a, b = n.args[0], mul(*n.args[1:])
    j = fresh(ctx.ranges)
    k = fresh(ctx.with_index(j, a).ranges)
    at = open_body(body, add(mul(idx(j), b), idx(k)))
    return big(monoid, a, close_body(big(monoid, b, close_body(at, k)), j))


def empty(ctx: Context, t: Term) -> Term:
    """A5: ⊕ over no index is the unit."""
    monoid, n, _ = reduction(t)
    if n != ZERO:
        raise KernelError("the range {} is not empty", n)
    return UNITS[monoid]


def single(ctx: Context, t: Term) -> Term:
    """A5: ⊕_{i<1} t(i) = t(0); for Σ and max of anything, for Π of a real t(0)."""
    monoid, n, body = reduction(t)
    if n != ONE:
        raise KernelError("the range {} is not one", n)
    result = open_body(body, ZERO)
    if monoid == "prod" and not ctx.real(result):
        raise KernelError("{} is not known to be real", result)
    return result


def part(ctx: Context, t: Term) -> Term:
    """A3: ⊕_i (s(i) ⊕ t(i)) = ⊕_i s(i) ⊕ ⊕_i t(i)."""
    monoid, n, body = reduction(t)
    if body.op != MONOIDS[monoid]:
        raise KernelError(f"the body of {t} is no {MONOIDS[monoid]}")
    return combine(monoid, *(big(monoid, n, a) for a in body.args))


def join(ctx: Context, t: Term) -> Term:
    """A3, the other way: ⊕_i s(i) ⊕ ⊕_i t(i) = ⊕_i (s(i) ⊕ t(i)) over one range."""
    monoid, n, _ = reduction(t.args[0] if t.args else t)
    if t.op != MONOIDS[monoid] or any(a.op != "big" or a.data != monoid or a.args[0] != n for a in t.args):
        raise KernelError("{} does not combine reductions over one range", t)
    return big(monoid, n, combine(monoid, *(a.args[1] for a in t.args)))


def pull(ctx: Context, t: Term, chosen: Any) -> Term:
    """A3: Σ_i c·t(i) = c·Σ_i t(i) for real t(i), and max_i (c + t(i)) = c + max_i t(i), with c free of i.

    For Σ: if c is −∞, both sides are 0, since a product with −∞ is. For max over no index: −∞ = c + −∞.
    """
    monoid, n, body = reduction(t, "sum", "max")
    if body.op != ("mul" if monoid == "sum" else "add"):
        raise KernelError("nothing to pull out of {}", t)
    name = fresh(ctx.ranges)
    outside, inside = positions(body.args, chosen)
    if not outside or any(depends(a) for a in outside):
        raise KernelError("{} depends on the index, or is nothing", outside)
    lifted = [open_body(a, ZERO) for a in outside]
    together = mul if monoid == "sum" else add
    if not inside:
        inside = [ONE if monoid == "sum" else ZERO]
    inner = ctx.with_index(name, n)
    if monoid == "sum" and not all(inner.real(open_body(a, idx(name))) for a in inside):
        raise KernelError("a factor inside {} is not known to be real", t)
    return together(*lifted, big(monoid, n, together(*inside)))


def push(ctx: Context, t: Term, position: Any) -> Term:
    """A3 backwards: c·Σ_i t(i) = Σ_i c·t(i) for real t(i), and c + max_i t(i) = max_i (c + t(i))."""
    if t.op not in ("mul", "add"):
        raise KernelError("{} is no product or sum", t)
    chosen, others = positions(t.args, [position])
    monoid, n, body = reduction(chosen[0], "sum" if t.op == "mul" else "max")
    inner, name, at = ctx.opened(n, body)
    if monoid == "sum" and not inner.real(at):
        raise KernelError("{} is not known to be real", at)
    together = mul if monoid == "sum" else add
    return big(monoid, n, close_body(together(*others, at), name))


def scale(ctx: Context, t: Term, chosen: Any) -> Term:
    """A3: max_{i<n} c·t(i) = c·max_{i<n} t(i) for c ≥ 0 free of i, real t(i) and n ≥ 1."""
    _, n, body = reduction(t, "max")
    if body.op != "mul":
        raise KernelError("the body of {} is no product", t)
    outside, inside = positions(body.args, chosen)
    if not outside or not inside or any(depends(a) for a in outside):
        raise KernelError("the factors to pull out depend on the index, or are all or none")
    inner, name, _ = ctx.opened(n, body)
    lifted = [open_body(a, ZERO) for a in outside]
    if not ctx.positive_size(n) or not ctx.nonnegative(mul(*lifted)):
        raise KernelError(f"{mul(*lifted)} is not known to be at least 0 over a non-empty range")
    # A product counts as real whatever its factors, so each of them is asked.
    if not all(inner.real(open_body(a, idx(name))) for a in (*outside, *inside)):
        raise KernelError("a factor inside {} is not known to be real", t)
    return mul(*lifted, big("max", n, mul(*inside)))


def swap(ctx: Context, t: Term) -> Term:
    """A4: ⊕_i ⊕_j t(i, j) = ⊕_j ⊕_i t(i, j), the range of j being free of i."""
    monoid, n, body = reduction(t)
    inner_monoid, m, inside = reduction(body)
    if inner_monoid != monoid or depends(m):
        raise KernelError("the two reductions of {} cannot change places", t)
    i = fresh(ctx.ranges)
    m = open_body(m, ZERO)
    j = fresh(ctx.with_index(i, n).ranges)
    at = open_body(open_body(inside, idx(i), 1), idx(j))
    return big(monoid, m, close_body(big(monoid, n, close_body(at, i)), j))


def constant(ctx: Context, t: Term) -> Term:
    """A8: Σ_{i<n} c = n·c for real c; max_{i<n} c = c for n ≥ 1; Π_{i<n} c = exp(n·log c) for c > 0, 1 for c = 1.

    Where n is the number of indices, that is: natural.
    """
    monoid, n, body = reduction(t)
    if depends(body):
        raise KernelError("the body of {} depends on the index", t)
    c = open_body(body, ZERO)
    # With n = 0 both sides are 0, or 1, whatever c is, so it need be known only where there is an index.
    inner = ctx.with_index(fresh(ctx.ranges), n)
    if monoid == "max" and ctx.positive_size(n):
        return c
    if monoid == "prod" and c == ONE:
        return ONE
    # A range that a certificate brings in may be any number: over fewer than no indices Σ 1 is 0.
    counted = natural(n) or (integer(ctx, n) and ctx.entails(fn("le", ZERO, n)))
    if monoid == "sum" and counted and inner.real(c):
        return mul(n, c)
    if monoid == "prod" and counted and inner.positive(c):
        return fn("exp", mul(n, fn("log", c)))
    raise KernelError("the constant reduction {} does not simplify", t)


def reindex(ctx: Context, t: Term, length: Any, forth: Any, back: Any) -> Term:
    """A6: ⊕_{i<n} t(i) = ⊕_{j<m} t(f(j)), where t(i) is the unit but for those i that f, a bijection to them, reaches.

    f (`forth`) and its inverse g (`back`) take integers to integers, and m is natural. What is asked: for j < m,
    0 ≤ f(j) < n and g(f(j)) = j; for i < n where t(i) may not be the unit, 0 ≤ g(i) < m and f(g(i)) = i. So f maps
    the indices below m one to one to indices below n, all where t may not be the unit among them. With m = 1, ⊕
    collapses to one index.
    """
    monoid, n, body = reduction(t)
    m, f, g = given(ctx, length), given_body(ctx, forth), given_body(ctx, back)
    inner, i, at = ctx.opened(n, body)
    outer, j, _ = ctx.opened(m, body)
    to, fro = open_body(f, idx(j)), open_body(g, idx(i))
    if not natural(m) or not integer(ctx, open_body(f, ZERO)) or not integer(ctx, open_body(g, ZERO)):
        raise KernelError("{}, {} and {} are not known to be a natural number and integers", m, to, fro)
    for condition in support(monoid, at):
        inner = inner.with_condition(condition)
    reached = [(outer, to, n), (inner, fro, m)]
    if not all(holds(c, fn("le", ZERO, k)) and holds(c, fn("lt", k, n)) for c, k, n in reached):
        raise KernelError("{} and {} are not known to be in range", to, fro)
    for c, x, y in ((outer, open_body(g, to), idx(j)), (inner, open_body(f, fro), idx(i))):
        # The only index below 1 is 0.
        if m == ONE and c is outer:
            x, y = (open_body(close_body(u, j), ZERO) for u in (x, y))
        if not holds(c, fn("eq", x, y)):
            raise KernelError("{} is not known to be {}", x, y)
    return big(monoid, m, close_body(open_body(body, to), j))


def shift(ctx: Context, t: Term, way: Any) -> Term:
    """A5: Σ_{i<n} t(i) = t(0) + Σ_{i<n} t(i + 1) − t(n) (`up`) = t(n − 1) + Σ_{i<n} t(i − 1) − t(−1) (`down`).

    n is natural, and t real from 0 to n, or from −1 to n − 1. With t(n) added, both sides of the first are
    Σ_{i<n+1} t(i); the second is the first for t(i − 1).
    """
    _, n, body = reduction(t, "sum")
    inner, name, at = ctx.opened(n, body)
    if way not in ("up", "down") or not natural(n):
        raise KernelError(f"{t} is not moved {str(way)[:20]!r} over {n}")
    first, last = (ZERO, n) if way == "up" else (sub(n, ONE), num(-1))
    if not inner.real(at) or not ctx.real(open_body(body, last)):
        raise KernelError("the summands of {} are not known to be real", t)
    moved = open_body(body, add(idx(name), num(1 if way == "up" else -1)))
    return add(open_body(body, first), big("sum", n, close_body(moved, name)), mul(num(-1), open_body(body, last)))


def support(monoid: str, t: Term) -> list[Term]:
    """Conditions without which a term is the unit of a monoid: of cases with the unit, and of factors that are 0."""
    if t.op == "ite" and UNITS[monoid] in t.args[1:]:
        condition, yes, no = t.args
        here, rest = (condition, yes) if no == UNITS[monoid] else (negate(condition), no)
        return [here, *support(monoid, rest)]
    if (monoid, t.op) in (("sum", "mul"), ("max", "add")):
        return [c for a in t.args for c in support(monoid, a)]
    return []


def telescope(ctx: Context, t: Term, closed: Any) -> Term:
    """A8: Σ_{i<n} t(i) = T(n), and Π likewise, where T(0) is the unit and T(i + 1) = T(i) ⊕ t(i), by induction on n.

    The two equations are of polynomials, so all is real.
    """
    monoid, n, body = reduction(t, "sum", "prod")
    total = given_body(ctx, closed)
    if not natural(n):
        raise KernelError("the range {} is no natural number by its form", n)
    inner, name, at = ctx.opened(n, body)
    step = combine(monoid, open_body(total, idx(name)), at)
    after = open_body(total, add(idx(name), ONE))
    if to_poly(sub(open_body(total, ZERO), UNITS[monoid]), ctx) or to_poly(sub(after, step), inner):
        raise KernelError("{} does not sum up {}", total, t)
    return open_body(total, n)


# f(⊕ t) = ⊗ f(t), where t(i) > 0, where t(i) ≥ 0, or for all t(i), −∞ included.
_HOMOMORPHISMS = {
    ("prod", "exp"): ("sum", "all"),
    ("prod", "inv"): ("prod", "all"),
    ("prod", "sqrt"): ("prod", "nonnegative"),
    ("sum", "log"): ("prod", "positive"),
    ("max", "exp"): ("max", "all"),
    ("max", "sqrt"): ("max", "nonnegative"),
    ("max", "log"): ("max", "positive"),
}


def through(ctx: Context, t: Term) -> Term:
    """A7, A9: homomorphisms and monotone functions come out: Π_i exp t(i) = exp(Σ_i t(i)), Π_i 1/t(i) = 1/Π_i t(i),
    Π_i √t(i) = √Π_i t(i) for t ≥ 0, Σ_i log t(i) = log Π_i t(i) for t > 0; and max_i f(t(i)) = f(max_i t(i)), of
    several terms too, for exp, for √ of t ≥ 0, for log of t > 0.

    Where a t(i) is −∞: exp(−∞) = 0 and exp(Σ) = exp(−∞); 1/(−∞) = 0 and Π = 0. Over no index, max of exp t(i) is −∞
    and exp(max) is 0, so there must be one.
    """
    monoid = str(t.data) if t.op == "big" else t.op
    parts = (t.args[1],) if t.op == "big" else t.args
    f = parts[0].op if parts else ""
    into, needs = _HOMOMORPHISMS.get((monoid, f), ("", ""))
    if not into or any(a.op != f for a in parts):
        raise KernelError("nothing to take out of {}", t)
    if t.op == "max":
        inner, insides = ctx, [a.args[0] for a in parts]
    else:
        inner, _, at = ctx.opened(t.args[0], parts[0])
        insides = [at.args[0]]
        if monoid == "max" and not ctx.positive_size(t.args[0]):
            raise KernelError(f"the range {t.args[0]} may be empty")
    if needs != "all" and not all((inner.positive if needs == "positive" else inner.nonnegative)(a) for a in insides):
        raise KernelError("an argument of {} in {} is not known to be {}", f, t, needs)
    return fn(f, maximum(*insides) if t.op == "max" else big(into, t.args[0], parts[0].args[0]))
