"""A mean and a variance in one pass, in Welford's (1962) form: δ, the new mean, and δ·δ′ with the new deviation."""

import catdiag as cd


@cd.algorithm("x -> , ")
def left(X):
    return cd.mean(X, "x"), cd.mean((X - cd.mean(X, "x")) ** 2, "x")


def merge(a, b):
    n, delta = a[0] + b[0], b[1] - a[1]
    mean = a[1] + delta * b[0] / n
    return n, mean, a[2] + b[2] + b[0] * delta * (b[1] - mean)


def state(X):
    mean = cd.mean(X, "x")
    return cd.size("x"), mean, cd.sum((X - mean) ** 2, "x")


welford = cd.Fold(
    unit=(0, 0, 0), element=lambda x: (1, x, 0), merge=merge, finish=lambda n, mean, m2: (mean, m2 / n), state=state
)
right = left.stream("x", by=welford)
