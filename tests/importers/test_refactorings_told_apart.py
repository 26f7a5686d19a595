"""The refactorings of `benchmarks/refactorings`: those that are equal are proved so, near misses are not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("einops")
from benchmarks.refactorings.__main__ import ALL_SIZES, DIFFERENT, EQUAL, EXAMPLE, OPEN, SOME, verdict
from benchmarks.refactorings.catalog import ALL

UNDECIDED = {
    "chunks of queries behind a cache", "a rotation of shifted positions", "weights of the best two",
    "experts of the best two", "the nearest code", "a divergence by entropies", "rows up to the last one",
    "every other token",
}  # fmt: skip
"""Equal, and not proved."""
AT_THE_EXAMPLE = {
    "a transposed convolution without overlaps", "pairs of factors", "a divergence of normal distributions",
}  # fmt: skip
AT_SOME_SIZES = {
    "a root mean square by a norm", "margins of classes", "a Gaussian kernel", "a covariance",
    "the best expert, in a loop", "a rotation of two axes",
}  # fmt: skip
AT_EQUAL_LENGTHS = {"linear attention in chunks", "a triangle that is added", "a band by a clamp"}
CONDITIONAL = {"neighbors averaged", "a moving average by a matrix"}
LONG = {
    "a sliding window by triangles", "a focal loss", "a padding mask of 0 and 1 that is added", "DPO's loss",
    "a divergence", "capped scores and an added mask", "a binary cross-entropy", "neighbors averaged",
    "an online softmax", "weights of halves for neighbors", "a bounded rectifier by two", "two classes, one of them 0",
}  # fmt: skip
"""They take more than two seconds."""


def _slow(name: str) -> list[pytest.MarkDecorator]:
    long = UNDECIDED | AT_THE_EXAMPLE | AT_SOME_SIZES | AT_EQUAL_LENGTHS | LONG
    return [pytest.mark.slow] if ALL[name].slow or name in long else []


@pytest.mark.parametrize("name", [pytest.param(n, marks=_slow(n)) for n in ALL])
def test_what_is_equal_is_proved_and_what_is_not_is_told_apart(name: str) -> None:
    pair = ALL[name]
    wanted = OPEN if name in UNDECIDED else EXAMPLE if name in AT_THE_EXAMPLE else ALL_SIZES
    wanted = EQUAL if name in AT_EQUAL_LENGTHS else SOME if name in AT_SOME_SIZES else wanted
    wanted = "proved, on a condition" if name in CONDITIONAL else wanted
    assert verdict(pair, pair.after) == wanted
    assert verdict(pair, pair.near_miss) == DIFFERENT
