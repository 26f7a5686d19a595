"""A row is the product with a one-hot vector."""

import catdiag as cd


@cd.algorithm("v d, int[t] -> t d")
def left(E, at):
    return cd.gather(E, "v", at)


@cd.algorithm("v d, int[t] -> t d")
def right(E, at):
    return cd.einsum("t v, v d -> t d", cd.where(cd.equal(cd.index("v"), at), 1, 0), E)
