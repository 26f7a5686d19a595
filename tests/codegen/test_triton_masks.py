"""Masks of finite numbers: rows that are masked whole are means of all values, not nothing."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import Module, module
from tests.forms import unproved


@functools.cache
def masked(kind: str) -> Module:
    @cd.algorithm("q d, x d, x d, q x -> q d", name="masked")
    def operator(Q: Any, K: Any, V: Any, M: Any) -> Any:
        S = cd.einsum("q d, x d -> q x", Q, K)
        if kind == "scaled after":
            S = cd.where(M < 0.5, S, -1e30) * 0.3
        elif kind == "scaled before":
            S = cd.where(M < 0.5, S * 0.3, -1e30)
        elif kind == "added":
            S = S * 0.3 - M * 1e30
        else:
            S = cd.where(M < 0.5, S * 0.3, float("-inf"))
        return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)

    made = unproved(operator.diagram, "x", "q")
    return module(made, {"g_q": 64, "s_x": 64}, "fp16", specialized=True)


def exponents(made: Module) -> list[str]:
    lines = [line.partition("exp2(")[2].partition("  #")[0] for line in made.text.splitlines() if "l.exp2(" in line]
    return [line for line in lines if "_down" in line or "None" in line]


@pytest.mark.parametrize("kind", ["scaled after", "scaled before", "added"])
def test_huge_numbers_are_subtracted_before_anything_is_made_of_them(kind: str) -> None:
    made = masked(kind)
    assert exponents(made) and all(line.startswith("(") for line in exponents(made))
    # Where what is subtracted is a product, it is rounded before that.
    assert made.text.count("enable_fp_fusion=False") == (2 if kind == "scaled after" else 0)


def test_others_are_one_instruction() -> None:
    made = masked("infinite")
    assert all(not line.startswith("(") for line in exponents(made)) and "enable_fp_fusion" not in made.text


def test_a_difference_of_a_product_and_an_array_is_one_instruction() -> None:
    @cd.algorithm("q d, x d, q, x d -> q d", name="saved")
    def operator(Q: Any, K: Any, L: Any, V: Any) -> Any:
        return cd.einsum("q x, x d -> q d", cd.exp(cd.einsum("q d, x d -> q x", Q, K) * 0.3 - L), V)

    made = module(unproved(operator.diagram, "x", "q"), {"g_q": 64, "s_x": 64}, "fp16", specialized=True)
    assert exponents(made) and all(not line.startswith("(") for line in exponents(made))
    assert "enable_fp_fusion" not in made.text


def test_rows_of_an_array_are_subtracted_from_their_maximum_first() -> None:
    @cd.algorithm("q x, x d -> q d", name="weighted")
    def operator(Z: Any, V: Any) -> Any:
        return cd.einsum("q x, x d -> q d", cd.softmax(Z * 0.3, "x"), V)

    made = module(unproved(operator.diagram, "x", "q"), {"g_q": 64, "s_x": 64}, "fp16")
    assert exponents(made) and all(line.startswith("(") for line in exponents(made))


LOWEST = "-3.4028234663852886e+38"


@pytest.mark.parametrize("specialized", [False, True])
@pytest.mark.parametrize("operator", ["masked", "sliding_window_attention", "prefix_attention", "causal_attention"])
def test_what_stands_for_minus_infinity_is_multiplied_in_no_exponent(operator: str, specialized: bool) -> None:
    """A multiple of the least number overflows: −∞ − (−∞) is NaN where a row has no entry yet."""
    if operator == "masked":
        text = masked("infinite").text
    else:
        loop = unproved(cd.library.get(operator).diagram, "x", "q", skips="x")
        text = module(loop, {"g_q": 64, "s_x": 64}, "fp16", specialized=specialized).text
    assert LOWEST in text
    assert not re.search(rf"{re.escape(LOWEST)}\)+ \* ", text)
    for name in re.findall(rf"(\w+) = \w+\.maximum\([^#\n-]*{re.escape(LOWEST)}\)\s*(?:#|$)", text, re.MULTILINE):
        assert not re.search(rf"(?<![\w.])\(?{name} \* |\* {name}\b", text), name


@pytest.mark.triton
def test_rows_without_an_entry_in_the_first_blocks_are_right() -> None:
    torch = pytest.importorskip("torch")

    from tests.codegen.gluon_machine import load

    run: Any = load(masked("infinite").text, seed=1, name="masked.py")
    run["_boxed"] = lambda tensor, shape, *more: True
    draw = torch.Generator().manual_seed(0)
    Q, K, V = (torch.randn(128, 32, generator=draw).half() for _ in range(3))
    M = (torch.rand(128, 128, generator=draw) < 0.4).half()
    M[70:, :64] = 1.0
    out = run["masked"](Q, K, V, M, g_q=128, num_warps=8, num_stages=2).double().numpy()
    S = np.where(M.numpy() < 0.5, 0.3 * (Q.double().numpy() @ K.double().numpy().T), -np.inf)
    P = np.exp(S - S.max(1, keepdims=True))
    P /= P.sum(1, keepdims=True)
    assert np.isfinite(out).all()
    assert np.abs(out - P @ V.double().numpy()).max() < 0.02


@pytest.mark.triton
@pytest.mark.parametrize("kind", ["scaled after", "scaled before", "added"])
def test_a_row_that_is_masked_whole_is_a_mean(kind: str) -> None:
    torch = pytest.importorskip("torch")
    from tests.codegen.gluon_machine import load

    made = masked(kind)
    run: Any = load(made.text, seed=1, name="masked.py")
    run["_boxed"] = lambda tensor, shape, *more: True
    draw = torch.Generator().manual_seed(0)
    Q, K, V = (torch.randn(128, 32, generator=draw).half() for _ in range(3))
    M = (torch.rand(128, 128, generator=draw) < 0.4).half()
    M[:70] = 1.0  # whole rows, of whole blocks
    M[70:, :64] = 1.0
    out = run["masked"](Q, K, V, M, g_q=128, num_warps=8, num_stages=2).double().numpy()
    S = np.where(M.numpy() < 0.5, Q.double().numpy() @ K.double().numpy().T, -1e30)
    P = np.exp(0.3 * (S - S.max(1, keepdims=True)))
    P /= P.sum(1, keepdims=True)
    assert np.isfinite(out).all()
    assert np.abs(out - P @ V.double().numpy()).max() < 0.02
