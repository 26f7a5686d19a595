"""Numbers of 8 bits, and axes shorter than matrix units take: compiled for Hopper, and run in the interpreter."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.measure.bench_kernels import kernels_of, planned
from catdiag.planner.compiled_plan import compiled_of
from catdiag.planner.fit import fit
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search

pytestmark = pytest.mark.triton
MOST = 227 * 1024


@cd.algorithm("q x -> q", name="peak")
def peak(A: Any) -> Any:
    return cd.max(A, "x") + cd.sum(cd.exp(A), "x")


@cd.algorithm("q d, x d -> q x", name="scores")
def scores(A: Any, B: Any) -> Any:
    return cd.einsum("q d, x d -> q x", A, B)


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
        assert code.shared < MOST / 2 and not code.spills

    def test_the_first_choice_is_one_that_can_be_run(self) -> None:
        operator, sizes = cd.library.get("latent_attention"), {"q": 19, "h": 5, "c": 80, "r": 16, "x": 331}
        first = planned(operator, "H200", sizes)[0]
        (kernel,) = kernels_of(first, "H200", sizes, most=1)
        plan = fit(first.derivation, "H200", sizes)
        assert (kernel.options["num_warps"], kernel.options["num_stages"]) == (plan.warps, plan.stages)
        codes = plan.compile().binaries(sizes)
        assert all(code.shared < MOST and not code.spills for code in codes)
        assert abs(max(code.shared for code in codes) - plan.shared_memory_bytes) <= 1024


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
