"""Rows of a product are the product of rows."""

import catdiag as cd


@cd.algorithm("v d, d o, int[t] -> t o")
def left(E, W, at):
    return cd.gather(cd.einsum("v d, d o -> v o", E, W), "v", at)


@cd.algorithm("v d, d o, int[t] -> t o")
def right(E, W, at):
    return cd.einsum("t d, d o -> t o", cd.gather(E, "v", at), W)
