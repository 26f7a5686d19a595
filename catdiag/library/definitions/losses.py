"""Losses of logits, of which none keeps the axis of the vocabulary, fused with the layer that makes the logits.

>>> print(linear_cross_entropy)
linear_cross_entropy: [t d] @ [v d] @ int[t] → [t]
"""

from __future__ import annotations

from catdiag.frontend import builder
from catdiag.frontend.elementwise import sqrt, where
from catdiag.frontend.indexing import gather
from catdiag.frontend.nn import log_softmax, logsumexp
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


def logits(H: Traced, W: Traced) -> Traced:
    """The last linear layer: Z[t,v] = Σ_d H[t,d] · W[v,d]."""
    return builder.einsum("t d, v d -> t v", H, W)


def at_label(Z: Traced, label: Traced) -> Traced:
    """The value at the label: Σ_v Z[t,v] where v = label[t], 0 for a label that is no index."""
    return builder.sum(where(builder.index("v") == label, Z, 0), "v")


@_entries.algorithm("t v, int[t] -> t")
def cross_entropy(Z: Traced, label: Traced) -> Traced:
    """The cross-entropy of logits with labels: L[t] = −(log softmax_v(Z))[t,label[t]]."""
    return -gather(log_softmax(Z, "v"), "v", label)


@_entries.algorithm("t d, v d, int[t] -> t")
def linear_cross_entropy(H: Traced, W: Traced, label: Traced) -> Traced:
    """The cross-entropy of the last linear layer, whose logits need not be kept (Wijmans et al. 2024, section 4).

    Z[t,v] = Σ_d H[t,d] · W[v,d]
    L[t]   = log Σ_v e^Z[t,v] − Z[t,label[t]]
    """
    Z = logits(H, W)
    return logsumexp(Z, "v") - at_label(Z, label)


@_entries.algorithm("t d, v d, int[t], int[] -> t")
def linear_cross_entropy_ignoring(H: Traced, W: Traced, label: Traced, ignored: Traced) -> Traced:
    """`linear_cross_entropy`, and 0 for a token whose label is the ignored one.

    Z[t,v] = Σ_d H[t,d] · W[v,d]
    L[t]   = log Σ_v e^Z[t,v] − Z[t,label[t]] if label[t] ≠ ignored, else 0
    """
    Z = logits(H, W)
    return where(label != ignored, logsumexp(Z, "v") - at_label(Z, label), 0)


@_entries.algorithm("t d, v d, int[t], , -> t")
def linear_cross_entropy_smoothed(H: Traced, W: Traced, label: Traced, share: Traced, z: Traced) -> Traced:
    """Cross-entropy of smoothed labels (Szegedy et al. 2016, section 7), with a loss on the normaliser (PaLM 2022).

    Z[t,v] = Σ_d H[t,d] · W[v,d]
    l[t]   = log Σ_v e^Z[t,v]
    L[t]   = l[t] − (1 − share) · Z[t,label[t]] − share · (Σ_v Z[t,v]) / n + z · l[t]², n the size of v
    """
    Z = logits(H, W)
    total = logsumexp(Z, "v")
    return total - (1 - share) * at_label(Z, label) - share * builder.mean(Z, "v") + z * total * total


@_entries.algorithm("t v, t v -> t")
def soft_cross_entropy(Z: Traced, T: Traced) -> Traced:
    """The cross-entropy with a target for each class: L[t] = −Σ_v T[t,v] · log softmax_v(Z)[t,v]."""
    return -builder.sum(T * log_softmax(Z, "v"), "v")


@_entries.algorithm("t v -> t")
def softmax_entropy(Z: Traced) -> Traced:
    """The entropy of a softmax: E[t] = −Σ_v p[t,v] · log p[t,v], with p = softmax_v(Z)."""
    return -builder.sum(builder.softmax(Z, "v") * log_softmax(Z, "v"), "v")


@_entries.algorithm("t v, t v -> t")
def kl_divergence(Y: Traced, Z: Traced) -> Traced:
    """The divergence of two softmaxes, Kullback and Leibler's.

    D[t] = Σ_v p[t,v] · (log p[t,v] − log r[t,v]), with p = softmax_v(Y) and r = softmax_v(Z)
    """
    return builder.sum(builder.softmax(Y, "v") * (log_softmax(Y, "v") - log_softmax(Z, "v")), "v")


@_entries.algorithm("t d, v d, t e, v e, -> t")
def linear_distillation(H: Traced, W: Traced, F: Traced, U: Traced, heat: Traced) -> Traced:
    """The divergence of a student's softmax from its teacher's, at a temperature (Hinton et al. 2015, section 2).

    Z[t,v] = (Σ_d H[t,d] · W[v,d]) / heat, of the student
    Y[t,v] = (Σ_e F[t,e] · U[v,e]) / heat, of the teacher
    D[t]   = heat² · Σ_v p[t,v] · (log p[t,v] − log r[t,v]), p = softmax_v(Y), r = softmax_v(Z)
    """
    Z = logits(H, W) / heat
    Y = builder.einsum("t e, v e -> t v", F, U) / heat
    return heat**2 * builder.sum(builder.softmax(Y, "v") * (log_softmax(Y, "v") - log_softmax(Z, "v")), "v")


@_entries.algorithm("i d, j d, -> i")
def info_nce(A: Traced, B: Traced, heat: Traced) -> Traced:
    """The contrastive loss of pairs: item i of A belongs to item i of B (van den Oord et al. 2018, section 2.3).

    S[i,j] = (Σ_d A[i,d] · B[j,d]) / (√(Σ_d A[i,d]²) · √(Σ_d B[j,d]²) · heat)
    L[i]   = log Σ_j e^S[i,j] − S[i,i]
    """
    a, b = A / sqrt(builder.sum(A * A, "d")), B / sqrt(builder.sum(B * B, "d"))
    S = builder.einsum("i d, j d -> i j", a, b) / heat
    return logsumexp(S, "j") - builder.sum(where(builder.index("i") == builder.index("j"), S, 0), "j")


DIAGRAMS = _entries.table
