"""A stale maximum that is kept while it is within a tolerance of the new one: scores exceed it by no more than that."""

import catdiag as cd

ASSUME = ["tolerance >= 0"]


@cd.algorithm("q x, q, -> bool[q]")
def left(S, old, tolerance):
    return cd.broadcast(cd.size("x") >= 1, "q")


@cd.algorithm("q x, q, -> bool[q]")
def right(S, old, tolerance):
    new = cd.max(S, "x")
    subtracted = cd.where(new <= old + tolerance, old, new)
    return cd.max(S - subtracted, "x") <= tolerance
