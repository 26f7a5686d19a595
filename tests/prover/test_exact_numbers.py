"""Exact numbers: laws of exponential polynomials, enclosures against floats, and elements without a value."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catdiag.prover.refute import enclosures, exact_execution
from catdiag.prover.refute.exact_reals import (
    BOTTOM,
    Undefined,
    add,
    bounds,
    compare,
    different,
    exp,
    inv,
    log,
    mul,
    neg,
    sqrt,
)

rationals = st.fractions(-6, 6, max_denominator=5)


@st.composite
def quotients(draw: st.DrawFn) -> Any:
    """A few operations on rationals and their exponentials."""
    x: Any = draw(rationals)
    for _ in range(draw(st.integers(0, 4))):
        y = draw(rationals)
        y = exp(y) if draw(st.booleans()) else y
        x = draw(st.sampled_from((add, mul)))(x, y)
        if compare("eq", x, Fraction(0)):
            continue
        x = inv(x) if draw(st.booleans()) else x
    return x


def near(x: Any, y: float) -> bool:
    low, high = bounds(x)
    slack = 1e-9 * max(1.0, abs(y))
    return float(low) - slack <= y <= float(high) + slack


@given(quotients(), quotients(), quotients())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_exponential_quotients_are_a_field(x: Any, y: Any, z: Any) -> None:
    assert compare("eq", mul(x, add(y, z)), add(mul(x, y), mul(x, z)))
    assert compare("eq", add(x, neg(x)), Fraction(0))
    assert different(x, add(x, Fraction(1, 10**30)))
    if not compare("eq", x, Fraction(0)):
        assert mul(x, inv(x)) == 1
    assert compare("lt", x, y) + compare("eq", x, y) + compare("lt", y, x) == 1


@given(rationals, rationals)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_functions_enclose_what_floats_give(x: Fraction, y: Fraction) -> None:
    assert near(exp(x), math.exp(x))
    assert mul(exp(x), exp(y)) == exp(x + y)
    assert near(exp(exp(x / 3)), math.exp(math.exp(x / 3)))
    if x > 0:
        assert near(log(x), math.log(x))
        assert near(sqrt(x), math.sqrt(x))
        assert near(log(add(exp(x), exp(y))), math.log(math.exp(x) + math.exp(y)))
    assert log(exp(x)) == x
    assert sqrt(exp(x)) == exp(x / 2)


@pytest.mark.parametrize("bits", [40, 120, 500])
@given(x=st.fractions(Fraction(1, 50), 50, max_denominator=50))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_narrower_enclosures_lie_within(bits: int, x: Fraction) -> None:
    for bounded in (enclosures.exp_bounds, enclosures.log_bounds, enclosures.sqrt_bounds):
        (a, b), (c, d) = bounded(x, bits), bounded(x, 2 * bits)
        assert a <= c <= d <= b
        assert b - a <= max(1, b) * Fraction(1, 1 << (bits - 8))


def test_what_is_zero_is_known_to_be() -> None:
    with pytest.raises(Undefined, match="division by 0"):
        inv(add(mul(exp(Fraction(1)), exp(Fraction(-1))), Fraction(-1)))
    with pytest.raises(Undefined, match="subtracted"):
        neg(BOTTOM)
    assert exp(BOTTOM) == 0


def _array(axes: str, *values: int) -> exact_execution.ExactArray:
    names = axes.split()
    return exact_execution.build(names, (len(values),), lambda i: Fraction(values[i[0]]))


def test_an_element_without_a_value_spoils_what_needs_it_only() -> None:
    program = {
        "inputs": [{"name": "A", "axes": [["x", "n"]], "element": "real"}],
        "nodes": [
            {"op": "const", "value": "1"},
            {"op": "map", "fn": "div", "args": [1, 0]},
            {"op": "const", "value": "0"},
            {"op": "map", "fn": "ne", "args": [0, 3]},
            {"op": "map", "fn": "where", "args": [4, 2, 3]},
            {"op": "reduce", "monoid": "sum", "axis": "x", "args": [2]},
        ],
        "outputs": [[2, "real"], [5, "real"], [6, "real"]],
    }
    quotient, guarded, total = exact_execution.run(program, [_array("x", 2, 0)], {"n": 2}, {}, {})
    assert quotient.values[0,] == Fraction(1, 2)
    assert str(quotient.values[1,]) == "division by 0 at x=1"
    assert list(guarded.values.values()) == [Fraction(1, 2), 0]
    assert isinstance(total.values[()], exact_execution.NoValue)


def test_views_read_where_their_conditions_hold() -> None:
    shifted = {
        "op": "view",
        "args": [0, 1],
        "axes": [["y", ["+", "n", 1]]],
        "reads": [
            {"at": {"x": ["+", ["i", "y"], -1]}, "where": [["le", 1, ["i", "y"]]]},
            {"at": {}, "where": []},
        ],
    }
    program = {
        "inputs": [
            {"name": "A", "axes": [["x", "n"]], "element": "real"},
            {"name": "c", "axes": [], "element": "real"},
        ],
        "nodes": [shifted],
        "outputs": [[2, "real"]],
    }
    given_ = [_array("x", 5, 6), exact_execution.build((), (), lambda _: Fraction(9))]
    (out,) = exact_execution.run(program, given_, {"n": 2}, {}, {})
    assert list(out.values.values()) == [9, 5, 6]
    shifted["reads"][0]["where"] = []
    (out,) = exact_execution.run(program, given_, {"n": 2}, {}, {})
    assert str(out.values[0,]) == "x is read at -1, out of 2 at y=0"


def test_views_gather_and_split() -> None:
    gathered = {
        "op": "view",
        "args": [0, 1],
        "axes": [["k", "k"]],
        "reads": [{"at": {"x": ["+", ["*", ["//", ["w", 1], 2], 2], 0]}, "where": []}],
    }
    program = {
        "inputs": [
            {"name": "A", "axes": [["x", "n"]], "element": "real"},
            {"name": "I", "axes": [["k", "k"]], "element": "int"},
        ],
        "nodes": [gathered],
        "outputs": [[2, "real"]],
    }
    (out,) = exact_execution.run(program, [_array("x", 5, 6, 7), _array("k", 3, 1, 4)], {"n": 3, "k": 3}, {}, {})
    assert out.values[0,] == 7
    assert out.values[1,] == 5
    assert str(out.values[2,]) == "x is read at 4, out of 3 at k=2"
