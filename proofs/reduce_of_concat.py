"""A sum over a concatenation is the sum of the sums."""

import catdiag as cd


@cd.algorithm("q x, q y -> q")
def left(A, B):
    return cd.sum(cd.concat([A, B], "x+y"), "x+y")


@cd.algorithm("q x, q y -> q")
def right(A, B):
    return cd.sum(A, "x") + cd.sum(B, "y")
