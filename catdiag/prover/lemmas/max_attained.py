"""A maximum that is equal to a bound because one of its elements attains it (A9, by order).

To show max_i t(i) = R, let t(i) ≤ R for all i, and s ≤ max_i v(i) for some s such that v(i) ≥ s implies t(i) ≥ R. A
maximum is at least s only if one of its elements is, so that some v(i) is at least s, and that t(i) is at least R.
Examples are `max_i min(v(i), r) = r` for r ≤ max_i v(i), and a monotone function of a maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from catdiag.kernel.context import Context
from catdiag.kernel.facts import arithmetic, negate
from catdiag.kernel.polynomial import to_poly, to_term
from catdiag.kernel.rationals import quotient
from catdiag.kernel.rewrite_rules import Zipper, apply
from catdiag.kernel.terms import TRUE, KernelError, Term, fn, idx, open_body, sub, term_data

Steps = list[list[Any]]
_MOST = 6


def prove_attained(
    ctx: Context, equation: Term, normal: Callable[[Context], tuple[Term, Steps]]
) -> dict[str, Any] | None:
    """A proof record that a maximum attains a bound; None where none is found.

    `equation` is in normal form; `normal` gives that form in a context with more facts, with the steps to it.
    """
    if equation.op != "eq" or not all(map(ctx.real, equation.args)):
        return None
    for top, bound in _tops(ctx, equation):
        for other, least in list(_pivots(ctx, top, bound))[:_MOST]:
            try:
                return _proof(ctx, equation, top, bound, other, least, normal)
            except KernelError:
                continue
    return None


def _tops(ctx: Context, equation: Term) -> Iterator[tuple[Term, Term]]:
    """The maxima in an equation, each with the value that the equation says it has."""
    try:
        p = to_poly(sub(*equation.args), ctx)
    except KernelError:
        return
    for m, c in p.items():
        top = m[0][0] if len(m) == 1 and m[0][1] == 1 else equation
        if top.op == "big" and top.data == "max" and not top.loose and top.args[1].op != "read":
            yield top, to_term({n: quotient(-a, c) for n, a in p.items() if n != m})


def _pivots(ctx: Context, top: Term, bound: Term) -> Iterator[tuple[Term, Term]]:
    """Maxima over the same range, each with a known lower bound."""
    found: dict[Term, None] = {}
    stack = [bound, *(f.condition for f in ctx.facts if not f.variables and not f.guards)]
    while stack:
        t = stack.pop()
        if t.op == "big" and t.data == "max" and not t.loose and t.args[0] == top.args[0] and t != top:
            found[t] = None
        elif t.op != "big" and not arithmetic(t):
            stack.extend(t.args)
    for other in found:
        if ctx.real(other):
            if ctx.entails(fn("le", bound, other)):
                yield other, bound
            yield other, other


def _proof(
    ctx: Context,
    equation: Term,
    top: Term,
    bound: Term,
    other: Term,
    least: Term,
    normal: Callable[[Context], tuple[Term, Steps]],
) -> dict[str, Any]:
    """The proof record, by cases: the maximum is above the bound, equal to it, or below it."""
    above, below = fn("le", top, bound), fn("le", bound, top)
    inside = ctx.with_condition(above)
    return {
        "when": term_data(above),
        "no": {"steps": _absurd(ctx.with_condition(negate(above)), equation, above, normal)},
        "yes": {
            "when": term_data(below),
            "yes": {"steps": _reached(inside.with_condition(below), equation, normal)},
            "no": {"steps": _some(inside.with_condition(negate(below)), equation, below, other, least, normal)},
        },
    }


class _MaximumWalk:
    """A recorder of steps, starting from the equation to be proved."""

    def __init__(self, ctx: Context, equation: Term, normal: Callable[[Context], tuple[Term, Steps]]) -> None:
        self.ctx = ctx
        self.term, steps = normal(ctx)
        self.steps = list(steps)
        if self.term != equation:
            raise KernelError("the normal form is another one where more is known")

    def do(self, rule: str, path: list[int], *args: Any) -> None:
        self.term = apply(self.ctx, self.term, rule, path, args)
        self.steps.append([rule, path, *args])


def _reached(ctx: Context, equation: Term, normal: Callable[[Context], tuple[Term, Steps]]) -> Steps:
    if not ctx.entails(equation):
        raise KernelError("two orders do not make an equation")
    return _MaximumWalk(ctx, equation, normal).steps


def _absurd(ctx: Context, equation: Term, above: Term, normal: Callable[[Context], tuple[Term, Steps]]) -> Steps:
    """The steps in the case that the maximum is above a bound of its elements, which is impossible."""
    walk = _MaximumWalk(ctx, equation, normal)
    walk.do("same", [], term_data(fn("or", equation, above)))
    walk.do("decide", [1])
    walk.do("logic", [])
    if walk.term != TRUE:
        raise KernelError("the bound does not hold of all terms")
    return walk.steps


def _some(
    ctx: Context,
    equation: Term,
    below: Term,
    other: Term,
    least: Term,
    normal: Callable[[Context], tuple[Term, Steps]],
) -> Steps:
    """The steps in the case that the maximum is below the bound, which one of its elements attains."""
    walk = _MaximumWalk(ctx, equation, normal)
    walk.do("same", [], term_data(fn("or", equation, below, fn("lt", other, least))))
    walk.do("order", [1])
    walk.do("order", [2])
    first, second = walk.term.args[1], walk.term.args[2]
    if first.op != "lt" or second.op != "not" or second.args[0].op != "lt" or first.args[1].op != "big":
        raise KernelError("the orders do not say that an index exists")
    indicator = second.args[0].args[1].args[1]
    place = [1, 1, 1, 0]
    inside = Zipper(ctx, walk.term)
    inside.move(place)
    index = idx(next(reversed(inside.ctx.ranges)))
    walk.do("same", place, term_data(open_body(indicator, index).args[0]))
    walk.do("same", [2], term_data(TRUE))
    walk.do("logic", [])
    if walk.term != TRUE:
        raise KernelError("no term is known to reach the bound")
    return walk.steps
