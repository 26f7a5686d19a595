"""Axes that stand together in all arrays of a kernel, as one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.ops import Einsum
from catdiag.rewrite.join_axes import joined


def squares(Q: Any, K: Any) -> Any:
    return cd.einsum("q x, x h d -> q h d", cd.exp(cd.einsum("q h d, x h d -> q x", Q, K)), K)


def halves_apart(Q: Any, K: Any) -> Any:
    scores = cd.einsum("q h d, x h d -> q x", Q, K * (cd.index("h") + 1))
    return cd.einsum("q x, x h d -> q h d", scores, K)


def read_in_place(Q: Any, K: Any) -> Any:
    """One of two arrays that are stored as one, under another name."""
    keys = cd.reindex(K, "", p=1).rename(q="x")
    return cd.einsum("q x, x h d -> q h d", cd.einsum("q h d, x h d -> q x", Q, keys), keys)


@pytest.mark.parametrize(
    ("signature", "body", "expected"),
    [
        ("q h d, x h d", squares, {"[q x]", "[q (h d)]"}),
        ("q h d, q p h d", read_in_place, {"[q x]", "[q (h d)]"}),
        ("q h d, x h d", halves_apart, {"[q x]", "[q h d]"}),
        ("q h d, x d h", squares, {"[q x]", "[q h d]"}),  # no view as they lie in memory
    ],
)
def test_axes_are_joined_where_nothing_tells_them_apart(signature: str, body: Any, expected: set[str]) -> None:
    program = cd.algorithm(signature)(body)
    made = cd.Program(joined(program.diagram))
    assert {str(box.cod[0]) for box in made.boxes if isinstance(box.op, Einsum)} == expected
    assert cd.equivalent(program, made)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=[2] * len(ty.axes)) for ty in program.diagram.dom]
    np.testing.assert_allclose(made.run(*given), program.run(*given))


def test_summed_axes_that_no_result_has_are_left() -> None:
    """A loop may run over one of them, and groups over the other."""
    scores = cd.algorithm("q h d, x h d")(lambda Q, K: cd.einsum("q h d, x h d -> q x", Q, K))
    assert joined(scores.diagram) is scores.diagram


def test_a_kernel_with_joined_axes_runs_in_groups_of_them() -> None:
    program = cd.Program(joined(cd.algorithm("q h d, x h d")(squares).diagram))
    grouped = program.stream("x").group("q")
    assert not grouped.theorem.conditional and [str(ty) for ty in grouped.cod] == ["[q h d]"]
