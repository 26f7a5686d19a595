"""Masked diagrams: streamed and grouped, proved without a look into the mask, run in blocks that it empties."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.execute.interpreter import run
from catdiag.kernel.checker import Checker

LOW = -float("inf")
Q, X = 6, 11
AXES = {"q": Q, "x": X, "d": 3}


def scores(A: Any, B: Any) -> Any:
    return cd.einsum("q d, x d -> q x", A, B)


def contract(P: Any, V: Any) -> Any:
    return cd.einsum("q x, x d -> q d", P, V)


def masked(mask: Callable[..., Any], further: str = "") -> Diagram:
    """Attention whose scores are −∞ where a mask of positions and further arrays does not hold."""

    def program(A: Any, B: Any, V: Any, *rest: Any) -> Any:
        S = cd.where(mask(cd.index("q"), cd.index("x"), *rest), scores(A, B), LOW)
        return contract(cd.softmax(S, "x"), V)

    return cd.algorithm(f"q d, x d, x d{further} -> q d")(program)


def positions() -> tuple[Any, Any]:
    return cd.index("q"), cd.index("x")


@cd.algorithm("q d, x d, x d, int[] -> q d")
def weights_masked_by_zero(A, B, V, w):
    i, j = positions()
    P = cd.where((j <= i + w) & (i - j < 9), cd.exp(scores(A, B)), 0)
    return contract(P / cd.sum(P, "x"), V)


@cd.algorithm("q d, x d, x d, bool[q x] -> q d")
def weights_and_values_masked(A, B, V, M):
    P = cd.softmax(cd.where(M, scores(A, B), LOW), "x")
    return contract(P, cd.where(cd.index("x") < 8, V, 0))


@cd.algorithm("q d, x d, x d, bool[q x] -> q d")
def rows_of_nothing_by_any(A, B, V, M):
    out = contract(cd.softmax(cd.where(M, scores(A, B), LOW), "x"), V)
    return cd.where(cd.any(M, "x"), out, 0)


@cd.algorithm("q d, x d, x d, bool[q x] -> q d")
def rows_of_nothing_by_sum(A, B, V, M):
    S = cd.where(M, scores(A, B), LOW)
    m = cd.where(cd.any(M, "x"), cd.max(S, "x"), 0)
    P = cd.exp(S - m)
    total = cd.sum(P, "x")
    return cd.where(total == 0, 0, contract(P, V) / total)


@cd.algorithm("q d, x d, x d, bool[q x], -> q d")
def with_a_score_of_its_own(A, B, V, M, s):
    S = cd.where(M, scores(A, B), LOW)
    m = cd.maximum(cd.max(S, "x"), s)
    P = cd.exp(S - m)
    return contract(P, V) / (cd.sum(P, "x") + cd.exp(s - m))


@cd.algorithm("q d, x d, x d, int[q], int[x] -> q d, q")
def by_hand_with_logarithm(A, B, V, a, b):
    S = cd.where((a == b) | (cd.index("x") == X - 1), scores(A, B), LOW)
    m = cd.max(S, "x")
    P = cd.exp(S - m)
    total = cd.sum(P, "x")
    return contract(P, V) / total, m + cd.log(total)


@cd.algorithm("q x, x, int[] -> q")
def longest_path(A, B, w):
    i, j = positions()
    return cd.max(cd.where((j <= i + w) & ((i - j) % 3 == 0), A + B, LOW), "x")


OPERATORS = {
    "one comparison": masked(lambda i, j: X - 1 - j <= i),
    "dilated, from the end": masked(lambda i, j: ((X - 1 - j) % 2 == 0) & (X - 1 - j <= i)),
    "windows or documents": masked(
        lambda i, j, w, a, b: ((abs(i - j) <= w) & (a == b)) | ~((i < j) | (i - j >= 9)), ", int[], int[q], int[x]"
    ),
    "any": masked(lambda i, j, M: M, ", bool[q x]"),
    **{d.title: d for d in (weights_masked_by_zero, weights_and_values_masked, rows_of_nothing_by_any,
                            rows_of_nothing_by_sum, with_a_score_of_its_own, by_hand_with_logarithm, longest_path)},
}  # fmt: skip
OWN_ROWS = ("rows_of_nothing_by_any", "rows_of_nothing_by_sum", "with_a_score_of_its_own")


def inputs(diagram: Diagram, own_rows: bool) -> list[Any]:
    """Arrays of which a mask leaves one row a single element, the last, and another row nothing in its first blocks."""
    rng = np.random.default_rng(5)
    made = []
    for ty in diagram.dom:
        shape = [AXES[axis.name] for axis in ty.axes]
        if ty.element == "bool":
            M = rng.random(shape) < 0.4
            M[:, -4] = True
            M[0, :], M[1, :7] = False, False
            M[0, -4] = True
            M[2] = M[2] & (not own_rows)
            made.append(M)
        elif ty.element == "int":
            made.append(rng.integers(2, 4, shape) if shape else np.asarray(1))
        else:
            made.append(10 * rng.normal(size=shape))
    return made


# Every third element is a mask of the longest path, from the end is one comparison.
SLOW = ("by_hand_with_logarithm", "dilated, from the end")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in OPERATORS])
def test_a_masked_diagram_is_streamed_and_grouped(name, ask):
    diagram = OPERATORS[name]
    flash = cd.Program(diagram, ask).stream("x").group("q")
    theorem = flash.theorem
    again = Checker(ask).check(json.loads(theorem.text()))
    assert again == theorem.checked and not again.conditional and "A10" in again.axioms
    given = inputs(diagram, name in OWN_ROWS)
    wanted = run(diagram, given)
    for block, tile in ((1, Q), (3, 4), (4, 1), (X, Q)):
        found = flash.run(*given, tiles={"s_x": block, "g_q": tile})
        for one, other in zip(*(v if isinstance(v, tuple) else (v,) for v in (wanted, found)), strict=True):
            assert np.all(np.isfinite(one))
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)


def test_what_is_stabilised_stays_so_under_a_mask(ask):
    found = cd.Program(OPERATORS["any"], ask).stream("x").steps[0].formula
    assert "exp" in str(found.components[1]) and "max1" in str(found.components[1])


def test_a_proof_does_not_take_a_mask_apart(ask):
    one, many = (
        cd.Program(OPERATORS[name], ask).stream("x").theorem.checked for name in ("any", "windows or documents")
    )
    assert many.steps <= one.steps + 5


def test_an_emptied_block_is_left_out_by_a_proof_that_decides_what_it_must(ask):
    local = masked(lambda i, j, w: (j <= i) & (i - j < w), ", int[]")
    skipped = cd.Program(local, ask).stream("x").skip("x").group("q")
    assert not skipped.theorem.conditional
    given = [*inputs(local, False)[:3], np.asarray(2)]
    for block, tile in ((2, 2), (3, 4)):
        np.testing.assert_allclose(skipped.run(*given, tiles={"s_x": block, "g_q": tile}), run(local, given), rtol=1e-9)
