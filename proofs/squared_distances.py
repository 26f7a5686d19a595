"""Squared distances are norms less twice the products."""

import catdiag as cd


@cd.algorithm("q d, x d -> q x")
def left(A, B):
    return cd.sum((A - B) * (A - B), "d")


@cd.algorithm("q d, x d -> q x")
def right(A, B):
    return cd.sum(A * A, "d") + cd.sum(B * B, "d") - 2 * cd.einsum("q d, x d -> q x", A, B)
