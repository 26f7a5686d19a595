"""The merge of a streamed softmax is associative on all states that are reached: those of lists `x1`, `x2` and `x3`."""

import catdiag as cd


def state(S, x):
    top = cd.max(S, x)
    return top, cd.sum(cd.exp(S - top), x)


def merge(one, other):
    top = cd.maximum(one[0], other[0])
    return top, one[1] * cd.exp(one[0] - top) + other[1] * cd.exp(other[0] - top)


@cd.algorithm("q x1, q x2, q x3 -> q, q")
def left(A, B, C):
    return merge(merge(state(A, "x1"), state(B, "x2")), state(C, "x3"))


@cd.algorithm("q x1, q x2, q x3 -> q, q")
def right(A, B, C):
    return merge(state(A, "x1"), merge(state(B, "x2"), state(C, "x3")))
