"""The library's operators from their formulas, in NumPy: none of this knows of diagrams.

`FORMS` has for each name a function of its arrays. Where a form in one pass is worse conditioned than the textbook's,
since it takes large sums from one another, `ONE_PASS` has the formula that it is to be judged by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rounding import (
    Near,
    ein,
    exp,
    largest,
    log_softmax,
    log_sum_exp,
    maximum,
    mean,
    near,
    sigmoid,
    softmax,
    sqrt,
    tanh,
    total,
    where,
)

NONE = -np.inf


def scores(Q: Near, K: Near) -> Near:
    return ein("...qd,...xd->...qx", Q, K) / np.sqrt(Q.n)


def attend(S: Near, V: Near) -> Near:
    return ein("...qx,...xd->...qd", softmax(S), V)


def heads(Q: Near, K: Near, V: Near) -> Near:
    return attend(scores(Q, K), V)


def places(S: Near) -> tuple[np.ndarray, np.ndarray]:
    q, x = S.v.shape[-2:]
    return np.arange(q)[:, None], np.arange(x)


def under(mask: np.ndarray, S: Near, V: Near) -> Near:
    """Attention under a mask, 0 in rows that keep nothing."""
    some = mask.any(-1)
    rows = np.where(some[:, None], mask, True)
    return where(some[:, None], attend(where(rows, S, NONE), V), 0.0)


def causal(Q: Near, K: Near, V: Near) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return attend(where(x <= q, S, NONE), V)


def continued_causal(Q: Near, K: Near, V: Near, start: np.ndarray) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return attend(where(x <= q + start, S, NONE), V)


def sliding_window(Q: Near, K: Near, V: Near, width: np.ndarray) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return attend(where((x <= q) & (x > q - width), S, NONE), V)


def window_and_first(Q: Near, K: Near, V: Near, width: np.ndarray, first: np.ndarray) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return attend(where((x <= q) & ((x > q - width) | (x < first)), S, NONE), V)


def prefix(Q: Near, K: Near, V: Near, length: np.ndarray) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return attend(where((x <= q) | (x < length), S, NONE), V)


def padded(Q: Near, K: Near, V: Near, length: np.ndarray) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return under((x < length) & (q >= 0), S, V)


def document(Q: Near, K: Near, V: Near, of_query: np.ndarray, of_key: np.ndarray) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return under((x <= q) & (of_query[:, None] == of_key), S, V)


def alibi(Q: Near, K: Near, V: Near, slope: Near) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return attend(where(x <= q, S - slope[..., None, None] * (q - x).astype(float), NONE), V)


def relative_position(Q: Near, K: Near, V: Near, table: Near) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return attend(S + table[np.clip(x - q + table.n // 2, 0, table.n - 1)], V)


def soft_capped(Q: Near, K: Near, V: Near, cap: Near) -> Near:
    return attend(cap * tanh(scores(Q, K) / cap), V)


def soft_capped_window(Q: Near, K: Near, V: Near, cap: Near, width: np.ndarray) -> Near:
    S = scores(Q, K)
    q, x = places(S)
    return attend(where((x <= q) & (x > q - width), cap * tanh(S / cap), NONE), V)


def latent(Q: Near, R: Near, C: Near, P: Near, W: Near, U: Near) -> Near:
    K, V = ein("xc,chd->xhd", C, W), ein("xc,chv->xhv", C, U)
    S = (ein("qhd,xhd->qhx", Q, K) + ein("qhr,xr->qhx", R, P)) / np.sqrt(Q.n + R.n)
    return ein("qhx,xhv->qhv", softmax(S), V)


def in_latents(Q: Near, R: Near, C: Near, P: Near, s: Near) -> Near:
    S = s * (ein("qhc,xc->qhx", Q, C) + ein("qhr,xr->qhx", R, P))
    return ein("qhx,xc->qhc", softmax(S), C)


def rotary(Q: Near, R: Near, K: Near, L: Near, V: Near, c: Near, s: Near, cx: Near, sx: Near) -> Near:
    left = [Q * c - R * s, R * c + Q * s]
    right = [K * cx - L * sx, L * cx + K * sx]
    S = (ein("qr,xr->qx", left[0], right[0]) + ein("qr,xr->qx", left[1], right[1])) / np.sqrt(2 * Q.n)
    return attend(S, V)


def differential(Q: Near, K: Near, R: Near, L: Near, V: Near, c: Near) -> Near:
    return ein("qx,xv->qv", softmax(scores(Q, K)) - c * softmax(scores(R, L)), V)


def rms(A: Near, eps: Any = 0.0) -> Near:
    return sqrt(mean(A * A, keep=True) + eps)


def length(A: Near) -> Near:
    return sqrt(total(A * A, keep=True))


def sink(Q: Near, K: Near, V: Near, s: Near) -> Near:
    S = scores(Q, K)
    m = maximum(largest(S, keep=True), s)
    e = exp(S - m)
    return ein("qx,xd->qd", e / (total(e, keep=True) + exp(s - m)), V)


def spherical(Q: Near, K: Near, V: Near) -> Near:
    S = scores(Q, K)
    return ein("qx,xd->qd", S / length(S), V)


def distance(Q: Near, K: Near, V: Near, width: Near) -> Near:
    D = Q[:, None, :] - K[None]
    return attend(-total(D * D) / (2 * (width * width)), V)


def elu(A: Near) -> Near:
    return maximum(A, 0.0) + exp(Near(np.minimum(A.v, 0), A.e)) - 1


def weighted(S: Near, V: Near, eps: Any = 0.0) -> Near:
    return ein("qx,xv->qv", S / (total(S, keep=True) + eps), V)


def linear(Q: Near, K: Near, V: Near) -> Near:
    return weighted(ein("qd,xd->qx", elu(Q) + 1, elu(K) + 1), V)


def causal_linear(Q: Near, K: Near, V: Near) -> Near:
    S = ein("qd,xd->qx", elu(Q) + 1, elu(K) + 1)
    q, x = places(S)
    return weighted(where(x <= q, S, 0.0), V)


def relu_linear(Q: Near, K: Near, V: Near, eps: Near) -> Near:
    return weighted(ein("qd,xd->qx", maximum(Q, 0.0), maximum(K, 0.0)), V, eps)


def taylor(Q: Near, K: Near, V: Near) -> Near:
    S = scores(Q, K)
    return weighted(1 + S + S * S / 2, V)


def random_feature(Q: Near, K: Near, V: Near, W: Near) -> Near:
    f = exp(ein("qd,md->qm", Q, W) - total(Q * Q, keep=True) / 2)
    k = exp(ein("xd,md->xm", K, W) - total(K * K, keep=True) / 2)
    return weighted(ein("qm,xm->qx", f, k), V)


def layer_norm(X: Near, g: Near, b: Near, eps: Near) -> Near:
    A = X - mean(X, keep=True)
    return g * A / sqrt(mean(A * A, keep=True) + eps) + b


def layer_norm_in_one_pass(X: Near, g: Near, b: Near, eps: Near, W: Near) -> Near:
    m = mean(X, keep=True)
    products, gains = ein("td,do->to", g * X, W), ein("d,do->o", g, W)
    return (products - m * gains) / sqrt(variance_in_one_pass(X)[..., None] + eps) + ein("d,do->o", b, W)


def variance_in_one_pass(A: Near) -> Near:
    return covariance_in_one_pass(A, A)


def covariance(A: Near, B: Near) -> Near:
    return mean((A - mean(A, keep=True)) * (B - mean(B, keep=True)))


def covariance_in_one_pass(A: Near, B: Near) -> Near:
    """Σ ab − ā·Σb − b̄·Σa + n·ā·b̄, over n."""
    a, b = mean(A), mean(B)
    return (total(A * B) - a * total(B) - b * total(A) + A.n * (a * b)) / A.n


def correlation(A: Near, B: Near) -> Near:
    return covariance(A, B) / sqrt(covariance(A, A) * covariance(B, B))


def correlation_in_one_pass(A: Near, B: Near) -> Near:
    return covariance_in_one_pass(A, B) / sqrt(covariance_in_one_pass(A, A) * covariance_in_one_pass(B, B))


def at(Z: Near, label: np.ndarray) -> Near:
    return Z[np.arange(len(label)), label]


def cross_entropy(Z: Near, label: np.ndarray) -> Near:
    return log_sum_exp(Z) - at(Z, label)


def smoothed(H: Near, W: Near, label: np.ndarray, share: Near, z: Near) -> Near:
    Z = ein("td,vd->tv", H, W)
    n = log_sum_exp(Z)
    return n - (1 - share) * at(Z, label) - share * mean(Z) + z * (n * n)


def entropy_in_one_pass(Z: Near) -> Near:
    return log_sum_exp(Z) - total(softmax(Z) * Z)


def divergence(Y: Near, Z: Near) -> Near:
    return total(softmax(Y) * (log_softmax(Y) - log_softmax(Z)))


def divergence_in_one_pass(Y: Near, Z: Near) -> Near:
    p = softmax(Y)
    return total(p * Y) - total(p * Z) + (log_sum_exp(Z) - log_sum_exp(Y))


def distilled(of: Callable[[Near, Near], Near]) -> Callable[..., Near]:
    def loss(H: Near, W: Near, F: Near, U: Near, heat: Near) -> Near:
        return heat * heat * of(ein("te,ve->tv", F, U) / heat, ein("td,vd->tv", H, W) / heat)

    return loss


def info_nce(A: Near, B: Near, heat: Near) -> Near:
    S = ein("id,jd->ij", A / length(A), B / length(B)) / heat
    i, j = places(S)
    return log_sum_exp(S) - total(where(i == j, S, 0.0))


def silu(A: Near) -> Near:
    return A * sigmoid(A)


def gelu(A: Near) -> Near:
    return A / 2 * (1 + tanh(0.7978845608028654 * (A + 0.044715 * (A * A * A))))


def gated(gate: Callable[[Near], Near]) -> Callable[..., Near]:
    def layer(X: Near, G: Near, U: Near, W: Near) -> Near:
        return ein("tf,fo->to", gate(ein("td,df->tf", X, G)) * ein("td,df->tf", X, U), W)

    return layer


def experts(X: Near, R: Near, U: Near, W: Near) -> Near:
    P = softmax(ein("td,ed->te", X, R))
    return ein("te,tef,efo->to", P, maximum(ein("td,edf->tef", X, U), 0.0), W)


def lora(X: Near, W: Near, A: Near, B: Near, s: Near) -> Near:
    return ein("td,do->to", X, W) + s * ein("tr,ro->to", ein("td,dr->tr", X, A), B)


def moments(S: Near, V: Near) -> tuple[Near, Near]:
    p = softmax(S)
    m = ein("qx,xv->qv", p, V)
    D = V[None] - m[:, None, :]
    return m, total(p[..., None] * (D * D), -2)


def moments_in_one_pass(S: Near, V: Near) -> tuple[Near, Near]:
    p = softmax(S)
    m = ein("qx,xv->qv", p, V)
    return m, ein("qx,xv->qv", p, V * V) - 2 * (m * m) + m * m * total(p, keep=True)


def masked_mean(A: Near, mask: np.ndarray) -> Near:
    count = mask.sum(-1)
    return where(count > 0, total(where(mask, A, 0.0)) / np.maximum(count, 1), 0.0)


def top_1(S: Near) -> tuple[Near, Near]:
    return largest(S), near(S.v.argmax(-1).astype(float))


def routing(X: Near, R: Near) -> tuple[Near, Near]:
    Z = ein("td,ed->te", X, R)
    return near(Z.v.argmax(-1).astype(float)), largest(softmax(Z))


def windows(a: Near, sizes: tuple[int, ...], step: int = 1) -> np.ndarray:
    """Windows along the axes after the first, these last."""
    axes = tuple(range(1, 1 + len(sizes)))
    view = np.lib.stride_tricks.sliding_window_view(a.v, sizes, axes)
    return view[(slice(None), *[slice(None, None, step)] * len(sizes))]


def convolved(a: Near, w: Near) -> Near:
    return ein("nyck,kco->nyo", windows(a, w.v.shape[:1]), w)


def rotated(a: Near, cos: Near, sin: Near) -> Near:
    one, two = a[:, : a.n // 2], a[:, a.n // 2 :]
    left, right = one * cos - two * sin, two * cos + one * sin
    return Near(np.hstack([left.v, right.v]), np.hstack([left.e, right.e]))


FORMS: dict[str, Callable[..., Any]] = {
    "attention": heads,
    "multi_head_attention": heads,
    "attention_with_log_sum_exp": lambda Q, K, V: (heads(Q, K, V), log_sum_exp(scores(Q, K))),
    "multi_query_attention": lambda Q, K, V: heads(Q, K[:, None], V[:, None]),
    "grouped_query_attention": lambda Q, K, V: heads(Q, K[:, :, None], V[:, :, None]),
    "decoding_attention": heads,
    "causal_attention": causal,
    "causal_grouped_query_attention": lambda Q, K, V: causal(Q, K[:, :, None], V[:, :, None]),
    "continued_causal_attention": continued_causal,
    "sliding_window_attention": sliding_window,
    "window_and_first_attention": window_and_first,
    "prefix_attention": prefix,
    "padded_attention": padded,
    "document_attention": document,
    "masked_attention": lambda Q, K, V, mask: under(mask, scores(Q, K), V),
    "biased_attention": lambda Q, K, V, B: attend(scores(Q, K) + B, V),
    "alibi_attention": alibi,
    "multi_head_alibi_attention": alibi,
    "relative_position_attention": relative_position,
    "soft_capped_attention": soft_capped,
    "soft_capped_window_attention": soft_capped_window,
    "multi_head_latent_attention": latent,
    "latent_attention": in_latents,
    "rotary_attention": rotary,
    "differential_attention": differential,
    "gated_attention": lambda Q, K, V, B, G: sigmoid(G) * attend(scores(Q, K) + B, V),
    "qk_rms_norm_attention": lambda Q, K, V, g, k, eps: heads(g * Q / rms(Q, eps), k * K / rms(K, eps), V),
    "qk_norm_attention": lambda Q, K, V, g: attend(g * ein("qd,xd->qx", Q / length(Q), K / length(K)), V),
    "sink_attention": sink,
    "sigmoid_attention": lambda Q, K, V: ein("qx,xd->qd", sigmoid(scores(Q, K) - np.log(len(K.v))), V),
    "normalised_contraction": weighted,
    "spherical_attention": spherical,
    "distance_attention": distance,
    "linear_attention": linear,
    "linear_attention_by_state": linear,
    "causal_linear_attention": causal_linear,
    "relu_linear_attention": relu_linear,
    "taylor_attention": taylor,
    "random_feature_attention": random_feature,
    "rms_norm": lambda X, g, eps: g * X / rms(X, eps),
    "layer_norm": layer_norm,
    "rms_norm_linear": lambda X, g, eps, W: ein("td,do->to", g * X / rms(X, eps), W),
    "layer_norm_linear": lambda X, g, b, eps, W: ein("td,do->to", layer_norm(X, g, b, eps), W),
    "l2_norm_linear": lambda X, W: ein("td,do->to", X / length(X), W),
    "rms_norm_gate_and_up": lambda X, g, eps, G, U: (
        ein("td,df->tf", g * X / rms(X, eps), G),
        ein("td,df->tf", g * X / rms(X, eps), U),
    ),
    "cross_entropy": cross_entropy,
    "linear_cross_entropy": lambda H, W, label: cross_entropy(ein("td,vd->tv", H, W), label),
    "linear_cross_entropy_ignoring": lambda H, W, label, ignored: where(
        label != ignored, cross_entropy(ein("td,vd->tv", H, W), label), 0.0
    ),
    "linear_cross_entropy_smoothed": smoothed,
    "soft_cross_entropy": lambda Z, T: -total(T * log_softmax(Z)),
    "softmax_entropy": lambda Z: -total(softmax(Z) * log_softmax(Z)),
    "kl_divergence": divergence,
    "linear_distillation": distilled(divergence),
    "info_nce": info_nce,
    "mlp": lambda X, U, W: ein("tf,fo->to", maximum(ein("td,df->tf", X, U), 0.0), W),
    "gated_mlp": gated(silu),
    "gelu_gated_mlp": gated(gelu),
    "mixture_of_experts": experts,
    "expert_mlps": lambda X, U, W: ein("etf,efo->eto", maximum(ein("etd,edf->etf", X, U), 0.0), W),
    "lora": lora,
    "covariance": covariance,
    "correlation": correlation,
    "cosine_similarity": lambda A, B: total(A * B) / (length(A) * length(B))[..., 0],
    "variance": lambda A: covariance(A, A),
    "mean": mean,
    "sum_of_squares": lambda A: total(A * A),
    "softmax": softmax,
    "log_sum_exp": log_sum_exp,
    "softmax_contraction": lambda S, v: ein("qx,x->q", softmax(S), v),
    "softmax_moments": moments,
    "softmax_index": lambda S: total(softmax(S) * np.arange(S.n)),
    "largest_probability": lambda S: largest(softmax(S)),
    "participation": lambda S: 1 / total(softmax(S) * softmax(S)),
    "masked_mean": masked_mean,
    "top_1": top_1,
    "top_1_routing": routing,
    "matmul": lambda A, B: ein("ab,bc->ac", A, B),
    "matvec": lambda A, v: ein("ab,b->a", A, v),
    "dot": lambda a, b: ein("x,x->", a, b),
    "conv1d": convolved,
    "im2col": convolved,
    "conv2d": lambda a, f: ein("nyxcij,ijco->nyxo", windows(a, f.v.shape[:2]), f),
    "max_pool": lambda a: near(windows(a, (2, 2), 2).max((-1, -2))),
    "average_pool": lambda a: ein("nyxcij->nyxc", windows(a, (2, 2), 2)) / 4,
    "embedding": lambda table, tokens: table[tokens],
    "rotary_embedding": rotated,
}

ONE_PASS: dict[str, Callable[..., Any]] = {
    "variance": variance_in_one_pass,
    "covariance": covariance_in_one_pass,
    "correlation": correlation_in_one_pass,
    "layer_norm_linear": layer_norm_in_one_pass,
    "softmax_entropy": entropy_in_one_pass,
    "soft_cross_entropy": lambda Z, T: total(T) * log_sum_exp(Z) - total(T * Z),
    "kl_divergence": divergence_in_one_pass,
    "linear_distillation": distilled(divergence_in_one_pass),
    "softmax_moments": moments_in_one_pass,
}
