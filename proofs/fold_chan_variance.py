"""A variance by counts, means and sums of squared deviations, merged as Chan, Golub and LeVeque (1979) do."""

import catdiag as cd


@cd.algorithm("x ->")
def left(X):
    return cd.mean((X - cd.mean(X, "x")) ** 2, "x")


def merge(a, b):
    n, delta = a[0] + b[0], b[1] - a[1]
    return n, a[1] + delta * b[0] / n, a[2] + b[2] + delta * delta * a[0] * b[0] / n


chan = cd.Fold(unit=(0, 0, 0), element=lambda x: (1, x, 0), merge=merge, finish=lambda n, mean, m2: m2 / n)
right = left.stream("x", by=chan)
