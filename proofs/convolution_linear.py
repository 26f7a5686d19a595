"""A convolution is linear in its input."""

import catdiag as cd


@cd.algorithm("c x, c x, o c k -> o y")
def left(X, Z, W):
    return cd.einsum("c y k, o c k -> o y", cd.window(X + Z, "x", "y k"), W)


@cd.algorithm("c x, c x, o c k -> o y")
def right(X, Z, W):
    return cd.einsum("c y k, o c k -> o y", cd.window(X, "x", "y k"), W) + cd.einsum(
        "c y k, o c k -> o y", cd.window(Z, "x", "y k"), W
    )
