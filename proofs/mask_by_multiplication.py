"""A mask by a case distinction is a multiplication with zeros and ones."""

import catdiag as cd


@cd.algorithm("q x, q x -> q")
def left(A, B):
    return cd.sum(cd.where(A > 0, B, 0), "x")


@cd.algorithm("q x, q x -> q")
def right(A, B):
    return cd.sum(cd.where(A > 0, 1, 0) * B, "x")
