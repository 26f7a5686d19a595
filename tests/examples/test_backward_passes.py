"""Backward passes that are written by hand: what they mean, what they cost, and kernels that are written of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

import catdiag as cd
import examples.backward_passes as passes
from catdiag.codegen.triton.triton_module import module

SIZES = {"h": 2, "q": 7, "x": 9, "d": 4, "v": 3, "t": 5, "f": 6, "e": 4, "n": 8}
TYPES = {**dict.fromkeys(("Q", "K", "V", "dO"), "bf16"), "L": "fp32", "D": "fp32"}


@cache
def dq() -> cd.Program:
    return passes.attention_dq.stream("x").group("h q")


@cache
def dkv() -> cd.Program:
    return passes.attention_dkv.stream("q").group("h x")


@cache
def causal_dkv() -> cd.Program:
    return passes.causal_dkv.stream("q").skip("q").group("h x")


def arrays(*axes: str, seed: int = 0) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.normal(size=[SIZES[n] for n in each.split()]) for each in axes]


def differences(f: Callable[..., Any], inputs: Sequence[np.ndarray], cotangents: Sequence[np.ndarray]) -> list[Any]:
    """The gradients of the sum of results times cotangents, by central differences."""
    found = []
    for k, array in enumerate(inputs):
        gradient = np.zeros_like(array)
        for at in np.ndindex(*array.shape):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in inputs]
                moved[k][at] += sign * 1e-5
                results = f(*moved)
                ends.append(sum(np.sum(r * c) for r, c in zip(results, cotangents, strict=True)))
            gradient[at] = (ends[0] - ends[1]) / 2e-5
        found.append(gradient)
    return found


def attention(Q: Any, K: Any, V: Any, causal: bool) -> tuple[Any, Any]:
    """Its result, and the log-sum-exp of each row of scores."""
    S = np.einsum("hqd,hxd->hqx", Q, K) / np.sqrt(Q.shape[-1])
    if causal:
        S = np.where(np.arange(S.shape[2]) <= np.arange(S.shape[1])[:, None], S, -np.inf)
    L = np.log(np.exp(S).sum(-1))
    return np.einsum("hqx,hxv->hqv", np.exp(S - L[..., None]), V), L


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_attention(causal: bool) -> None:
    Q, K, V, dO = arrays("h q d", "h x d", "h x v", "h q v")
    out, L = attention(Q, K, V, causal)
    wanted = differences(lambda *a: attention(*a, causal)[:1], (Q, K, V), (dO,))
    inputs = Q, K, V, dO, L, passes.row_products(dO, out)
    first, second = (passes.causal_dq, passes.causal_dkv) if causal else (passes.attention_dq, passes.attention_dkv)
    for found, expected in zip((first(*inputs), *second(*inputs)), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-7)
    blocks = (causal_dkv() if causal else dkv()).run(*inputs, tiles={"s_q": 3, "g_x": 4, "g_h": 1})
    for found, expected in zip(blocks, wanted[1:], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-7)


def rms_norm(X: Any, g: Any) -> tuple[Any]:
    return (X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5) * g,)


def layer_norm(X: Any, g: Any, b: Any) -> tuple[Any]:
    centred = X - X.mean(-1, keepdims=True)
    return (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g + b,)


def test_gradients_of_norms() -> None:
    X, g, b, dY = arrays("t f", "f", "f", "t f")
    m, r = X.mean(-1), 1 / np.sqrt((X**2).mean(-1) + 1e-5)
    for found, expected in zip(
        passes.rms_norm_backward(X, g, r, dY), differences(rms_norm, (X, g), (dY,)), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-7)
    r = 1 / np.sqrt(X.var(-1) + 1e-5)
    expected = differences(layer_norm, (X, g, b), (dY,))
    for found, wanted in zip(passes.layer_norm_backward(X, g, m, r, dY), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-7)


def test_gradients_of_a_gated_unit_and_of_a_loss() -> None:
    A, B, dY = arrays("t f", "t f", "t f")
    expected = differences(lambda A, B: (A / (1 + np.exp(-A)) * B,), (A, B), (dY,))
    for found, wanted in zip(passes.swiglu_backward(A, B, dY), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-7)

    X, W, w = arrays("t e", "n e", "t")
    ids = np.arange(SIZES["t"]) % SIZES["n"]

    def losses(X: Any, W: Any) -> tuple[Any]:
        S = X @ W.T
        return (np.log(np.exp(S).sum(-1)) - S[np.arange(len(ids)), ids],)

    dX, dW = differences(losses, (X, W), (w,))
    L = np.log(np.exp(X @ W.T).sum(-1))
    np.testing.assert_allclose(passes.linear_cross_entropy_dx(X, W, ids, L, w), dX, atol=1e-7)
    np.testing.assert_allclose(passes.linear_cross_entropy_dw(X, W, ids, L, w), dW, atol=1e-7)


def test_both_kernels_of_attention_transfer_14_qxd2_over_m() -> None:
    sizes = {"h": 1, "q": 2**60, "x": 2**60, "d": 2**40, "v": 2**40, "M": 2**85}
    total = 0
    for form in (dq(), dkv()):
        leading = form.io().optimum().leading
        assert leading is not None
        total += leading.subs({s: sizes[str(s)] for s in leading.free_symbols})
    unit = sizes["q"] * sizes["x"] * sizes["d"] ** 2 / sizes["M"]
    assert float(total / unit) == pytest.approx(14, rel=1e-3)


@pytest.mark.parametrize("specialized", [False, True])
def test_a_loop_over_queries_that_a_causal_mask_shortens_ends_with_the_queries(specialized: bool) -> None:
    made = module(causal_dkv(), {"g_h": 1, "g_x": 64, "s_q": 64}, TYPES, specialized=specialized)
    assert "q_to = q\n" in made.text
    assert bool(made.specialized) is specialized


@pytest.mark.triton
def test_warp_specialized_gradients_of_keys_and_values_are_right() -> None:
    torch = pytest.importorskip("torch")

    from tests.codegen.gluon_machine import load

    made = module(causal_dkv(), {"g_h": 1, "g_x": 128, "s_q": 64}, TYPES, warps=8, specialized=True)
    run: Any = load(made.text, seed=1, name="backward.py")
    run["_boxed"] = lambda tensor, shape, *more: True
    draw = torch.Generator().manual_seed(0)
    Q, K, V, dO = (torch.randn(2, 192, 32, generator=draw).bfloat16() for _ in range(4))
    wide = [a.double().numpy() for a in (Q, K, V, dO)]
    out, L = attention(*wide[:3], causal=True)
    D = (wide[3] * out).sum(-1)
    found = run[made.entry](Q, K, V, dO, *(torch.tensor(a).float() for a in (L, D)), num_warps=8, num_stages=2)
    for one, wanted in zip(found, passes.causal_dkv(*wide, L, D), strict=True):
        assert np.abs(one.double().numpy() - wanted).max() < 0.05
