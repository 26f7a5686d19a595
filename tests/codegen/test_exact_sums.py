"""Sums of products of computed tiles: added in float32, not as matrix products of fewer digits."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import module
from catdiag.planner.compiled_plan import compiled_of
from catdiag.rewrite import group
from catdiag.runtime.machine_code import binaries

pytestmark = pytest.mark.triton


@cd.algorithm("q k, k v -> q v")
def weighted(A: Any, B: Any) -> Any:
    return cd.sum(cd.exp(A) * cd.exp(B), "k")


@cd.algorithm("q k, k v -> q v")
def squares(A: Any, B: Any) -> Any:
    return cd.sum(cd.exp(B) * (A * A), "k")


def form(program: cd.Program) -> cd.category.Diagram:
    return group.find(program.diagram, ["q", "v"])


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("program", [weighted, squares], ids=["weighted", "squares"])
@pytest.mark.parametrize("summed", [16, 8])
def test_no_matrix_product_has_one_pass_of_tf32(program: cd.Program, summed: int) -> None:
    """Triton makes a product in tf32 of the sum of x[:, :, None] * y[None, :, :] along the second axis.

    Three products in tf32, of the parts of each factor, are as exact as float32. Masked products are added instead.
    """
    made = module(form(program), {"g_q": 16, "g_v": 16}, "fp32")
    (code,) = binaries(made, {"q": 64, "k": summed, "v": 64})
    products = [line for line in code.stages["ttir"].splitlines() if "tt.dot" in line]
    assert all("inputPrecision = tf32x3" in line for line in products)
    assert len(products) == (summed >= 16 and program is squares)


@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize("program", [weighted, squares], ids=["weighted", "squares"])
    def test_short_and_long_sums_are_right(self, program: cd.Program) -> None:
        kernel = compiled_of(form(program), program, {"g_q": 16, "g_v": 16}, "fp32")
        cd.testing.assert_compiled(kernel, {"q": [5], "v": [17], "k": [3, 40]}, trials=2, repeats=False)
