"""The rewrite rules: each takes a context and a term and gives an equal term, or raises KernelError.

A step names a rule, a path to a subterm, and arguments. Going down a path opens binders (A2: in the body
of ⊕_{i<n}, 0 ≤ i < n is known) and branches (`ite c a b`: c is known in a, its opposite in b), so that a rule
sees a closed subterm and everything known there. The equations hold of the total operations of `terms`;
where they need more (real values, non-empty ranges) the rule asks the context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catdiag.kernel.context import Context, arithmetic, fresh, natural, negate
from catdiag.kernel.polynomial import normal, scaled, to_poly, to_term
from catdiag.kernel.terms import (
    BOT,
    FALSE,
    MONOIDS,
    ONE,
    TRUE,
    UNITS,
    ZERO,
    KernelError,
    Term,
    add,
    big,
    bound,
    close_body,
    combine,
    fn,
    idx,
    leaves,
    maximum,
    mul,
    num,
    open_body,
    parse_term,
    rebuild,
    sub,
)

Rule = Callable[..., Term]


def _big(t: Term, *monoids: str) -> tuple[str, Term, Term]:
    if t.op != "big" or (monoids and t.data not in monoids):
        raise KernelError(f"expected a reduction over {' or '.join(monoids) or 'an index'}, found {t}")
    return str(t.data), t.args[0], t.args[1]


def _opened(ctx: Context, n: Term, body: Term) -> tuple[Context, str, Term]:
    name = fresh(ctx.ranges)
    return ctx.with_index(name, n), name, open_body(body, idx(name))


def _positions(args: Sequence[Term], chosen: Any) -> tuple[list[Term], list[Term]]:
    if not isinstance(chosen, list) or not all(type(k) is int and 0 <= k < len(args) for k in chosen):
        raise KernelError(f"not positions of {len(args)} parts: {chosen!r}")
    # A part chosen twice would be there twice: c·c·Σ t for Σ c·t.
    if len(set(chosen)) != len(chosen):
        raise KernelError(f"a part is chosen twice: {chosen!r}")
    return [args[k] for k in chosen], [a for k, a in enumerate(args) if k not in chosen]


def ring(ctx: Context, t: Term) -> Term:
    """A7: the normal form of a polynomial over opaque real atoms (see `polynomial`)."""
    return normal(t, ctx)


def split(ctx: Context, t: Term) -> Term:
    """A5: ⊕_{i<a+b} t(i) = ⊕_{i<a} t(i) ⊕ ⊕_{i<b} t(a+i), for natural a and b."""
    monoid, n, body = _big(t)
    if n.op != "add" or not natural(n):
        raise KernelError(f"the range {n} is no sum of sizes")
    first, rest = n.args[0], add(*n.args[1:])
    _, name, opened = _opened(ctx, rest, body)
    shifted = close_body(open_body(body, add(first, idx(name))), name)
    del opened
    return combine(monoid, big(monoid, first, body), big(monoid, rest, shifted))


def nest(ctx: Context, t: Term) -> Term:
    """A4: ⊕_{i<a·b} t(i) = ⊕_{j<a} ⊕_{k<b} t(j·b + k), for natural a and b."""
    monoid, n, body = _big(t)
    if n.op != "mul" or not natural(n):
        raise KernelError(f"the range {n} is no product of sizes")
    a, b = n.args[0], mul(*n.args[1:])
    j = fresh(ctx.ranges)
    k = fresh(ctx.with_index(j, a).ranges)
    opened = open_body(body, add(mul(idx(j), b), idx(k)))
    return big(monoid, a, close_body(big(monoid, b, close_body(opened, k)), j))


def empty(ctx: Context, t: Term) -> Term:
    """A5: ⊕ over no index is the unit."""
    monoid, n, _ = _big(t)
    if n != ZERO:
        raise KernelError(f"the range {n} is not empty")
    return UNITS[monoid]


def single(ctx: Context, t: Term) -> Term:
    """A5: ⊕_{i<1} t(i) = t(0); for Σ and max of anything, for Π of a real t(0)."""
    monoid, n, body = _big(t)
    if n != ONE:
        raise KernelError(f"the range {n} is not one")
    result = open_body(body, ZERO)
    if monoid == "prod" and not ctx.real(result):
        raise KernelError(f"{result} is not known to be real")
    return result


def part(ctx: Context, t: Term) -> Term:
    """A3: ⊕_i (s(i) ⊕ t(i)) = ⊕_i s(i) ⊕ ⊕_i t(i)."""
    monoid, n, body = _big(t)
    if body.op != MONOIDS[monoid]:
        raise KernelError(f"the body of {t} is no {MONOIDS[monoid]}")
    return combine(monoid, *(big(monoid, n, a) for a in body.args))


def pull(ctx: Context, t: Term, chosen: Any) -> Term:
    """A3: Σ_i c·t(i) = c·Σ_i t(i) for real t(i), and max_i (c + t(i)) = c + max_i t(i), with c free of i.

    For Σ: if c is −∞, both sides are 0, since a product with −∞ is. For max over no index: −∞ = c + −∞.
    """
    monoid, n, body = _big(t, "sum", "max")
    if body.op != ("mul" if monoid == "sum" else "add"):
        raise KernelError(f"nothing to pull out of {t}")
    name = fresh(ctx.ranges)
    outside, inside = _positions(body.args, chosen)
    if not outside or any(_mentions_bound(a) for a in outside):
        raise KernelError(f"{outside} depends on the index, or is nothing")
    lifted = [open_body(a, ZERO) for a in outside]
    join = mul if monoid == "sum" else add
    if not inside:
        inside = [ONE if monoid == "sum" else ZERO]
    inner = ctx.with_index(name, n)
    if monoid == "sum" and not all(inner.real(open_body(a, idx(name))) for a in inside):
        raise KernelError(f"a factor inside {t} is not known to be real")
    return join(*lifted, big(monoid, n, join(*inside)))


def push(ctx: Context, t: Term, position: Any) -> Term:
    """A3 backwards: c·Σ_i t(i) = Σ_i c·t(i) for real t(i), and c + max_i t(i) = max_i (c + t(i))."""
    if t.op not in ("mul", "add"):
        raise KernelError(f"{t} is no product or sum")
    chosen, others = _positions(t.args, [position])
    monoid, n, body = _big(chosen[0], "sum" if t.op == "mul" else "max")
    inner, name, opened = _opened(ctx, n, body)
    if monoid == "sum" and not inner.real(opened):
        raise KernelError(f"{opened} is not known to be real")
    join = mul if monoid == "sum" else add
    return big(monoid, n, close_body(join(*others, opened), name))


def scale(ctx: Context, t: Term, chosen: Any) -> Term:
    """A3: max_{i<n} c·t(i) = c·max_{i<n} t(i) for c ≥ 0 free of i, real t(i) and n ≥ 1."""
    _, n, body = _big(t, "max")
    if body.op != "mul":
        raise KernelError(f"the body of {t} is no product")
    outside, inside = _positions(body.args, chosen)
    if not outside or not inside or any(_mentions_bound(a) for a in outside):
        raise KernelError("the factors to pull out depend on the index, or are all or none")
    inner, name, _ = _opened(ctx, n, body)
    lifted = [open_body(a, ZERO) for a in outside]
    if not ctx.positive_size(n) or not ctx.nonnegative(mul(*lifted)):
        raise KernelError(f"{mul(*lifted)} is not known to be at least 0 over a non-empty range")
    # A product counts as real whatever its factors, so each of them is asked.
    if not all(inner.real(open_body(a, idx(name))) for a in (*outside, *inside)):
        raise KernelError(f"a factor inside {t} is not known to be real")
    return mul(*lifted, big("max", n, mul(*inside)))


def swap(ctx: Context, t: Term) -> Term:
    """A4: ⊕_i ⊕_j t(i, j) = ⊕_j ⊕_i t(i, j), the range of j being free of i."""
    monoid, n, body = _big(t)
    inner_monoid, m, inside = _big(body)
    if inner_monoid != monoid or _mentions_bound(m):
        raise KernelError(f"the two reductions of {t} cannot change places")
    i = fresh(ctx.ranges)
    m = open_body(m, ZERO)
    j = fresh(ctx.with_index(i, n).ranges)
    opened = open_body(open_body(inside, idx(i), 1), idx(j))
    return big(monoid, m, close_body(big(monoid, n, close_body(opened, i)), j))


def constant(ctx: Context, t: Term) -> Term:
    """A8: Σ_{i<n} c = n·c for real c; max_{i<n} c = c for n ≥ 1; Π_{i<n} 1 = 1, Σ_{i<n} 0 = 0."""
    monoid, n, body = _big(t)
    if _mentions_bound(body):
        raise KernelError(f"the body of {t} depends on the index")
    c = open_body(body, ZERO)
    if monoid == "sum":
        # With n = 0 both sides are 0 whatever c is, so c need be real only where there is an index.
        if not ctx.with_index(fresh(ctx.ranges), n).real(c):
            raise KernelError(f"{c} is not known to be real")
        return mul(n, c)
    if monoid == "max" and ctx.positive_size(n):
        return c
    if monoid == "prod" and c == ONE:
        return ONE
    raise KernelError(f"the constant reduction {t} does not simplify")


def collapse(ctx: Context, t: Term) -> Term:
    """A6: ⊕_{i<n} ite(i = k, t(i), unit) = ite(0 ≤ k ∧ k < n, t(k), unit), for a natural k free of i.

    For Π the surviving t(k) must be real, since 1·(−∞) is 0.
    """
    monoid, n, body = _big(t)
    if body.op != "ite" or body.args[2] != UNITS[monoid] or body.args[0].op != "eq":
        raise KernelError(f"the body of {t} is not zero off one index")
    left, k = body.args[0].args
    if left != bound(0) or _mentions_bound(k):
        raise KernelError(f"the guard of {t} does not fix the index")
    k = open_body(k, ZERO)
    if not natural(k):
        raise KernelError(f"{k} is not a natural number by its form")
    value = open_body(body.args[1], k)
    if monoid == "prod" and not ctx.real(value):
        raise KernelError(f"{value} is not known to be real")
    return fn("ite", fn("and", fn("le", ZERO, k), fn("lt", k, n)), value, UNITS[monoid])


def lattice(ctx: Context, t: Term) -> Term:
    """A3, A7: max is associative, commutative and idempotent, −∞ its unit; numbers are compared."""
    if t.op != "max":
        raise KernelError(f"{t} is no maximum")
    found: dict[Term, None] = {}
    numbers = []
    stack = list(t.args)
    while stack:
        a = stack.pop()
        if a.op == "max":
            stack.extend(a.args)
        elif a.op == "num":
            numbers.append(a)
        elif a != BOT:
            found[a] = None
    if numbers:
        found[max(numbers, key=lambda a: a.data)] = None  # type: ignore[arg-type,return-value]
    return maximum(*sorted(found, key=lambda a: a.key))


def bottom(ctx: Context, t: Term) -> Term:
    """−∞ + t = −∞; exp(−∞) = 0; a product with −∞ is 0, and so are its inverse, logarithm and root."""
    if t.op == "add" and BOT in t.args:
        return BOT
    if t.op in ("exp", "mul", "inv", "log", "sqrt") and BOT in t.args:
        return ZERO
    raise KernelError(f"{t} has no part that is −∞")


def decide(ctx: Context, t: Term) -> Term:
    """`ite` whose condition, or the opposite, is known here; or whose branches are one. A comparison that is known."""
    if t.op in ("lt", "le", "eq"):
        if ctx.entails(t):
            return TRUE
        if ctx.entails(negate(t)):
            return FALSE
    if t.op != "ite":
        raise KernelError(f"{t} is no case distinction")
    condition, yes, no = t.args
    if yes == no or ctx.entails(condition):
        return yes
    if condition == FALSE or ctx.entails(negate(condition)):
        return no
    raise KernelError(f"{condition} is not decided here")


def divide(ctx: Context, t: Term, quotient: Any, remainder: Any) -> Term:
    """A7: ⌊a/n⌋ = q where a = q·n + r with an integer q and 0 ≤ r < n. The equation is one of polynomials."""
    if t.op != "div":
        raise KernelError(f"{t} is no floor of a quotient")
    q, r = parse_term(quotient), parse_term(remainder)
    if not all(map(arithmetic, (*t.args, q, r))) or q.loose or r.loose:
        raise KernelError(f"{t} is not divided by {q} and {r}: expected terms of indices and sizes")
    if not leaves(q, "idx") | leaves(r, "idx") <= leaves(t, "idx"):
        raise KernelError(f"{t} is not divided by {q} and {r}")
    a, n = t.args
    if to_poly(sub(a, add(mul(q, n), r)), ctx):
        raise KernelError(f"{a} is not ({q})·({n}) + {r}")
    if not ctx.entails(fn("le", ZERO, r)) or not ctx.entails(fn("lt", r, n)):
        raise KernelError(f"{r} is not known to be from 0 to {n} − 1")
    return q


def compare(ctx: Context, t: Term) -> Term:
    """A comparison of two numbers, or of a term with itself, or of −∞ with a real."""
    if t.op not in ("lt", "le", "eq"):
        raise KernelError(f"{t} is no comparison")
    a, b = t.args
    if a == b:
        return FALSE if t.op == "lt" else TRUE
    if a.op == b.op == "num":
        x, y = a.data, b.data
        holds = {"lt": x < y, "le": x <= y, "eq": x == y}[t.op]  # type: ignore[operator]
        return TRUE if holds else FALSE
    if a == BOT and (t.op == "le" or ctx.real(b)):
        return FALSE if t.op == "eq" else TRUE
    if b == BOT and ctx.real(a):
        return FALSE
    raise KernelError(f"{t} is not decided by its form")


def guard(ctx: Context, t: Term) -> Term:
    """`ite c t 0 = [c]·t` and `ite c 0 t = [¬c]·t`, with [c] = `ite c 1 0`, for real t."""
    if t.op != "ite" or ZERO not in t.args[1:] or ONE in t.args[1:]:
        raise KernelError(f"{t} is not zero in one of two cases")
    condition, yes, no = t.args
    value, condition = (yes, condition) if no == ZERO else (no, negate(condition))
    if not ctx.real(value):
        raise KernelError(f"{value} is not known to be real")
    return mul(fn("ite", condition, ONE, ZERO), value)


def order(ctx: Context, t: Term) -> Term:
    """A7: c < max(a, b) iff c < a or c < b, max(a, b) < c iff a < c and b < c; ≤ likewise. Over no index, max is −∞."""
    if t.op not in ("lt", "le"):
        raise KernelError(f"{t} is no order")
    a, b = t.args
    if b.op == "max":
        return fn("or", *(fn(t.op, a, x) for x in b.args))
    if a.op == "max":
        return fn("and", *(fn(t.op, x, b) for x in a.args))
    raise KernelError(f"{t} compares no maximum")


def logic(ctx: Context, t: Term) -> Term:
    """Truth values: `not` driven inwards, `and` and `or` flattened, sorted, without repetition and constants."""
    if t.op == "not":
        inner = t.args[0]
        if inner.op in ("and", "or"):
            return logic(ctx, fn("or" if inner.op == "and" else "and", *(logic(ctx, fn("not", a)) for a in inner.args)))
        if inner in (TRUE, FALSE):
            return FALSE if inner == TRUE else TRUE
        return t if inner.op not in ("not", "lt", "le") else negate(inner)
    if t.op not in ("and", "or"):
        raise KernelError(f"{t} is no connective")
    neutral, absorbing = (TRUE, FALSE) if t.op == "and" else (FALSE, TRUE)
    found: dict[Term, None] = {}
    stack = list(t.args)
    while stack:
        a = stack.pop()
        if a.op == t.op:
            stack.extend(a.args)
        elif a == absorbing:
            return absorbing
        elif a != neutral:
            found[a] = None
    parts = sorted(found, key=lambda a: a.key)
    return fn(t.op, *parts) if len(parts) > 1 else parts[0] if parts else neutral


def flatten(ctx: Context, t: Term) -> Term:
    """A7: products in a product and sums in a sum are written as one. −∞ in an inner product makes both 0."""
    if t.op not in ("add", "mul"):
        raise KernelError(f"{t} is no product or sum")
    args = [b for a in t.args for b in (a.args if a.op == t.op else (a,))]
    return rebuild(t, args)


def exp_add(ctx: Context, t: Term, chosen: Any) -> Term:
    """A7: exp(a + b) = exp a · exp b, −∞ included (there both sides are 0)."""
    if t.op != "exp" or t.args[0].op != "add":
        raise KernelError(f"{t} is no exponential of a sum")
    first, rest = _positions(t.args[0].args, chosen)
    if not first or not rest:
        raise KernelError("one of the two parts is empty")
    return mul(fn("exp", add(*first)), fn("exp", add(*rest)))


def exp_max(ctx: Context, t: Term) -> Term:
    """A7, A9: exp is monotone, so max(exp a, exp b) = exp(max(a, b)), and max_i exp t(i) = exp(max_i t(i)).

    Over no index the left side is −∞ and the right one 0, so there must be one.
    """
    if t.op == "max" and all(a.op == "exp" for a in t.args):
        return fn("exp", maximum(*(a.args[0] for a in t.args)))
    if t.op == "big" and t.data == "max" and t.args[1].op == "exp" and ctx.positive_size(t.args[0]):
        return fn("exp", big("max", t.args[0], t.args[1].args[0]))
    raise KernelError(f"{t} is no maximum of exponentials")


def exp_sum(ctx: Context, t: Term) -> Term:
    """A7: Π_i exp t(i) = exp(Σ_i t(i)); where a t(i) is −∞, both sides are 0."""
    _, n, body = _big(t, "prod")
    if body.op != "exp":
        raise KernelError(f"{t} is no product of exponentials")
    return fn("exp", big("sum", n, body.args[0]))


def larger(ctx: Context, t: Term) -> Term:
    """A7: max without the arguments that are known not to pass another one."""
    if t.op != "max":
        raise KernelError(f"{t} is no maximum")
    kept = list(t.args)
    for a in t.args:
        others = list(kept)
        others.remove(a)
        if any(ctx.entails(fn("le", a, b)) or _at_least(ctx, a, b) for b in others):
            kept = others
    return maximum(*kept)


def _at_least(ctx: Context, a: Term, b: Term) -> bool:
    """Whether b − a, as a polynomial, is known not to be negative."""
    return ctx.real(a) and ctx.real(b) and ctx.nonnegative(normal(sub(b, a), ctx))


def difference(ctx: Context, t: Term) -> Term:
    """A7: between reals, a < b iff 0 < c·(b − a), with c > 0 so chosen that the leading coefficient is 1 or −1.

    Equations too, there up to sign.
    """
    if t.op not in ("lt", "le", "eq") or not all(map(ctx.real, t.args)):
        raise KernelError(f"{t} is no comparison of reals")
    p = to_poly(sub(t.args[1], t.args[0]), ctx)
    if not p:
        return FALSE if t.op == "lt" else TRUE
    result = to_term(scaled(p, signed=t.op == "eq"))
    if result.op == "num":
        return compare(ctx, fn(t.op, ZERO, result))
    return fn(t.op, ZERO, result)


RULES: dict[str, Rule] = {
    "ring": ring, "split": split, "nest": nest, "empty": empty, "single": single, "part": part, "pull": pull,
    "push": push, "scale": scale, "swap": swap, "constant": constant, "collapse": collapse, "lattice": lattice,
    "bottom": bottom, "decide": decide, "compare": compare, "exp_add": exp_add, "flatten": flatten, "guard": guard,
    "order": order, "logic": logic, "exp_max": exp_max, "exp_sum": exp_sum, "larger": larger, "difference": difference,
    "divide": divide,
}  # fmt: skip
AXIOMS = {
    "ring": "A7", "split": "A5", "nest": "A4", "empty": "A5", "single": "A5", "part": "A3", "pull": "A3", "push": "A3",
    "scale": "A3", "swap": "A4", "constant": "A8", "collapse": "A6", "lattice": "A3", "bottom": "A7", "decide": "A7",
    "compare": "A7", "exp_add": "A7", "flatten": "A7", "guard": "A7",
    "order": "A7", "logic": "A7", "exp_max": "A9", "exp_sum": "A7", "larger": "A7", "difference": "A7", "field": "A7",
    "divide": "A7", "equal": "A2",
}  # fmt: skip


def _mentions_bound(t: Term) -> bool:
    """Whether the innermost bound variable occurs in a term that may have loose ones."""
    stack = [(t, 0)]
    seen: set[tuple[Term, int]] = set()
    while stack:
        t, k = stack.pop()
        if t.loose <= k or (t, k) in seen:
            continue
        seen.add((t, k))
        if t.op == "b" and t.data == k:
            return True
        if t.op == "big":
            stack.append((t.args[0], k))
            stack.append((t.args[1], k + 1))
        else:
            stack.extend((a, k) for a in t.args)
    return False


def at(ctx: Context, t: Term, path: Sequence[int], change: Callable[[Context, Term], Term]) -> Term:
    """A term with the part at a path changed, in the context that is known there."""
    # (parent, position, name of the index opened here)
    spine: list[tuple[Term, int, str | None]] = []
    for k in path:
        if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k < len(t.args):
            raise KernelError(f"no part {k!r} of {t}")
        name = None
        child = t.args[k]
        if t.op == "big" and k == 1:
            ctx, name, child = _opened(ctx, t.args[0], child)
        elif t.op == "ite" and k == 1:
            ctx = ctx.with_condition(t.args[0])
        elif t.op == "ite" and k == 2:
            ctx = ctx.with_condition(negate(t.args[0]))
        spine.append((t, k, name))
        t = child
    result = change(ctx, t)
    for parent, k, name in reversed(spine):
        if name is not None:
            result = close_body(result, name)
        result = rebuild(parent, (*parent.args[:k], result, *parent.args[k + 1 :]))
    return result


def apply(ctx: Context, t: Term, rule: str, path: Sequence[int], args: Sequence[Any] = ()) -> Term:
    """The term after one step: `rule` at `path`. Raises KernelError where the step is not valid."""
    if rule not in RULES:
        raise KernelError(f"no rule {rule!r}")
    try:
        return at(ctx, t, path, lambda inner, u: RULES[rule](inner, u, *args))
    except TypeError as error:
        raise KernelError(f"step {rule} with arguments {args!r}: {error}") from error


__all__ = ["AXIOMS", "RULES", "apply", "at", "num"]
