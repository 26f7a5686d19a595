"""More programs as users write them, of other shapes than those of `benchmarks.gpu.programs`: layouts that are not
the common ones, odd sizes, gathers, several results, three factors. Each is compared with `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import catdiag as cd
from benchmarks.gpu.cases import Declared
from benchmarks.gpu.programs import TOKENS, algorithm, product, silu

ELEMENTWISE, REDUCTIONS, LAYOUTS, PRODUCTS, ATTENTION = (
    "Elementwise chains",
    "Reductions and norms",
    "Layouts and gathers",
    "Products of other shapes",
    "Attention of other forms",
)

EPS = {"eps": 1e-5}


def gelu(X: Any) -> Any:
    """x · Φ(x)."""
    return X / 2 * (1 + cd.erf(X / cd.sqrt(2)))


def case(
    name: str, group: str, signature: str, body: Callable[..., Any], sizes: dict[str, int], **options: Any
) -> Declared:
    """A program of one body at sizes."""
    title = name.split(",")[0].replace(" ", "_").replace("-", "_").lower()
    title = "".join(c for c in title if c.isalnum() or c == "_")
    return Declared(name, group, algorithm(signature, title, body), sizes, **options)


# -- elementwise ----------------------------------------------------------------------------------------------------


def adam(P: Any, G: Any, M: Any, V: Any, rate: Any) -> tuple[Any, Any, Any]:
    """A step of Adam without a correction of its bias."""
    m, v = 0.9 * M + 0.1 * G, 0.999 * V + 0.001 * G * G
    return P - rate * m / (cd.sqrt(v) + 1e-8), m, v


def elementwise() -> list[Declared]:
    """Chains of functions of entries."""
    wide = {"t": TOKENS, "d": 16_384}
    return [
        case("bias, GELU, residual, 8,192 × 16,384", ELEMENTWISE, "t d, d, t d -> t d",
             lambda X, b, R: gelu(X + b) + R, wide),
        case("step of Adam, 8,192 × 16,384", ELEMENTWISE, "t d, t d, t d, t d, -> t d, t d, t d", adam, wide,
             scalars={"rate": 1e-3}, draws={"V": {"draw": "uniform", "scale": 1.0}}),
        case("outer difference, 8,192 × 8,192", ELEMENTWISE, "i, j -> i j", lambda x, y: cd.exp(-(x - y) * (x - y)),
             {"i": TOKENS, "j": TOKENS}),
        case("gate by halves of one product, 8,192 × 14,336", ELEMENTWISE, "t f, t f, f -> t f",
             lambda G, U, b: silu(G + b) * U, {"t": TOKENS, "f": 14_336}),
        case("triangle of a matrix, 8,192 × 8,192", ELEMENTWISE, "i j -> i j",
             lambda X: cd.where(cd.index("j") <= cd.index("i"), X, 0), {"i": TOKENS, "j": TOKENS}),
        case("affine map of channels, 64 × 256 × 3,136", ELEMENTWISE, "n c p, c, c -> n c p",
             lambda X, a, b: cd.maximum(a * X + b, 0), {"n": 64, "c": 256, "p": 3136}),
    ]  # fmt: skip


# -- reductions -----------------------------------------------------------------------------------------------------


def masked_mean(X: Any, L: Any) -> Any:
    """The mean over the tokens of each sequence, of lengths that differ."""
    own = cd.index("t") < L
    return cd.sum(cd.where(own, X, 0), "t") / cd.maximum(L, 1)


def group_norm(X: Any, a: Any, b: Any, eps: Any) -> Any:
    """GroupNorm."""
    mean = cd.mean(cd.mean(X, "p"), "c")
    spread = cd.mean(cd.mean((X - mean) * (X - mean), "p"), "c")
    return a * (X - mean) / cd.sqrt(spread + eps) + b


def batch_moments(X: Any) -> tuple[Any, Any]:
    """Mean and mean square of each channel."""
    return cd.mean(cd.mean(X, "p"), "n"), cd.mean(cd.mean(X * X, "p"), "n")


def kullback(P: Any, Q: Any) -> Any:
    """The divergence of two rows of logits."""
    p, q = cd.nn.log_softmax(P, "v"), cd.nn.log_softmax(Q, "v")
    return cd.sum(cd.exp(p) * (p - q), "v")


def log_softmax(Z: Any) -> Any:
    """Log-softmax of rows of an odd length."""
    return cd.nn.log_softmax(Z, "v")


def cosines(A: Any, B: Any, eps: Any) -> Any:
    """The cosine of each row of A with the same row of B."""
    return cd.sum(A * B, "d") / (cd.sqrt(cd.sum(A * A, "d") * cd.sum(B * B, "d")) + eps)


def reductions() -> list[Declared]:
    """Reductions and norms."""
    narrow = {"t": 65_536, "d": 1024}
    return [
        case("masked mean, 64 × 4,096 × 1,024", REDUCTIONS, "b t d, int[b] -> b d", masked_mean,
             {"b": 64, "t": 4096, "d": 1024}, draws={"L": {"below": 4096}}),
        case("GroupNorm, 64 × 32 groups of 8 × 3,136", REDUCTIONS, "n g c p, g c, g c, -> n g c p", group_norm,
             {"n": 64, "g": 32, "c": 8, "p": 3136}, scalars=EPS),
        case("moments of channels, 64 × 256 × 3,136", REDUCTIONS, "n c p -> c, c", batch_moments,
             {"n": 64, "c": 256, "p": 3136}),
        case("divergence of logits, 4,096 × 32,000", REDUCTIONS, "t v, t v -> t", kullback, {"t": 4096, "v": 32_000}),
        case("log-softmax of rows of 50,257", REDUCTIONS, "t v -> t v", log_softmax, {"t": 4096, "v": 50_257}),
        case("cosines of pairs of rows, 65,536 × 1,024", REDUCTIONS, "t d, t d, -> t", cosines, narrow, scalars=EPS),
        case("largest of each row and where it is, 8,192 × 32,768", REDUCTIONS, "t v -> t, int[t]",
             lambda Z: (cd.max(Z, "v"), cd.argmax(Z, "v")), {"t": TOKENS, "v": 32_768}),
        case("sum of squares of all, 16,384 × 8,192", REDUCTIONS, "t d -> ",
             lambda X: cd.sum(cd.sum(X * X, "d"), "t"), {"t": 16_384, "d": 8192}),
        case("L2 normalised rows, 65,536 × 1,024", REDUCTIONS, "t d, -> t d",
             lambda X, eps: X / cd.sqrt(cd.sum(X * X, "d") + eps), narrow, scalars=EPS),
        case("softmax over columns, 4,096 × 8,192", REDUCTIONS, "i j -> i j", lambda X: cd.softmax(X, "i"),
             {"i": 4096, "j": TOKENS}),
    ]  # fmt: skip


# -- layouts --------------------------------------------------------------------------------------------------------


def bag(E: Any, ids: Any, w: Any) -> Any:
    """A weighted sum of rows of a table."""
    return cd.einsum("t s, t s d -> t d", w, cd.gather(E, "v", ids))


def layouts() -> list[Declared]:
    """Other layouts, and gathers."""
    return [
        case("axes exchanged, 4 × 8,192 × 32 × 128", LAYOUTS, "b t h d -> b h t d",
             lambda X: cd.einsum("b t h d -> b h t d", X), {"b": 4, "t": TOKENS, "h": 32, "d": 128}),
        case("transposed, 16,384 × 8,192", LAYOUTS, "i j -> j i", lambda X: cd.einsum("i j -> j i", X),
             {"i": 16_384, "j": TOKENS}),
        case("embedding and position, 16,384 × 4,096", LAYOUTS, "v d, int[t], t d -> t d",
             lambda E, ids, P: cd.gather(E, "v", ids) + P, {"v": 32_000, "d": 4096, "t": 16_384},
             draws={"ids": {"below": 32_000}}),
        case("embedding bag, 8,192 bags of 32, d 256", LAYOUTS, "v d, int[t s], t s -> t d", bag,
             {"v": 100_000, "d": 256, "t": TOKENS, "s": 32}, draws={"ids": {"below": 100_000}}),
    ]  # fmt: skip


# -- products -------------------------------------------------------------------------------------------------------


def low_rank(X: Any, W: Any, A: Any, B: Any) -> Any:
    """A linear layer with a product of two narrow matrices added to its weights."""
    return cd.einsum("t d, d o -> t o", X, W) + cd.einsum("t d, d r, r o -> t o", X, A, B)


def linear_norm(X: Any, W: Any, R: Any, g: Any, eps: Any) -> Any:
    """A linear layer, a residual, and the RMSNorm of that."""
    Y = cd.einsum("t d, d o -> t o", X, W) + R
    return g * Y / cd.sqrt(cd.mean(Y * Y, "o") + eps)


def all_cosines(A: Any, B: Any) -> Any:
    """The cosine of each row of A with each of B."""
    a, b = A / cd.sqrt(cd.sum(A * A, "d")), B / cd.sqrt(cd.sum(B * B, "d"))
    return cd.einsum("i d, j d -> i j", a, b)


def gated(X: Any, G: Any, U: Any) -> Any:
    """Both projections of SwiGLU and the gate."""
    return silu(cd.einsum("t d, f d -> t f", X, G)) * cd.einsum("t d, f d -> t f", X, U)


def squared_relu(X: Any, W: Any) -> Any:
    """A linear layer with the square of a ReLU."""
    Y = cd.maximum(cd.einsum("t d, o d -> t o", X, W), 0)
    return Y * Y


def products() -> list[Declared]:
    """Products of other shapes and with other things around them."""
    d = {"scale": 4096**-0.5}
    return [
        product("odd sizes, 5,000 × 3,000 × 7,000", (5000, 3000, 7000)),
        product("tall and narrow, 131,072 × 512 × 512", (131_072, 512, 512)),
        product("few rows, 16 × 4,096 × 14,336", (16, 4096, 14_336)),
        case("Gram matrix, 4,096 over 32,768", PRODUCTS, "t i, t j -> i j",
             lambda A, B: cd.einsum("t i, t j -> i j", A, B), {"t": 32_768, "i": 4096, "j": 4096}),
        case("to heads, 8,192 × 4,096 → 32 × 128", PRODUCTS, "t d, h k d -> h t k",
             lambda X, W: cd.einsum("t d, h k d -> h t k", X, W), {"t": TOKENS, "d": 4096, "h": 32, "k": 128},
             draws={"W": d}),
        case("from heads, 32 × 128 → 4,096, 8,192 tokens", PRODUCTS, "h t k, o h k -> t o",
             lambda X, W: cd.einsum("h t k, o h k -> t o", X, W), {"t": TOKENS, "o": 4096, "h": 32, "k": 128},
             draws={"W": d}),
        case("experts, 16 × 1,024 × 4,096 → 4,096", PRODUCTS, "e t d, e o d -> e t o",
             lambda X, W: cd.einsum("e t d, e o d -> e t o", X, W), {"e": 16, "t": 1024, "d": 4096, "o": 4096},
             draws={"W": d}),
        case("low rank, 8,192 × 4,096 → 4,096, rank 16", PRODUCTS, "t d, d o, d r, r o -> t o", low_rank,
             {"t": TOKENS, "d": 4096, "o": 4096, "r": 16}, draws={"W": d, "A": d, "B": {"scale": 0.25}}),
        case("linear, residual, RMSNorm, 8,192 × 4,096 → 4,096", PRODUCTS, "t d, d o, t o, o, -> t o", linear_norm,
             {"t": TOKENS, "d": 4096, "o": 4096}, scalars=EPS, draws={"W": d}),
        case("cosines of all pairs, 8,192 × 8,192 over 1,024", PRODUCTS, "i d, j d -> i j", all_cosines,
             {"i": TOKENS, "j": TOKENS, "d": 1024}),
        case("SwiGLU gate, 8,192 × 4,096 → 14,336", PRODUCTS, "t d, f d, f d -> t f", gated,
             {"t": TOKENS, "d": 4096, "f": 14_336}, draws={"G": d, "U": d}),
        case("linear and squared ReLU, 8,192 × 4,096 → 16,384", PRODUCTS, "t d, o d -> t o", squared_relu,
             {"t": TOKENS, "d": 4096, "o": 16_384}, draws={"W": d}),
        case("bilinear form, 16,384 × 128 × 128", PRODUCTS, "t i, o i j, t j -> t o",
             lambda X, W, Y: cd.einsum("t i, o i j, t j -> t o", X, W, Y),
             {"t": 16_384, "i": 128, "j": 128, "o": 16}, draws={"W": {"scale": 1 / 128}}),
        case("weights of both sides, 4,096 × 1,024 × 4,096", PRODUCTS, "a i, i j, b j -> a b",
             lambda A, M, B: cd.einsum("a i, i j, b j -> a b", A, M, B), {"a": 4096, "b": 4096, "i": 1024, "j": 1024},
             draws={"M": {"scale": 1 / 32}}),
    ]  # fmt: skip


# -- attention ------------------------------------------------------------------------------------------------------


def talking(Q: Any, K: Any, V: Any, A: Any) -> Any:
    """Attention whose scores are mixed over heads before the softmax."""
    S = cd.einsum("h q d, h x d -> h q x", Q, K) / cd.sqrt(cd.size("d"))
    P = cd.softmax(cd.einsum("g h, h q x -> g q x", A, S), "x")
    return cd.einsum("g q x, g x d -> g q d", P, V)


def sigmoid_attention(Q: Any, K: Any, V: Any, b: Any) -> Any:
    """Attention by a sigmoid."""
    S = cd.einsum("h q d, h x d -> h q x", Q, K) / cd.sqrt(cd.size("d")) + b
    return cd.einsum("h q x, h x d -> h q d", 1 / (1 + cd.exp(-S)), V)


def linear_attention(Q: Any, K: Any, V: Any) -> Any:
    """Attention by features, without a mask."""
    q, k = cd.where(Q > 0, Q + 1, cd.exp(cd.minimum(Q, 0))), cd.where(K > 0, K + 1, cd.exp(cd.minimum(K, 0)))
    S = cd.einsum("h q d, h x d -> h q x", q, k)
    return cd.einsum("h q x, h x v -> h q v", S, V) / cd.sum(S, "x")


def token_layout(Q: Any, K: Any, V: Any) -> Any:
    """Causal attention of arrays with tokens before heads."""
    S = cd.einsum("q h d, x h d -> h q x", Q, K) / cd.sqrt(cd.size("d"))
    P = cd.softmax(cd.where(cd.index("x") <= cd.index("q"), S, -cd.inf), "x")
    return cd.einsum("h q x, x h d -> q h d", P, V)


def pooled(X: Any, w: Any) -> Any:
    """Pooling of tokens by a softmax of their scores."""
    P = cd.softmax(cd.einsum("b t d, d -> b t", X, w), "t")
    return cd.einsum("b t, b t d -> b d", P, X)


def attention() -> list[Declared]:
    """Attention of other forms."""
    square = {"q": 4096, "x": 4096}
    heads = "h q d, h x d, h x d"
    return [
        case("talking heads, 8 of 64, 2,048", ATTENTION, "h q d, h x d, g x d, g h -> g q d",
             talking, {"h": 8, "g": 8, "d": 64, "q": 2048, "x": 2048}),
        case("sigmoid attention, 16 heads of 128, 4k", ATTENTION, f"{heads},  -> h q d", sigmoid_attention,
             {"h": 16, "d": 128, **square}, scalars={"b": -8.0}),
        case("linear attention, 16 heads of 128, 16k", ATTENTION, "h q d, h x d, h x v -> h q v", linear_attention,
             {"h": 16, "q": 16_384, "x": 16_384, "d": 128, "v": 128}),
        case("causal, tokens before heads, 16 of 128, 8k", ATTENTION, "q h d, x h d, x h d -> q h d", token_layout,
             {"h": 16, "d": 128, "q": TOKENS, "x": TOKENS}),
        case("pooling by a softmax, 256 × 2,048 × 512", ATTENTION, "b t d, d -> b d", pooled,
             {"b": 256, "t": 2048, "d": 512}),
    ]  # fmt: skip


def further_programs() -> list[Declared]:
    """All of them."""
    return [*elementwise(), *reductions(), *layouts(), *products(), *attention()]
