"""What holds of all indices is used of integers only: a number between two of them is no index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kernel_programs import apply, array, certificate, const, program, reduce, sum_fold

from catdiag.kernel import context
from catdiag.kernel.checker import Checker
from catdiag.kernel.context import Context
from catdiag.kernel.facts import Fact
from catdiag.kernel.rewrite_rules import apply as step
from catdiag.kernel.terms import MINUS, ONE, ZERO, KernelError, add, big, bound, fn, idx, maximum, mul, read, size
from catdiag.solvers.z3 import Z3

N, J, Z = size("n"), idx("i"), read("z")
# i·i − i ≥ 0 for all indices, and not for 1/2.
SQUARES = Fact((("i", N),), (), fn("le", ZERO, add(mul(J, J), mul(MINUS, J))))
INSIDE = (Fact((), (), fn("le", ZERO, Z)), Fact((), (), fn("lt", Z, N)))


def at_z(t: Any) -> Any:
    return add(mul(t, t), mul(MINUS, t))


@pytest.fixture(scope="module")
def ask() -> Iterator[Z3]:
    with Z3(rlimit=500_000) as solver:
        yield solver


@pytest.mark.parametrize(("element", "known"), [("real", False), ("int", True)])
def test_a_fact_about_indices_is_none_about_numbers(ask: Z3, element: str, known: bool) -> None:
    ctx = Context(ask, {}, (SQUARES, *INSIDE), {"z": element})
    assert ctx.nonnegative(at_z(Z)) == known
    assert ctx.entails(fn("le", ZERO, at_z(Z))) == known


def test_without_asking_for_integers_it_would_be(ask: Z3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "integer", lambda *_: True)
    assert Context(ask, {}, (SQUARES, *INSIDE), {"z": "real"}).nonnegative(at_z(Z))


@pytest.mark.parametrize(("element", "known"), [("real", False), ("int", True)])
def test_a_maximum_is_above_its_elements_and_not_above_what_lies_between(ask: Z3, element: str, known: bool) -> None:
    ctx = Context(ask, {}, INSIDE, {"z": element, "A": "real"})
    elements = big("max", N, read("A", bound(0)))
    both = maximum(read("A", Z), elements)
    assert (step(ctx, both, "larger", []) == elements) == known


VIEW = {"op": "view", "args": [0, 1], "axes": [["q", "q"]], "reads": [{"at": {"x": ["w", 1]}, "where": []}]}


@pytest.mark.parametrize(("element", "accepted"), [("real", False), ("int", True)])
def test_an_array_is_read_at_integers(ask: Z3, element: str, accepted: bool) -> None:
    made = program([array("A", "x"), array("J", "q", element=element)], [VIEW], 2)
    if accepted:
        assert Checker(ask).check(certificate(made, made)).defined
    else:
        with pytest.raises(KernelError, match="no integer"):
            Checker(ask).check(certificate(made, made))


def test_computed_positions_are_integers_by_what_they_are_made_of(ask: Z3) -> None:
    half = [const("1/2"), apply("mul", 1, 2), {**VIEW, "args": [0, 3]}]
    twice = [const("2"), apply("mul", 1, 2), {**VIEW, "args": [0, 3]}]
    inputs = [array("A", "x"), array("J", "q", element="int")]
    Checker(ask).check(certificate(program(inputs, twice, 4), program(inputs, twice, 4)))
    with pytest.raises(KernelError, match="no integer"):
        Checker(ask).check(certificate(program(inputs, half, 4), program(inputs, half, 4)))


def test_a_loop_that_takes_integers_is_given_integers(ask: Z3) -> None:
    from catdiag.prover.proof_search import find

    def made(element: str, declared: str) -> Any:
        fold = sum_fold([reduce("sum", "x", 1), apply("add", 0, 2)], 3)
        for body in ("step", "state"):
            for d in fold[body]["inputs"]:
                if d["name"] == "A":
                    d["element"] = declared
        return program([array("A", "x", element=element)], [fold], 1)

    for element, declared in (("int", "int"), ("int", "real"), ("real", "real")):
        total = program([array("A", "x", element=element)], [reduce("sum", "x", 0)], 1)
        statement = certificate(total, made(element, declared))["statement"]
        Checker(ask).check(find(ask, statement))
    total = program([array("A", "x")], [reduce("sum", "x", 0)], 1)
    with pytest.raises(KernelError, match="known to be int"):
        find(ask, certificate(total, made("real", "int"))["statement"])


def test_one_is_an_integer() -> None:
    assert context.integer(Context(lambda *_: False), ONE)
