"""Keys that heads share are keys repeated for each head."""

import catdiag as cd


@cd.algorithm("k r q d, k x d -> k r q x")
def left(Q, K):
    return cd.einsum("k r q d, k x d -> k r q x", Q, K)


@cd.algorithm("k r q d, k x d -> k r q x")
def right(Q, K):
    repeated = cd.repeat(K, "k", "r")
    return cd.rearrange(
        cd.einsum("(k r) q d, (k r) x d -> (k r) q x", cd.rearrange(Q, "k r q d -> (k r) q d"), repeated),
        "(k r) q x -> k r q x",
    )
