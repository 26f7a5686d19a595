"""What looks alike to the kernel and is not: signs, normal forms, readings of terms and premises of loops."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from kernel_contexts import HERE, POSITIVE, TWO, A, B, C, E, M, N, V, alone, every, knows, no_solver
from kernel_oracle import ask
from kernel_programs import Json, apply, array, certificate, const, program, reduce, sum_fold

from catdiag.kernel import context
from catdiag.kernel.checker import Checker
from catdiag.kernel.context import NONNEG, NONZERO, POS, REAL, integer
from catdiag.kernel.definedness import Obligation, nonzero, owes
from catdiag.kernel.facts import Fact
from catdiag.kernel.loop_rules import Loops, Meaning
from catdiag.kernel.polynomial import NotReal, normal, to_poly, vanishes
from catdiag.kernel.semantics import Wire, evaluate, inputs_of, view
from catdiag.kernel.size_scope import symbols_of_node
from catdiag.kernel.terms import (
    BOT,
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
    parse_term,
    read,
    size,
    size_term,
    sub,
    term_data,
)
from catdiag.solvers.z3 import Z3


def test_signs_that_look_alike() -> None:
    ctx, square = knows(fn("le", ONE, N)), mul(read("X", HERE), read("X", HERE))
    assert ctx.signs(ZERO) == REAL | NONNEG and ctx.signs(ONE) == POS and ctx.signs(MINUS) == REAL | NONZERO
    for monoid in ("sum", "prod", "max"):
        assert ctx.signs(big(monoid, N, square)) == REAL | NONNEG
    assert ctx.signs(fn("div", N, M)) == REAL | NONNEG and ctx.signs(fn("div", sub(idx("i"), N), M)) == REAL
    assert ctx.signs(fn("max", mul(A, A), B)) == REAL | NONNEG and ctx.signs(fn("max", A, B)) == REAL
    assert ctx.signs(fn("max", fn("exp", A), E)) == POS and not ctx.real(fn("max", E, BOT))
    down = alone(fn("le", ZERO, mul(MINUS, A)), fn("le", ZERO, mul(MINUS, B)))
    assert down.nonnegative(mul(A, B)) and not down.nonnegative(mul(A, B, A)) and not down.nonnegative(mul(A, C))
    for t, found in ((E, REAL | NONNEG), (A, POS)):
        assert ctx.signs(fn("exp", t)) == found
        for sides in ((t, BOT), (BOT, t)):
            assert ctx.entails(fn("not", fn("eq", *sides))) is (t == A)
    assert knows(nonzero(E)).signs(fn("inv", E)) == REAL and knows(nonzero(A)).nonzero(fn("inv", A))
    assert ctx.signs(fn("sqrt", A)) == REAL | NONNEG and knows(POSITIVE).signs(fn("sqrt", A)) == POS
    assert not knows().entails(fn("le", fn("max", A, E), A)) and knows().entails(fn("le", A, fn("max", A, B)))
    for sides in ((E, BOT), (BOT, E)):
        assert knows(fn("not", fn("eq", *sides))).real(E)
    assert not knows(nonzero(E)).real(E)


def test_a_fact_about_no_index_holds_where_there_is_one() -> None:
    """For all v < n, A > 0: nothing is said of A where n = 0."""
    assert knows(every(N, POSITIVE), fn("le", ONE, N)).positive(A)
    assert not knows(every(N, POSITIVE)).positive(A)
    assert not knows(every(N, POSITIVE), fn("le", ONE, M)).positive(A)


def test_a_comparison_says_nothing_else_of_the_same_two() -> None:
    for a, b in ((A, B), (E, A)):
        ctx = knows(fn("lt", a, b))
        assert ctx.entails(fn("le", a, b))
        for other in (fn("eq", a, b), fn("lt", b, a), fn("le", b, a), fn("not", fn("lt", a, b))):
            assert not ctx.entails(other), other


def test_what_is_said_of_one_term_is_not_said_of_another() -> None:
    assert not knows(nonzero(A)).entails(fn("not", fn("eq", A, B)))
    for denied in (fn("lt", ZERO, A), fn("le", ZERO, A), fn("lt", A, ZERO)):
        assert not knows(fn("not", denied)).nonzero(A)
    assert knows(fn("not", fn("eq", ZERO, A))).nonzero(A)
    # Python hashes −1 and −2 alike.
    assert num(-1) != num(-2) and add(A, num(-1)) != add(A, num(-2)) and num(-1) == MINUS
    assert not alone(fn("lt", ZERO, add(A, fn("exp", B)))).positive(add(A, fn("log", B)))
    assert not alone(fn("lt", ZERO, add(A, size("i")))).positive(add(A, idx("i")))
    assert integer(knows(), fn("max", N, M)) and not integer(knows(), fn("max", N, A))
    assert integer(knows(), fn("ite", POSITIVE, N, M)) and not integer(knows(), fn("ite", POSITIVE, N, A))
    assert integer(knows(), fn("div", A, B)) and not integer(knows(), fn("inv", N))
    for kind, some, others in (("sum", True, True), ("max", True, False), ("prod", False, False)):
        assert integer(knows(fn("le", ONE, N)), big(kind, N, add(bound(0), M))) == some, kind
        assert integer(knows(), big(kind, N, add(bound(0), M))) == others, "a maximum over nothing is −∞"
        assert not integer(knows(fn("le", ONE, N)), big(kind, N, A))
    fact = every(N, fn("le", ZERO, read("X", V)))
    assert fact.at({("size", "n"): ZERO}).variables == (("v", ZERO),)
    with pytest.raises(KernelError, match="two ranges"):
        Obligation((("i", N),), (), POSITIVE).context(knows(i=M))
    with pytest.raises(KernelError, match="in use"):
        knows(i=N).with_index("i", M)
    # m·⌊a/m⌋ ≤ a for m ≥ 1; with m = 0 that is 0 ≤ a.
    below, floor = sub(idx("i"), N), fn("div", sub(idx("i"), N), M)
    for solver in (ask, no_solver):
        assert knows(fn("le", ONE, M), solver=solver, i=N).entails(fn("le", mul(M, floor), below))
        assert not knows(solver=solver, i=N).entails(fn("le", mul(M, floor), below))


def test_a_size_may_be_nothing_where_nobody_says_otherwise() -> None:
    """n + 1 ≤ 2·n² for n ≥ 1, and not for 0."""
    claim = fn("le", add(N, ONE), mul(TWO, N, N))
    for solver in (ask, no_solver):
        assert knows(fn("le", ONE, N), solver=solver).entails(claim)
        assert not knows(solver=solver).entails(claim)
        assert not knows(fn("le", ONE, M), solver=solver).entails(claim)


def test_what_is_asked_too_deep_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fn("le", A, add(B, ONE))
    assert knows(fn("le", A, B)).entails(asked) and not knows(fn("le", B, A)).entails(asked)
    monkeypatch.setattr(context, "_NESTED", 0)
    assert not knows(fn("le", A, B)).entails(asked)
    assert not knows().entails(asked)


def test_an_integer_is_not_natural_for_being_one() -> None:
    """⌊(i − n)/m⌋ is below 0."""
    floor = fn("div", sub(idx("i"), N), M)
    for solver in (ask, no_solver):
        assert not knows(solver=solver, i=N).entails(fn("le", ZERO, floor))
        assert knows(solver=solver, i=N).entails(fn("le", ZERO, fn("div", idx("i"), M)))


def test_what_an_obligation_says_is_what_it_is() -> None:
    def said(c: Term) -> list[Term]:
        return [f.condition for f in Obligation((), (), c).saying(c)]

    both, either = (fn(op, POSITIVE, fn("lt", B, C)) for op in ("and", "or"))
    for c in (fn("eq", A, B), either, POSITIVE):
        assert said(c) == [c]
    assert said(both) == list(both.args)
    assert said(fn("not", fn("eq", A, B))) == [fn("not", fn("eq", A, B)), fn("not", fn("eq", B, A))]
    assert said(fn("not", POSITIVE)) == [fn("le", A, ZERO)]
    assert len(said(fn("not", both))) == len(said(fn("not", either))) == 2


def test_normal_forms_that_look_alike() -> None:
    ctx, plus = knows(), knows(POSITIVE)
    three = fn("max", A, ONE, ZERO)
    applied = Term("apply", "f", (A, ONE, ZERO))
    cases = [fn("ite", POSITIVE, *branches) for branches in ((TWO, ZERO), (A, ZERO), (ONE, B))]
    for t in (three, applied, *cases):
        assert normal(mul(t, t), ctx) != t
    assert normal(fn("exp", TWO), ctx) == fn("exp", TWO)
    assert normal(fn("exp", mul(TWO, A)), ctx) == fn("exp", mul(TWO, A))
    log = fn("log", A)
    assert normal(fn("exp", log), plus) == A and normal(fn("exp", log), ctx) == fn("exp", log)
    assert normal(fn("exp", mul(MINUS, log)), plus) == fn("inv", A)
    assert normal(fn("log", fn("inv", A)), ctx) == normal(mul(MINUS, log), ctx)
    assert normal(fn("log", fn("sqrt", A)), ctx) == normal(mul(num(Fraction(1, 2)), log), ctx)
    over = normal(fn("log", mul(TWO, fn("inv", A))), plus)
    assert over == normal(sub(fn("log", TWO), log), plus) != normal(mul(MINUS, log), plus)
    assert normal(fn("log", mul(TWO, fn("inv", A))), ctx) != normal(mul(MINUS, log), ctx)
    assert normal(fn("exp", add(A, E)), ctx) == mul(fn("exp", E), fn("exp", A))
    for known in (ctx, plus):
        assert normal(fn("sqrt", mul(MINUS, A)), known) not in (normal(fn("sqrt", A), known), ZERO)
    over = fn("inv", add(mul(A, A, B, B), ONE))
    assert fn("inv", B).key not in normal(mul(A, A, B, over), ctx).key
    assert normal(mul(A, A, B, B, over), ctx) == normal(sub(ONE, over), ctx)
    for t in (mul(A, A, B, B, over, over), mul(A, A, B, B, B, over), mul(over, over)):
        assert vanishes(to_poly(sub(normal(t, ctx), t), ctx), ctx)
    either = fn("exp", fn("ite", POSITIVE, A, E))
    assert normal(either, ctx) == either
    twice = fn("log", mul(TWO, A))
    assert normal(twice, ctx) == twice and normal(twice, plus) == normal(add(fn("log", TWO), log), plus) != twice
    root = fn("sqrt", A)
    assert vanishes(to_poly(sub(mul(A, fn("inv", root)), root), plus), plus)
    assert not vanishes(to_poly(sub(mul(B, fn("inv", root)), root), plus), plus)
    for power in (2, 3, 4, 5):
        over, under = mul(*[fn("inv", root)] * power), mul(*[root] * power)
        assert normal(mul(over, under), plus) == ONE and normal(over, plus) != normal(under, plus)
    assert not vanishes(to_poly(sub(mul(A, fn("inv", root)), mul(root, A)), plus), plus)


def test_what_is_read_along_an_axis_of_another_size_is_owed() -> None:
    (wire,) = inputs_of(program([array("A", "x", x="n")], [], 0), {})

    def owed(at: Json, size_: str) -> int:
        node = {"op": "view", "axes": [["x", size_]], "reads": [{"at": at, "where": []}]}
        return len(view(node, [wire], {})[1])

    assert owed({"x": ["i", "x"]}, "n") == 0 and owed({"x": ["i", "x"]}, "m") == 1
    assert owed({"x": ["+", ["i", "x"], 1]}, "n") == 1
    with pytest.raises(KernelError):
        owed({}, "m")


def test_factors_are_owed_to_be_real() -> None:
    product = big("prod", N, read("EX", HERE))
    (owed,) = owes(knows(), product)
    assert owed == Obligation((("%0", N),), (), fn("real", read("EX", idx("%0"))))
    assert owes(knows(), big("max", N, read("EX", HERE)), "extended") == []
    assert [o.condition for o in owes(knows(), mul(A, E))] == [fn("real", E)]


def test_all_conditions_of_a_read_are_asked_for() -> None:
    (wire,) = inputs_of(program([array("A", "x", x="n")], [], 0), {})
    conditions = [["lt", ["i", "x"], k] for k in ("k", "m", "n")]
    for where in (conditions[:1], conditions[:2], conditions):
        reads = [{"at": {}, "where": where}, {"at": {"x": 0}, "where": []}]
        made, duties = view({"op": "view", "axes": [["x", "n"]], "reads": reads}, [wire, wire], {})
        parts = [fn("lt", idx("x"), size(str(c[2]))) for c in where]
        whole = fn("and", *parts) if len(parts) > 1 else parts[0]
        assert made.term == fn("ite", whole, read("A", idx("x")), read("A", ZERO))
        assert duties == [((fn("not", whole),), ZERO, N)]


def test_terms_of_numbers_and_truth_values_mixed_up_are_none() -> None:
    ite = fn("ite", POSITIVE, A, B)
    assert parse_term(term_data(ite)) == ite
    for wrong in (fn("ite", A, A, B), fn("ite", POSITIVE, POSITIVE, B), fn("ite", POSITIVE, A, POSITIVE),
                  fn("ite", A, POSITIVE, POSITIVE), fn("not", A), fn("and", POSITIVE, A), fn("lt", POSITIVE, A),
                  big("sum", N, POSITIVE), big("sum", POSITIVE, A), fn("exp", POSITIVE)):  # fmt: skip
        with pytest.raises(KernelError, match="mixed up"):
            parse_term(term_data(wrong))


def test_smallest_and_all_are_read_as_largest_and_none() -> None:
    inputs, truth = [array("X", "x"), array("P", "x", element="bool")], Term("holds", "P", (HERE,))
    there = [read("X", HERE), fn("ite", truth, ONE, ZERO), fn("ite", fn("not", truth), ONE, ZERO)]
    wanted = {
        ("min", 0): mul(MINUS, big("max", size("x"), mul(MINUS, there[0]))),
        ("any", 1): fn("lt", ZERO, big("max", size("x"), there[1])),
        ("all", 1): fn("not", fn("lt", ZERO, big("max", size("x"), there[2]))),
    }
    for (monoid, wire), found in wanted.items():
        made = program(inputs, [reduce(monoid, "x", wire)], (2, "bool"))
        assert evaluate(made, inputs_of(made, {}), {}, lambda *_: None)[0].term == found
    for name in ("least", "", "apply"):
        made = program(inputs, [reduce(name, "x", 0)], 2)
        with pytest.raises(KernelError, match="no monoid"):
            evaluate(made, inputs_of(made, {}), {}, lambda *_: None)
    for name in ("apply:", "sigmoids", "applied", "apply"):
        made = program(inputs, [apply(name, 0)], 2)
        with pytest.raises(KernelError, match="no scalar function"):
            evaluate(made, inputs_of(made, {}), {}, lambda *_: None)


def test_sizes_that_a_view_speaks_of() -> None:
    reads = [{"at": {"x": ["+", ["i", "x"], "m"]}, "where": [["lt", ["i", "x"], ["*", 2, "k"]]]}]
    node = {"op": "view", "args": [0], "axes": [["x", "n"]], "reads": reads}
    assert symbols_of_node(node) == {"k", "m", "n"}
    fold = sum_fold(
        [{"op": "size", "size": "k"}, {"op": "size", "size": "s_x"}], 0, state=[{"op": "size", "size": "m"}]
    )
    assert symbols_of_node(fold) == {"k", "m"}


def test_sizes_are_sums_and_products() -> None:
    assert size_term(["*", 2, "n"]) == mul(TWO, N) and size_term(["+", 2, "n"]) == add(TWO, N)
    for wrong in (["-", 2, "n"], ["*", 2], -1, True, "", "%a", ["*", 2, -1], None, 1.5):
        with pytest.raises(KernelError):
            size_term(wrong)


def test_a_bound_of_a_loop_does_not_change_along_it(z3: Z3) -> None:
    """x < max(1, x) for all x is false, and from that all follows; x < max(1, y) for all y is true of x = 0."""
    block = array("A", "x", x="s_x")
    index = {"op": "index", "axis": ["x", "s_x"]}
    live = program([block], [const("0"), apply("eq", 0, 1)], (2, "bool"))
    lo = [index, const("1"), apply("max", 1, 2), {"op": "size", "size": "s_x"}]
    fold = sum_fold([], 0, state=[const("0")])
    fold |= {"live": live, "extent": program([block], lo, (3, "int"), (4, "int"))}
    inputs = [array("A", "x")]
    made = certificate(program(inputs, [const("0")], 1), program(inputs, [fold], 1), {"folds": [{}]})
    with pytest.raises(KernelError, match="has its axis"):
        Checker(z3).check(made)


def test_what_a_list_owes_of_an_element_is_owed_in_every_part_that_has_it() -> None:
    """In the same words: not what it owes of its first, or in words or ranges that mention its length."""
    both = add(size("%a"), size("%b"))

    def facts(owing: Any, length: Any = lambda n: n) -> list[Fact]:
        def state(n: Term, start: Term | None = None) -> Meaning:
            i = idx("j")
            body = owing(i, i if start is None else add(start, i), n)
            return Meaning([Wire(big("sum", length(n), close_body(body, "j")), ())])

        return Loops(ask)._of_elements(state, both, (), {"$0": "real"})

    def inverse(at: Term) -> Term:
        return fn("inv", read("$0", at))

    (fact,) = facts(lambda i, at, n: inverse(at))
    assert fact == Fact((("%0", both),), (), nonzero(read("$0", idx("%0"))))
    (fact,) = facts(lambda i, at, n: inverse(i), lambda n: M)
    assert fact.variables == (("%0", M),)
    (fact,) = facts(lambda i, at, n: fn("ite", fn("lt", A, read("$0", at)), inverse(at), ZERO))
    assert fact.guards == (fn("lt", A, read("$0", idx("%0"))),)
    assert facts(lambda i, at, n: fn("ite", fn("lt", i, ONE), inverse(at), ZERO)) == []
    assert facts(lambda i, at, n: inverse(add(n, MINUS, mul(MINUS, i)))) == []
    assert facts(lambda i, at, n: fn("inv", add(read("$0", at), n))) == []
    assert facts(lambda i, at, n: fn("ite", fn("lt", read("$0", at), n), inverse(at), ZERO)) == []
    assert facts(lambda i, at, n: inverse(i), lambda n: mul(TWO, n)) == []
    assert facts(lambda i, at, n: big("sum", mul(TWO, n), inverse(HERE))) == []


def test_what_may_be_minus_infinity_has_no_polynomial() -> None:
    for t in (E, add(A, E), fn("max", E, BOT), fn("ite", POSITIVE, A, E), mul(A, E)):
        with pytest.raises(NotReal):
            to_poly(t, knows())
    assert to_poly(fn("max", A, E), knows()) and not to_poly(sub(A, A), knows())


@pytest.mark.parametrize(("given", "taken"), [("extended", "real"), ("real", "int"), ("extended", "int")])
def test_an_input_of_a_loop_is_what_it_is_taken_for(given: str, taken: str) -> None:
    fold = sum_fold([], 0, state=[const("0")])
    for body in ("step", "state"):
        for declared in fold[body]["inputs"]:
            declared["element"] = taken if declared["name"] == "A" else "real"

    def made(element: str) -> Json:
        inputs = [array("A", "x", element=element)]
        return certificate(program(inputs, [const("0")], 1), program(inputs, [fold], 1), {"folds": [{}]})

    assert not Checker(ask).check(made(taken)).conditional
    with pytest.raises(KernelError, match=f"not known to be {taken}"):
        Checker(ask).check(made(given))


def test_what_a_state_reads_is_in_range_of_every_list() -> None:
    def made(shift: int) -> Json:
        view_ = {"op": "view", "args": [0], "axes": [["x", "s_x"]],
                 "reads": [{"at": {"x": ["+", ["i", "x"], shift]}, "where": []}]}  # fmt: skip
        fold = sum_fold([], 0, state=[view_, const("0")], at=2)
        inputs = [array("A", "x")]
        return certificate(program(inputs, [const("0")], 1), program(inputs, [fold], 1), {"folds": [{}]})

    assert not Checker(ask).check(made(0)).conditional
    with pytest.raises(KernelError, match="not defined on every block"):
        Checker(ask).check(made(1))


def test_inputs_have_names_of_their_own() -> None:
    for names in (["$0", "A"], ["A", "$0"], ["A", "A"]):
        made = program([array(name) for name in names], [const("0")], 2)
        with pytest.raises(KernelError, match=r"an identifier|different names"):
            Checker(ask).check(certificate(made, made))


def test_what_is_owed_and_shown_is_no_condition() -> None:
    inputs = [array("A"), array("B")]
    left, right = (
        program(inputs, [apply("add", *order), const("1"), apply("div", 3, 2)], 4) for order in ((0, 1), (1, 0))
    )
    equal = {"outputs": {"0": {"close": "field"}}}
    shown = {"steps": [["ring", [0, 0]]]}
    theorem = Checker(no_solver).check(certificate(left, right, equal))
    assert theorem.conditional
    theorem = Checker(no_solver).check(certificate(left, right, equal | {"defined": {"0": shown}}))
    assert not theorem.conditional and theorem.defined
