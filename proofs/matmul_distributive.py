"""Products of matrices distribute over sums."""

import catdiag as cd


@cd.algorithm("a b, a b, b c -> a c")
def left(A, B, C):
    return cd.einsum("a b, b c -> a c", A + B, C)


@cd.algorithm("a b, a b, b c -> a c")
def right(A, B, C):
    return cd.einsum("a b, b c -> a c", A, C) + cd.einsum("a b, b c -> a c", B, C)
