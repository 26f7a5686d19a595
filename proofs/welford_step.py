"""One more number in a mean and a sum of squared deviations, by Welford (1962)."""

import catdiag as cd


@cd.algorithm("x+1 -> , ")
def left(X):
    centred = X - cd.mean(X, "x+1")
    return cd.mean(X, "x+1"), cd.sum(centred * centred, "x+1")


@cd.algorithm("x+1 -> , ")
def right(X):
    rest, last = cd.split(X, "x+1")
    new, old, n = cd.sum(last, "1"), cd.mean(rest, "x"), cd.size("x")
    mean = old + (new - old) / (n + 1)
    return mean, cd.sum((rest - old) * (rest - old), "x") + (new - old) * (new - mean)
