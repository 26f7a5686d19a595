"""Reductions that are real, above 0, or not 0, because one of their elements is: of a causal mask, the diagonal one.

A maximum, and a sum of what is at least 0, is at least each of its elements (A9). So it is also the maximum of itself
and an element at one index, which is found by solving the conditions that its body distinguishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from catdiag.kernel.context import Context
from catdiag.kernel.facts import arithmetic, fresh
from catdiag.kernel.polynomial import to_poly, to_term
from catdiag.kernel.rationals import quotient
from catdiag.kernel.rewrite_rules import apply
from catdiag.kernel.terms import (
    BOT,
    LOGICAL,
    MINUS,
    ONE,
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
from catdiag.prover.subterms import subterms

Steps = list[list[Any]]
Normal = Callable[[Context, Term], tuple[Term, Steps]]
"""A term in normal form, with the steps to it."""

_MOST = 12
"""The most elements that are tried."""


def steps_by_element(ctx: Context, condition: Term, normal: Normal) -> Steps | None:
    """Steps to a condition that signs entail, where an element of a reduction is compared with 0 or −∞; else None."""
    compared, path = (condition.args[0], [0]) if condition.op == "not" else (condition, [])
    if compared.op not in ("real", "lt", "le", "eq"):
        return None
    for k, t in enumerate(compared.args):
        if t.op == "big" and t.data in ("max", "sum"):
            for element in _elements(ctx, t):
                steps = _with_element(ctx, condition, [*path, k], t, element, normal)
                if steps is not None:
                    return steps
    return None


def excluded_value(ctx: Context, goal: Term, normal: Normal) -> tuple[Term, Steps] | None:
    """That a maximum in a goal, in normal form, is −∞, or that a sum that divides is 0, which an element of it
    excludes, with the steps by which the goal holds then; None where there is no such reduction."""
    for t, value in _open_reductions(ctx, goal, normal) if goal.op in LOGICAL else ():
        none = fn("eq", t, value)
        inside = ctx.with_condition(none)
        either = fn("or", goal, fn("not", none))
        closing: Steps = [["compare" if value == BOT else "decide", [1, 0]], ["logic", [1]], ["logic", []]]
        for element in _elements(inside, t) if inside is not ctx else ():
            steps = _with_element(inside, none, [0], t, element, normal)
            if steps is not None:
                within = [[rule, [1, 0, *at], *args] for rule, at, *args in steps]
                return none, [["same", [], term_data(either)], *within, *closing]
    return None


def _open_reductions(ctx: Context, goal: Term, normal: Normal) -> Iterator[tuple[Term, Term]]:
    """The normal forms of the maxima in a goal that may be −∞, and of the sums that divide in it and may be 0, each
    with this value."""
    for t in subterms(goal):
        divides = t.op == "inv" and t.args[0].op == "big" and t.args[0].data == "sum"
        if t.loose or not (divides or (t.op == "big" and t.data == "max")):
            continue
        for u in subterms(normal(ctx, t)[0]):
            if u.op == "big" and u.data == "max" and not u.loose and not ctx.real(u):
                yield u, BOT
            elif u.op == "inv" and not u.loose and not ctx.nonzero(u.args[0]):
                yield from ((v, ZERO) for v in u.args if v.op == "big" and v.data == "sum")


def _with_element(
    ctx: Context, condition: Term, path: list[int], t: Term, element: Term, normal: Normal
) -> Steps | None:
    """The steps by one element; None where it does not help."""
    larger = fn("max", element, t)
    try:
        if apply(ctx, larger, "larger", ()) != t:
            return None
        found, rewriting = normal(ctx, element)
        if _settled(ctx, _put(condition, path, fn("max", found, t))):
            equal = ["equal", path, term_data(larger), {"steps": [["larger", [1]]]}]
            return [equal, *([rule, [*path, 0, *at], *args] for rule, at, *args in rewriting)]
    except KernelError:
        pass
    return None


def _settled(ctx: Context, condition: Term) -> bool:
    """Whether a condition holds by signs; of an equation with −∞ or 0, whether it does not."""
    if condition.op != "eq":
        return ctx.entails(condition)
    return (ctx.real if condition.args[1] == BOT else ctx.nonzero)(condition.args[0])


def _put(t: Term, path: list[int], new: Term) -> Term:
    if not path:
        return new
    k, *rest = path
    return Term(t.op, t.data, (*t.args[:k], _put(t.args[k], rest, new), *t.args[k + 1 :]))


def _elements(ctx: Context, t: Term) -> Iterator[Term]:
    """Elements of a reduction: at indices on the border of a condition, at others of its range, at its ends."""
    n, body = t.args
    name = fresh(ctx.ranges)
    at = open_body(body, idx(name))
    found = dict.fromkeys(_borders(ctx.with_index(name, n), at, name))
    found |= dict.fromkeys(idx(i) for i, m in ctx.ranges.items() if m == n)
    for k in list(dict.fromkeys((*found, ZERO, sub(n, ONE))))[:_MOST]:
        if ctx.entails(fn("le", ZERO, k)) and ctx.entails(fn("lt", k, n)):
            yield open_body(body, k)


def _borders(ctx: Context, at: Term, name: str) -> Iterator[Term]:
    """The indices at which the sides of an order or equation of integers in a term are equal or differ by one."""
    for c in subterms(at):
        if c.op not in ("lt", "le", "eq") or c.loose or not arithmetic(c) or name not in leaves(c, "idx"):
            continue
        p = to_poly(sub(*c.args), ctx)
        own = p.pop(((idx(name), 1),), 0)
        if own in (1, -1) and not any(name in leaves(a, "idx") for m in p for a, _ in m):
            solved = to_term({m: quotient(-a, own) for m, a in p.items()})
            yield from (solved, add(solved, ONE), add(solved, MINUS))


__all__ = ["excluded_value", "steps_by_element"]
