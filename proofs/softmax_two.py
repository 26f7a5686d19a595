"""A softmax over two is a sigmoid of the difference."""

import catdiag as cd


@cd.algorithm("q, q -> q")
def left(a, b):
    return cd.exp(a) / (cd.exp(a) + cd.exp(b))


@cd.algorithm("q, q -> q")
def right(a, b):
    return cd.nn.sigmoid(a - b)
