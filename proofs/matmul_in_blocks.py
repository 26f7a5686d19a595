"""A product over a blocked axis is the sum of the products of blocks."""

import catdiag as cd


@cd.algorithm("a (k b), (k b) c -> a c")
def left(A, B):
    return cd.einsum("a (k b), (k b) c -> a c", A, B)


@cd.algorithm("a (k b), (k b) c -> a c")
def right(A, B):
    blocks = cd.rearrange(A, "a (k b) -> k a b"), cd.rearrange(B, "(k b) c -> k b c")
    return cd.sum(cd.einsum("k a b, k b c -> k a c", *blocks), "k")
