"""Equations proved by way of arrays that both sides compute."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.kernel.checker import Checker
from catdiag.prover.internal_equivalences import Screened, axis_names, certify_through_equal_arrays
from catdiag.prover.proof_search import OpenGoal
from catdiag.solvers.child_process import checking
from catdiag.solvers.z3 import Z3


@cd.algorithm("t m, d m, x m, e m, e o -> t o")
def attention(X: Any, Q: Any, C: Any, V: Any, O: Any) -> Any:  # noqa: E741
    S = cd.einsum("t d, x d -> t x", cd.einsum("t m, d m -> t d", X, Q), cd.einsum("x m, d m -> x d", C, Q))
    P = cd.softmax(S / cd.sqrt(cd.size("d")), "x")
    return cd.einsum("t e, e o -> t o", cd.einsum("t x, x e -> t e", P, cd.einsum("x m, e m -> x e", C, V)), O)


def other(scale: int) -> Any:
    """The same in another way if the scale is 1: the sum is divided by at the end, and axes are in another order."""

    @cd.algorithm("t m, d m, x m, e m, e o -> t o")
    def computed(X: Any, Q: Any, C: Any, V: Any, O: Any) -> Any:  # noqa: E741
        root = cd.sqrt(cd.size("d"))
        S = cd.einsum("x d, t d -> x t", cd.einsum("x m, d m -> x d", C, Q), cd.einsum("t m, d m -> t d", X, Q) / root)
        E = cd.exp(S * scale)
        made = cd.einsum("x t, x e -> t e", E, cd.einsum("x m, e m -> x e", C, V)) / cd.sum(E, "x")
        return cd.einsum("t e, e o -> t o", made, O)

    return computed


def through(f: Any, g: Any, assume: tuple[str, ...] = ()) -> cd.Theorem:
    screened = Screened.of(f.diagram, g.diagram, assume)
    assert screened is not None
    with Z3() as ask:
        return certify_through_equal_arrays(ask, screened, assume)


def test_a_layer_is_proved_by_its_parts() -> None:
    theorem = through(attention, other(1))
    assert not theorem.conditional and not theorem.vacuous
    assert len(theorem.certificate["cited"]) > 2
    with Z3() as ask:  # the certificate stands by itself
        assert Checker(checking(ask)).proved(theorem.certificate)


def test_what_differs_is_seen_to_differ_and_not_proved() -> None:
    screened = Screened.of(attention.diagram, other(2).diagram)
    assert screened is not None and screened.results_differ()
    with pytest.raises(OpenGoal), Z3() as ask:
        certify_through_equal_arrays(ask, screened)
    with pytest.raises(cd.Refuted):
        cd.prove(attention, other(2))


def test_arrays_that_come_out_equal_need_a_proof() -> None:
    """Numbers up to 2: what is equal on all sizes that were run is not equal on others."""
    f = cd.algorithm("n m -> n")(lambda A: cd.sum(cd.where(cd.index("m") < 50, A, 0), "m"))
    g = cd.algorithm("n m -> n")(lambda A: cd.sum(A, "m"))
    screened = Screened.of(f.diagram, g.diagram)
    assert screened is not None and not screened.results_differ()
    with pytest.raises(OpenGoal), Z3() as ask:
        certify_through_equal_arrays(ask, screened)


def test_a_result_may_be_an_input() -> None:
    f = cd.algorithm("n m -> n m")(lambda A: A)
    assert not through(f, cd.algorithm("n m -> n m")(lambda A: A / 2 + A / 2)).conditional
    with pytest.raises(OpenGoal):
        through(f, cd.algorithm("n m -> n m")(lambda A: A + 1))


def test_assumptions_on_sizes_are_used() -> None:
    f = cd.algorithm("n m -> n")(lambda A: cd.exp(cd.sum(A, "m") / cd.size("m")))
    g = cd.algorithm("n m -> n")(lambda A: cd.exp(cd.sum(A, "m") / 4))
    assert not through(f, g, ("m == 4",)).conditional
    with pytest.raises(OpenGoal):
        through(f, g)


def test_axes_are_matched_by_what_arrays_hold() -> None:
    f = cd.algorithm("t d -> t")(
        lambda A: cd.sum(cd.exp(cd.einsum("t d, x d -> t x", A, A.rename(t="x"))), "x")
    )  # fmt: skip
    g = cd.algorithm("t d -> t")(
        lambda A: cd.sum(cd.exp(cd.einsum("s d, t d -> s t", A.rename(t="s"), A)), "s")
    )  # fmt: skip
    screened = Screened.of(f.diagram, g.diagram)
    assert screened is not None
    assert axis_names(screened) == {"s": "x"}


def test_axes_that_no_box_has_both_of_are_matched_with_one() -> None:
    """The right side takes an array of halves apart, and stacks the halves along an axis of its own."""
    signature = "t p=2 j -> t"
    f = cd.algorithm(signature)(lambda A: cd.sum(cd.sum(cd.exp(A * A), "p"), "j"))

    def stacked(A):
        one, two = (cd.reindex(A, "", p=k) for k in (0, 1))
        return cd.sum(cd.sum(cd.exp(cd.where(cd.index("d=2") < 1, one * one, two * two)), "d"), "j")

    screened = Screened.of(f.diagram, cd.algorithm(signature)(stacked).diagram)
    assert screened is not None
    assert axis_names(screened) == {"d": "p"}


def test_axes_that_a_box_has_both_of_stay_two() -> None:
    f = cd.algorithm("p=2 j -> j")(lambda A: cd.sum(cd.exp(A), "p"))
    g = cd.algorithm("p=2 j -> j")(
        lambda A: cd.sum(cd.sum(cd.exp(A.rename(p="d")) * cd.where(cd.index("p=2") < 1, 1, 0), "p"), "d")
    )  # fmt: skip
    screened = Screened.of(f.diagram, g.diagram)
    assert screened is not None
    assert "d" not in axis_names(screened)
