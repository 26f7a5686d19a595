"""Goals by their form: which of them speak of signs, of sums that are not zero, or of two maxima.

`catdiag.prover.proof_search` reads off these what to try next.
"""

from __future__ import annotations

from catdiag.kernel.context import Context
from catdiag.kernel.terms import (
    BOT,
    ZERO,
    Term,
    fn,
    idx,
    leaves,
    open_body,
    size,
    term_data,
)
from catdiag.prover.normal_form.normalize import Normalizer
from catdiag.prover.subterms import subterms


def of_signs(condition: Term) -> bool:
    """Whether a condition says that a term is real, or compares it with 0."""
    inner = condition.args[0] if condition.op == "not" else condition
    return inner.op == "real" or (inner.op in ("lt", "le", "eq") and bool({ZERO, BOT} & set(inner.args)))


def nonzero_sum(condition: Term) -> tuple[list[int], Term] | None:
    """For a condition that a sum is not 0, or above 0: the path to the sum, and the sum."""
    inside, path = (condition.args[0], [0]) if condition.op == "not" else (condition, [])
    if inside.op != ("eq" if path else "lt") or ZERO not in inside.args:
        return None
    place = int(inside.args[0] == ZERO)
    found = inside.args[place]
    return ([*path, place], found) if found.op == "big" and found.data == "sum" and (path or place) else None


def free_exponents(t: Term) -> list[Term] | None:
    """The summands in the exponent of a sum of exponentials that do not depend on its index."""
    body = open_body(t.args[1], idx("%free"))
    if body.op != "exp" or body.args[0].op != "add":
        return None
    return [a for a in body.args[0].args if "%free" not in leaves(a, "idx")]


def holds_plainly(ctx: Context, condition: Term) -> bool:
    """Whether a condition holds trivially; equations only by their form."""
    return condition.args[0] == condition.args[1] if condition.op == "eq" else ctx.entails(condition)


def undecided_size(ctx: Context, condition: Term, found: Term) -> str | None:
    """A size in a condition that may be 0: first that of a maximum over −∞ only in its normal form."""
    fallen = {str(t.args[0].data) for t in subterms(found) if t.op == "big" and t.args[1] == BOT}
    names = sorted(leaves(condition, "size"), key=lambda n: (n not in fallen, n))
    return next((n for n in names if not ctx.positive_size(size(n))), None)


def compared_maxima(equation: Term) -> tuple[Term, Term] | None:
    """Two reductions, if a case of the equation asks whether one of them is their maximum."""
    stack = list(equation.args) if equation.op == "eq" else []
    while stack:
        t = stack.pop()
        if t.op == "eq":
            for top, other in (t.args, t.args[::-1]):
                if top.op == "max" and other in top.args and all(a.op == "big" and not a.loose for a in top.args):
                    return top.args[0], top.args[1]
        elif t.op != "big":
            stack.extend(_equations(t.args[0]) if t.op == "ite" else ())
            stack.extend(t.args[t.op == "ite" :])
    return None


def _equations(c: Term) -> list[Term]:
    """The equations that a condition consists of."""
    if c.op in ("and", "or", "not"):
        return [e for a in c.args for e in _equations(a)]
    return [c] if c.op == "eq" else []


def normal_condition(ctx: Context, condition: Term, search: Normalizer) -> Term:
    """A condition in normal form, including the operand of a negation."""
    if condition.op == "not":
        return fn("not", search.normal(ctx, condition.args[0], (0,)))
    return search.normal(ctx, condition)


def condition_of_normal_terms(ctx: Context, condition: Term, search: Normalizer) -> Term:
    """A condition with the terms that it compares in normal form."""
    if condition.op not in ("real", "lt", "le", "eq", "not"):
        return condition
    if condition.op == "not":
        inner = condition.args[0]
        if inner.op not in ("real", "lt", "le", "eq"):
            return search.normal(ctx, condition)
        parts = [search.normal(ctx, a, (0, k)) for k, a in enumerate(inner.args)]
        return fn("not", fn(inner.op, *parts))
    parts = [search.normal(ctx, a, (k,)) for k, a in enumerate(condition.args)]
    return fn(condition.op, *parts)


def sign_without_factors(ctx: Context, condition: Term, search: Normalizer) -> Term:
    """A sign of normal terms without their positive factors: `0 < t` for `t ≠ 0`, where t is at least 0 by its form,
    which its normal form need not show."""
    inner = condition.args[0] if condition.op == "not" else condition
    t = next((a for a in inner.args if a != ZERO), ZERO)
    if inner is not condition and inner.op == "eq" and ZERO in inner.args and ctx.nonnegative(t):
        condition = search.attempt(ctx, condition, (), "same", term_data(fn("lt", ZERO, t)))
    condition = condition_of_normal_terms(ctx, condition, search)
    if condition.op == "not":
        return fn("not", search.attempt(ctx, condition.args[0], (0,), "difference"))
    return search.attempt(ctx, condition, (), "difference")
