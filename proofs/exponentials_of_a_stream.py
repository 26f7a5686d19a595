"""What a streamed softmax takes exponentials of is never above 0, so that none overflows: `x1` was read before, `x2` is
the block at hand, and the maximum is that of both."""

import catdiag as cd


def maxima(Q, K):
    S1, S2 = (cd.einsum("q d, x d -> q x", Q, part.rename(**{x: "x"})) for part, x in parts(K))
    return S1, S2, cd.maximum(cd.max(S1, "x"), cd.max(S2, "x"))


def parts(K):
    return zip(cd.split(K, "x1+x2"), ("x1", "x2"), strict=True)


@cd.algorithm("q d, x1+x2 d -> bool[q], bool[q]")
def left(Q, K):
    true = cd.broadcast(cd.size("d") >= 1, "q")
    return true, true


@cd.algorithm("q d, x1+x2 d -> bool[q], bool[q]")
def right(Q, K):
    S1, S2, new = maxima(Q, K)
    return cd.max(S1, "x") - new <= 0, cd.max(S2 - new, "x") <= 0
