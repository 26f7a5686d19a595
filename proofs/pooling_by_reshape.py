"""Windows that do not overlap are a reshape."""

import catdiag as cd


@cd.algorithm("q (y k) -> q y")
def left(X):
    return cd.max(cd.window(X, "(y k)", "y k", stride=cd.size("k")), "k")


@cd.algorithm("q (y k) -> q y")
def right(X):
    return cd.max(cd.rearrange(X, "q (y k) -> q y k"), "k")
