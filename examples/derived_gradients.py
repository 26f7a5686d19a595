"""Gradients derived, proved and run in loops: attention's, and a loss over a vocabulary.

The gradient by the queries needs no pass before it: the statistics of the softmax are found with it, in one loop over
keys. The gradients by keys and values take the log-sum-exp L of each row of scores, and D, which a first kernel saves;
they are those of `O = Σ e^(S - L)·V` and `s = Σ e^(S - L)` with L constant, since the cotangent of s is -D. Prints the
derived programs, where they are the derivative, what is proved, and the transfers of the loops.
"""

from __future__ import annotations

import numpy as np

import catdiag as cd

attention = cd.library.attention


def scores(Q, K):
    """The scores of a head."""
    return cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d"))


@cd.algorithm("q d, x d, x d, q d -> q d, x d, x d", name="textbook")
def textbook(Q, K, V, dO):
    """The gradient of attention as papers give it."""
    P = cd.softmax(scores(Q, K), "x")
    dP = cd.einsum("q d, x d -> q x", dO, V)
    dS = P * (dP - cd.sum(P * dP, "x")) / cd.sqrt(cd.size("d"))
    by_scores = cd.einsum("q x, x d -> q d", dS, K), cd.einsum("q x, q d -> x d", dS, Q)
    return *by_scores, cd.einsum("q x, q d -> x d", P, dO)


@cd.algorithm("q d, x d, x d, q -> q d, q", name="given")
def given(Q, K, V, L):
    """Attention with the log-sum-exp of its scores given, and the sums of its weights, which are 1."""
    P = cd.exp(scores(Q, K) - L)
    return cd.einsum("q x, x d -> q d", P, V), cd.sum(P, "x")


gradient = attention.grad(of="O")
by_queries = attention.grad(of="O", wrt="Q")
by_keys_and_values = given.grad(of="O s", wrt="K V")


def main() -> None:
    """Derives, proves and runs the gradients of attention."""
    print(gradient.code("pseudocode"))
    print()
    print(attention.differentiability())
    print()
    print(cd.prove(gradient, textbook))
    print()
    loops = by_queries.stream("x").group("q"), by_keys_and_values.stream("q").group("x")
    for loop in loops:
        print(loop.code("pseudocode"))
        print("transfers:", loop.io().relaxed)
        print()
    rng = np.random.default_rng(0)
    Q, K, V, dO = (rng.normal(size=(n, 4)) for n in (6, 10, 10, 6))
    S = Q @ K.T / 2
    L = np.log(np.exp(S).sum(axis=1))
    D = (dO * (np.exp(S - L[:, None]) @ V)).sum(axis=1)
    expected = textbook.run(Q, K, V, dO)
    found = (loops[0].run(Q, K, V, dO, tiles={"s_x": 3}), *loops[1].run(Q, K, V, L, dO, -D, tiles={"s_q": 4}))
    print("largest difference:", f"{max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True)):.0e}")
    value = cd.algorithm("t d, v d, int[t] ->", name="loss")(
        lambda H, W, label: cd.sum(cd.library.linear_cross_entropy(H, W, label), "t")
    )
    print()
    print(cd.value_and_grad(value, "H").stream("v").code("pseudocode"))


if __name__ == "__main__":
    main()
