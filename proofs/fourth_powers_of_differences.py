"""Fourth powers of weighted differences, summed up: three products of matrices and two sums over one array each."""

import catdiag as cd


@cd.algorithm("q d, x d, d -> q x")
def left(A, B, w):
    return cd.sum(w * (A - B) ** 4, "d")


made = left.distribute("d")
right = made
