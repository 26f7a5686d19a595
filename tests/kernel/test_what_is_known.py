"""What contexts, judgements and loops know, and what only looks like it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from kernel_contexts import HERE, POSITIVE, TWO, A, B, C, E, M, N, V, alone, every, knows
from kernel_oracle import ask
from kernel_programs import GOOD_STEP, Json, apply, array, by, certificate, const, program, reduce, sum_fold, tiles

from catdiag.kernel import rewrite_rules, scalar_rules
from catdiag.kernel.checker import Checker
from catdiag.kernel.context import NONZERO, POS, REAL
from catdiag.kernel.definedness import Obligation, nonzero
from catdiag.kernel.judgments import Judge
from catdiag.kernel.loop_rules import _signs_of_input
from catdiag.kernel.polynomial import LIMIT, TooLarge, normal, times
from catdiag.kernel.reduction_rules import support
from catdiag.kernel.scalar_rules import below
from catdiag.kernel.semantics import Wire, evaluate, inputs_of
from catdiag.kernel.size_scope import symbols_of_node
from catdiag.kernel.terms import (
    BOT,
    FALSE,
    MINUS,
    ONE,
    ZERO,
    KernelError,
    Term,
    add,
    big,
    bound,
    close_body,
    fn,
    idx,
    mul,
    num,
    open_body,
    read,
    size,
    sub,
    term_data,
)
from catdiag.prover.proof_search import find
from catdiag.solvers.z3 import Z3

# -- contexts ------------------------------------------------------------------------------------------


def test_signs_without_a_solver() -> None:
    assert alone().entails(fn("le", ZERO, mul(A, A)))
    assert not alone().entails(fn("lt", ZERO, mul(A, A)))
    for sides in ((ZERO, fn("exp", A)), (fn("exp", A), ZERO)):
        assert alone().entails(fn("not", fn("eq", *sides)))
        assert not alone().entails(fn("not", fn("eq", *(mul(A, s) for s in sides))))
    assert alone().with_condition(fn("le", B, A)).nonnegative(add(A, mul(MINUS, B)))
    assert alone().with_condition(fn("lt", B, A)).positive(add(A, mul(MINUS, B)))
    assert not alone().with_condition(fn("le", B, A)).positive(add(A, mul(MINUS, B)))
    denied = alone().with_condition(fn("not", fn("or", fn("lt", A, ZERO), fn("lt", B, ZERO))))
    assert denied.nonnegative(A) and denied.nonnegative(B) and not denied.nonnegative(C)


def test_that_something_is_not_less_is_not_that_it_is_not_equal() -> None:
    for t in (A, mul(MINUS, A)):
        assert knows(POSITIVE).entails(fn("not", fn("eq", ZERO, t)))
    assert not knows(POSITIVE).entails(fn("not", fn("lt", ZERO, A)))
    assert not knows(nonzero(A)).entails(fn("not", fn("lt", ZERO, A)))
    assert not knows(nonzero(A)).entails(fn("not", fn("le", ZERO, A)))


def test_a_product_of_what_is_not_zero_may_be_zero() -> None:
    """−∞ is not 0, and a product with it is."""
    ctx = knows(every(N, nonzero(read("EX", V))))
    product = big("prod", N, read("EX", HERE))
    assert not ctx.nonzero(product)
    assert ctx.signs(product) == REAL
    assert knows(every(N, nonzero(read("X", V)))).nonzero(big("prod", N, read("X", HERE)))
    assert not ctx.nonzero(mul(read("EX", ZERO), TWO))


@pytest.mark.parametrize(
    ("number", "signs"), [(2, POS), (1, REAL), (0, REAL), (-2, REAL), (Fraction(1, 2), REAL | NONZERO)]
)
def test_the_sign_of_the_logarithm_of_a_number(number: int | Fraction, signs: int) -> None:
    """That of 0 or less is 0."""
    assert knows().signs(fn("log", num(number))) == signs


@pytest.mark.parametrize(("monoid", "some", "none"), [("sum", POS, 3), ("prod", POS, POS), ("max", POS, 0)])
def test_signs_of_reductions_of_what_is_positive(monoid: str, some: int, none: int) -> None:
    """Over what may be nothing a sum may be 0, and a maximum −∞."""
    t = big(monoid, N, fn("exp", read("X", HERE)))
    assert knows(fn("le", ONE, N)).signs(t) == some
    assert knows().signs(t) == none


def test_a_size_of_the_name_of_an_index_is_not_in_its_range() -> None:
    ctx = knows(every(N, fn("le", ZERO, read("X", V))), i=N)
    assert ctx.nonnegative(read("X", idx("i")))
    for other in (size("i"), N, add(idx("i"), ONE), read("i")):
        assert not ctx.nonnegative(read("X", other))


def test_what_indices_and_sizes_are_told_the_solver() -> None:
    ctx = knows(i=N)
    assert ctx.entails(fn("or", fn("lt", idx("i"), M), fn("lt", M, N)))
    assert not ctx.entails(fn("or", fn("lt", idx("i"), M), fn("lt", N, M)))
    assert knows(fn("le", TWO, N)).positive_size(N) and not knows(fn("le", TWO, N)).positive_size(M)
    assert knows().positive_size(TWO) and not knows().positive_size(ZERO) and not knows().positive_size(MINUS)


@pytest.mark.parametrize(("t", "found"), [
    (fn("eq", idx("i"), N), fn("eq", idx("i"), N)),
    (fn("eq", mul(TWO, idx("i")), add(N, N, TWO)), fn("eq", idx("i"), add(N, ONE))),
    (fn("eq", mul(TWO, idx("i")), add(N, N, ONE)), FALSE),
    (fn("lt", add(idx("i"), num(3)), N), fn("le", add(idx("i"), num(4)), N)),
    (fn("le", idx("i"), add(N, num(3))), fn("le", idx("i"), add(N, num(3)))),
    (fn("le", mul(TWO, idx("i")), add(N, N, num(3))), fn("le", idx("i"), add(N, ONE))),
    (fn("lt", idx("i"), N), fn("lt", idx("i"), N)),
])  # fmt: skip
def test_a_difference_of_integers_is_on_the_side_it_adds_to(t: Term, found: Term) -> None:
    def ordered(c: Term) -> tuple[Any, ...]:
        return (c.op, *(sorted(a.key for a in (side.args if side.op == "add" else (side,))) for side in c.args))

    result = rewrite_rules.apply(knows(i=N), t, "difference", [])
    mirrored = fn(result.op, *reversed(result.args)) if result.op == "eq" else result
    assert ordered(found) in (ordered(result), ordered(mirrored))


@pytest.mark.parametrize("op", ["lt", "le", "eq"])
def test_multiples_of_a_difference_are_known_without_a_solver(op: str) -> None:
    t, double = fn(op, A, B), fn(op, mul(TWO, A), mul(TWO, B))
    assert rewrite_rules.apply(alone(), t, "same", [], [term_data(double)]) == double
    for other in (fn(op, A, add(B, ONE)), fn({"lt": "le", "le": "lt", "eq": "le"}[op], A, B), fn(op, ZERO, ZERO)):
        with pytest.raises((KernelError, ValueError)):
            rewrite_rules.apply(alone(), t, "same", [], [term_data(other)])


def test_what_is_below_what_without_a_solver() -> None:
    entry, top = read("X", idx("i")), big("max", N, read("X", HERE))
    assert below(alone(), A, add(A, fn("exp", B))) and not below(alone(), add(A, fn("exp", B)), A)
    assert below(alone(), mul(MINUS, fn("max", A, B)), mul(MINUS, A))
    assert not below(alone(), mul(MINUS, A), mul(MINUS, fn("max", A, B)))
    assert below(alone(i=N), mul(MINUS, top), mul(MINUS, entry))
    assert not below(alone(i=N), mul(MINUS, entry), mul(MINUS, top))
    assert scalar_rules.holds(alone(), fn("eq", add(A, B), add(B, A)))
    assert not scalar_rules.holds(alone(), fn("eq", add(A, B), add(B, C)))


def test_an_index_that_no_place_has_is_given_to_no_rule() -> None:
    """Else Σ_{i<n} i = n·j for any j, shown of the i that the step opens."""
    for closed in (mul(HERE, idx("%0")), mul(HERE, bound(1)), mul(HERE, idx("j")), fn("lt", HERE, ONE)):
        with pytest.raises(KernelError):
            rewrite_rules.apply(knows(), big("sum", N, HERE), "telescope", [], [term_data(closed)])


def test_without_which_conditions_a_term_is_the_unit() -> None:
    c, d = fn("lt", ZERO, C), fn("lt", ZERO, B)
    here, there = fn("ite", c, A, ZERO), fn("ite", d, ZERO, B)
    assert support("sum", here) == [c] and support("sum", there) == [fn("le", B, ZERO)]
    assert support("sum", mul(here, there)) == [c, fn("le", B, ZERO)]
    assert support("sum", fn("ite", c, there, ZERO)) == [c, fn("le", B, ZERO)]
    assert support("max", add(fn("ite", c, A, BOT), B)) == [c]
    assert support("prod", fn("ite", c, A, ONE)) == [c]
    others = [("sum", fn("ite", c, A, B)), ("sum", add(here, here)), ("max", mul(here, A)), ("max", here),
              ("prod", mul(fn("ite", c, A, ONE), B)), ("sum", fn("ite", c, A, BOT)), ("max", fn("max", here, A)),
              ("sum", fn("exp", here)), ("prod", here)]  # fmt: skip
    for monoid, t in others:
        assert support(monoid, t) == [], t


# -- normal forms ----------------------------------------------------------------------------------------


def test_normal_forms_of_indicators_and_roots() -> None:
    c = fn("ite", POSITIVE, ONE, ZERO)
    assert normal(mul(c, c), alone()) == normal(mul(c, c, c), alone()) == c
    assert normal(mul(C, C), alone()) != C
    assert normal(fn("sqrt", fn("inv", A)), alone()) == normal(fn("inv", fn("sqrt", A)), alone())
    square = ((A, Fraction(LIMIT)),)
    with pytest.raises(TooLarge):
        times({square: Fraction(1)}, {((A, Fraction(1)),): Fraction(1)}, alone())


def test_opening_a_body_lowers_the_variables_of_binders_further_out() -> None:
    assert open_body(add(HERE, bound(1)), A) == add(A, HERE)
    assert open_body(add(HERE, bound(1), bound(2)), A, 1) == add(HERE, A, bound(1))
    assert close_body(add(HERE, idx("i"), big("sum", N, add(HERE, bound(1), idx("i")))), "i") == add(
        bound(1), HERE, big("sum", N, add(HERE, bound(2), bound(1)))
    )
    with pytest.raises(KernelError):
        open_body(HERE, HERE)


# -- judgements ------------------------------------------------------------------------------------------


def test_a_demand_is_met_where_it_is_made() -> None:
    judge, here = Judge(ask), nonzero(read("X", idx("i")))
    judge.same_as(knows(i=N), here, Obligation((("i", N),), (), here), {})
    judge.same_as(knows(POSITIVE), nonzero(B), Obligation((), (POSITIVE,), nonzero(B)), {})
    judge.same_as(knows(fn("le", ONE, N)), nonzero(B), Obligation((("i", N),), (), nonzero(B)), {})
    elsewhere = [
        (knows(), nonzero(B), Obligation((), (POSITIVE,), nonzero(B))),
        (knows(), nonzero(B), Obligation((("i", N),), (), nonzero(B))),
        (knows(i=M), here, Obligation((("i", N),), (), here)),
        (knows(fn("le", ONE, N)), here, Obligation((("i", N),), (), here)),
        (knows(POSITIVE, fn("le", ONE, N)), nonzero(B),
         Obligation((("i", N),), (fn("lt", ZERO, read("X", idx("i"))),), nonzero(B))),
        (knows(), nonzero(B), Obligation((), (), nonzero(A))),
        (knows(POSITIVE, fn("le", ONE, N)), here, Obligation((("i", N),), (POSITIVE,), here)),
    ]  # fmt: skip
    for ctx, condition, demand in elsewhere:
        with pytest.raises(KernelError):
            judge.same_as(ctx, condition, demand, {})


def test_a_proof_has_no_more_than_was_to_be_proved() -> None:
    owed, demands = Obligation((), (), nonzero(B)), [Obligation((), (), nonzero(A))]
    known = knows(fn("eq", B, A))
    assert Judge(ask).discharge(known, owed, {"as": "0", "equal": {}}, demands)
    with pytest.raises(KernelError, match="more than was to be proved"):
        Judge(ask).discharge(known, owed, {"as": "0", "equal": {"7": {"steps": [["ring", []]]}}}, demands)
    with pytest.raises(KernelError):
        Judge(ask).discharge(knows(), owed, {"as": "0", "equal": {}}, demands)
    for close in ("ring", "", "fields", 0):
        with pytest.raises(KernelError, match="not proved"):
            Judge(ask).holds(knows(), fn("eq", mul(A, B), mul(B, A)), {"close": close})


def test_what_is_counted_of_a_proof() -> None:
    one = [array("A")]
    left = program(one, [apply("add", 0, 0)], 1)
    right = program(one, [const("2"), apply("mul", 0, 1)], 2)
    theorem = Checker(ask).check(certificate(left, right, by([["ring", []]], [["ring", []]], close="field")))
    assert (theorem.steps, theorem.axioms, theorem.trivial, theorem.conditional) == (3, ("A7",), False, False)
    theorem = Checker(ask).check(certificate(left, left))
    assert (theorem.steps, theorem.goals, theorem.trivial) == (0, 0, True)


# -- programs and loops ------------------------------------------------------------------------------------


def test_other_results_of_the_same_boxes_are_not_trivially_one(z3: Z3) -> None:
    """−(−a) = a, of which one side gives what is on the way of the other."""
    twice = [apply("neg", 0), apply("neg", 1)]
    left, right = program([array("A")], twice, 0), program([array("A")], twice, 2)
    theorem = Checker(z3).check(certificate(left, right, by([["ring", []]], [["ring", []]])))
    assert not theorem.trivial


def test_a_loop_is_not_trivially_what_it_means(z3: Z3) -> None:
    inputs = [array("A", "x")]
    left = program(inputs, [reduce("sum", "x", 0)], 1)
    theorem = Checker(z3).check(find(z3, certificate(left, program(inputs, [sum_fold(GOOD_STEP, 3)], 1))["statement"]))
    assert not theorem.trivial and "A10" in theorem.axioms
    body = [array("A", "x", x="g_x")]
    grouped = program(inputs, [tiles(body, [apply("exp", 0)], 1, [0], "x")], 1)
    theorem = Checker(z3).check(certificate(program(inputs, [apply("exp", 0)], 1), grouped))
    assert not theorem.trivial and theorem.axioms == ("A1",)


def test_an_input_of_a_loop_has_the_sign_that_is_known_of_it() -> None:
    def signs(t: Term, *facts: Term) -> list[Term]:
        found = _signs_of_input("$0", Wire(t, (("x", N),)), knows(*facts, x=N))
        assert all(f.variables == (("x", None),) and not f.guards for f in found)
        return [f.condition for f in found]

    t, value = read("X", idx("x")), read("$0", idx("x"))
    assert signs(t) == []
    assert signs(mul(t, t)) == [fn("le", ZERO, value)]
    assert signs(fn("exp", t)) == [fn("lt", ZERO, value)]
    assert signs(A, nonzero(A)) == [nonzero(value)]
    assert signs(read("E")) == signs(fn("lt", ZERO, t)) == []


@pytest.mark.parametrize(("live", "accepted"), [
    (([const("0"), const("1"), apply("lt", 1, 2)], (3, "bool")), True),
    (([const("1")], (1, "bool")), False),
    (([const("1")], 1), False),
])  # fmt: skip
def test_what_is_live_is_a_truth_value(z3: Z3, live: tuple[list[Json], Any], accepted: bool) -> None:
    """Of a loop that adds nothing, so that any block may be left out."""
    block = array("A", "x", x="s_x")
    fold = sum_fold([], 0, state=[const("0")]) | {"live": program([block], live[0], live[1])}
    inputs = [array("A", "x")]
    proof = {"folds": [{"idle": {}}]}
    made = certificate(program(inputs, [const("0")], 1), program(inputs, [fold], 1), proof)
    if accepted:
        Checker(z3).check(made)
    else:
        with pytest.raises(KernelError, match="array of truth values"):
            Checker(z3).check(made)
    more = {"folds": [{"idle": {"live": {"facts": {}, "words": "more"}}}]}
    with pytest.raises(KernelError):
        Checker(z3).check(made | {"proof": more})


def test_what_is_read_in_parts_is_a_number_if_one_of_them_is() -> None:
    inputs = [array("X", "x"), array("P", "x", element="bool")]
    reads = [{"at": {}, "where": [["lt", ["i", "x"], 2]]}, {"at": {}, "where": []}]
    made = program(inputs, [{"op": "view", "args": [0, 1], "axes": [["x", "x"]], "reads": reads}], 2)
    (wire,) = evaluate(made, inputs_of(made, {}), {}, lambda *_: None)
    truth = Term("holds", "P", (idx("x"),))
    assert wire.term == fn("ite", fn("lt", idx("x"), TWO), read("X", idx("x")), fn("ite", truth, ONE, ZERO))


def test_sizes_that_a_group_speaks_of_are_those_of_its_body_but_its_own() -> None:
    body = program([array("A", "x", x="g_x")], [{"op": "size", "size": ["+", "m", "g_x"]}], 1)
    assert symbols_of_node({"op": "group", "tiles": [["x", "g_x"]], "args": [0], "body": body}) == {"m"}


def test_no_difference_is_taken_of_what_may_be_minus_infinity() -> None:
    for t in (fn("lt", E, A), fn("le", A, E), fn("eq", E, E)):
        with pytest.raises(KernelError):
            rewrite_rules.apply(alone(), t, "difference", [])
    assert rewrite_rules.apply(alone(), fn("lt", A, B), "difference", []).op == "lt"
    assert sub(A, B) != sub(B, A)
