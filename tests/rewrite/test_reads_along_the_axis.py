"""What is read at computed positions along the streamed axis, of arrays that depend on all of it."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.ops import FoldOp
from catdiag.rewrite.canonicalize import reads_before_maps


@cd.algorithm("t d, v d, int[t] -> t")
def of_the_logits(H, W, label):
    return -cd.gather(cd.nn.log_softmax(cd.einsum("t d, v d -> t v", H, W), "v"), "v", label)


@cd.algorithm("t v, int[t] -> t")
def twice(Z, label):
    p = cd.gather(cd.softmax(Z, "v"), "v", label)
    return -((1 - p) ** 2) * cd.log(p)


@cd.algorithm("t v, int[k] -> t k")
def several(Z, at):
    return cd.gather(cd.softmax(Z, "v"), "v", at)


@cd.algorithm("t v -> t")
def last(Z):
    return cd.reindex(cd.softmax(Z, "v"), "t", v=cd.size("v") - 1)


def log_softmax(Z):
    return Z - Z.max(-1, keepdims=True) - np.log(np.exp(Z - Z.max(-1, keepdims=True)).sum(-1, keepdims=True))


RNG = np.random.default_rng(0)
H, W, Z = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(3, 5))
LABEL, AT, ROWS = np.array([4, 0, 2]), np.array([1, 1, 3, 0]), np.arange(3)
P = np.exp(log_softmax(Z))
CASES = {
    "of_the_logits": (of_the_logits, (H, W, LABEL), -log_softmax(H @ W.T)[ROWS, LABEL]),
    "twice": (twice, (Z, LABEL), -((1 - P[ROWS, LABEL]) ** 2) * np.log(P[ROWS, LABEL])),
    "several": (several, (Z, AT), P[:, AT]),
    "last": (last, (Z,), P[:, -1]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_is_read_of_the_inputs(name: str) -> None:
    program, arrays, expected = CASES[name]
    derived = program.stream("v")
    assert not derived.theorem.conditional
    for block in (1, 2, 5):
        np.testing.assert_allclose(derived.run(*arrays, tiles={"s_v": block}), expected, rtol=1e-12)


def test_no_more_is_made_than_is_read() -> None:
    derived = of_the_logits.stream("v").diagram
    whole = [
        b
        for b in diagram_of(derived).boxes
        if not isinstance(b.op, FoldOp) and "v" in b.cod[0].names and "t" in b.cod[0].names
    ]
    assert not whole


def test_a_product_that_sums_over_the_positions_is_left() -> None:
    """The index array has an axis of the name that the product sums over."""
    program = cd.algorithm("t d, v d, int[d] -> t d")(
        lambda A, B, at: cd.gather(cd.einsum("t d, v d -> t v", A, B), "v", at)
    )
    assert [b.name for b in reads_before_maps(diagram_of(program), "v").boxes] == [
        b.name for b in diagram_of(program).boxes
    ]
    at = np.array([0, 1, 1, 4])
    np.testing.assert_allclose(program(H, W, at), (H @ W.T)[:, at])


def test_meaning_is_kept() -> None:
    program = cd.algorithm("t v, v, int[k] -> t k")(lambda A, b, at: cd.gather(cd.exp(A - cd.sum(A, "v")) * b, "v", at))
    arrays = Z, RNG.normal(size=5), AT
    moved = reads_before_maps(diagram_of(program), "v")
    assert [b.name for b in moved.boxes] != [b.name for b in diagram_of(program).boxes]
    np.testing.assert_array_equal(cd.Program(moved)(*arrays), program(*arrays))
