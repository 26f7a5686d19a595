"""Backward passes as programs, written by hand: attention's in one kernel and in two, norms', a gated unit's, a loss's.

A backward pass reads what the forward pass read, cotangents (`dO` is that of `O`), and statistics that the forward pass
saved: `L`, the log-sum-exp of each row of scores, and `D`, the sum of `dO · O` along each row, for attention. With
these, weights are recomputed block by block, and nothing of the size of the scores is in memory.

Attention's is one kernel of five products, in which each group of keys adds to the cotangents of all queries, or two of
seven in which each result is written once. Prints the transfers and the optimum of both forms.
"""

from __future__ import annotations

import catdiag as cd


def weights(Q, K, L, causal=False):
    """The weights of attention, recomputed from the log-sum-exp of their row."""
    P = cd.exp(cd.einsum("h q d, h x d -> h q x", Q, K) / cd.sqrt(cd.size("d")) - L)
    return cd.where(cd.index("x") <= cd.index("q"), P, 0) if causal else P


def score_gradients(P, V, dO, D):
    """The cotangent of the scores: P (dP − D), where dP is that of the weights."""
    return P * (cd.einsum("h q v, h x v -> h q x", dO, V) - D)


def query_gradients(Q, K, V, dO, L, D, causal=False):
    """The cotangent of queries: dQ[q,d] = Σ_x dS[q,x] · K[x,d] / √d."""
    dS = score_gradients(weights(Q, K, L, causal), V, dO, D)
    return cd.einsum("h q x, h x d -> h q d", dS, K) / cd.sqrt(cd.size("d"))


def key_value_gradients(Q, K, V, dO, L, D, causal=False):
    """Those of keys and values: dK[x,d] = Σ_q dS[q,x] · Q[q,d] / √d, dV[x,v] = Σ_q P[q,x] · dO[q,v]."""
    P = weights(Q, K, L, causal)
    dK = cd.einsum("h q x, h q d -> h x d", score_gradients(P, V, dO, D), Q) / cd.sqrt(cd.size("d"))
    return dK, cd.einsum("h q x, h q v -> h x v", P, dO)


_INPUTS = "h q d, h x d, h x v, h q v, h q, h q"


@cd.algorithm(f"{_INPUTS} -> h q d")
def attention_dq(Q, K, V, dO, L, D):
    """dQ of attention, from saved statistics."""
    return query_gradients(Q, K, V, dO, L, D)


@cd.algorithm(f"{_INPUTS} -> h x d, h x v")
def attention_dkv(Q, K, V, dO, L, D):
    """dK and dV of attention, from saved statistics."""
    return key_value_gradients(Q, K, V, dO, L, D)


@cd.algorithm(f"{_INPUTS} -> h q d")
def causal_dq(Q, K, V, dO, L, D):
    """dQ of causal attention, from saved statistics."""
    return query_gradients(Q, K, V, dO, L, D, causal=True)


@cd.algorithm(f"{_INPUTS} -> h x d, h x v")
def causal_dkv(Q, K, V, dO, L, D):
    """dK and dV of causal attention, from saved statistics."""
    return key_value_gradients(Q, K, V, dO, L, D, causal=True)


@cd.algorithm(f"{_INPUTS} -> h q d, h x d, h x v")
def attention_dqkv(Q, K, V, dO, L, D):
    """dQ, dK and dV of attention, from saved statistics."""
    return query_gradients(Q, K, V, dO, L, D), *key_value_gradients(Q, K, V, dO, L, D)


@cd.algorithm(f"{_INPUTS} -> h q d, h x d, h x v")
def causal_dqkv(Q, K, V, dO, L, D):
    """dQ, dK and dV of causal attention, from saved statistics."""
    return query_gradients(Q, K, V, dO, L, D, causal=True), *key_value_gradients(Q, K, V, dO, L, D, causal=True)


@cd.algorithm("h q v, h q v -> h q")
def row_products(dO, out):
    """D of attention's backward pass: Σ_v dO · O in each row, where O is what attention gave (`out`)."""
    return cd.einsum("h q v, h q v -> h q", dO, out)


@cd.algorithm("t f, f, t, t f -> t f, f")
def rms_norm_backward(X, g, r, dY):
    """The cotangents of rows and gain, from r = 1/√(mean X² + ε) of each row, with N = X · r:

    dX = r (G − N · mean_f(G · N)), G = dY · g;  dg = Σ_t dY · N
    """
    N, G = X * r, dY * g
    return r * (G - N * cd.mean(G * N, "f")), cd.sum(dY * N, "t")


@cd.algorithm("t f, f, t, t, t f -> t f, f, f")
def layer_norm_backward(X, g, m, r, dY):
    """The cotangents of rows, gain and bias, from the mean m and r = 1/√(variance + ε) of each row, N = (X − m) · r:

    dX = r (G − mean_f G − N · mean_f(G · N)), G = dY · g;  dg = Σ_t dY · N;  db = Σ_t dY
    """
    N, G = (X - m) * r, dY * g
    dX = r * (G - cd.mean(G, "f") - N * cd.mean(G * N, "f"))
    return dX, cd.sum(dY * N, "t"), cd.sum(dY, "t")


@cd.algorithm("t f, t f, t f -> t f, t f")
def swiglu_backward(A, B, dY):
    """The cotangents of both inputs of A · sigmoid(A) · B."""
    s = cd.nn.sigmoid(A)
    return dY * B * (s + A * s * (1 - s)), dY * A * s


def logit_gradients(X, W, ids, L, w):
    """The cotangent of the logits of a linear classifier under cross-entropy, each token weighted by w."""
    P = cd.exp(cd.einsum("t e, n e -> t n", X, W) - L)
    return (P - cd.where(cd.index("n") == ids, 1, 0)) * w


@cd.algorithm("t e, n e, int[t], t, t -> t e")
def linear_cross_entropy_dx(X, W, ids, L, w):
    """The cotangent of hidden states under cross-entropy of X Wᵀ, from the log-sum-exp L of each row of logits."""
    return cd.einsum("t n, n e -> t e", logit_gradients(X, W, ids, L, w), W)


@cd.algorithm("t e, n e, int[t], t, t -> n e")
def linear_cross_entropy_dw(X, W, ids, L, w):
    """That of the classifier's weights."""
    return cd.einsum("t n, t e -> n e", logit_gradients(X, W, ids, L, w), X)


def main() -> None:
    """Prints what the kernels of attention's backward pass transfer, and the least of it."""
    two = attention_dq.stream("x").group("h q"), attention_dkv.stream("q").group("h x")
    for form in (attention_dqkv.stream("q").group("h x"), *two):
        io = form.io()
        print(form.theorem)
        print("transfers", io.relaxed)
        print("memory   ", io.memory)
        print(io.optimum(), "\n")


if __name__ == "__main__":
    main()
