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
        ctx, name, child = ctx.opened(t.args[0], child)
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


class Zipper:
    """A term that is rewritten, and the place in it that one is at (Huet, The Zipper, 1997).

    Going to a place leaves what both places are in as it is. That is what going up to the whole term and down again
    would come to: the context of a part is made of what is beside the way to it, which a rewrite of the part does not
    change; and a body that is closed over the name of its index and opened again is the same body.
    """

    def __init__(self, ctx: Context, t: Term) -> None:
        self.ctx, self.term, self.weight = ctx, t, t.weight
        """The context and the term here, and the weight of the whole term."""
        # (context around, parent, position, name of the index opened here)
        self._above: list[tuple[Context, Term, int, str | None]] = []

    def move(self, path: Sequence[int]) -> None:
        """Goes to the place at a path from the whole term. Raises KernelError where there is none."""
        if not isinstance(path, (list, tuple)):
            raise KernelError(f"not a path: {path!r}")
        same = 0
        for (_, _, here, _), k in zip(self._above, path, strict=False):
            if type(k) is not int or k != here:
                break
            same += 1
        while len(self._above) > same:
            self._up()
        for k in path[same:]:
            if type(k) is not int or not 0 <= k < len(self.term.args):
                raise KernelError(f"no part {k!r} of {self.term}")
            ctx, child, name = enter(self.ctx, self.term, k)
            self._above.append((self.ctx, self.term, k, name))
            self.ctx, self.term = ctx, child

    def _up(self) -> None:
        self.ctx, parent, k, name = self._above.pop()
        part = self.term if name is None else close_body(self.term, name)
        self.term = rebuild(parent, (*parent.args[:k], part, *parent.args[k + 1 :]))

    def put(self, t: Term) -> None:
        """Puts a term in the place of the one here."""
        self.weight += t.weight - self.term.weight
        self.term = t

    def apply(self, rule: str, args: Sequence[Any] = ()) -> None:
        """Rewrites the term here by a rule. Raises KernelError where the step is not valid."""
        if rule not in RULES:
            raise KernelError(f"no rule {rule!r}")
        try:
            self.put(RULES[rule](self.ctx, self.term, *args))
        except TypeError as error:
            raise KernelError(f"step {rule} with arguments {args!r}: {error}") from error

    def whole(self) -> Term:
        """The whole term."""
        self.move(())
        return self.term


def apply(ctx: Context, t: Term, rule: str, path: Sequence[int], args: Sequence[Any] = ()) -> Term:
    """The term after one step: `rule` at `path`. Raises KernelError where the step is not valid."""
    here = Zipper(ctx, t)
    here.move(path)
    here.apply(rule, args)
    return here.whole()


__all__ = ["AXIOMS", "RULES", "Zipper", "apply", "enter"]
