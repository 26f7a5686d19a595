"""Layers whose gradients are checked and timed, as their authors write them; `quick` is the form of one who knows
PyTorch's fused operators. Each has sizes that people use, and small ones."""
# mypy: ignore-errors
# ruff: noqa: E501

from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def normal(*shape, scale=1.0):
    return scale * torch.randn(*shape)


def flex(q, k, v, score=None, mask=None, **options):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    block = mask and create_block_mask(mask, None, None, q.shape[-2], k.shape[-2], device=q.device)
    return flex_attention(q, k, v, score_mod=score, block_mask=block, **options)


def cudnn(q, k, v, **options):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
        return F.scaled_dot_product_attention(q, k, v, **options)


def places(q, k):
    rows = torch.arange(q.shape[-2], device=q.device)[:, None]
    return rows, torch.arange(k.shape[-2], device=q.device)[None, :]


def scores(q, k):
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


class Causal(nn.Module):
    def forward(s, q, k, v):
        i, j = places(q, k)
        return torch.softmax(scores(q, k).masked_fill(j > i, -torch.inf), -1) @ v

    def quick(s, q, k, v):
        return cudnn(q, k, v, is_causal=True)


class Grouped(nn.Module):
    def forward(s, q, k, v):
        k, v = (a.repeat_interleave(q.shape[1] // a.shape[1], 1) for a in (k, v))
        i, j = places(q, k)
        return torch.softmax(scores(q, k).masked_fill(j > i, -torch.inf), -1) @ v

    def quick(s, q, k, v):
        return cudnn(q, k, v, is_causal=True, enable_gqa=True)


class Window(nn.Module):
    def __init__(s, width):
        super().__init__()
        s.width = width

    def forward(s, q, k, v):
        i, j = places(q, k)
        hidden = (j > i) | (i - j >= s.width)
        return torch.softmax(scores(q, k).masked_fill(hidden, -torch.inf), -1) @ v

    def quick(s, q, k, v):
        return flex(q, k, v, mask=lambda b, h, i, j: (j <= i) & (i - j < s.width))


class SoftCap(nn.Module):
    def forward(s, q, k, v):
        return torch.softmax(30 * torch.tanh(scores(q, k) / 30), -1) @ v

    def quick(s, q, k, v):
        return flex(q, k, v, lambda score, b, h, i, j: 30 * torch.tanh(score / 30))


class Alibi(nn.Module):
    def __init__(s, heads):
        super().__init__()
        s.register_buffer("slope", 2.0 ** (-8 * torch.arange(1, heads + 1) / heads))

    def forward(s, q, k, v):
        i, j = places(q, k)
        biased = scores(q, k) + s.slope[:, None, None] * (j - i)
        return torch.softmax(biased.masked_fill(j > i, -torch.inf), -1) @ v

    def quick(s, q, k, v):
        slope = s.slope
        return flex(q, k, v, lambda score, b, h, i, j: score + slope[h] * (j - i), lambda b, h, i, j: j <= i)


class Sink(nn.Module):
    def __init__(s, heads):
        super().__init__()
        s.sink = nn.Parameter(normal(heads))

    def forward(s, q, k, v):
        i, j = places(q, k)
        rows = scores(q, k).masked_fill(j > i, -torch.inf)
        sink = s.sink[None, :, None, None].expand(*rows.shape[:3], 1)
        return torch.softmax(torch.cat([rows, sink], -1), -1)[..., :-1] @ v

    def quick(s, q, k, v):
        out, lse = flex(q, k, v, mask=lambda b, h, i, j: j <= i, return_lse=True)
        return (out * torch.sigmoid(lse - s.sink[None, :, None])[..., None]).to(q.dtype)


class Biased(nn.Module):
    """T5's attention: a bias of its own for each head, shared by the batch."""

    def __init__(s, heads, n):
        super().__init__()
        s.bias = nn.Parameter(normal(heads, n, n))

    def forward(s, q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) + s.bias, -1) @ v

    def quick(s, q, k, v):
        bias = s.bias.expand(q.shape[0], -1, -1, -1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)


class Buckets(nn.Module):
    """A bias by distance, from a learned table."""

    def __init__(s, heads, reach):
        super().__init__()
        s.reach, s.table = reach, nn.Embedding(2 * reach + 1, heads)

    def forward(s, q, k, v):
        i, j = places(q, k)
        bias = s.table((j - i).clamp(-s.reach, s.reach) + s.reach).permute(2, 0, 1)
        return torch.softmax(scores(q, k) + bias, -1) @ v


class Documents(nn.Module):
    def forward(s, q, k, v, document):
        i, j = places(q, k)
        seen = (document[:, None, :, None] == document[:, None, None, :]) & (j <= i)
        return torch.softmax(scores(q, k).masked_fill(~seen, -torch.inf), -1) @ v


class Crossed(nn.Module):
    def forward(s, q, k, v):
        return torch.softmax(scores(q, k), -1) @ v

    def quick(s, q, k, v):
        return cudnn(q, k, v)


class RMSNorm(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.g = nn.Parameter(1 + normal(d, scale=0.1))

    def forward(s, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * s.g

    def quick(s, x):
        return F.rms_norm(x, x.shape[-1:], s.g, 1e-6)


class AddNorm(nn.Module):
    """A residual and a LayerNorm, both results are used."""

    def __init__(s, d):
        super().__init__()
        s.n = nn.LayerNorm(d)

    def forward(s, x, r):
        x = x + r
        return x, s.n(x)


class Groups(nn.Module):
    def __init__(s, c, groups):
        super().__init__()
        s.n = nn.GroupNorm(groups, c)

    def forward(s, x):
        return F.silu(s.n(x))


class Gated(nn.Module):
    def __init__(s, d, f, activation):
        super().__init__()
        s.gate, s.up, s.down = (nn.Linear(a, b, bias=False) for a, b in ((d, f), (d, f), (f, d)))
        s.activation = activation

    def forward(s, x):
        return s.down(s.activation(s.gate(x)) * s.up(x))


class HeadLoss(nn.Module):
    def __init__(s, d, words):
        super().__init__()
        s.head = nn.Linear(d, words, bias=False)

    def forward(s, x, label):
        return F.cross_entropy(s.head(x), label)


class Smoothed(nn.Module):
    def forward(s, logits, label):
        return F.cross_entropy(logits, label, label_smoothing=0.1)


class Contrast(nn.Module):
    """CLIP's loss, both ways, with a learned temperature."""

    def __init__(s):
        super().__init__()
        s.t = nn.Parameter(torch.tensor(2.6))

    def forward(s, a, b):
        a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
        logits, label = s.t.exp() * a @ b.T, torch.arange(a.shape[0], device=a.device)
        return (F.cross_entropy(logits, label) + F.cross_entropy(logits.T, label)) / 2


class QKNorm(nn.Module):
    """Queries and keys normalised by RMS, then rotated, as in Qwen3."""

    def __init__(s, d):
        super().__init__()
        s.gq, s.gk = (nn.Parameter(1 + normal(d, scale=0.1)) for _ in range(2))

    def rotated(s, x, g, cos, sin):
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * g
        one, two = x.chunk(2, -1)
        return x * cos + torch.cat([-two, one], -1) * sin

    def forward(s, q, k, v, cos, sin):
        q, k = s.rotated(q, s.gq, cos, sin), s.rotated(k, s.gk, cos, sin)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def quick(s, q, k, v, cos, sin):
        q, k = s.rotated(q, s.gq, cos, sin), s.rotated(k, s.gk, cos, sin)
        return cudnn(q, k, v, is_causal=True)


class LinearAttention(nn.Module):
    def forward(s, q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state, z = k.transpose(-1, -2) @ v, k.sum(-2)
        return (q @ state) / (q * z[..., None, :]).sum(-1, keepdim=True)


class Experts(nn.Module):
    """Tokens sorted by expert, of equal numbers, weighted and put back."""

    def __init__(s, experts, d, f):
        super().__init__()
        s.up, s.down = (nn.Parameter(normal(experts, *a, scale=a[0] ** -0.5)) for a in ((d, f), (f, d)))

    def forward(s, x, order, weight):
        h = F.silu(torch.bmm(x[order], s.up))
        return torch.bmm(h, s.down) * weight[..., None]


class ShortConvolution(nn.Module):
    """The causal depthwise convolution of Mamba."""

    def __init__(s, d):
        super().__init__()
        s.c = nn.Conv1d(d, d, 4, groups=d, padding=3)

    def forward(s, x):
        return F.silu(s.c(x.transpose(1, 2))[..., : x.shape[1]]).transpose(1, 2)


class Embedded(nn.Module):
    def __init__(s, words, d, n):
        super().__init__()
        s.words, s.positions, s.n = nn.Embedding(words, d), nn.Embedding(n, d), nn.LayerNorm(d)

    def forward(s, ids):
        return s.n(s.words(ids) + s.positions.weight)


class Decay(nn.Module):
    """Retention with decays of each position: masks by cumulative sums, as in Mamba-2."""

    def forward(s, q, k, v, a):
        c = F.logsigmoid(a).cumsum(-1)
        i, j = places(q, k)
        gap = c[..., :, None] - c[..., None, :]
        return ((q @ k.transpose(-1, -2)) * torch.exp(gap.masked_fill(j > i, -torch.inf))) @ v


class Averages(nn.Module):
    """The mean of all rows up to each, gated."""

    def forward(s, x, g):
        n = torch.arange(1, x.shape[1] + 1, device=x.device)
        return torch.sigmoid(g) * x.cumsum(1) / n[:, None]


class Lora(nn.Module):
    def __init__(s, d, o, r):
        super().__init__()
        s.w = nn.Linear(d, o, bias=False).requires_grad_(False)
        s.a, s.b = nn.Linear(d, r, bias=False), nn.Linear(r, o, bias=False)

    def forward(s, x):
        return s.w(x) + 2 * s.b(s.a(x))


class Block(nn.Module):
    """A small block of a transformer: norms with gains, rotary grouped attention, gated units."""

    def __init__(s, d, heads, shared, f):
        super().__init__()
        s.h, s.k, s.d = heads, shared, d // heads
        s.n1, s.n2 = RMSNorm(d), RMSNorm(d)
        s.q, s.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        s.kv, s.mlp = nn.Linear(d, 2 * shared * s.d, bias=False), Gated(d, f, F.silu)

    def heads(s, x, n):
        return x.reshape(*x.shape[:2], n, s.d).transpose(1, 2)

    def forward(s, x, cos, sin):
        y = s.n1(x)
        q, (k, v) = s.heads(s.q(y), s.h), (s.heads(a, s.k) for a in s.kv(y).chunk(2, -1))
        q, k = (a * cos + torch.cat([-a[..., s.d // 2 :], a[..., : s.d // 2]], -1) * sin for a in (q, k))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + s.o(found.transpose(1, 2).reshape(x.shape))
        return x + s.mlp(s.n2(x))


def heads(b, h, n, d, shared=0, x=0):
    return normal(b, h, n, d), *(normal(b, shared or h, x or n, d) for _ in range(2))


def angles(n, d):
    phase = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    return tuple(torch.cat([a, a], -1) for a in (phase.cos(), phase.sin()))


def documents(b, n, most):
    return torch.sort(torch.randint(0, most, (b, n)), 1).values


# fmt: off
SIZES = {
    "causal": (lambda **s: (Causal(), heads(**s)), {"b": 2, "h": 8, "n": 2048, "d": 128}),
    "causal_64": (lambda **s: (Causal(), heads(**s)), {"b": 2, "h": 16, "n": 2000, "d": 64}),
    "grouped": (lambda **s: (Grouped(), heads(**s)), {"b": 2, "h": 8, "n": 2048, "d": 64, "shared": 2}),
    "window": (lambda width, **s: (Window(width), heads(**s)), {"b": 2, "h": 8, "n": 4096, "d": 128, "width": 512}),
    "soft_cap": (lambda **s: (SoftCap(), heads(**s)), {"b": 2, "h": 8, "n": 2048, "d": 128}),
    "alibi": (lambda **s: (Alibi(s["h"]), heads(**s)), {"b": 2, "h": 8, "n": 2048, "d": 64}),
    "sink": (lambda **s: (Sink(s["h"]), heads(**s)), {"b": 2, "h": 8, "n": 2048, "d": 64}),
    "biased": (lambda **s: (Biased(s["h"], s["n"]), heads(**s)), {"b": 4, "h": 8, "n": 1024, "d": 64}),
    "buckets": (lambda reach, **s: (Buckets(s["h"], reach), heads(**s)), {"b": 2, "h": 8, "n": 1024, "d": 64, "reach": 128}),
    "documents": (lambda most, **s: (Documents(), (*heads(**s), documents(s["b"], s["n"], most))), {"b": 2, "h": 8, "n": 2048, "d": 128, "most": 8}),
    "crossed": (lambda **s: (Crossed(), heads(**s)), {"b": 2, "h": 16, "n": 1000, "x": 1500, "d": 96}),
    "rms_norm": (lambda t, d: (RMSNorm(d), (normal(t, d),)), {"t": 8192, "d": 4096}),
    "add_norm": (lambda t, d: (AddNorm(d), (normal(t, d), normal(t, d))), {"t": 8192, "d": 2048}),
    "group_norm": (lambda b, c, n, groups: (Groups(c, groups), (normal(b, c, n, n),)), {"b": 8, "c": 256, "n": 32, "groups": 32}),
    "swiglu": (lambda t, d, f: (Gated(d, f, F.silu), (normal(t, d),)), {"t": 4096, "d": 2048, "f": 5632}),
    "geglu": (lambda t, d, f: (Gated(d, f, F.gelu), (normal(t, d),)), {"t": 4096, "d": 1024, "f": 4096}),
    "head_loss": (lambda t, d, v: (HeadLoss(d, v), (normal(t, d), torch.randint(v, (t,)))), {"t": 4096, "d": 2048, "v": 32000}),
    "smoothed": (lambda t, v: (Smoothed(), (normal(t, v), torch.randint(v, (t,)))), {"t": 4096, "v": 32000}),
    "contrast": (lambda t, d: (Contrast(), (normal(t, d), normal(t, d))), {"t": 4096, "d": 512}),
    "qk_norm": (lambda **s: (QKNorm(s["d"]), (*heads(**s), *angles(s["n"], s["d"]))), {"b": 2, "h": 8, "n": 2048, "d": 128}),
    "linear": (lambda **s: (LinearAttention(), heads(**s)), {"b": 2, "h": 16, "n": 4096, "d": 64}),
    "experts": (lambda t, e, c, d, f: (Experts(e, d, f), (normal(t, d), torch.randint(t, (e, c)), torch.rand(e, c))), {"t": 4096, "e": 8, "c": 1024, "d": 1024, "f": 2048}),
    "short_conv": (lambda b, t, d: (ShortConvolution(d), (normal(b, t, d),)), {"b": 4, "t": 2048, "d": 2048}),
    "embedded": (lambda b, t, d, v: (Embedded(v, d, t), (torch.randint(v, (b, t)),)), {"b": 8, "t": 512, "d": 768, "v": 30522}),
    "decay": (lambda **s: (Decay(), (*heads(**s), normal(s["b"], s["h"], s["n"]) + 4)), {"b": 2, "h": 8, "n": 2048, "d": 64}),
    "averages": (lambda b, t, d: (Averages(), (normal(b, t, d), normal(b, t, d))), {"b": 8, "t": 1024, "d": 1024}),
    "lora": (lambda t, d, o, r: (Lora(d, o, r), (normal(t, d),)), {"t": 4096, "d": 4096, "o": 4096, "r": 16}),
    "block": (lambda b, n, d, h, shared, f: (Block(d, h, shared, f), (normal(b, n, d), *angles(n, d // h))), {"b": 2, "n": 1024, "d": 1024, "h": 16, "shared": 4, "f": 2816}),
}
"""Each layer, with its sizes."""
SMALL = {"b": 2, "h": 4, "n": 7, "x": 9, "d": 8, "t": 6, "v": 11, "f": 10, "o": 5, "r": 2, "e": 3, "c": 6, "groups": 3, "most": 2, "width": 3, "reach": 2, "shared": 2}
SMALL_OF = {"block": {"d": 16}}
# fmt: on
LAYERS = {name: lambda made=made, sizes=sizes: made(**sizes) for name, (made, sizes) in SIZES.items()}
"""Each layer, with example inputs."""


def small(name):
    """A layer at sizes that are quick in float64."""
    made, sizes = SIZES[name]
    return made(**{key: {**SMALL, **SMALL_OF.get(name, {})}[key] for key in sizes})
