"""Assertions about what is proved: what they say of what is not."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.testing import assert_counts_match, assert_equivalent, assert_streams
from catdiag.util.errors import AxisError, SizeError

total = cd.algorithm("q x -> q", name="total")(lambda A: cd.sum(A, "x"))


def test_arrays_of_a_refutation_can_be_pasted() -> None:
    squares = cd.algorithm("q x -> q", name="squares")(lambda A: cd.sum(A * A / 3, "x"))
    with pytest.raises(AssertionError) as caught:
        assert_equivalent(total, squares)
    text = str(caught.value)
    assert text.startswith("total = squares is false: left gives ")
    (line,) = [line.strip() for line in text.split("\n") if line.startswith("    A = ")]
    given: dict[str, np.ndarray] = {}
    exec(line, {"np": np}, given)
    assert total(given["A"]) != squares(given["A"])


def test_conditions_undecided_and_interrupted_are_failures() -> None:
    divided = cd.algorithm("q x -> q", name="divided")(lambda A: cd.sum(A * A / A, "x"))
    with pytest.raises(AssertionError, match="total = divided holds only where "):
        assert_equivalent(total, divided)
    assert assert_equivalent(total, divided, conditional=True).conditional
    with pytest.raises(AssertionError, match="no verdict within 1e-09 s"):
        assert_equivalent(total, divided, limit=1e-9)
    with pytest.raises(cd.errors.TypeMismatch):
        assert_equivalent(total, cd.library.get("softmax"))


def test_streams() -> None:
    assert assert_streams(total, "x").theorem.statement
    with pytest.raises(AxisError):
        assert_streams(total, "z")
    cubes = cd.algorithm("x -> x", name="cubes")(lambda A: A / cd.sum(A, "x"))
    with pytest.raises(AssertionError, match=r"cubes does not stream along 'x': (.|\n)*at .*test_claims.py"):
        assert_streams(cubes, "x")


def test_unknown_sizes_and_tiles_are_refused() -> None:
    form = group.find(fold_search.find(total.diagram, "x").diagram, ["q"])
    with pytest.raises(SizeError, match="sizes names 'k': the diagram has q, x"):
        assert_counts_match(form, 2, sizes={"k": 3})
    with pytest.raises(SizeError, match="tiles names 's_q': the diagram has g_q, s_x"):
        assert_counts_match(form, 2, tiles={"s_q": 3})
    assert_counts_match(form, 1, sizes={"x": 5}, tiles={"s_x": 2})
