"""Kernels that read where arrays of integers say, in Triton's interpreter (pytest -m triton)."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.planner.compiled_plan import compiled_of
from catdiag.rewrite.group import find
from tests.gathers import mixed, permuted


@cd.algorithm("v d, int[t], d o -> t o")
def projected(table: Any, tokens: Any, W: Any) -> Any:
    return cd.einsum("t d, d o -> t o", cd.gather(table, "v", tokens), W)


def test_positions_that_data_says_are_wide_enough_for_large_arrays() -> None:
    from catdiag.codegen.triton.triton_module import module

    text = module(find(cd.library.get("embedding").diagram, ["t", "d"]), {"g_t": 16, "g_d": 16}, "bf16").text
    assert "tl.cast(tokens_tile, tl.int64) * table_v" in text


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize(
        ("program", "axes"), [(permuted, "t d"), (mixed, "t d"), (projected, "t o"), (projected, "t")]
    )
    @pytest.mark.parametrize("tile", [1, 16])
    def test_they_give_what_they_mean(self, program: cd.category.Diagram, axes: str, tile: int) -> None:
        form = find(program, axes.split())
        cd.testing.assert_compiled(compiled_of(form, program, {f"g_{a}": tile for a in axes.split()}, "fp32"), trials=4)

    def test_what_is_streamed_is_picked_from_too(self) -> None:
        entropy = cd.library.get("cross_entropy")
        form = entropy.stream("v").group("t").diagram
        cd.testing.assert_compiled(
            compiled_of(form, entropy, {"g_t": 4, "s_v": 16}, "fp32"), {"v": [1, 15, 16, 40]}, trials=6
        )
