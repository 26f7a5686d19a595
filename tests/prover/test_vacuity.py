"""Assumptions that nothing meets, or that say more than was meant; sizes that meet assumptions; witnesses."""

from __future__ import annotations

import pickle
from importlib import import_module

import pytest

import catdiag as cd
from catdiag.prover import AssumptionError, assumptions
from catdiag.prover.certification import certify, parse_assumption, statement_of
from catdiag.prover.proof_search import OpenGoal
from catdiag.prover.refute.counterexample_search import refute
from catdiag.prover.witness_search import SoundnessError
from catdiag.solvers.z3 import Z3

F = cd.algorithm("n, m")(lambda A, B: cd.sum(2 * A, "n") + cd.sum(B, "m"))
G = cd.algorithm("n, m")(lambda A, B: 2 * cd.sum(A, "n") + cd.sum(B, "m"))


VACUOUS = {
    "nothing is below 1": (["n < 1"], r"assumption n < 1.*no size n"),
    "two that exclude each other": (["n <= 4", "m >= 2", "n >= 5"], r"assumptions n ≤ 4 and 5 ≤ n.*no size n"),
    "an equation without solution": (["2*n == 2*m + 1"], "no sizes meet"),
    "nothing is less than itself": (["n < n"], "no sizes meet"),
    "a cycle": (["n < m", "m < n"], r"n < m and m < n"),
}


@pytest.mark.parametrize("name", VACUOUS)
def test_assumptions_that_nothing_meets(name: str) -> None:
    assume, said = VACUOUS[name]
    with pytest.raises(AssumptionError, match=said):
        cd.prove(F, G, assume)


FORCED = {
    "at most 1": (["n <= 1"], r"the assumption n ≤ 1 leaves size n only 0 or 1: if that is meant, assume 'n == 1'"),
    "below 2": (["m < 2", "n >= 3"], r"the assumption m < 2 leaves size m"),
    "by another": (["m == 1", "n <= m"], r"the assumptions m = 1 and n ≤ m leave size n"),
    "by a product": (["n*m <= 3", "n >= 2"], r"n·m ≤ 3.*leave size m"),
}


@pytest.mark.parametrize("name", FORCED)
def test_assumptions_that_leave_a_size_no_choice(name: str) -> None:
    assume, said = FORCED[name]
    with pytest.raises(AssumptionError, match=said):
        cd.prove(F, G, assume)


ASKED = {
    "one": (["n == 1"], {"n": 1, "m": 2}),
    "one, written the other way": (["1 == n", "m >= 3"], {"n": 1, "m": 3}),
    "many": (["n >= 7"], {"n": 7, "m": 2}),
    "a multiple": (["n == 128*m"], {"n": 256, "m": 2}),
    "a square": (["m == n*n"], {"n": 2, "m": 4}),
    "ordered": (["n < m"], {"n": 2, "m": 3}),
    "each may be 2, not both": (["n*m <= 3"], None),
    "nothing": ([], {"n": 2, "m": 2}),
}


@pytest.mark.parametrize("name", ASKED)
def test_witnesses_have_sizes_of_at_least_two_where_that_is_allowed(name: str) -> None:
    assume, sizes = ASKED[name]
    theorem = cd.prove(F, G, assume)
    found = theorem.certificate["witness"]["sizes"]
    assert all(assumptions.holds(parse_assumption(a), found) for a in assume)
    assert sizes is None or found == sizes


def test_an_axis_may_be_empty_where_it_is_assumed() -> None:
    f = cd.algorithm("n ->")(lambda A: cd.max(A, "n"))
    g = cd.algorithm("n ->")(lambda A: cd.max(cd.maximum(A, A), "n") + 0 * cd.size("n"))
    cd.prove(f, g)
    count = cd.algorithm("n ->")(lambda A: cd.mean(A, "n"))
    total = cd.algorithm("n ->")(lambda A: cd.sum(A, "n") / cd.maximum(cd.size("n"), 1))
    assert cd.prove(total, count, ["n >= 0"]).conditional
    found = refute(statement_of(total.diagram, count.diagram, ["n >= 0"]), partial=True)
    assert found is not None
    assert found.sizes == {"n": 0}
    assert found.undefined == "rhs"
    assert found.numpy()["A"].shape == (0,)


def test_what_differs_in_definedness_only_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no proof, not even a conditional one."""

    def open_goal(*_: object, **__: object) -> None:
        raise OpenGoal("1 = A[x]/A[x]")

    for searching in ("api", "internal_equivalences"):
        monkeypatch.setattr(import_module(f"catdiag.prover.{searching}"), "certify", open_goal)
    f = cd.algorithm("x")(lambda A: 1 + 0 * A)
    g = cd.algorithm("x")(lambda A: A / A)
    with pytest.raises(cd.Refuted, match="does not hold wherever its left side is defined") as error:
        cd.prove(f, g)
    assert error.value.counterexample.undefined == "rhs"
    assert "right is not defined: division by 0 at x=0" in str(error.value)
    with pytest.raises(cd.Undecided):
        cd.prove(g, f)


def test_counterexamples_come_with_what_numpy_gives() -> None:
    f = cd.algorithm("x ->")(lambda A: cd.sum(cd.exp(A), "x"))
    g = cd.algorithm("x ->")(lambda A: cd.exp(cd.sum(A, "x")))
    with pytest.raises(cd.Refuted) as error:
        cd.prove(f, g)
    found = error.value.counterexample
    assert found.floats is not None
    assert found.floats == pytest.approx((float(found.lhs), float(found.rhs)))


def test_the_alarm_stops_a_wrong_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that accepts anything is found out by running the programs."""
    from catdiag.kernel.judgments import Judge
    from catdiag.prover.proof_search import Finder

    monkeypatch.setattr(Judge, "holds", lambda *_: None)
    monkeypatch.setattr(Finder, "holds", lambda *_: None)
    f = cd.algorithm("x ->")(lambda A: cd.sum(A * A, "x"))
    g = cd.algorithm("x ->")(lambda A: cd.sum(A, "x") * cd.sum(A, "x"))
    with pytest.raises(SoundnessError, match="error of catdiag") as error, Z3() as ask:
        certify(ask, statement_of(f, g))
    assert error.value.counterexample.lhs != error.value.counterexample.rhs


SIZES = [
    (["n >= 7", "n == 2*m"], 1, [{"m": 4, "n": 8}, {"m": 5, "n": 10}]),
    (["n*n < m"], 2, [{"m": 5, "n": 2}, {"m": 10, "n": 3}]),
    (["n + m == 5"], 1, [{"m": 1, "n": 4}, {"m": 2, "n": 3}]),
    (["n < m", "m < 3"], 1, [{"m": 2, "n": 1}]),
]


@pytest.mark.parametrize(("texts", "least", "first"), SIZES)
def test_sizes_are_found_by_solving(texts: list[str], least: int, first: list[dict[str, int]]) -> None:
    assume = [parse_assumption(t) for t in texts]
    found = assumptions.meeting(["m", "n"], assume, least=least)
    assert all(assumptions.holds(c, sizes) for c in assume for sizes in found)
    assert all(sizes in found for sizes in first)
    assert found[0] == first[0]


@pytest.mark.parametrize("text", ["n >= 2", "2*m + 1 < n", "n == (a + b)*m", "size('ξ') >= 0"])
def test_an_assumption_that_is_made_of_data_says_what_its_text_says(text: str) -> None:
    made = assumptions.OfSizes.of(parse_assumption(text))
    assert parse_assumption(made) == parse_assumption(text) == parse_assumption(str(made))
    again = pickle.loads(pickle.dumps(made))
    assert (again, again.condition) == (made, made.condition)
