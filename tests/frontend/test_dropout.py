"""Random numbers as functions of seed and position, and dropout: the same bits in every language and in every tile."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.codegen.torch_reference import torch_reference
from catdiag.execute.philox import uniform
from catdiag.kernel.terms import Term, idx, num
from catdiag.planner.compiled_plan import compiled_of


@cd.algorithm("q d, x d, x v, int[] -> q v", name="attention")
def attention(Q: Any, K: Any, V: Any, seed: Any) -> Any:
    P = cd.softmax(cd.einsum("q d, x d -> q x", Q, K), "x")
    return cd.einsum("q x, x v -> q v", cd.dropout(P, 0.25, seed), V)


@cd.algorithm("q x, int[] -> q x", name="dropped")
def dropped(a: Any, seed: Any) -> Any:
    return cd.dropout(a, 0.1, seed)


RNG = np.random.default_rng(0)
Q, K, V, G = (RNG.normal(size=s) for s in ((5, 3), (7, 3), (7, 2), (5, 2)))
WEIGHTS = np.where(uniform(3, np.arange(7), np.arange(5)[:, None], 0, 0) < 0.25, 0, 1 / 0.75)


def test_the_words_are_those_of_the_authors() -> None:
    """The known answers of Random123 for philox4x32 with 10 rounds; a number is made of the first word."""
    everywhere = 2**32 - 1
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    for word, key, counter in (
        (0x6627E8D5, 0, (0, 0, 0, 0)),
        (0x408F276D, -1, (everywhere,) * 4),
        (0xD16CFE09, 0x299F31D0 * 2**32 + 0xA4093822, pi),
    ):
        whole = word if word < 2**31 else everywhere - word
        assert float(uniform(key, *counter)) == float(np.float32(whole) * np.float32(4.6566127342e-10))


def test_dropout_is_a_mask_of_the_positions_and_a_scale() -> None:
    a = RNG.normal(size=(5, 7))
    mask = uniform(11, np.arange(7), np.arange(5)[:, None], 0, 0) >= np.float32(0.1)
    assert np.allclose(dropped(a, 11), a * mask / 0.9)
    deep = cd.algorithm("a b c d e, int[] -> a b c d e")(lambda v, s: cd.dropout(v, 0.5, s))
    i = np.indices((2, 3, 2, 3, 2))
    kept = uniform(1, i[4], i[3], i[2], i[0] * 3 + i[1]) >= 0.5
    assert np.array_equal(deep(np.ones((2, 3, 2, 3, 2)), 1), 2.0 * kept)


def test_as_many_are_kept_as_the_rate_says() -> None:
    ones = np.ones((200, 500))
    for rate in (0.1, 0.5, 0.9):
        kept = cd.algorithm("q x, int[] -> q x")(lambda a, s, rate=rate: cd.dropout(a, rate, s))(ones, 5) != 0
        assert abs(kept.mean() - (1 - rate)) < 5 * (rate * (1 - rate) / ones.size) ** 0.5
        assert np.abs(np.corrcoef(kept[:-1].ravel(), kept[1:].ravel())[0, 1]) < 0.02


def test_a_seed_has_axes_too() -> None:
    program = cd.algorithm("h x, int[h] -> h x")(lambda a, seed: cd.dropout(a, 0.5, seed))
    found = program(np.ones((2, 9)), [4, 2**40])
    assert np.array_equal(found, 2.0 * (uniform([[4], [2**40]], np.arange(9), [[0], [1]], 0, 0) >= 0.5))
    fixed = cd.algorithm("x")(lambda a: cd.dropout(a, 0.5, 7))
    assert np.array_equal(fixed(np.ones(9)), 2.0 * (uniform(7, np.arange(9), 0, 0, 0) >= 0.5))


@cache
def flash() -> cd.Program:
    return attention.stream("x").group("q")


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 6), st.integers(1, 8))
def test_tiles_do_not_change_the_mask(rows: int, block: int) -> None:
    found = flash().run(Q, K, V, 3, tiles={"g_q": rows, "s_x": block})
    scores = np.exp(Q @ K.T)
    assert np.allclose(found, (scores / scores.sum(1, keepdims=True) * WEIGHTS) @ V)


def test_the_gradient_has_the_same_mask() -> None:
    gradient = attention.grad()
    P = np.exp(Q @ K.T)
    P /= P.sum(1, keepdims=True)
    dP = (G @ V.T) * WEIGHTS
    dS = P * (dP - (P * dP).sum(1, keepdims=True))
    for found, expected in zip(gradient(Q, K, V, 3, G), (dS @ K, dS.T @ Q, (P * WEIGHTS).T @ G), strict=True):
        assert np.allclose(found, expected)
    by_mask = cd.algorithm("q x, int[], q x -> q x")(lambda a, seed, g: cd.dropout(g, 0.1, seed))
    assert cd.prove(dropped.grad(), by_mask)
    assert dropped.differentiability().conditions == ()


def test_the_text_of_each_language_has_the_same_bits() -> None:
    names: dict[str, Any] = {}
    exec(flash().code("numpy"), names)
    assert np.allclose(names["attention"](Q, K, V, -3, g_q=2, s_x=3), attention(Q, K, V, -3))


def test_theorems_are_of_any_mask_and_refutations_of_this_one() -> None:
    two = "q x, q x, int[] -> q x"
    separate = cd.algorithm(two)(lambda a, b, s: cd.dropout(a, 0.5, s) + cd.dropout(b, 0.5, s))
    assert cd.prove(cd.algorithm(two)(lambda a, b, s: cd.dropout(a + b, 0.5, s)), separate)
    other = cd.algorithm("q x, int[] -> q x")(lambda a, seed: cd.dropout(a, 0.1, seed + 1))
    with pytest.raises(cd.Refuted) as caught:
        cd.prove(dropped, other)
    found = caught.value.counterexample
    inputs = np.asarray(found.arrays["a"], dtype=float), int(found.arrays["seed" if "seed" in found.arrays else "s"])
    assert not np.allclose(dropped(*inputs), other(*inputs))
    own = cd.algorithm("x, int[] -> x")(lambda a, s: a + cd.apply("g", s, cd.index("x"), 0, 0, 0))
    random = cd.algorithm("x, int[] -> x")(lambda a, s: a + cd.uniform(s, cd.index("x")))
    assert cd.equivalent(own, random) is not True
    within = cd.algorithm("int[x] -> x")(lambda i: cd.maximum(cd.uniform(1, i), 0))
    assert cd.equivalent(within, cd.algorithm("int[x] -> x")(lambda i: cd.uniform(1, i))) is None


def test_the_kernel_knows_no_more_than_that_it_is_a_function() -> None:
    from catdiag.kernel.semantics import scalar

    args = (idx("s"), num(0), num(1), num(0), num(0))
    assert scalar("uniform", args) == Term("apply", "%uniform", args)
    assert scalar("uniform", args) != scalar("apply:uniform", args)
    with pytest.raises(Exception, match="no scalar function 'uniform' of 2 arguments"):
        scalar("uniform", args[:2])


@pytest.mark.parametrize("rate", [0, 0.0, 1, 1.5, -0.1, float("nan"), "a half", None, 1e-60])
def test_other_rates_are_refused(rate: Any) -> None:
    with pytest.raises(cd.errors.CatdiagError, match=r"between 0 and 1|not a number|number"):
        cd.algorithm("x, int[] -> x")(lambda a, s: cd.dropout(a, rate, s))


def test_what_is_no_seed_is_refused() -> None:
    with pytest.raises(cd.errors.TypeMismatch, match=r"a seed of random numbers is of integers(.|\n)*test_dropout"):
        cd.algorithm("x, -> x")(lambda a, s: cd.dropout(a, 0.5, s))
    with pytest.raises(cd.errors.AxisError, match=r"the seed of cd\.dropout has axis 'q'"):
        cd.algorithm("x, int[q] -> x")(lambda a, s: cd.dropout(a, 0.5, s))
    with pytest.raises(cd.errors.SignatureError, match="one to 4 integers, not 0"):
        cd.algorithm("x, int[] -> x")(lambda a, s: a + cd.uniform(s))
    with pytest.raises(cd.errors.NotDifferentiable, match=r"seed of attention is int\[\], of integers"):
        attention.grad(wrt="seed")


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_triton_has_the_same_numbers(self) -> None:
        import torch

        program = cd.algorithm("q x, int[] -> q x")(lambda a, s: a + cd.uniform(s, cd.index("x"), cd.index("q")))
        form = program.group("q").diagram
        compiled = compiled_of(form, program, {"g_q": 16}, "fp32")
        for seed in (0, 7, -3, 2**40 + 1):
            found = compiled(torch.zeros(20, 33), seed)
            assert np.array_equal(found.numpy(), uniform(seed, np.arange(33), np.arange(20)[:, None], 0, 0))

    @pytest.mark.parametrize("block", [16, 32])
    def test_attention_and_its_mask(self, block: int) -> None:
        cd.testing.assert_compiled(compiled_of(flash().diagram, attention, {"g_q": 16, "s_x": block}, "fp32"), trials=3)

    def test_torch_has_the_same_numbers(self) -> None:
        import torch

        program = cd.algorithm("x, int[], int[x] -> x")(lambda a, s, i: a + cd.uniform(s, i, 5, 2**31 + 7, 2**32 - 1))
        reference = torch_reference(program.diagram)
        names: dict[str, Any] = {}
        exec(reference.text, names)
        found = names[reference.entry](torch.zeros(1000), -3, torch.arange(1000))
        assert np.array_equal(found.numpy(), uniform(-3, np.arange(1000), 5, 2**31 + 7, 2**32 - 1))

    def test_tl_rand_is_the_same(self) -> None:
        import torch
        import triton
        import triton.language as tl

        @triton.jit
        def numbers(out: Any, seed: Any, start: Any) -> None:
            at = tl.arange(0, 64)
            tl.store(out + at, tl.rand(seed, start + at))

        for seed, start in ((0, 0), (2**40 + 5, 2**31 - 64), (-3, 5)):
            out = torch.zeros(64)
            numbers[(1,)](out, seed, start)
            assert np.array_equal(out.numpy(), uniform(seed, start + np.arange(64), 0, 0, 0))
