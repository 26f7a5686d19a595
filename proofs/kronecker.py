"""A Kronecker product applied to a matrix as a vector is two products of matrices."""

import catdiag as cd


@cd.algorithm("a b, c d, b d -> a c")
def left(A, B, X):
    return cd.einsum("a b c d, b d -> a c", cd.einsum("a b, c d -> a b c d", A, B), X)


@cd.algorithm("a b, c d, b d -> a c")
def right(A, B, X):
    return cd.einsum("a d, c d -> a c", cd.einsum("a b, b d -> a d", A, X), B)
