"""Kernels that add tiles to results: what is written, and what it computes in Triton's interpreter."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import catdiag as cd
import examples.backward_passes as passes
from catdiag.category.diagram import diagram_of
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.rewrite import group
from catdiag.runtime.module_cache import imported

TILES = {"g_h": 1, "g_x": 16, "s_q": 16}
TYPES = {**dict.fromkeys(("Q", "K", "V", "dO", "out0", "out1", "out2"), "bf16"), "L": "fp32", "D": "fp32"}


@cache
def gradients() -> cd.Program:
    return passes.attention_dqkv.stream("q").group("h x")


@cache
def written() -> Module:
    return module(gradients(), TILES, TYPES)


def test_tiles_are_added_in_fp32_and_rounded_once() -> None:
    text = written().text
    assert text.count("tl.atomic_add(") == 1 and 'sem="relaxed"' in text
    assert "(out0_sums.zero_(), 0)" in text and "    else:\n        out0.copy_(out0_sums)" in text
    assert "torch.empty(h, q, d, dtype=torch.float32" in text.replace("(h, q, d)", "h, q, d")


def test_a_launch_may_be_deterministic() -> None:
    text = written().text
    assert "deterministic=None" in text and "_parts(out0_sums, _tiles(x, g_x)) if deterministic" in text
    assert "_add_up(out0_sums_parts, out0_sums, out0, dependent, pdl)" in text
    plain = module(passes.attention_dkv.stream("q").group("h x"), TILES, "bf16").text
    assert "deterministic" not in plain and "_parts" not in plain


@cache
def read_again() -> cd.Program:
    first = cd.algorithm("t h, t d -> h d, t d")(lambda X, G: (cd.einsum("t h, t d -> h d", X, G), G * 2)).group("t")
    second = cd.algorithm("h d, t d -> t h")(lambda S, G: cd.einsum("t d, h d -> t h", G, S)).group("t")
    return first >> second


def test_later_kernels_read_what_is_made_of_the_sums() -> None:
    made = module(read_again(), {"g_t": 16}, "bf16")
    text = made.text[made.text.index(f"def {made.entry}(") :]
    line = next(line for line in text.splitlines() if "_add_up(" in line)
    sums, narrow = line.split("(")[1].split(", ")[1:3]
    assert sums == f"{narrow}_sums" and f"    else:\n        {narrow}.copy_({sums})" in text
    assert sums not in text[text.index(f"{narrow}.copy_({sums})") + len(f"{narrow}.copy_({sums})") :]


def test_what_is_made_of_sums_shares_no_memory_with_what_is_read_later() -> None:
    first = cd.algorithm("t d -> d")(lambda X: cd.sum(X, "t")).group("t")
    second = cd.algorithm("t d -> t d")(lambda X: X * 2).group("t d")
    whole = cd.algorithm("t d -> t d, t d")(lambda X: (X, X)) >> (first @ second)
    text = module(whole, {"g_t": 16, "g_d": 16}, {"X": "bf16", "out0": "bf16", "out1": "bf16"}).text
    assert '("out1", "X")' in text and '("out0", "X")' not in text


def test_programs_that_add_to_the_same_entries_go_through_runs_of_tiles() -> None:
    text = module(passes.layer_norm_backward.group("t"), {"g_t": 4}, "fp32").text
    first, last = "pid * run", "tl.minimum(pid * run + run, tl.cdiv(t, g_t))"
    before, inside = text.split(f"for tile in tl.range({first}, {last}, num_stages=tiles_ahead):")
    assert before.count("_total = tl.full(") == 2 and inside.count("_total += added") == 2
    assert "_programs(_tiles(t, g_t), 264)" in text and "_run(_tiles(t, g_t), 264)" in text
    assert "range(pid" not in written().text  # heads have queries of their own


def test_what_is_cleared_shares_no_memory_with_what_is_read() -> None:
    scaled = cd.algorithm("q x -> q x, x", name="scaled")(lambda A: (A * 2, cd.sum(A, "q")))
    text = module(scaled.group("q x"), {"g_q": 16, "g_x": 16}, "fp32").text
    assert '("out1", "A")' not in text


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
@pytest.mark.parametrize("deterministic", [False, True, None])
def test_results_are_those_of_the_program(deterministic: bool) -> None:
    import torch

    sums = cd.algorithm("a k, k b -> a b", name="sums")(lambda A, B: cd.einsum("a k, k b -> a b", A, B))
    lengths = {"h": 2, "q": 19, "x": 21, "d": 5, "v": 3, "t": 7, "f": 6, "a": 17, "k": 33, "b": 18}
    for program, form, tiles in (
        (passes.attention_dqkv, gradients(), TILES),
        (passes.layer_norm_backward, passes.layer_norm_backward.group("t"), {"g_t": 2}),
        (sums, sums.group("k b a"), {"g_a": 16, "g_b": 16, "g_k": 16}),
    ):
        made = module(form, tiles, "fp32")
        random = np.random.default_rng(0)
        arrays = [random.normal(size=[lengths[a.name] for a in ty.axes]) / 2 for ty in program.dom]
        text = made.text.replace(", 264)", ", 2)")  # runs of several tiles
        found = getattr(imported(text, made.entry), made.entry)(
            *(torch.tensor(a, dtype=torch.float32) for a in arrays), deterministic=deterministic
        )
        wanted = program.run(*arrays)
        for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (found, wanted)), strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=2e-4, atol=2e-4)


def test_parts_of_tiles_of_several_axes_have_places_of_their_own() -> None:
    moments = cd.algorithm("b h w c -> b h w c, c", name="moments")(lambda x: (x + 1, cd.sum(x, "b h w")))
    form = group.find(diagram_of(moments), ["b", "h", "w", "c"], accumulate=True)
    text = module(form, {"g_b": 1, "g_h": 4, "g_w": 1, "g_c": 16}).text
    assert "place + tl.cast((b_at * tl.cdiv(h, g_h) + h0 // g_h) * w_2 + w_at, tl.int64) * out1_part" in text


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
@pytest.mark.parametrize("deterministic", [True, False])
def test_narrower_sums_are_read_by_later_kernels(deterministic: bool) -> None:
    import torch

    made = module(read_again(), {"g_t": 16}, "fp16")
    rng = np.random.default_rng(0)
    X, G = (torch.tensor(rng.standard_normal((37, n)), dtype=torch.float16) for n in (16, 32))
    got = getattr(imported(made.text, made.entry), made.entry)(X, G, deterministic=deterministic)
    narrow = (X.double().T @ G.double()).to(torch.float16)
    want = (G * 2).double() @ narrow.double().T
    np.testing.assert_allclose(got.double().numpy(), want.numpy(), rtol=2e-2, atol=2e-1)
