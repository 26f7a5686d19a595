"""Attention whose weights are inner products of features of queries and keys, with no exponential of their product.

>>> print(linear_attention)
linear_attention: [q d] @ [x d] @ [x v] → [q v]
"""

from __future__ import annotations

from catdiag.frontend import builder
from catdiag.frontend.elementwise import exp, sqrt, where
from catdiag.frontend.nn import elu, relu
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


def weighted(S: Traced, V: Traced) -> Traced:
    """The mean of the values with weights S: O[q,v] = (Σ_x S[q,x] · V[x,v]) / Σ_x S[q,x]."""
    return builder.einsum("q x, x v -> q v", S / builder.sum(S, "x"), V)


@_entries.algorithm("q d, x d, x v -> q v")
def linear_attention(Q: Traced, K: Traced, V: Traced) -> Traced:
    """Linear attention, with features φ(a) = elu(a) + 1 (Katharopoulos et al. 2020, section 3.2).

    S[q,x] = Σ_d φ(Q[q,d]) · φ(K[x,d])
    O[q,v] = (Σ_x S[q,x] · V[x,v]) / Σ_x S[q,x]
    """
    return weighted(builder.einsum("q d, x d -> q x", elu(Q) + 1, elu(K) + 1), V)


@_entries.algorithm("q d, x d, x v -> q v")
def linear_attention_by_state(Q: Traced, K: Traced, V: Traced) -> Traced:
    """`linear_attention` with the sums over keys first (Katharopoulos et al. 2020, section 3.2).

    Z[d,v] = Σ_x φ(K[x,d]) · V[x,v], with φ(a) = elu(a) + 1
    z[d]   = Σ_x φ(K[x,d])
    O[q,v] = (Σ_d φ(Q[q,d]) · Z[d,v]) / Σ_d φ(Q[q,d]) · z[d]
    """
    f, k = elu(Q) + 1, elu(K) + 1
    above = builder.einsum("q d, d v -> q v", f, builder.einsum("x d, x v -> d v", k, V))
    return above / builder.einsum("q d, d -> q", f, builder.sum(k, "x"))


@_entries.algorithm("q d, x d, x v -> q v")
def causal_linear_attention(Q: Traced, K: Traced, V: Traced) -> Traced:
    """Linear attention to keys that are not later than the query (Katharopoulos et al. 2020, section 3.3).

    S[q,x] = Σ_d φ(Q[q,d]) · φ(K[x,d]) where x ≤ q, else 0, with φ(a) = elu(a) + 1
    O[q,v] = (Σ_x S[q,x] · V[x,v]) / Σ_x S[q,x]
    """
    S = builder.einsum("q d, x d -> q x", elu(Q) + 1, elu(K) + 1)
    return weighted(where(builder.index("x") <= builder.index("q"), S, 0), V)


@_entries.algorithm("q d, x d, x v, -> q v")
def relu_linear_attention(Q: Traced, K: Traced, V: Traced, eps: Traced) -> Traced:
    """Linear attention, with features max(a, 0): the normaliser may be 0, and eps is added to it.

    S[q,x] = Σ_d max(Q[q,d], 0) · max(K[x,d], 0)
    O[q,v] = (Σ_x S[q,x] · V[x,v]) / (eps + Σ_x S[q,x])
    """
    S = builder.einsum("q d, x d -> q x", relu(Q), relu(K))
    return builder.einsum("q x, x v -> q v", S / (builder.sum(S, "x") + eps), V)


@_entries.algorithm("q d, x d, x v -> q v")
def taylor_attention(Q: Traced, K: Traced, V: Traced) -> Traced:
    """Attention whose exponential is its polynomial of degree 2, which is positive (Arora et al. 2024, Based).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d
    W[q,x] = 1 + S[q,x] + S[q,x]² / 2
    O[q,v] = (Σ_x W[q,x] · V[x,v]) / Σ_x W[q,x]
    """
    S = builder.einsum("q d, x d -> q x", Q, K) / sqrt(builder.size("d"))
    return weighted(1 + S + S * S / 2, V)


@_entries.algorithm("q d, x d, x v, m d -> q v")
def random_feature_attention(Q: Traced, K: Traced, V: Traced, W: Traced) -> Traced:
    """Linear attention with m positive random features W of a Gaussian (Choromanski et al. 2021, section 2.3).

    φ(A)[m] = e^((Σ_d W[m,d] · A[d]) − (Σ_d A[d]²) / 2)
    S[q,x]  = Σ_m φ(Q[q])[m] · φ(K[x])[m]
    O[q,v]  = (Σ_x S[q,x] · V[x,v]) / Σ_x S[q,x]
    """
    f = exp(builder.einsum("q d, m d -> q m", Q, W) - builder.sum(Q * Q, "d") / 2)
    k = exp(builder.einsum("x d, m d -> x m", K, W) - builder.sum(K * K, "d") / 2)
    return weighted(builder.einsum("q m, x m -> q x", f, k), V)


DIAGRAMS = _entries.table
