"""A whole layer of Llama-3-8B on an H200: its kernels, one theorem, bytes and time, and a step of decoding.

32 query heads share 8 key-value heads of dimension 128, in two halves for rotary positions; the width is 4,096 and that
of the feed-forward part 14,336 (Grattafiori et al. 2024, table 3). Weights are `[out, in]`, as models have them.
`python examples/llama3_layer.py` plans the forward pass over 8,192 tokens.
"""

from __future__ import annotations

from typing import Any

import catdiag as cd

WIDTHS = {"e": 4096, "k": 8, "r": 4, "d": 64, "v": 128, "f": 14336}
PREFILL = {"b": 1, "q": 8192, **WIDTHS}
DECODE = {"b": 16, "x": 8192, **WIDTHS}


def norm(X: Any, g: Any) -> Any:
    """The root-mean-square norm, with a weight for each entry."""
    return X * g / cd.sqrt(cd.mean(X * X, "e") + 1e-5)


def rotated(A: Any, cos: Any, sin: Any) -> Any:
    """Rotary positions: entry d of the first half and entry d of the second are rotated together."""
    sign = cd.where(cd.index("2") < 1, -1, 1)
    return A * cos + sign * cd.reverse(A, "2") * sin


def gated(G: Any, U: Any) -> Any:
    """SwiGLU's activation."""
    return G * cd.nn.sigmoid(G) * U


@cd.algorithm("b q e, q d, q d, e, k r 2 d e, k 2 d e, k v e, e k r v, e, f e, f e, e f -> b q e")
def layer(X, cos, sin, g1, Wq, Wk, Wv, Wo, g2, Wg, Wu, Wd):
    """The forward pass over sequences of q tokens, causal."""
    N = norm(X, g1)
    Q = rotated(cd.einsum("b q e, k r 2 d e -> b k r q 2 d", N, Wq), cos, sin)
    K = rotated(cd.einsum("b q e, k 2 d e -> b k q 2 d", N, Wk), cos, sin).rename(q="x")
    V = cd.einsum("b q e, k v e -> b k q v", N, Wv).rename(q="x")
    S = cd.einsum("b k r q 2 d, b k x 2 d -> b k r q x", Q, K) / cd.sqrt(2 * cd.size("d"))
    S = cd.where(cd.index("x") <= cd.index("q"), S, -float("inf"))
    A = cd.einsum("b k r q x, b k x v -> b k r q v", cd.softmax(S, "x"), V)
    R = X + cd.einsum("b k r q v, e k r v -> b q e", A, Wo)
    M = norm(R, g2)
    G, U = (cd.einsum("b q e, f e -> b q f", M, W) for W in (Wg, Wu))
    return R + cd.einsum("b q f, e f -> b q e", gated(G, U), Wd)


@cd.algorithm("b e, b k r 2 d, b k x 2 d, b k x v, e k r v, e, f e, f e, e f -> b e")
def step(X, Q, K, V, Wo, g2, Wg, Wu, Wd):
    """A step of decoding, from the queries of one token of each sequence and x cached keys and values on."""
    S = cd.einsum("b k r 2 d, b k x 2 d -> b k r x", Q, K) / cd.sqrt(2 * cd.size("d"))
    A = cd.einsum("b k r x, b k x v -> b k r v", cd.softmax(S, "x"), V)
    R = X + cd.einsum("b k r v, e k r v -> b e", A, Wo)
    M = norm(R, g2)
    G, U = (cd.einsum("b e, f e -> b f", M, W) for W in (Wg, Wu))
    return R + cd.einsum("b f, e f -> b e", gated(G, U), Wd)


@cd.algorithm("b e, d, d, e, k r 2 d e, k 2 d e, k v e -> b k r 2 d, b k 2 d, b k v")
def projections(X, cos, sin, g1, Wq, Wk, Wv):
    """The queries, keys and values of one token of each sequence, before a step of decoding."""
    N = norm(X, g1)
    Q = rotated(cd.einsum("b e, k r 2 d e -> b k r 2 d", N, Wq), cos, sin)
    K = rotated(cd.einsum("b e, k 2 d e -> b k 2 d", N, Wk), cos, sin)
    return Q, K, cd.einsum("b e, k v e -> b k v", N, Wv)


def main() -> None:
    """Plans the forward pass, with products by torch."""
    plan = layer.plan("H200", PREFILL, products="torch")
    print(plan)
    print(f"\n{plan.flops / plan.time_s / 1e12:.0f} TFLOP/s predicted")
    print(str(plan.theorem).splitlines()[0])


if __name__ == "__main__":
    main()
