"""Programs that are written as one kernel each by hand today: norms with what is around them, statistics of rows and
columns, losses, small networks, distances, windows, a step of decoding. Each is compared with `torch.compile`.
"""

from __future__ import annotations

from typing import Any

import catdiag as cd
from benchmarks.gpu.cases import Declared
from benchmarks.gpu.further_programs import EPS, case
from benchmarks.gpu.programs import TOKENS, silu

ROWS, COLUMNS, LOSSES, PRODUCTS, OTHERS = (
    "Norms and rows",
    "Columns and channels",
    "Losses",
    "Products with more around them, again",
    "Distances, windows, attention",
)


# -- rows -----------------------------------------------------------------------------------------------------------


def gated_norm(X: Any, Z: Any, g: Any, eps: Any) -> Any:
    """The RMSNorm of what a gate lets through (Mamba-2's)."""
    Y = X * silu(Z)
    return g * Y / cd.sqrt(cd.mean(Y * Y, "d") + eps)


def modulated_norm(X: Any, shift: Any, scale: Any, eps: Any) -> Any:
    """LayerNorm, and an affine map of each sequence (DiT's)."""
    Y = X - cd.mean(X, "d")
    return Y / cd.sqrt(cd.mean(Y * Y, "d") + eps) * (1 + scale) + shift


def tempered(Z: Any, length: Any, heat: Any) -> Any:
    """A softmax at a temperature of rows of different lengths."""
    return cd.softmax(cd.where(cd.index("v") <= length, Z / heat, -cd.inf), "v")


def row_statistics(X: Any) -> tuple[Any, Any, Any, Any]:
    """Mean, variance, largest and smallest of rows."""
    return cd.mean(X, "d"), cd.nn.var(X, "d"), cd.max(X, "d"), cd.min(X, "d")


def quantized(X: Any) -> Any:
    """Rows rounded to 255 steps of their largest, and back."""
    scale = cd.maximum(cd.max(cd.abs(X), "d"), 1e-6) / 127
    return cd.floor(X / scale + 0.5) * scale


def rotated_heads(X: Any, g: Any, cos: Any, sin: Any, eps: Any) -> Any:
    """The RMSNorm of heads, rotated by the angles of positions, halves as pairs."""
    Y = g * X / cd.sqrt(cd.mean(X * X, "(2 d)") + eps)
    halves = cd.rearrange(Y, "t h (2 d) -> t h 2 d")
    sign = cd.where(cd.index("2") < 1, -1, 1)
    return cd.rearrange(halves * cos + sign * cd.reverse(halves, "2") * sin, "t h 2 d -> t h (2 d)")


def rows() -> list[Declared]:
    """Norms and rows."""
    wide, narrow = {"t": 16_384, "d": 4096}, {"t": 65_536, "d": 1024}
    return [
        case("gated RMSNorm, 16,384 × 4,096", ROWS, "t d, t d, d, -> t d", gated_norm, wide, scalars=EPS),
        case("modulated LayerNorm, 64 × 1,024 × 1,152", ROWS, "b t d, b d, b d, -> b t d", modulated_norm,
             {"b": 64, "t": 1024, "d": 1152}, scalars=EPS),
        case("tempered softmax of masked rows, 16,384 × 4,096", ROWS, "t v, int[t], -> t v", tempered,
             {"t": 16_384, "v": 4096}, scalars={"heat": 0.7}, draws={"length": {"below": 4096}}),
        case("four statistics of rows, 65,536 × 1,024", ROWS, "t d -> t, t, t, t", row_statistics, narrow),
        case("rows quantized and back, 16,384 × 4,096", ROWS, "t d -> t d", quantized, wide),
        case("normed and rotated heads, 8,192 × 32 × 128", ROWS, "t h (2 d), (2 d), t d, t d, -> t h (2 d)",
             rotated_heads, {"t": TOKENS, "h": 32, "d": 64}, scalars=EPS),
    ]  # fmt: skip


# -- columns --------------------------------------------------------------------------------------------------------


def standardised(X: Any, eps: Any) -> Any:
    """Columns of mean 0 and variance 1."""
    Y = X - cd.mean(X, "t")
    return Y / cd.sqrt(cd.mean(Y * Y, "t") + eps)


def excited(X: Any, W: Any, U: Any) -> Any:
    """Channels scaled by a small network of their means (squeeze and excitation)."""
    hidden = cd.maximum(cd.einsum("n c, r c -> n r", cd.mean(X, "p"), W), 0)
    return X * cd.nn.sigmoid(cd.einsum("n r, c r -> n c", hidden, U))


def channel_norm(X: Any, a: Any, b: Any, eps: Any) -> Any:
    """BatchNorm in training."""
    mean = cd.mean(cd.mean(X, "p"), "n")
    spread = cd.mean(cd.mean(X * X, "p"), "n") - mean * mean
    return a * (X - mean) / cd.sqrt(spread + eps) + b


def unit_mean(X: Any, eps: Any) -> Any:
    """The mean of tokens, as a unit vector (a sentence's embedding)."""
    m = cd.mean(X, "t")
    return m / cd.sqrt(cd.sum(m * m, "d") + eps)


def columns() -> list[Declared]:
    """Columns and channels."""
    return [
        *(case(f"sums of columns, {t:,} × {d:,}", COLUMNS, "t d -> d", lambda X: cd.sum(X, "t"), {"t": t, "d": d})
          for t, d in ((8192, 8192), (16_384, 768), (1000, 30_000))),
        case("two sums of columns, 16,384 × 4,096", COLUMNS, "t d, t d -> d, d",
             lambda G, X: (cd.sum(G, "t"), cd.sum(G * X, "t")), {"t": 16_384, "d": 4096}),
        case("standardised columns, 16,384 × 4,096", COLUMNS, "t d, -> t d", standardised,
             {"t": 16_384, "d": 4096}, scalars=EPS),
        case("squeeze and excitation, 64 × 256 × 3,136", COLUMNS, "n c p, r c, c r -> n c p", excited,
             {"n": 64, "c": 256, "p": 3136, "r": 16}, draws={"W": {"scale": 1 / 16}, "U": {"scale": 0.25}}),
        case("BatchNorm in training, 64 × 256 × 3,136", COLUMNS, "n c p, c, c, -> n c p", channel_norm,
             {"n": 64, "c": 256, "p": 3136}, scalars=EPS),
        case("unit mean of tokens, 256 × 512 × 1,024", COLUMNS, "b t d, -> b d", unit_mean,
             {"b": 256, "t": 512, "d": 1024}, scalars=EPS),
    ]  # fmt: skip


# -- losses ---------------------------------------------------------------------------------------------------------


def smoothed(Z: Any, label: Any, share: Any) -> Any:
    """Cross-entropy with smoothed labels."""
    logs = cd.nn.log_softmax(Z, "v")
    own = cd.sum(cd.where(cd.index("v") == label, logs, 0), "v")
    return -(1 - share) * own - share * cd.mean(logs, "v")


def jensen_shannon(A: Any, B: Any) -> Any:
    """Jensen and Shannon's divergence of two rows of logits."""
    a, b = cd.nn.log_softmax(A, "v"), cd.nn.log_softmax(B, "v")
    p, q = cd.exp(a), cd.exp(b)
    m = cd.log((p + q) / 2 + 1e-30)
    return cd.sum(p * (a - m) + q * (b - m), "v") / 2


def huber(X: Any, Y: Any, edge: Any) -> Any:
    """Huber's loss of rows."""
    gap = cd.abs(X - Y)
    return cd.mean(cd.where(gap < edge, gap * gap / 2, edge * (gap - edge / 2)), "d")


def sinkhorn(C: Any, g: Any, heat: Any) -> Any:
    """A step of Sinkhorn's iteration, of rows."""
    return -heat * cd.nn.logsumexp((g - C) / heat, "j")


def losses() -> list[Declared]:
    """Losses."""
    words = {"t": TOKENS, "v": 32_000}
    return [
        case("label smoothing, 8,192 × 32,000", LOSSES, "t v, int[t], -> t", smoothed, words, scalars={"share": 0.1},
             draws={"label": {"below": 32_000}}),
        case("Jensen and Shannon's divergence, 4,096 × 32,000", LOSSES, "t v, t v -> t", jensen_shannon,
             {"t": 4096, "v": 32_000}),
        case("Huber's loss of rows, 65,536 × 1,024", LOSSES, "t d, t d, -> t", huber, {"t": 65_536, "d": 1024},
             scalars={"edge": 1.0}),
        case("a step of Sinkhorn, 8,192 × 8,192", LOSSES, "i j, j, -> i", sinkhorn, {"i": TOKENS, "j": TOKENS},
             scalars={"heat": 0.5}),
    ]  # fmt: skip


# -- products -------------------------------------------------------------------------------------------------------


def near_cosines(A: Any, B: Any, least: Any) -> Any:
    """The cosines of all pairs of rows that are above a threshold."""
    a, b = A / cd.sqrt(cd.sum(A * A, "d")), B / cd.sqrt(cd.sum(B * B, "d"))
    S = cd.einsum("i d, j d -> i j", a, b)
    return cd.where(least < S, S, 0)


def small_network(X: Any, W: Any, b: Any, U: Any) -> Any:
    """Two narrow layers (a radiance field's)."""
    return cd.einsum("t f, f o -> t o", cd.maximum(cd.einsum("t d, d f -> t f", X, W) + b, 0), U)


def outer_mean(A: Any, B: Any, W: Any) -> Any:
    """The mean over sequences of outer products, and its projection (AlphaFold's)."""
    outer = cd.einsum("s i c, s j e -> i j c e", A, B) / cd.size("s")
    return cd.einsum("i j c e, c e z -> i j z", outer, W)


def router(X: Any, W: Any) -> Any:
    """The weights of experts."""
    return cd.softmax(cd.einsum("t d, d e -> t e", X, W), "e")


def products() -> list[Declared]:
    """Products with more around them."""
    return [
        case("cosines above a threshold, 8,192 × 8,192 over 512", PRODUCTS, "i d, j d, -> i j", near_cosines,
             {"i": TOKENS, "j": TOKENS, "d": 512}, scalars={"least": 0.05}),
        case("bilinear forms, 4,096 of 256 × 256", PRODUCTS, "b i, b i j, b j -> b",
             lambda x, M, y: cd.einsum("b i, b i j, b j -> b", x, M, y), {"b": 4096, "i": 256, "j": 256}),
        case("two narrow layers, 262,144 × 64 → 128 → 64", PRODUCTS, "t d, d f, f, f o -> t o", small_network,
             {"t": 262_144, "d": 64, "f": 128, "o": 64}, draws={"W": {"scale": 0.125}, "U": {"scale": 0.09}}),
        case("mean of outer products, 128 × 256 × 256 × 32²", PRODUCTS, "s i c, s j e, c e z -> i j z", outer_mean,
             {"s": 128, "i": 256, "j": 256, "c": 32, "e": 32, "z": 128}, draws={"W": {"scale": 1 / 32}}),
        case("triangle update, 512 × 512 × 128", PRODUCTS, "i k c, j k c -> i j c",
             lambda A, B: cd.einsum("i k c, j k c -> i j c", A, B), {"i": 512, "j": 512, "k": 512, "c": 128}),
        case("router, 8,192 × 4,096 → 64", PRODUCTS, "t d, d e -> t e", router, {"t": TOKENS, "d": 4096, "e": 64},
             draws={"W": {"scale": 1 / 64}}),
        case("covariance, 1,048,576 × 64", PRODUCTS, "t i, t j -> i j",
             lambda A, B: cd.einsum("t i, t j -> i j", A, B), {"t": 2**20, "i": 64, "j": 64}),
    ]  # fmt: skip


# -- others ---------------------------------------------------------------------------------------------------------


def density(X: Any, Y: Any, V: Any, width: Any) -> Any:
    """Values weighted by a Gaussian of distances, without dividing by the weights."""
    gap = X - Y
    return cd.einsum("q x, x v -> q v", cd.exp(-cd.sum(gap * gap, "d") / (2 * width * width)), V)


def sliding_mean(X: Any) -> Any:
    """The mean of 16 tokens in a row."""
    return cd.mean(cd.window(X, "t", "y k=16"), "k")


def short_convolution(X: Any, w: Any) -> Any:
    """A causal convolution of four tokens in each channel, and SiLU (Mamba's)."""
    return silu(cd.einsum("b y k d, k d -> b y d", cd.window(X, "t", "y k", pad=(3, 0)), w))


def padded_step(Q: Any, K: Any, V: Any, slope: Any, length: Any) -> Any:
    """A step of decoding with ALiBi and sequences of different lengths."""
    S = cd.einsum("b k r d, b k x d -> b k r x", Q, K) / cd.sqrt(cd.size("d"))
    S = S + slope * (cd.index("x") - length)
    P = cd.softmax(cd.where(cd.index("x") <= length, S, -cd.inf), "x")
    return cd.einsum("b k r x, b k x d -> b k r d", P, V)


def others() -> list[Declared]:
    """Distances, windows, attention."""
    return [
        case("values by Gaussians of distances, 16,384 on 16,384, d 64", OTHERS, "q d, x d, x v, -> q v", density,
             {"q": 16_384, "x": 16_384, "d": 64, "v": 64}, scalars={"width": 8.0}),
        case("sliding mean of 16, 16,384 × 4,096", OTHERS, "t d -> y d", sliding_mean,
             {"t": 16_384, "d": 4096, "y": 16_369}),
        case("convolution of four tokens and SiLU, 8 × 4,096 × 2,048", OTHERS, "b t d, k d -> b y d",
             short_convolution, {"b": 8, "t": 4096, "y": 4096, "d": 2048, "k": 4}),
        case("ALiBi and padding, a step of decoding, 16 × 8 × 4, 8k keys", OTHERS,
             "b k r d, b k x d, b k x d, k r, int[b] -> b k r d", padded_step,
             {"b": 16, "k": 8, "r": 4, "x": TOKENS, "d": 128}, draws={"length": {"below": TOKENS},
              "slope": {"draw": "uniform", "scale": 0.1}}),
    ]  # fmt: skip


def fused_programs() -> list[Declared]:
    """All of them."""
    return [*rows(), *columns(), *losses(), *products(), *others()]
