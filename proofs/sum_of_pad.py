"""Zeros that are padded do not change a sum."""

import catdiag as cd


@cd.algorithm("q x -> q")
def left(A):
    return cd.sum(cd.pad(A, "x", 1, 1), "1+x+1")


@cd.algorithm("q x -> q")
def right(A):
    return cd.sum(A, "x")
