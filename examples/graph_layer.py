"""A layer of a graph network: messages are gathered along edges, and added up at the nodes that they end at.

Prints its kernels on an H200, the one theorem about them, and those of its gradient. The sum at the nodes is a
scatter-add: as it is written each node asks all edges, which would take hundreds of times as long.
"""

from __future__ import annotations

import numpy as np

import catdiag as cd


@cd.algorithm("n d, int[e], int[e], e, d o -> n o")
def graph_layer(X, source, target, weight, W):
    """Σ over the edges that end at a node of weight · (X W) where they begin."""
    messages = cd.gather(cd.einsum("n d, d o -> n o", X, W), "n", source) * weight
    return cd.nn.silu(cd.scatter_add(messages, "e", target, "n"))


SIZES = {"n": 16384, "e": 131072, "d": 256, "o": 256}


def main() -> None:
    """Plans both passes, and compares with NumPy."""
    plan = graph_layer.plan("H200", SIZES, dtype="bf16")
    print(plan)
    gradient = graph_layer.grad(wrt="X")
    print("\n" + gradient.code("pseudocode"))

    random = np.random.default_rng(0)
    X, W, weight = random.normal(size=(6, 4)), random.normal(size=(4, 3)), random.normal(size=9)
    source, target = random.integers(6, size=9), random.integers(6, size=9)
    total = np.zeros((6, 3))
    np.add.at(total, target, (X @ W)[source] * weight[:, None])
    np.testing.assert_allclose(graph_layer(X, source, target, weight, W), total / (1 + np.exp(-total)), rtol=1e-12)


if __name__ == "__main__":
    main()
