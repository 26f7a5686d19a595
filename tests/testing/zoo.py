"""Kernels as people write them, in NumPy: right ones, and each of them with one classic mistake.

A kernel computes in float32 whatever it is given, and returns the type that it was given. `mistake` is the name of what
is wrong with it, "" for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import catdiag as cd

B = 8
"""The length of all blocks."""


def wide(*arrays: Any) -> list[Any]:
    return [a if a.dtype in (np.float32, np.float64) else a.astype(np.float32) for a in arrays]


Mask = Callable[[Any, Any], Any]


def online(Q: Any, K: Any, V: Any, mistake: str = "", mask: Mask | None = None, block: int = B) -> Any:
    """FlashAttention over blocks of keys, arrays of any leading axes; rows in which the mask keeps nothing give 0."""
    kind = Q.dtype
    Q, K, V = wide(Q, K, V)
    q, d, x = Q.shape[-2], Q.shape[-1], K.shape[-2]
    top = np.float32(0 if mistake == "maximum begins at 0" else -np.inf)
    lead = np.broadcast_shapes(Q.shape[:-2], K.shape[:-2])
    m = np.full((*lead, q), top, np.float32)
    length = np.zeros((*lead, q), np.float16 if mistake == "sum in float16" else np.float32)
    o = np.zeros((*lead, q, V.shape[-1]), np.float32)
    if mistake == "accumulator is never set":
        o = np.empty((*lead, q, V.shape[-1]), np.float32)
    for start in range(0, x - x % block if mistake == "last block dropped" else x, block):
        keys, values = K[..., start : start + block, :], V[..., start : start + block, :]
        S = Q @ np.swapaxes(keys, -1, -2)
        if mistake == "padding is not masked" and keys.shape[-2] < block:
            pad = [(0, 0)] * (S.ndim - 1) + [(0, block - keys.shape[-2])]
            S = np.pad(S, pad)
            values = np.pad(values, [(0, 0)] * (values.ndim - 2) + [(0, block - values.shape[-2]), (0, 0)])
        if mistake != "no 1/√d":
            S = S / np.float32(d if mistake == "1/d" else np.sqrt(d))
        if mask is not None:
            rows, columns = np.arange(q)[:, None], start + np.arange(S.shape[-1])
            shifted = {"mask off by one": -1, "mask strict": 1}.get(mistake, 0)
            keep = mask(rows, columns + shifted)
            low = np.float32(-1e4 if mistake == "mask is -1e4" else -np.inf)
            S = S + np.where(keep, 0, low) if mistake == "mask is -1e4" else np.where(keep, S, low)
        n = np.maximum(m, S.max(-1))
        safe = np.where(np.isneginf(n), 0, n).astype(np.float32)
        P = np.exp(S - safe[..., None])
        a = np.exp(m - safe)
        if mistake != "normaliser not rescaled":
            length = length * a
        total = P.sum(-1)
        length = (length + total).astype(np.float16 if mistake == "sum in float16" else np.float32)
        if mistake != "accumulator not rescaled":
            o = o * a[..., None]
        o = o + P @ values
        m = n
    if mistake == "not normalised":
        return o.astype(kind)
    return np.where(length[..., None] == 0, 0, o / length[..., None]).astype(kind)


def below(rows: Any, columns: Any) -> Any:
    """The causal mask."""
    return columns <= rows


def causal(Q: Any, K: Any, V: Any, mistake: str = "", block: int = B) -> Any:
    return online(Q, K, V, mistake, below, block)


def causal_grouped(Q: Any, K: Any, V: Any, mistake: str = "", block: int = B) -> Any:
    if mistake == "head h % k":
        b, k, r, q, d = Q.shape
        given = Q.reshape(b, r, k, q, d).swapaxes(1, 2)  # head h reads the keys of head h % k
        found = online(given, K[:, :, None], V[:, :, None], "", below, block)
        return np.ascontiguousarray(found.swapaxes(1, 2)).reshape(b, k, r, q, V.shape[-1])
    return online(Q, K[:, :, None], V[:, :, None], mistake, below, block)


def window(Q: Any, K: Any, V: Any, width: Any, mistake: str = "", block: int = B) -> Any:
    return online(Q, K, V, mistake, lambda q, x: (x <= q) & (q - x < width), block)


def documents(Q: Any, K: Any, V: Any, of_query: Any, of_key: Any, mistake: str = "", block: int = B) -> Any:
    x = len(K)

    def mask(rows: Any, columns: Any) -> Any:
        return (columns <= rows) & (of_query[rows] == of_key[np.clip(columns, 0, x - 1)])

    return online(Q, K, V, mistake, mask, block)


def attention(Q: Any, K: Any, V: Any, mistake: str = "") -> Any:
    if mistake == "result transposed":
        return np.ascontiguousarray(online(Q, K, V).T)
    if mistake == "keys and values swapped":
        return online(Q, V, K)
    if mistake == "result in another type":
        return online(Q, K, V).astype(np.float64)
    if mistake == "scales its queries in place":
        Q /= np.sqrt(Q.shape[-1]).astype(Q.dtype)
        return online(Q * np.sqrt(Q.shape[-1]).astype(Q.dtype), K, V)
    if mistake == "whole blocks of queries only":
        out = np.empty((Q.shape[0], V.shape[1]), Q.dtype)
        for start in range(0, Q.shape[0] - Q.shape[0] % B, B):
            out[start : start + B] = online(Q[start : start + B], K, V)
        return out
    return online(Q, K, V, mistake)


def plain_attention(Q: Any, K: Any, V: Any, mistake: str = "") -> Any:
    kind = Q.dtype
    Q, K, V = wide(Q, K, V)
    S = Q @ K.T / np.float32(np.sqrt(Q.shape[1]))
    P = np.exp(S if mistake == "no maximum subtracted" else S - S.max(-1, keepdims=True))
    if mistake == "softmax over the queries":
        P = np.exp(S - S.max(0, keepdims=True))
        return (P / P.sum(0, keepdims=True) @ V).astype(kind)
    P = P / P.sum(-1, keepdims=True)
    return (P.astype(kind).astype(np.float32) @ V).astype(kind)  # as tensor cores take it


def grouped(Q: Any, K: Any, V: Any, mistake: str = "") -> Any:
    """Query heads (k r) share the keys of head k."""
    k = len(K)
    heads = Q.shape[0]
    r = heads // k
    of = [h % k if mistake == "head h % k" else h // k if mistake == "head h // k" else h // r for h in range(heads)]
    of = [min(h, k - 1) for h in of]
    if mistake == "first head for all":
        of = [0] * heads
    return np.stack([online(Q[h], K[of[h]], V[of[h]]) for h in range(heads)])


@cd.algorithm("(k r) q d, k x d, k x d -> (k r) q d")
def grouped_heads(Q, K, V):
    heads = cd.rearrange(Q, "(k r) q d -> k r q d")
    S = cd.einsum("k r q d, k x d -> k r q x", heads, K) / cd.sqrt(cd.size("d"))
    O = cd.einsum("k r q x, k x d -> k r q d", cd.softmax(S, "x"), V)  # noqa: E741
    return cd.rearrange(O, "k r q d -> (k r) q d")


def softmax(S: Any, mistake: str = "") -> Any:
    kind = S.dtype
    (S,) = wide(S)
    if mistake == "over the other axis":
        return np.exp(S - S.max(0)) / np.exp(S - S.max(0)).sum(0)
    if mistake == "no maximum subtracted":
        return (np.exp(S) / np.exp(S).sum(-1, keepdims=True)).astype(kind)
    if mistake == "maximum of the whole array":
        e = np.exp(S - S.max())
        return (e / e.sum(-1, keepdims=True)).astype(kind)
    m = np.full(len(S), 0 if mistake == "maximum begins at 0" else -np.inf, np.float32)
    total = np.zeros(len(S), np.float16 if mistake == "sum in float16" else np.float32)
    x = S.shape[1]
    for start in range(0, x - x % B if mistake == "last block dropped" else x, B):
        block = S[:, start : start + B]
        n = np.maximum(m, block.max(-1))
        if mistake != "sum not rescaled":
            total = (total * np.exp(m - n)).astype(total.dtype)
        if mistake == "sum in float16":
            for column in np.exp(block - n[:, None]).T:
                total = (total + column).astype(np.float16)
        else:
            total = total + np.exp(block - n[:, None]).sum(-1)
        m = n
    return (np.exp(S - m[:, None]) / total[:, None].astype(np.float32)).astype(kind)


def layer_norm(X: Any, g: Any, b: Any, eps: Any, mistake: str = "") -> Any:
    kind = X.dtype
    X, g, b, eps = wide(X, g, b, eps)
    n = X.shape[1]
    used = X[:, : n - n % B] if mistake == "last block dropped" and n > B else X
    mu = used.mean(-1, keepdims=True)
    if mistake == "float16 mean":
        total = np.zeros(len(X), np.float16)
        for column in X.T:
            total = (total + column).astype(np.float16)
        mu = (total / np.float32(n))[:, None].astype(np.float32)
    c = X - mu
    count = n - 1 if mistake == "variance of a sample" else n
    var = (c * c).sum(-1, keepdims=True) / np.float32(max(count, 1))
    if mistake == "padding in the variance":
        full = -(-n // B) * B
        var = (np.square(np.pad(X, ((0, 0), (0, full - n))) - mu)).sum(-1, keepdims=True) / np.float32(n)
    if mistake == "no eps":
        eps = np.float32(0)
    root = np.sqrt(var) + eps if mistake == "eps outside of the root" else np.sqrt(var + eps)
    y = c / root * g
    return (y if mistake == "no bias" else y + b).astype(kind)


def rms_norm(X: Any, g: Any, eps: Any, mistake: str = "") -> Any:
    kind = X.dtype
    square = np.square(X) if mistake == "squares in float16" else np.square(wide(X)[0])
    X, g, eps = wide(X, g, eps)
    n = X.shape[1]
    total = square.sum(-1, keepdims=True, dtype=np.float32)
    if mistake == "sum in float16":
        acc = np.zeros(len(X), np.float16)
        for column in square.T:
            acc = (acc + column).astype(np.float16)
        total = acc[:, None].astype(np.float32)
    count = -(-n // B) * B if mistake == "divided by the padded size" else n
    if mistake == "no mean":
        count = 1
    if mistake == "eps times n":
        eps = eps * np.float32(n)
    return (X / np.sqrt(total / np.float32(count) + eps) * g).astype(kind)


def cross_entropy(Z: Any, label: Any, mistake: str = "") -> Any:
    kind = Z.dtype
    (Z,) = wide(Z)
    m = Z.max(-1, keepdims=True)
    if mistake == "no maximum subtracted":
        m = np.zeros_like(m)
    if mistake == "probability, then logarithm":
        p = np.exp(Z - m) / np.exp(Z - m).sum(-1, keepdims=True)
        return -np.log(p[np.arange(len(Z)), label]).astype(kind)
    v = Z.shape[1]
    used = Z[:, : v - v % B] if mistake == "last block dropped" and v > B else Z
    total = np.log(np.exp(used - m).sum(-1)) + m[:, 0]
    at = np.minimum(label + 1, v - 1) if mistake == "label off by one" else label
    lost = total - Z[np.arange(len(Z)), at]
    if mistake == "mean taken":
        lost = np.full_like(lost, lost.mean())
    return (-lost if mistake == "sign" else lost).astype(kind)


def matmul(A: Any, C: Any, mistake: str = "") -> Any:
    kind = A.dtype
    A, C = wide(A, C)
    a, b = A.shape
    c = C.shape[1]
    if mistake == "result transposed":
        return np.ascontiguousarray((A @ C).T).astype(kind)
    out = np.empty((a, c), np.float32)
    if mistake != "accumulator is never set":
        out[...] = 0
    last = b - b % B if mistake == "last block dropped" else b
    if mistake == "sum in float16":
        acc = np.zeros((a, c), np.float16)
        for k in range(b):
            acc = (acc + A[:, k, None] * C[k]).astype(np.float16)
        return acc.astype(kind)
    rows = a - a % B if mistake == "last rows dropped" and a > B else a
    for start in range(0, last, B):
        out[:rows] += A[:rows, start : start + B] @ C[start : start + B]
    if mistake == "block counted twice" and b > B:
        out += A[:, :B] @ C[:B]
    return out.astype(kind)


def conv1d(a: Any, w: Any, mistake: str = "") -> Any:
    kind = a.dtype
    a, w = wide(a, w)
    n, x, _ = a.shape
    k = w.shape[0]
    if mistake == "kernel reversed":
        w = w[::-1]
    y = x - k + 1
    if mistake == "one position short":
        y -= 1
    out = np.zeros((n, y, w.shape[2]), np.float32)
    for i in range(k - 1 if mistake == "last tap dropped" and k > 1 else k):
        shift = 1 if mistake == "read off by one" else 0
        part = a[:, np.minimum(np.arange(y) + i + shift, x - 1)]
        out += part @ w[i]
    if mistake == "same padding":
        pad = np.pad(a, ((0, 0), (k // 2, k - 1 - k // 2), (0, 0)))
        out = sum(pad[:, i : i + x] @ w[i] for i in range(k))
    return out.astype(kind)


@dataclass(frozen=True)
class Subject:
    """A kernel, the diagram that it is to implement, and mistakes, those in `half` tried in float16."""

    function: Callable[..., Any]
    diagram: cd.category.Diagram
    mistakes: tuple[str, ...]
    block: dict[str, int] = field(default_factory=dict)
    half: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def kernel(self, mistake: str = "") -> Callable[..., Any]:
        made = partial(self.function, mistake=mistake)
        made.__name__ = self.function.__name__  # type: ignore[attr-defined]
        return made

    def dtype(self, mistake: str) -> str:
        return "float16" if mistake in self.half else "float32"


get = cd.library.get
_ONLINE = (
    "last block dropped", "maximum begins at 0", "normaliser not rescaled", "accumulator not rescaled", "no 1/√d",
    "1/d", "not normalised", "padding is not masked", "accumulator is never set",
)  # fmt: skip
SUBJECTS = {
    "attention": Subject(
        attention, get("attention"),
        (*_ONLINE, "result transposed", "keys and values swapped", "result in another type",
         "scales its queries in place", "whole blocks of queries only", "sum in float16"),
        {"x": B, "q": B}, half=("sum in float16",),
    ),
    "plain attention": Subject(
        plain_attention, get("attention"), ("no maximum subtracted", "softmax over the queries")
    ),
    "causal": Subject(
        causal, get("causal_attention"),
        ("mask off by one", "mask strict", "mask is -1e4", *_ONLINE), {"x": B},
    ),
    "grouped heads": Subject(
        grouped, grouped_heads, ("head h % k", "head h // k", "first head for all"), {"x": B}
    ),
    "softmax": Subject(
        softmax, get("softmax"),
        ("over the other axis", "no maximum subtracted", "maximum of the whole array", "maximum begins at 0",
         "last block dropped", "sum not rescaled", "sum in float16"),
        {"x": B}, half=("sum in float16",),
    ),
    "layer norm": Subject(
        layer_norm, get("layer_norm"),
        ("last block dropped", "float16 mean", "variance of a sample", "padding in the variance", "no eps",
         "eps outside of the root", "no bias"),
        {"d": B}, half=("float16 mean",),
    ),
    "rms norm": Subject(
        rms_norm, get("rms_norm"),
        ("squares in float16", "sum in float16", "divided by the padded size", "no mean", "eps times n"),
        {"d": B}, half=("squares in float16", "sum in float16"),
    ),
    "cross entropy": Subject(
        cross_entropy, get("cross_entropy"),
        ("no maximum subtracted", "probability, then logarithm", "last block dropped", "label off by one", "mean taken",
         "sign"),
        {"v": B},
    ),
    "matmul": Subject(
        matmul, get("matmul"),
        ("result transposed", "accumulator is never set", "last block dropped", "sum in float16", "last rows dropped",
         "block counted twice"),
        {"b": B, "a": B}, half=("sum in float16",),
    ),
    "convolution": Subject(
        conv1d, get("conv1d"),
        ("kernel reversed", "one position short", "last tap dropped", "read off by one", "same padding"),
    ),
}  # fmt: skip
# Kernels whose blocks nobody is told of.
HIDDEN = {
    "attention": (online, get("attention"), ()),
    "causal": (causal, get("causal_attention"), ("mask off by one", "mask strict", "mask is -1e4")),
    "causal grouped": (
        causal_grouped, get("causal_grouped_query_attention"), ("mask off by one", "mask strict", "head h % k")
    ),
    "window": (window, get("sliding_window_attention"), ("mask off by one", "mask strict")),
    "documents": (documents, get("document_attention"), ("mask off by one", "mask strict")),
}  # fmt: skip
HIDDEN_MISTAKES = tuple(m for m in _ONLINE if m != "accumulator is never set")
