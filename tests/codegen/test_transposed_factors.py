"""Factors that are turned in shared memory: only where the compiler's two views of them are of the same bytes."""

from __future__ import annotations

import re
from typing import Any

import pytest

import catdiag as cd
from catdiag.planner.compiled_plan import compiled_of
from catdiag.rewrite import group

pytestmark = pytest.mark.triton

WIDTHS = {"bf16": 2, "f16": 2, "f8E4M3FN": 1}


@cd.algorithm("q d, x d -> q x")
def scores(A: Any, B: Any) -> Any:
    return cd.exp(cd.einsum("q d, x d -> q x", A, B))


def pieces(ttgir: str) -> list[tuple[int, int]]:
    """Of each matrix that is read turned, into how many pieces shared memory cuts it, down and across."""
    found = []
    for rows, columns, kind in re.findall(r"memdesc_trans.*: !ttg.memdesc<(?:\d+x)?(\d+)x(\d+)x(\w+), ", ttgir):
        found.append((-(-int(rows) // 256), -(-int(columns) * WIDTHS[kind] // 128)))
    return found


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize(
    ("kind", "x", "d", "turned"),
    [("bf16", 256, 128, True), ("bf16", 512, 64, True), ("bf16", 512, 128, False), ("fp8", 512, 256, False)],
)
def test_what_is_turned_in_shared_memory_has_several_pieces_one_way_only(
    kind: str, x: int, d: int, turned: bool
) -> None:
    form = group.find(scores.diagram, ["q", "x"])
    kernel = compiled_of(form, scores, {"g_q": 64, "g_x": x}, kind, stages=2, warps=8)
    (code,) = kernel.binaries({"q": 64, "x": x, "d": d})
    read = pieces(code.stages["ttgir"])
    assert all(min(down, across) == 1 for down, across in read)
    assert bool(read) is turned, "what fits is turned as it lies"


@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_large_factors_are_right(self) -> None:
        form = group.find(scores.diagram, ["q", "x"])
        kernel = compiled_of(form, scores, {"g_q": 16, "g_x": 512}, "fp32")
        cd.testing.assert_compiled(kernel, {"q": [5], "x": [300, 512], "d": [40]}, trials=2, repeats=False)
