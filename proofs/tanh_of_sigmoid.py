"""A hyperbolic tangent is a sigmoid, scaled and shifted."""

import catdiag as cd


@cd.algorithm("x -> x")
def left(A):
    return cd.tanh(A)


@cd.algorithm("x -> x")
def right(A):
    return 2 * cd.nn.sigmoid(2 * A) - 1
