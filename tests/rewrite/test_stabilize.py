"""The stabilized form: maxima subtracted in exponentials that a user wrote without one, proved, or refused with why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.kernel.checker import Checker
from catdiag.solvers.z3 import Z3

NONE = -float("inf")


def quotient(S: Any, V: Any) -> Any:
    return cd.sum(cd.exp(S) * V, "x") / cd.sum(cd.exp(S), "x")


def two_sums(S: Any, V: Any) -> Any:
    """Two normalisers: a maximum for each."""
    one, other = (cd.exp(a) / cd.sum(cd.exp(a), "x") for a in (S, V))
    return cd.sum((one - 2 * other) * V, "x")


def several(S: Any, V: Any) -> Any:
    """Two exponentials under one normaliser: a maximum for both."""
    return cd.sum((cd.exp(S) - cd.exp(V)) * S, "x") / cd.sum(cd.exp(S) + 3 * cd.exp(V), "x")


def beside_one(S: Any, V: Any) -> Any:
    """A number beside exponentials is one of 0."""
    return cd.sum(cd.exp(S) * V, "x") / (1 + cd.sum(cd.exp(S), "x"))


def logarithm(S: Any, V: Any) -> Any:
    return cd.log(cd.sum(cd.exp(S), "x")) - cd.log(cd.sum(cd.exp(V), "x"))


COMPONENTS = {two_sums: 6, several: 5, beside_one: 3, logarithm: 4}


def written(function: Callable[[Any, Any], Any], signature: str = "q x, q x -> q") -> Diagram:
    return cd.algorithm(signature, name=function.__name__)(lambda S, V: function(S, V))


# `logarithm` has a maximum for each of two normalisers too.
SLOW = (two_sums,)


@pytest.mark.parametrize(
    "function",
    [pytest.param(f, marks=pytest.mark.slow) if f in SLOW else f for f in COMPONENTS],
    ids=lambda f: f.__name__,
)
def test_maxima_are_subtracted_and_streamed(ask: Z3, function: Callable[[Any, Any], Any]) -> None:
    diagram = written(function)
    made = cd.Program(diagram, ask).stabilize()
    assert [step.name for step in made.steps] == ["stabilize"] and not made.theorem.conditional
    assert not Checker(ask).check(made.theorem.certificate).conditional
    assert made.stability().proved
    streamed = made.stream("x")
    assert streamed.stability().proved and not streamed.theorem.conditional
    assert len(streamed.steps[-1].formula.components) == COMPONENTS[function]  # type: ignore[union-attr]
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, 7)) for _ in range(2)]
    np.testing.assert_allclose(streamed.run(*arrays, tiles={"s_x": 2}), diagram(*arrays), rtol=1e-9, atol=1e-12)
    # Where the textbook form overflows, this one is what it would be.
    large = [a + 1e4 for a in arrays]
    assert np.isfinite(streamed.run(*large, tiles={"s_x": 3})).all()
    assert not np.isfinite(diagram(*large)).any()


@pytest.mark.parametrize(
    "weights",
    [
        lambda S, seen: cd.exp(cd.where(seen, S, NONE)),
        lambda S, seen: cd.where(~seen, 0, cd.exp(S)),
        lambda S, seen: seen * cd.exp(S),
    ],
)
def test_masked_exponentials_have_the_maximum_of_what_is_seen(ask: Z3, weights: Callable[[Any, Any], Any]) -> None:
    def masked(S: Any, seen: Any, V: Any) -> Any:
        E = weights(S, seen)
        return cd.sum(E * V, "x") / cd.sum(E, "x")

    diagram = cd.algorithm("x, bool[x], x ->")(masked)
    made = cd.Program(diagram, ask).stabilize().stream("x")
    assert not made.theorem.conditional
    S = np.array([1e4, -900.0, 2e4, -1000.0, -901.0, 5e4])
    seen, V = np.array([0, 1, 0, 0, 1, 0], bool), np.arange(6.0)
    wanted = (1 + 4 * np.exp(-1.0)) / (1 + np.exp(-1.0))
    for block in (1, 2, 4, 6):
        np.testing.assert_allclose(made.run(S, seen, V, tiles={"s_x": block}), wanted)


def test_what_nothing_divides_is_refused_with_the_reason(ask: Z3) -> None:
    for function, why in {
        lambda S, V: cd.sum(cd.exp(S) * V, "x"): "the result is not divided by such exponentials",
        lambda S, V: cd.sum(cd.exp(S) * cd.exp(S), "x") / cd.sum(cd.exp(S), "x"): "the result is not divided",
        lambda S, V: cd.sum(cd.tanh(cd.exp(S)) * V, "x"): "tanh",
        lambda S, V: cd.sum(cd.exp(S) * cd.exp(S) + cd.exp(S), "x") / cd.sum(cd.exp(S), "x"): "different numbers",
    }.items():
        with pytest.raises(cd.errors.NotStabilizable, match=why):
            cd.Program(written(function), ask).stabilize()


def test_what_is_bounded_is_left_as_it_is(ask: Z3) -> None:
    for function in (
        lambda S, V: cd.sum(cd.softmax(S, "x") * V, "x"),
        lambda S, V: cd.sum(cd.nn.sigmoid(S) * V, "x"),
        lambda S, V: cd.sum(cd.exp(-S * S) * V, "x"),
        lambda S, V: cd.sum(S * V, "x"),
    ):
        start = cd.Program(written(function), ask)
        assert start.stabilize() is start


def test_an_exponential_of_each_element_is_stabilised_by_itself(ask: Z3) -> None:
    diagram = written(lambda S, V: cd.sum(V / (1 + cd.exp(-S)), "x"))
    made = cd.Program(diagram, ask).stabilize()
    assert made.stability().proved
    arrays = [np.array([[-1e4, 0.0, 1e4]]), np.ones((1, 3))]
    np.testing.assert_allclose(made.stream("x").run(*arrays, tiles={"s_x": 1}), [1.5])


def test_a_derivation_is_stabilised_at_its_beginning_and_derived_again(ask: Z3) -> None:
    plain = cd.Program(written(quotient), ask).stream("x").group("q")
    assert [c.name for c in plain.steps[0].formula.components] == ["sum1", "sum2"]  # type: ignore[union-attr]
    (line,) = plain.advice()
    assert line.startswith("exp(S) is not bounded: .stabilize() subtracts the maximum\n  at ")
    made = plain.stabilize()
    assert [step.name for step in made.steps] == ["stabilize", "stream x", "group q"]
    assert made.advice() == () and made.stability().proved


def test_axes_are_those_along_which_exponentials_are_added(ask: Z3) -> None:
    diagram = cd.algorithm("q h x -> q h x")(lambda S: cd.exp(S) / cd.sum(cd.sum(cd.exp(S), "x"), "h"))
    made = cd.Program(diagram, ask).stabilize()
    assert sorted(box.name for box in made.diagram.boxes if box.name.startswith("max")) == ["max[h]", "max[x]"]


def test_a_maximum_over_two_axes_of_what_is_free_of_one_in_part(ask: Z3) -> None:
    @cd.algorithm("x m, x, x ->")
    def features(A, c, V):  # type: ignore[no-untyped-def]
        E = cd.exp(A - c * c)
        return cd.sum(cd.sum(E, "m") * V, "x") / cd.sum(cd.sum(E, "m"), "x")

    made = cd.Program(features, ask).stabilize()
    assert made.stability().proved and made.stream("x").stability().proved


def test_advice_offers_only_what_can_be_done():
    plain = cd.algorithm("x, x ->", name="plain")(lambda S, V: cd.sum(cd.exp(S) * V, "x")).stream("x")
    (line,) = plain.advice()
    assert line.startswith("exp(S) is not bounded: and .stabilize() has no maximum to subtract")
    with pytest.raises(cd.errors.NotStabilizable):
        plain.stabilize()


def test_several_passes_are_taken_again():
    def weights(S):
        return cd.exp(S) / cd.sum(cd.exp(S), "x")

    made = cd.algorithm("x -> x", name="weights")(weights).stream("x", passes=2).stabilize()
    assert [step.name for step in made.steps] == ["stabilize", "stream x in 2 passes"]
    np.testing.assert_allclose(made.run([1000.0, 1000.0], tiles={"s_x": 1}), [0.5, 0.5])
