"""A quadratic form of differences is made of products with its matrix on one side, also under a minimum."""

import catdiag as cd


@cd.algorithm("q d, x d, d e=d -> q")
def left(A, B, M):
    D = A - B
    S = cd.einsum("q x d, d e, q x e -> q x", D, M, D.rename(d="e"))
    return cd.min(S, "x")


made = left.distribute("d e")
right = made
