"""Refactorings of PyTorch functions: what authors of models write, the same written otherwise, and a near miss.

Each entry is a function, an equal one, one that a reader could take for equal, and the arguments of a call. No length
occurs twice in a call unless it has to, so that what is one length by chance is not taken for one. Modules are written
as functions of their weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

F = torch.nn.functional
Function = Callable[..., Any]
GENERATOR = torch.Generator().manual_seed(7)


@dataclass(frozen=True)
class Refactoring:
    """A function, one that is equal and one that is not, on the arguments of a call; `slow` ones take seconds."""

    before: Function
    after: Function
    near_miss: Function
    example: tuple[Any, ...]
    slow: bool = False


def real(*shape: int) -> Any:
    return torch.randn(shape, generator=GENERATOR)


def positive(*shape: int) -> Any:
    return torch.rand(shape, generator=GENERATOR) + 0.5


def whole(high: int, *shape: int) -> Any:
    return torch.randint(0, high, shape, generator=GENERATOR)


def heads(a: Any, count: int) -> Any:
    return a.unflatten(-1, (count, -1)).transpose(1, 2)


def joined(a: Any) -> Any:
    return a.transpose(1, 2).flatten(2)


attend = F.scaled_dot_product_attention


# -- attention ------------------------------------------------------------------------------------------


def separate(x: Any, q: Any, k: Any, v: Any) -> Any:
    return joined(attend(*(heads(x @ w.t(), 2) for w in (q, k, v)), is_causal=True))


def fused(order: tuple[int, int, int]) -> Function:
    """One projection to queries, keys and values, in some order."""

    def function(x: Any, q: Any, k: Any, v: Any) -> Any:
        parts = F.linear(x, torch.cat([(q, k, v)[n] for n in order])).chunk(3, -1)
        return joined(attend(*(heads(parts[order.index(n)], 2) for n in range(3)), is_causal=True))

    return function


def chunked_wrong(x: Any, q: Any, k: Any, v: Any) -> Any:
    """Queries, keys and values are taken as if each head had its three side by side."""
    parts = F.linear(x, torch.cat([q, k, v])).unflatten(-1, (2, 3, -1)).unbind(-2)
    return joined(attend(*(a.transpose(1, 2) for a in parts), is_causal=True))


def by_hand(scale: Callable[[Any, Any], float], offset: int = 0) -> Function:
    def function(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.mT * scale(q, v)
        seen = torch.arange(k.shape[-2]) <= torch.arange(q.shape[-2])[:, None] + offset
        return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v

    return function


def grouped(repeat: Function) -> Function:
    return lambda q, k, v: attend(q, repeat(k), repeat(v))


def grouped_by_einsum(q: Any, k: Any, v: Any) -> Any:
    split = q.unflatten(1, (k.shape[1], -1))
    scores = torch.einsum("bkrqd,bkxd->bkrqx", split, k) / q.shape[-1] ** 0.5
    return torch.einsum("bkrqx,bkxd->bkrqd", scores.softmax(-1), v).flatten(1, 2)


def latent(x: Any, c: Any, q: Any, uk: Any, uv: Any) -> Any:
    """Latent attention: keys and values are made of a latent."""
    queries = torch.einsum("btm,hdm->bhtd", x, q)
    keys, values = (torch.einsum("bsc,hdc->bhsd", c, w) for w in (uk, uv))
    return (queries @ keys.mT).softmax(-1) @ values


def absorbed(with_values: bool) -> Function:
    """The projection of keys is applied to the queries, that of values to the result."""

    def function(x: Any, c: Any, q: Any, uk: Any, uv: Any) -> Any:
        queries = torch.einsum("btm,hdm,hdc->bhtc", x, q, uk)
        weights = torch.einsum("bhtc,bsc->bhts", queries, c).softmax(-1)
        mixed = torch.einsum("bhts,bsc->bhtc", weights, c)
        return torch.einsum("bhtc,hdc->bhtd", mixed, uv if with_values else uk)

    return function


def with_bias(bias: Callable[[Any, Any], Any]) -> Function:
    """A bias by positions (ALiBi): slopes of the heads times a distance, under a causal mask."""

    def function(q: Any, k: Any, v: Any, slopes: Any) -> Any:
        at, to = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
        scores = q @ k.mT + slopes[:, None, None] * bias(at, to)
        return scores.masked_fill(to > at, -torch.inf).softmax(-1) @ v

    return function


def linear_attention(q: Any, k: Any, v: Any) -> Any:
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return (q @ k.mT) @ v / (q @ k.mT).sum(-1, keepdim=True)


def reassociated(normalized: bool) -> Function:
    def function(q: Any, k: Any, v: Any) -> Any:
        q, k = F.elu(q) + 1, F.elu(k) + 1
        total = (q @ k.sum(-2).unsqueeze(-1)) if normalized else q.sum(-1, keepdim=True)
        return q @ (k.mT @ v) / total

    return function


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def rotated_half(sign: int) -> Function:
    def function(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.chunk(2, -1)
        turned = torch.cat([-b, a], -1) if sign > 0 else torch.cat([b, -a], -1)
        return x * torch.cat([cos, cos], -1) + turned * torch.cat([sin, sin], -1)

    return function


def rotated_pairs(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def rotated_complex(conjugate: bool) -> Function:
    def function(x: Any, cos: Any, sin: Any) -> Any:
        turn = torch.complex(cos, -sin if conjugate else sin)
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turn).flatten(-2)

    return function


QKV = real(2, 3, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 6)
PROJECTIONS = real(2, 5, 9), real(12, 9), real(12, 9), real(12, 9)
GROUPS = real(2, 6, 5, 4), real(2, 2, 7, 4), real(2, 2, 7, 3)
LATENT = real(2, 5, 9), real(2, 7, 3), real(4, 6, 9), real(4, 6, 3), real(4, 6, 3)
ROTATION = real(2, 5, 8), real(5, 4), real(5, 4)
ATTENTION: dict[str, Refactoring] = {
    "fused projections": Refactoring(separate, fused((0, 1, 2)), chunked_wrong, PROJECTIONS, True),
    "fused projections in another order": Refactoring(
        separate, fused((2, 0, 1)), lambda x, q, k, v: separate(x, k, q, v), PROJECTIONS, True),
    "attention by hand": Refactoring(
        lambda q, k, v: attend(q, k, v, is_causal=True), by_hand(lambda q, v: q.shape[-1] ** -0.5),
        by_hand(lambda q, v: v.shape[-1] ** -0.5), QKV),
    "a causal mask behind a cache": Refactoring(
        by_hand(lambda q, v: 0.3, 2),
        lambda q, k, v: attend(q, k, v, torch.ones(5, 7, dtype=torch.bool).tril(2), scale=0.3),
        lambda q, k, v: attend(q, k, v, is_causal=True, scale=0.3), QKV),
    "grouped queries, repeated": Refactoring(
        lambda q, k, v: attend(q, k, v, enable_gqa=True), grouped(lambda a: a.repeat_interleave(3, 1)),
        grouped(lambda a: a.repeat(1, 3, 1, 1)), GROUPS),
    "grouped queries by einsum": Refactoring(
        grouped(lambda a: a[:, :, None].expand(-1, -1, 3, -1, -1).flatten(1, 2)), grouped_by_einsum,
        lambda q, k, v: grouped_by_einsum(q, k, v).unflatten(1, (2, 3)).transpose(1, 2).flatten(1, 2), GROUPS, True),
    "scale merged into the queries": Refactoring(
        lambda x, w, k: (x @ w.t()) @ k.mT * 0.25, lambda x, w, k: x @ (w * 0.25).t() @ k.mT,
        lambda x, w, k: x @ (w * 0.5).t() @ k.mT, (real(2, 5, 9), real(4, 9), real(2, 7, 4))),
    "latent attention absorbed": Refactoring(latent, absorbed(True), absorbed(False), LATENT, True),
    "a bias by distance": Refactoring(
        with_bias(lambda at, to: to - at), with_bias(lambda at, to: to), with_bias(lambda at, to: (to - at).abs()),
        (real(2, 3, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 6), positive(3)), True),
    "linear attention": Refactoring(linear_attention, reassociated(True), reassociated(False), QKV, True),
    "a rotated half": Refactoring(rotated, rotated_half(1), rotated_half(-1), ROTATION),
    "a rotation of pairs": Refactoring(rotated_pairs, rotated_complex(False), rotated_complex(True), ROTATION),
    "scores capped before the mask": Refactoring(
        lambda s: (30 * torch.tanh(s / 30)).masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf).softmax(-1),
        lambda s: torch.where(torch.ones_like(s).tril().bool(), 30 * (s / 30).tanh(), -torch.inf).softmax(-1),
        lambda s: s.masked_fill(torch.ones_like(s).triu(1).bool(), -torch.inf).softmax(-1), (real(2, 5, 7),)),
    "a mask that is added": Refactoring(
        lambda s, m: s.masked_fill(~m, -torch.inf).softmax(-1),
        lambda s, m: (s + torch.zeros(s.shape).masked_fill(~m, -torch.inf)).softmax(-1),
        lambda s, m: (s + m.float()).softmax(-1), (real(5, 7), real(5, 7) > -1)),
    "a mask multiplied, and normalized again": Refactoring(
        lambda s, m: s.masked_fill(~m, -torch.inf).softmax(-1),
        lambda s, m: (s.softmax(-1) * m) / (s.softmax(-1) * m).sum(-1, keepdim=True),
        lambda s, m: s.softmax(-1) * m, (real(5, 7), real(5, 7) > -1)),
}  # fmt: skip


# -- norms ----------------------------------------------------------------------------------------------


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def projected(x: Any, w: Any, b: Any, p: Any, c: Any) -> Any:
    return F.linear(layer_norm(x, w, b), p, c)


def folded(bias: bool) -> Function:
    def function(x: Any, w: Any, b: Any, p: Any, c: Any) -> Any:
        return F.linear(F.layer_norm(x, (x.shape[-1],)), p * w, p @ b + c if bias else b.sum() + c)

    return function


def rms(x: Any, w: Any, outside: bool = False) -> Any:
    square = x.pow(2).mean(-1, keepdim=True)
    return w * x / (square.sqrt() + 1e-6 if outside else (square + 1e-6).sqrt())


def batch_norm(x: Any, p: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
    return F.batch_norm(F.linear(x, p), mean, var, w, b)


def batch_norm_folded(root: bool) -> Function:
    def function(x: Any, p: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
        scale = w * torch.rsqrt(var + 1e-5) if root else w / (var.sqrt() + 1e-5)
        return F.linear(x, p * scale[:, None], b - mean * scale)

    return function


def group_norm(count: int) -> Function:
    def function(x: Any) -> Any:
        grouped = x.unflatten(1, (count, -1)).flatten(2)
        var, mean = torch.var_mean(grouped, -1, correction=0, keepdim=True)
        return ((grouped - mean) / (var + 1e-5).sqrt()).view(x.shape)

    return function


def weight_norm(x: Any, g: Any, v: Any) -> Any:
    return F.linear(x, g * v / v.norm(dim=1, keepdim=True))


NORMED = real(2, 5, 9), real(9), real(9), real(4, 9), real(4)
NORMS: dict[str, Refactoring] = {
    "a layer norm folded into a projection": Refactoring(projected, folded(True), folded(False), NORMED, True),
    "a root mean square": Refactoring(
        lambda x, w: F.rms_norm(x, (9,), w, 1e-6), rms, lambda x, w: rms(x, w, True), (real(2, 5, 9), real(9))),
    "a root mean square by a norm": Refactoring(
        lambda x: x / x.pow(2).mean(-1, keepdim=True).sqrt(),
        lambda x: x * x.shape[-1] ** 0.5 / x.norm(dim=-1, keepdim=True),
        lambda x: x / x.norm(dim=-1, keepdim=True), (real(2, 5, 9),)),
    "a batch norm folded into a projection": Refactoring(
        batch_norm, batch_norm_folded(True), batch_norm_folded(False),
        (real(5, 9), real(4, 9), real(4), positive(4), real(4), real(4))),
    "a group norm by reshapes": Refactoring(lambda x: F.group_norm(x, 2), group_norm(2), group_norm(3),
        (real(2, 6, 5),)),
    "a weight norm folded": Refactoring(
        weight_norm, lambda x, g, v: F.linear(x, v) * (g / v.norm(dim=1, keepdim=True)).squeeze(-1),
        lambda x, g, v: F.linear(x, v) * (g.squeeze(-1) / v.norm()), (real(5, 9), real(4, 1), real(4, 9))),
    "a variance by moments": Refactoring(
        lambda x: x.var(-1, correction=0), lambda x: (x * x).mean(-1) - x.mean(-1) ** 2,
        lambda x: ((x * x).sum(-1) - x.sum(-1) ** 2) / x.shape[-1], (real(5, 9),)),
    "unit length": Refactoring(
        lambda x: F.normalize(x, dim=-1), lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-12),
        lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-12), (real(5, 9),)),
    "cosine similarity": Refactoring(
        lambda a, b: F.cosine_similarity(a, b, -1, 0.0),
        lambda a, b: (F.normalize(a, dim=-1, eps=0) * F.normalize(b, dim=-1, eps=0)).sum(-1),
        lambda a, b: (a * b).sum(-1) / (a * a + b * b).sum(-1), (positive(5, 9), positive(5, 9))),
    "a gain of one plus a weight": Refactoring(
        lambda x, w: F.rms_norm(x, (9,)) * (1 + w), lambda x, w: F.rms_norm(x, (9,)) + F.rms_norm(x, (9,), w),
        lambda x, w: F.rms_norm(x + x * w, (9,)), (real(5, 9), real(9))),
}  # fmt: skip


# -- layers ---------------------------------------------------------------------------------------------


def gated(x: Any, gate: Any, up: Any, down: Any) -> Any:
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def gate_and_up(swapped: bool) -> Function:
    def function(x: Any, gate: Any, up: Any, down: Any) -> Any:
        a, b = F.linear(x, torch.cat([gate, up])).chunk(2, -1)
        return F.linear(a * F.silu(b) if swapped else F.silu(a) * b, down)

    return function


def adapted(x: Any, w: Any, up: Any, down: Any) -> Any:
    return F.linear(x, w) + 2.0 * F.linear(F.linear(x, down), up)


def dense_experts(x: Any, weights: Any, w: Any) -> Any:
    return torch.einsum("te,ted->td", weights, torch.einsum("tm,edm->ted", x, w))


def looped_experts(last: int) -> Function:
    def function(x: Any, weights: Any, w: Any) -> Any:
        total = torch.zeros(x.shape[0], w.shape[1])
        for e in range(w.shape[0] - last):
            total = total + weights[:, e, None] * F.linear(x, w[e])
        return total

    return function


def pooled(count: Function) -> Function:
    return lambda x, m: (x * m[..., None]).sum(1) / count(m)


LAYERS: dict[str, Refactoring] = {
    "gate and up fused": Refactoring(
        gated, gate_and_up(False), gate_and_up(True), (real(5, 9), real(4, 9), real(4, 9), real(7, 4)), True),
    "an adapter merged": Refactoring(
        adapted, lambda x, w, up, down: F.linear(x, w + 2.0 * up @ down),
        lambda x, w, up, down: F.linear(x, w + up @ down),
        (real(5, 9), real(4, 9), real(4, 2), real(2, 9))),
    "a parallel block": Refactoring(
        lambda x, a, b: x + F.linear(F.relu(x), a) + F.linear(F.relu(x), b),
        lambda x, a, b: x + F.linear(F.relu(x), a + b),
        lambda x, a, b: x + F.linear(F.relu(x + F.linear(F.relu(x), a)), b), (real(5, 9), real(9, 9), real(9, 9))),
    "experts in a loop": Refactoring(
        dense_experts, looped_experts(0), looped_experts(1), (real(5, 9), positive(5, 3), real(3, 4, 9))),
    "a mean of what is not masked": Refactoring(
        pooled(lambda m: m.sum(1, keepdim=True)),
        lambda x, m: torch.einsum("btd,bt->bd", x, m / m.sum(1, keepdim=True)),
        pooled(lambda m: m.shape[1]), (real(2, 5, 9), positive(2, 5))),
    "a softmax with a temperature": Refactoring(
        lambda x: (x / 0.7).softmax(-1), lambda x: (x / 0.7 - (x / 0.7).logsumexp(-1, keepdim=True)).exp(),
        lambda x: x.softmax(-1) ** (1 / 0.7), (real(5, 9),)),
    "rows of a table by products": Refactoring(
        lambda i, t: F.embedding(i, t), lambda i, t: F.one_hot(i, 5).float() @ t,
        lambda i, t: F.one_hot(4 - i, 5).float() @ t, (whole(5, 2, 3), real(5, 9))),
    "a running sum by a product": Refactoring(
        lambda x: x.cumsum(1), lambda x: torch.ones(x.shape[1], x.shape[1]).tril() @ x,
        lambda x: torch.ones(x.shape[1], x.shape[1]).tril(-1) @ x, (real(2, 5, 9),)),
    "a running sum backwards": Refactoring(
        lambda x: x.flip(-1).cumsum(-1).flip(-1), lambda x: x + x.sum(-1, keepdim=True) - x.cumsum(-1),
        lambda x: x.sum(-1, keepdim=True) - x.cumsum(-1), (real(5, 9),)),
    "a bias by a column of ones": Refactoring(
        lambda x, w, b: F.linear(x, w, b),
        lambda x, w, b: torch.cat([x, torch.ones(x.shape[0], 1)], 1) @ torch.cat([w, b[:, None]], 1).t(),
        lambda x, w, b: torch.cat([torch.ones(x.shape[0], 1), x], 1) @ torch.cat([w, b[:, None]], 1).t(),
        (real(5, 9), real(4, 9), real(4))),
    "the exact GELU": Refactoring(
        F.gelu, lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)), lambda x: F.gelu(x, approximate="tanh"),
        (real(5, 9),)),
    "a sigmoid by tanh": Refactoring(
        torch.sigmoid, lambda x: 0.5 * (1 + torch.tanh(0.5 * x)), lambda x: 0.5 * (1 + torch.tanh(x)), (real(5, 9),)),
    "half rounded down": Refactoring(
        lambda a: a // 2, lambda a: torch.floor(a / 2).long(), lambda a: torch.round(a / 2).long(), (whole(9, 5),)),
}  # fmt: skip


# -- losses ---------------------------------------------------------------------------------------------


LOSSES: dict[str, Refactoring] = {
    "cross-entropy by a log-softmax": Refactoring(
        F.cross_entropy, lambda x, y: F.nll_loss(x.log_softmax(-1), y),
        lambda x, y: F.nll_loss(x.log_softmax(0), y), (real(5, 9), whole(9, 5))),
    "cross-entropy by a gather": Refactoring(
        F.cross_entropy, lambda x, y: (x.logsumexp(-1) - x.gather(1, y[:, None])[:, 0]).mean(),
        lambda x, y: (x.logsumexp(-1) - x.gather(1, y[:, None])[:, 0]).sum(), (real(5, 9), whole(9, 5))),
    "a divergence": Refactoring(
        lambda p, q: F.kl_div(p.log_softmax(-1), q.softmax(-1), reduction="batchmean"),
        lambda p, q: (q.softmax(-1) * (q.log_softmax(-1) - p.log_softmax(-1))).sum() / p.shape[0],
        lambda p, q: (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum() / p.shape[0],
        (real(5, 9), real(5, 9))),
    "a binary cross-entropy": Refactoring(
        lambda x, t: F.binary_cross_entropy_with_logits(x, t),
        lambda x, t: (F.softplus(x, threshold=1e9) - x * t).mean(),
        lambda x, t: (F.softplus(-x, threshold=1e9) - x * t).mean(), (real(5), positive(5) - 0.5)),
    "squared distances by products": Refactoring(
        lambda a, b: ((a[:, None] - b) ** 2).sum(-1),
        lambda a, b: (a * a).sum(-1)[:, None] + (b * b).sum(-1) - 2 * a @ b.t(),
        lambda a, b: (a * a).sum(-1)[:, None] + (b * b).sum(-1) - a @ b.t(), (real(5, 9), real(4, 9))),
    "Huber's loss": Refactoring(
        F.huber_loss, lambda a, b: torch.where((a - b).abs() < 1, 0.5 * (a - b) ** 2, (a - b).abs() - 0.5).mean(),
        lambda a, b: torch.where((a - b).abs() < 1, (a - b) ** 2, (a - b).abs() - 0.5).mean(),
        (real(5, 9), real(5, 9))),
}  # fmt: skip


# -- images ---------------------------------------------------------------------------------------------


def by_patches(rows_first: bool) -> Function:
    def function(x: Any, w: Any) -> Any:
        patches = x.unflatten(2, (-1, 2)).unflatten(4, (-1, 3))
        order = (0, 2, 4, 1, 3, 5) if rows_first else (0, 2, 4, 1, 5, 3)
        return F.linear(patches.permute(order).flatten(3), w.flatten(1)).permute(0, 3, 1, 2)

    return function


def by_shifts(first: int) -> Function:
    """A causal depthwise convolution as a sum of shifted arrays."""

    def function(x: Any, w: Any) -> Any:
        padded = F.pad(x, (2, 0))
        return sum(padded[..., k : k + x.shape[-1]] * w[:, 0, k - first, None] for k in range(3))

    return function


IMAGES: dict[str, Refactoring] = {
    "patches by a product": Refactoring(
        lambda x, w: F.conv2d(x, w, stride=(2, 3)), by_patches(True), by_patches(False),
        (real(2, 5, 8, 9), real(4, 5, 2, 3))),
    "a convolution by unfolding": Refactoring(
        lambda x, w: F.conv2d(x, w).flatten(2), lambda x, w: w.flatten(1) @ F.unfold(x, 3),
        lambda x, w: w.mT.flatten(1) @ F.unfold(x, 3), (real(2, 5, 7, 8), real(4, 5, 3, 3)), True),
    "a convolution by shifts": Refactoring(
        lambda x, w: F.conv1d(F.pad(x, (2, 0)), w, groups=4), by_shifts(0), by_shifts(1),
        (real(2, 4, 9), real(4, 1, 3))),
    "a convolution of one tap": Refactoring(
        lambda x, w: F.conv2d(x, w[:, :, None, None]), lambda x, w: torch.einsum("bchw,oc->bohw", x, w),
        lambda x, w: torch.einsum("bchw,co->bohw", x, w), (real(2, 4, 5, 7), real(4, 4))),
    "the largest of two": Refactoring(
        lambda x: F.max_pool1d(x, 2), lambda x: torch.maximum(x[..., ::2], x[..., 1::2]),
        lambda x: torch.maximum(x, x.flip(-1))[..., ::2], (real(2, 3, 10),)),
    "the largest by unfolding": Refactoring(
        lambda x: F.max_pool1d(x, 3, 2), lambda x: x.unfold(-1, 3, 2).amax(-1),
        lambda x: x.unfold(-1, 3, 2)[..., 0], (real(2, 3, 11),)),
    "a mean over an image": Refactoring(
        lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), lambda x: x.mean((2, 3)), lambda x: x.sum((2, 3)),
        (real(2, 3, 5, 7),)),
    "neighbors that repeat": Refactoring(
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), lambda x: x.repeat_interleave(2, -1),
        lambda x: x.repeat(1, 1, 2), (real(2, 3, 5),)),
}  # fmt: skip

ALL = {**ATTENTION, **NORMS, **LAYERS, **LOSSES, **IMAGES}
