"""Streams and groups over axes of every kind and name, and blocks in which everything is masked."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.ops import FoldOp, GroupOp
from catdiag.rewrite.derivation import Derivation


def tiles(derivation: Derivation, size: int) -> dict[str, int]:
    """Every block and tile of a derivation, with one size for all."""
    found: dict[str, int] = {}
    boxes = list(derivation.diagram.boxes)
    for box in boxes:
        if isinstance(box.op, GroupOp):
            found.update((local, size) for _, local in box.op.tiles)
            boxes.extend(box.op.body.boxes)
        elif isinstance(box.op, FoldOp):
            found[box.op.block] = size
    return found


def agree(diagram: cd.category.Diagram, derivation: Derivation, *arrays: np.ndarray) -> None:
    assert not derivation.theorem.conditional
    for size in (1, 2, 3, 100):
        np.testing.assert_allclose(derivation.run(*arrays, tiles=tiles(derivation, size)), diagram(*arrays), atol=1e-12)


def weighted(signature: str, q: str, d: str, x: str, v: str) -> cd.category.Diagram:
    def function(Q, K, V):
        scores = cd.einsum(f"{q} {d}, {x} {d} -> {q} {x}", Q, K)
        return cd.einsum(f"{q} {x}, {x} {v} -> {q} {v}", cd.softmax(scores, x), V)

    return cd.algorithm(signature, name="weighted")(function)


@pytest.mark.parametrize(
    ("q", "d", "x", "v"),
    [
        ("α", "δ", "ξ", "β"),
        pytest.param("q", "s_x", "x", "g_q", marks=pytest.mark.slow),
        pytest.param("s_x", "g_x", "x", "x_", marks=pytest.mark.slow),
        ("q", "d", "5", "v"),
        pytest.param("q", "2", "x", "v", marks=pytest.mark.slow),
        ("q", "d", "x+y", "v"),
        ("q", "d", "(x y)", "v"),
        pytest.param("(h q)", "d", "x", "v", marks=pytest.mark.slow),
        pytest.param("q+r", "d", "x", "v", marks=pytest.mark.slow),
        pytest.param("E", "I", "S", "N", marks=pytest.mark.slow),
    ],
)
def test_any_axis_is_streamed_and_grouped(q: str, d: str, x: str, v: str) -> None:
    diagram = weighted(f"{q} {d}, {x} {d}, {x} {v} -> {q} {v}", q, d, x, v)
    rng = np.random.default_rng(0)
    depth = 2 if d == "2" else 5
    arrays = [rng.normal(size=shape) for shape in ((6, depth), (5, depth), (5, 4))]
    streamed = diagram.stream(x)
    agree(diagram, streamed, *arrays)
    grouped = streamed.group(f"{q} {v}")
    agree(diagram, grouped, *arrays)
    agree(diagram, streamed.group(q).group([v]), *arrays)
    symbols = [str(s) for s in (*grouped.io().groups, *streamed.io().streams)]
    assert len(set(symbols)) == 3
    assert not {*symbols} & {q, d, x, v}


def test_two_tiles_have_two_symbols() -> None:
    diagram = cd.algorithm("(a b) _a_b_")(lambda X: cd.exp(X))
    agree(diagram, diagram.group("(a b) _a_b_"), np.random.default_rng(0).normal(size=(4, 3)))


@pytest.mark.parametrize("level", [-1e4, -1.0, 0.0, 1e4])
def test_first_blocks_masked(level: float) -> None:
    @cd.algorithm("q x, x v, bool[q x] -> q v")
    def masked(S, V, keep):
        return cd.einsum("q x, x v -> q v", cd.softmax(cd.where(keep, S, -float("inf")), "x"), V)

    rng = np.random.default_rng(0)
    scores, values = rng.normal(size=(3, 7)) + level, rng.normal(size=(7, 2))
    keep = np.arange(7) >= np.array([[4], [6], [0]])
    agree(masked, masked.stream("x"), scores, values, keep)
    agree(masked, masked.stream("x").group("q"), scores, values, keep)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_first_blocks_masked_in_every_floating_type(kind: str) -> None:
    @cd.algorithm("x, x, bool[x] ->")
    def masked(S, V, keep):
        return cd.sum(cd.softmax(cd.where(keep, S, -float("inf")), "x") * V, "x")

    rng = np.random.default_rng(0)
    scores, values = (rng.normal(size=8).astype(kind) for _ in range(2))
    keep = np.arange(8) >= 5
    found = masked.stream("x").run(scores, values, keep, tiles={"s_x": 2})
    np.testing.assert_allclose(found, masked(scores, values, keep), atol=1e-2 if kind == "float16" else 1e-6)


def test_constants_too_large_for_a_type_stay_finite() -> None:
    lowered = cd.algorithm("x")(lambda X: cd.maximum(X, -(10**400)) + 10**30)
    assert lowered(np.ones(2, np.float16)).tolist() == [65504.0, 65504.0]
    assert lowered(np.ones(2)).tolist() == [1e30, 1e30]
