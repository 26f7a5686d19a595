"""Four tensors contract in any order."""

import catdiag as cd


@cd.algorithm("a b, b c d, c e, d e f -> a f")
def left(A, B, C, D):
    return cd.einsum("a b, b c d, c e, d e f -> a f", A, B, C, D)


@cd.algorithm("a b, b c d, c e, d e f -> a f")
def right(A, B, C, D):
    AB = cd.einsum("a b, b c d -> a c d", A, B)
    CD = cd.einsum("c e, d e f -> c d f", C, D)
    return cd.einsum("a c d, c d f -> a f", AB, CD)
