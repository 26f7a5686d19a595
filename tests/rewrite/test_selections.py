"""Selections along an axis stream: what is chosen at the maximum is kept, and let go once there is a larger one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd


def mean_at_top(a: Any, v: Any) -> Any:
    chosen = cd.where(a >= cd.max(a, "x"), 1, 0)
    return cd.sum(chosen * v, "x") / cd.sum(chosen, "x")


def without_top(a: Any, v: Any) -> Any:
    p = cd.softmax(a, "x")
    return cd.sum(cd.where(a == cd.max(a, "x"), 0, p) * v, "x")


def all_tops_true(a: Any, v: Any) -> Any:
    return cd.where(cd.all((a != cd.max(a, "x")) | (v > 0), "x"), 1, 0)


def right_at_once(a: Any, v: Any) -> Any:
    top = cd.max(a, "x")
    return cd.argmax(a, "x"), top + cd.log(cd.sum(cd.exp(a - top), "x")), cd.sum(v, "x")


CASES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "first": (lambda a, v: cd.argmax(a, "x"), ["max1", "max2"]),
    "smallest": (lambda a, v: cd.argmin(a, "x"), ["max1", "max2"]),
    "ties": (lambda a, v: cd.sum(cd.where(a == cd.max(a, "x"), 1, 0), "x"), ["max1", "sum2"]),
    "mean": (mean_at_top, ["max1", "sum2", "sum3"]),
    "second": (lambda a, v: cd.max(cd.where(a < cd.max(a, "x"), a, -100), "x"), ["max1", "max2"]),
    "product": (lambda a, v: cd.prod(cd.where(a == cd.max(a, "x"), v, 1), "x"), ["max1", "prod2"]),
    "without": (without_top, ["max1", "sum2", "sum3", "sum4"]),
    "all": (all_tops_true, ["max1", "all2"]),
    "shared": (right_at_once, ["max1", "max2", "sum3", "sum4"]),
    "scores": (
        lambda a, v: cd.min(cd.where(cd.softmax(a, "x") == cd.max(cd.softmax(a, "x"), "x"), v, 100), "x"),
        ["max1", "max2"],
    ),
}


# The dual of "first", and the quotient of what "ties" and "without" add up.
SLOW = ("smallest", "mean")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES])
def test_what_is_chosen_at_the_maximum_streams(name: str) -> None:
    function, components = CASES[name]
    diagram = cd.algorithm("q x, q x", name=name)(function)
    derived = diagram.stream("x")
    found = derived.steps[0].formula
    assert found is not None and [c.name for c in found.components] == components
    assert not derived.theorem.conditional
    rng = np.random.default_rng(0)
    for x in (1, 4, 7):
        # Few values, so that there are ties, within blocks and between them.
        given = [rng.integers(-1, 2, (3, x)).astype(float) for _ in diagram.dom]
        wanted = np.atleast_2d(diagram(*given))
        for block in (1, 2, 3, x):
            np.testing.assert_allclose(np.atleast_2d(derived.run(*given, tiles={"s_x": block})), wanted, atol=1e-9)


def test_the_state_is_no_larger_than_it_must_be() -> None:
    derived = cd.algorithm("q x -> q")(lambda a: cd.argmax(a, "x")).stream("x")
    assert "repair   where(max1 = max1′ ∨ max2 = -∞, max2, -x)" in str(derived.steps[0].formula)


def test_what_is_known_of_no_margin_below_the_maximum_is_refused() -> None:
    near = cd.algorithm("q x -> q")(lambda a: cd.sum(cd.where(a > cd.max(a, "x") - 1, a, 0), "x"))
    with pytest.raises(cd.errors.NotStreamable, match=r"max\[x\].*no repair"):
        near.stream("x")


def test_a_position_is_along_one_axis() -> None:
    with pytest.raises(cd.errors.AxisError, match="one axis"):
        cd.algorithm("q x")(lambda a: cd.argmax(a, "q x"))
    indices = cd.algorithm("q x")(lambda a: (cd.argmax(a, "x"), cd.argmin(a, "x")))
    a = np.array([[1.0, 3.0, 3.0], [0.0, -1.0, -1.0]])
    first, last = indices(a)
    assert first.tolist() == np.argmax(a, axis=1).tolist() and last.tolist() == np.argmin(a, axis=1).tolist()
