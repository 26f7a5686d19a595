"""Sigmoid of the negative."""

import catdiag as cd


@cd.algorithm("x -> x")
def left(A):
    return cd.nn.sigmoid(-A)


@cd.algorithm("x -> x")
def right(A):
    return 1 - cd.nn.sigmoid(A)
