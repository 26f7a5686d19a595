"""What holds for all indices holds at the first and at the last of them, where there is one."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from kernel_oracle import ask

from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.terms import ONE, ZERO, Term, add, fn, idx, mul, num, size, sub

N, M, HERE, V = size("n"), size("m"), idx("i"), idx("v")
SOME = Fact((), (), fn("le", ONE, N))


def value(t: Term, at: dict[str, int]) -> Any:
    if t.op == "num":
        return int(t.data)  # type: ignore[arg-type]
    if t.op in ("size", "idx"):
        return at[str(t.data)]
    x, *rest = (value(a, at) for a in t.args)
    if t.op in ("lt", "le"):
        return x < rest[0] if t.op == "lt" else x <= rest[0]
    for y in rest:
        x = x + y if t.op == "add" else x * y
    return x


def holds(fact: Fact, at: dict[str, int]) -> bool:
    names = [name for name, _ in fact.variables]
    tops = [value(n, at) for _, n in fact.variables if n is not None]
    return all(value(fact.condition, {**at, **dict(zip(names, i, strict=True))}) for i in product(*map(range, tops)))


def linear(rng: random.Random, leaves: list[Term]) -> Term:
    return add(*(mul(num(rng.randrange(-2, 3)), a) for a in rng.sample(leaves, 2)), num(rng.randrange(-2, 3)))


def test_what_follows_from_facts_about_all_indices_is_true() -> None:
    rng = random.Random(3)
    settled = 0
    for _ in range(300):
        variables = tuple(
            (name, rng.choice([N, M, num(2)])) for name in rng.sample(["v", "w", "i"], rng.randrange(1, 3))
        )
        leaves = [N, M, HERE, *(idx(name) for name, _ in variables)]
        facts = (Fact(variables, (), fn(rng.choice(["lt", "le"]), linear(rng, leaves), linear(rng, [N, M]))),)
        facts += (SOME,) * (rng.random() < 0.7)
        goal = fn("le", linear(rng, [N, M, HERE]), linear(rng, [N, M]))
        ranges = {"i": rng.choice([N, M])}
        if not Context(ask, ranges, facts).entails(goal):
            continue
        settled += Context(ask, ranges, facts[1:]).entails(goal) is False
        for n, m in product(range(5), repeat=2):
            for i in range(value(ranges["i"], {"n": n, "m": m})):
                at = {"n": n, "m": m, "i": i}
                assert not all(holds(f, at) for f in facts) or value(goal, at), (facts, goal, at)
    assert settled > 5


def test_reads_of_reads_are_in_range() -> None:
    inner = Fact((("y", M),), (), fn("lt", add(idx("y"), ONE), N))
    outer = fn("lt", add(HERE, num(2)), M)
    ctx = Context(ask, {"i": size("z")}, (inner, Fact((), (), fn("le", ONE, M)), Fact((), (), outer)))
    assert ctx.entails(fn("lt", add(HERE, num(3)), N))


def test_there_need_not_be_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """∀ v < n. m < v says nothing of m where n is 0; with n ≥ 1 it is impossible."""
    empty = (Fact((("v", N),), (), fn("lt", M, V)),)
    assert not Context(ask, {}, empty).entails(fn("lt", M, ZERO))
    assert Context(ask, {}, (*empty, SOME)).entails(fn("lt", M, ZERO))
    monkeypatch.setattr(Context, "_some", lambda self, n: True)
    assert Context(ask, {}, empty).entails(fn("lt", M, ZERO))


def test_a_guarded_fact_holds_only_where_its_guards_do() -> None:
    guarded = Fact((("v", N),), (fn("lt", M, V),), fn("lt", V, ZERO))
    assert not Context(ask, {}, (guarded, SOME)).entails(fn("lt", N, ONE))


def test_the_range_of_an_index_may_depend_on_another() -> None:
    """∀ u < n, v < u + 1. v ≤ u, of which nothing follows about an index of the name u here."""
    u = idx("u")
    fact = Fact((("u", N), ("v", add(u, ONE))), (), fn("le", V, u))
    ctx = Context(ask, {"u": M, "k": add(u, ONE)}, (fact, SOME))
    assert not ctx.entails(fn("le", u, ZERO))
    assert not ctx.entails(fn("le", u, sub(N, ONE)))


def test_what_would_follow_from_itself_does_not_follow() -> None:
    """∀ v < n. v < n needs its goal to be in range, which is the goal."""
    fact = Fact((("v", M),), (), fn("lt", V, M))
    assert not Context(lambda hypotheses, goal: False, {"i": N}, (fact,)).entails(fn("lt", HERE, M))
