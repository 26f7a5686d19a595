"""The sum of squared deviations of two parts together, by Chan, Golub and LeVeque (1979)."""

import catdiag as cd


@cd.algorithm("x+y ->")
def left(X):
    centred = X - cd.mean(X, "x+y")
    return cd.sum(centred * centred, "x+y")


@cd.algorithm("x+y ->")
def right(X):
    (A, B), n, m = cd.split(X, "x+y"), cd.size("x"), cd.size("y")
    a, b = cd.mean(A, "x"), cd.mean(B, "y")
    within = cd.sum((A - a) * (A - a), "x") + cd.sum((B - b) * (B - b), "y")
    return within + (b - a) * (b - a) * n * m / (n + m)
