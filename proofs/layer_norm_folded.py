"""Scale and shift of LayerNorm fold into the next linear layer."""

import catdiag as cd


@cd.algorithm("t d, d, d, d o, o, -> t o")
def left(X, g, b, W, c, eps):
    centred = X - cd.mean(X, "d")
    normal = centred / cd.sqrt(cd.mean(centred * centred, "d") + cd.exp(eps))
    return cd.einsum("t d, d o -> t o", normal * g + b, W) + c


@cd.algorithm("t d, d, d, d o, o, -> t o")
def right(X, g, b, W, c, eps):
    centred = X - cd.mean(X, "d")
    normal = centred / cd.sqrt(cd.mean(centred * centred, "d") + cd.exp(eps))
    return cd.einsum("t d, d o -> t o", normal, cd.einsum("d, d o -> d o", g, W)) + (cd.einsum("d, d o -> o", b, W) + c)
