"""An independent evaluator of kernel terms, slow and exact, as the docstring of `kernel.terms` states their meaning.

Values are rationals, enclosures of reals (`prove.exact`), −∞ and truth values. `World` gives sizes, indices and
arrays; arrays are total functions of any integer index. `Unclear` is raised where enclosures are too wide.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import product
from math import ceil

from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.terms import KernelError, Term, is_fixed, term_data
from catdiag.prover.refute import exact_reals
from catdiag.prover.refute.exact_reals import BOTTOM, MinusInfinity, Unclear, Undefined, Value
from catdiag.solvers.countermodels import countermodel
from catdiag.solvers.z3_encoding import answer

ZERO, ONE = Fraction(0), Fraction(1)
POOLS: dict[str, tuple[Value, ...]] = {
    "real": tuple(map(Fraction, ("0", "1", "-1", "2", "1/2", "0"))),
    "extended": (*map(Fraction, ("0", "1", "-1", "2", "1/2")), BOTTOM, BOTTOM),
    "int": tuple(map(Fraction, (0, 1, -1, 2))),
    "bool": (True, False),
    "pos": tuple(map(Fraction, ("1", "2", "1/2"))),
    "nonneg": tuple(map(Fraction, ("0", "1", "2", "1/2"))),
    "nonzero": tuple(map(Fraction, ("-1", "1", "2", "1/2"))),
}


@dataclass
class World:
    """One assignment: sizes, free indices, arrays filled as they are read."""

    sizes: Mapping[str, int]
    indices: Mapping[str, int]
    pools: Mapping[str, str]
    rng: random.Random
    cells: dict[tuple[str, tuple[int, ...]], Value] = field(default_factory=dict)
    extents: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def cell(self, array: str, index: tuple[int, ...]) -> Value:
        key = (array, index)
        if key not in self.cells:
            self.cells[key] = self.rng.choice(POOLS[self.pools[array]])
        return self.cells[key]

    def at(self, indices: Mapping[str, int]) -> World:
        return World(self.sizes, {**self.indices, **indices}, self.pools, self.rng, self.cells, self.extents)


def _number(x: Value) -> Value:
    return _rational(int(x)) if isinstance(x, bool) else x


@cache
def _rational(x: object) -> Fraction:
    return Fraction(str(x))


def _compare(op: str, x: Value, y: Value) -> bool:
    if type(x) is type(y) is Fraction:
        return x == y if op == "eq" else x < y if op == "lt" else x <= y
    return exact_reals.compare(op, x, y)


def _integer(x: Value) -> int:
    if not isinstance(x, Fraction) or x.denominator != 1:
        raise Unclear("an index that is no integer")
    return int(x)


def _below(x: Value) -> int:
    """How many natural numbers are below a number."""
    if isinstance(x, MinusInfinity):
        return 0
    if not isinstance(x, Fraction):
        raise Unclear("a range that is not told")
    return max(0, ceil(x))


def _total_mul(x: Value, y: Value) -> Value:
    if isinstance(x, MinusInfinity) or isinstance(y, MinusInfinity):
        return ZERO
    return exact_reals.mul(x, y)


def _total(operation: Callable[[Value], Value], x: Value) -> Value:
    if isinstance(x, MinusInfinity):
        return ZERO
    try:
        return operation(x)
    except Undefined:
        return ZERO


def _floor(x: Value, n: Value, strict: bool) -> Value:
    if isinstance(x, MinusInfinity) or isinstance(n, MinusInfinity) or exact_reals.compare("le", n, ZERO):
        if strict:
            raise Undefined("a quotient rounded down by what is not positive")
        return ZERO
    low, high = (b // 1 for b in exact_reals.bounds(exact_reals.mul(x, exact_reals.inv(n))))
    if low != high:
        raise Unclear("a quotient close to an integer")
    return Fraction(low)


def value(t: Term, world: World, strict: bool = False) -> Value:
    """The total value of a term; with `strict`, its partial value: Undefined is raised where it has none."""
    return _value(t, world, (), strict)


def _value(t: Term, w: World, bound: tuple[int, ...], strict: bool) -> Value:
    op = t.op
    if op == "num":
        return _rational(t.data)
    if op == "bot":
        return BOTTOM
    if op in ("true", "false"):
        return op == "true"
    if op == "size":
        return _rational(w.sizes[str(t.data)])
    if op == "idx":
        return _rational(w.indices[str(t.data)])
    if op == "b":
        return _rational(bound[-1 - int(str(t.data))])
    if op in ("read", "holds"):
        return w.cell(str(t.data), tuple(_integer(_value(a, w, bound, strict)) for a in t.args))
    if op == "big":
        n = _below(_value(t.args[0], w, bound, strict))
        total: Value = {"sum": ZERO, "prod": ONE, "max": BOTTOM}[str(t.data)]
        for k in range(n):
            item = _number(_value(t.args[1], w, (*bound, k), strict))
            if t.data == "sum":
                total = exact_reals.add(total, item)
            elif t.data == "max":
                total = exact_reals.maximum(total, item)
            else:
                total = exact_reals.mul(total, item) if strict else _total_mul(total, item)
        return total
    if op == "ite":
        chosen = _value(t.args[0], w, bound, strict)
        assert isinstance(chosen, bool)
        return _value(t.args[1 if chosen else 2], w, bound, strict)
    parts = [_value(a, w, bound, strict) for a in t.args]
    if op in ("and", "or", "not"):
        truths = [bool(p) for p in parts]
        return all(truths) if op == "and" else any(truths) if op == "or" else not truths[0]
    parts = [_number(p) for p in parts]
    if op in ("lt", "le", "eq"):
        return _compare(op, *parts)
    if op == "div":
        return _floor(*parts, strict)
    if op == "real":
        return not isinstance(parts[0], MinusInfinity)
    if op == "add":
        sum_: Value = ZERO
        for p in parts:
            sum_ = exact_reals.add(sum_, p)
        return sum_
    if op == "mul":
        if strict:
            result: Value = ONE
            for p in parts:
                result = exact_reals.mul(result, p)
            return result
        if any(isinstance(p, MinusInfinity) for p in parts):
            return ZERO
        result = ONE
        for p in parts:
            result = exact_reals.mul(result, p)
        return result
    if op == "max":
        top: Value = BOTTOM
        for p in parts:
            top = exact_reals.maximum(top, p)
        return top
    if op == "exp":
        return exact_reals.exp(parts[0])
    if op in ("inv", "log", "sqrt"):
        operation = {"inv": exact_reals.inv, "log": exact_reals.log, "sqrt": exact_reals.sqrt}[op]
        return operation(parts[0]) if strict else _total(operation, parts[0])
    if is_fixed(t):
        meaning = {"%erf": exact_reals.erf, "%sin": exact_reals.sin, "%cos": exact_reals.cos}[str(t.data)]
        return meaning(parts[0]) if strict else _total(meaning, parts[0])
    if op == "apply":
        salt = random.Random(f"{t.data}{parts}")
        return Fraction(salt.randrange(-3, 4))
    raise AssertionError(f"no operation {op}")


def agree(x: Value, y: Value) -> bool:
    """Whether two values may be one: only what is certainly different is not."""
    if isinstance(x, bool) or isinstance(y, bool):
        return x is y
    return not exact_reals.different(x, y)


_ANSWERS: dict[str, bool] = {}


def ask(hypotheses: Sequence[Term], goal: Term) -> bool:
    """z3 in this process, with a memory; small numbers are tried before it, as everywhere."""
    key = "|".join([*sorted(h.key for h in hypotheses), "⊢", goal.key])
    if key not in _ANSWERS:
        request = {"hypotheses": list(map(term_data, hypotheses)), "goal": term_data(goal), "rlimit": 200_000}
        _ANSWERS[key] = countermodel(hypotheses, goal) is None and answer(request) == "yes"
    return _ANSWERS[key]


def fact_holds(fact: Fact, world: World) -> bool:
    """Whether a fact holds: for every index in range, or, where no range is given, for all indices up to 9."""
    spans = []
    for _, n in fact.variables:
        spans.append(range(10) if n is None else range(_integer(value(n, world))))
    for place in product(*spans):
        here = world.at(dict(zip((name for name, _ in fact.variables), place, strict=True)))
        if all(value(g, here) is True for g in fact.guards) and value(fact.condition, here) is not True:
            return False
    return True


def worlds(ctx: Context, pools: Mapping[str, str], rng: random.Random, tries: int, top: int = 3) -> list[World]:
    """Random assignments that satisfy a context: sizes up to `top`, indices in range, facts true."""
    # What is so at every index whatever is so by the pools that elements are drawn from.
    facts = [f for f in ctx.facts if all(n is not None for _, n in f.variables)]
    found = []
    for _ in range(tries):
        sizes = _Sizes(rng, top)
        try:
            indices = {}
            bare = World(sizes, {}, pools, rng)
            for name, n in ctx.ranges.items():
                extent = _integer(value(n, bare))
                if extent == 0:
                    raise Unclear("an empty range")
                indices[name] = rng.randrange(extent)
            world = World(sizes, indices, pools, rng)
            if all(fact_holds(f, world) for f in facts):
                found.append(world)
        except Unclear:
            continue
    return found


class _Sizes(dict[str, int]):
    """Sizes drawn when they are first asked for; those that begin with `p` are at least 1."""

    def __init__(self, rng: random.Random, top: int) -> None:
        super().__init__()
        self.rng, self.top = rng, top

    def __missing__(self, name: str) -> int:
        self[name] = self.rng.randrange(1 if name.startswith("p") else 0, self.top + 1)
        return self[name]


__all__ = ["BOTTOM", "KernelError", "Unclear", "Undefined", "World", "agree", "ask", "fact_holds", "value", "worlds"]
