"""Attention by a loop that subtracts, after each key, any number that it likes from the scores (conditional rescaling).

`step[q x]` is by how much the number changes at key x; the number after a list of keys is the sum over the list, so
that every rule for it is covered: the running maximum, one that is kept while it is close, or none. The loop rescales
its sums by exp(old − new), which is 1 where the number is kept.
"""

import catdiag as cd


@cd.algorithm("q x, q x, x v -> q v")
def left(S, step, V):
    return cd.einsum("q x, x v -> q v", cd.softmax(S, "x"), V)


def merge(a, b):
    subtracted = a[0] + b[0]
    p, r = cd.exp(a[0] - subtracted), cd.exp(b[0] - subtracted)
    return subtracted, a[1] * p + b[1] * r, a[2] * p + b[2] * r


def state(S, step, V):
    subtracted = cd.sum(step, "x")
    weights = cd.exp(S - subtracted)
    return subtracted, cd.sum(weights, "x"), cd.einsum("q x, x v -> q v", weights, V)


rescaled = cd.Fold(
    unit=(0, 0, 0),
    element=lambda s, step, v: (step, cd.exp(s - step), cd.exp(s - step) * v),
    merge=merge,
    finish=lambda subtracted, total, weighted: weighted / total,
    state=state,
)
right = left.stream("x", by=rescaled)
