"""A softmax of logarithms is a normalisation of positive numbers."""

import catdiag as cd


@cd.algorithm("q x -> q x")
def left(X):
    return cd.softmax(cd.log(cd.exp(X) + 1), "x")


@cd.algorithm("q x -> q x")
def right(X):
    return (cd.exp(X) + 1) / cd.sum(cd.exp(X) + 1, "x")
