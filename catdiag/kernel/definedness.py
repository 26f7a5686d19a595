"""Definedness: what a term owes before its total value is the value that its program means.

Computed from the terms of the programs as they were written, since normalising destroys the evidence:
x·(1/x) is 1 only where x ≠ 0. Path by path (`ite(x ≠ 0, 1/x, 0)` owes nothing), and for all indices of
the binders around. What is owed:

    a·b         a and b real (so `a − b` owes b ≠ −∞)
    Π_i a(i)    every a(i) real
    inv a       a real and not 0
    div a n     a real and n > 0
    log a       a > 0
    sqrt a      a ≥ 0
    erf a       a real; so for sin and cos
    an output   real, unless its element type is `extended`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations

from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact, negate, nonzero, real
from catdiag.kernel.terms import (
    ZERO,
    Data,
    KernelError,
    Printer,
    Term,
    fn,
    is_fixed,
    leaves,
    size,
    substitute,
)

_SIGNS = {"lt": "<", "le": "≤", "eq": "="}
LIMIT = 50_000
"""The most places that are looked at; a larger term is refused, not waited for."""
Place = tuple[Context, tuple[Term, ...], Term]
"""A subterm, with the context and the guards under which its value matters."""


@dataclass(frozen=True)
class Obligation:
    """A condition that is owed for all indices in range that satisfy the guards (a proof obligation)."""

    ranges: tuple[tuple[str, Term], ...]
    guards: tuple[Term, ...]
    condition: Term

    def fact(self) -> Fact:
        """The same as a fact, for use where the obligation is known to be met."""
        return Fact(self.ranges, self.guards, self.condition)

    def where(self, guards: tuple[Term, ...]) -> Obligation:
        """The same obligation with further guards."""
        return Obligation(self.ranges, (*guards, *self.guards), self.condition)

    def on_tile(
        self, lengths: Mapping[str, tuple[Term, Term]], move: dict[tuple[str, Data], Term]
    ) -> Obligation | None:
        """What an obligation of a whole says of a tile, whose axes have these lengths, in the whole and on the tile:
        its indices are moved to where the tile begins. None where it is about other indices of these axes."""
        if any(name in lengths and n != lengths[name][0] for name, n in self.ranges):
            return None
        ranges = tuple((name, lengths[name][1] if name in lengths else n) for name, n in self.ranges)
        guards = tuple(substitute(guard, move) for guard in self.guards)
        return Obligation(ranges, guards, substitute(self.condition, move))

    def saying(self, condition: Term) -> list[Fact]:
        """Facts for where a condition is known in the same ranges: of a conjunction, each part.

        What is denied of several things together is so in any order of them, which the names of indices decide.
        """
        if condition.op == "and":
            return [Fact(self.ranges, self.guards, c) for c in condition.args]
        inner, found = condition.args[0] if condition.op == "not" else condition, [condition]
        if inner is not condition and inner.op in ("lt", "le"):
            found = [negate(inner)]
        elif inner is not condition and inner.op in ("and", "or", "eq") and len(inner.args) <= 3:
            found = [fn("not", fn(inner.op, *order)) for order in permutations(inner.args)]
        return [Fact(self.ranges, self.guards, c) for c in dict.fromkeys(found)]

    def context(self, ctx: Context) -> Context:
        """A context with the ranges and guards. Raises KernelError where an index would have two ranges."""
        for name, n in self.ranges:
            if name not in ctx.ranges:
                ctx = ctx.with_index(name, n)
            elif ctx.ranges[name] != n:
                raise KernelError(f"index {name} has two ranges")
        return ctx.where(self.guards)

    def __str__(self) -> str:
        return self.said(Printer.of(self.condition, *self.guards, *(n for _, n in self.ranges)))

    def named(self, printer: Printer) -> Obligation:
        """The obligation with the names by which it is printed; indices that do not occur have no range in it."""
        spoken = set().union(*(leaves(c, "idx") for c in (self.condition, *self.guards)))
        taken = printer.names | {name for name, _ in self.ranges}
        letters = (c for c in "ijklmnopuvwz" if c not in taken)
        # A letter stands by itself: it is said as the index of an axis that has no name.
        names = {name: next(letters, name) if name.startswith("%") else printer.index(name) for name, _ in self.ranges}
        put: dict[tuple[str, Data], Term] = {("idx", old): size(new) for old, new in names.items()}
        over = tuple((names[name], substitute(n, put)) for name, n in self.ranges if name in spoken)
        return Obligation(over, tuple(substitute(g, put) for g in self.guards), substitute(self.condition, put))

    def said(self, printer: Printer) -> str:
        """The obligation as text."""
        named = self.named(printer)
        text = show_condition(named.condition, printer)
        if named.guards:
            text += " where " + " and ".join(show_condition(guard, printer) for guard in named.guards)
        over = [f"{name} < {printer.show(n)}" for name, n in named.ranges]
        return text + " for all " + ", ".join(over) if over else text


def show_condition(c: Term, printer: Printer | None = None) -> str:
    """A condition as text."""
    printer = printer or Printer.of(c)
    if c.op == "not" and c.args[0].op == "eq":
        return f"{printer.show(c.args[0].args[0])} ≠ {printer.show(c.args[0].args[1])}"
    if c.op == "real":
        return f"{printer.show(c.args[0])} > -∞"
    if c.op in ("lt", "le", "eq"):
        return f"{printer.show(c.args[0])} {_SIGNS[c.op]} {printer.show(c.args[1])}"
    return printer.show(c)


def owes(ctx: Context, t: Term, element: str = "real", all_of_it: bool = False, reads: str = "") -> list[Obligation]:
    """The obligations of a term in a context, minus those that the context entails (or all of them).

    With `reads`, also that each element that is read is defined: the truth value at its place of an array with this
    before its name.
    """
    found: dict[Obligation, None] = {}
    seen: set[tuple[Term, tuple[tuple[str, Term], ...], tuple[Term, ...]]] = set()
    guards: tuple[Term, ...] = ()
    stack: list[Place] = [(ctx, guards, t)]

    def demand(ctx: Context, guards: tuple[Term, ...], condition: Term) -> None:
        if all_of_it or not ctx.entails(condition):
            found[Obligation(tuple(ctx.ranges.items()), guards, condition)] = None

    if element not in ("extended", "bool"):
        demand(ctx, guards, real(t))
    while stack:
        ctx, guards, t = stack.pop()
        place = (t, tuple(ctx.ranges.items()), guards)
        if reads and t.op in ("read", "holds"):
            demand(ctx, guards, Term("holds", f"{reads}{t.data}", t.args))
        if place in seen or not t.args:
            continue
        seen.add(place)
        if len(seen) > LIMIT:
            raise KernelError("the term is too large for its definedness to be computed")
        if t.op == "mul":
            for a in t.args:
                demand(ctx, guards, real(a))
        elif t.op == "inv":
            demand(ctx, guards, real(t.args[0]))
            demand(ctx, guards, nonzero(t.args[0]))
        elif t.op == "div":
            demand(ctx, guards, real(t.args[0]))
            demand(ctx, guards, fn("lt", ZERO, t.args[1]))
        elif t.op == "log":
            demand(ctx, guards, fn("lt", ZERO, t.args[0]))
        elif t.op == "sqrt":
            demand(ctx, guards, fn("le", ZERO, t.args[0]))
        elif is_fixed(t):
            demand(ctx, guards, real(t.args[0]))
        inside = arguments(ctx, guards, t)
        if t.op == "big" and t.data == "prod":
            ((inner, _, body),) = inside
            demand(inner, guards, real(body))
        stack.extend(inside)
    return list(found)


def arguments(ctx: Context, guards: tuple[Term, ...], t: Term) -> list[Place]:
    """The arguments of a term, each with the context and the guards under which its value matters: the body of a binder
    under a fresh index, the cases of a conditional where its condition holds or does not."""
    if t.op == "big":
        inner, _, body = ctx.opened(*t.args)
        return [(inner, guards, body)]
    if t.op == "ite":
        condition, yes, no = t.args
        return [
            (ctx, guards, condition),
            (ctx.with_condition(condition), (*guards, condition), yes),
            (ctx.with_condition(negate(condition)), (*guards, negate(condition)), no),
        ]
    return [(ctx, guards, a) for a in t.args]
