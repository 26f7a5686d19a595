"""A trace is invariant under cyclic shifts."""

import catdiag as cd


@cd.algorithm("a b, b c, c a ->")
def left(A, B, C):
    return cd.einsum("a b, b a ->", A, cd.einsum("b c, c a -> b a", B, C))


@cd.algorithm("a b, b c, c a ->")
def right(A, B, C):
    return cd.einsum("c a, a c ->", C, cd.einsum("a b, b c -> a c", A, B))
