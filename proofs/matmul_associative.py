"""Products of matrices associate."""

import catdiag as cd


@cd.algorithm("a b, b c, c d -> a d")
def left(A, B, C):
    return cd.einsum("a c, c d -> a d", cd.einsum("a b, b c -> a c", A, B), C)


@cd.algorithm("a b, b c, c d -> a d")
def right(A, B, C):
    return cd.einsum("a b, b d -> a d", A, cd.einsum("b c, c d -> b d", B, C))
