"""Two linear layers with biases are one."""

import catdiag as cd


@cd.algorithm("t i, i h, h, h o, o -> t o")
def left(X, W, b, V, c):
    return cd.einsum("t h, h o -> t o", cd.einsum("t i, i h -> t h", X, W) + b, V) + c


@cd.algorithm("t i, i h, h, h o, o -> t o")
def right(X, W, b, V, c):
    return cd.einsum("t i, i o -> t o", X, cd.einsum("i h, h o -> i o", W, V)) + (cd.einsum("h, h o -> o", b, V) + c)
