"""A maximum or minimum of elements that statistics shift and a positive one scales."""

import numpy as np
import pytest

import catdiag as cd


@cd.algorithm("q x -> q")
def largest_standardised(S):
    return cd.max((S - cd.mean(S, "x")) / cd.sqrt(cd.nn.var(S, "x") + 1), "x")


@cd.algorithm("q x -> q")
def largest_by_a_root(S):
    return cd.max((S - cd.mean(S, "x")) / cd.sqrt(cd.mean(S * S, "x") + 1), "x")


@cd.algorithm("q x -> q")
def largest_centred_share(S):
    return cd.max(2 * (S - cd.mean(S, "x")) / cd.sum(cd.exp(S), "x") + cd.max(S, "x"), "x")


@cd.algorithm("q x -> q")
def largest_by_a_difference(S):
    return cd.max((S - cd.mean(S, "x")) / (cd.max(S, "x") - cd.min(S, "x")), "x")


S = np.random.default_rng(0).normal(size=(3, 7))
CENTRED = S - S.mean(-1, keepdims=True)
CASES = [
    pytest.param(
        largest_standardised, (CENTRED / np.sqrt(S.var(-1, keepdims=True) + 1)).max(-1), marks=pytest.mark.slow
    ),
    (largest_by_a_root, (CENTRED / np.sqrt((S * S).mean(-1, keepdims=True) + 1)).max(-1)),
    (largest_centred_share, (2 * CENTRED / np.exp(S).sum(-1, keepdims=True)).max(-1) + S.max(-1)),
]


@pytest.mark.parametrize(("program", "expected"), CASES, ids=lambda p: getattr(p, "title", ""))
def test_the_scale_is_pulled_out(program: cd.category.Diagram, expected: np.ndarray) -> None:
    derived = program.stream("x")
    assert not derived.theorem.conditional
    for block in (1, 2, 7):
        np.testing.assert_allclose(derived.run(S, tiles={"s_x": block}), expected, rtol=1e-9)


def test_a_scale_of_unknown_sign_stays() -> None:
    with pytest.raises(cd.errors.NotStreamable, match="positive factors"):
        largest_by_a_difference.stream("x")
