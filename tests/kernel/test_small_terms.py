"""All small terms of one number: normal forms have their values, at −∞ too, and what is printed is what they are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import floor
from typing import Any

import pytest
from kernel_oracle import BOTTOM, Unclear, Undefined, World, agree, value

from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact, nonzero, real
from catdiag.kernel.polynomial import normal
from catdiag.kernel.terms import BOT, MINUS, ONE, ZERO, KernelError, Term, add, fn, mul, num, read, show, size

X = read("X")
FUNCTIONS = ("inv", "exp", "log", "sqrt")
LEAVES = (X, mul(MINUS, X), mul(X, X), add(X, ONE), fn("max", X, ZERO), BOT)
NUMBERS = (BOTTOM, *map(Fraction, ("0", "1", "-1", "2", "-1/2")))
KNOWN: dict[str, tuple[Term, ...]] = {
    "nothing": (), "real": (real(X),), "not 0": (nonzero(X),), "at least 0": (fn("le", ZERO, X),),
    "positive": (fn("lt", ZERO, X),), "negative": (fn("lt", ZERO, mul(MINUS, X)), real(X)),
}  # fmt: skip


def _chains(length: int) -> list[Term]:
    """Functions of functions of the leaves."""
    made = []
    for leaf in LEAVES:
        for names in product(FUNCTIONS, repeat=length):
            t = leaf
            for name in names:
                t = fn(name, t)
            made.append(t)
    return made


def _combined(rng: random.Random, parts: Sequence[Term], count: int) -> list[Term]:
    """Products, and inverses of sums, of such terms."""
    made = []
    for _ in range(count):
        a, b, c = (rng.choice(parts) for _ in range(3))
        made.append(rng.choice((mul(a, b), mul(fn("inv", add(a, b)), c), fn(rng.choice(FUNCTIONS), mul(a, b)))))
    return made


@pytest.mark.parametrize("known", sorted(KNOWN))
def test_normal_forms_of_small_terms_have_their_values(known: str) -> None:
    ctx = Context(lambda hypotheses, goal: False, {}, tuple(Fact((), (), c) for c in KNOWN[known]), {"X": "extended"})
    rng = random.Random(known)
    worlds = [World({}, {}, {"X": "extended"}, rng, {("X", ()): x}) for x in NUMBERS]
    worlds = [w for w in worlds if all(value(c, w) is True for c in KNOWN[known])]
    chains = _chains(1) + _chains(2)
    compared = 0
    for t in (*chains, *rng.sample(_chains(3), 100), *_combined(rng, chains, 150)):
        try:
            found = normal(t, ctx)
        except KernelError:
            continue
        for world in worlds:
            try:
                x, y = value(t, world), value(found, world)
            except (Unclear, Undefined):
                continue
            assert agree(x, y), f"{show(t)} = {x}, but {show(found)} = {y} at X = {world.cells}"
            compared += 1
    assert compared > 100


def test_the_inverse_of_a_sum_of_inverses_has_a_normal_form() -> None:
    y = read("Y")
    t = mul(fn("inv", add(fn("inv", X), fn("inv", y))), fn("inv", X))
    known = tuple(Fact((), (), c) for c in (fn("lt", ZERO, X), fn("lt", ZERO, y)))
    found = normal(t, Context(lambda hypotheses, goal: False, {}, known, {"X": "real", "Y": "real"}))
    world = World({}, {}, {}, random.Random(0), {("X", ()): Fraction(3), ("Y", ()): Fraction(5)})
    assert value(found, world) == value(t, world)


# -- printing -------------------------------------------------------------------------------------------------


def _made(rng: random.Random, depth: int) -> Term:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice((size("n"), size("m"), num(2), num(-1), num(Fraction(1, 3))))
    op = rng.choice(("add", "mul", "mul", "inv", "inv", "div", "max"))
    count = {"inv": 1, "div": 2}.get(op, rng.choice((2, 3)))
    return fn(op, *(_made(rng, depth - 1) for _ in range(count)))


def _read_back(text: str, sizes: dict[str, Fraction]) -> Any:
    """A printed formula by the precedence that everybody knows: × and / from the left, before + ."""
    code = text.replace("·", "*").replace("⌊", "whole(").replace("⌋", ")")
    words = {word: f"number({word})" for word in ("1", "2", "3")}
    code = "".join(words.get(letter, letter) for letter in code)
    return eval(code, {"whole": lambda x: Fraction(floor(x)), "number": Fraction, "max": max, **sizes})


def test_what_is_printed_reads_as_the_term() -> None:
    rng, compared = random.Random(0), 0
    sizes = {"n": Fraction(3), "m": Fraction(5)}
    world = World({"n": 3, "m": 5}, {}, {}, rng)
    for _ in range(1500):
        t = _made(rng, 3)
        try:
            x = value(t, world, strict=True)
        except (Undefined, Unclear):
            continue
        assert _read_back(show(t), sizes) == x, show(t)
        compared += 1
    assert compared > 500


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (fn("div", add(size("n"), size("m")), num(2)), "⌊(n + m)/2⌋"),
        (fn("inv", fn("inv", size("n"))), "1/(1/n)"),
        (fn("div", size("n"), fn("inv", size("m"))), "⌊n/(1/m)⌋"),
        (mul(size("n"), fn("inv", size("m")), num(2)), "(n/m)·2"),
    ],
)
def test_quotients_are_printed_with_what_they_divide(term: Term, text: str) -> None:
    assert show(term) == text
