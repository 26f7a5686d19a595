"""Normalisations, alone and before the linear layer that streams over the normalised axis.

>>> print(layer_norm_linear)
layer_norm_linear: [t d] @ [d] @ [d] @ [] @ [d o] → [t o]
"""

from __future__ import annotations

from catdiag.frontend import builder
from catdiag.frontend.diagram_calls import apply
from catdiag.frontend.elementwise import sqrt
from catdiag.frontend.nn import var
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


def linear(X: Traced, W: Traced) -> Traced:
    """A linear layer: Y[t,o] = Σ_d X[t,d] · W[d,o]."""
    return builder.einsum("t d, d o -> t o", X, W)


@_entries.algorithm("t d, d, -> t d")
def rms_norm(X: Traced, g: Traced, eps: Traced) -> Traced:
    """Values divided by their root mean square, with a gain (Zhang and Sennrich 2019, section 4).

    Y[t,d] = g[d] · X[t,d] / √((Σ_d X[t,d]²) / n + eps), n the size of d
    """
    root: Traced = sqrt(builder.mean(X * X, "d") + eps)
    return g * X / root


@_entries.algorithm("t d, d, d, -> t d")
def layer_norm(X: Traced, g: Traced, b: Traced, eps: Traced) -> Traced:
    """Values less their mean, divided by their deviation, with a gain and a bias (Ba et al. 2016, section 3).

    Y[t,d] = g[d] · (X[t,d] − μ[t]) / √(σ²[t] + eps) + b[d], μ the mean and σ² the variance along d
    """
    deviation: Traced = sqrt(var(X, "d") + eps)
    return g * (X - builder.mean(X, "d")) / deviation + b


@_entries.algorithm("t d, d, , d o -> t o")
def rms_norm_linear(X: Traced, g: Traced, eps: Traced, W: Traced) -> Traced:
    """`rms_norm`, then a linear layer: Y[t,o] = Σ_d rms_norm(X)[t,d] · W[d,o]."""
    return linear(apply(rms_norm, X, g, eps), W)


@_entries.algorithm("t d, d, d, , d o -> t o")
def layer_norm_linear(X: Traced, g: Traced, b: Traced, eps: Traced, W: Traced) -> Traced:
    """`layer_norm`, then a linear layer: Y[t,o] = Σ_d layer_norm(X)[t,d] · W[d,o]."""
    return linear(apply(layer_norm, X, g, b, eps), W)


@_entries.algorithm("t d, d o -> t o")
def l2_norm_linear(X: Traced, W: Traced) -> Traced:
    """Rows of unit length, then a linear layer: Y[t,o] = Σ_d X[t,d] / √(Σ_d X[t,d]²) · W[d,o]."""
    return linear(X / sqrt(builder.sum(X * X, "d")), W)


@_entries.algorithm("t d, d, , d f, d f -> t f, t f")
def rms_norm_gate_and_up(X: Traced, g: Traced, eps: Traced, G: Traced, U: Traced) -> tuple[Traced, Traced]:
    """`rms_norm`, then two linear layers that share its pass: the gate and the values of a gated MLP.

    Y[t,f] = Σ_d rms_norm(X)[t,d] · G[d,f]
    Z[t,f] = Σ_d rms_norm(X)[t,d] · U[d,f]
    """
    normal = apply(rms_norm, X, g, eps)
    return builder.einsum("t d, d f -> t f", normal, G), builder.einsum("t d, d f -> t f", normal, U)


DIAGRAMS = _entries.table
