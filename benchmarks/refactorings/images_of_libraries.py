"""Layers of images as several libraries write them, the same written otherwise, and a near miss of each."""

from __future__ import annotations

from typing import Any

import einops
import torch

from benchmarks.refactorings.pairs import F, Function, Refactoring, real


def windows(x: Any) -> Any:
    """Swin's windows, its sums in each, and the image of these."""
    b, h, w, c = x.shape
    parts = x.view(b, h // 2, 2, w // 3, 3, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 6, c)
    parts = parts.softmax(1)
    return parts.view(b, h // 2, w // 3, 2, 3, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)


def windows_by_einops(pattern: str) -> Function:
    def function(x: Any) -> Any:
        parts = einops.rearrange(x, "b (h p) (w q) c -> (b h w) (p q) c", p=2, q=3).softmax(1)
        return einops.rearrange(parts, pattern, h=x.shape[1] // 2, w=x.shape[2] // 3, p=2)

    return function


def merged_patches(x: Any, w: Any) -> Any:
    """Swin's merging of four neighbors."""
    parts = x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]
    return F.linear(torch.cat(parts, -1), w)


def merged_by_reshape(columns_first: bool) -> Function:
    def function(x: Any, w: Any) -> Any:
        pattern = "b (h p) (w q) c -> b h w (q p c)" if columns_first else "b (h p) (w q) c -> b h w (p q c)"
        return F.linear(einops.rearrange(x, pattern, p=2, q=2), w)

    return function


def unfolded(x: Any, w: Any, b: Any) -> Any:
    """A convolution as a product, with padding and a stride."""
    columns = F.unfold(x, 3, padding=1, stride=2)
    return (w.flatten(1) @ columns + b[:, None]).unflatten(-1, (3, 4))


def transposed_by_product(flipped: bool) -> Function:
    """A transposed convolution without overlaps: a product, whose results are put beside each other."""

    def function(x: Any, w: Any) -> Any:
        w = w.flip(-1) if flipped else w
        return torch.einsum("bchw,copq->bohpwq", x, w).flatten(4).flatten(2, 3)

    return function


def excited(x: Any, a: Any, b: Any) -> Any:
    """Channels weighed by their means."""
    gates = F.linear(F.linear(F.adaptive_avg_pool2d(x, 1).flatten(1), a).relu(), b)
    return x * gates.sigmoid()[..., None, None]


def excited_by_convolutions(gate: Function) -> Function:
    def function(x: Any, a: Any, b: Any) -> Any:
        hidden = F.relu(F.conv2d(x.mean((2, 3), keepdim=True), a[..., None, None]))
        return x * gate(F.conv2d(hidden, b[..., None, None]))

    return function


def shuffled(pattern: str) -> Function:
    return lambda x: einops.rearrange(x, pattern, p=2, q=2)


IMAGES: dict[str, Refactoring] = {
    "windows by einops": Refactoring(
        windows, windows_by_einops("(b h w) (p q) c -> b (h p) (w q) c"),
        windows_by_einops("(b h w) (q p) c -> b (h p) (w q) c"), (real(2, 4, 9, 5),)),
    "merged patches": Refactoring(
        merged_patches, merged_by_reshape(True), merged_by_reshape(False), (real(2, 6, 10, 3), real(5, 12)), True),
    "shuffled pixels": Refactoring(
        lambda x: F.pixel_shuffle(x, 2), shuffled("b (c p q) h w -> b c (h p) (w q)"),
        shuffled("b (p q c) h w -> b c (h p) (w q)"), (real(2, 12, 5, 7),)),
    "a padded convolution by unfolding": Refactoring(
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), unfolded,
        lambda x, w, b: unfolded(x, w.mT, b), (real(2, 2, 5, 7), real(4, 2, 3, 3), real(4)), True),
    "a transposed convolution without overlaps": Refactoring(
        lambda x, w: F.conv_transpose2d(x, w, stride=2), transposed_by_product(False), transposed_by_product(True),
        (real(2, 3, 5, 7), real(3, 4, 2, 2)), True),
    "a mean by a convolution": Refactoring(
        lambda x: F.avg_pool2d(x, 2), lambda x: F.conv2d(x, torch.full((3, 1, 2, 2), 0.25), stride=2, groups=3),
        lambda x: F.conv2d(x, torch.full((3, 1, 2, 2), 0.5), stride=2, groups=3), (real(2, 3, 4, 10),)),
    "a depthwise and a pointwise convolution": Refactoring(
        lambda x, d, p: F.conv1d(F.conv1d(x, d, padding=1, groups=3), p),
        lambda x, d, p: F.conv1d(x, torch.einsum("oc,ck->ock", p[..., 0], d[:, 0]), padding=1),
        lambda x, d, p: F.conv1d(x, torch.einsum("oc,ck->ock", p[..., 0], d[:, 0].flip(-1)), padding=1),
        (real(2, 3, 7), real(3, 1, 3), real(4, 3, 1))),
    "a convolution behind a mean": Refactoring(
        lambda x, w: F.conv2d(x, w).mean((2, 3)), lambda x, w: F.linear(x.mean((2, 3)), w[:, :, 0, 0]),
        lambda x, w: F.linear(x.sum((2, 3)), w[:, :, 0, 0]), (real(2, 3, 5, 7), real(4, 3, 1, 1))),
    "squeezed and excited": Refactoring(
        excited, excited_by_convolutions(torch.sigmoid), excited_by_convolutions(torch.tanh),
        (real(2, 3, 5, 7), real(4, 3), real(3, 4))),
    "positions by sines": Refactoring(
        lambda t, f: torch.cat([torch.cos(t[:, None] * f), torch.sin(t[:, None] * f)], -1),
        lambda t, f: torch.cat([torch.cos(-t[:, None] * f), -torch.sin(-t[:, None] * f)], -1),
        lambda t, f: torch.cat([torch.sin(t[:, None] * f), torch.cos(t[:, None] * f)], -1), (real(5), real(4))),
}  # fmt: skip

ALL = IMAGES
