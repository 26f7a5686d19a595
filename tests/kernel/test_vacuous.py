"""Theorems about nothing: three answers, a witness, a contradiction, or neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernel_programs import apply, array, certificate, const, program

import catdiag as cd
from catdiag.cli.check_command import check_file
from catdiag.cli.exit_status import DONE, VACUOUS
from catdiag.kernel.checker import Checker
from catdiag.kernel.polynomial import TooLarge
from catdiag.solvers.z3 import Z3

INPUT = [array("A", "x")]
ONE, TWO = program(INPUT, [const("1")], 1), program(INPUT, [const("2")], 1)
ABSURD = {"outputs": {"0": {"absurd": True}}}


def proved(left: Any, right: Any, signature: str = "x", assume: tuple[str, ...] = ()) -> cd.Theorem:
    return cd.prove(cd.algorithm(signature)(left), cd.algorithm(signature)(right), assume)


@pytest.mark.parametrize("assume", [
    (("lt", "x", "x"),), (("lt", "x", 0),), (("le", 3, "x"), ("lt", "x", 2)), (("eq", ["*", 2, "x"], 3),),
    (("eq", 0, 1),),
])  # fmt: skip
def test_under_assumptions_that_no_sizes_meet_it_is_vacuous(assume: Any, ask: Z3, tmp_path: Path) -> None:
    made = certificate(ONE, TWO, ABSURD, assume)
    theorem = Checker(ask).check(made)
    assert theorem.vacuous is True and "VACUOUS" in str(theorem) and "witness" not in str(theorem)
    file = tmp_path / "made.json"
    file.write_text(json.dumps(made))
    assert check_file(file) == VACUOUS == 5
    # So it is where nothing absurd is said.
    assert Checker(ask).check(certificate(ONE, ONE, {}, assume)).vacuous is True


def test_absurd_in_a_branch_is_no_sign_of_it(ask: Z3) -> None:
    """x ≥ 1 is known: the case x = 0 is absurd, and the theorem is about something."""
    sums = program(INPUT, [{"op": "reduce", "monoid": "sum", "axis": "x", "args": [0]}], 1)
    proof = {"outputs": {"0": {"cases": "x", "zero": {"absurd": True}, "more": {}}}}
    theorem = Checker(ask).check(certificate(sums, sums, proof, (("le", 1, "x"),)))
    assert theorem.vacuous is None and "not known to be satisfiable" in str(theorem)


def test_a_witness_says_that_it_is_not(ask: Z3) -> None:
    witness = {"sizes": {"x": 2}, "arrays": {"A": ["1", "2"]}, "functions": {}}
    theorem = Checker(ask).check({**certificate(ONE, ONE), "witness": witness})
    assert theorem.vacuous is False and theorem.witness


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda A: cd.log(A - A), lambda A: A + 7),
        (lambda A: A + 7, lambda A: 2 * (A + 7) + cd.sqrt(-1 - A * A)),
        (lambda A: cd.log(A) + cd.log(-A), lambda A: cd.log(A) + cd.log(-A) + A - A),
        (lambda A: 1 / cd.sum(A - A, "x"), lambda A: 3 / cd.sum(A - A, "x")),
        (lambda A: A, lambda A: A + 0 * cd.log(cd.sum(cd.softmax(A, "x"), "x") - 1)),
        (lambda A: cd.where(A > 0, cd.log(A - A), cd.log(A - A - 1)), lambda A: 0 * A),
        (lambda A: A * cd.log(-1 - cd.abs(A)), lambda A: A * cd.log(-1 - cd.abs(A))),
        (lambda A: cd.sqrt(-cd.exp(A)), lambda A: cd.sqrt(-cd.exp(A))),
        (lambda A: A, lambda A: A + 0 * cd.sqrt(A - 1) + 0 * cd.sqrt(-A)),
    ],
)
def test_of_what_no_arrays_meet_it_is_vacuous(left: Any, right: Any) -> None:
    theorem = proved(left, right)
    assert theorem.vacuous is True and theorem.verdict == "vacuous"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda A: cd.log(A - A), lambda A: A + 7),
        (lambda A: 1 / cd.sum(A - A, "x"), lambda A: 3 / cd.sum(A - A, "x")),
    ],
)
def test_what_is_vacuous_is_no_equivalence_and_no_rule(left: Any, right: Any) -> None:
    """All read the one verdict."""
    assert cd.equivalent(cd.algorithm("x")(left), cd.algorithm("x")(right)) is None
    with pytest.raises(AssertionError, match="is vacuous: no arrays satisfy its assumptions"):
        cd.testing.assert_equivalent(cd.algorithm("x")(left), cd.algorithm("x")(right), conditional=True)
    with pytest.raises(cd.Undecided, match="the rule is vacuous"):
        cd.rule(cd.algorithm("x")(left), cd.algorithm("x")(right))


@pytest.mark.parametrize(
    ("left", "right", "assume"),
    [
        (lambda A: cd.log(A), lambda A: cd.log(A), ()),
        # Of no index nothing is asked: all arrays without elements meet it.
        (lambda A: cd.sum(cd.log(A - A), "x"), lambda A: cd.sum(cd.log(A - A), "x"), ("x >= 0",)),
        (lambda A: cd.where(A > 0, cd.log(A - A), A), lambda A: cd.where(A > 0, cd.log(A - A), A), ()),
        (lambda A: cd.sqrt(A) + cd.sqrt(-A), lambda A: cd.sqrt(A) + cd.sqrt(-A), ()),
    ],
)
def test_of_what_some_arrays_meet_it_is_not(left: Any, right: Any, assume: tuple[str, ...]) -> None:
    assert proved(left, right, assume=assume).vacuous is False


def test_where_neither_is_known_that_is_said(ask: Z3) -> None:
    """A root of A² − 2·B² − 1, which has integer solutions that nobody gives, is owed of integers."""
    inputs = [array("A", element="int"), array("B", element="int")]
    pell = [apply("mul", 0, 0), apply("mul", 1, 1), const("61"), apply("mul", 3, 4), apply("sub", 2, 5), const("1"),
            apply("sub", 6, 7), apply("neg", 8), apply("sqrt", 8), apply("sqrt", 9), apply("add", 10, 11)]  # fmt: skip
    made = program(inputs, pell, 12)
    theorem = Checker(ask).check(certificate(made, made))
    assert theorem.vacuous is None and "not known to be satisfiable" in str(theorem)


def test_what_is_proved_stands_where_the_question_takes_too_much_work() -> None:
    def spent(hypotheses: Any, goal: Any) -> bool:
        raise TooLarge("the goals take too much work")

    root = program(INPUT, [apply("sqrt", 0)], 1)
    theorem = Checker(spent).check(certificate(root, root))
    assert theorem.vacuous is None and theorem.defined == ("0 ≤ A[i_x] for all i_x < x",)


def test_the_command_ends_with_its_own_status(tmp_path: Path, monkeypatch: Any) -> None:
    from catdiag.cli.derive_commands import run_prove
    from catdiag.cli.operator_loading import operators

    file = tmp_path / "pair.py"
    file.write_text(
        "import catdiag as cd\n"
        "f = cd.algorithm('x', name='f')(lambda A: cd.log(A - A))\n"
        "g = cd.algorithm('x', name='g')(lambda A: A + 7)\n"
    )
    assert run_prove(operators(f"{file}:f", f"{file}:g"), [], None, None, None) == VACUOUS
    assert run_prove(operators(f"{file}:g", f"{file}:g"), [], None, None, None) == DONE
