"""Batch normalisation at inference folds into the layer before it."""

import catdiag as cd


@cd.algorithm("t i, i o, o, o, o, o, o -> t o")
def left(X, W, b, mean, deviation, g, c):
    return (cd.einsum("t i, i o -> t o", X, W) + b - mean) / deviation * g + c


@cd.algorithm("t i, i o, o, o, o, o, o -> t o")
def right(X, W, b, mean, deviation, g, c):
    scale = g / deviation
    return cd.einsum("t i, i o -> t o", X, W * scale) + ((b - mean) * scale + c)
