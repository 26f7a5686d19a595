"""Hypotheses on inputs: in the language of programs, shown, witnessed, met by counterexamples, checked."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.kernel.checker import Checker
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import statement_of
from catdiag.prover.hypotheses import hypothesis
from catdiag.prover.refute.counterexample_search import refute
from catdiag.prover.refute.exact_execution import Budget, build, run
from catdiag.prover.refute.exact_reals import BITS
from catdiag.prover.refute.validate import NotACounterexample, replay
from catdiag.solvers.z3 import Z3

Body = Callable[..., Any]


def of(signature: str, body: Body, name: str = "f") -> cd.Program:
    return cd.algorithm(signature, name=name)(body)


def pair(signature: str, left: Body, right: Body) -> tuple[cd.Program, cd.Program]:
    return of(signature, left, "left"), of(signature, right, "right")


MASKED = "x, bool[x] ->"
TRUE: dict[str, tuple[str, Body, Body, list[str]]] = {
    "sign": ("x", lambda A: cd.abs(A), lambda A: A + 0, ["A >= 0"]),
    "strict sign": ("x", lambda A: A * 0 + 1, lambda A: A / A, ["A > 0"]),
    "not zero": ("x", lambda A: A * 0 + 1, lambda A: A / A, ["A != 0"]),
    "all of a mask": (MASKED, lambda A, M: cd.sum(cd.where(M, A, 0), "x"), lambda A, M: cd.sum(A, "x"), ["all(M)"]),
    "a mask": (MASKED, lambda A, M: cd.sum(cd.where(M, A, 0), "x"), lambda A, M: cd.sum(A, "x"), ["M"]),
    "none of a mask": (MASKED, lambda A, M: cd.sum(cd.where(M, A, 0), "x"), lambda A, M: cd.sum(A * 0, "x"), ["not M"]),
    "sorted": (
        "x, y=x",
        lambda A, B: cd.where(cd.index("x") <= cd.index("y"), cd.minimum(A, A.rename(x="y")), 0),
        lambda A, B: cd.where(cd.index("x") <= cd.index("y"), A + B * 0, 0),
        ["sorted(A)"],
    ),
    "two arrays": ("x, x", lambda A, B: cd.maximum(A, B), lambda A, B: B + 0, ["A <= B"]),
    "an order that is chained": ("x, x", lambda A, B: cd.maximum(A, B), lambda A, B: B + 0, ["0 < A <= B"]),
    "a size in it": ("x, int[]", lambda A, k: cd.maximum(k, cd.size("x")), lambda A, k: cd.size("x") + 0, ["k < x"]),
    "extended": ("extended[x]", lambda A: cd.exp(A) * 0, lambda A: A - A, ["A > -inf"]),
    "with sizes": ("x", lambda A: cd.abs(A), lambda A: A + 0, ["x >= 3", "A >= 0"]),
    "defined itself": ("x", lambda A: A * 0 + 1, lambda A: A / A, ["1/A > -1000"]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUE)
def test_it_is_what_the_theorem_needs(name: str) -> None:
    signature, left, right, assume = TRUE[name]
    f, g = pair(signature, left, right)
    theorem = cd.prove(f, g, assume=assume)
    assert not theorem.conditional and theorem.vacuous is False
    assert cd.equivalent(f, g, assume=assume) is True and cd.equivalent(f, g) is not True
    with Z3() as ask:
        assert str(Checker(ask).check(theorem.certificate)) == str(theorem.checked)
        # Without it the same proof is none, or is one of a conditional theorem.
        bare = json.loads(json.dumps(theorem.certificate))
        del bare["statement"]["given"]
        with suppress(KernelError):
            assert Checker(ask).check(bare).conditional


def test_it_is_shown_and_carried() -> None:
    theorem = cd.prove(*pair("x", lambda A: 1 / A, lambda A: 1 / A), assume=["1/A > 2"])
    assert theorem.hypotheses == ("1 ≤ x", "A[i_x] ≠ 0 for all i_x < x", "2 < 1/A[i_x] for all i_x < x")
    assert not theorem.defined and "2 < 1/A[i_x]" in theorem.text() and "given" in theorem.certificate["statement"]


FALSE: dict[str, tuple[str, Body, Body, list[str]]] = {
    "too weak": ("x", lambda A: cd.abs(A), lambda A: A + 0, ["A > -1"]),
    "of another array": ("x, x", lambda A, B: cd.abs(A), lambda A, B: A + B * 0, ["B > 0"]),
    "of some": ("x", lambda A: cd.abs(A), lambda A: A + 0, ["any(A > 0)"]),
    "of a sum": ("x", lambda A: cd.abs(A), lambda A: A + 0, ["sum(A) > 0"]),
    "of the first": ("x", lambda A: cd.abs(A), lambda A: A + 0, ["index('x') > 0 or A > 0"]),
    "sorted the other way": (
        "x, y=x",
        lambda A, B: cd.where(cd.index("x") <= cd.index("y"), cd.minimum(A, A.rename(x="y")), 0),
        lambda A, B: cd.where(cd.index("x") <= cd.index("y"), A.rename(x="y") + B * 0 + A * 0, 0),
        ["sorted(A)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_what_refutes_meets_it(name: str) -> None:
    signature, left, right, assume = FALSE[name]
    f, g = pair(signature, left, right)
    with pytest.raises(cd.Refuted) as caught:
        cd.prove(f, g, assume=assume)
    statement = statement_of(diagram_of(f), diagram_of(g), assume)
    replay(statement, caught.value.counterexample)
    without = {**statement, "given": [hypothesis("A > 1000", diagram_of(f))]}
    with pytest.raises(NotACounterexample, match="assumption about the inputs"):
        replay(without, caught.value.counterexample)


def test_nothing_is_refuted_by_what_does_not_meet_it() -> None:
    f, g = pair("x", lambda A: cd.abs(A), lambda A: A + 0)
    assert refute(statement_of(diagram_of(f), diagram_of(g))) is not None
    assert refute(statement_of(diagram_of(f), diagram_of(g), ["A >= 0"]), tries=20) is None


def test_contradictory_ones_prove_nothing() -> None:
    f = of("x", lambda A: A / A)
    assert cd.prove(f, f, assume=["A > 0", "A < 0"]).vacuous
    assert cd.equivalent(f, f, assume=["A > 0 and A < 0"]) is None
    with pytest.raises(cd.Undecided, match="vacuous"):
        cd.rule(of("x", lambda A: cd.abs(A)), of("x", lambda A: A + 0), assume=["A > 0", "A < 0"])


def test_of_loops_what_holds_at_each_index() -> None:
    """Signs and masks are known of a block; an order of several indices is not handed on, nor is one of a sum."""
    f = of("x, x ->", lambda A, B: cd.sum(B * cd.sqrt(A) * cd.sqrt(A), "x"))
    g = of("x, x ->", lambda A, B: cd.sum(B * A, "x"))
    assert not cd.prove(g, f.stream("x"), assume=["A >= 0"]).conditional
    assert cd.prove(g, f.stream("x"), assume=["sum(A) >= 0"]).conditional
    masked = of(MASKED, lambda A, M: cd.sum(cd.where(M, A, 0), "x")).stream("x")
    assert not cd.prove(of(MASKED, lambda A, M: cd.sum(A, "x")), masked, assume=["all(M)"]).conditional
    with pytest.raises((cd.Refuted, cd.Undecided)):
        cd.prove(of(MASKED, lambda A, M: cd.sum(A, "x")), masked, assume=["any(M)"])


def test_an_empty_list_is_no_contradiction_within_a_loop() -> None:
    """What no number meets is met by an array without elements: a loop must not take it for a contradiction."""
    f = of("x ->", lambda A: cd.sum(A, "x")).stream("x")
    wrong = of("x ->", lambda A: cd.sum(A, "x") + 1, "wrong")
    with pytest.raises((cd.Refuted, cd.Undecided)):
        cd.prove(wrong, f, assume=["x >= 0", "A < A"])


def test_a_rule_with_hypotheses_is_proved_where_it_is_applied() -> None:
    rule = cd.rule(of("x", lambda A: cd.abs(A)), of("x", lambda A: A + 0), assume=["A >= 0"])
    assert rule.theorem.hypotheses[-1].startswith("0 ≤ A")
    made = rule.apply(of("x", lambda B: cd.abs(cd.exp(B)) + 1))
    assert not made.theorem.conditional and made.theorem.hypotheses == ("1 ≤ x",)
    with pytest.raises(cd.Undecided):
        rule.apply(of("x", lambda B: cd.abs(B) + 1))


def test_in_worker_processes() -> None:
    f, g = pair("x", lambda A: cd.abs(A), lambda A: A + 0)
    with ThreadPoolExecutor(1) as executor:
        found = cd.prover.prove_all([(f, g, ["A >= 0"]), (f, g, ["A >= -1"])], executor=executor)
    assert [type(one) for one in found] == [cd.Theorem, cd.Refuted]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A", "truth values"),
        ("A > ", "comparison of sizes, or a condition on inputs"),
        ("A > B", "'B'"),
        ("__import__('os').system('true') > A", "expected arrays"),
        ("f(A) > 0", "no function 'f'"),
        ("A.dtype > 0", "expected arrays"),
        ("(lambda: A)() > 0", "expected arrays"),
        ("A > 0 if A else A", "expected arrays"),
        ("A > 9**9**9", "exponents"),
        ("sorted(A, 'y')", "'y'"),
        ("A > 1/0", "division"),
        ("A in A", "comparisons"),
        ("x > 0", "both an input and a size"),
        ("A" * 2000, "cannot read"),
    ],
)
def test_texts_that_are_none(text: str, said: str) -> None:
    f = of("x, x", lambda A, x: A + x)
    with pytest.raises(cd.prover.AssumptionError) as caught:
        cd.prove(f, f, assume=[text])
    assert said in str(caught.value)


def test_an_array_called_as_a_size() -> None:
    f = of("x, x", lambda A, x: A + x)
    assert "3 ≤ x" in cd.prove(f, f, assume=["size('x') >= 3"]).hypotheses


def changed(certificate: dict[str, Any], change: Callable[[Any], None]) -> dict[str, Any]:
    found = copy.deepcopy(certificate)
    change(found["statement"]["given"][0])
    return found


def _loop(h: Any) -> None:
    h["nodes"].append({"op": "group", "tiles": [], "args": [0], "body": {"inputs": [], "nodes": [], "outputs": []}})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda h: h["inputs"][0].update(name="B"), "other inputs"),
        (lambda h: h["inputs"][0].update(element="extended"), "other inputs"),
        (lambda h: h["inputs"].clear(), "other inputs"),
        (lambda h: h["nodes"].append({"op": "size", "size": "unheard"}), "other inputs or sizes"),
        (lambda h: h.update(outputs=[[0, "bool"]]), "truth values"),
        (lambda h: h["outputs"][0].__setitem__(1, "real"), "truth values"),
        (_loop, "no loops"),
    ],
)
def test_the_checker_refuses(change: Callable[[Any], None], said: str) -> None:
    theorem = cd.prove(*pair("x", lambda A: cd.abs(A), lambda A: A + 0), assume=["A >= 0"])
    with Z3() as ask, pytest.raises(KernelError, match=said):
        Checker(ask).check(changed(theorem.certificate, change))


def test_a_witness_has_to_meet_it() -> None:
    theorem = cd.prove(*pair("x", lambda A: cd.abs(A), lambda A: A + 0), assume=["A >= 0"])
    wrong = copy.deepcopy(theorem.certificate)
    wrong["witness"]["arrays"]["A"][0] = "-1"
    with Z3() as ask, pytest.raises(KernelError, match="does not meet"):
        Checker(ask).check(wrong)


CONDITIONS = ["A > 0", "A >= B", "A != B", "A*A <= 4", "sum(A) > B", "any(A > 1)", "sorted(A)", "M or A > 0", "not M",
              "min(A) >= -1", "M and A < 2", "A > max(B) - 1"]  # fmt: skip
SIDES: list[Body] = [
    lambda A, B, M: cd.abs(A), lambda A, B, M: A + 0 * B, lambda A, B, M: cd.maximum(A, B),
    lambda A, B, M: cd.where(M, A, B), lambda A, B, M: cd.where(A > B, A, B), lambda A, B, M: cd.where(M, A, cd.abs(A)),
    lambda A, B, M: cd.sqrt(A * A), lambda A, B, M: cd.clip(A, -2, 2), lambda A, B, M: (A - B) / (A - B) * A,
]  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_what_is_proved_holds_wherever_it_is_met(data: st.DataObject) -> None:
    """Random equations under random hypotheses: exact numbers that meet these never contradict a theorem."""
    left, right = (data.draw(st.sampled_from(SIDES)) for _ in range(2))
    assume = data.draw(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=2, unique=True))
    f, g = pair("x, x, bool[x]", left, right)
    try:
        theorem = cd.prove(f, g, assume=assume)
    except (cd.Refuted, cd.Undecided):
        return
    statement = theorem.certificate["statement"]
    for _ in range(12):
        n = data.draw(st.integers(1, 3))
        drawn = [data.draw(st.lists(st.sampled_from([-2, -1, 0, 1, 2, 3]), min_size=n, max_size=n)) for _ in "AB"]
        masks = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
        arrays = [build(["x"], [n], lambda i, row=row: Fraction(row[i[0]])) for row in drawn]  # type: ignore[misc]
        arrays.append(build(["x"], [n], lambda i, row=masks: row[i[0]]))  # type: ignore[misc]

        def values(program: Any) -> list[Any]:
            made = run(program, arrays, {"x": n}, {}, {}, Budget(10**6, BITS))  # noqa: B023
            return [v for array in made for v in array.values.values()]

        if theorem.conditional or not all(v is True for h in statement["given"] for v in values(h)):
            continue
        lefts, rights = values(statement["left"]), values(statement["right"])
        if all(isinstance(v, Fraction) for v in lefts):
            assert lefts == rights, (str(theorem), drawn, masks)
