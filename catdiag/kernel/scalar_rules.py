"""The rules for scalar terms and conditions: A7, the ordered field with maxima, and case distinctions."""

from __future__ import annotations

from math import gcd
from typing import Any

from catdiag.kernel.context import Context, integer
from catdiag.kernel.facts import arithmetic, match, negate
from catdiag.kernel.polynomial import Monomial, Poly, is_unit, leading, normal, plus, scaled, to_poly, to_term, vanishes
from catdiag.kernel.rationals import quotient
from catdiag.kernel.rule_arguments import given, positions, rational, reduction
from catdiag.kernel.terms import (
    BOT,
    FALSE,
    LOGICAL,
    MINUS,
    NUMERIC,
    ONE,
    TRUE,
    ZERO,
    KernelError,
    Term,
    add,
    big,
    close_body,
    fn,
    idx,
    leaves,
    maximum,
    mul,
    open_body,
    parse_term,
    rebuild,
    sub,
)


def ring(ctx: Context, t: Term) -> Term:
    """A7: the normal form of a polynomial over opaque real atoms (see `polynomial`)."""
    return normal(t, ctx)


def flatten(ctx: Context, t: Term) -> Term:
    """A7: products in a product and sums in a sum are written as one. −∞ in an inner product makes both 0."""
    if t.op not in ("add", "mul"):
        raise KernelError("{} is no product or sum", t)
    args = [b for a in t.args for b in (a.args if a.op == t.op else (a,))]
    return rebuild(t, args)


def exp_add(ctx: Context, t: Term, chosen: Any) -> Term:
    """A7: exp(a + b) = exp a · exp b, −∞ included (there both sides are 0)."""
    if t.op != "exp" or t.args[0].op != "add":
        raise KernelError("{} is no exponential of a sum", t)
    first, rest = positions(t.args[0].args, chosen)
    if not first or not rest:
        raise KernelError("one of the two parts is empty")
    return mul(fn("exp", add(*first)), fn("exp", add(*rest)))


def bottom(ctx: Context, t: Term) -> Term:
    """−∞ + t = −∞; exp(−∞) = 0; a product with −∞ or 0 is 0, and so are the inverse, logarithm and root of −∞."""
    if t.op == "add" and BOT in t.args:
        return BOT
    if (t.op in ("exp", "mul", "inv", "log", "sqrt") and BOT in t.args) or (t.op == "mul" and ZERO in t.args):
        return ZERO
    raise KernelError("{} has no part that is −∞ or 0", t)


def lattice(ctx: Context, t: Term) -> Term:
    """A3, A7: max is associative, commutative and idempotent, −∞ its unit; numbers are compared."""
    if t.op != "max":
        raise KernelError("{} is no maximum", t)
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


def larger(ctx: Context, t: Term, pair: Any = None, combination: Any = None) -> Term:
    """A7, A9: max without the arguments that are known not to pass another one.

    Or without the first of a `pair` of positions, where known comparisons add up to its not passing the second.
    """
    if t.op != "max":
        raise KernelError("{} is no maximum", t)
    if pair is not None:
        (low,), others = positions(t.args, pair[:1])
        (high,), _ = positions(t.args, pair[1:])
        if pair[:1] == pair[1:] or not _combined(ctx, fn("le", low, high), combination):
            raise KernelError("{} is not known to be at most {}", low, high)
        return maximum(*others)
    kept = list(t.args)
    for a in t.args:
        others = list(kept)
        others.remove(a)
        if any(below(ctx, a, b) for b in others):
            kept = others
    return maximum(*kept)


def below(ctx: Context, a: Term, b: Term, fuel: int = 8) -> bool:
    """Whether a ≤ b is known: max ≤ b if each part is; a ≤ max, and a ≤ Σ of non-negatives, if a is below a part.

    Which part of a reduction is looked at is read off by matching its body with a; else it is the first one.
    """
    if a in (b, BOT) or ctx.entails(fn("le", a, b)):
        return True
    if a.op == "max":
        return all(below(ctx, x, b, fuel) for x in a.args)
    if a.op == "big" and a.data == "max":
        inner, _, at = ctx.opened(*a.args)
        return below(inner, at, b, fuel)
    if fuel <= 0:
        return False
    if b.op == "max" and any(below(ctx, a, x, fuel - 1) for x in b.args):
        return True
    if b.op == "big" and b.data in ("max", "sum"):
        # Opened under names of their own, which the pattern may bind.
        names: list[str] = []
        pattern = b
        while pattern.op == "big" and pattern.data == b.data and not pattern.loose:
            names.append(f"%in{len(names)}")
            pattern = open_body(pattern.args[1], idx(names[-1]))
        values = match(pattern, a, set(names))
        k = ZERO if values is None else values.get(names[0], ZERO)
        inner, _, at = ctx.opened(*b.args)
        within = integer(ctx, k) and ctx.entails(fn("le", ZERO, k)) and ctx.entails(fn("lt", k, b.args[0]))
        if within and (b.data == "max" or inner.nonnegative(at)) and below(ctx, a, open_body(b.args[1], k), fuel - 1):
            return True
    if not ctx.real(a) or not ctx.real(b):
        return False
    # −max(…) ≤ b where −b ≤ max(…)
    if a.op == "mul" and len(a.args) == 2 and a.args[0] == MINUS and a.args[1].op in ("max", "big"):
        return below(ctx, normal(mul(MINUS, b), ctx), a.args[1], fuel - 1)
    return ctx.nonnegative(normal(sub(b, a), ctx))


def divide(ctx: Context, t: Term, quotient: Any, remainder: Any) -> Term:
    """A7: ⌊a/n⌋ = q where a = q·n + r with 0 ≤ r < n, and q is an integer by its form. The equation is one of
    polynomials, whose parts are real.
    """
    if t.op != "div":
        raise KernelError("{} is no floor of a quotient", t)
    q, r = parse_term(quotient), parse_term(remainder)
    if q.loose or r.loose or not integer(ctx, q):
        raise KernelError("{} is not divided by {} and {}: expected a quotient that is an integer by its form", t, q, r)
    if not leaves(q, "idx") | leaves(r, "idx") <= leaves(t, "idx"):
        raise KernelError("{} is not divided by {} and {}", t, q, r)
    a, n = t.args
    if to_poly(sub(a, add(mul(q, n), r)), ctx):
        raise KernelError("{} is not ({})·({}) + {}", a, q, n, r)
    if not ctx.entails(fn("le", ZERO, r)) or not ctx.entails(fn("lt", r, n)):
        raise KernelError("{} is not known to be from 0 to {} − 1", r, n)
    return q


def compare(ctx: Context, t: Term) -> Term:
    """A comparison of two numbers, or of a term with itself, or of −∞ with a real."""
    if t.op not in ("lt", "le", "eq"):
        raise KernelError("{} is no comparison", t)
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
    raise KernelError("{} is not decided by its form", t)


def difference(ctx: Context, t: Term) -> Term:
    """A7: between reals, a < b iff 0 < c·(b − a), with c > 0 so chosen that the leading coefficient is 1 or −1 and that
    there is no positive factor that can be seen.

    Equations too, there up to sign. Between integers, a < b iff a + 1 ≤ b, and 0 ≤ g·p + c iff 0 ≤ p + ⌊c/g⌋.
    """
    if t.op not in ("lt", "le", "eq") or not all(map(ctx.real, t.args)):
        raise KernelError("{} is no comparison of reals", t)
    p = to_poly(sub(t.args[1], t.args[0]), ctx)
    if arithmetic(t):
        return _of_integers(t.op, p)
    if not p:
        return FALSE if t.op == "lt" else TRUE
    result = to_term(scaled(_without_positive(ctx, p), signed=t.op == "eq"))
    if result.op == "num":
        return compare(ctx, fn(t.op, ZERO, result))
    return fn(t.op, ZERO, result)


def _without_positive(ctx: Context, p: Poly) -> Poly:
    """A polynomial divided by the greatest powers of positive atoms that it has as factors."""
    for a in {a for m in p for a, _ in m if is_unit(a) or ctx.positive(a)}:
        least = min(dict(m).get(a, 0) for m in p)
        p = {tuple((b, e - least if b == a else e) for b, e in _with(m, a)): c for m, c in p.items()} if least else p
    return {tuple((b, e) for b, e in m if e): c for m, c in p.items()}


def _with(m: Monomial, a: Term) -> Monomial:
    return m if any(b == a for b, _ in m) else tuple(sorted((*m, (a, 0)), key=lambda f: f[0].key))


def holds(ctx: Context, c: Term) -> bool:
    """Whether a comparison is known, in canonical words first, which saves the solver."""

    def canonical(c: Term) -> Term:
        try:
            return difference(ctx, c)
        except KernelError:
            return c

    wanted = canonical(c)
    known = [f.condition for f in ctx.facts if not f.variables and not f.guards and f.condition.op == c.op]
    return wanted == TRUE or any(canonical(k) == wanted for k in known) or ctx.entails(c)


def _of_integers(op: str, p: Poly) -> Term:
    """0 < p, 0 ≤ p or 0 = p, of whole coefficients, with these made coprime and each part on the side it adds to."""
    c = p.get((), 0) - (1 if op == "lt" else 0)
    parts = {m: a for m, a in p.items() if m}
    if not parts:
        return TRUE if c == 0 or (op != "eq" and c > 0) else FALSE
    g = gcd(*(int(a) for a in parts.values()))
    if op == "eq":
        if c % g:
            return FALSE
        g = g if parts[leading(parts)] > 0 else -g
    c = c // g
    plus_, minus = ({m: quotient(s * a, g) for m, a in parts.items() if s * a * g > 0} for s in (1, -1))
    if op != "eq" and c == -1:
        return fn("lt", to_term(minus), to_term(plus_))
    if c:
        (plus_ if c > 0 else minus)[()] = abs(c)
    return fn("eq" if op == "eq" else "le", to_term(minus), to_term(plus_))


def order(ctx: Context, t: Term, back: Any = None) -> Term:
    """A7, A9: c < max(a, b) iff c < a or c < b, max(a, b) < c iff a < c and b < c; ≤ likewise.

    With [p] for `ite p 1 0`: c < max_i t(i) iff 0 < max_i [c < t(i)], and c ≤ max_i t(i) iff 0 < max_i [c ≤ t(i)] for
    real c, since over no index max is −∞; max_i t(i) ≤ c iff not 0 < max_i [c < t(i)], and with < for real c likewise.
    With `back`: 0 < max_i [0 < s(i)] iff 0 < max_i s(i).
    """
    if t.op not in ("lt", "le"):
        raise KernelError("{} is no order", t)
    a, b = t.args
    if back is not None:
        _, n, body = reduction(b, "max")
        if t.op != "lt" or a != ZERO or body.op != "ite" or body.args[1:] != (ONE, ZERO):
            raise KernelError("{} does not say that an index exists", t)
        inside = body.args[0]
        if inside.op != "lt" or inside.args[0] != ZERO:
            raise KernelError("{} does not say that something is positive", inside)
        return fn("lt", ZERO, big("max", n, inside.args[1]))
    if b.op == "max":
        return fn("or", *(fn(t.op, a, x) for x in b.args))
    if a.op == "max":
        return fn("and", *(fn(t.op, x, b) for x in a.args))
    strict = fn("lt" if t.op == "le" else "le", *reversed(t.args))
    if b.op == "big" and b.data == "max" and (t.op == "lt" or ctx.real(a)):
        return _exists(ctx, t.op, a, b)
    if a.op == "big" and a.data == "max" and (t.op == "le" or ctx.real(b)):
        return fn("not", _exists(ctx, strict.op, b, a))
    raise KernelError("{} compares no maximum", t)


def _exists(ctx: Context, op: str, a: Term, reduced: Term) -> Term:
    _, name, at = ctx.opened(*reduced.args)
    indicator = fn("ite", fn(op, a, at), ONE, ZERO)
    return fn("lt", ZERO, big("max", reduced.args[0], close_body(indicator, name)))


def logic(ctx: Context, t: Term) -> Term:
    """Truth values: `not` driven inwards, `and` and `or` flattened, sorted, without repetition and constants."""
    if t.op == "not":
        inner = t.args[0]
        if inner.op in ("and", "or"):
            return logic(ctx, fn("or" if inner.op == "and" else "and", *(logic(ctx, fn("not", a)) for a in inner.args)))
        if inner in (TRUE, FALSE):
            return FALSE if inner == TRUE else TRUE
        # That something holds of an index, 0 < max_i [c(i)], keeps its words.
        some = inner.op == "lt" and inner.args[0] == ZERO and inner.args[1].op == "big"
        return t if some or inner.op not in ("not", "lt", "le") else negate(inner)
    if t.op not in ("and", "or"):
        raise KernelError("{} is no connective", t)
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


def decide(ctx: Context, t: Term, combination: Any = None) -> Term:
    """`ite` whose condition, or the opposite, is known here; or whose branches are one. A comparison that is known.

    With a combination `[[condition, coefficient], …]` of known comparisons of reals: their differences, with positive
    coefficients (any, for equations), add up to at most the difference of this one, or of its opposite.
    """
    if t.op in ("lt", "le", "eq"):
        opposite = negate(t)
        if combination is not None:
            if _combined(ctx, t, combination):
                return TRUE
            if _combined(ctx, opposite, combination):
                return FALSE
        elif ctx.entails(t) or (t.op == "le" and below(ctx, t.args[0], t.args[1])):
            return TRUE
        elif ctx.entails(opposite) or (t.op == "lt" and below(ctx, t.args[1], t.args[0])):
            return FALSE
    if t.op != "ite":
        raise KernelError("{} is not decided here", t)
    condition, yes, no = t.args
    if yes == no or ctx.entails(condition):
        return yes
    if condition == FALSE or ctx.entails(negate(condition)):
        return no
    raise KernelError("{} is not decided here", condition)


def _combined(ctx: Context, goal: Term, combination: Any) -> bool:
    """Whether 0 < p, or 0 ≤ p, follows by adding up known comparisons 0 < q, 0 ≤ q and 0 = q."""
    if goal.op not in ("lt", "le"):
        return False
    rest, strict = _gap(ctx, goal), goal.op == "lt" and not whole(ctx, goal)
    for data, coefficient in combination:
        known, c = given(ctx, data, logical=True), rational(coefficient)
        if known.op not in ("lt", "le", "eq") or not ctx.entails(known) or (c <= 0 and known.op != "eq"):
            return False
        strict = strict and (known.op != "lt" or whole(ctx, known))
        rest = plus(rest, {m: -c * a for m, a in _gap(ctx, known).items()})
    left = rest.pop((), 0)
    return not rest and (left > 0 or (left == 0 and not strict))


def _gap(ctx: Context, c: Term) -> Poly:
    """b − a for a comparison of a with b; 1 less for a < b of integers, which says a + 1 ≤ b."""
    p = to_poly(sub(c.args[1], c.args[0]), ctx)
    return plus(p, {(): -1}) if c.op == "lt" and whole(ctx, c) else p


def whole(ctx: Context, c: Term) -> bool:
    """Whether a comparison is one of integers by their form."""
    return all(integer(ctx, a) for a in c.args)


def guard(ctx: Context, t: Term) -> Term:
    """`ite c s t = [c]·s + (1 − [c])·t`, with [c] = `ite c 1 0`, for s that is real where c holds and t where not.

    Where c does not hold [c]·s is 0, even of s = −∞; and the other way round.
    """
    if t.op != "ite" or t.args[1:] == (ONE, ZERO):
        raise KernelError("{} is no case distinction, or is an indicator", t)
    condition, yes, no = t.args
    if not ctx.with_condition(condition).real(yes) or not ctx.with_condition(negate(condition)).real(no):
        raise KernelError("a branch of {} is not known to be real", t)
    here = fn("ite", condition, ONE, ZERO)
    first, second = mul(here, yes), mul(sub(ONE, here), no)
    return first if no == ZERO else second if yes == ZERO else add(first, second)


def turn(ctx: Context, t: Term, how: Any) -> Term:
    """`ite` by the form of its condition: of ¬c, c ∧ d and c ∨ d (`connective`); of a < b and a ≤ b by the opposite
    (`opposite`); of a ≤ b by a < b and a = b (`equal`); the indicator of c ∨ d as a maximum (`max`).
    """
    if t.op != "ite":
        raise KernelError("{} is no case distinction", t)
    c, yes, no = t.args
    if how == "opposite" and c.op in ("lt", "le"):
        return fn("ite", negate(c), no, yes)
    if how == "equal" and c.op == "le":
        return fn("ite", fn("lt", *c.args), yes, fn("ite", fn("eq", *c.args), yes, no))
    if how == "max" and c.op == "or" and (yes, no) == (ONE, ZERO):
        return maximum(*(fn("ite", d, ONE, ZERO) for d in c.args))
    if how == "connective" and c.op == "not":
        return fn("ite", c.args[0], no, yes)
    if how == "connective" and c.op in ("and", "or"):
        rest = c.args[1] if len(c.args) == 2 else fn(c.op, *c.args[1:])
        other = fn("ite", rest, yes, no)
        return fn("ite", c.args[0], other, no) if c.op == "and" else fn("ite", c.args[0], yes, other)
    raise KernelError(f"the condition of {t} is not of a form to be turned by {how!r}")


def distinguish(ctx: Context, t: Term, condition: Any) -> Term:
    """t = `ite c t t`, and of truth values t = c ∧ t or ¬c ∧ t: either c holds or it does not."""
    c = given(ctx, condition, logical=True)
    if t.op in LOGICAL:
        return fn("or", fn("and", c, t), fn("and", negate(c), t))
    if t.op not in NUMERIC:
        raise KernelError("{} is no number or truth value", t)
    return fn("ite", c, t, t)


def same(ctx: Context, t: Term, target: Any, modulo: Any = ()) -> Term:
    """A7: t = u where t − u vanishes as a rational function, or is a sum of multiples of known equations (`modulo`, as
    `[[equation, factor], …]`); conditions where each entails the other, or one compares a multiple of the other's
    difference.

    `target` is u.
    """
    u = given(ctx, target, logical=t.op in LOGICAL)
    if t.op in LOGICAL:
        if not _proportional(ctx, t, u) and not (ctx.with_condition(t).entails(u) and ctx.with_condition(u).entails(t)):
            raise KernelError("{} and {} are not known to mean the same", t, u)
        return u
    rest = to_poly(sub(t, u), ctx)
    for data, factor in modulo:
        known = given(ctx, data, logical=True)
        if known.op != "eq" or not ctx.entails(known):
            raise KernelError("{} is no equation that is known here", known)
        rest = plus(rest, to_poly(mul(MINUS, given(ctx, factor), sub(*known.args)), ctx))
    if not vanishes(rest, ctx):
        raise KernelError("{} is not known to be {}", t, u)
    return u


def _proportional(ctx: Context, c: Term, d: Term) -> bool:
    """Whether two comparisons of reals are one but for a factor: positive, or any but 0 for equations."""
    if c.op not in ("lt", "le", "eq") or d.op != c.op or not all(map(ctx.real, (*c.args, *d.args))):
        return False
    p, q = (to_poly(sub(x.args[1], x.args[0]), ctx) for x in (c, d))
    return bool(p and q) and scaled(p, signed=c.op == "eq") == scaled(q, signed=c.op == "eq")
