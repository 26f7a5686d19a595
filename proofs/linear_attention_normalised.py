"""Linear attention normalised by its row sums."""

import catdiag as cd


@cd.algorithm("q d, x d, x v -> q v")
def left(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K)
    return cd.einsum("q x, x v -> q v", S / cd.sum(S, "x"), V)


@cd.algorithm("q d, x d, x v -> q v")
def right(Q, K, V):
    state = cd.einsum("x d, x v -> d v", K, V)
    return cd.einsum("q d, d v -> q v", Q, state) / cd.einsum("q d, d -> q", Q, cd.sum(K, "x"))
