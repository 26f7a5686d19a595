"""Derived gradients are proved equal to the backward passes that are written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
import examples.backward_passes as passes
import examples.derived_gradients as derived


@pytest.mark.parametrize("causal", [False, True])
def test_from_saved_statistics_the_derived_gradients_are_those_by_hand(causal: bool) -> None:
    """dO and -D are the cotangents of the output and of the sums of the weights."""

    def given(Q: Any, K: Any, V: Any, L: Any) -> Any:
        P = passes.weights(Q, K, L, causal)
        return cd.einsum("h q x, h x v -> h q v", P, V), cd.sum(P, "x")

    back = cd.algorithm("h q d, h x d, h x v, h q", name="given")(given).grad(of="O s", wrt="Q K V")
    signature = "h q d, h x d, h x v, h q v, h q, h q -> h q d, h x d, h x v"
    found = cd.algorithm(signature, name="found")(lambda Q, K, V, dO, L, D: back(Q, K, V, L, dO, -D))
    dq, dkv = (passes.causal_dq, passes.causal_dkv) if causal else (passes.attention_dq, passes.attention_dkv)
    by_hand = cd.algorithm(signature, name="by_hand")(lambda *arrays: (dq(*arrays), *dkv(*arrays)))
    assert not cd.prove(found, by_hand).conditional


def test_the_derived_gradient_of_a_gated_unit_is_the_one_by_hand() -> None:
    unit = cd.algorithm("t f, t f", name="unit")(lambda A, B: A * cd.nn.sigmoid(A) * B)
    assert not cd.prove(unit.grad(), passes.swiglu_backward).conditional


def test_the_example_is_about_one_gradient() -> None:
    rng = np.random.default_rng(0)
    Q, K, V, dO = (rng.normal(size=(n, 3)) for n in (4, 5, 5, 4))
    S = Q @ K.T / np.sqrt(3)
    L = np.log(np.exp(S).sum(axis=1))
    D = (dO * (np.exp(S - L[:, None]) @ V)).sum(axis=1)
    expected = derived.textbook.run(Q, K, V, dO)
    found = derived.by_queries.run(Q, K, V, dO), *derived.by_keys_and_values.run(Q, K, V, L, dO, -D)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)
