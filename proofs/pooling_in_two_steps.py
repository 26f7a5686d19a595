"""A maximum over windows that do not overlap, then over the windows, is the maximum."""

import catdiag as cd


@cd.algorithm("q (y k) -> q")
def left(X):
    return cd.max(cd.max(cd.window(X, "(y k)", "y k", stride=cd.size("k")), "k"), "y")


@cd.algorithm("q (y k) -> q")
def right(X):
    return cd.max(X, "(y k)")
