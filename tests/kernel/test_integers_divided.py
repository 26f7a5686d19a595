"""Floors of quotients of integers that arrays hold: how they are divided, and how they are bounded."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kernel_oracle import Unclear, World, ask, fact_holds, value

from catdiag.kernel import rewrite_rules
from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.terms import MINUS, ONE, ZERO, KernelError, Term, add, fn, idx, mul, num, read, size, sub, term_data

HERE, N = idx("i"), size("n")
ELEMENTS = {"J": "int", "K": "int", "A": "real"}
SOME = Fact((), (), fn("le", ONE, N))
J, K, A = (read(name, HERE) for name in "JKA")


def here() -> Context:
    return Context(ask, {"i": N}, (SOME,), ELEMENTS)


def divided(t: Term, q: Term, r: Term) -> Term:
    return rewrite_rules.apply(here(), t, "divide", [], [term_data(q), term_data(r)])


def integers(rng: random.Random, depth: int) -> Term:
    """A random term of integers; now and then one that only looks like it."""
    if not depth or rng.random() < 0.2:
        return rng.choice([J, K, HERE, N, ONE, num(-2), num(3)] + [A] * (rng.random() < 0.1))
    one, other = integers(rng, depth - 1), integers(rng, depth - 1)
    draw = rng.random()
    if draw < 0.35:
        return add(one, other)
    return (
        mul(rng.choice([num(2), num(-3), one]), other)
        if draw < 0.65
        else fn("div", one, rng.choice([num(2), num(3), N]))
    )


def world(rng: random.Random) -> World:
    n = rng.randint(1, 3)
    pools = {"J": "int", "K": "int", "A": "real"}
    return World({"n": n}, {"i": rng.randrange(n)}, pools, rng, extents=dict.fromkeys(pools, (n,)))


def test_what_is_divided_is_the_floor() -> None:
    rng, done, refused = random.Random(7), 0, 0
    for _ in range(200):
        n = rng.choice([num(2), num(3), N, ONE])
        q, r = integers(rng, 2), rng.choice([ZERO, ONE, num(2), HERE, integers(rng, 1)])
        wanted = rng.choice([q, q, add(q, MINUS)])
        try:
            found = divided(fn("div", add(mul(q, n), r), n), wanted, add(r, mul(n, sub(q, wanted))))
        except KernelError:
            refused += 1
            continue
        assert found == wanted
        for _ in range(8):
            w = world(rng)
            assert value(fn("div", add(mul(q, n), r), n), w) == value(wanted, w)
        done += 1
    assert done > 30 and refused > 60, (done, refused)


def test_what_is_known_of_floors_holds() -> None:
    rng, known = random.Random(11), 0
    for _ in range(160):
        a, n = integers(rng, 2), rng.choice([num(2), num(3), N])
        rest = sub(a, mul(n, fn("div", a, n)))
        c: Any = rng.choice([
            fn("le", ZERO, rest), fn("lt", rest, n), fn("lt", ZERO, rest), fn("le", rest, sub(n, num(2))),
            fn("le", add(mul(n, fn("div", a, n)), ONE), a), fn("lt", a, add(mul(n, fn("div", a, n)), n)),
            fn("lt", add(rest, ONE), add(n, integers(rng, 1))),
        ])  # fmt: skip
        if not here().entails(c):
            continue
        known += 1
        for _ in range(8):
            try:
                assert fact_holds(Fact((), (), c), world(rng)), c
            except Unclear:
                continue
    assert known > 30, known


def test_a_floor_of_what_is_no_integer_is_below_no_integer() -> None:
    """Of a real a all that is known is a − 2·⌊a/2⌋ < 2: it need not be at most 1."""
    rest = sub(A, mul(num(2), fn("div", A, num(2))))
    assert not here().entails(fn("le", mul(num(2), rest), num(2)))
    with pytest.raises(KernelError, match="expected a quotient that is an integer"):
        divided(fn("div", mul(num(2), A), num(2)), A, ZERO)


def test_a_floor_of_what_may_be_minus_infinity_is_0() -> None:
    """⌊E⌋ is 0 at E = −∞, which is below every integer: so E < i does not give ⌊E⌋ < i."""
    E = read("E", HERE)
    below = Fact((), (), fn("lt", E, mul(HERE, ONE)))
    for element, known in (("extended", False), ("real", True)):
        ctx = Context(ask, {"i": N}, (SOME, below), {"E": element})
        assert ctx.entails(fn("lt", fn("div", E, ONE), HERE)) is known
