"""The list of what is compared: operators at sizes, how each is derived, and what it is compared with.

Attention has 16,384 tokens and 2,048 columns of queries in all, whatever the length and the head dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import catdiag as cd
from catdiag.rewrite.derivation import titled

TOKENS, COLUMNS = 16_384, 2_048
HEADS = ("h", ("Q", "K", "V")), ("b", ("Q", "K", "V"))
FORWARD, VARIANTS, DECODING, LAYERS = (
    "Attention forward, 16,384 tokens and 2,048 columns of queries in all",
    "Variants of attention, as many tokens and columns",
    "Decoding",
    "Layers",
)


@dataclass(frozen=True)
class Declared:
    """An operator at sizes. `steps` say how it is derived; where they stream and group nothing, that is left to the
    plan, with `several` to one of several kernels.

    `peers` are names of `benchmarks.gpu.peers`; the textbook form by torch.compile is added where `compiled`.
    """

    name: str
    group: str
    build: Callable[[], cd.Program]
    sizes: Mapping[str, int]
    steps: tuple[tuple[str, str], ...] = ()
    scalars: Mapping[str, float] = field(default_factory=dict)
    draws: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    peers: tuple[str, ...] = ()
    compiled: bool = True
    dtype: str = "bf16"
    several: bool = False

    @property
    def key(self) -> tuple[Callable[[], cd.Program], tuple[tuple[str, str], ...]]:
        """What its derivation depends on."""
        return self.build, self.steps


def woven(name: str, *axes: tuple[str, Sequence[str]]) -> Callable[[], cd.Program]:
    """An operator of the library, mapped over more axes of some inputs."""
    known = _WOVEN.get((name, axes))
    if known is None:

        def known() -> cd.Program:
            program = cd.library.get(name)
            for axis, inputs in axes:
                program = program.weave(axis, [n for n in inputs if n in program.names])
            return cd.Program(titled(program.diagram, name))

        _WOVEN[name, axes] = known
    return known


_WOVEN: dict[tuple[str, tuple[tuple[str, Sequence[str]], ...]], Callable[[], cd.Program]] = {}


def squared_relu() -> cd.Program:
    """An operator of a user's: weights are squares of what is positive in the scores, normalised by their sum."""

    @cd.algorithm("b h q d, b h x d, b h x d, -> b h q d", name="squared_relu_weights")
    def operator(Q: Any, K: Any, V: Any, eps: Any) -> Any:
        S = cd.maximum(cd.einsum("b h q d, b h x d -> b h q x", Q, K) / cd.sqrt(cd.size("d")), 0)
        W = S * S
        return cd.einsum("b h q x, b h x d -> b h q d", W, V) / (cd.sum(W, "x") + eps)

    return operator


def shape(n: int, d: int) -> dict[str, int]:
    """Sizes of attention of n tokens with head dimension d."""
    return {"b": TOKENS // n, "h": COLUMNS // d, "q": n, "x": n, "d": d}


STREAM = (("stream", "x"), ("group", "b h q"))
SKIP = (*STREAM, ("skip", "x"))
DISTRIBUTE = (("distribute", "d"),)
PLAIN, CAUSAL = woven("attention", *HEADS), woven("causal_attention", *HEADS)
SDPA = ("cuDNN", "FlashAttention-2")


def forward(n: int, d: int, causal: bool, flex: bool) -> Declared:
    """Attention, or causal attention, against PyTorch's own kernels."""
    name = f"{'causal' if causal else 'plain'}, d {d}, {n // 1024}k"
    peers = (*SDPA, *(["FlexAttention"] if flex else []))
    build, steps = (CAUSAL, SKIP) if causal else (PLAIN, STREAM)
    return Declared(name, FORWARD, build, shape(n, d), steps, peers=peers, compiled=False)


def grouped(n: int, causal: bool) -> Declared:
    """Grouped queries: 16 query heads, 4 of which share keys and values."""
    title = "causal_grouped_query_attention" if causal else "grouped_query_attention"
    sizes = {"b": TOKENS // n, "k": 4, "r": 4, "q": n, "x": n, "d": 128}
    steps = (("stream", "x"), ("group", "b k r q"), *([("skip", "x")] if causal else []))
    name = f"{'causal' if causal else 'plain'}, 16 heads on 4, d 128, {n // 1024}k"
    return Declared(name, FORWARD, woven(title), sizes, steps, peers=SDPA, compiled=False)


def variant(name: str, title: str, steps: tuple[tuple[str, str], ...], d: int = 128, **further: Any) -> Declared:
    """A variant at 8k tokens, against FlexAttention where it can say it, and the textbook form compiled."""
    axes = (("b", ("Q", "K", "V")),) if title.startswith("multi_head") else _all_heads(title)
    operator = woven(title, *axes)
    sizes = shape(8192, d) | ({"v": d} if title == "differential_attention" else {})
    return Declared(f"{name}, d {d}, 8k", VARIANTS, operator, sizes, steps, **further)


def _all_heads(title: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    arrays = ("Q", "K", "V", "R", "L")
    return ("h", arrays), ("b", arrays)


def decode(n: int) -> Declared:
    """One query in each of 32 heads, 4 of which share a cache of n keys, for 8 sequences."""
    sizes = {"b": 8, "k": 8, "r": 4, "x": n, "d": 128}
    steps = (("stream", "x"), ("group", "b k r"), ("split", "x"))
    name = f"32 heads on 8, d 128, {n // 1024}k keys"
    return Declared(
        name, DECODING, woven("decoding_attention"), sizes, steps, peers=(*SDPA, "FlexAttention"), compiled=False
    )


def layers() -> list[Declared]:
    """Layers of a model of width 4,096, at 8k tokens."""
    narrow = {"scale": 4096**-0.5}
    swiglu = {"G": narrow, "U": narrow, "W": {"scale": 14336**-0.5}}
    wide = {"t": 8192, "d": 4096, "f": 14336, "o": 4096}
    words = {"t": 8192, "d": 4096, "v": 128_256}
    norm = {"t": 8192, "d": 4096, "o": 4096}
    labels = {"label": {"below": 128_256}, "W": narrow}
    return [
        Declared("RMSNorm and linear, width 4,096", LAYERS, woven("rms_norm_linear"), norm,
                 scalars={"eps": 1e-5}, draws={"W": narrow}),
        Declared("cross-entropy of the last layer, 128,256 words", LAYERS, woven("linear_cross_entropy"), words,
                 draws=labels),
        Declared("SwiGLU, width 4,096 and 14,336", LAYERS, woven("gated_mlp"), wide, draws=swiglu),
    ]  # fmt: skip


def declared() -> list[Declared]:
    """All of it, what matters most first: a run that is out of time leaves out the end."""
    flex = ("FlexAttention",)
    first = [forward(8192, d, causal, flex=True) for d in (128, 64) for causal in (False, True)]
    variants = [
        variant("soft-capped", "soft_capped_attention", STREAM, scalars={"cap": 30.0}, peers=flex),
        variant("ALiBi, causal", "multi_head_alibi_attention", SKIP, draws={"slope": {"draw": "uniform", "scale": 0.5}},
                peers=flex),
        variant("window of 1,024", "sliding_window_attention", SKIP, scalars={"width": 1024}, peers=flex),
        variant("differential", "differential_attention", STREAM, scalars={"c": 0.3}, peers=flex),
        variant("weights of unit L2 norm", "spherical_attention", STREAM),
        variant("sigmoid", "sigmoid_attention", STREAM),
        variant("by distance, distributed", "distance_attention", DISTRIBUTE, scalars={"width": 8.0}, peers=flex,
                several=True),
        Declared("a user's own: squared relu, d 128, 8k", VARIANTS, squared_relu, shape(8192, 128), STREAM,
                 scalars={"eps": 1e-3}),
    ]  # fmt: skip
    lengths = [
        forward(n, d, causal, flex=False) for n in (2048, 4096, 16_384) for d in (128, 64) for causal in (False, True)
    ]
    return [
        *first,
        decode(8192),
        decode(65_536),
        *variants,
        *layers(),
        grouped(8192, False),
        grouped(8192, True),
        *lengths,
    ]
