"""The mean of two parts together, by Chan, Golub and LeVeque (1979)."""

import catdiag as cd


@cd.algorithm("x+y ->")
def left(X):
    return cd.mean(X, "x+y")


@cd.algorithm("x+y ->")
def right(X):
    (A, B), n, m = cd.split(X, "x+y"), cd.size("x"), cd.size("y")
    return cd.mean(A, "x") + (cd.mean(B, "y") - cd.mean(A, "x")) * m / (n + m)
