"""Three pieces of a language model that is being served, streamed: a router, a decoding step, a running variance.

Prints the state that was found for the router's choice and its gate, which is no fold that anyone gave; a decoding step
under a sliding window whose empty blocks are skipped, and whose keys are cut into parts that are merged; bounds of
that window as someone might have written them, off by one, refuted; and Welford's update, given by hand and proved.
"""

from __future__ import annotations

import numpy as np

import catdiag as cd


@cd.algorithm("t d, d e -> t, t")
def route(X, W):
    """The first of the best experts for each token, and how sure the router is of it."""
    scores = cd.einsum("t d, d e -> t e", X, W)
    top = cd.max(scores, "e")
    return cd.argmax(scores, "e"), 1 / cd.sum(cd.exp(scores - top), "e")


@cd.algorithm("h d, x d, x v, int[], int[] -> h v")
def decode(Q, K, V, now, width):
    """One new token at position `now` attends to itself and the `width` − 1 positions before it."""
    x = cd.index("x")
    seen = (x <= now) & (now - x < width)
    scores = cd.where(seen, cd.einsum("h d, x d -> h x", Q, K) / cd.sqrt(cd.size("d")), -cd.inf)
    return cd.einsum("h x, x v -> h v", cd.softmax(scores, "x"), V)


variance = cd.algorithm("x ->", name="variance")(lambda a: cd.mean((a - cd.mean(a, "x")) ** 2, "x"))


def chan(s, t):
    """Two lists' lengths, means and sums of squared deviations as those of both (Chan, Golub and LeVeque 1979)."""
    (n, mean, square), (m, other, more) = s, t
    delta = other - mean
    return n + m, mean + delta * m / (n + m), square + more + delta * delta * n * m / (n + m)


def main() -> None:
    """Derives, runs in blocks, and compares with the definitions."""
    generator = np.random.default_rng(0)

    routed = route.stream("e")
    print(routed.code("formulas"))
    X, W = generator.normal(size=(5, 8)), generator.normal(size=(8, 20))
    for found, expected in zip(routed.run(X, W, tiles={"s_e": 3}), route(X, W), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)

    served = decode.stream("x").skip("x").split("x")
    print("\n" + served.code("pseudocode"))
    Q, K, V = generator.normal(size=(4, 16)), generator.normal(size=(100, 16)), generator.normal(size=(100, 8))
    arrays = Q, K, V, np.array(70), np.array(33)
    found = served.run(*arrays, tiles={"s_x": 8, "p_x": 3})
    np.testing.assert_allclose(found, decode(*arrays), rtol=1e-12)

    try:
        decode.stream("x").skip("x", bounds=lambda now, width: (now - width + 2, now + 1))
    except cd.Refuted as error:
        print(f"\nbounds off by one: {error}")

    given = cd.Fold(unit=(0, 0, 0), element=lambda a: (1, a, 0), merge=chan, finish=lambda n, mean, square: square / n)
    welford = variance.stream("x", by=given)
    print(f"\n{welford.theorem}")
    far = 1e9 + generator.normal(size=1000)
    print(f"far from 0: {welford.run(far, tiles={'s_x': 64}):.6f}, NumPy {np.var(far):.6f}, "
          f"as sums of squares {variance.stream('x').run(far):.6f}")  # fmt: skip


if __name__ == "__main__":
    main()
