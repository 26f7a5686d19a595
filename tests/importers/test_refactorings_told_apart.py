"""The refactorings of `benchmarks/refactorings`: those that are equal are proved so, near misses are not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from benchmarks.refactorings.__main__ import ALL_SIZES, DIFFERENT, EXAMPLE, OPEN, verdict
from benchmarks.refactorings.pairs import ALL

UNDECIDED = {"a running sum backwards", "neighbors that repeat"}
"""Equal, and not proved."""
AT_THE_EXAMPLE = {"a root mean square by a norm"}
NOT_TOLD_APART = {"a convolution by unfolding"}
"""Different, and without a small counterexample."""


def _slow(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if ALL[name].slow or name in UNDECIDED | NOT_TOLD_APART else []


@pytest.mark.parametrize("name", [pytest.param(n, marks=_slow(n)) for n in ALL])
def test_what_is_equal_is_proved_and_what_is_not_is_told_apart(name: str) -> None:
    pair = ALL[name]
    wanted = OPEN if name in UNDECIDED else EXAMPLE if name in AT_THE_EXAMPLE else ALL_SIZES
    assert verdict(pair, pair.after) == wanted
    assert verdict(pair, pair.near_miss) == (OPEN if name in NOT_TOLD_APART else DIFFERENT)
