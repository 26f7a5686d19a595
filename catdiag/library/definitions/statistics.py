"""Statistics along an axis: moments of two arrays, and of an array under the weights of a softmax.

>>> print(softmax_moments)
softmax_moments: [q x] @ [x v] → [q v] @ [q v]
"""

from __future__ import annotations

from catdiag.frontend import builder
from catdiag.frontend.elementwise import sqrt, where
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


@_entries.algorithm("q x, q x -> q")
def covariance(A: Traced, B: Traced) -> Traced:
    """The covariance along x: (Σ_x (A[q,x] − Ā[q]) · (B[q,x] − B̄[q])) / n, n the size of x."""
    return builder.mean((A - builder.mean(A, "x")) * (B - builder.mean(B, "x")), "x")


@_entries.algorithm("q x, q x -> q")
def correlation(A: Traced, B: Traced) -> Traced:
    """Pearson's correlation along x, with a = A − Ā and b = B − B̄: (Σ_x a · b) / √(Σ_x a² · Σ_x b²)."""
    a, b = A - builder.mean(A, "x"), B - builder.mean(B, "x")
    found: Traced = builder.sum(a * b, "x") / sqrt(builder.sum(a * a, "x") * builder.sum(b * b, "x"))
    return found


@_entries.algorithm("q x, q x -> q")
def cosine_similarity(A: Traced, B: Traced) -> Traced:
    """The cosine of two rows: (Σ_x A[q,x] · B[q,x]) / (√(Σ_x A[q,x]²) · √(Σ_x B[q,x]²))."""
    lengths: Traced = sqrt(builder.sum(A * A, "x")) * sqrt(builder.sum(B * B, "x"))
    return builder.sum(A * B, "x") / lengths


@_entries.algorithm("q x, x v -> q v, q v")
def softmax_moments(S: Traced, V: Traced) -> tuple[Traced, Traced]:
    """The mean and the variance of values under the weights of a softmax.

    M[q,v] = Σ_x p[q,x] · V[x,v], with p = softmax_x(S)
    D[q,v] = Σ_x p[q,x] · (V[x,v] − M[q,v])²
    """
    p = builder.softmax(S, "x")
    mean = builder.einsum("q x, x v -> q v", p, V)
    return mean, builder.sum(p * (V - mean) ** 2, "x")


@_entries.algorithm("q x -> q")
def softmax_index(S: Traced) -> Traced:
    """The mean position under the weights of a softmax, soft-argmax: Σ_x softmax_x(S)[q,x] · x."""
    return builder.sum(builder.softmax(S, "x") * builder.index("x"), "x")


@_entries.algorithm("q x -> q")
def largest_probability(S: Traced) -> Traced:
    """How sure a softmax is: max_x softmax_x(S)[q,x]."""
    return builder.max(builder.softmax(S, "x"), "x")


@_entries.algorithm("q x -> q")
def participation(S: Traced) -> Traced:
    """How many elements a softmax is spread over: 1 / Σ_x softmax_x(S)[q,x]²."""
    p = builder.softmax(S, "x")
    return 1 / builder.sum(p * p, "x")


@_entries.algorithm("q x, bool[q x] -> q")
def masked_mean(A: Traced, mask: Traced) -> Traced:
    """The mean of the elements that a mask keeps, 0 where it keeps none."""
    count = builder.sum(mask, "x")
    return where(builder.any(mask, "x"), builder.sum(where(mask, A, 0), "x") / count, 0)


@_entries.algorithm("q x -> q, q")
def top_1(S: Traced) -> tuple[Traced, Traced]:
    """The largest element and its index, the first of those that are as large.

    m[q] = max_x S[q,x]
    i[q] = the least x with S[q,x] = m[q]
    """
    m = builder.max(S, "x")
    return m, builder.min(where(m == S, builder.index("x"), builder.size("x")), "x")


@_entries.algorithm("t d, e d -> t, t")
def top_1_routing(X: Traced, R: Traced) -> tuple[Traced, Traced]:
    """The expert that a router sends a token to, and how sure it is (Fedus, Zoph and Shazeer 2022, section 2.1).

    Z[t,e] = Σ_d X[t,d] · R[e,d]
    i[t]   = the first e at which Z[t,e] is largest
    p[t]   = max_e softmax_e(Z)[t,e]
    """
    Z = builder.einsum("t d, e d -> t e", X, R)
    return builder.argmax(Z, "e"), builder.max(builder.softmax(Z, "e"), "e")


DIAGRAMS = _entries.table
