"""Log-sum-exp moves a constant out."""

import catdiag as cd


@cd.algorithm("q x, q -> q")
def left(X, c):
    return cd.log(cd.sum(cd.exp(X + c), "x"))


@cd.algorithm("q x, q -> q")
def right(X, c):
    return c + cd.log(cd.sum(cd.exp(X), "x"))
