"""A bilinear form sums over either index first."""

import catdiag as cd


@cd.algorithm("x y, x, y ->")
def left(A, b, c):
    return cd.sum(b * cd.sum(A * c, "y"), "x")


@cd.algorithm("x y, x, y ->")
def right(A, b, c):
    return cd.sum(c * cd.sum(A * b, "x"), "y")
