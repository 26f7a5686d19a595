"""Softmax is right for rows whose largest number is any that its type holds, and for rows that are masked whole."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.codegen.numpy_source import source

LARGEST = {"float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}


@cd.algorithm("q x, bool[q x], bool[q x], x v -> q v, q", name="masked")
def masked(S: Any, M: Any, N: Any, V: Any) -> Any:
    """Both masks in one: a finite number where M does not hold, none at all where N does not."""
    kept = cd.where(N, cd.where(M, S, -1e30), -cd.inf)
    return cd.einsum("q x, x v -> q v", cd.softmax(kept, "x"), V), cd.max(kept, "x")


@cd.algorithm("q x, bool[q x], x v -> q v, q", name="absent")
def absent(S: Any, N: Any, V: Any) -> Any:
    kept = cd.where(N, S, -cd.inf)
    return cd.einsum("q x, x v -> q v", cd.softmax(kept, "x"), V), cd.max(kept, "x")


@cd.algorithm("q x, x v -> q v, q", name="scaled")
def scaled(S: Any, V: Any) -> Any:
    return cd.einsum("q x, x v -> q v", cd.softmax(S * 0.3, "x"), V), cd.max(S, "x")


PROGRAMS: dict[str, Diagram] = {"masked": masked, "absent": absent, "scaled": scaled}


@cache
def form(name: str) -> Any:
    return PROGRAMS[name].stream("x").group("q")


def drawn(name: str, kind: str) -> tuple[list[Any], Any]:
    """Inputs whose rows have all kinds of largest numbers, and the weighted means that they stand for."""
    draw, largest = np.random.default_rng(0), LARGEST[kind]
    rows = [0.0, 1e2, -1e2, 1e30, -1e30, -2e30, 1e37, -1e37, 0.9 * largest, -0.9 * largest, largest, -largest, 0.5]
    q, x = len(rows), 24
    near = np.array(rows)[:, None] * (
        1 + (np.abs(np.array(rows)) > 1e29)[:, None] * draw.integers(-2, 1, (q, x)) * 0.05
    )
    S = (near + draw.standard_normal((q, x))).clip(-largest, largest).astype(kind)
    S[-3:-1, ::2], S[4] = S[-3:-1, :1], -1e30  # several largest ones, and all alike
    V = draw.standard_normal((x, 8)).astype(kind)
    M, N = draw.random((q, x)) < 0.7, draw.random((q, x)) < 0.7
    M[0], N[1], N[2, :16], N[:, 3] = False, True, False, True
    kept = S.astype(np.float64)
    if name == "masked":
        kept = np.where(N, np.where(M, kept, float(np.dtype(kind).type(-1e30))), -np.inf)
    elif name == "absent":
        kept = np.where(N, kept, -np.inf)
    factor = 0.3 if name == "scaled" else 1.0
    with np.errstate(over="ignore"):
        weights = np.exp(factor * (kept - kept.max(1, keepdims=True)))
    means = weights / weights.sum(1, keepdims=True) @ V.astype(np.float64)
    return [S, *([M] if name == "masked" else []), *([N] if name != "scaled" else []), V], means


@pytest.mark.parametrize("block", [1, 5, 8, 24])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_in_numpy(name: str, kind: str, block: int) -> None:
    inputs, means = drawn(name, kind)
    scope: dict[str, Any] = {}
    exec(source(form(name)), scope)
    found = scope[name](*inputs, s_x=block, g_q=4)[0]
    np.testing.assert_allclose(found, means, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_as_they_are_run(name: str) -> None:
    inputs, means = drawn(name, "float64")
    found = form(name).run(*inputs, tiles={"s_x": 5, "g_q": 4})[0]
    np.testing.assert_allclose(found, means, rtol=1e-6, atol=1e-6)
