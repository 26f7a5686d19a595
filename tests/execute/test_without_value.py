"""What is computed of an element without a value has none; NaN says so, in truth values too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.execute.interpreter import run
from catdiag.execute.scalar_functions import without_value

NAN = np.nan


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (lambda q: q > 0, [NAN, 0, 1]),
        (lambda q: q != q, [NAN, 0, 0]),
        (lambda q: (q > 0) & (q < 0), [NAN, 0, 0]),
        (lambda q: (q > 0) | (cd.index("x") == 0), [NAN, 0, 1]),
        (lambda q: ~(q > 0), [NAN, 1, 0]),
        (lambda q: cd.where(q > 0, cd.index("x") >= 0, cd.index("x") < 0), [NAN, 0, 1]),
        (lambda q: cd.where(cd.index("x") == 0, -1, q) > 0, [0, 0, 1]),  # `where` needs no branch that it leaves
        (lambda q: cd.any(cd.broadcast(q, "x y=2") > 0, "y"), [NAN, 0, 1]),
        (lambda q: cd.all(cd.broadcast(q, "x y=2") > -1, "y"), [NAN, 1, 1]),
    ],
)
def test_truth_values_of_what_has_no_value(condition: Callable[[Any], Any], expected: list[float]) -> None:
    f = cd.algorithm("x -> bool[x]")(lambda a: condition(a * (a - 1) / a))
    found = f(np.array([0.0, 1.0, 2.0]))
    np.testing.assert_array_equal(found, expected)
    everywhere = f(np.array([1.0, 1.0, 2.0]))
    assert everywhere.dtype == bool


@pytest.mark.parametrize("tile", [1, 2, 4])
def test_tiles_of_truth_values_of_which_some_have_none(tile: int) -> None:
    f = cd.algorithm("x -> bool[x]")(lambda a: 0 / a >= 0).group("x")
    found = run(f.diagram, [np.array([1.0, 2.0, 0.0, 3.0])], tiles={"g_x": tile})
    np.testing.assert_array_equal(found, [1, 1, NAN, 1])


def test_blocks_of_a_loop_of_which_one_has_no_value() -> None:
    f = cd.algorithm("x -> bool[]")(lambda a: cd.any(0 / a < 0, "x")).stream("x")
    for a, expected in (([1.0, 0.0, 1.0], NAN), ([1.0, 2.0, 1.0], 0)):
        np.testing.assert_array_equal(run(f.diagram, [np.array(a)], tiles={"s_x": 1}), expected)


def test_infinities_are_compared() -> None:
    f = cd.algorithm("x ->")(lambda a: cd.max(cd.where(a > 0, a, -cd.inf), "x"))
    assert f(np.array([-1.0, 2.0])) == 2
    g = cd.algorithm("x -> x")(lambda a: cd.where(cd.where(a > 0, a, -cd.inf) < 0, 0, a))
    np.testing.assert_array_equal(g(np.array([-1.0, 2.0])), [0, 2])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_where_elements_have_no_value(kind: Any) -> None:
    full = np.array([[1, np.inf], [-np.inf, 0]], kind)
    assert without_value(full, np.arange(2), True, 3, np.zeros(0, kind)) is None
    lacking = without_value(np.where(np.isinf(full), kind(NAN), full), 1.0)
    np.testing.assert_array_equal(lacking, [[False, True], [True, False]])
