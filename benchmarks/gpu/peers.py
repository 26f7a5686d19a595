"""What the operators of the list are compared with: PyTorch's own kernels, and FlexAttention with what it can say.

A peer is made for a case and takes the case's inputs in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catdiag.measure.bench_case import BenchCase

Function = Callable[..., Any]


def _flat(case: BenchCase, tensor: Any) -> Any:
    """Heads in one axis: what the diagram has as key heads and the queries that share them."""
    names = next(a.axes for a in case.inputs if a.name == "Q")
    if "k" not in names:
        return tensor
    b, k, r, *rest = tensor.shape
    return tensor.reshape(b, k * r, *([1, *rest] if "q" not in names else rest))


def fused(backend: str) -> Callable[[BenchCase], Function]:
    """`scaled_dot_product_attention` by one of its backends."""

    def make(case: BenchCase) -> Function:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        kernel = getattr(SDPBackend, backend)
        causal = "causal" in case.operator
        grouped = "k" in case.inputs[0].axes
        call = torch.nn.functional.scaled_dot_product_attention

        def run(Q: Any, K: Any, V: Any) -> Any:
            with sdpa_kernel([kernel]):
                out = call(_flat(case, Q), K, V, is_causal=causal, enable_gqa=grouped)
            return out.reshape(Q.shape)

        return run

    return make


def flex(case: BenchCase) -> Function:
    """FlexAttention, compiled: a score_mod or a mask_mod for what the operator does to the scores."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, x = case.sizes.get("q", 1), case.sizes["x"]
    title, scalars = case.operator, case.scalars
    block = None
    if "causal" in title or "alibi" in title:
        block = create_block_mask(lambda b, h, i, j: i >= j, None, None, q, x, device="cuda")
    elif title in ("sliding_window_attention", "gemma_attention"):
        width = int(scalars["width"])
        block = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < width), None, None, q, x, device="cuda")

    def plain(Q: Any, K: Any, V: Any) -> Any:
        return flex_attention(Q, K, V, block_mask=block)

    def alibi(Q: Any, K: Any, V: Any, slope: Any) -> Any:
        def mod(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return score - slope[h] * (i - j)

        return flex_attention(Q, K, V, score_mod=mod, block_mask=block)

    def capped(Q: Any, K: Any, V: Any, cap: float) -> Any:
        def mod(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return cap * torch.tanh(score / cap)

        return flex_attention(Q, K, V, score_mod=mod)

    def by_distance(Q: Any, K: Any, V: Any, squares: Any, width: float) -> Any:
        def mod(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return score - squares[b, h, j]

        return flex_attention(Q, K, V, score_mod=mod, scale=1 / (width * width))

    def differential(Q: Any, K: Any, R: Any, L: Any, V: Any, c: float) -> Any:
        return flex_attention(Q, K, V) - c * flex_attention(R, L, V)

    def capped_window(Q: Any, K: Any, V: Any, width: int, cap: float) -> Any:
        def mod(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return cap * torch.tanh(score / cap)

        out = flex_attention(_flat(case, Q), K, V, score_mod=mod, block_mask=block, enable_gqa=True)
        return out.reshape(Q.shape)

    def with_sink(Q: Any, K: Any, V: Any, z: Any) -> Any:
        out, normaliser = flex_attention(Q, K, V, block_mask=block, return_lse=True)
        return (out * torch.sigmoid(normaliser - z[None, :, None].float())[..., None]).to(Q.dtype)

    def grouped(Q: Any, K: Any, V: Any) -> Any:
        return flex_attention(_flat(case, Q), K, V, enable_gqa=True).reshape(Q.shape)

    ways: dict[str, Function] = {
        "multi_head_alibi_attention": alibi,
        "soft_capped_attention": capped,
        "distance_attention": by_distance,
        "differential_attention": differential,
        "decoding_attention": grouped,
        "gemma_attention": capped_window,
        "sink_causal_attention": with_sink,
    }
    function = torch.compile(ways.get(title, plain), dynamic=False)

    def with_squares(Q: Any, K: Any, V: Any, width: float) -> Any:
        # The squares of queries cancel: exp(-|q - k|² / 2w²) is exp((q·k - |k|² / 2) / w²) times what no key changes.
        squares = (K.float() * K.float()).sum(-1) / (2 * width * width)
        return function(Q, K, V, squares, width)

    if title == "distance_attention":
        return with_squares
    if title == "sliding_window_attention":
        return lambda Q, K, V, width: function(Q, K, V)
    return function


def by_products(case: BenchCase) -> Function:
    """Squared distances as a user writes them for speed: |x|² − 2·x·c + |c|², compiled."""
    import torch

    def squares(X: Any, C: Any) -> Any:
        lengths = (X.float() ** 2).sum(-1)[:, None] + (C.float() ** 2).sum(-1)
        return lengths - 2 * (X @ C.T)

    def regression(X: Any, Y: Any, V: Any, width: float) -> Any:
        weights = torch.exp(-squares(X, Y) / (2 * width * width))
        return (weights.to(V.dtype) @ V) / weights.sum(-1, keepdim=True)

    ways: dict[str, Function] = {
        "least_distance": lambda X, C: squares(X, C).amin(-1),
        "nearest_centre": lambda X, C: squares(X, C).argmin(-1),
        "kernel_regression": regression,
    }
    return torch.compile(ways[case.operator], dynamic=False)


PEERS: dict[str, Callable[[BenchCase], Function]] = {
    "cuDNN": fused("CUDNN_ATTENTION"),
    "FlashAttention-2": fused("FLASH_ATTENTION"),
    "FlexAttention": flex,
    "by products": by_products,
}
"""By the name in the table."""
