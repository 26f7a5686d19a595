"""The laws of sine, cosine, the error function and floors of reals: what the kernel makes of terms has their value."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import permutations
from typing import Any

import mpmath
import pytest
from kernel_oracle import ask

from catdiag.kernel import rewrite_rules
from catdiag.kernel.context import Context
from catdiag.kernel.scalar_rules import normal
from catdiag.kernel.terms import (
    BOT,
    FIXED,
    ONE,
    RANDOM,
    ZERO,
    KernelError,
    Term,
    add,
    fixed,
    fn,
    has_own_name,
    is_fixed,
    mul,
    num,
    read,
    sub,
    term_data,
)

A, B, J, E = (read(name) for name in "ABJE")
ELEMENTS = {"A": "real", "B": "real", "J": "int", "E": "extended"}
CTX = Context(ask, {}, (), ELEMENTS)
OF = {"erf": mpmath.erf, "sin": mpmath.sin, "cos": mpmath.cos}


def value(t: Term, at: dict[str, Any]) -> Any:
    """The number that a term is, to 100 digits."""
    if t.op == "num":
        assert isinstance(t.data, Fraction)
        return mpmath.mpf(t.data.numerator) / t.data.denominator
    if t.op == "read":
        return at[str(t.data)]
    parts = [value(a, at) for a in t.args]
    if t.op == "apply":
        return OF[str(t.data)[1:]](parts[0])
    if t.op == "div":
        return mpmath.floor(parts[0] / parts[1])
    return {"add": sum, "mul": mpmath.fprod}[t.op](parts)


def angle(rng: random.Random) -> Term:
    parts = [mul(num(Fraction(rng.randint(-5, 5), rng.choice((1, 1, 2, 3)))), rng.choice((A, B, mul(A, B), ONE)))
             for _ in range(rng.randint(1, 3))]  # fmt: skip
    return add(*parts)


def waves(rng: random.Random, depth: int) -> Term:
    if depth == 0 or rng.random() < 0.3:
        return fixed(rng.choice(("sin", "cos", "sin", "cos", "erf")), angle(rng))
    several = [waves(rng, depth - 1) for _ in range(rng.randint(2, 3))]
    return add(*several, A) if rng.random() < 0.5 else mul(*several)


def test_the_normal_form_of_waves_has_their_value() -> None:
    rng, changed = random.Random(4), 0
    with mpmath.workdps(100):
        for _ in range(120):
            t = waves(rng, 2)
            made = normal(t, CTX)
            changed += made != t
            assert normal(made, CTX) == made
            for _ in range(2):
                at = {name: mpmath.mpf(rng.randint(-9999, 9999)) / 1000 for name in "AB"}
                assert abs(value(made, at) - value(t, at)) < 1e-80, (t, made)
    assert changed > 60


def test_one_number_has_one_normal_form() -> None:
    sine, cosine = fixed("sin", A), fixed("cos", A)
    equal = [
        (add(mul(sine, sine), mul(cosine, cosine)), ONE),
        (fixed("sin", mul(num(2), A)), mul(num(2), sine, cosine)),
        (
            fixed("sin", add(A, mul(num(7), B))),
            add(mul(sine, fixed("cos", mul(num(7), B))), mul(cosine, fixed("sin", mul(num(7), B)))),
        ),
        (fixed("cos", sub(B, A)), fixed("cos", sub(A, B))),
        (fixed("sin", sub(A, A)), ZERO),
        (fixed("cos", mul(num(7), sub(A, A))), ONE),
        (fixed("cos", mul(num(-9), A)), fixed("cos", mul(num(9), A))),
        (fixed("erf", mul(num(-9), A)), mul(num(-1), fixed("erf", mul(num(9), A)))),
    ]
    for s, t in equal:
        assert normal(s, CTX) == normal(t, CTX), (s, t)
    different = [(sine, cosine), (fixed("erf", A), sine), (fixed("sin", mul(num(-1), A)), sine),
                 (fixed("cos", mul(num(2), A)), mul(num(2), cosine))]  # fmt: skip
    for s, t in different:
        assert normal(s, CTX) != normal(t, CTX), (s, t)


@pytest.mark.parametrize(("name", "other"), permutations(FIXED, 2))
def test_no_fixed_function_has_the_laws_of_another(name: str, other: str) -> None:
    assert tuple(OF) == FIXED
    for t in (A, mul(num(2), A), add(A, B)):
        assert normal(fixed(name, t), CTX) != normal(fixed(other, t), CTX)


@pytest.mark.parametrize("name", OF)
def test_no_law_is_used_of_what_may_be_minus_infinity(name: str) -> None:
    """At −∞ they are 0, cosine too, whose square is then not 1 − sin²."""
    t = fixed(name, E)
    assert normal(t, CTX) == t
    with pytest.raises(KernelError, match="not known to be real"):
        normal(fixed(name, mul(num(-1), E)), CTX)
    square = add(mul(fixed("sin", E), fixed("sin", E)), mul(fixed("cos", E), fixed("cos", E)))
    assert normal(square, CTX) != ONE
    assert normal(fixed(name, BOT), CTX) == fixed(name, BOT)


def test_what_is_known_of_floors_of_reals_holds() -> None:
    rng, known = random.Random(2), 0
    for _ in range(150):
        n = num(Fraction(rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2))))
        a = add(mul(num(rng.randint(-2, 2)), A), rng.choice((B, J, num(rng.randint(-2, 2)))))
        floor = fn("div", a, n)
        low, high = rng.choice(((mul(n, floor), a), (a, add(mul(n, floor), n)), (floor, a), (floor, add(floor, a)),
                                (a, mul(n, add(floor, num(2)))), (ZERO, sub(a, mul(n, floor)))))  # fmt: skip
        c = fn(rng.choice(("lt", "le")), low, high)
        if not CTX.entails(c):
            continue
        known += 1
        for _ in range(20):
            at = {name: mpmath.mpf(rng.randint(-12, 12)) / 4 for name in "AB"} | {"J": mpmath.mpf(rng.randint(-3, 3))}
            x, y = value(low, at), value(high, at)
            assert x < y or (c.op == "le" and x == y), (c, at)
    assert known > 30, known


def test_a_function_of_a_user_is_none_of_the_kernel() -> None:
    own = [fixed("erf", A), Term("apply", "%" + RANDOM, (A, B))]
    others = [Term("apply", "xerf", (A,)), Term("apply", "%other", (A,)), Term("erf", None, (A,)), read("%erf", A)]
    assert all(map(has_own_name, own)) and not any(map(has_own_name, others))
    assert is_fixed(own[0]) and not any(map(is_fixed, [own[1], *others]))


def divided(t: Term, q: Term, r: Term) -> Term:
    return rewrite_rules.apply(CTX, t, "divide", [], [term_data(q), term_data(r)])


def test_integers_come_out_of_a_floor() -> None:
    whole = fn("div", A, ONE)
    assert divided(fn("div", add(A, J), ONE), add(whole, J), sub(A, whole)) == add(whole, J)
    for q, r in ((add(whole, B), sub(A, whole)), (add(whole, J, ONE), sub(A, add(whole, ONE))), (J, A), (A, J)):
        with pytest.raises(KernelError):
            divided(fn("div", add(A, J), ONE), q, r)
    with pytest.raises(KernelError):
        divided(fn("div", add(E, J), ONE), add(fn("div", E, ONE), J), sub(E, fn("div", E, ONE)))
