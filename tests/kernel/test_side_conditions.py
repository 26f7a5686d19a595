"""Side conditions of the kernel, each with what is refused for its sake and what is accepted just beside it."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_contexts import ELEMENTS, HERE, A, B, C, N, knows
from kernel_oracle import ask
from kernel_programs import Json, apply, array, program

from catdiag.kernel import rewrite_rules
from catdiag.kernel.context import Context
from catdiag.kernel.definedness import Obligation, nonzero, owes
from catdiag.kernel.facts import Fact, match
from catdiag.kernel.judgments import Judge
from catdiag.kernel.polynomial import normal, to_poly, vanishes
from catdiag.kernel.scalar_rules import below
from catdiag.kernel.semantics import evaluate, inputs_of
from catdiag.kernel.size_scope import symbols_of_node
from catdiag.kernel.terms import (
    MINUS,
    ONE,
    TRUE,
    ZERO,
    KernelError,
    Term,
    add,
    big,
    fn,
    idx,
    mul,
    num,
    read,
    sub,
    term_data,
)


def refused(t: Term, rule: str, *args: Any, ctx: Context | None = None) -> None:
    with pytest.raises(KernelError):
        rewrite_rules.apply(ctx or knows(), t, rule, [], list(args))


def test_only_a_floor_is_divided() -> None:
    args = [term_data(ONE), term_data(num(2))]
    assert rewrite_rules.apply(knows(), fn("div", num(6), num(4)), "divide", [], args) == ONE
    refused(mul(num(6), num(4)), "divide", *args)
    refused(add(num(6), num(4)), "divide", *args)


def test_a_telescope_needs_a_natural_range() -> None:
    """Over −1 indices a sum is 0, and ½·n·(n − 1) is 1."""
    closed = term_data(mul(fn("inv", num(2)), HERE, add(HERE, MINUS)))
    assert rewrite_rules.apply(knows(), big("sum", N, HERE), "telescope", [], [closed])
    refused(big("sum", add(N, MINUS), HERE), "telescope", closed)


@pytest.mark.parametrize("op", ["le", "lt", "eq"])
def test_comparisons_are_multiples_of_each_other_by_their_differences(op: str) -> None:
    ctx = knows()
    t = fn(op, ZERO, sub(A, B))
    assert rewrite_rules.apply(ctx, t, "same", [], [term_data(fn(op, B, A))]) == fn(op, B, A)
    half = fn(op, ZERO, mul(num(2), sub(A, B)))
    assert rewrite_rules.apply(ctx, t, "same", [], [term_data(half)]) == half
    refused(t, "same", term_data(fn(op, ZERO, A)), ctx=ctx)
    refused(t, "same", term_data(fn(op, ZERO, add(A, B))), ctx=ctx)
    if op != "eq":
        refused(t, "same", term_data(fn(op, A, B)), ctx=ctx)


def test_less_by_one_is_said_of_integers_only() -> None:
    combined = [[term_data(fn("lt", A, B)), "1"]]
    refused(fn("le", add(A, ONE), B), "decide", combined, ctx=knows(fn("lt", A, B)))
    known = fn("lt", idx("i"), N)
    ctx = knows(known, i=N)
    assert rewrite_rules.apply(ctx, fn("le", add(idx("i"), ONE), N), "decide", [], [[[term_data(known), "1"]]]) == TRUE


def test_a_demand_is_met_by_one_of_its_kind() -> None:
    judge = Judge(ask)
    for known, asked in (
        (fn("le", ZERO, A), fn("lt", ZERO, A)),
        (fn("lt", ZERO, A), fn("eq", ZERO, A)),
        (fn("or", fn("lt", ZERO, A), fn("lt", ZERO, B)), fn("or", fn("lt", ZERO, A), fn("lt", ZERO, B))),
    ):
        with pytest.raises(KernelError, match="of another kind"):
            judge.same_as(knows(), asked, Obligation((), (), known), {})
    for kept in (fn("le", ZERO, A), fn("lt", ZERO, A), nonzero(A)):
        judge.same_as(knows(), kept, Obligation((), (), kept), {})


def test_each_branch_owes_what_it_owes_under_its_condition() -> None:
    c = fn("lt", ZERO, C)
    t = fn("ite", c, fn("inv", A), fn("inv", B))
    owed = owes(knows(), t)
    assert Obligation((), (c,), nonzero(A)) in owed
    assert Obligation((), (fn("le", C, ZERO),), nonzero(B)) in owed
    inside = fn("ite", fn("lt", ZERO, fn("inv", A)), B, C)
    assert Obligation((), (), nonzero(A)) in owes(knows(), inside)
    # What a condition rules out is not owed.
    assert owes(knows(), fn("ite", fn("eq", A, ZERO), ZERO, fn("inv", A))) == []


def test_an_order_with_a_maximum_says_that_an_index_exists() -> None:
    ctx, top = knows(), big("max", N, read("X", HERE))

    def some(op: str) -> Term:
        return fn("lt", ZERO, big("max", N, fn("ite", fn(op, A, read("X", HERE)), ONE, ZERO)))

    assert rewrite_rules.apply(ctx, fn("lt", A, top), "order", []) == some("lt")
    assert rewrite_rules.apply(ctx, fn("le", A, top), "order", []) == some("le")
    assert rewrite_rules.apply(ctx, fn("le", top, A), "order", []) == fn("not", some("lt"))
    assert rewrite_rules.apply(ctx, fn("lt", top, A), "order", []) == fn("not", some("le"))
    # −∞ ≤ max over nothing, at no index.
    refused(fn("le", read("E"), top), "order", ctx=ctx)
    refused(fn("lt", top, read("E")), "order", ctx=ctx)
    assert rewrite_rules.apply(ctx, fn("lt", read("E"), top), "order", [])


def test_a_logarithm_of_an_even_power_of_a_negative_number() -> None:
    ctx = knows(fn("lt", ZERO, mul(MINUS, A)))
    opposite = fn("log", mul(MINUS, A))
    assert vanishes(to_poly(sub(fn("log", mul(A, A)), mul(num(2), opposite)), ctx), ctx)
    assert not vanishes(to_poly(sub(fn("log", mul(A, A, A)), mul(num(3), opposite)), ctx), ctx)


def term_of(made: Json) -> Term:
    (wire,) = evaluate(made, inputs_of(made, {}), {}, lambda *_: None)
    return wire.term


def test_a_number_is_a_truth_value_where_it_is_not_zero() -> None:
    made = program([array("A"), array("B"), array("C")], [apply("where", 0, 1, 2)], 3)
    assert term_of(made) == fn("ite", nonzero(A), B, C)


def test_truth_values_read_in_parts_are_those_of_the_parts() -> None:
    """Below 2 those of the first, from there on those of the second."""
    inputs = [array("P", "x", element="bool"), array("Q", "x", element="bool")]
    reads = [{"at": {}, "where": [["lt", ["i", "x"], 2]]}, {"at": {}, "where": []}]
    made = program(inputs, [{"op": "view", "args": [0, 1], "axes": [["x", "x"]], "reads": reads}], 2)
    found = term_of(made)
    parts = [term_of(program([given], [apply("not", 0)], 1)).args[0] for given in inputs]
    here = fn("lt", idx("x"), num(2))
    assert found == fn("or", fn("and", here, parts[0]), fn("and", fn("not", here), parts[1]))


def test_all_parts_of_a_condition_are_asked_for() -> None:
    parts = [fn("lt", ZERO, A), fn("lt", ZERO, B)]
    assert knows(*parts).entails(fn("and", *parts))
    for part in parts:
        assert not knows(part).entails(fn("and", *parts))
        assert knows(part).entails(fn("or", *parts))
    assert not knows().entails(fn("or", *parts))


def test_a_sum_has_the_sign_of_its_terms_in_its_range() -> None:
    ctx = Context(ask, {}, (Fact((("v", N),), (), fn("le", ZERO, read("X", idx("v")))),), ELEMENTS)
    assert ctx.nonnegative(big("sum", N, read("X", HERE)))
    assert not ctx.nonnegative(big("sum", add(N, ONE), read("X", HERE)))


def test_a_root_squared_is_its_argument_for_the_solver_too() -> None:
    root = fn("sqrt", A)
    assert knows(fn("le", ZERO, A), fn("le", A, num(4))).entails(fn("le", root, num(2)))
    assert not knows(fn("le", A, num(4))).entails(fn("lt", root, num(2)))


def test_a_product_with_an_inverse_is_divided_by_the_leading_coefficient() -> None:
    """A²/(A² + 2) is 1 − 2/(A² + 2): the inverse is kept as that of 1 + ½·A², whose leading coefficient is ½."""
    square = mul(A, A)
    inverse = fn("inv", add(square, num(2)))
    ctx = knows(fn("ne", add(square, num(2)), ZERO))
    assert normal(mul(square, inverse), ctx) == normal(sub(ONE, mul(num(2), inverse)), ctx)


def test_an_index_of_a_fact_is_no_index_of_a_sum_inside() -> None:
    """That Σ_j X[i] ≥ 0 for every i says nothing of Σ_j X[j]."""
    pattern = big("sum", N, read("X", idx("i")))
    assert match(pattern, big("sum", N, read("X", idx("k"))), {"i"}) == {"i": idx("k")}
    assert match(pattern, big("sum", N, read("X", HERE)), {"i"}) is None


def test_what_is_owed_is_shown_by_its_proof() -> None:
    judge = Judge(ask)
    owed = Obligation((), (), fn("lt", ZERO, A))
    with pytest.raises(KernelError, match="not proved"):
        judge.discharge(knows(), owed, {"steps": []})
    assert judge.discharge(knows(fn("lt", ZERO, A)), owed, {"steps": []})
    assert not judge.discharge(knows(), owed, {})


def test_the_root_of_a_square_is_its_size() -> None:
    for power, root in ((2, mul(MINUS, A)), (4, mul(A, A)), (6, mul(MINUS, A, A, A))):
        ctx = knows(fn("le", ZERO, mul(MINUS, A)), fn("real", A))
        assert normal(fn("sqrt", mul(*[A] * power)), ctx) == normal(root, ctx)
    assert normal(fn("sqrt", mul(A, A)), knows()) not in (A, mul(MINUS, A), ZERO)


def test_a_maximum_is_below_what_it_is_turned_round_for() -> None:
    """−max(a, b) ≤ −a; but 2·max(a, b) ≤ −a is false of ones."""
    assert below(knows(), mul(MINUS, fn("max", A, B)), mul(MINUS, A))
    assert not below(knows(), mul(num(2), fn("max", A, B)), mul(MINUS, A))
    assert not below(knows(), mul(C, fn("max", A, B)), mul(MINUS, A))


def test_the_sign_of_a_multiple() -> None:
    for factor in (-3, -1, 2):
        up, down = knows(fn("le", ZERO, A)), knows(fn("le", ZERO, mul(MINUS, A)))
        assert up.nonnegative(mul(num(factor), A)) is (factor > 0)
        assert down.nonnegative(mul(num(factor), A)) is (factor < 0)


def test_an_entry_is_below_a_sum_of_what_is_not_negative_only() -> None:
    entry, total = read("X", idx("i")), big("sum", N, read("X", HERE))
    squares = big("sum", N, mul(read("X", HERE), read("X", HERE)))
    ctx = knows(i=N)
    assert below(ctx, mul(entry, entry), squares)
    assert not below(ctx, entry, total)


def test_less_by_one_is_said_where_both_sides_are_integers() -> None:
    """½ < 1, and not ½ + 1 ≤ 1."""
    combined = [[term_data(fn("lt", A, idx("i"))), "1"]]
    refused(fn("le", add(A, ONE), idx("i")), "decide", combined, ctx=knows(fn("lt", A, idx("i")), i=N))


def test_sizes_that_a_program_speaks_of_are_not_new() -> None:
    assert symbols_of_node({"op": "size", "inputs": [], "size": ["*", "n", ["+", "m", 1]]}) == {"m", "n"}
    assert symbols_of_node({"op": "index", "inputs": [], "axis": ["x", ["+", "n", 1]]}) == {"n"}


def test_a_logarithm_is_taken_apart_into_positive_factors_only() -> None:
    ctx = knows(fn("lt", ZERO, A), fn("real", A))
    two = fn("log", num(2))
    assert normal(fn("log", mul(num(2), A)), ctx) == normal(add(two, fn("log", A)), ctx)
    turned = normal(fn("log", mul(num(-2), A)), ctx)
    assert fn("log", A) not in (turned, *turned.args) and two not in (turned, *turned.args)
