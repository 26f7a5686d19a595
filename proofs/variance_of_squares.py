"""A variance is the mean of the squares less the square of the mean."""

import catdiag as cd


@cd.algorithm("q x -> q")
def left(X):
    centred = X - cd.mean(X, "x")
    return cd.mean(centred * centred, "x")


@cd.algorithm("q x -> q")
def right(X):
    return cd.mean(X * X, "x") - cd.mean(X, "x") * cd.mean(X, "x")
