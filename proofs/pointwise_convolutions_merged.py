"""A 1×1 convolution after a convolution merges into it."""

import catdiag as cd


@cd.algorithm("c x, h c k, o h -> o y")
def left(X, W, V):
    return cd.einsum("h y, o h -> o y", cd.einsum("c y k, h c k -> h y", cd.window(X, "x", "y k"), W), V)


@cd.algorithm("c x, h c k, o h -> o y")
def right(X, W, V):
    return cd.einsum("c y k, o c k -> o y", cd.window(X, "x", "y k"), cd.einsum("h c k, o h -> o c k", W, V))
