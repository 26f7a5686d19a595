"""Conditions on reals and truth values that the solver is asked about: what is said to follow is true of numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from math import exp, inf
from typing import Any

import pytest

from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.opaque_atoms import Opaque
from catdiag.kernel.terms import MINUS, ONE, ZERO, KernelError, Term, add, fn, maximum, mul, num, read
from catdiag.solvers.cvc5 import Cvc5
from catdiag.solvers.z3 import Z3

REALS = "abc"
ELEMENTS = {**dict.fromkeys(REALS, "real"), "e": "extended"}
A, B, C, E = (read(n) for n in "abce")
P = Term("holds", "p")


@pytest.fixture(scope="module")
def ask() -> Iterator[Z3]:
    with Z3(rlimit=2_000_000) as solver:
        yield solver


def _term(rng: random.Random, depth: int) -> Term:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([A, A, B, B, C, num(rng.randrange(-2, 3)), E])
    x, y = _term(rng, depth - 1), _term(rng, depth - 1)
    op = rng.choice(["add", "add", "mul", "max", "max", "ite", "inv", "sqrt", "exp", "neg"])
    if op == "ite":
        return fn("ite", _condition(rng, 0), x, y)
    if op in ("inv", "sqrt", "exp"):
        return fn(op, x)
    return {"add": add, "mul": mul, "max": maximum, "neg": lambda x, _: mul(MINUS, x)}[op](x, y)


def _condition(rng: random.Random, depth: int) -> Term:
    if depth and rng.random() < 0.4:
        op = rng.choice(["and", "or", "not"])
        parts = [_condition(rng, depth - 1) for _ in range(1 if op == "not" else 2)]
        return fn(op, *parts)
    if rng.random() < 0.15:
        return P
    return fn(rng.choice(["lt", "le", "eq"]), _term(rng, depth), _term(rng, rng.randrange(2)))


class Close(Exception):
    """Two values that floating point does not tell apart."""


def _value(t: Term, at: dict[str, Any]) -> Any:
    op = t.op
    if op == "num":
        return t.data
    if op in ("read", "holds"):
        return at[str(t.data)]
    if op == "ite":
        return _value(t.args[1] if _value(t.args[0], at) else t.args[2], at)
    xs = [_value(a, at) for a in t.args]
    if op in ("lt", "le", "eq"):
        x, y = xs
        rounded = -inf not in xs and any(isinstance(v, float) for v in xs)
        if rounded and abs(x - y) < 1e-9 * (1 + abs(x)):
            raise Close
        return {"lt": x < y, "le": x <= y, "eq": x == y}[op]
    if op in ("and", "or", "not"):
        return {"and": all(xs), "or": any(xs), "not": not xs[0]}[op]
    low = -inf in xs
    if op == "add":
        return -inf if low else sum(xs)
    if op == "mul":
        result: Any = Fraction(1)
        for x in xs:
            result = result * x
        return Fraction(0) if low else result
    if op == "max":
        return max(xs)
    x = xs[0]
    if op == "exp":
        return Fraction(0) if low else Fraction(1) if x == 0 else exp(x)
    if low:
        return Fraction(0)
    if op == "inv":
        return Fraction(0) if x == 0 else 1 / x
    root = Fraction(float(x) ** 0.5).limit_denominator(1000) if x >= 0 else Fraction(0)
    return root if x < 0 or root * root == x else float(x) ** 0.5


def follows(ask: Any, seed: int, tries: int) -> int:
    """How many random conditions are entailed by random facts; raises AssertionError where one is false."""
    rng = random.Random(seed)
    found = 0
    for _ in range(tries):
        facts = tuple(Fact((), (), _condition(rng, 1)) for _ in range(rng.randrange(1, 4)))
        goal = _condition(rng, 2)
        try:
            if not Context(ask, {}, facts, ELEMENTS).entails(goal):
                continue
        except KernelError:
            continue
        found += 1
        for _ in range(60):
            at: dict[str, Any] = {n: Fraction(rng.randrange(-4, 5), rng.choice((1, 1, 2))) for n in REALS}
            at |= {"e": rng.choice((-inf, Fraction(rng.randrange(-2, 3)))), "p": rng.random() < 0.5}
            try:
                if all(_value(f.condition, at) for f in facts):
                    assert _value(goal, at), (goal, facts, at)
            except (Close, OverflowError):
                continue
    return found


def test_what_follows_is_true_of_numbers(ask: Z3) -> None:
    assert follows(ask, 1, 500) > 50


@pytest.mark.parametrize(
    ("facts", "goal"),
    [
        ([fn("lt", A, B), fn("lt", B, C)], fn("lt", A, C)),
        ([fn("le", A, B), fn("le", B, A)], fn("eq", A, B)),
        ([fn("or", P, fn("lt", A, B)), fn("not", P)], fn("lt", A, B)),
        ([fn("lt", A, B)], fn("eq", maximum(A, B), B)),
        ([fn("lt", ZERO, A), fn("lt", A, B)], fn("lt", fn("inv", B), fn("inv", A))),
        ([fn("lt", A, B)], fn("lt", fn("exp", A), fn("exp", B))),
        ([fn("lt", A, ZERO)], fn("lt", fn("exp", A), ONE)),
        ([fn("le", ZERO, A)], fn("eq", fn("sqrt", mul(A, A)), A)),
        ([fn("lt", ZERO, A)], fn("eq", fn("ite", fn("lt", A, ZERO), B, C), C)),
        ([fn("lt", A, B)], fn("not", fn("eq", A, B))),
    ],
)
def test_what_is_entailed_by_both_solvers(ask: Z3, facts: list[Term], goal: Term) -> None:
    known = tuple(Fact((), (), c) for c in facts)
    assert Context(ask, {}, known, ELEMENTS).entails(goal)
    with Cvc5() as second:
        assert Context(second, {}, known, ELEMENTS).entails(goal)


@pytest.mark.parametrize(
    ("facts", "goal"),
    [
        ([fn("lt", A, B)], fn("lt", fn("inv", B), fn("inv", A))),
        ([fn("lt", A, B)], fn("lt", mul(A, C), mul(B, C))),
        ([fn("lt", A, B)], fn("eq", mul(fn("inv", A), A), ONE)),
        ([fn("lt", A, B)], fn("eq", mul(fn("sqrt", A), fn("sqrt", A)), A)),
        ([fn("le", A, E)], fn("le", ZERO, add(E, mul(MINUS, A)))),
        ([fn("or", P, fn("lt", A, B))], fn("lt", A, B)),
    ],
)
def test_what_is_not(ask: Z3, facts: list[Term], goal: Term) -> None:
    assert not Context(ask, {}, tuple(Fact((), (), c) for c in facts), ELEMENTS).entails(goal)


def _always(*_: Any) -> bool:
    return True


@pytest.mark.parametrize("name", ["nonzero", "nonnegative", "positive"])
def test_without_a_sign_being_asked_for_something_false_follows(
    ask: Z3, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, name, _always)
    with pytest.raises(AssertionError):
        follows(ask, 2, 1500)


def test_an_atom_for_two_terms_would_be_noticed(ask: Z3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Opaque, "name", lambda self, kind, t: Term(kind, "0"))
    with pytest.raises(AssertionError):
        follows(ask, 3, 1000)


def test_differences_with_minus_infinity_are_none(ask: Z3, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, goal = (Fact((), (), fn("lt", E, A)),), fn("lt", ZERO, add(A, mul(MINUS, E)))
    at = {"a": Fraction(-1), "e": -inf}
    assert _value(facts[0].condition, at) and not _value(goal, at)
    assert not Context(ask, {}, facts, ELEMENTS).entails(goal)
    monkeypatch.setattr(Context, "real", _always)
    assert Context(ask, {}, facts, ELEMENTS).entails(goal)
