"""The scale of RMSNorm folds into the next linear layer, and the norm commutes with it."""

import catdiag as cd


@cd.algorithm("t d, d, d o, -> t o")
def left(X, g, W, eps):
    rms = cd.sqrt(cd.mean(X * X, "d") + cd.exp(eps))
    return cd.einsum("t d, d o -> t o", X / rms * g, W)


@cd.algorithm("t d, d, d o, -> t o")
def right(X, g, W, eps):
    rms = cd.sqrt(cd.mean(X * X, "d") + cd.exp(eps))
    return cd.einsum("t d, d o -> t o", X, cd.einsum("d, d o -> d o", g, W)) / rms
