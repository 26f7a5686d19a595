"""A dot product does not see both vectors reversed."""

import catdiag as cd


@cd.algorithm("x, x ->")
def left(A, B):
    return cd.sum(cd.reverse(A, "x") * cd.reverse(B, "x"), "x")


@cd.algorithm("x, x ->")
def right(A, B):
    return cd.sum(A * B, "x")
