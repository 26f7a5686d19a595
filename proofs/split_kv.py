"""Attention over keys in two parts, each normalised, merged by their log-sum-exps (flash decoding)."""

import catdiag as cd


@cd.algorithm("q d, x+y d, x+y v -> q v")
def left(Q, K, V):
    S = cd.einsum("q d, x+y d -> q x+y", Q, K)
    return cd.einsum("q x+y, x+y v -> q v", cd.softmax(S, "x+y"), V)


@cd.algorithm("q d, x+y d, x+y v -> q v")
def right(Q, K, V):
    (K1, K2), (V1, V2) = cd.split(K, "x+y"), cd.split(V, "x+y")
    S1, S2 = cd.einsum("q d, x d -> q x", Q, K1), cd.einsum("q d, y d -> q y", Q, K2)
    O1 = cd.einsum("q x, x v -> q v", cd.softmax(S1, "x"), V1)
    O2 = cd.einsum("q y, y v -> q v", cd.softmax(S2, "y"), V2)
    m1, m2 = cd.max(S1, "x"), cd.max(S2, "y")
    m = cd.maximum(m1, m2)
    l1 = cd.sum(cd.exp(S1 - m1), "x") * cd.exp(m1 - m)
    l2 = cd.sum(cd.exp(S2 - m2), "y") * cd.exp(m2 - m)
    return (l1 * O1 + l2 * O2) / (l1 + l2)
