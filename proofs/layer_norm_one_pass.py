"""LayerNorm in one pass: the product first, then mean and deviation."""

import catdiag as cd


@cd.algorithm("t d, d o, -> t o")
def left(X, W, eps):
    centred = X - cd.mean(X, "d")
    normal = centred / cd.sqrt(cd.mean(centred * centred, "d") + cd.exp(eps))
    return cd.einsum("t d, d o -> t o", normal, W)


@cd.algorithm("t d, d o, -> t o")
def right(X, W, eps):
    mean = cd.mean(X, "d")
    deviation = cd.sqrt(cd.mean(X * X, "d") - mean * mean + cd.exp(eps))
    return (cd.einsum("t d, d o -> t o", X, W) - mean * cd.sum(W, "d")) / deviation
