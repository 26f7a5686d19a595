"""A low-rank adapter merges into the weight (LoRA, Hu et al. 2021)."""

import catdiag as cd


@cd.algorithm("t i, i o, i r, r o, -> t o")
def left(X, W, A, B, s):
    return cd.einsum("t i, i o -> t o", X, W) + s * cd.einsum("t r, r o -> t o", cd.einsum("t i, i r -> t r", X, A), B)


@cd.algorithm("t i, i o, i r, r o, -> t o")
def right(X, W, A, B, s):
    return cd.einsum("t i, i o -> t o", X, W + s * cd.einsum("i r, r o -> i o", A, B))
