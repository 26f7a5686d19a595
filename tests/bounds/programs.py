"""Programs whose lower bounds the literature has, or that are searched for the best schedule."""

import catdiag as cd


@cd.algorithm("i j k, j l, k l -> i l")
def mttkrp(X, B, C):
    return cd.einsum("i j k, j l, k l -> i l", X, B, C)


@cd.algorithm("n d -> n m")
def gram(X):
    return cd.einsum("n d, m d -> n m", X, X.rename(n="m"))
