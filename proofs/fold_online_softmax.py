"""Attention by a running maximum, normaliser and weighted sum (Milakov and Gimelshein 2018), given by hand."""

import catdiag as cd


@cd.algorithm("q d, x d, x v -> q v")
def left(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K)
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


def merge(a, b):
    m = cd.maximum(a[0], b[0])
    p, r = cd.exp(a[0] - m), cd.exp(b[0] - m)
    return m, a[1] * p + b[1] * r, a[2] * p + b[2] * r


online = cd.Fold(
    unit=(-float("inf"), 0, 0),
    element=lambda q, k, v: (cd.einsum("q d, d -> q", q, k), 1, v),
    merge=merge,
    finish=lambda m, total, weighted: weighted / total,
)
right = left.stream("x", by=online)
