"""The simplex method behind sums of comparisons: what it finds is a solution, and what there is it finds."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from catdiag.prover.lemmas.linear_arithmetic import simplex

NUMBERS = st.sampled_from([Fraction(n) for n in (0, 0, 0, 1, -1, 2, -3)] + [Fraction(1, 2), Fraction(-2, 3)])
SOLUTIONS = st.sampled_from([Fraction(n) for n in (0, 0, 1, 2)] + [Fraction(1, 3)])


@st.composite
def systems(draw):
    """Equations with a solution, and what is to be large."""
    width = draw(st.integers(1, 7))
    rows = draw(st.lists(st.lists(NUMBERS, min_size=width, max_size=width), min_size=1, max_size=5))
    solution = draw(st.lists(SOLUTIONS, min_size=width, max_size=width))
    gain = draw(st.lists(st.sampled_from([Fraction(0), Fraction(1)]), min_size=width, max_size=width))
    return rows, solution, gain


def dot(xs, ys):
    return sum((x * y for x, y in zip(xs, ys, strict=True)), Fraction(0))


@settings(max_examples=150, deadline=None)
@given(systems())
def test_a_solution_is_found_where_there_is_one(system):
    rows, solution, gain = system
    wanted = [dot(row, solution) for row in rows]
    found = simplex(rows, wanted, gain)
    assert found is not None and min(found) >= 0
    assert [dot(row, found) for row in rows] == wanted
    assert dot(gain, found) > 0 or dot(gain, solution) == 0


def test_none_is_found_where_there_is_none():
    one, two = Fraction(1), Fraction(2)
    assert simplex([[one, one], [one, one]], [one, two], [one, one]) is None
    assert simplex([[one, one]], [-one], [one, one]) is None
