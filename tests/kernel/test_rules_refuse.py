"""Each rule beside what it is about: what is refused, and what it gives where it holds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from kernel_contexts import HERE, POSITIVE, TWO, A, B, C, E, M, N, V, knows

from catdiag.kernel import rewrite_rules, scalar_rules
from catdiag.kernel.facts import Fact
from catdiag.kernel.rule_arguments import depends, positions
from catdiag.kernel.scalar_rules import below
from catdiag.kernel.terms import (
    BOT,
    FALSE,
    MINUS,
    ONE,
    TRUE,
    ZERO,
    KernelError,
    Term,
    add,
    big,
    bound,
    fn,
    idx,
    mul,
    num,
    read,
    sub,
    term_data,
)

HALF = num(Fraction(1, 2))
X, Y, EX = read("X", HERE), read("Y", HERE), read("EX", HERE)


def total(body: Term, n: Term = N, monoid: str = "sum") -> Term:
    return big(monoid, n, body)


def data(*args: Any) -> list[Any]:
    """Terms as a certificate has them; anything else as it is."""
    return [term_data(a) if isinstance(a, Term) else a for a in args]


def applied(label: str, counts: Term) -> Term:
    """A function of the name of a monoid, of what might be its range and its body."""
    return Term("apply", label, (counts, A))


def sums(*parts: tuple[Term, Any]) -> list[Any]:
    """Known comparisons with coefficients."""
    return [[term_data(c), k] for c, k in parts]


def every(n: Term, *conditions: Term) -> tuple[Fact, ...]:
    """Of each i below n."""
    return tuple(Fact((("v", n),), (), c) for c in conditions)


REAL_V = fn("real", read("EX", V))
Case = tuple[str, Term, Sequence[Any], Sequence[Any]]
"""A rule, what it is applied to, its arguments, and what is known."""

REFUSED: list[Case] = [
    # -- reductions
    ("split", applied("sum", add(N, M)), [], []),
    ("split", total(X), [], []),
    ("split", total(X, add(N, MINUS)), [], []),
    ("nest", total(X, mul(N, MINUS)), [], []),
    ("nest", applied("sum", mul(N, M)), [], []),
    ("nest", total(X, add(N, M)), [], []),
    ("empty", total(X), [], []),
    ("empty", total(X, ONE), [], []),
    ("single", total(X), [], []),
    ("single", total(X, ZERO), [], []),
    ("single", total(EX, ONE, "prod"), [], []),
    ("part", total(fn("max", X, Y)), [], []),
    ("part", total(add(X, Y), N, "max"), [], []),
    ("part", total(add(X, Y), N, "prod"), [], []),
    ("join", mul(total(X), total(Y)), [], []),
    ("join", fn("max", total(X), total(Y)), [], []),
    ("join", add(total(X), total(Y, N, "max")), [], []),
    ("join", add(total(X), total(Y, M)), [], []),
    ("join", add(total(X), applied("sum", N)), [], []),
    ("join", A, [], []),
    ("pull", total(add(A, X)), [[0]], []),
    ("pull", total(mul(A, X), N, "max"), [[0]], []),
    ("pull", total(mul(A, X), N, "prod"), [[0]], []),
    ("pull", total(mul(A, X)), [[1]], []),
    ("pull", total(mul(A, X)), [[]], []),
    ("pull", total(mul(A, X, Y)), [[0, 1]], []),
    ("pull", total(mul(A, EX)), [[0]], []),
    ("pull", total(mul(A, X, EX)), [[0]], []),
    ("pull", total(mul(total(read("X", bound(1))), Y)), [[0]], []),
    ("pull", total(mul(total(X, bound(0)), Y)), [[0]], []),
    ("push", fn("max", A, total(X, N, "max")), [1], []),
    ("push", mul(A, total(X, N, "max")), [1], []),
    ("push", add(A, total(X)), [1], []),
    ("push", mul(A, applied("sum", N)), [1], []),
    ("push", mul(A, total(EX)), [1], []),
    ("scale", total(mul(TWO, X)), [[0]], [fn("le", ONE, N)]),
    ("scale", total(add(TWO, X), N, "max"), [[0]], [fn("le", ONE, N)]),
    ("scale", total(mul(TWO, X), N, "max"), [[0]], []),
    ("scale", total(mul(A, X), N, "max"), [[0]], [fn("le", ONE, N)]),
    ("scale", total(mul(TWO, X, Y), N, "max"), [[0, 1]],
     [fn("le", ONE, N), *every(N, fn("lt", ZERO, read("X", V))), fn("lt", ZERO, read("X", ZERO))]),
    ("scale", total(mul(TWO, EX), N, "max"), [[0]], [fn("le", ONE, N)]),
    ("scale", total(mul(TWO, EX, X), N, "max"), [[0]], [fn("le", ONE, N)]),
    ("swap", total(total(X, M, "max")), [], []),
    ("swap", total(total(X, HERE)), [], []),
    ("swap", total(X), [], []),
    ("constant", total(X), [], []),
    ("constant", total(E), [], []),
    ("constant", total(A, N, "max"), [], []),
    ("constant", total(A, N, "prod"), [], []),
    ("constant", applied("sum", N), [], []),
    ("constant", total(TWO, N, "max"), [], []),
    ("reindex", total(X), data(N, HERE, sub(sub(N, ONE), HERE)), []),
    ("reindex", total(X, ONE), data(TWO, ZERO, ZERO), []),
    ("reindex", total(X), data(ONE, ZERO, ZERO), []),
    ("reindex", total(X), data(sub(N, ONE), HERE, HERE), []),
    ("reindex", total(X), data(N, add(HERE, idx("j")), HERE), []),
    ("reindex", total(X), data(N, bound(1), HERE), []),
    ("reindex", total(X), data(N, fn("lt", HERE, N), HERE), []),
    ("reindex", total(X), data(add(N, idx("j")), HERE, HERE), []),
    ("shift", total(X), ["sideways"], []),
    ("shift", total(X), [1], []),
    ("shift", total(X, N, "max"), ["up"], []),
    ("shift", total(X, A), ["up"], []),
    ("shift", total(EX), ["up"], []),
    ("shift", total(EX), ["up"], [fn("real", read("EX", N))]),
    ("shift", total(EX), ["up"], [*every(N, REAL_V)]),
    ("shift", total(EX), ["down"], [*every(N, REAL_V)]),
    ("telescope", total(HERE, N, "max"), data(HERE), []),
    ("telescope", total(ONE), data(add(HERE, ONE)), []),
    ("telescope", total(ONE), data(mul(TWO, HERE)), []),
    ("through", total(fn("sqrt", X), N, "prod"), [], []),
    ("through", total(fn("log", X)), [], []),
    ("through", total(fn("log", X)), [], [*every(N, fn("le", ZERO, read("X", V)))]),
    ("through", total(fn("exp", X)), [], []),
    ("through", total(fn("exp", X), N, "max"), [], []),
    ("through", fn("max", fn("exp", A), fn("log", B)), [], []),
    ("through", fn("max", fn("sqrt", A), fn("sqrt", B)), [], [POSITIVE]),
    ("through", fn("max", fn("log", A), fn("log", B)), [], [POSITIVE, fn("le", ZERO, B)]),
    ("through", fn("max", fn("inv", A), fn("inv", B)), [], []),
    ("through", total(X, N, "prod"), [], []),
    # -- scalars
    ("flatten", fn("max", A, fn("max", B, C)), [], []),
    ("exp_add", fn("exp", mul(A, B)), [[0]], []),
    ("exp_add", fn("log", add(A, B)), [[0]], []),
    ("exp_add", fn("exp", add(A, B)), [[]], []),
    ("exp_add", fn("exp", add(A, B)), [[0, 1]], []),
    ("exp_add", fn("exp", add(A, B)), [[0, 0]], []),
    ("exp_add", fn("exp", add(A, B)), [[2]], []),
    ("exp_add", fn("exp", add(A, B)), [[0, -1]], []),
    ("exp_add", fn("exp", add(A, B)), ["0"], []),
    ("exp_add", fn("exp", add(A, B)), [[True]], []),
    ("bottom", add(ZERO, A), [], []),
    ("bottom", fn("max", BOT, A), [], []),
    ("bottom", Term("apply", "f", (BOT,)), [], []),
    ("bottom", mul(A, B), [], []),
    ("bottom", fn("exp", A), [], []),
    ("bottom", fn("inv", ZERO), [], []),
    ("lattice", add(A, B), [], []),
    ("lattice", A, [], []),
    ("larger", add(A, B), [], []),
    ("larger", add(A, B), [[0, 1], sums((fn("le", A, B), "1"))], [fn("le", A, B)]),
    ("larger", fn("max", A, B), [[0, 1], sums()], []),
    ("larger", fn("max", A, B), [[1, 1], sums()], []),
    ("larger", fn("max", A, B), [[1, 0], sums((fn("le", A, B), "1"))], [fn("le", A, B)]),
    ("larger", fn("max", A, B), [[0, 1], sums((fn("le", A, B), "1"))], []),
    ("divide", fn("div", num(6), num(4)), data(num(Fraction(3, 2)), ZERO), []),
    ("divide", fn("div", num(6), num(4)), data(ONE, num(3)), []),
    ("divide", fn("div", num(6), num(4)), data(TWO, num(-2)), []),
    ("divide", fn("div", num(6), num(4)), data(ZERO, num(6)), []),
    ("divide", fn("div", num(-6), num(-4)), data(ONE, num(-2)), []),
    ("divide", fn("div", A, TWO), data(mul(HALF, A), ZERO), []),
    ("divide", fn("div", N, TWO), data(mul(HALF, N), ZERO), []),
    ("divide", fn("div", N, M), data(idx("j"), sub(N, mul(idx("j"), M))),
     [fn("le", ZERO, sub(N, mul(idx("j"), M))), fn("lt", sub(N, mul(idx("j"), M)), M)]),
    ("compare", add(A, A), [], []),
    ("compare", fn("max", ONE, TWO), [], []),
    ("compare", fn("lt", A, B), [], []),
    ("compare", fn("lt", BOT, E), [], []),
    ("compare", fn("eq", BOT, E), [], []),
    ("compare", fn("le", E, BOT), [], []),
    ("compare", fn("eq", E, BOT), [], []),
    ("difference", fn("lt", E, A), [], []),
    ("difference", fn("eq", A, E), [], []),
    ("difference", fn("max", A, B), [], []),
    ("order", fn("eq", A, total(X, N, "max")), [], []),
    ("order", fn("lt", A, total(X)), [], []),
    ("order", fn("le", total(X), A), [], []),
    ("order", fn("lt", A, B), [], []),
    ("order", fn("lt", A, applied("max", N)), [], []),
    ("order", fn("lt", applied("max", N), A), [], []),
    ("logic", fn("lt", A, B), [], []),
    ("logic", A, [], []),
    ("decide", fn("lt", A, B), [], []),
    ("decide", fn("le", A, B), [], []),
    ("decide", fn("eq", A, B), [], []),
    ("decide", fn("ite", POSITIVE, A, B), [], []),
    ("decide", add(A, B), [], []),
    ("decide", fn("lt", A, B), [sums((fn("le", A, B), "1"))], [fn("le", A, B)]),
    ("decide", fn("le", A, B), [sums((fn("lt", A, B), "1"))], []),
    ("decide", fn("le", A, B), [sums((fn("le", B, A), "-1"))], [fn("le", B, A)]),
    ("decide", fn("le", A, B), [sums((fn("lt", B, A), "-1"))], [fn("lt", B, A)]),
    ("decide", fn("le", A, B), [sums((fn("le", A, C), "1"))], [fn("le", A, C)]),
    ("decide", fn("le", A, B), [sums((fn("le", A, add(B, ONE)), "1"))], [fn("le", A, add(B, ONE))]),
    ("decide", fn("eq", A, B), [sums((fn("le", A, B), "1"))], [fn("le", A, B)]),
    ("decide", fn("lt", A, B), [sums((fn("eq", A, B), "1"))], [fn("eq", A, B)]),
    ("decide", fn("lt", add(A, B), add(B, A)), [sums((fn("lt", B, C), "0"))], [fn("lt", B, C)]),
    *(("decide", fn("lt", A, B), [sums((fn("lt", A, B), k))], [fn("lt", A, B)])
      for k in ("1e99999999", "1.0", " 1", "1/0", "", 1, True, None)),
    ("decide", fn("le", N, M), [sums((Term("holds", "P", (N, M)), "1"))], [Term("holds", "P", (N, M))]),
    ("guard", fn("ite", POSITIVE, E, A), [], []),
    ("guard", fn("ite", POSITIVE, A, E), [], []),
    ("guard", fn("ite", POSITIVE, ONE, ZERO), [], []),
    ("guard", add(A, B), [], []),
    ("turn", fn("ite", fn("eq", A, B), A, C), ["opposite"], []),
    ("turn", fn("ite", fn("lt", A, B), A, C), ["equal"], []),
    ("turn", fn("ite", fn("eq", A, B), A, C), ["equal"], []),
    ("turn", fn("ite", fn("and", POSITIVE, fn("lt", B, C)), ONE, ZERO), ["max"], []),
    ("turn", fn("ite", fn("or", POSITIVE, fn("lt", B, C)), TWO, ZERO), ["max"], []),
    ("turn", fn("ite", fn("or", POSITIVE, fn("lt", B, C)), ONE, A), ["max"], []),
    ("turn", fn("ite", fn("lt", A, B), A, C), ["connective"], []),
    ("turn", fn("ite", fn("lt", A, B), A, C), ["round"], []),
    ("turn", fn("ite", fn("not", fn("eq", A, B)), A, C), ["round"], []),
    ("turn", fn("max", A, B), ["opposite"], []),
    ("distinguish", fn("real", A), data(POSITIVE), []),
    ("distinguish", A, data(A), []),
    ("distinguish", A, data(fn("lt", ZERO, idx("j"))), []),
    ("same", A, data(B), []),
    ("same", A, data(POSITIVE), []),
    ("same", A, [*data(B), sums((fn("eq", A, B), term_data(ONE)))], []),
    ("same", A, [*data(B), sums((fn("le", A, B), term_data(ONE)))], [fn("le", A, B)]),
    ("same", A, [*data(B), sums((fn("eq", A, B), term_data(TWO)))], [fn("eq", A, B)]),
    ("same", POSITIVE, data(fn("le", ZERO, A)), []),
    ("same", fn("le", ZERO, A), data(POSITIVE), []),
    ("same", POSITIVE, data(A), []),
    ("no rule", A, [], []),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "t", "args", "known"), REFUSED)
def test_what_a_rule_is_not_about_is_refused(rule: str, t: Term, args: Sequence[Any], known: Sequence[Any]) -> None:
    with pytest.raises(KernelError):
        rewrite_rules.apply(knows(*known), t, rule, [], args)


def exists(condition: Term, n: Term = N) -> Term:
    return fn("lt", ZERO, total(fn("ite", condition, ONE, ZERO), n, "max"))


OR, AND = (fn(op, POSITIVE, fn("lt", B, C)) for op in ("or", "and"))
GIVEN: list[tuple[str, Term, Sequence[Any], Sequence[Any], Term]] = [
    ("split", total(X, add(N, M)), [], [], add(total(X), total(read("X", add(N, HERE)), M))),
    ("nest", total(X, mul(N, M)), [], [], total(total(read("X", add(mul(bound(1), M), HERE)), M))),
    ("empty", total(X, ZERO, "max"), [], [], BOT),
    ("single", total(EX, ONE), [], [], read("EX", ZERO)),
    ("single", total(X, ONE, "prod"), [], [], read("X", ZERO)),
    ("part", total(fn("max", X, Y), N, "max"), [], [], fn("max", total(X, N, "max"), total(Y, N, "max"))),
    ("part", total(mul(X, Y), N, "prod"), [], [], mul(total(X, N, "prod"), total(Y, N, "prod"))),
    ("join", add(total(X), total(Y)), [], [], total(add(X, Y))),
    ("pull", total(mul(A, X)), [[0]], [], mul(A, total(X))),
    ("pull", total(mul(total(Y), X)), [[0]], [], mul(total(Y), total(X))),
    ("pull", total(add(E, EX), N, "max"), [[0]], [], add(E, total(EX, N, "max"))),
    ("pull", total(mul(E, A)), [[0, 1]], [], mul(E, A, total(ONE))),
    ("pull", total(add(E, A), N, "max"), [[0, 1]], [], add(E, A, total(ZERO, N, "max"))),
    ("push", mul(A, total(X)), [1], [], total(mul(A, X))),
    ("push", add(E, total(EX, N, "max")), [1], [], total(add(E, EX), N, "max")),
    ("scale", total(mul(TWO, X), N, "max"), [[0]], [fn("le", ONE, N)], mul(TWO, total(X, N, "max"))),
    ("swap", total(total(read("X", add(bound(1), HERE)), M)), [], [],
     total(total(read("X", add(HERE, bound(1)))), M)),
    ("constant", total(A), [], [], mul(N, A)),
    ("constant", total(E, N, "max"), [], [fn("le", ONE, N)], E),
    ("constant", total(ONE, N, "prod"), [], [], ONE),
    ("constant", total(TWO, N, "prod"), [], [], fn("exp", mul(N, fn("log", TWO)))),
    ("shift", total(X), ["up"], [],
     add(read("X", ZERO), total(read("X", add(HERE, ONE))), mul(MINUS, read("X", N)))),
    ("shift", total(X), ["down"], [],
     add(read("X", sub(N, ONE)), total(read("X", add(HERE, MINUS))), mul(MINUS, read("X", MINUS)))),
    ("telescope", total(fn("exp", A), N, "prod"), data(fn("exp", mul(HERE, A))), [], fn("exp", mul(N, A))),
    ("through", total(fn("exp", EX), N, "prod"), [], [], fn("exp", total(EX))),
    ("through", total(fn("inv", EX), N, "prod"), [], [], fn("inv", total(EX, N, "prod"))),
    ("through", fn("max", fn("exp", E), fn("exp", A)), [], [], fn("exp", fn("max", E, A))),
    ("through", total(fn("exp", EX), N, "max"), [], [fn("le", ONE, N)], fn("exp", total(EX, N, "max"))),
    ("flatten", mul(A, mul(B, C)), [], [], mul(A, B, C)),
    ("exp_add", fn("exp", add(A, E, B)), [[1]], [], mul(fn("exp", E), fn("exp", add(A, B)))),
    ("bottom", add(A, BOT), [], [], BOT),
    ("bottom", mul(E, ZERO), [], [], ZERO),
    *(("bottom", fn(op, BOT), (), (), ZERO) for op in ("exp", "inv", "log", "sqrt", "mul")),
    ("lattice", fn("max", B, fn("max", A, BOT, ONE), TWO), [], [], fn("max", TWO, A, B)),
    ("lattice", fn("max", BOT, BOT), [], [], BOT),
    ("larger", fn("max", A, B), [[0, 1], sums((fn("le", A, B), "1"))], [fn("le", A, B)], B),
    ("larger", fn("max", A, B), [], [fn("lt", B, A)], A),
    ("larger", fn("max", A, A), [], [], A),
    ("divide", fn("div", num(-6), num(4)), data(num(-2), TWO), [], num(-2)),
    ("compare", fn("le", BOT, E), [], [], TRUE),
    ("compare", fn("lt", BOT, A), [], [], TRUE),
    ("compare", fn("eq", BOT, A), [], [], FALSE),
    ("compare", fn("le", A, BOT), [], [], FALSE),
    ("compare", fn("lt", E, E), [], [], FALSE),
    ("compare", fn("eq", E, E), [], [], TRUE),
    ("compare", fn("le", ONE, TWO), [], [], TRUE),
    ("difference", fn("lt", mul(TWO, A), ONE), [], [], fn("lt", ZERO, add(ONE, mul(num(-2), A)))),
    ("difference", fn("lt", A, add(A, ONE)), [], [], TRUE),
    ("difference", fn("lt", ZERO, add(mul(A, B), mul(A, C))), [], [], fn("lt", ZERO, add(mul(A, B), mul(A, C)))),
    ("difference", fn("lt", ZERO, add(mul(B, fn("inv", A)), C)), [], [POSITIVE], fn("lt", ZERO, add(B, mul(A, C)))),
    ("difference", fn("le", mul(A, B), mul(A, A, C)), [], [POSITIVE],
     fn("le", ZERO, add(mul(MINUS, B), mul(A, C)))),
    *(("difference", fn(op, add(A, B), add(B, A)), (), (), FALSE if op == "lt" else TRUE) for op in ("lt", "le", "eq")),
    *(("difference", fn(op, N, add(N, ONE)), (), (), FALSE if op == "eq" else TRUE) for op in ("lt", "le", "eq")),
    *(("difference", fn(op, add(N, ONE), N), (), (), FALSE) for op in ("lt", "le", "eq")),
    *(("difference", fn(op, N, add(N, ZERO)), (), (), FALSE if op == "lt" else TRUE) for op in ("lt", "le", "eq")),
    *(("difference", fn("eq", *sides), (), (), fn("eq", N, M)) for sides in ((N, M), (M, N))),
    ("order", fn("lt", A, fn("max", B, E)), [], [], fn("or", fn("lt", A, B), fn("lt", A, E))),
    ("order", fn("le", fn("max", B, E), A), [], [], fn("and", fn("le", B, A), fn("le", E, A))),
    ("order", exists(fn("lt", ZERO, X)), [True], [], fn("lt", ZERO, total(X, N, "max"))),
    ("logic", fn("and", POSITIVE, TRUE, fn("and", POSITIVE)), [], [], POSITIVE),
    ("logic", fn("or", POSITIVE, fn("or", FALSE, TRUE)), [], [], TRUE),
    ("logic", fn("not", POSITIVE), [], [], fn("le", A, ZERO)),
    ("logic", fn("not", exists(fn("lt", A, X))), [], [], fn("not", exists(fn("lt", A, X)))),
    ("logic", fn("not", OR), [], [], fn("and", fn("le", A, ZERO), fn("le", C, B))),
    ("logic", fn("not", FALSE), [], [], TRUE),
    ("logic", fn("not", TRUE), [], [], FALSE),
    ("decide", fn("lt", A, B), [sums((fn("lt", A, B), "1"))], [fn("lt", A, B)], TRUE),
    ("decide", fn("lt", B, A), [sums((fn("lt", A, B), "1"))], [fn("lt", A, B)], FALSE),
    ("decide", fn("le", A, B), [sums((fn("eq", B, A), "-1"))], [fn("eq", B, A)], TRUE),
    ("decide", fn("le", A, fn("max", A, E)), [], [], TRUE),
    ("decide", fn("lt", fn("max", A, E), A), [], [], FALSE),
    ("decide", fn("ite", POSITIVE, E, E), [], [], E),
    ("decide", fn("ite", POSITIVE, A, B), [], [POSITIVE], A),
    ("decide", fn("ite", POSITIVE, A, B), [], [fn("le", A, ZERO)], B),
    ("decide", fn("ite", FALSE, A, B), [], [], B),
    ("guard", fn("ite", POSITIVE, A, ZERO), [], [], mul(fn("ite", POSITIVE, ONE, ZERO), A)),
    ("guard", fn("ite", POSITIVE, ZERO, A), [], [], mul(sub(ONE, fn("ite", POSITIVE, ONE, ZERO)), A)),
    ("guard", fn("ite", fn("real", E), E, ZERO), [], [], mul(fn("ite", fn("real", E), ONE, ZERO), E)),
    ("turn", fn("ite", fn("lt", A, E), B, C), ["opposite"], [], fn("ite", fn("le", E, A), C, B)),
    ("turn", fn("ite", fn("le", A, E), B, C), ["opposite"], [], fn("ite", fn("lt", E, A), C, B)),
    ("turn", fn("ite", fn("le", A, E), B, C), ["equal"], [],
     fn("ite", fn("lt", A, E), B, fn("ite", fn("eq", A, E), B, C))),
    ("turn", fn("ite", OR, ONE, ZERO), ["max"], [], fn("max", *(fn("ite", c, ONE, ZERO) for c in OR.args))),
    ("turn", fn("ite", fn("not", OR), B, C), ["connective"], [], fn("ite", OR, C, B)),
    ("turn", fn("ite", AND, B, C), ["connective"], [], fn("ite", POSITIVE, fn("ite", AND.args[1], B, C), C)),
    ("turn", fn("ite", OR, B, C), ["connective"], [], fn("ite", POSITIVE, B, fn("ite", OR.args[1], B, C))),
    ("distinguish", E, data(POSITIVE), [], fn("ite", POSITIVE, E, E)),
    ("same", A, [*data(B), sums((fn("eq", A, B), term_data(ONE)))], [fn("eq", A, B)], B),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "t", "args", "known", "found"), GIVEN)
def test_what_a_rule_gives(rule: str, t: Term, args: Sequence[Any], known: Sequence[Any], found: Term) -> None:
    assert rewrite_rules.apply(knows(*known), t, rule, [], args) == found


@pytest.mark.parametrize(("whole", "place", "known"), [
    (fn("and", POSITIVE, fn("lt", B, C)), 0, fn("lt", B, C)),
    (fn("or", POSITIVE, fn("lt", B, C)), 0, fn("le", C, B)),
    (fn("ite", fn("lt", B, C), fn("ite", POSITIVE, A, B), A), 1, fn("lt", B, C)),
    (fn("ite", fn("lt", B, C), A, fn("ite", POSITIVE, A, B)), 2, fn("le", C, B)),
    (mul(fn("ite", fn("lt", B, C), ONE, ZERO), fn("ite", POSITIVE, A, B)), 1, fn("lt", B, C)),
])  # fmt: skip
def test_a_part_does_not_know_itself(whole: Term, place: int, known: Term) -> None:
    with pytest.raises(KernelError, match="not decided"):
        rewrite_rules.apply(knows(), whole, "decide", [place])
    inner, part, _ = rewrite_rules.enter(knows(), whole, place)
    assert part == whole.args[place] and inner.entails(known) and not inner.entails(POSITIVE)
    assert not inner.entails(fn("le", A, ZERO))


@pytest.mark.parametrize("condition", [
    fn("le", ZERO, X), fn("lt", ONE, X), fn("eq", ZERO, X), fn("le", X, ZERO),
])  # fmt: skip
def test_that_something_is_positive_is_read_back_from_just_that(condition: Term) -> None:
    top = total(fn("ite", condition, ONE, ZERO), N, "max")
    there = total(fn("ite", fn("lt", ZERO, X), ONE, ZERO), N, "max")
    others = [fn("lt", ZERO, top), fn("le", ZERO, there), fn("lt", ONE, there), fn("lt", MINUS, there)]
    others += [fn("lt", ZERO, total(fn("ite", fn("lt", ZERO, X), *branches), N, "max"))
               for branches in ((ZERO, ONE), (TWO, ZERO), (ONE, MINUS))]  # fmt: skip
    others += [fn("lt", ZERO, total(X, N, "max")), fn("lt", ZERO, total(there.args[1])), fn("lt", ZERO, A)]
    for t in others:
        with pytest.raises(KernelError):
            rewrite_rules.apply(knows(), t, "order", [], [True])


def test_a_comparison_is_known_of_what_the_fact_speaks_of() -> None:
    here = fn("le", read("X", idx("i")), A)
    assert scalar_rules.holds(knows(here, i=N), fn("le", ZERO, sub(A, read("X", idx("i")))))
    assert scalar_rules.holds(knows(*every(N, fn("le", read("X", V), A)), i=N), here)
    for unlike in (Fact((("i", M),), (), here), Fact((), (POSITIVE,), here)):
        assert not scalar_rules.holds(knows(unlike, i=N), here)
    assert not scalar_rules.holds(knows(here, i=N), fn("lt", read("X", idx("i")), A))
    assert not scalar_rules.holds(knows(fn("eq", E, A)), fn("lt", E, A))
    assert not scalar_rules.holds(knows(fn("lt", E, A)), fn("lt", A, E))


def test_what_is_below_what() -> None:
    entry = read("X", idx("i"))
    assert below(knows(), A, fn("max", B, A)) and below(knows(), fn("max", BOT, E), E)
    assert below(knows(i=N), entry, total(X, N, "max"))
    assert below(knows(fn("le", A, C), fn("le", B, C)), fn("max", A, B), C)
    assert not below(knows(fn("le", A, C)), fn("max", A, B), C)
    assert not below(knows(), fn("max", A, B), A)
    assert not below(knows(i=N), entry, total(X, M, "max"))
    assert not below(knows(i=N), total(X, N, "max"), entry)
    # ½ is not at most ½·½, nor an entry between two others.
    assert not below(knows(*every(N, fn("le", ZERO, read("X", V))), i=N), entry, total(X, N, "prod"))
    assert not below(knows(i=N), read("X", mul(HALF, idx("i"))), total(X, N, "max"))
    assert not below(knows(i=N), read("X", add(idx("i"), ONE)), total(X, N, "max"))
    assert not below(knows(i=N), read("X", add(idx("i"), MINUS)), total(X, N, "max"))
    assert not below(knows(), mul(MINUS, fn("max", A, B), C), mul(MINUS, A))
    assert not below(knows(), E, A)
    assert not below(knows(), mul(MINUS, fn("max", A, B)), C)
    assert not below(knows(*every(N, fn("le", read("X", V), C))), total(X), C)
    # Functions of the names of monoids.
    assert not below(knows(fn("le", ONE, N)), applied("max", N), A)
    assert not below(knows(fn("le", ONE, N)), A, applied("max", N))


@pytest.mark.parametrize(("t", "whether"), [
    (X, True), (A, False), (read("X", bound(1)), False), (total(X), False), (total(read("X", bound(1))), True),
    (total(read("X", bound(2))), False), (total(A, HERE), True), (total(total(read("X", bound(2)))), True),
    (total(total(A, bound(1))), True), (total(total(A, bound(0))), False), (add(total(X), X), True),
    (fn("ite", fn("lt", A, X), A, B), True), (mul(total(X), total(X), A), False),
])  # fmt: skip
def test_whether_a_term_depends_on_the_index(t: Term, whether: bool) -> None:
    assert depends(t) is whether


def test_positions_are_of_parts_and_each_is_named_once() -> None:
    parts = [A, B, C]
    assert positions(parts, [2, 0]) == ([C, A], [B])
    for wrong in ([3], [-1], [0, 0], [0, 3], (0,), "0", [True], ["0"], 0, None):
        with pytest.raises(KernelError):
            positions(parts, wrong)
