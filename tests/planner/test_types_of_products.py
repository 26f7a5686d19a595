"""In which type products are made, and which of them matrix units make: in predictions as in kernels."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.codegen.triton.triton_module import module
from catdiag.planner.configuration_candidates import Candidates
from catdiag.planner.fit import searching
from catdiag.planner.time_model.kernel_instance import KernelInstance
from catdiag.planner.time_model.matrix_units import warpgroup_product_seconds, widened_factor_seconds
from catdiag.schedule.stored_types import worked_in
from tests.forms import form, unproved

SIZES = {"q": 2048, "x": 2048, "d": 128}
ARRAYS = {"Q": "bf16", "K": "bf16", "V": "bf16", "out": "bf16"}


@cd.algorithm("q d, x d, x d, q -> q d")
def weighted(Q: Any, K: Any, V: Any, L: Any) -> Any:
    return cd.einsum("q x, x d -> q d", cd.exp(cd.einsum("q d, x d -> q x", Q, K) - L), V)


@cd.algorithm("q d, x d, x d, q -> q d")
def scaled(Q: Any, K: Any, V: Any, L: Any) -> Any:
    return cd.einsum("q x, x d -> q d", cd.einsum("q d, x d -> q x", Q * L, K * 2), cd.exp(V))


@pytest.mark.parametrize("program", [weighted, scaled])
@pytest.mark.parametrize("chip", ["H100", "A100"])
def test_what_is_only_added_or_scales_slows_no_product(program: Any, chip: str) -> None:
    form = program.stream("x").group("q")
    short = form.plan(chip, SIZES, dtype={**ARRAYS, "L": "bf16"}, backend="ideal")
    wide = form.plan(chip, SIZES, dtype={**ARRAYS, "L": "fp32"}, backend="ideal")
    assert short.time_s <= wide.time_s <= 1.05 * short.time_s
    assert wide.parts_s["tensor"] == pytest.approx(short.parts_s["tensor"])
    text = module(form.diagram, {"g_q": 64, "s_x": 64}, {**ARRAYS, "L": "fp32"}).text
    assert "tf32x3" not in text and "L.dtype" not in text


def test_products_are_in_the_type_that_the_kernel_hands_over() -> None:
    form = unproved(weighted.diagram, "x", "q")
    for types, kind in (
        ({**ARRAYS, "L": "fp32"}, "bf16"),
        ({**ARRAYS, "V": "fp32", "L": "bf16"}, "fp32"),
        ({**ARRAYS, "K": "fp16", "L": "fp32"}, "bf16"),
    ):
        assert worked_in(diagram_of(form), types) == kind
        text = module(form, {"g_q": 64, "s_x": 64}, types).text
        dots = [line for line in text.splitlines() if "tl.dot(" in line]
        assert any("tf32x3" in line for line in dots) == (kind == "fp32")


def test_arrays_that_are_not_named_are_counted_as_they_are_written() -> None:
    form = weighted.stream("x").group("q")
    plan = form.plan("H100", SIZES, dtype={"Q": "bf16", "K": "bf16", "V": "bf16", "L": "fp32"})
    assert "out = torch.empty((q, d), dtype=torch.float32" in plan.code("triton")
    assert plan.save_bytes == 4 * SIZES["q"] * SIZES["d"]


@cd.algorithm("int[q d], int[x d] -> int[q x]")
def whole(A: Any, B: Any) -> Any:
    return cd.einsum("q d, x d -> q x", A, B)


@cd.algorithm("int[q d], x d -> q x")
def mixed(A: Any, B: Any) -> Any:
    return cd.einsum("q d, x d -> q x", A, B)


@cd.algorithm("q d, x d -> q x")
def real(A: Any, B: Any) -> Any:
    return cd.einsum("q d, x d -> q x", A, B)


@pytest.mark.parametrize("program", [whole, mixed, real])
def test_matrix_units_are_counted_where_the_kernel_has_them(program: Any) -> None:
    form = program.stream("d").group("q x")
    plan = form.plan("H100", SIZES)
    made = module(form.diagram, {"g_q": 64, "g_x": 64, "s_d": 32}).text
    units = "tl.dot(" in made
    assert units == (program is real)
    work = form.io().work
    assert (work["tensor"] != 0) is units
    assert work["tensor"] + work["alu"] == real.stream("d").group("q x").io().work["tensor"]
    assert (plan.parts_s["tensor"] > 0) is units
    assert units == any("matrix" in line for line in str(plan).splitlines() if line.startswith(("pieces", "bound")))


@cd.algorithm("q d, d -> q")
def by_vector(A: Any, b: Any) -> Any:
    return cd.einsum("q d, d -> q", A, b)


def test_matrix_units_take_no_vectors() -> None:
    form = by_vector.stream("d").group("q")
    plan = form.plan("H100", {"q": 4096, "d": 1024})
    assert "tl.dot(" not in module(form.diagram, {"g_q": 64, "s_d": 64}).text
    assert plan.parts_s["tensor"] == plan.parts_s["SMEM"] == 0 < plan.parts_s["alu"]
    assert not any(line.startswith("pieces") and "matrix" in line for line in str(plan).splitlines())


def test_a_product_of_what_was_computed_from_8_bits_takes_the_time_of_16() -> None:
    seconds: dict[str, tuple[float, float]] = {}
    for dtype in ("bf16", "fp8"):
        found = Candidates(
            searching(form("attention", "x", "q"), "H200", {"q": 4096, "x": 4096, "d": 128}, dtype), dtype=dtype
        )
        values = found.search.full({**found.sizes, "g_q": 128, "s_x": 128})
        k = KernelInstance(found.kernels[2], found.search.chip, values, stages=2, warps=8)
        seconds[dtype] = warpgroup_product_seconds(k, found.blocks[2])[0], widened_factor_seconds(k)
    text = module(form("attention", "x", "q"), {"g_q": 128, "s_x": 128}, "fp8").text
    assert "to(tl.float16), V_tile.to(tl.float16)" in text
    assert seconds["fp8"][0] == pytest.approx(0.75 * seconds["bf16"][0], rel=1e-3), (
        "one product at twice the rate, the other not"
    )
    assert seconds["fp8"][1] > seconds["bf16"][1] == 0


@pytest.mark.parametrize("kind", ["fp8", "bf16"])
def test_factors_that_are_widened_from_8_bits_have_columns_enough(kind: str) -> None:
    sizes = {"e": 8, "t": 101, "d": 144, "f": 176, "o": 144}
    plan = cd.library.expert_mlps.plan("H200", sizes, dtype=kind)
    tiles = {name.split("_")[1]: length for name, length in plan.tiles.items() if name.startswith("g_")}
    assert kind == "bf16" or tiles["t"] < 64 or tiles["o"] >= 64
    tiles = {"g_e": 1, "g_t": 64, "g_o": 32}
    given = cd.library.expert_mlps.group("e t o").plan("H200", sizes, dtype=kind, backend="triton", tiles=tiles)
    assert "_dot_of_registers(" in given.code("triton")
