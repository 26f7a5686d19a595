"""Derivations composed: the theorem of the whole is made of those of the parts, with no weaker hypotheses."""

from __future__ import annotations

import pytest

import catdiag as cd
from catdiag.kernel.checker import Checker
from catdiag.rewrite import compose
from catdiag.solvers.z3 import Z3

SOFTMAX = cd.algorithm("q x", name="softmax")(lambda S: cd.softmax(S, "x"))
SQUARES = cd.algorithm("q x -> q", name="squares")(lambda P: cd.sum(P * P, "x"))
ROOTS = cd.algorithm("q x -> q x, q", name="roots")(lambda P: (P + 0, 1 / cd.sum(P, "x")))
FIRST = cd.algorithm("q x, q -> q x", name="first")(lambda P, r: P * 2)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes every composite for one that is too large to be proved at once."""
    monkeypatch.setattr(compose, "_whole", lambda *_: None)


@pytest.mark.usefixtures("large")
def test_in_sequence_and_beside_each_other() -> None:
    one, two = SOFTMAX.stream("x", passes=2), SQUARES.stream("x")
    for made in (one >> two, one @ two):
        assert made.theorem.checked.cited == 2 and not made.theorem.conditional and not made.theorem.taken
        with Z3() as ask:
            assert str(Checker(ask).check(made.theorem.certificate)) == str(made.theorem.checked)


@pytest.mark.usefixtures("large")
def test_what_is_defined_is_what_the_whole_needs() -> None:
    """That a cut array is defined is a hypothesis only where the whole needs it: here the roots are thrown away, and
    what is computed of them is proved of the whole."""
    made = ROOTS.stream("x", passes=2) >> SQUARES @ cd.id(ROOTS.cod[1])
    assert made.theorem.checked.cited == 2 and any("≠ 0" in text for text in made.theorem.defined)
    thrown = ROOTS.stream("x", passes=2) >> FIRST
    assert thrown.theorem.checked.cited == 0
