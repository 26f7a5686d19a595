"""Small numbers tried before a solver is started: most goals that are false are false of them.

A countermodel is a plain fact about numbers, so that this can only save time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

from catdiag.kernel.rationals import Rational, quotient
from catdiag.kernel.terms import Term, leaves

Number: TypeAlias = Rational
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
    by_last_atom: dict[int, list[Term]] = {}
    for equation in (e for h in hypotheses for e in _equations(h)):
        by_last_atom.setdefault(_last(equation), []).append(equation)
    rng = random.Random(0)
    for attempt in range(TRIES):
        at = _integers(sizes, indices, tops, rng, attempt)
        for op, name in opaque:
            at[f"{op} {name}"] = rng.randrange(2) if op == "prop" else rng.choice(_REALS)
            if op == "atom" and int(name) in by_last_atom:
                _solve(rng.choice(by_last_atom[int(name)]), f"atom {name}", at)
        if not value(goal, at) and all(value(h, at) for h in hypotheses):
            return at
    return None


_REALS: tuple[Number, ...] = (0, 1, 2, -1, -2, 3, -3, 5, Fraction(1, 2), Fraction(-1, 2))


def _integers(
    sizes: Sequence[str], indices: Sequence[str], tops: dict[str, Term], rng: random.Random, attempt: int
) -> dict[str, Number]:
    most = (1, 2, 3, 5, 9)[attempt % 5]
    at: dict[str, Number] = {f"size {s}": rng.randint(1 if attempt % 7 else 0, most) for s in sizes}
    for i in indices:
        # Of the indices with a range the first, the last and some between are tried.
        zeros: dict[str, Number] = {f"idx {j}": 0 for j in indices}
        top = int(value(tops[i], zeros | at)) if i in tops else most
        at[f"idx {i}"] = rng.choice((0, top - 1, rng.randrange(top))) if top > 0 else 0
    return at


def _solve(equation: Term, name: str, at: dict[str, Number]) -> None:
    """Puts for the last atom of an equation what it says that the atom is, where it is linear in it."""
    left, right = equation.args
    ends = [value(left, at | {name: x}) - value(right, at | {name: x}) for x in (0, 1)]
    if ends[0] != ends[1]:
        at[name] = quotient(ends[0], ends[0] - ends[1])


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
        number = t.data if type(t.data) is Fraction else Fraction(t.data or 0)
        return number.numerator if number.denominator == 1 else number
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
