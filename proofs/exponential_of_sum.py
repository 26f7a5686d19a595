"""An exponential of a sum is a product of exponentials."""

import catdiag as cd


@cd.algorithm("q x -> q")
def left(A):
    return cd.exp(cd.sum(A, "x"))


@cd.algorithm("q x -> q")
def right(A):
    return cd.prod(cd.exp(A), "x")
