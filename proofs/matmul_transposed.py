"""A transposed product is the product of the transposed matrices, the other way round."""

import catdiag as cd


@cd.algorithm("a b, b c -> c a")
def left(A, B):
    return cd.rearrange(cd.einsum("a b, b c -> a c", A, B), "a c -> c a")


@cd.algorithm("a b, b c -> c a")
def right(A, B):
    return cd.einsum("c b, b a -> c a", cd.rearrange(B, "b c -> c b"), cd.rearrange(A, "a b -> b a"))
