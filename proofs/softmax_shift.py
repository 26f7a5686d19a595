"""A softmax does not see a constant that is added."""

import catdiag as cd


@cd.algorithm("q x, q -> q x")
def left(X, c):
    return cd.softmax(X + c, "x")


@cd.algorithm("q x, q -> q x")
def right(X, c):
    return cd.softmax(X, "x") + 0 * c
