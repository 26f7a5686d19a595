"""Differentiability: where the derivative that is made of a program, operation by operation, is its derivative.

Computed from the terms of the program as it was written, as definedness is: path by path, and for all indices of the
binders around. With arrays that vary, what is owed beside definedness is, of terms that depend on these arrays:

    sqrt a               a > 0
    max a b              a ≠ b
    max_i a(i)           no two elements attain it: where a(i) is the maximum and j ≠ i, a(j) is not
    a < b, a ≤ b, a = b  a ≠ b, wherever the truth value is asked for
    div a n              a is no multiple of n, where ⌊a/n⌋ jumps

Sums, products, exp, log, inverses and the fixed functions have derivatives wherever they are defined, and an
uninterpreted function is taken to have one. Where all of this is met, each operation of the program is differentiable
at the values that it gets, and so is the program, by the chain rule.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from catdiag.kernel.context import Context
from catdiag.kernel.definedness import LIMIT, Obligation, Place, arguments
from catdiag.kernel.facts import fresh, negate
from catdiag.kernel.terms import MINUS, ONE, ZERO, KernelError, Term, fn, idx, leaves, mul, open_body


def corners(ctx: Context, t: Term, varying: Collection[str], all_of_it: bool = False) -> list[Obligation]:
    """What a term owes to have the derivative that its operations have, by the arrays that vary, minus what the context
    entails (or all of it). Raises KernelError for a term that is too large.
    """
    found: dict[Obligation, None] = {}
    seen: set[tuple[Term, tuple[tuple[str, Term], ...], tuple[Term, ...]]] = set()
    arrays = set(varying)
    stack: list[Place] = [(ctx, (), t)]

    def demand(ctx: Context, guards: tuple[Term, ...], condition: Term) -> None:
        if all_of_it or not ctx.entails(condition):
            found[Obligation(tuple(ctx.ranges.items()), guards, condition)] = None

    while stack:
        ctx, guards, t = stack.pop()
        place = (t, tuple(ctx.ranges.items()), guards)
        if place in seen or not t.args or not arrays & (leaves(t, "read") | leaves(t, "holds")):
            continue
        seen.add(place)
        if len(seen) > LIMIT:
            raise KernelError("the term is too large for its corners to be found")
        if t.op == "sqrt":
            demand(ctx, guards, fn("lt", ZERO, t.args[0]))
        elif t.op == "max":
            for a, b in combinations(t.args, 2):
                demand(ctx, guards, _differ(a, b))
        elif t.op in ("lt", "le", "eq"):
            demand(ctx, guards, _differ(*t.args))
        elif t.op == "div" and t.args[1] == ONE:
            demand(ctx, guards, _differ(t, t.args[0]))
        elif t.op == "div":
            demand(ctx, guards, _differ(mul(t, t.args[1]), t.args[0]))
        inside = arguments(ctx, guards, t)
        if t.op == "big" and t.data == "max":
            ((inner, _, body),) = inside
            name, other = fresh(ctx.ranges), fresh(inner.ranges)
            here = fn("eq", body, t)
            distinct = negate(fn("eq", idx(other), idx(name)))
            both = inner.with_index(other, t.args[0]).with_condition(distinct).with_condition(here)
            demand(both, (*guards, distinct, here), _differ(open_body(t.args[1], idx(other)), t))
        stack.extend(inside)
    return list(found)


def _differ(a: Term, b: Term) -> Term:
    """That two terms differ; of two negated ones, as a minimum has, that these do."""
    if a.op == b.op == "mul" and a.args[0] == b.args[0] == MINUS and len(a.args) == len(b.args) == 2:
        a, b = a.args[1], b.args[1]
    return fn("not", fn("eq", a, b))
