"""Vacuous theorems: whether a contradiction follows from the hypotheses of a theorem.

Whether hypotheses can be met is undecidable, so there are three answers: an input that meets them is shown (`witness`),
a contradiction is derived (here), or neither is known. A hypothesis about all indices in range is instantiated at one
index of each range, at its first and at its last. Only ranges that are known to be nonempty count, since over an empty
range a hypothesis says nothing. One with guards is taken as `not guards or condition`. All of these follow from
the hypotheses, so a contradiction among them is one among the hypotheses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from catdiag.kernel.context import Ask, Context
from catdiag.kernel.facts import Fact, arithmetic, negate
from catdiag.kernel.opaque_atoms import LIMIT, Opaque
from catdiag.kernel.terms import FALSE, ONE, ZERO, Data, Term, fn, idx, leaves, sub, substitute

_MOST = 400
"""The most instances that are looked at."""


def contradictory(ask: Ask, taken: Sequence[Fact], elements: Mapping[str, str]) -> bool:
    """Whether it follows that no sizes and arrays meet all hypotheses. False if that is not known."""
    indices: dict[tuple[str, Term], str] = {}
    found: dict[Term, None] = {}
    of_sizes = Context(ask, {}, tuple(taken), elements)
    for fact in taken:
        if all(n is not None and not leaves(n, "idx") and of_sizes.positive_size(n) for _, n in fact.variables):
            found |= dict.fromkeys(_instances(fact, indices))
        if len(found) > _MOST:
            break
    ctx = Context(ask, {name: n for (_, n), name in indices.items()}, tuple(taken), elements)
    if any(_never(c) for c in found):
        return True
    together = _asked(ctx, list(found))
    if together is not None:
        return together
    plain = [c for c in found if arithmetic(c)]
    return any(_asked(ctx, [*plain, c]) is True for c in found if c not in plain)


def _instances(fact: Fact, indices: dict[tuple[str, Term], str]) -> Iterator[Term]:
    """What a fact says at one index of each of its ranges, the same for all facts, and at the ends."""
    choices: list[list[Term]] = []
    for name, n in fact.variables:
        if n is None:
            return
        here = indices.setdefault((name, n), f"%v{len(indices)}")
        choices.append([idx(here), ZERO, sub(n, ONE)])
    ends = list(product(*choices)) if len(choices) <= 2 else [tuple(c[0] for c in choices)]
    for values in ends:
        put: dict[tuple[str, Data], Term] = {("idx", name): v for (name, _), v in zip(fact.variables, values)}
        condition = substitute(fact.condition, put)
        guards = [negate(substitute(g, put)) for g in fact.guards]
        yield fn("or", *guards, condition) if guards else condition


def _never(c: Term) -> bool:
    """Whether a condition says that a number is real which is −∞ by its form."""
    return c.op == "real" and _bottom(c.args[0])


def _bottom(t: Term) -> bool:
    if t.op in ("add", "max", "ite"):
        parts = map(_bottom, t.args[t.op == "ite" :])
        return any(parts) if t.op == "add" else all(parts)
    return t.op == "bot" or (t.op == "big" and t.data == "max" and _bottom(t.args[1]))


def _asked(ctx: Context, conditions: Sequence[Term]) -> bool | None:
    """Whether the solver says that conditions contradict each other; None if there is too much to ask."""
    words = Opaque(ctx)
    spoken = [words.condition(c) for c in conditions if c.op != "real"]
    if len(words.names) > LIMIT:
        return None
    return ctx.ask([*ctx.inside(), *spoken, *words.known], FALSE)


__all__ = ["contradictory"]
