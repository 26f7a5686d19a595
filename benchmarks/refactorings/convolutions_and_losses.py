"""Convolutions, norms and losses that are folded, unrolled or written by hand, and a near miss of each."""

from __future__ import annotations

import math
from typing import Any

import torch

from benchmarks.refactorings.pairs import F, Function, Refactoring, positive, real, whole

INF = math.inf


# -- convolutions and norms ----------------------------------------------------------------------------------------


def normalized_convolution(x: Any, k: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
    return F.batch_norm(F.conv1d(x, k, padding=2, dilation=2), mean, var, w, b, eps=1e-3)


def one_dilated_convolution(eps: float) -> Function:
    def function(x: Any, k: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
        scale = w * torch.rsqrt(var + eps)
        return F.conv1d(x, k * scale.view(-1, 1, 1), b - mean * scale, padding=2, dilation=2)

    return function


def depthwise(x: Any, k: Any, c: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
    return F.relu6(F.batch_norm(F.conv2d(x, k, c, padding=1, groups=k.shape[0]), mean, var, w, b))


def depthwise_folded(scaled: bool) -> Function:
    def function(x: Any, k: Any, c: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
        scale = w / (var + 1e-5).sqrt()
        bias = (c * scale if scaled else c) + b - mean * scale
        return F.conv2d(x, k * scale[:, None, None, None], bias, padding=1, groups=x.shape[1]).clamp(0, 6)

    return function


def norm_before(x: Any, k: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
    return F.conv2d(F.batch_norm(x, mean, var, w, b), k)


def norm_before_folded(scaled: bool) -> Function:
    def function(x: Any, k: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
        root = (var + 1e-5).rsqrt()
        shift = b - mean * (w * root if scaled else root)
        return F.conv2d(x, k * (w * root)[None, :, None, None], (k * shift[None, :, None, None]).sum((1, 2, 3)))

    return function


def windows_and_a_product(reversed_taps: bool) -> Function:
    """im2col by views: windows as columns, and one product with the weights."""

    def function(x: Any, w: Any) -> Any:
        out, _, high, wide = w.shape
        seen = x.unfold(2, high, 1).unfold(3, wide, 1)
        taps = w.flip(2, 3) if reversed_taps else w
        return torch.einsum("nchwij,ocij->nohw", seen, taps.view(out, *w.shape[1:]))

    return function


def groups_by_einsum(swapped: bool) -> Function:
    def function(x: Any, w: Any) -> Any:
        batch, channels, length = x.shape
        seen = x.view(batch, 2, channels // 2, length).unfold(-1, w.shape[-1], 1)
        weights = w.view(2, -1, *w.shape[1:])
        return torch.einsum("bgclk,gock->bgol", seen, weights.flip(0) if swapped else weights).flatten(1, 2)

    return function


def reparametrized(x: Any, a: Any, b: Any) -> Any:
    """RepVGG's three branches."""
    return F.conv2d(x, a, padding=1) + F.conv2d(x, b[:, :, None, None]) + x


def one_kernel(identity: float) -> Function:
    def function(x: Any, a: Any, b: Any) -> Any:
        return F.conv2d(x, a + F.pad((b + identity * torch.eye(4))[:, :, None, None], (1, 1, 1, 1)), padding=1)

    return function


def excited(x: Any, a: Any, b: Any) -> Any:
    pooled = F.adaptive_avg_pool2d(x, 1)
    return x * torch.sigmoid(F.conv2d(F.relu(F.conv2d(pooled, a[:, :, None, None])), b[:, :, None, None]))


def normalized_by_views(groups: int, size: int) -> Function:
    def function(x: Any, w: Any, b: Any) -> Any:
        normal = F.layer_norm(x.unflatten(1, (groups, size)), (size, *x.shape[2:]), eps=1e-6).view_as(x)
        return normal * w.view(-1, 1, 1) + b.view(-1, 1, 1)

    return function


def folded_and_centered(all_of_it: bool) -> Function:
    """A layer norm folded into the projection after it, with the mean taken off behind the product."""

    def function(x: Any, g: Any, c: Any, w: Any, b: Any) -> Any:
        weights = w * g
        centered = x @ weights.t() - x.mean(-1, keepdim=True) * (weights if all_of_it else w).sum(1)
        return centered * torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5) + w @ c + b

    return function


def decomposed(x: Any, w: Any, m: Any, a: Any, b: Any) -> Any:
    """DoRA: magnitudes, and directions with an adapter."""
    v = w + b @ a
    return F.linear(x, m[:, None] * v / v.norm(dim=1, keepdim=True))


def decomposed_behind(adapted: bool) -> Function:
    def function(x: Any, w: Any, m: Any, a: Any, b: Any) -> Any:
        return (F.linear(x, w) + F.linear(F.linear(x, a), b)) * (m / (w + b @ a if adapted else w).norm(dim=1))

    return function


def by_hidden_chunks(count: int, factor: float) -> Function:
    def function(x: Any, up: Any, down: Any) -> Any:
        total = 0
        for a, b in zip(up.chunk(count, 0), down.chunk(count, 1), strict=True):
            total = total * factor + F.gelu(x @ a.t(), approximate="tanh") @ b.t()
        return total

    return function


def side_by_side(alternating: bool) -> Function:
    """A gate and what it gates by one weight whose rows alternate."""

    def function(x: Any, g: Any, u: Any) -> Any:
        y = F.linear(x, torch.stack([g, u], 1).flatten(0, 1))
        a, b = (y[..., ::2], y[..., 1::2]) if alternating else y.chunk(2, -1)
        return F.gelu(a) * b

    return function


IMAGE, NORM = real(2, 3, 6, 7), (real(4), positive(4), real(4), real(4))
CONVOLUTIONS: dict[str, Refactoring] = {
    "a batch norm folded into a dilated convolution": Refactoring(
        normalized_convolution, one_dilated_convolution(1e-3), one_dilated_convolution(1e-5),
        (real(2, 3, 11), real(4, 3, 3), *NORM), True),
    "a batch norm folded into a depthwise convolution": Refactoring(
        depthwise, depthwise_folded(True), depthwise_folded(False),
        (real(2, 4, 6, 7), real(4, 1, 3, 3), real(4), *NORM), True),
    "a batch norm before a convolution": Refactoring(
        norm_before, norm_before_folded(True), norm_before_folded(False),
        (IMAGE, real(5, 3, 3, 2), real(3), positive(3), real(3), real(3)), True),
    "a convolution by views of windows": Refactoring(
        F.conv2d, windows_and_a_product(False), windows_and_a_product(True), (IMAGE, real(5, 3, 3, 2)), True),
    "a convolution of groups by einsum": Refactoring(
        lambda x, w: F.conv1d(x, w, groups=2), groups_by_einsum(False), groups_by_einsum(True),
        (real(2, 6, 9), real(8, 3, 4)), True),
    "a convolution behind a convolution of one tap": Refactoring(
        lambda x, a, b: F.conv2d(F.conv2d(x, a), b[:, :, None, None]),
        lambda x, a, b: F.conv2d(x, torch.einsum("om,mikl->oikl", b, a)),
        lambda x, a, b: F.conv2d(x, torch.einsum("om,mikl->oilk", b, a)),
        (IMAGE, real(4, 3, 3, 3), real(5, 4)), True),
    "a transposed convolution as a convolution": Refactoring(
        lambda x, w: F.conv_transpose1d(x, w), lambda x, w: F.conv1d(F.pad(x, (2, 2)), w.flip(2).transpose(0, 1)),
        lambda x, w: F.conv1d(F.pad(x, (2, 2)), w.transpose(0, 1)), (real(2, 3, 7), real(3, 5, 3)), True),
    "the last step of a causal convolution": Refactoring(
        lambda x, w: F.conv1d(F.pad(x, (3, 0)), w, groups=5)[..., -1], lambda x, w: (x[..., -4:] * w[:, 0]).sum(-1),
        lambda x, w: (x[..., -4:] * w[:, 0].flip(-1)).sum(-1), (real(2, 5, 9), real(5, 1, 4))),
    "three branches as one kernel": Refactoring(
        reparametrized, one_kernel(1), one_kernel(0), (real(2, 4, 5, 6), real(4, 4, 3, 3), real(4, 4)), True),
    "squeezed and excited by convolutions": Refactoring(
        excited, lambda x, a, b: x * ((x.mean((2, 3)) @ a.T).relu() @ b.T).sigmoid()[..., None, None],
        lambda x, a, b: x * ((x.amax((2, 3)) @ a.T).relu() @ b.T).sigmoid()[..., None, None],
        (real(2, 6, 4, 5), real(3, 6), real(6, 3)), True),
    "shuffled channels": Refactoring(
        lambda x: F.channel_shuffle(x, 3),
        lambda x: x.view(x.shape[0], 3, -1, *x.shape[2:]).transpose(1, 2).flatten(1, 2),
        lambda x: x.view(x.shape[0], -1, 3, *x.shape[2:]).transpose(1, 2).flatten(1, 2), (real(2, 6, 4, 5),), True),
    "a group norm by a layer norm": Refactoring(
        lambda x, w, b: F.group_norm(x, 3, w, b, 1e-6), normalized_by_views(3, 2), normalized_by_views(2, 3),
        (real(2, 6, 4, 5), real(6), real(6)), True),
    "weights with a mean of 0": Refactoring(
        lambda x, k: F.conv2d(x, F.layer_norm(k, k.shape[1:])), lambda x, k: F.conv2d(
            x, (k - k.mean((1, 2, 3), True)) / (k.var((1, 2, 3), unbiased=False, keepdim=True) + 1e-5).sqrt()),
        lambda x, k: F.conv2d(x, (k - k.mean((1, 2, 3), True)) / (k.var((1, 2, 3), keepdim=True) + 1e-5).sqrt()),
        (IMAGE, real(4, 3, 3, 2)), True),
    "a layer norm behind its projection": Refactoring(
        lambda x, g, c, w, b: F.linear(F.layer_norm(x, (6,), g, c), w, b), folded_and_centered(True),
        folded_and_centered(False), (real(2, 5, 6), real(6), real(6), real(7, 6), real(7)), True),
    "a weight in magnitudes and directions": Refactoring(
        decomposed, decomposed_behind(True), decomposed_behind(False),
        (real(4, 6), real(7, 6), positive(7), real(2, 6), real(7, 2)), True),
    "a layer by parts of its hidden units": Refactoring(
        lambda x, u, d: F.gelu(x @ u.t(), approximate="tanh") @ d.t(), by_hidden_chunks(3, 1), by_hidden_chunks(3, 2),
        (real(2, 5, 6), real(9, 6), real(6, 9)), True),
    "a gate in alternating rows": Refactoring(
        lambda x, g, u: F.gelu(F.linear(x, g)) * F.linear(x, u), side_by_side(True), side_by_side(False),
        (real(2, 5, 6), real(8, 6), real(8, 6)), True),
    "a weight in uneven parts": Refactoring(
        lambda x, w: (lambda a, b: a.tanh() * b.sum(-1, keepdim=True))(*F.linear(x, w).split([3, 7], -1)),
        lambda x, w: F.linear(x, w[:3]).tanh() * F.linear(x, w[3:].sum(0, keepdim=True)),
        lambda x, w: F.linear(x, w[:3]).tanh() * F.linear(x, w[2:].sum(0, keepdim=True)),
        (real(2, 6), real(10, 6)), True),
}  # fmt: skip


# -- losses --------------------------------------------------------------------------------------------------------


def logs(z: Any) -> Any:
    return z.log_softmax(-1)


def by_logarithms(z: Any, t: Any) -> Any:
    p = z.sigmoid()
    return -(t * (1 - p) ** 2 * p.log() + (1 - t) * p**2 * (1 - p).log()).mean()


def by_softplus(sign: int) -> Function:
    def function(z: Any, t: Any) -> Any:
        of_ones = t * torch.sigmoid(sign * z) ** 2 * F.softplus(-z)
        return (of_ones + (1 - t) * z.sigmoid() ** 2 * F.softplus(z)).mean()

    return function


def matched(a: Any, b: Any) -> Any:
    z, y = a @ b.t() * 10, torch.arange(5)
    return (F.cross_entropy(z, y) + F.cross_entropy(z.t(), y)) / 2


def by_diagonals(other: int) -> Function:
    def function(a: Any, b: Any) -> Any:
        z = a @ b.t() * 10
        return (z.logsumexp(1) + z.logsumexp(other)).mean() / 2 - z.diagonal().mean()

    return function


def hinge(exact: bool) -> Function:
    def function(z: Any, y: Any) -> Any:
        margins = (1 + z - z.gather(1, y[:, None])).clamp(min=0).sum(1)
        return (margins - 1 if exact else margins).mean() / z.shape[1]

    return function


ROWS, CLASSES = real(5, 7), whole(7, 5)
LOSSES: dict[str, Refactoring] = {
    "weighted classes": Refactoring(
        lambda z, y, w: F.cross_entropy(z, y, w),
        lambda z, y, w: -(w[y] * logs(z).gather(1, y[:, None])[:, 0]).sum() / w[y].sum(),
        lambda z, y, w: -(w[y] * logs(z).gather(1, y[:, None])[:, 0]).mean(), (ROWS, CLASSES, positive(7)), True),
    "a class that is ignored": Refactoring(
        lambda z, y: F.cross_entropy(z, y, ignore_index=0),
        lambda z, y: (F.cross_entropy(z, y, reduction="none") * (y != 0)).sum() / (y != 0).sum(),
        lambda z, y: (F.cross_entropy(z, y, reduction="none") * (y != 0)).mean(),
        (ROWS, torch.tensor([1, 0, 3, 6, 2])), True),
    "targets that are probabilities": Refactoring(
        lambda z, t: F.cross_entropy(z, t), lambda z, t: -(t * logs(z)).sum() / z.shape[0],
        lambda z, t: -(t * logs(z)).mean(), (ROWS, positive(5, 7)), True),
    "the next token": Refactoring(
        lambda z, y: F.cross_entropy(z[:, :-1].reshape(-1, 7), y[:, 1:].reshape(-1)),
        lambda z, y: -logs(z)[:, :-1].gather(-1, y[:, 1:, None]).mean(),
        lambda z, y: -logs(z)[:, 1:].gather(-1, y[:, 1:, None]).mean(), (real(2, 5, 7), whole(7, 2, 5)), True),
    "a loss of logits and their sum": Refactoring(
        lambda z, y: F.cross_entropy(z, y, reduction="sum"),
        lambda z, y: (z.logsumexp(1) - z.gather(1, y[:, None]).squeeze(1)).sum(),
        lambda z, y: (z.logsumexp(1) - z.gather(1, y[:, None]).squeeze(1)).mean(), (ROWS, CLASSES), True),
    "positive examples weighted": Refactoring(
        lambda z, t, w: F.binary_cross_entropy_with_logits(z, t, pos_weight=w),
        lambda z, t, w: -(w * t * F.logsigmoid(z) + (1 - t) * F.logsigmoid(-z)).mean(),
        lambda z, t, w: -(w * (t * F.logsigmoid(z) + (1 - t) * F.logsigmoid(-z))).mean(),
        (real(5, 3), positive(5, 3), positive(3)), True),
    "a divergence of logits": Refactoring(
        lambda a, b: F.kl_div(logs(a), logs(b), log_target=True, reduction="batchmean"),
        lambda a, b: ((b.softmax(-1) * (b - a)).sum(-1) - b.logsumexp(-1) + a.logsumexp(-1)).mean(),
        lambda a, b: ((a.softmax(-1) * (a - b)).sum(-1) - a.logsumexp(-1) + b.logsumexp(-1)).mean(),
        (ROWS, real(5, 7)), True),
    "a divergence of normal distributions": Refactoring(
        lambda m, s: -0.5 * (1 + s - m.pow(2) - s.exp()).sum(-1).mean(),
        lambda m, s: 0.5 * ((s.exp() + m * m).sum(-1) - m.shape[-1] - s.sum(-1)).mean(),
        lambda m, s: 0.5 * ((s.exp() + m * m).sum(-1) - 1 - s.sum(-1)).mean(), (real(5, 3), real(5, 3))),
    "distillation": Refactoring(
        lambda s, t: F.kl_div(logs(s / 2), (t / 2).softmax(-1), reduction="sum") * 4,
        lambda s, t: ((t / 2).softmax(-1) * (logs(t / 2) - logs(s / 2))).sum() * 4,
        lambda s, t: ((t / 2).softmax(-1) * (logs(t / 2) - logs(s / 2))).sum() * 2, (ROWS, real(5, 7)), True),
    "an entropy": Refactoring(
        lambda z: -(z.softmax(-1) * logs(z)).sum(-1), lambda z: z.logsumexp(-1) - (z.softmax(-1) * z).sum(-1),
        lambda z: z.logsumexp(-1) - z.mean(-1), (ROWS,), True),
    "a focal loss by softplus": Refactoring(
        by_logarithms, by_softplus(-1), by_softplus(1), (real(5, 3), positive(5, 3)), True),
    "both sides of a contrastive loss": Refactoring(
        matched, by_diagonals(0), by_diagonals(1), (real(5, 4), real(5, 4)), True),
    "triplets": Refactoring(
        F.triplet_margin_loss,
        lambda a, p, n: (((a - p + 1e-6) ** 2).sum(-1).sqrt() - ((a - n + 1e-6) ** 2).sum(-1).sqrt() + 1).relu().mean(),
        lambda a, p, n: (((a - n + 1e-6) ** 2).sum(-1).sqrt() - ((a - p + 1e-6) ** 2).sum(-1).sqrt() + 1).relu().mean(),
        (real(5, 4), real(5, 4), real(5, 4)), True),
    "margins of classes": Refactoring(F.multi_margin_loss, hinge(True), hinge(False), (real(5, 4), whole(4, 5)), True),
    "a smooth loss": Refactoring(
        lambda a, b: F.smooth_l1_loss(a, b, beta=0.5),
        lambda a, b: (lambda d: torch.where(d < 0.5, d * d, d - 0.25).mean())((a - b).abs()),
        lambda a, b: F.huber_loss(a, b, delta=0.5), (real(5, 4), real(5, 4)), True),
    "a Gaussian kernel": Refactoring(
        lambda x, y: torch.exp(-0.5 * torch.cdist(x, y) ** 2),
        lambda x, y: torch.exp(x @ y.t() - 0.5 * x.square().sum(1)[:, None] - 0.5 * y.square().sum(1)),
        lambda x, y: torch.exp(x @ y.t() - x.square().sum(1)[:, None] - 0.5 * y.square().sum(1)),
        (real(5, 4), real(6, 4)), True),
    "the nearest code": Refactoring(
        lambda x, c: torch.cdist(x, c).argmin(-1), lambda x, c: (x @ c.t() - 0.5 * c.square().sum(-1)).argmax(-1),
        lambda x, c: (x @ c.t() - c.square().sum(-1)).argmax(-1), (real(5, 4), real(6, 4)), True),
}  # fmt: skip

ALL = {**CONVOLUTIONS, **LOSSES}
