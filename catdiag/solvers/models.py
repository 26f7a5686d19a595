"""Small numbers tried before a solver is started: most goals that are false are false of them.

A countermodel is a plain fact about integers, so that this can only save time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from catdiag.kernel.terms import Term, leaves

TRIES = 60
_MOST = 4_000  # symbols of terms that are looked at


def countermodel(hypotheses: Sequence[Term], goal: Term) -> dict[str, int] | None:
    """Sizes and indices that meet all hypotheses and not the goal, if some are found among a few small ones.

    Names are `size n` and `idx i`. Deterministic.

    >>> from catdiag.kernel.terms import fn, idx, num, size
    >>> countermodel([fn("lt", idx("i"), size("n"))], fn("lt", idx("i"), num(2))) is not None
    True
    >>> countermodel([fn("lt", idx("i"), size("n"))], fn("le", idx("i"), size("n"))) is None
    True
    """
    terms = (*hypotheses, goal)
    if sum(t.weight for t in terms) > _MOST:
        return None
    sizes = sorted(set().union(*(leaves(t, "size") for t in terms)))
    indices = sorted(set().union(*(leaves(t, "idx") for t in terms)))
    tops: dict[str, Term] = {}
    for h in hypotheses:
        if h.op == "lt" and h.args[0].op == "idx":
            tops.setdefault(str(h.args[0].data), h.args[1])
    for at in _numbers(sizes, indices, tops):
        if not value(goal, at) and all(value(h, at) for h in hypotheses):
            return at
    return None


def _numbers(sizes: Sequence[str], indices: Sequence[str], tops: dict[str, Term]) -> Iterator[dict[str, int]]:
    rng = random.Random(0)
    for turn in range(TRIES):
        most = (1, 2, 3, 5, 9)[turn % 5]
        at = {f"size {s}": rng.randint(1 if turn % 7 else 0, most) for s in sizes}
        for i in indices:
            # Of the indices with a range the first, the last and some between are tried.
            top = value(tops[i], {f"idx {j}": 0 for j in indices} | at) if i in tops else most
            at[f"idx {i}"] = rng.choice((0, top - 1, rng.randrange(top))) if top > 0 else 0
        yield at


def value(t: Term, at: dict[str, int]) -> int:
    """An integer term, or a condition as 0 or 1, at given numbers; division rounds down and is 0 by 0 and less."""
    op = t.op
    if op == "num":
        return int(t.data)  # type: ignore[arg-type]
    if op in ("size", "idx"):
        return at[f"{op} {t.data}"]
    if op in ("true", "false"):
        return int(op == "true")
    if op == "and":
        return int(all(value(a, at) for a in t.args))
    if op == "or":
        return int(any(value(a, at) for a in t.args))
    xs = [value(a, at) for a in t.args]
    if op == "add":
        return sum(xs)
    if op == "mul":
        result = 1
        for x in xs:
            result *= x
        return result
    if op == "not":
        return int(not xs[0])
    x, y = xs
    if op == "div":
        return x // y if y > 0 else 0
    return int({"lt": x < y, "le": x <= y, "eq": x == y}[op])
