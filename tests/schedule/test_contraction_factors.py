"""Factors of products that turns make of loaded blocks: which they are, what is counted of them, what they cost."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.substitution import inline
from catdiag.planner.fit import searching
from catdiag.rewrite.group import find
from catdiag.rewrite.stream.multi_pass import forms
from catdiag.schedule.lowered_kernel import LoweredKernel

SIZES = {"t": 8192, "d": 4096, "o": 4096}
TILES = {"g_t": 128, "g_o": 256, "s_d": 64}


@cd.algorithm("t d, d o -> t o")
def plain(X: Any, W: Any) -> Any:
    return cd.einsum("t d, d o -> t o", X, W)


@cd.algorithm("t d, d o -> t o")
def squares(X: Any, W: Any) -> Any:
    return cd.einsum("t d, d o -> t o", X, W) / cd.sqrt(cd.sum(X * X, "d"))


@cd.algorithm("t d, d, d o -> t o")
def scaled(X: Any, g: Any, W: Any) -> Any:
    return cd.einsum("t d, d o -> t o", cd.tanh(X) * g, W)


@cd.algorithm("t d, d o, d -> t o")
def dequantised(X: Any, W: Any, s: Any) -> Any:
    return cd.einsum("t d, d o -> t o", X, W * s)


@cd.algorithm("t d, d, d o -> t o")
def weighted(X: Any, g: Any, W: Any) -> Any:
    return cd.einsum("t d, d o -> t o", X * cd.maximum(g, 0), cd.exp(W))


@functools.cache
def draft(diagram: cd.category.Diagram) -> cd.category.Diagram:
    """In a loop and groups, which is not proved here."""
    return find(forms(inline(diagram_of(diagram)), "d", 1)[1][0].diagram, ["t", "o"])


def kernel_of(diagram: cd.category.Diagram, dtype: str = "bf16") -> LoweredKernel:
    return searching(draft(diagram), "H200", SIZES, dtype, 3).kernel


def counted(diagram: cd.category.Diagram, dtype: str = "bf16") -> list[tuple[str, int, bool]]:
    found = kernel_of(diagram, dtype).factors
    return [(f.name, int(f.size.value({**SIZES, **TILES})), f.second) for f in found]


def read(diagram: cd.category.Diagram, dtype: str = "bf16") -> list[tuple[int, int]]:
    """Bytes that an iteration reads into registers, and elements that are widened."""
    found = kernel_of(diagram, dtype).register_reads
    return [(int(one.read.value({**SIZES, **TILES})), int(one.widened.value({**SIZES, **TILES}))) for one in found]


def test_what_is_read_as_it_was_loaded_is_no_such_factor() -> None:
    assert counted(plain) == []
    assert counted(squares) == []  # what is squared is summed, and the product reads the block itself
    flash = find(forms(inline(cd.library.get("attention").diagram), "x", 1)[1][0].diagram, ["q"])
    assert searching(flash, "H200", {"q": 8192, "x": 8192, "d": 128}, stages=2).kernel.factors == []


def test_first_and_second_factors_are_counted_in_values_and_bytes() -> None:
    x, w, column = 128 * 64, 64 * 256, 64
    assert counted(scaled) == [("mul [t d]", x, False)] and read(scaled) == [(2 * (x + column), x + column)]
    assert read(scaled, "fp32") == [(4 * (x + column), 0)]
    assert counted(dequantised) == [("mul [d o]", w, True)] and read(dequantised) == [(2 * (w + column), w + column)]
    assert [(name, second) for name, _, second in counted(weighted)] == [("mul [t d]", False), ("exp [d o]", True)]


def test_blocks_that_are_summed_beside_their_product_are_read_into_registers_once() -> None:
    assert read(plain) == []
    assert read(squares) == [(2 * 128 * 64, 128 * 64)]


def seconds(diagram: cd.category.Diagram, tiles: dict[str, int], stages: int = 3, warps: int = 8) -> float:
    search = searching(draft(diagram), "H200", SIZES, "bf16", stages)
    at = {**SIZES, **{name: np.array([size]) for name, size in tiles.items()}}
    return float(search.predicted(stages, at, warps).seconds[0])


@pytest.mark.parametrize(
    ("tiles", "measured"),
    [
        (TILES, (651e-6, 690e-6)),
        ({"g_t": 128, "g_o": 128, "s_d": 128}, (769e-6, 769e-6)),
        ({"g_t": 128, "g_o": 128, "s_d": 64}, (635e-6, 648e-6)),
    ],
)
def test_a_kernel_that_makes_a_factor_in_every_turn_takes_about_what_was_measured(
    tiles: dict[str, int], measured: tuple[float, float]
) -> None:
    normal = cd.library.get("rms_norm_linear")
    low, high = measured
    warps = 4 if math.prod(tiles.values()) < 2**21 else 8
    assert 0.9 * low < seconds(normal, tiles, warps=warps) < 1.1 * high
    assert seconds(plain, tiles, warps=warps) < 0.8 * low  # which it would be said to take without


def test_a_product_of_rows_that_its_iterations_sum_takes_about_what_was_measured() -> None:
    """The loop of row correlation: Triton loads a block that is summed when its iteration has begun, and loads it again
    for the product. Measured on an H200: 1,364 µs."""

    def rows(A: Any, B: Any) -> Any:
        a, b = A - cd.mean(A, "k"), B - cd.mean(B, "k")
        lengths = cd.sqrt(cd.sum(a * a, "k")), cd.sqrt(cd.sum(b * b, "k"))
        return cd.einsum("m k, n k -> m n", a / lengths[0], b / lengths[1])

    sizes = {"m": 4096, "n": 4096, "k": 8192}
    (one,) = cd.algorithm("m k, n k -> m n")(rows).plan("H200", sizes, cuts=0).kernels
    assert one.tiles == {"g_m": 128, "g_n": 128, "s_k": 64}
    assert 0.85 * 1.364e-3 < one.time_s < 1.15 * 1.364e-3


def test_a_second_factor_costs_more_than_a_first_of_the_same_size() -> None:
    square = {"g_t": 128, "g_o": 128, "s_d": 64}
    alike = cd.algorithm("t d, d o, d -> t o")(lambda X, W, s: cd.einsum("t d, d o -> t o", X * s, W))
    assert seconds(plain, square) < seconds(alike, square) < seconds(dequantised, square)


def test_what_ends_with_elementwise_work_on_a_sum_takes_its_place_in_registers() -> None:
    """However often the work reads the sum: element by element it needs no second array."""
    smooth = cd.algorithm("t d, d o -> t o")(lambda X, W: _smooth(cd.einsum("t d, d o -> t o", X, W)))
    search = searching(draft(smooth), "H200", SIZES, "bf16", 3)
    at = {**SIZES, **TILES}
    assert max(int(m.total.value(at)) for m in search.kernel.points["registers"]) == 4 * 128 * 256


def _smooth(H: Any) -> Any:
    return 0.5 * H * (1 + cd.tanh(0.8 * (H + 0.04 * H * H * H)))
