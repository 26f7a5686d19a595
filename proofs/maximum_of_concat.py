"""A maximum over a concatenation is the maximum of the maxima."""

import catdiag as cd


@cd.algorithm("q x, q y -> q")
def left(A, B):
    return cd.max(cd.concat([A, B], "x+y"), "x+y")


@cd.algorithm("q x, q y -> q")
def right(A, B):
    return cd.maximum(cd.max(A, "x"), cd.max(B, "y"))
