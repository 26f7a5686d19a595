"""Layers of two products of matrices, which stream over the axis between them.

>>> print(gated_mlp)
gated_mlp: [t d] @ [d f] @ [d f] @ [f o] → [t o]
"""

from __future__ import annotations

from catdiag.frontend import builder
from catdiag.frontend.elementwise import tanh
from catdiag.frontend.nn import relu, silu
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


def up(X: Traced, W: Traced) -> Traced:
    """To the hidden axis: H[t,f] = Σ_d X[t,d] · W[d,f]."""
    return builder.einsum("t d, d f -> t f", X, W)


def down(H: Traced, W: Traced) -> Traced:
    """From the hidden axis: Y[t,o] = Σ_f H[t,f] · W[f,o]."""
    return builder.einsum("t f, f o -> t o", H, W)


@_entries.algorithm("t d, d f, f o -> t o")
def mlp(X: Traced, U: Traced, W: Traced) -> Traced:
    """A layer with hidden axis f (Vaswani et al. 2017, section 3.3, without biases).

    Y[t,o] = Σ_f max(Σ_d X[t,d] · U[d,f], 0) · W[f,o]
    """
    return down(relu(up(X, U)), W)


@_entries.algorithm("t d, d f, d f, f o -> t o")
def gated_mlp(X: Traced, G: Traced, U: Traced, W: Traced) -> Traced:
    """A layer gated by silu, SwiGLU (Shazeer 2020, "GLU Variants Improve Transformer", section 2).

    H[t,f] = silu(Σ_d X[t,d] · G[d,f]) · Σ_d X[t,d] · U[d,f], with silu(a) = a · sigmoid(a)
    Y[t,o] = Σ_f H[t,f] · W[f,o]
    """
    return down(silu(up(X, G)) * up(X, U), W)


@_entries.algorithm("t d, d f, d f, f o -> t o")
def gelu_gated_mlp(X: Traced, G: Traced, U: Traced, W: Traced) -> Traced:
    """A layer gated by gelu, GEGLU (Shazeer 2020, section 2), in gelu's tanh form (Hendrycks and Gimpel 2016).

    gelu(a) = a/2 · (1 + tanh(√(2/π) · (a + 0.044715 · a³))), √(2/π) to sixteen digits
    H[t,f]  = gelu(Σ_d X[t,d] · G[d,f]) · Σ_d X[t,d] · U[d,f]
    Y[t,o]  = Σ_f H[t,f] · W[f,o]
    """
    a = up(X, G)
    gate = a / 2 * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a**3)))
    return down(gate * up(X, U), W)


@_entries.algorithm("t d, e d, e d f, e f o -> t o")
def mixture_of_experts(X: Traced, R: Traced, U: Traced, W: Traced) -> Traced:
    """Experts e, all of them, weighted by a softmax of what a router says (Jacobs et al. 1991).

    P[t,e] = softmax_e(Σ_d X[t,d] · R[e,d])
    Y[t,o] = Σ_e P[t,e] · Σ_f max(Σ_d X[t,d] · U[e,d,f], 0) · W[e,f,o]
    """
    P = builder.softmax(builder.einsum("t d, e d -> t e", X, R), "e")
    H = relu(builder.einsum("t d, e d f -> t e f", X, U))
    return builder.einsum("t e, t e f, e f o -> t o", P, H, W)


@_entries.algorithm("e t d, e d f, e f o -> e t o")
def expert_mlps(X: Traced, U: Traced, W: Traced) -> Traced:
    """Experts e, each on the t tokens that a router sent to it (Lepikhin et al. 2020, "GShard", section 2.2).

    With k of e experts for each of T tokens, evenly, t = T·k/e.

    Y[e,t,o] = Σ_f max(Σ_d X[e,t,d] · U[e,d,f], 0) · W[e,f,o]
    """
    H = relu(builder.einsum("e t d, e d f -> e t f", X, U))
    return builder.einsum("e t f, e f o -> e t o", H, W)


@_entries.algorithm("t d, d o, d r, r o, -> t o")
def lora(X: Traced, W: Traced, A: Traced, B: Traced, s: Traced) -> Traced:
    """A linear layer with a change of low rank r (Hu et al. 2021, section 4.1).

    Y[t,o] = Σ_d X[t,d] · W[d,o] + s · Σ_r (Σ_d X[t,d] · A[d,r]) · B[r,o]
    """
    change = builder.einsum("t r, r o -> t o", builder.einsum("t d, d r -> t r", X, A), B)
    return builder.einsum("t d, d o -> t o", X, W) + s * change


DIAGRAMS = _entries.table
