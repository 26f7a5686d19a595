"""A convolution is windows laid out in rows, times the kernels as a matrix."""

import catdiag as cd


@cd.algorithm("c x, o c k -> o y")
def left(X, W):
    return cd.einsum("c y k, o c k -> o y", cd.window(X, "x", "y k"), W)


@cd.algorithm("c x, o c k -> o y")
def right(X, W):
    rows = cd.rearrange(cd.window(X, "x", "y k"), "c y k -> y (c k)")
    return cd.einsum("y (c k), o (c k) -> o y", rows, cd.rearrange(W, "o c k -> o (c k)"))
