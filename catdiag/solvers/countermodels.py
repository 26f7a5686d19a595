"""Small numbers tried before a solver is started: most goals that are false are false of them.

A countermodel is a plain fact about numbers, so that this can only save time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

from catdiag.kernel.terms import Term, leaves

Number: TypeAlias = int | Fraction
TRIES = 60
_MOST = 4_000  # symbols of terms that are looked at


def countermodel(hypotheses: Sequence[Term], goal: Term) -> dict[str, Number] | None:
    """Numbers that meet all hypotheses and not the goal, if some are found among a few small ones.

    Names are `size n`, `idx i`, `atom k`, `prop k`. Deterministic.

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
    opaque = sorted(
        {(op, name) for t in terms for op in ("atom", "prop") for name in leaves(t, op)}, key=lambda p: int(p[1])
    )
    rng = random.Random(0)
    for turn in range(TRIES):
        at = _integers(sizes, indices, tops, rng, turn)
        for op, name in opaque:
            at[f"{op} {name}"] = rng.randrange(2) if op == "prop" else rng.choice(_REALS)
            if op == "atom":
                _solve(hypotheses, f"atom {name}", int(name), at, rng)
        if not value(goal, at) and all(value(h, at) for h in hypotheses):
            return at
    return None


_REALS = tuple(
    Fraction(n, d) for n, d in ((0, 1), (1, 1), (2, 1), (-1, 1), (-2, 1), (3, 1), (-3, 1), (5, 1), (1, 2), (-1, 2))
)


def _integers(
    sizes: Sequence[str], indices: Sequence[str], tops: dict[str, Term], rng: random.Random, turn: int
) -> dict[str, Number]:
    most = (1, 2, 3, 5, 9)[turn % 5]
    at: dict[str, Number] = {f"size {s}": rng.randint(1 if turn % 7 else 0, most) for s in sizes}
    for i in indices:
        # Of the indices with a range the first, the last and some between are tried.
        zeros: dict[str, Number] = {f"idx {j}": 0 for j in indices}
        top = int(value(tops[i], zeros | at)) if i in tops else most
        at[f"idx {i}"] = rng.choice((0, top - 1, rng.randrange(top))) if top > 0 else 0
    return at


def _solve(hypotheses: Sequence[Term], name: str, k: int, at: dict[str, Number], rng: random.Random) -> None:
    """Puts for an atom what an equation says that it is, where it is the last atom of one and linear in it."""
    equations = [e for h in hypotheses for e in _equations(h) if _last(e) == k]
    if not equations:
        return
    left, right = rng.choice(equations).args
    ends = [value(left, at | {name: x}) - value(right, at | {name: x}) for x in (Fraction(0), Fraction(1))]
    if ends[0] != ends[1]:
        at[name] = Fraction(ends[0]) / (ends[0] - ends[1])


def _equations(t: Term) -> Iterator[Term]:
    if t.op == "eq":
        yield t
    elif t.op in ("and", "or"):
        for a in t.args:
            yield from _equations(a)


def _last(t: Term) -> int:
    return max((int(n) for op in ("atom", "prop") for n in leaves(t, op)), default=-1)


def value(t: Term, at: dict[str, Number]) -> Number:
    """A term, or a condition as 0 or 1, at given numbers; division rounds down and is 0 by 0 and less."""
    op = t.op
    if op == "num":
        return Fraction(t.data or 0)
    if op in ("size", "idx", "atom", "prop"):
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
        result: Number = 1
        for x in xs:
            result *= x
        return result
    if op == "not":
        return int(not xs[0])
    x, y = xs
    if op == "div":
        return x // y if y > 0 else 0
    return int({"lt": x < y, "le": x <= y, "eq": x == y}[op])
