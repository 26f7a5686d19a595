"""A mean over blocks of one size is the mean of their means."""

import catdiag as cd


@cd.algorithm("(k b) ->")
def left(A):
    return cd.mean(A, "(k b)")


@cd.algorithm("(k b) ->")
def right(A):
    return cd.mean(cd.mean(cd.rearrange(A, "(k b) -> k b"), "b"), "k")
