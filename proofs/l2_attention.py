"""Attention normalised by an L2 norm collapses to linear cost."""

import catdiag as cd


@cd.algorithm("q d, x d, x v -> q v")
def left(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K)
    return cd.einsum("q x, x v -> q v", S / cd.sqrt(cd.sum(S * S, "x")), V)


@cd.algorithm("q d, x d, x v -> q v")
def right(Q, K, V):
    gram = cd.einsum("x d, x e -> d e", K, K.rename(d="e"))
    squares = cd.einsum("q d, d e, q e -> q", Q, gram, Q.rename(d="e"))
    return cd.einsum("q d, d v -> q v", Q, cd.einsum("x d, x v -> d v", K, V)) / cd.sqrt(squares)
