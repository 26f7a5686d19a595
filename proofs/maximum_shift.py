"""A maximum moves a constant out."""

import catdiag as cd


@cd.algorithm("q x, q -> q")
def left(A, c):
    return cd.max(A + c, "x")


@cd.algorithm("q x, q -> q")
def right(A, c):
    return cd.max(A, "x") + c
