"""Under a causal mask, later keys than the last query may be left out."""

import catdiag as cd


@cd.algorithm("x d, x+y d, x+y v -> x v")
def left(Q, K, V):
    S = cd.exp(cd.einsum("x d, x+y d -> x x+y", Q, K))
    kept = cd.where(cd.index("x+y") <= cd.index("x"), S, 0)
    return cd.einsum("x x+y, x+y v -> x v", kept, V)


@cd.algorithm("x d, x+y d, x+y v -> x v")
def right(Q, K, V):
    K1, V1 = cd.split(K, "x+y")[0].rename(x="z"), cd.split(V, "x+y")[0].rename(x="z")
    S = cd.exp(cd.einsum("x d, z d -> x z", Q, K1))
    return cd.einsum("x z, z v -> x v", cd.where(cd.index("z") <= cd.index("x"), S, 0), V1)
