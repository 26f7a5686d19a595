"""A layer of a language model, simplified by rules of its author's, each proved once for all sizes.

The gain of a normalisation goes into the weights of the three linear layers that read it, and the division of the
attention weights goes behind the product with the values, where the array is smaller. Prints why a rule that takes one
linear layer does not match, each rewrite, the theorem about the whole layer, and that NumPy agrees.
"""

from __future__ import annotations

import numpy as np

import catdiag as cd


@cd.algorithm("n d, d, d e, d e, d e -> n e")
def layer(X, gain, Wq, Wk, Wv):
    """Normalised rows attend to each other; one head."""
    root = cd.sqrt(cd.mean(X * X, "d") + 1)
    H = X / root * gain
    Q = cd.einsum("n d, d e -> n e", H, Wq)
    K = cd.einsum("n d, d e -> n e", H, Wk).rename(n="m")
    V = cd.einsum("n d, d e -> n e", H, Wv).rename(n="m")
    P = cd.exp(cd.einsum("n e, m e -> n m", Q, K))
    return cd.einsum("n m, m e -> n e", P / cd.sum(P, "m"), V)


# A rule is written for one row; at the layer it holds for all rows, whatever their axis is called.
fold_gain = cd.rule(
    cd.algorithm("d, d, d e")(lambda x, g, W: cd.einsum("d, d e -> e", x * g, W)),
    cd.algorithm("d, d, d e")(lambda x, g, W: cd.einsum("d, d e -> e", x, g * W)),
    name="fold the gain",
)
divide_late = cd.rule(
    cd.algorithm("d, , d e")(lambda x, s, W: cd.einsum("d, d e -> e", x / s, W)),
    cd.algorithm("d, , d e")(lambda x, s, W: cd.einsum("d, d e -> e", x, W) / s),
    name="divide late",
)
# Three products read one array: a rule with an array that is computed once, and used by each of them.
triple_gain = cd.rule(
    cd.algorithm("d, d, d e, d e, d e")(
        lambda x, g, U, V, W: (lambda h: tuple(cd.einsum("d, d e -> e", h, M) for M in (U, V, W)))(x * g)
    ),
    cd.algorithm("d, d, d e, d e, d e")(
        lambda x, g, U, V, W: tuple(cd.einsum("d, d e -> e", x, g * M) for M in (U, V, W))
    ),
    name="fold the gain into three",
)


def main() -> None:
    """Applies the rules, and shows what comes of it."""
    print(fold_gain.explain(layer))
    print()
    done = layer.apply(triple_gain).apply(divide_late)
    for step in done.steps:
        print(step.name, "·", " ".join(box.name for box in step.diagram.boxes))
    print()
    print(done.theorem)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) / 4 for shape in ((6, 8), (8,), (8, 4), (8, 4), (8, 4))]
    print(f"\nlargest difference on NumPy: {np.abs(done(*arrays) - layer(*arrays)).max():.0e}")


if __name__ == "__main__":
    main()
