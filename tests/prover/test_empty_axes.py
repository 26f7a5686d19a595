"""Axes that may be empty: loops and groups over nothing are proved, and run on exact numbers and on floats."""

from __future__ import annotations

import pytest

import catdiag as cd
from catdiag.prover.api import statement_of
from catdiag.prover.refute.counterexample_search import refute


@pytest.mark.parametrize(
    ("entry", "axes", "empty"),
    [("max_pool", "n y x c", "y"), ("matmul", "a c", "a"), ("attention", "q", "q"),
     ("embedding", "t d", "t")],
)  # fmt: skip
def test_groups_over_nothing(entry: str, axes: str, empty: str) -> None:
    whole = cd.library.get(entry)
    grouped = whole.group(axes).diagram
    assume = [f"{empty} >= 0"]
    assert not cd.prove(whole, grouped, assume).conditional
    assert refute(statement_of(whole.diagram, grouped, assume), tries=8, operations=1_000_000) is None


def test_a_loop_over_nothing() -> None:
    whole = cd.library.get("dot")
    streamed = whole.stream("x").diagram
    assert not cd.prove(whole, streamed, ["x >= 0"]).conditional
    one_more = cd.algorithm("x, x ->")(lambda A, B: cd.sum(A * B, "x") + cd.where(cd.size("x") < 1, 1, 0))
    with pytest.raises(cd.Refuted) as error:
        cd.prove(whole, one_more, ["x >= 0"])
    assert error.value.counterexample.sizes == {"x": 0}
    assert not cd.prove(whole, one_more).conditional
