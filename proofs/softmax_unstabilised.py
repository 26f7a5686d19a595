"""A softmax needs no maximum subtracted, over the reals."""

import catdiag as cd


@cd.algorithm("q x -> q x")
def left(X):
    return cd.softmax(X, "x")


@cd.algorithm("q x -> q x")
def right(X):
    return cd.exp(X) / cd.sum(cd.exp(X), "x")
