"""Numbers of 8 bits, and axes shorter than matrix units take: compiled for Hopper, and run in the interpreter."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.codegen.python_source import read_code
from catdiag.codegen.triton.triton_module import module
from catdiag.execute.size_inference import tile_bounds
from catdiag.measure.bench_kernels import kernels_of, planned
from catdiag.planner.compiled_plan import compiled_of
from catdiag.planner.fit import fit
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.runtime import machine_code
from catdiag.runtime.abstract_interpreter.shared_memory import shared_of_launch
from catdiag.runtime.machine_code import binaries
from catdiag.util.errors import CatdiagError

pytestmark = pytest.mark.triton
MOST = 227 * 1024
NARROW = [("bf16", 16, 64, 4), ("bf16", 32, 64, 4), ("fp8", 16, 64, 4)]
"""Types, columns, rows and warps of products of which ptxas made wrong instructions of warpgroups."""


@cd.algorithm("q x -> q", name="peak")
def peak(A: Any) -> Any:
    return cd.max(A, "x") + cd.sum(cd.exp(A), "x")


@cd.algorithm("q d, x d -> q x", name="scores")
def scores(A: Any, B: Any) -> Any:
    return cd.einsum("q d, x d -> q x", A, B)


@cd.algorithm("q d, x d, x v -> q v", name="of_computed_values")
def of_computed_values(Q: Any, K: Any, V: Any) -> Any:
    weights = cd.maximum(cd.einsum("q d, x d -> q x", Q, K), 0)
    return cd.einsum("q x, x v -> q v", weights, V * V)


@cd.algorithm("q d, x d, x v -> q v", name="of_values")
def of_values(Q: Any, K: Any, V: Any) -> Any:
    return cd.einsum("q x, x v -> q v", cd.maximum(cd.einsum("q d, x d -> q x", Q, K), 0), V)


@cd.algorithm("q d, h x d, h x v -> q v", name="of_heads")
def of_heads(Q: Any, K: Any, V: Any) -> Any:
    return cd.einsum("h q x, h x v -> q v", cd.maximum(cd.einsum("q d, h x d -> h q x", Q, K), 0), V)


def windows(*streamed: str) -> cd.category.Diagram:
    form = cd.library.get("conv1d")
    for axis in streamed:
        form = fold_search.find(diagram_of(form), axis).diagram
    return group.find(diagram_of(form), ["n", "y", "o"])


@pytest.mark.usefixtures("compiling")
class TestCompiled:
    def test_what_is_masked_may_be_of_8_bits(self) -> None:
        for form, tiles in ((peak, {}), (fold_search.find(peak.diagram, "x").diagram, {"s_x": 64})):
            assert compiled_of(form, peak, tiles, "fp8").binaries({"q": 40, "x": 100})

    @pytest.mark.parametrize(("kind", "columns", "rows", "warps"), NARROW)
    def test_narrow_factors_that_are_made_in_registers_are_read_where_they_lie(
        self, kind: str, columns: int, rows: int, warps: int
    ) -> None:
        form = group.find(of_computed_values.diagram, ["q", "v"])
        kernel = compiled_of(form, of_computed_values, {"g_q": rows, "g_v": columns}, kind, warps=warps)
        (code,) = kernel.binaries({"q": 203, "x": 64, "d": 64, "v": 144})
        assert not code.unwritten_registers
        assert "wgmma" in code.assembly and "mma.sync" in code.assembly

    @pytest.mark.parametrize("kind", ["bf16", "fp8"])
    def test_narrow_factors_that_are_read_outside_of_loops_are_read_where_they_lie(self, kind: str) -> None:
        form = group.find(cd.library.get("expert_mlps"), ["e", "t", "o"])
        kernel = compiled_of(form, cd.library.get("expert_mlps"), {"g_e": 1, "g_t": 64, "g_o": 32}, kind)
        (code,) = kernel.binaries({"e": 8, "t": 101, "d": 144, "f": 176, "o": 144})
        assert not code.unwritten_registers

    def test_narrow_factors_that_are_read_by_addresses_are_multiplied_by_single_warps(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        form = group.find(fold_search.find(of_values.diagram, "x").diagram, ["q", "v"])
        kernel = compiled_of(form, of_values, {"g_q": 64, "g_v": 16, "s_x": 64}, "fp16", stages=3)
        sizes = {"q": 203, "x": 331, "d": 64, "v": 80}
        (boxed,) = kernel.binaries(sizes)
        made = machine_code._argument

        def transposed(*given: Any) -> Any:
            return made(*given).mT.contiguous().mT

        monkeypatch.setattr(machine_code, "_argument", transposed)
        (addressed,) = kernel.binaries(sizes)
        assert ["mma.sync" in code.assembly for code in (boxed, addressed)] == [False, True]

    def test_factors_with_an_axis_of_one_entry_between_others_are_read_where_they_are_copied_to(self) -> None:
        experts = cd.algorithm("t n m, n m d -> t n d")(lambda H, W: cd.einsum("t n m, n m d -> t n d", H, W))
        form = experts.stream("m").group("t n d")
        made = module(form, {"g_t": 128, "g_n": 1, "g_d": 256, "s_m": 64}, "bf16", stages=3, warps=8)
        (binary,) = binaries(made, {"t": 1024, "n": 8, "m": 2048, "d": 1024})
        assert "warp_group_dot" in binary.stages["ttgir"] and "local_load" not in binary.stages["ttgir"]

    @pytest.mark.parametrize(("columns", "stages"), [(16, 2), (64, 3)])
    def test_merged_rows_are_read_where_they_are_copied_to(self, columns: int, stages: int) -> None:
        form = group.find(fold_search.find(of_heads.diagram, "x").diagram, ["q", "v"])
        kernel = compiled_of(form, of_heads, {"g_q": 64, "g_v": columns, "s_x": 16}, stages=stages)
        sizes = {"q": 256, "x": 512, "d": 128, "v": 128, "h": 8}
        (code,), (launch,) = kernel.binaries(sizes), kernel.launches(sizes)
        assert 0 <= code.shared_bytes - shared_of_launch(read_code(kernel.text), launch, 9).bytes < 1024

    def test_products_of_8_bits_sum_32_at_least(self) -> None:
        form = group.find(scores.diagram, ["q", "x"])
        sizes = {"q": 100, "x": 70, "d": 16}
        assert compiled_of(form, scores, {"g_q": 64, "g_x": 64}, "fp8").binaries(sizes)
        choice = kernels_of(scores.stream("d").group("q x"), "H200", sizes, "fp8", most=1)[0]
        assert choice.options["s_d"] >= 32

    def test_a_short_axis_beside_a_long_one_is_not_filled_up(self) -> None:
        tiles = {"g_n": 1, "g_y": 128, "g_o": 128, "s_c": 16}
        kernel = compiled_of(windows("c"), cd.library.get("conv1d"), tiles, stages=3, warps=8)
        (code,) = kernel.binaries({"n": 2, "x": 514, "y": 512, "c": 64, "k": 3, "o": 128})
        assert code.shared_bytes < MOST / 2 and not code.spills

    def test_8_bits_take_half_of_what_they_sum_from_a_short_axis(self) -> None:
        tiles = {"g_n": 1, "g_y": 64, "g_o": 32, "s_c": 16}
        kernel = compiled_of(windows("c"), cd.library.get("conv1d"), tiles, "fp8")
        sizes = {"n": 2, "x": 205, "y": 203, "c": 32, "o": 48}
        (code,) = kernel.binaries({**sizes, "k": 3})
        assert not code.spills
        with pytest.raises(CatdiagError, match="s_c is 16: expected at least 32"):
            kernel.binaries({**sizes, "k": 1})

    @pytest.mark.parametrize("dtype", ["fp16", "fp8"])
    def test_products_of_what_is_no_number_of_16_bits_compile(self, dtype: str) -> None:
        program = cd.library.get("random_feature_attention")
        form = group.find(fold_search.find(program.diagram, "x").diagram, ["q", "v"])
        kernel = compiled_of(form, program, {"g_q": 64, "g_v": 32, "s_x": 64}, dtype)
        (code,) = kernel.binaries({"q": 203, "x": 331, "d": 64, "m": 48, "v": 80})
        assert code.shared_bytes < MOST and not code.spills

    def test_the_first_choice_is_one_that_can_be_run(self) -> None:
        operator, sizes = cd.library.get("latent_attention"), {"q": 19, "h": 5, "c": 80, "r": 16, "x": 331}
        first = planned(operator, "H200", sizes)[0]
        (kernel,) = kernels_of(first, "H200", sizes, most=1)
        plan = fit(first.derivation, "H200", sizes)
        assert (kernel.options["num_warps"], kernel.options["num_stages"]) == (plan.warps, plan.stages)
        assert plan.module is not None
        codes = binaries(plan.module, sizes)
        assert all(code.shared_bytes < MOST and not code.spills for code in codes)
        assert abs(max(code.shared_bytes for code in codes) - plan.shared_memory_bytes) <= 1024


@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_products_over_a_short_axis_and_another_are_right(self) -> None:
        program = cd.algorithm("n k c, k c o -> n o", name="both")(
            lambda A, W: cd.einsum("n k c, k c o -> n o", A, W) + cd.sum(cd.max(A, "k"), "c")
        )
        streamed = group.find(fold_search.find(program.diagram, "c").diagram, ["n", "o"])
        whole = group.find(program.diagram, ["n", "o"])
        for form, tiles in ((streamed, {"s_c": 16}), (streamed, {"s_c": 2}), (whole, {})):
            kernel = compiled_of(form, program, {"g_n": 8, "g_o": 16, **tiles}, "fp32")
            cd.testing.assert_compiled(
                kernel, {"n": [1, 9], "k": [1, 3, 5], "c": [1, 5, 20], "o": [1, 17]}, trials=4, repeats=False
            )

    @pytest.mark.parametrize("dtype", ["fp16", "fp8"])
    def test_a_factor_that_is_no_number_of_16_bits_is_not_rounded_to_them(self, dtype: str) -> None:
        torch = pytest.importorskip("torch")
        program = cd.algorithm("q d, x d, x v -> q v", name="features")(
            lambda Q, K, V: cd.einsum("q x, x v -> q v", cd.exp(cd.einsum("q d, x d -> q x", Q, K)), V) * 2.0**-20
        )
        form = group.find(fold_search.find(program.diagram, "x").diagram, ["q"])
        kernel = compiled_of(form, program, {"g_q": 32, "s_x": 32}, dtype)
        kind = {"fp16": torch.float16, "fp8": torch.float8_e4m3fn}[dtype]
        one, V = torch.ones(16, 16).to(kind), torch.ones(16, 32).to(kind)
        found = kernel(one, one, V).double()
        torch.testing.assert_close(found, torch.full_like(found, 16 * torch.e**16 / 2**20), rtol=1e-2, atol=0)


def test_an_exponential_of_known_bound_is_rounded_to_16_bits() -> None:
    for name, bounded in (("attention", True), ("causal_attention", True), ("random_feature_attention", False)):
        program = cd.library.get(name)
        form = group.find(fold_search.find(program.diagram, "x").diagram, ["q", "v"][: 1 + (not bounded)])
        tiles = {"g_q": 64, "g_v": 32, "s_x": 64}
        text = module(form, {t: tiles[t] for t in tile_bounds(form)}, "fp16").text
        assert (".to(V.dtype.element_ty), V_tile" in text) == bounded, text
