"""Operators written as their textbook definitions: streamed, proved, grouped, run in blocks."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.ops import FoldOp, GroupOp
from catdiag.planner.derivation_search import attempts, memory
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.group import groupable
from catdiag.solvers.z3 import Z3

OPERATORS: dict[str, tuple[cd.category.Diagram, tuple[str, ...]]] = {}


def operator(signature: str, streams: str):
    """Registers a diagram with the axes along which it must stream (empty: none)."""

    def register(function):
        OPERATORS[function.__name__] = (cd.algorithm(signature)(function), tuple(streams.split()))
        return function

    return register


def scores(Q, K):
    return cd.einsum("q d, x d -> q x", Q, K)


def contract(P, V):
    return cd.einsum("q x, x d -> q d", P, V)


@operator("q d, x d, x d -> q d", "x")
def normalised_queries_and_keys(Q, K, V):
    q, k = Q / cd.sqrt(cd.sum(Q * Q, "d")), K / cd.sqrt(cd.sum(K * K, "d"))
    return contract(cd.softmax(scores(q, k), "x"), V)


@operator("q d, x d, x d, q x -> q d", "x")
def biased(Q, K, V, B):
    return contract(cd.softmax(scores(Q, K) + B, "x"), V)


@operator("q d, x d, x d -> q d", "x")
def slanted(Q, K, V):
    return contract(cd.softmax(scores(Q, K) - (cd.index("q") - cd.index("x")) / 8, "x"), V)


@operator("q d, x d, x d -> q d", "x")
def causal_by_a_large_number(Q, K, V):
    return contract(cd.softmax(cd.where(cd.index("q") >= cd.index("x"), scores(Q, K), -1e9), "x"), V)


@operator("q d, x d, x d -> q d", "x")
def causal_by_minus_infinity(Q, K, V):
    return contract(cd.softmax(cd.where(cd.index("q") >= cd.index("x"), scores(Q, K), float("-inf")), "x"), V)


@operator("q d, x d, x d -> q d", "x")
def first_keys_masked(Q, K, V):
    last = cd.index("x") + 1 >= cd.size("x")
    return contract(cd.softmax(cd.where(last, scores(Q, K), float("-inf")), "x"), V)


@operator("q d, x d, x d -> q d", "x")
def capped(Q, K, V):
    return contract(cd.softmax(30 * cd.tanh(scores(Q, K) / 30), "x"), V)


@operator("q d, x d, x d -> q d", "x")
def by_sigmoid(Q, K, V):
    return contract(cd.nn.sigmoid(scores(Q, K)), V)


@operator("q d, x d, x d -> q d", "x")
def by_distance(Q, K, V):
    p = cd.exp(-cd.sum((Q - K) ** 2, "d"))
    return contract(p, V) / cd.sum(p, "x")


@operator("q d, x d, q d, x d, x d, -> q d", "x")
def difference_of_two(Q, K, R, L, V, c):
    return contract(cd.softmax(scores(Q, K), "x") - c * cd.softmax(scores(R, L), "x"), V)


@operator("q x, x d, -> q d", "x")
def tempered(S, V, T):
    return contract(cd.softmax(S / T, "x"), V)


@operator("q x, x d, -> q d", "x")
def tempered_after_the_maximum(S, V, T):
    p = cd.exp((S - cd.max(S, "x")) / T)
    return contract(p / cd.sum(p, "x"), V)


@operator("q x, x d -> q d, q", "x")
def with_its_normaliser(S, V):
    m = cd.max(S, "x")
    p = cd.exp(S - m)
    total = cd.sum(p, "x")
    return contract(p, V) / total, m + cd.log(total)


@operator("q x, x d -> q d", "x")
def squared_weights(S, V):
    p = cd.softmax(S, "x")
    return contract(p * p, V)


@operator("q x, x d -> q d", "x")
def by_smallest(S, V):
    p = cd.exp(cd.min(S, "x") - S)
    return contract(p / cd.sum(p, "x"), V)


@operator("q x, x d, d o -> q o", "x d")
def projected(S, V, W):
    return cd.einsum("q d, d o -> q o", contract(cd.softmax(S, "x"), V), W)


@operator("t d, d, d o -> t o", "d")
def scaled_by_its_root_mean_square(X, G, W):
    return cd.einsum("t d, d o -> t o", X * G / cd.sqrt(cd.mean(X * X, "d") + 0.001), W)


@operator("t d, d, d, d o -> t o", "d")
def standardised(X, G, B, W):
    centred = X - cd.mean(X, "d")
    return cd.einsum("t d, d o -> t o", centred / cd.sqrt(cd.mean(centred**2, "d") + 0.001) * G + B, W)


@operator("t m, m f, m f, f o -> t o", "m f")
def gated(X, U, G, D):
    u, g = cd.einsum("t m, m f -> t f", X, U), cd.einsum("t m, m f -> t f", X, G)
    return cd.einsum("t f, f o -> t o", u * g * cd.nn.sigmoid(g), D)


@operator("t d, v d, t v -> t", "d v")
def cross_entropy(X, W, Y):
    logits = cd.einsum("t d, v d -> t v", X, W)
    m = cd.max(logits, "v")
    return m + cd.log(cd.sum(cd.exp(logits - m), "v")) - cd.sum(logits * Y, "v")


@operator("t v, t v -> t", "v")
def divergence(P, Q):
    def log_softmax(X):
        m = cd.max(X, "v")
        return X - m - cd.log(cd.sum(cd.exp(X - m), "v"))

    return cd.sum(cd.softmax(P, "v") * (log_softmax(P) - log_softmax(Q)), "v")


@operator("x, x ->", "x")
def covariance(X, Y):
    return cd.mean((X - cd.mean(X, "x")) * (Y - cd.mean(Y, "x")), "x")


@operator("x, x ->", "x")
def correlation(X, Y):
    a, b = X - cd.mean(X, "x"), Y - cd.mean(Y, "x")
    return cd.sum(a * b, "x") / cd.sqrt(cd.sum(a * a, "x") * cd.sum(b * b, "x"))


@operator("x ->", "x")
def skewness(X):
    mu = cd.mean(X, "x")
    v = cd.mean((X - mu) ** 2, "x")
    return cd.mean((X - mu) ** 3, "x") / (v * cd.sqrt(v))


@operator("x, x ->", "x")
def rounded_by_the_largest(X, W):
    return cd.sum(X / cd.max(cd.abs(X), "x") * W, "x")


@operator("x ->", "x")
def geometric_mean(X):
    return cd.exp(cd.mean(cd.log(X), "x"))


@operator("x ->", "x")
def harmonic_mean(X):
    return 1 / cd.mean(1 / X, "x")


@operator("q d, x d -> q", "x d")
def nearest(Q, K):
    return cd.min(cd.sum((Q - K) ** 2, "d"), "x")


@operator("a b, b c -> a c", "b")
def tropical(X, Y):
    return cd.max(X + Y, "b")


@operator("q d, x d, x e -> q e", "x d")
def linear(Q, K, V):
    return cd.einsum("q d, d e -> q e", Q, cd.einsum("x d, x e -> d e", K, V))


@operator("x ->", "x")
def any_positive(X):
    return cd.any(X > 1, "x")


@operator("x ->", "x")
def all_positive(X):
    return cd.all(X > 0.2, "x")


@operator("x ->", "x")
def stabilised_by_the_mean(X):
    m = cd.mean(X, "x")
    return m + cd.log(cd.sum(cd.exp(X - m), "x"))


@operator("x ->", "")
def tanh_of_the_shifted(X):
    return cd.sum(cd.tanh(X - cd.max(X, "x")), "x")


def _tiles(derivation: Derivation, rng: np.random.Generator) -> dict[str, int]:
    tiles = {}
    boxes = list(derivation.diagram.boxes)
    for box in boxes:
        if isinstance(box.op, GroupOp):
            tiles.update({local: int(rng.integers(1, 4)) for _, local in box.op.tiles})
            boxes.extend(box.op.body.boxes)
        if isinstance(box.op, FoldOp):
            tiles[box.op.block] = int(rng.integers(1, 4))
    return tiles


# Of each of these there is another here, or it is an operator of the library too.
SLOW = (
    "normalised_queries_and_keys", "capped", "difference_of_two", "biased", "slanted", "causal_by_a_large_number",
    "first_keys_masked", "tempered_after_the_maximum", "by_smallest", "standardised", "gated", "cross_entropy",
    "divergence", "linear", "squared_weights",
)  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in OPERATORS])
def test_operator(name: str, ask: Z3) -> None:
    diagram, streams = OPERATORS[name]
    tried, refused = attempts(diagram, ask, memory)
    assert {a.axis for a in tried} - {None} == set(streams), refused
    for attempt in tried:
        if attempt.axis is None:
            continue
        _check_runs(diagram, attempt.derivation)
        streamed = attempt.derivation.ungrouped
        axes = groupable(streamed) if streamed is not None else []
        if set(axes) != set(attempt.derivation.groups):  # some would repeat a contraction: right, if not wise
            (every,), _ = attempts(diagram, ask, memory, stream=attempt.axis, group=axes)
            _check_runs(diagram, every.derivation)


def _check_runs(diagram: cd.category.Diagram, derivation: Derivation) -> None:
    """Its theorem has no condition, and run in blocks and tiles it gives what the diagram gives."""
    rng = np.random.default_rng(0)
    assert not derivation.theorem.conditional
    for _ in range(3):
        sizes = {a.name: int(rng.integers(2, 7)) for ty in diagram.dom for a in ty.axes}
        arrays = [np.abs(rng.normal(size=[sizes[a.name] for a in ty.axes])) + 0.1 for ty in diagram.dom]
        expected = cd.Program(diagram).run(*arrays)
        found = cd.Program(derivation).run(*arrays, tiles=_tiles(derivation, rng))
        several = isinstance(expected, tuple)
        for x, y in zip(expected if several else [expected], found if several else [found], strict=True):
            np.testing.assert_allclose(np.asarray(x, float), np.asarray(y, float), rtol=1e-7, atol=1e-9)


def test_refusal_names_the_reduction_and_the_reason() -> None:
    with pytest.raises(cd.errors.NotStreamable, match=r"tanh.*depend on max\[x\]"):
        OPERATORS["tanh_of_the_shifted"][0].stream("x")
