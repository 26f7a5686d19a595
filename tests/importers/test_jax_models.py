"""Layers of models written in plain JAX, with trees of parameters, become programs that mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from tests.importers.inputs import real

jax = pytest.importorskip("jax")
jnp, jnn, lax = jax.numpy, jax.nn, jax.lax


pytestmark = pytest.mark.usefixtures("jax_in_double")


def check(function: Callable[..., Any], *example: Any, error: float = 1e-9, **options: Any) -> cd.Program:
    """Asserts that a function's program gives on the example what the function does; gives the program."""
    program = cd.from_jax(function, *example, **options)
    found = program.run(*map(np.asarray, program.example.arrays), sizes=program.example.sizes)
    np.testing.assert_allclose(found, function(*jax.tree.map(jnp.asarray, example)), rtol=error, atol=error / 1000)
    return program


def at_other_sizes(program: cd.Program, function: Callable[..., Any], *example: Any) -> None:
    """Asserts that a program does what the function does at other sizes, too."""
    leaves = [np.asarray(v) for v in jax.tree.leaves(example)]
    found = program.run(*leaves)
    np.testing.assert_allclose(found, function(*jax.tree.map(jnp.asarray, example)), rtol=1e-9, atol=1e-12)


def rms_norm(x: Any, scale: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * scale


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def rotary(x: Any) -> Any:
    half = x.shape[-1] // 2
    frequencies = 10000.0 ** (-jnp.arange(half) / half)
    angles = jnp.arange(x.shape[1])[:, None] * frequencies
    cos, sin = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    left, right = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


def llama(p: Any, x: Any, heads: int = 6, groups: int = 3) -> Any:
    b, t = x.shape[:2]
    h = rms_norm(x, p["norm"])
    q = rotary((h @ p["q"]).reshape(b, t, heads, -1)).reshape(b, t, groups, heads // groups, -1)
    k, v = ((h @ p[n]).reshape(b, t, groups, -1) for n in "kv")
    scores = jnp.einsum("btgrd,bsgd->bgrts", q, rotary(k)) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((t, t), bool))
    weights = jnn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    y = jnp.einsum("bgrts,bsgd->btgrd", weights, v).reshape(b, t, -1)
    x = x + y @ p["o"]
    h = rms_norm(x, p["norm2"])
    return x + (jnn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]


def test_a_llama_block() -> None:
    p = {"norm": real(24), "q": real(24, 60), "k": real(24, 30), "v": real(24, 30), "o": real(60, 24),
         "norm2": real(24), "gate": real(24, 22), "up": real(24, 22), "down": real(22, 24)}  # fmt: skip
    program = check(llama, p, real(2, 7, 24))
    assert program.names[:3] == ("p_down", "p_gate", "p_k") and program.names[-1] == "x"


def test_what_a_mean_divides_by_is_a_size() -> None:
    program = check(rms_norm, real(2, 7, 24), real(24))
    assert program.example.notes == ()
    at_other_sizes(program, rms_norm, real(1, 3, 10), real(10))


def gpt2(p: Any, x: Any) -> Any:
    t = x.shape[0]
    h = layer_norm(x, p["ln1"]["g"], p["ln1"]["b"])
    q, k, v = (a.reshape(t, 3, -1).transpose(1, 0, 2) for a in jnp.split(h @ p["qkv"]["w"] + p["qkv"]["b"], 3, axis=-1))
    scores = q @ k.swapaxes(-1, -2) / jnp.sqrt(q.shape[-1]) + (1 - jnp.tri(t)) * -1e10
    x = x + (jnn.softmax(scores) @ v).transpose(1, 0, 2).reshape(t, -1) @ p["proj"]
    h = layer_norm(x, p["ln2"]["g"], p["ln2"]["b"])
    return x + jnn.gelu(h @ p["fc"]) @ p["out"]


def test_a_gpt2_block() -> None:
    norm = {"g": real(12), "b": real(12)}
    p = {"ln1": norm, "ln2": norm, "qkv": {"w": real(12, 36), "b": real(36)}, "proj": real(12, 12),
         "fc": real(12, 20), "out": real(20, 12)}  # fmt: skip
    program = check(gpt2, p, real(7, 12))
    assert {"p_ln1_g", "p_qkv_w", "x"} <= set(program.names)


def test_a_whole_model_with_layers_in_a_scan() -> None:
    def model(p: Any, tokens: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            return x + jnn.gelu(x @ w["up"], approximate=False) @ w["down"], None

        x, _ = lax.scan(layer, p["embed"][tokens], p["layers"])
        return jnn.log_softmax(x @ p["embed"].T)

    p = {"embed": real(11, 6), "layers": {"up": real(3, 6, 10), "down": real(3, 10, 6)}}
    program = check(model, p, np.array([[1, 5, 2, 2, 10]]))
    assert any("scan of 3 steps" in note for note in program.example.notes)


def attend(q: Any, k: Any, v: Any) -> Any:
    return jnn.dot_product_attention(q, k, v, is_causal=True)


def test_attention_of_jax_nn() -> None:
    check(attend, real(2, 5, 3, 4), real(2, 5, 3, 4), real(2, 5, 3, 4), error=1e-4)  # it goes through float32


def plain(q: Any, k: Any, v: Any) -> Any:
    weights = jnn.softmax(jnp.einsum("qd,xd->qx", q, k) / jnp.sqrt(q.shape[-1]), axis=-1)
    return weights @ v


def test_attention_is_streamed_and_means_the_same_at_other_sizes() -> None:
    program = check(plain, real(5, 4), real(7, 4), real(7, 3), names={"q": "q d", "k": "x d", "v": "x v"})
    assert program.names == ("q", "k", "v")
    assert str(program.cod) == "[q v]"
    at_other_sizes(program, plain, real(2, 6), real(3, 6), real(3, 2))
    assert not program.stream("x").group("q").theorem.conditional


def test_a_mixture_of_experts() -> None:
    def moe(p: Any, x: Any) -> Any:
        gates, chosen = lax.top_k(jnn.softmax(x @ p["router"]), 2)
        weight = (jnn.one_hot(chosen, p["up"].shape[0], dtype=float) * gates[..., None]).sum(1)
        inner = jnn.relu(jnp.einsum("ti,eih->teh", x, p["up"]))
        return jnp.einsum("te,tei->ti", weight, jnp.einsum("teh,ehi->tei", inner, p["down"]))

    check(moe, {"router": real(6, 4), "up": real(4, 6, 5), "down": real(4, 5, 6)}, real(7, 6))


def test_convolutions() -> None:
    numbers = ("NHWC", "HWIO", "NHWC")

    def patches(x: Any, w: Any) -> Any:
        made = lax.conv_general_dilated(x, w, (4, 4), "VALID", dimension_numbers=numbers)
        return made.reshape(made.shape[0], -1, made.shape[-1])

    def depthwise(x: Any, w: Any) -> Any:
        padded = jnp.pad(x, ((0, 0), (3, 0), (0, 0)))
        return lax.conv_general_dilated(
            padded, w, (1,), "VALID", dimension_numbers=("NHC", "HIO", "NHC"), feature_group_count=x.shape[-1]
        )

    check(patches, real(2, 8, 12, 3), real(4, 4, 3, 5))
    check(depthwise, real(2, 9, 6), real(4, 1, 6))


def test_a_cache_that_is_passed_in() -> None:
    def step(cache: Any, k: Any, q: Any, at: Any) -> Any:
        cache = lax.dynamic_update_slice(cache, k, (at, 0))
        scores = jnp.where(jnp.arange(cache.shape[0]) <= at, q @ cache.T, -jnp.inf)
        return jnn.softmax(scores) @ cache

    check(step, real(9, 4), real(1, 4), real(4), np.array(3))


def test_a_state_space_layer() -> None:
    def ssd(x: Any, decay: Any, b: Any, c: Any) -> Any:
        total = jnp.cumsum(decay, 0)
        weight = jnp.exp(jnp.where(jnp.tri(x.shape[0], dtype=bool), total[:, None] - total[None], -jnp.inf))
        return jnp.einsum("ln,sn,ls,sp->lp", c, b, weight, x)

    check(ssd, real(6, 4), -np.abs(real(6)), real(6, 3), real(6, 3))


def after(x: Any) -> Any:
    b, t, c = x.shape
    past = jnp.concatenate([jnp.zeros((b, 1, c)), x[:, :-1]], 1)
    mask = jnp.tril(jnp.ones((t, t), bool), t - past.shape[1])
    weights = jnn.softmax(jnp.where(mask, x @ past.swapaxes(1, 2) / t, -jnp.inf), -1)
    return (weights @ past).reshape(b, -1, c)[:, -2] + x[:, 1:].sum(1) * jnp.arange(c)


def test_slices_masks_and_views_are_those_of_the_length() -> None:
    program = check(after, real(2, 5, 8), dynamic=True)
    for b, t, c in ((3, 4, 8), (1, 7, 6)):
        at_other_sizes(program, after, real(b, t, c))


def test_a_comparison_with_a_length_is_that_of_the_example() -> None:
    program = check(lambda x: x * (2 if x.shape[0] == 3 else 5), real(3, 4))
    assert any("the lengths of axes as long as 3" in note for note in program.example.notes)
