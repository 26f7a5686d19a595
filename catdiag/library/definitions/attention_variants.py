"""Attention whose queries, keys, scores or results are changed: latent, differential, gated, normalised, with a sink.

>>> print(differential_attention)
differential_attention: [q d] @ [x d] @ [q d] @ [x d] @ [x v] @ [] → [q v]
"""

from __future__ import annotations

from catdiag.frontend import builder
from catdiag.frontend.elementwise import exp, log, maximum, sigmoid, sqrt
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.attention import attend, scores
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


def averaged(P: Traced, V: Traced) -> Traced:
    """Values of dimension v summed with weights: O[q,v] = Σ_x P[q,x] · V[x,v]."""
    return builder.einsum("q x, x v -> q v", P, V)


# -- compressed and rotated ------------------------------------------------------------------------


@_entries.algorithm("q h d, q h r, x c, x r, c h d, c h v -> q h v")
def multi_head_latent_attention(Q: Traced, R: Traced, C: Traced, P: Traced, W: Traced, U: Traced) -> Traced:
    """Attention to keys and values that are compressed into latents C (DeepSeek-V2, 2024, sections 2.1.2 and 2.1.3).

    The keys of head h have a part that is made from the latents, and a part P that all heads share and that carries
    positions, rotated; Q and R are the two parts of the queries.

    K[x,h,d] = Σ_c C[x,c] · W[c,h,d]
    V[x,h,v] = Σ_c C[x,c] · U[c,h,v]
    S[q,h,x] = (Σ_d Q[q,h,d] · K[x,h,d] + Σ_r R[q,h,r] · P[x,r]) / √(d + r)
    O[q,h,v] = Σ_x softmax_x(S)[q,h,x] · V[x,h,v]
    """
    K = builder.einsum("x c, c h d -> x h d", C, W)
    V = builder.einsum("x c, c h v -> x h v", C, U)
    products = builder.einsum("q h d, x h d -> q h x", Q, K) + builder.einsum("q h r, x r -> q h x", R, P)
    S = products / sqrt(builder.size("d") + builder.size("r"))
    return builder.einsum("q h x, x h v -> q h v", builder.softmax(S, "x"), V)


@_entries.algorithm("q h c, q h r, x c, x r, -> q h c")
def latent_attention(Q: Traced, R: Traced, C: Traced, P: Traced, s: Traced) -> Traced:
    """Attention in the space of the latents C, which are keys and values at once (DeepSeek-V2, 2024, section 2.1.2).

    `multi_head_latent_attention` with the matrices that make keys and values moved to the queries and the result, as
    one decodes: Q[q,h,c] = Σ_d W[c,h,d] · (the query)[q,h,d]; s is the scale 1/√(d + r) of the scores.

    S[q,h,x] = s · (Σ_c Q[q,h,c] · C[x,c] + Σ_r R[q,h,r] · P[x,r])
    O[q,h,c] = Σ_x softmax_x(S)[q,h,x] · C[x,c]
    """
    S = (builder.einsum("q h c, x c -> q h x", Q, C) + builder.einsum("q h r, x r -> q h x", R, P)) * s
    return builder.einsum("q h x, x c -> q h c", builder.softmax(S, "x"), C)


def turned(a: Traced, b: Traced, cos: Traced, sin: Traced) -> tuple[Traced, Traced]:
    """The complex numbers a + ib, turned by an angle."""
    return a * cos - b * sin, b * cos + a * sin


@_entries.algorithm("q r, q r, x r, x r, x v, q r, q r, x r, x r -> q v")
def rotary_attention(
    Q: Traced,
    R: Traced,
    K: Traced,
    L: Traced,
    V: Traced,
    cos_q: Traced,
    sin_q: Traced,
    cos_x: Traced,
    sin_x: Traced,
) -> Traced:
    """Attention of queries Q + iR to keys K + iL, turned by angles of their positions (Su et al. 2021, section 3.2.2).

    A + iB = (Q + iR) · (cos_q + i sin_q) of each query, and C + iD = (K + iL) · (cos_x + i sin_x) of each key
    S[q,x] = (Σ_r A[q,r] · C[x,r] + Σ_r B[q,r] · D[x,r]) / √(2r)
    O[q,v] = Σ_x softmax_x(S)[q,x] · V[x,v]
    """
    A, B = turned(Q, R, cos_q, sin_q)
    C, D = turned(K, L, cos_x, sin_x)
    S = builder.einsum("q r, x r -> q x", A, C) + builder.einsum("q r, x r -> q x", B, D)
    return averaged(builder.softmax(S / sqrt(2 * builder.size("r")), "x"), V)


# -- differences and gates -------------------------------------------------------------------------


@_entries.algorithm("q d, x d, q d, x d, x v, -> q v")
def differential_attention(Q: Traced, K: Traced, R: Traced, L: Traced, V: Traced, c: Traced) -> Traced:
    """The difference of two softmaxes as weights (Ye et al. 2024, "Differential Transformer", section 2.1).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d
    T[q,x] = (Σ_d R[q,d] · L[x,d]) / √d
    O[q,v] = Σ_x (softmax_x(S)[q,x] − c · softmax_x(T)[q,x]) · V[x,v]
    """
    weights = builder.softmax(scores(Q, K), "x") - c * builder.softmax(scores(R, L), "x")
    return averaged(weights, V)


@_entries.algorithm("h q d, h x d, h x d, h q x, h q d -> h q d")
def gated_attention(Q: Traced, K: Traced, V: Traced, B: Traced, G: Traced) -> Traced:
    """Attention with a pair bias and a gate, in heads h (Jumper et al. 2021, supplement, algorithm 7).

    S[h,q,x] = (Σ_d Q[h,q,d] · K[h,x,d]) / √d + B[h,q,x]
    O[h,q,d] = sigmoid(G[h,q,d]) · Σ_x softmax_x(S)[h,q,x] · V[h,x,d]
    """
    S = builder.einsum("h q d, h x d -> h q x", Q, K) / sqrt(builder.size("d")) + B
    gate: Traced = sigmoid(G)
    return gate * builder.einsum("h q x, h x d -> h q d", builder.softmax(S, "x"), V)


# -- normalised queries and keys -------------------------------------------------------------------


@_entries.algorithm("q d, x d, x d, d, d, -> q d")
def qk_rms_norm_attention(Q: Traced, K: Traced, V: Traced, g: Traced, k: Traced, eps: Traced) -> Traced:
    """Attention of queries and keys that are each divided by their root mean square, with gains.

    N(A)[d] = A[d] / √((Σ_d A[d]²) / n + eps), n the size of d
    S[q,x]  = (Σ_d g[d] · N(Q[q]) · k[d] · N(K[x])) / √d
    O[q,d]  = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    queries = g * Q / sqrt(builder.mean(Q * Q, "d") + eps)
    keys = k * K / sqrt(builder.mean(K * K, "d") + eps)
    return attend(scores(queries, keys), V)


@_entries.algorithm("q d, x d, x d, -> q d")
def qk_norm_attention(Q: Traced, K: Traced, V: Traced, g: Traced) -> Traced:
    """Attention by the cosines of queries and keys (Henry et al. 2020, "Query-Key Normalization for Transformers").

    S[q,x] = g · (Σ_d Q[q,d] · K[x,d]) / (√(Σ_d Q[q,d]²) · √(Σ_d K[x,d]²))
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    queries, keys = Q / sqrt(builder.sum(Q * Q, "d")), K / sqrt(builder.sum(K * K, "d"))
    return attend(g * builder.einsum("q d, x d -> q x", queries, keys), V)


# -- other normalisers -----------------------------------------------------------------------------


@_entries.algorithm("q d, x d, x d, -> q d")
def sink_attention(Q: Traced, K: Traced, V: Traced, s: Traced) -> Traced:
    """Attention with one more logit s, which takes weight and has no value (Miller 2023, "off by one", s = 0).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d
    m[q]   = max(s, max_x S[q,x])
    O[q,d] = (Σ_x e^(S[q,x] − m[q]) · V[x,d]) / (e^(s − m[q]) + Σ_x e^(S[q,x] − m[q]))
    """
    S = scores(Q, K)
    m = maximum(builder.max(S, "x"), s)
    e = exp(S - m)
    return builder.einsum("q x, x d -> q d", e / (builder.sum(e, "x") + exp(s - m)), V)


@_entries.algorithm("q d, x d, x d -> q d")
def sigmoid_attention(Q: Traced, K: Traced, V: Traced) -> Traced:
    """Attention by sigmoids, which need no normaliser (Ramapuram et al. 2024, with bias −log n, n the size of x).

    O[q,d] = Σ_x sigmoid((Σ_d Q[q,d] · K[x,d]) / √d − log n) · V[x,d]
    """
    return builder.einsum("q x, x d -> q d", sigmoid(scores(Q, K) - log(builder.size("x"))), V)


@_entries.algorithm("q x, x v -> q v")
def normalised_contraction(W: Traced, V: Traced) -> Traced:
    """A mean with weights: O[q,v] = (Σ_x W[q,x] · V[x,v]) / Σ_x W[q,x]."""
    return averaged(W / builder.sum(W, "x"), V)


@_entries.algorithm("q d, x d, x d -> q d")
def spherical_attention(Q: Traced, K: Traced, V: Traced) -> Traced:
    """Attention whose scores are divided by their L2 norm along x.

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d
    O[q,d] = Σ_x S[q,x] / √(Σ_x S[q,x]²) · V[x,d]
    """
    S = scores(Q, K)
    return builder.einsum("q x, x d -> q d", S / sqrt(builder.sum(S * S, "x")), V)


@_entries.algorithm("q d, x d, x d, -> q d")
def distance_attention(Q: Traced, K: Traced, V: Traced, width: Traced) -> Traced:
    """A mean of the values weighted by a Gaussian of the distance (Nadaraya 1964, Watson 1964).

    S[q,x] = −(Σ_d (Q[q,d] − K[x,d])²) / (2 · width²)
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(-builder.sum((Q - K) ** 2, "d") / (2 * width**2), V)


DIAGRAMS = _entries.table
