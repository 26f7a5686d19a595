"""Two projections of one input are one product with the weights side by side."""

import catdiag as cd


@cd.algorithm("t i, i f, i g -> t f, t g")
def left(X, W, U):
    return cd.einsum("t i, i f -> t f", X, W), cd.einsum("t i, i g -> t g", X, U)


@cd.algorithm("t i, i f, i g -> t f, t g")
def right(X, W, U):
    return cd.split(cd.einsum("t i, i f+g -> t f+g", X, cd.concat([W, U], "f+g")), "f+g")
