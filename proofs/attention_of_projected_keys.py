"""The projection of the keys moves over to the queries."""

import catdiag as cd


@cd.algorithm("q d, x i, i d, x v -> q v")
def left(Q, X, W, V):
    K = cd.einsum("x i, i d -> x d", X, W)
    S = cd.einsum("q d, x d -> q x", Q, K)
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


@cd.algorithm("q d, x i, i d, x v -> q v")
def right(Q, X, W, V):
    absorbed = cd.einsum("q d, i d -> q i", Q, W)
    S = cd.einsum("q i, x i -> q x", absorbed, X)
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)
