"""Sums over windows of arrays that groups read in place: what is loaded entry by entry, and what that takes."""

from __future__ import annotations

from typing import Any

import catdiag as cd
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.planner.fit import searching
from catdiag.planner.resources.elementwise_pressure import register_pressure
from catdiag.planner.time_model.core_pipelines import (
    CROSS_GATHER_INSTRUCTIONS,
    FACTOR_GATHER_INSTRUCTIONS,
    GATHER_INSTRUCTIONS,
    ROW_GATHER_INSTRUCTIONS,
    gather_seconds,
)
from catdiag.planner.time_model.kernel_instance import KernelInstance
from tests.forms import unproved

SIZES = {"n": 8, "c": 256, "x": 512, "y": 512, "k": 31}


@cd.algorithm("n c x, c k -> n c y", name="depthwise")
def depthwise(A: Any, W: Any) -> Any:
    return cd.einsum("n c y k, c k -> n c y", cd.window(A, "x", "y k", pad=(15, 15)), W)


@cd.algorithm("n x c, c k -> n y c", name="channels_last")
def channels_last(A: Any, W: Any) -> Any:
    return cd.einsum("n y k c, c k -> n y c", cd.window(A, "x", "y k", pad=(15, 15)), W)


@cd.algorithm("n x c, k c o -> n y o", name="dense")
def dense(A: Any, W: Any) -> Any:
    return cd.einsum("n y k c, k c o -> n y o", cd.window(A, "x", "y k", pad=(15, 15)), W)


@cd.algorithm("n c x, k c o -> n y o", name="dense_rows")
def dense_rows(A: Any, W: Any) -> Any:
    return cd.einsum("n c y k, k c o -> n y o", cd.window(A, "x", "y k", pad=(15, 15)), W)


def instructions(program: cd.Program, group: str, tiles: dict[str, int], **more: int) -> float:
    """Those of a block for what it loads entry by entry."""
    sizes = {**SIZES, **more}
    search = searching(unproved(program.diagram, "k", group), "H200", sizes)
    k = KernelInstance(search.kernel, search.chip, search.full({**sizes, **tiles}), 1, 4)
    return float(gather_seconds(k)) * search.chip.alu_per_clock * search.chip.clock_hz


def test_each_entry_of_a_window_is_counted_once_for_each_tap() -> None:
    tiles, entries = {"g_n": 1, "g_c": 8, "g_y": 64}, 8 * 64 * 31
    assert instructions(depthwise, "n c y", {**tiles, "s_k": 1}) == entries * GATHER_INSTRUCTIONS
    assert instructions(channels_last, "n y c", {**tiles, "s_k": 1}) == entries * ROW_GATHER_INSTRUCTIONS
    # 16 blocks of two taps, of which the last has one.
    assert instructions(depthwise, "n c y", {**tiles, "s_k": 2}) == 8 * 64 * 32 * CROSS_GATHER_INSTRUCTIONS


def test_products_read_boxes_of_one_tap_but_not_along_rows() -> None:
    tiles = {"g_n": 1, "g_o": 64, "g_y": 64, "s_k": 1}
    assert instructions(dense, "n y o", tiles, o=256) == 0
    assert instructions(dense_rows, "n y o", tiles, o=256) == 64 * 256 * 31 * FACTOR_GATHER_INSTRUCTIONS


def test_threads_have_all_entries_of_the_windows_that_they_sum() -> None:
    kernel = searching(unproved(depthwise.diagram, None, "n c y"), "H200", SIZES).kernel
    (most,) = register_pressure(kernel)
    of_windows = IntPolynomial.of("g_n") * IntPolynomial.of("g_c") * IntPolynomial.of("g_y") * IntPolynomial.of("k")
    assert most.dominates(of_windows.scaled(4))


def test_windows_are_summed_a_tap_at_a_time() -> None:
    plan = depthwise.plan("H200", SIZES)
    (kernel,) = plan.kernels
    assert kernel.tiles["s_k"] == 1
