"""Programs that nobody tuned for: as users write them, without a step of the derivation, planned at sizes.

Each is compared with the textbook form compiled by `torch.compile`, which calls cuBLAS for products, and where PyTorch
has a faster way to say it, with that as well (`benchmarks.gpu.peers`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import catdiag as cd
from benchmarks.gpu.cases import Declared
from examples.backward_passes import attention_dkv, attention_dq, causal_dkv, causal_dq

ATTENTION, MEMORY, PRODUCTS, FUSED, BACKWARD = (
    "Attention as users write it",
    "Memory-bound programs",
    "Products",
    "Products with more around them",
    "Attention backward, from saved statistics, 16 heads, 8k",
)
TOKENS = 8192

Operator = Callable[[], cd.Program]


def algorithm(signature: str, name: str, body: Callable[..., Any]) -> Operator:
    """A program that is traced when it is asked for, once."""
    found: list[cd.Program] = []

    def build() -> cd.Program:
        if not found:
            found.append(cd.algorithm(signature, name=name)(body))
        return found[0]

    return build


# -- attention ------------------------------------------------------------------------------------------------------


def _causal() -> Any:
    return cd.index("x") <= cd.index("q")


def gemma(Q: Any, K: Any, V: Any, width: Any, cap: Any) -> Any:
    """Grouped queries, a window, a soft cap."""
    S = cd.einsum("b k r q d, b k x d -> b k r q x", Q, K) / cd.sqrt(cd.size("d"))
    S = cap * cd.tanh(S / cap)
    near = _causal() & (cd.index("q") - cd.index("x") < width)
    return cd.einsum("b k r q x, b k x d -> b k r q d", cd.softmax(cd.where(near, S, -cd.inf), "x"), V)


def sink(Q: Any, K: Any, V: Any, z: Any) -> Any:
    """Causal attention whose softmax has one more logit for each head, without a value."""
    S = cd.einsum("b h q d, b h x d -> b h q x", Q, K) / cd.sqrt(cd.size("d"))
    S = cd.where(_causal(), S, -cd.inf)
    m = cd.maximum(cd.max(S, "x"), z)
    weights = cd.exp(S - m)
    return cd.einsum("b h q x, b h x d -> b h q d", weights, V) / (cd.sum(weights, "x") + cd.exp(z - m))


def documents(Q: Any, K: Any, V: Any, of_query: Any, of_key: Any) -> Any:
    """Causal attention within packed documents."""
    S = cd.einsum("h q d, h x d -> h q x", Q, K) / cd.sqrt(cd.size("d"))
    mask = _causal() & (of_query == of_key)
    out = cd.einsum("h q x, h x d -> h q d", cd.softmax(cd.where(mask, S, -cd.inf), "x"), V)
    return cd.where(cd.any(mask, "x"), out, 0)


def normalised_queries(Q: Any, K: Any, V: Any, g: Any, f: Any, eps: Any) -> Any:
    """Queries and keys by RMSNorm with gains before they meet, causal."""
    Q = g * Q / cd.sqrt(cd.mean(Q * Q, "d") + eps)
    K = f * K / cd.sqrt(cd.mean(K * K, "d") + eps)
    S = cd.einsum("b h q d, b h x d -> b h q x", Q, K) / cd.sqrt(cd.size("d"))
    return cd.einsum("b h q x, b h x d -> b h q d", cd.softmax(cd.where(_causal(), S, -cd.inf), "x"), V)


def evoformer(Q: Any, K: Any, V: Any, B: Any, G: Any) -> Any:
    """Attention with a bias for each pair, and a gate (AlphaFold's)."""
    S = cd.einsum("s h q d, s h x d -> s h q x", Q, K) / cd.sqrt(cd.size("d")) + B
    out = cd.einsum("s h q x, s h x d -> s h q d", cd.softmax(S, "x"), V)
    return out / (1 + cd.exp(-G))


def retention(Q: Any, K: Any, V: Any, rate: Any) -> Any:
    """Attention without a softmax: weights decay with the distance, at a rate of each head."""
    S = cd.einsum("h q d, h x d -> h q x", Q, K)
    decay = cd.exp(-rate * (cd.index("q") - cd.index("x")))
    return cd.einsum("h q x, h x d -> h q d", cd.where(_causal(), S * decay, 0), V)


def cross(Q: Any, K: Any, V: Any, length: Any) -> Any:
    """Queries on the keys of a padded text."""
    S = cd.einsum("b h q d, b h x d -> b h q x", Q, K) / cd.sqrt(cd.size("d"))
    S = cd.where(cd.index("x") < length, S, -cd.inf)
    return cd.einsum("b h q x, b h x d -> b h q d", cd.softmax(S, "x"), V)


def latent_step(Q: Any, R: Any, C: Any, P: Any) -> Any:
    """A decoding step on cached latents of 512 with rotated parts of 64: all heads share keys, which are the values."""
    S = cd.einsum("b h c, b x c -> b h x", Q, C) + cd.einsum("b h e, b x e -> b h x", R, P)
    return cd.einsum("b h x, b x c -> b h c", cd.softmax(S / cd.sqrt(cd.size("c") + cd.size("e")), "x"), C)


def attention() -> list[Declared]:
    """Attention as users write it."""
    heads = "b h q d, b h x d, b h x d"
    square = {"q": TOKENS, "x": TOKENS}
    ids = {"below": 4}
    return [
        Declared("Gemma-2: 8 heads on 4, window 4,096, cap 50, d 128, 8k", ATTENTION,
                 algorithm("b k r q d, b k x d, b k x d, int[], -> b k r q d", "gemma_attention", gemma),
                 {"b": 1, "k": 4, "r": 2, "d": 128, **square}, scalars={"width": 4096, "cap": 50.0},
                 peers=("FlexAttention",)),
        Declared("causal with a sink, 16 heads of 64, 8k", ATTENTION,
                 algorithm(f"{heads}, h -> b h q d", "sink_causal_attention", sink),
                 {"b": 1, "h": 16, "d": 64, **square}, peers=("FlexAttention",)),
        Declared("packed documents, 16 heads of 128, 8k", ATTENTION,
                 algorithm("h q d, h x d, h x d, int[q], int[x] -> h q d", "packed_attention", documents),
                 {"h": 16, "d": 128, **square}, draws={"of_query": ids, "of_key": ids}),
        Declared("normalised queries and keys, causal, 16 heads of 128, 8k", ATTENTION,
                 algorithm(f"{heads}, d, d, -> b h q d", "normalised_attention", normalised_queries),
                 {"b": 1, "h": 16, "d": 128, **square}, scalars={"eps": 1e-5}),
        Declared("pair bias and gate, 128 × 4 heads of 32, 512", ATTENTION,
                 algorithm("s h q d, s h x d, s h x d, h q x, s h q d -> s h q d", "evoformer_attention", evoformer),
                 {"s": 128, "h": 4, "q": 512, "x": 512, "d": 32}),
        Declared("retention, 16 heads of 128, 8k", ATTENTION,
                 algorithm("h q d, h x d, h x d, h -> h q d", "retention", retention),
                 {"h": 16, "d": 128, **square}, draws={"rate": {"draw": "uniform", "scale": 0.1}}),
        Declared("cross-attention on a padded text, 10 heads of 64, 4,096 on 77", ATTENTION,
                 algorithm(f"{heads}, int[] -> b h q d", "padded_cross_attention", cross),
                 {"b": 8, "h": 10, "q": 4096, "x": 77, "d": 64}, scalars={"length": 60}),
        Declared("latent attention, a decoding step, 64 × 128 heads, 8k keys", ATTENTION,
                 algorithm("b h c, b h e, b x c, b x e -> b h c", "latent_step", latent_step),
                 {"b": 64, "h": 128, "x": TOKENS, "c": 512, "e": 64}),
    ]  # fmt: skip


# -- memory-bound ---------------------------------------------------------------------------------------------------


def silu(X: Any) -> Any:
    """x · σ(x)."""
    return X / (1 + cd.exp(-X))


def residual_norm(X: Any, R: Any, g: Any, eps: Any) -> tuple[Any, Any]:
    """A residual, and its RMSNorm."""
    Y = X + R
    return Y, g * Y / cd.sqrt(cd.mean(Y * Y, "d") + eps)


def memory() -> list[Declared]:
    """Programs that wait for memory."""
    rows, long = {"t": TOKENS, "v": 32_768}, {"t": 16_384, "d": 8192}
    eps = {"eps": 1e-5}
    narrow, library = {"t": 65_536, "d": 1024}, cd.library.get
    return [
        Declared("softmax of rows of 32,768", MEMORY,
                 algorithm("t v -> t v", "softmax_rows", lambda Z: cd.softmax(Z, "v")), rows),
        Declared("softmax of rows of 1,024", MEMORY,
                 algorithm("t d -> t d", "softmax_rows", lambda Z: cd.softmax(Z, "d")), narrow),
        Declared("RMSNorm, 16,384 × 8,192", MEMORY, lambda: cd.Program(library("rms_norm")), long, scalars=eps),
        Declared("LayerNorm, 16,384 × 8,192", MEMORY, lambda: cd.Program(library("layer_norm")), long, scalars=eps),
        Declared("LayerNorm, 65,536 × 1,024", MEMORY, lambda: cd.Program(library("layer_norm")), narrow, scalars=eps),
        Declared("residual and RMSNorm, 16,384 × 8,192", MEMORY,
                 algorithm("t d, t d, d, -> t d, t d", "residual_norm", residual_norm), long, scalars=eps),
        Declared("cross-entropy of logits, 8,192 × 128,256", MEMORY, lambda: cd.Program(library("cross_entropy")),
                 {"t": TOKENS, "v": 128_256}, draws={"label": {"below": 128_256}}),
        Declared("gate: silu(G) · U, 8,192 × 14,336", MEMORY,
                 algorithm("t f, t f -> t f", "gate", lambda G, U: silu(G) * U), {"t": TOKENS, "f": 14_336}),
        Declared("transposed sum: Aᵀ + B, 8,192 × 8,192", MEMORY,
                 algorithm("i j, j i -> j i", "transposed_sum", lambda A, B: cd.einsum("i j -> j i", A) + B),
                 {"i": TOKENS, "j": TOKENS}),
        Declared("sums of columns, 65,536 × 4,096", MEMORY,
                 algorithm("t d -> d", "column_sums", lambda X: cd.sum(X, "t")), {"t": 65_536, "d": 4096}),
        Declared("mean and variance of columns, 65,536 × 1,024", MEMORY,
                 algorithm("t d -> d, d", "column_moments", lambda X: (cd.mean(X, "t"), cd.nn.var(X, "t"))), narrow),
        Declared("matrix and vector, 16,384 × 8,192", MEMORY,
                 algorithm("t d, d -> t", "matvec_rows", lambda A, x: cd.einsum("t d, d -> t", A, x)), long),
    ]  # fmt: skip


# -- products -------------------------------------------------------------------------------------------------------


def product(name: str, sizes: Sequence[int]) -> Declared:
    """A product of matrices, m × k by k × n."""
    m, k, n = sizes
    operator = algorithm("m k, k n -> m n", "product", lambda A, B: cd.einsum("m k, k n -> m n", A, B))
    return Declared(name, PRODUCTS, operator, {"m": m, "k": k, "n": n})


def linear_layer(X: Any, W: Any, b: Any) -> Any:
    """A linear layer with weights by rows of outputs, a bias and GELU."""
    Y = cd.einsum("t d, o d -> t o", X, W) + b
    return Y / 2 * (1 + cd.tanh(0.7978845608 * (Y + 0.044715 * Y * Y * Y)))


def products() -> list[Declared]:
    """Products of all shapes."""
    return [
        product("8,192³", (8192, 8192, 8192)),
        product("4,096³", (4096, 4096, 4096)),
        product("8,192 × 6,144 × 4,096", (8192, 6144, 4096)),
        product("skinny: 64 × 8,192 × 8,192", (64, 8192, 8192)),
        product("narrow: 65,536 × 4,096 × 64", (65_536, 4096, 64)),
        product("deep: 1,024 × 65,536 × 1,024", (1024, 65_536, 1024)),
        Declared("batched: 64 of 1,024³", PRODUCTS,
                 algorithm("s m k, s k n -> s m n", "batched", lambda A, B: cd.einsum("s m k, s k n -> s m n", A, B)),
                 {"s": 64, "m": 1024, "k": 1024, "n": 1024}),
        Declared("linear, bias and GELU, 8,192 × 4,096 → 16,384", PRODUCTS,
                 algorithm("t d, o d, o -> t o", "linear_gelu", linear_layer),
                 {"t": TOKENS, "d": 4096, "o": 16_384}, draws={"W": {"scale": 4096**-0.5}}),
    ]  # fmt: skip


# -- products with more around them -----------------------------------------------------------------------------------


def row_correlation(A: Any, B: Any) -> Any:
    """Pearson's correlation of each row of A with each of B."""
    a, b = A - cd.mean(A, "k"), B - cd.mean(B, "k")
    lengths = cd.sqrt(cd.sum(a * a, "k")), cd.sqrt(cd.sum(b * b, "k"))
    return cd.einsum("m k, n k -> m n", a / lengths[0], b / lengths[1])


def least_distance(X: Any, C: Any) -> Any:
    """The squared distance of each point from the nearest centre."""
    gap = X - C
    return cd.min(cd.sum(gap * gap, "d"), "c")


def nearest(X: Any, C: Any) -> Any:
    """The index of the nearest centre of each point."""
    gap = X - C
    return cd.argmin(cd.sum(gap * gap, "d"), "c")


def two_sided(A: Any, B: Any, heat: Any) -> tuple[Any, Any]:
    """A contrastive loss each way, of pairs."""
    S = cd.einsum("i d, j d -> i j", A, B) / heat
    own = cd.where(cd.index("i") == cd.index("j"), S, 0)
    return cd.nn.logsumexp(S, "j") - cd.sum(own, "j"), cd.nn.logsumexp(S, "i") - cd.sum(own, "i")


def norm_linear_residual(X: Any, g: Any, eps: Any, W: Any, R: Any) -> Any:
    """RMSNorm, a linear layer, a residual."""
    Y = g * X / cd.sqrt(cd.mean(X * X, "d") + eps)
    return cd.einsum("t d, d o -> t o", Y, W) + R


def swiglu(X: Any, G: Any, U: Any, D: Any) -> Any:
    """SwiGLU with its projection down."""
    gate = silu(cd.einsum("t d, d f -> t f", X, G)) * cd.einsum("t d, d f -> t f", X, U)
    return cd.einsum("t f, f d -> t d", gate, D)


def kernel_regression(X: Any, Y: Any, V: Any, width: Any) -> Any:
    """Nadaraya and Watson's regression: values weighted by a Gaussian of distances."""
    gap = X - Y
    weights = cd.exp(-cd.sum(gap * gap, "d") / (2 * width * width))
    return cd.einsum("q x, x v -> q v", weights, V) / cd.sum(weights, "x")


def fused() -> list[Declared]:
    """Products with more around them."""
    narrow = {"scale": 4096**-0.5}
    return [
        Declared("correlation of rows, 4,096 × 4,096 over 8,192", FUSED,
                 algorithm("m k, n k -> m n", "row_correlation", row_correlation), {"m": 4096, "n": 4096, "k": TOKENS}),
        Declared("least squared distance, 262,144 points, 1,024 centres, d 128", FUSED,
                 algorithm("t d, c d -> t", "least_distance", least_distance), {"t": 262_144, "c": 1024, "d": 128},
                 peers=("by products",)),
        Declared("nearest centre, 262,144 points, 1,024 centres, d 128", FUSED,
                 algorithm("t d, c d -> int[t]", "nearest_centre", nearest), {"t": 262_144, "c": 1024, "d": 128},
                 peers=("by products",)),
        Declared("contrastive loss both ways, 16,384², d 512", FUSED,
                 algorithm("i d, j d, -> i, j", "two_sided_loss", two_sided), {"i": 16_384, "j": 16_384, "d": 512},
                 scalars={"heat": 16.0}),
        Declared("RMSNorm, linear and residual, 8,192 × 4,096 × 6,144", FUSED,
                 algorithm("t d, d, , d o, t o -> t o", "norm_linear_residual", norm_linear_residual),
                 {"t": TOKENS, "d": 4096, "o": 6144}, scalars={"eps": 1e-5}, draws={"W": narrow}),
        Declared("SwiGLU with its projection down, 4,096 × 4,096 × 11,008", FUSED,
                 algorithm("t d, d f, d f, f d -> t d", "swiglu", swiglu), {"t": 4096, "d": 4096, "f": 11_008},
                 draws={"G": narrow, "U": narrow, "D": {"scale": 11_008**-0.5}}),
        Declared("regression by distance, 16,384 on 16,384, d 64", FUSED,
                 algorithm("q d, x d, x v, -> q v", "kernel_regression", kernel_regression),
                 {"q": 16_384, "x": 16_384, "d": 64, "v": 64}, scalars={"width": 8.0},
                 peers=("by products",)),
    ]  # fmt: skip


# -- backward passes ------------------------------------------------------------------------------------------------


def backward() -> list[Declared]:
    """Gradients of queries, and of keys and values, where the forward pass saved statistics of its rows."""
    found = []
    for d in (128, 64):
        sizes = {"h": 16, "q": TOKENS, "x": TOKENS, "d": d, "v": d}
        for causal, dq, dkv in (("", attention_dq, attention_dkv), (", causal", causal_dq, causal_dkv)):
            for name, program in (("queries", dq), ("keys and values", dkv)):
                found.append(Declared(f"{name}{causal}, d {d}", BACKWARD, lambda program=program: program, sizes))
    return found


def programs() -> list[Declared]:
    """All of them."""
    return [*attention(), *memory(), *products(), *fused(), *backward()]
