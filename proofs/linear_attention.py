"""Attention without a softmax reassociates to linear cost."""

import catdiag as cd


@cd.algorithm("q d, x d, x v -> q v")
def left(Q, K, V):
    return cd.einsum("q x, x v -> q v", cd.einsum("q d, x d -> q x", Q, K), V)


@cd.algorithm("q d, x d, x v -> q v")
def right(Q, K, V):
    return cd.einsum("q d, d v -> q v", Q, cd.einsum("x d, x v -> d v", K, V))
