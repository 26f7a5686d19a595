"""Layers of pairs of residues, as models of proteins have them, and products whose rows are not along the last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Made = tuple[nn.Module, tuple[Any, ...]]


class TriangleUpdate(nn.Module):
    """The multiplicative update of edges by triangles, with gates."""

    def __init__(self, pair: int, hidden: int) -> None:
        super().__init__()
        self.norm, self.norm_out = nn.LayerNorm(pair), nn.LayerNorm(hidden)
        self.left, self.left_gate = nn.Linear(pair, hidden), nn.Linear(pair, hidden)
        self.right, self.right_gate = nn.Linear(pair, hidden), nn.Linear(pair, hidden)
        self.out, self.gate = nn.Linear(hidden, pair), nn.Linear(pair, pair)

    def forward(self, z: Tensor) -> Tensor:
        """Of edges [b, i, j, pair]."""
        x = self.norm(z)
        a = torch.sigmoid(self.left_gate(x)) * self.left(x)
        b = torch.sigmoid(self.right_gate(x)) * self.right(x)
        made = torch.einsum("bikc,bjkc->bijc", a, b)
        return z + torch.sigmoid(self.gate(x)) * self.out(self.norm_out(made))


class OuterProductMean(nn.Module):
    """The mean over sequences of outer products of their residues, projected."""

    def __init__(self, features: int, hidden: int, pair: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.left, self.right = nn.Linear(features, hidden), nn.Linear(features, hidden)
        self.out = nn.Linear(hidden * hidden, pair)

    def forward(self, m: Tensor) -> Tensor:
        """Of sequences [s, i, features]."""
        x = self.norm(m)
        a, b = self.left(x), self.right(x)
        outer = torch.einsum("sic,sje->ijce", a, b) / m.shape[0]
        return self.out(outer.flatten(-2))


class TriangleAttention(nn.Module):
    """Attention along the rows of edges, with a bias of the third edge."""

    def __init__(self, pair: int, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.norm, self.bias = nn.LayerNorm(pair), nn.Linear(pair, heads, bias=False)
        self.qkv, self.gate = nn.Linear(pair, 3 * heads * width, bias=False), nn.Linear(pair, heads * width)
        self.out = nn.Linear(heads * width, pair)

    def forward(self, z: Tensor) -> Tensor:
        """Of edges [i, j, pair]."""
        x = self.norm(z)
        i, j, _ = x.shape
        q, k, v = self.qkv(x).view(i, j, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        bias = self.bias(x).permute(2, 0, 1)
        scores = q @ k.transpose(-1, -2) * self.width**-0.5 + bias
        made = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(i, j, -1)
        return z + self.out(torch.sigmoid(self.gate(x)) * made)


class Einsum(nn.Module):
    """A product."""

    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation

    def forward(self, *factors: Tensor) -> Tensor:
        """Of its factors."""
        return torch.einsum(self.equation, *factors)


class ImageAttention(nn.Module):
    """Attention between pixels, channels first (a diffusion model's)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Of images [n, channels, height, width]."""
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3, c, h * w).unbind(1)
        weights = torch.softmax(torch.einsum("ncq,ncx->nqx", q, k) * c**-0.5, -1)
        return x + self.out(torch.einsum("nqx,ncx->ncq", weights, v).reshape(n, c, h, w))


def _einsum(equation: str, *shapes: tuple[int, ...]) -> Callable[[], Made]:
    return lambda: (Einsum(equation), tuple(torch.randn(shape) for shape in shapes))


LAYERS: dict[str, Callable[[], Made]] = {
    "triangle": lambda: (TriangleUpdate(128, 128), (torch.randn(1, 256, 256, 128),)),
    "outer_mean": lambda: (OuterProductMean(256, 32, 128), (torch.randn(128, 256, 256),)),
    "triangle_attention": lambda: (TriangleAttention(128, 4, 32), (torch.randn(256, 256, 128),)),
    "image_attention": lambda: (ImageAttention(512), (torch.randn(2, 512, 32, 32),)),
    "batch_last": _einsum("ikc,jkc->ijc", (512, 512, 128), (512, 512, 128)),
    "outer_products": _einsum("sic,sje->icje", (128, 256, 32), (128, 256, 32)),
    "bilinear_forms": _einsum("bi,bij,bj->b", (4096, 256), (4096, 256, 256), (4096, 256)),
    "covariance": _einsum("ti,tj->ij", (2**20, 64), (2**20, 64)),
    "heads_last": _einsum("bqdh,bxdh->bhqx", (4, 512, 64, 16), (4, 512, 64, 16)),
    "mixed_channels": _einsum("nchw,oc->nohw", (8, 256, 56, 56), (256, 256)),
}
