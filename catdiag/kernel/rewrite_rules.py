"""The rewrite rules: each takes a context and a term and returns an equal term, or raises KernelError.

A step names a rule, a path to a subterm, and arguments. Going down a path opens binders (A2: in the body of ⊕_{i<n},
0 ≤ i < n is known) and branches (`ite c a b`: c is known in a, its negation in b). So a rule sees a closed subterm and
everything that is known there. The same holds next to other parts. In `c ∧ d`, d may be changed where c holds; in
`c ∨ d`, where c does not hold. In a product with the factor [c], the other factors may be changed where c holds, since
elsewhere the product is 0.

The equations hold for the total operations of `terms`. If a rule needs more (real values, nonempty ranges), it asks the
context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from catdiag.kernel import reduction_rules as r
from catdiag.kernel import scalar_rules as s
from catdiag.kernel.context import Context
from catdiag.kernel.facts import negate
from catdiag.kernel.rule_arguments import opened
from catdiag.kernel.terms import KernelError, Term, close_body, rebuild

Rule = Callable[..., Term]

RULES: dict[str, Rule] = {
    "split": r.split, "nest": r.nest, "empty": r.empty, "single": r.single, "part": r.part, "join": r.join,
    "pull": r.pull, "push": r.push, "scale": r.scale, "swap": r.swap, "constant": r.constant, "reindex": r.reindex,
    "shift": r.shift, "telescope": r.telescope, "through": r.through,
    "ring": s.ring, "flatten": s.flatten, "exp_add": s.exp_add, "bottom": s.bottom, "lattice": s.lattice,
    "larger": s.larger, "divide": s.divide, "compare": s.compare, "difference": s.difference, "order": s.order,
    "logic": s.logic, "decide": s.decide, "guard": s.guard, "turn": s.turn, "distinguish": s.distinguish,
    "same": s.same,
}  # fmt: skip
AXIOMS = {
    "split": "A5", "nest": "A4", "empty": "A5", "single": "A5", "part": "A3", "join": "A3", "pull": "A3", "push": "A3",
    "scale": "A3", "swap": "A4", "constant": "A8", "reindex": "A6", "shift": "A5", "telescope": "A8", "through": "A7",
    "ring": "A7", "flatten": "A7", "exp_add": "A7", "bottom": "A7", "lattice": "A3", "larger": "A9", "divide": "A7",
    "compare": "A7", "difference": "A7", "order": "A9", "logic": "A7", "decide": "A7", "guard": "A7", "turn": "A7",
    "distinguish": "A7", "same": "A7", "field": "A7", "equal": "A2",
}  # fmt: skip


def enter(ctx: Context, t: Term, k: int) -> tuple[Context, Term, str | None]:
    """Part k of a term with the context of that part, and the name of the index that was opened on the way, if any."""
    child = t.args[k]
    if t.op == "big" and k == 1:
        ctx, name, child = opened(ctx, t.args[0], child)
        return ctx, child, name
    if t.op == "ite" and k > 0:
        return ctx.with_condition(t.args[0] if k == 1 else negate(t.args[0])), child, None
    beside = [a for j, a in enumerate(t.args) if j != k]
    known: list[Term] = []
    if t.op in ("and", "or"):
        known = beside if t.op == "and" else [negate(a) for a in beside]
    elif t.op == "mul":
        known = [c for a in beside for c in r.support("sum", a)]
    for condition in known:
        ctx = ctx.with_condition(condition)
    return ctx, child, None


def at(ctx: Context, t: Term, path: Sequence[int], change: Callable[[Context, Term], Term]) -> Term:
    """A term with the part at a path replaced by `change` of it, which gets the context of that part."""
    # (parent, position, name of the index opened here)
    spine: list[tuple[Term, int, str | None]] = []
    for k in path:
        if not isinstance(k, int) or isinstance(k, bool) or not 0 <= k < len(t.args):
            raise KernelError(f"no part {k!r} of {t}")
        ctx, child, name = enter(ctx, t, k)
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


__all__ = ["AXIOMS", "RULES", "apply", "at", "enter"]
