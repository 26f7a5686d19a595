"""Rotary embeddings beside the product that makes what they rotate: a tile in registers is read at the positions of the
other half of an axis, and a loop carries what it adds products of several axes to as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import module
from catdiag.runtime.module_cache import imported


@cd.algorithm("q e, r 2 d e, q d, q d -> r q 2 d")
def rotated(X: Any, W: Any, cos: Any, sin: Any) -> Any:
    """Halves as an axis, the second one first."""
    A = cd.einsum("q e, r 2 d e -> r q 2 d", X, W)
    return A * cos + cd.where(cd.index("2") < 1, -1, 1) * cd.reverse(A, "2") * sin


def halves(first: int, second: int) -> cd.Program:
    """A product beside itself, whose entry i of 32 is read at i plus one of two numbers."""

    def body(X: Any, W: Any) -> Any:
        A = cd.einsum("q e, r i=32 e -> r q i", X, W)
        low = cd.index("i") < 16
        return A + 2 * cd.where(low, *(cd.shift(A, "i", -by) for by in (first, second)))

    return cd.algorithm("q e, r i=32 e -> r q i=32")(body)


ROTATED = rotated.stream("e").group("r q d")
MOVED = halves(16, -16).stream("e").group("r q")


def run(form: cd.Program, tiles: dict[str, int], shapes: list[tuple[int, ...]]) -> None:
    """A form's kernel on random arrays beside its program."""
    import torch

    made = module(form, tiles, "fp32")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    found = getattr(imported(made.text, made.entry), made.entry)(
        *(torch.tensor(a, dtype=torch.float32) for a in arrays)
    )
    want = cd.Program(form.source).run(*arrays)
    np.testing.assert_allclose(found.numpy(), want, rtol=2e-4, atol=2e-4)


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
@pytest.mark.parametrize("rows", [16, 64])
def test_a_product_is_rotated_in_its_kernel(rows: int) -> None:
    tiles = {"g_r": 2, "g_q": rows, "g_d": 16, "s_e": 16}
    run(ROTATED, tiles, [(37, 40), (3, 2, 9, 40), (37, 9), (37, 9)])


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
def test_the_other_half_of_an_axis_is_read_by_its_positions() -> None:
    run(MOVED, {"g_r": 2, "g_q": 64, "s_e": 16}, [(37, 40), (3, 32, 40)])


def test_halves_are_exchanged_without_memory_and_products_added_as_matrices() -> None:
    text = module(ROTATED, {"g_r": 2, "g_q": 64, "g_d": 16, "s_e": 16}, "bf16").text
    assert "tl.flip(sum1, 2)" in text
    assert "sum1 = tl.dot(X_tile, _transposed(tl.reshape(W_tile, (g_r * 2 * g_d, s_e)), compiled), sum1)" in text
    moved = module(MOVED, {"g_r": 2, "g_q": 64, "s_e": 16}, "bf16").text
    assert "tl.flip(tl.reshape(sum1, (g_r, g_q, 2, 16)), 2)" in moved


@pytest.mark.parametrize("by", [(8, -16), (15, -15)])
def test_other_positions_of_a_tile_are_refused(by: tuple[int, int]) -> None:
    with pytest.raises(cd.errors.TypeMismatch, match="at other positions than those at"):
        module(halves(*by).stream("e").group("r q"), {"g_r": 2, "g_q": 64, "s_e": 16}, "bf16")


def test_queries_are_rotated_in_the_kernel_of_their_product() -> None:
    plan = rotated.plan("H200", {"q": 8192, "e": 4096, "r": 32, "d": 64}, dtype="bf16")
    assert plan.backend == "triton" and len(plan.kernels) == 1 and not plan.theorem.conditional
    assert plan.stages == 3  # as quick as with four, by 1%, though what the model has first does not fit


def test_what_is_rotated_is_saved_as_it_is_read() -> None:
    @cd.algorithm("q e, e, r 2 d e, q d, q d -> r q 2 d")
    def normed(X: Any, g: Any, W: Any, cos: Any, sin: Any) -> Any:
        N = X * g / cd.sqrt(cd.mean(X * X, "e") + 1e-5)
        A = cd.einsum("q e, r 2 d e -> r q 2 d", N, W)
        return A * cos + cd.where(cd.index("2") < 1, -1, 1) * cd.reverse(A, "2") * sin

    plan = normed.plan("H200", {"q": 8192, "e": 4096, "r": 32, "d": 64}, dtype="bf16", several=True)
    assert len(plan.kernels) == 2 and not plan.theorem.conditional  # a norm, then all the rest
    assert plan.kernels[1].loops == "stream e, group r q d"
