"""Reversing twice is nothing."""

import catdiag as cd


@cd.algorithm("q x -> q x")
def left(A):
    return cd.reverse(cd.reverse(A, "x"), "x")


@cd.algorithm("q x -> q x")
def right(A):
    return A
