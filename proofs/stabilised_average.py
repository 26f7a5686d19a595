"""An average weighted by exponentials: the greatest exponent may be subtracted; a stream keeps it in its state."""

import catdiag as cd


@cd.algorithm("q d, x d, x v -> q v")
def left(Q, K, V):
    weights = cd.exp(cd.einsum("q d, x d -> q x", Q, K))
    return cd.einsum("q x, x v -> q v", weights, V) / cd.sum(weights, "x")


right = left.stabilize().stream("x")
