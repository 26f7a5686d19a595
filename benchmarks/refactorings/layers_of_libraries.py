"""Layers and losses as several libraries write them, the same written otherwise, and a near miss of each."""

from __future__ import annotations

import math
from typing import Any

import torch

from benchmarks.refactorings.pairs import F, Function, Refactoring, positive, real, whole

INF = math.inf


# -- projections and norms -----------------------------------------------------------------------------------------


def tied(tokens: Any, table: Any, w: Any) -> Any:
    """One table for words and for logits."""
    return F.linear(torch.tanh(F.linear(F.embedding(tokens, table), w)), table)


def tied_by_product(scale: float) -> Function:
    def function(tokens: Any, table: Any, w: Any) -> Any:
        one_hot = F.one_hot(tokens, table.shape[0]).to(table.dtype)
        return torch.einsum("btm,vm->btv", (one_hot @ table @ w.t()).tanh(), table) * scale

    return function


def low_rank(scaled: bool) -> Function:
    """Weights into which an adapter is merged, as peft does, with its scale or without."""

    def function(x: Any, w: Any, b: Any, down: Any, up: Any) -> Any:
        return F.linear(x, w + up @ down * (16 / 4 if scaled else 1), b)

    return function


def channels_first(x: Any, w: Any, b: Any) -> Any:
    """ConvNeXt's norm over the channels of an image."""
    mean = x.mean(1, keepdim=True)
    square = (x - mean).pow(2).mean(1, keepdim=True)
    return w[:, None, None] * ((x - mean) / torch.sqrt(square + 1e-6)) + b[:, None, None]


def group_norm_by_hand(inside: bool) -> Function:
    """Diffusion models' norm of groups, with a gain for each channel."""

    def function(x: Any, w: Any, b: Any) -> Any:
        grouped = x.reshape(x.shape[0], 2, -1)
        square = grouped.var(-1, unbiased=False, keepdim=True)
        root = torch.sqrt(square + 1e-5) if inside else torch.sqrt(square) + 0.01
        return ((grouped - grouped.mean(-1, keepdim=True)) / root).view(x.shape) * w[:, None, None] + b[:, None, None]

    return function


def convolution_and_norm(x: Any, k: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
    return F.batch_norm(F.conv2d(x, k, padding=1), mean, var, w, b, eps=1e-5)


def convolution_folded(shifted: bool) -> Function:
    def function(x: Any, k: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
        scale = w / torch.sqrt(var + 1e-5)
        return F.conv2d(x, k * scale[:, None, None, None], b - mean * scale if shifted else b - mean, padding=1)

    return function


def modulated(x: Any, c: Any, w: Any, b: Any) -> Any:
    """DiT's norm, whose shift and scale come from a condition."""
    shift, scale = F.linear(F.silu(c), w, b).chunk(2, 1)
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def modulated_apart(first: int) -> Function:
    def function(x: Any, c: Any, w: Any, b: Any) -> Any:
        m = x.shape[-1]
        parts = [F.linear(F.silu(c), w[k * m : k * m + m], b[k * m : k * m + m])[:, None] for k in range(2)]
        normal = F.layer_norm(x, x.shape[-1:], eps=1e-6)
        return normal + normal * parts[1 - first] + parts[first]

    return function


def gemma_norm(x: Any, w: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + w)


def low_rank_product(x: Any, a: Any, b: Any, c: Any) -> Any:
    return torch.einsum("nijk,ir,jr,kr->nr", x, a, b, c)


PROJECTIONS: dict[str, Refactoring] = {
    "one table for words and logits": Refactoring(
        tied, tied_by_product(1), tied_by_product(0.5), (whole(7, 2, 5), real(7, 9), real(9, 9))),
    "a scaled adapter, merged": Refactoring(
        lambda x, w, b, down, up: F.linear(x, w, b) + F.linear(F.linear(x, down), up) * (16 / 4),
        low_rank(True), low_rank(False), (real(2, 5, 9), real(7, 9), real(7), real(4, 9), real(7, 4))),
    "a norm of channels": Refactoring(
        channels_first, lambda x, w, b: F.layer_norm(x.permute(0, 2, 3, 1), (4,), w, b, 1e-6).permute(0, 3, 1, 2),
        lambda x, w, b: F.group_norm(x, 1, w, b, 1e-6), (real(2, 4, 5, 7), real(4), real(4))),
    "a group norm with gains": Refactoring(
        lambda x, w, b: F.group_norm(x, 2, w, b), group_norm_by_hand(True), group_norm_by_hand(False),
        (real(3, 6, 5, 7), real(6), real(6)), True),
    "a batch norm folded into a convolution": Refactoring(
        convolution_and_norm, convolution_folded(True), convolution_folded(False),
        (real(2, 3, 5, 7), real(4, 3, 3, 3), real(4), positive(4), real(4), real(4)), True),
    "a norm with a condition": Refactoring(
        modulated, modulated_apart(0), modulated_apart(1), (real(2, 5, 7), real(2, 9), real(14, 9), real(14))),
    "Gemma's norm": Refactoring(
        gemma_norm, lambda x, w: F.rms_norm(x, x.shape[-1:], 1 + w, 1e-6),
        lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
        (real(2, 5, 9), real(9))),
    "a residual scaled once": Refactoring(
        lambda x, w: (x + F.linear(x, w)) * 0.5 + x, lambda x, w: F.linear(x, torch.eye(9) * 1.5 + w * 0.5),
        lambda x, w: F.linear(x, torch.eye(9) + w * 0.5), (real(5, 9), real(9, 9))),
    "a bilinear form": Refactoring(
        lambda a, b, w: F.bilinear(a, b, w), lambda a, b, w: ((a @ w).transpose(0, 1) * b[:, None]).sum(-1),
        lambda a, b, w: ((a @ w.mT).transpose(0, 1) * b[:, None]).sum(-1), (real(2, 5), real(2, 5), real(3, 5, 5))),
    "a tensor in factors": Refactoring(
        low_rank_product,
        lambda x, a, b, c: ((((x @ c).movedim(-1, 1) * b.t()[:, None]).sum(-1)) * a.t()).sum(-1),
        lambda x, a, b, c: ((((x @ c).movedim(-1, 1) * a.t()[:, None, :]).sum(-1)) * b.t()).sum(-1),
        (real(2, 5, 5, 4), real(5, 3), real(5, 3), real(4, 3))),
    "neighbors averaged": Refactoring(
        lambda a, x, w: (torch.diag_embed(a.sum(-1).rsqrt()) @ a @ torch.diag_embed(a.sum(-1).rsqrt())) @ x @ w,
        lambda a, x, w: a.sum(-1).rsqrt()[:, None] * (a @ (a.sum(-1).rsqrt()[:, None] * (x @ w))),
        lambda a, x, w: (a / a.sum(-1, keepdim=True)) @ x @ w, (positive(5, 5), real(5, 4), real(4, 3))),
}  # fmt: skip


# -- experts, gates and recurrences --------------------------------------------------------------------------------


def one_expert(x: Any, gate: Any, w: Any) -> Any:
    """Switch: the expert of the largest logit, of all that are computed."""
    logits = F.linear(x, gate)
    chosen = F.one_hot(logits.argmax(-1), w.shape[0]).to(x.dtype)
    return torch.einsum("te,tm,edm->td", chosen * logits.softmax(-1), x, w)


def gathered_expert(weighted: bool) -> Function:
    def function(x: Any, gate: Any, w: Any) -> Any:
        logits = F.linear(x, gate)
        at = logits.argmax(-1)
        out = torch.einsum("tm,tdm->td", x, w[at])
        return out * logits.softmax(-1).gather(1, at[:, None]) if weighted else out

    return function


def gathered_experts(x: Any, weights: Any, at: Any, w: Any) -> Any:
    """The experts that a router chose, gathered for each token."""
    return (torch.einsum("tm,tkdm->tkd", x, w[at]) * weights[..., None]).sum(1)


def all_experts(weighted: bool) -> Function:
    """Weights of chosen experts, put into an array of all of them."""

    def function(x: Any, weights: Any, at: Any, w: Any) -> Any:
        each = F.one_hot(at, w.shape[0]).to(x.dtype)
        each = (each * weights[..., None]).sum(1) if weighted else each.sum(1) * weights.mean(1, keepdim=True)
        return torch.einsum("te,tm,edm->td", each, x, w)

    return function


def mixtral_weights(x: Any, gate: Any) -> Any:
    weights = F.softmax(F.linear(x, gate), -1)
    best, _ = torch.topk(weights, 2, -1)
    return best / best.sum(-1, keepdim=True)


def softmax_of_chosen(all_first: bool) -> Function:
    def function(x: Any, gate: Any) -> Any:
        logits = F.linear(x, gate)
        if all_first:
            return logits.softmax(-1).topk(2, -1)[0]
        return logits.topk(2, -1)[0].softmax(-1)

    return function


def gru_cell(x: Any, h: Any, w: Any, u: Any, b: Any, c: Any) -> Any:
    r, z, n = F.linear(x, w, b).chunk(3, -1)
    s, y, m = F.linear(h, u, c).chunk(3, -1)
    r, z = torch.sigmoid(r + s), torch.sigmoid(z + y)
    n = torch.tanh(n + r * m)
    return (1 - z) * n + z * h


def gru_by_difference(inside: bool) -> Function:
    def function(x: Any, h: Any, w: Any, u: Any, b: Any, c: Any) -> Any:
        gates = F.linear(torch.cat([x, h], -1), torch.cat([w[:8], u[:8]], -1), b[:8] + c[:8]).sigmoid()
        r, z = gates.chunk(2, -1)
        hidden = F.linear(h, u[8:], c[8:]) * r if inside else F.linear(h * r, u[8:], c[8:])
        n = (F.linear(x, w[8:], b[8:]) + hidden).tanh()
        return n + z * (h - n)

    return function


def token_shift(x: Any, mu: Any) -> Any:
    """RWKV mixes each token with the one before it."""
    before = F.pad(x, (0, 0, 1, -1))
    return x * mu + before * (1 - mu)


def shifted_by_cat(rolled: bool) -> Function:
    def function(x: Any, mu: Any) -> Any:
        before = x.roll(1, 1) if rolled else torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        return before + (x - before) * mu

    return function


def decays(x: Any) -> Any:
    """What is left of each token at the end: a running product of gates."""
    return torch.sigmoid(x).cumprod(-1)


def decays_by_logarithms(inclusive: bool) -> Function:
    def function(x: Any) -> Any:
        logs = F.logsigmoid(x)
        total = logs.cumsum(-1)
        return (total if inclusive else total - logs).exp()

    return function


def mean_of_tokens(x: Any, mask: Any) -> Any:
    """The mean of sentence-transformers."""
    expanded = mask.unsqueeze(-1).expand(x.size()).float()
    return torch.sum(x * expanded, 1) / torch.clamp(expanded.sum(1), min=1e-9)


EXPERTS: dict[str, Refactoring] = {
    "one expert, gathered": Refactoring(
        one_expert, gathered_expert(True), gathered_expert(False), (real(5, 9), real(3, 9), real(3, 4, 9)), True),
    "gathered experts as all of them": Refactoring(
        gathered_experts, all_experts(True), all_experts(False),
        (real(5, 9), positive(5, 2), whole(3, 5, 2), real(3, 4, 9)), True),
    "weights of the best two": Refactoring(
        mixtral_weights, softmax_of_chosen(False), softmax_of_chosen(True), (real(5, 9), real(4, 9)), True),
    "a gated recurrent cell": Refactoring(
        gru_cell, gru_by_difference(True), gru_by_difference(False),
        (real(2, 5), real(2, 4), real(12, 5), real(12, 4), real(12), real(12))),
    "a shift by one token": Refactoring(token_shift, shifted_by_cat(False), shifted_by_cat(True),
        (real(2, 5, 9), real(9))),
    "a running product by logarithms": Refactoring(
        decays, decays_by_logarithms(True), decays_by_logarithms(False), (real(2, 5),)),
    "a mean of tokens": Refactoring(
        mean_of_tokens, lambda x, m: torch.einsum("bt,btd->bd", m, x) / m.sum(1, keepdim=True).clamp(min=1e-9),
        lambda x, m: (x * m[..., None]).mean(1), (real(2, 5, 9), torch.tensor([[1.0, 1, 1, 0, 0], [1, 1, 0, 0, 0]]))),
}  # fmt: skip


# -- activations and losses ----------------------------------------------------------------------------------------


def new_gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def contrastive(a: Any, b: Any) -> Any:
    """InfoNCE as cross-entropy, with the partner of each row as its class."""
    return F.cross_entropy(a @ b.t() / 5.0, torch.arange(a.shape[0]))


def contrastive_by_hand(rows: bool) -> Function:
    def function(a: Any, b: Any) -> Any:
        scores = torch.exp(a @ b.t() / 5.0)
        return -torch.log(scores.diagonal() / scores.sum(1 if rows else 0)).mean()

    return function


def clip_loss(a: Any, b: Any) -> Any:
    scores = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).t()
    at = torch.arange(a.shape[0])
    return (F.cross_entropy(scores, at) + F.cross_entropy(scores.t(), at)) / 2


def clip_by_hand(both: bool) -> Function:
    def function(a: Any, b: Any) -> Any:
        scores = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).t()
        logs = scores.logsumexp(0) if both else scores.logsumexp(1)
        return ((scores.logsumexp(1) + logs) / 2 - scores.diagonal()).mean()

    return function


def smoothed(x: Any, y: Any) -> Any:
    return F.cross_entropy(x, y, label_smoothing=0.1)


def smoothed_by_hand(over: Function) -> Function:
    def function(x: Any, y: Any) -> Any:
        logs = x.log_softmax(-1)
        right = -logs.gather(1, y[:, None])[:, 0]
        return (0.9 * right - 0.1 * over(logs)).mean()

    return function


def focal(x: Any, t: Any) -> Any:
    p = torch.sigmoid(x)
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    return loss * (1 - (p * t + (1 - p) * (1 - t))) ** 2


def focal_by_products(power: int) -> Function:
    def function(x: Any, t: Any) -> Any:
        p = torch.sigmoid(x)
        loss = F.softplus(x, threshold=1e9) - x * t
        return loss * (p + t - 2 * p * t) ** power

    return function


def clipped(ratio: Any, gain: Any) -> Any:
    """PPO's objective."""
    return -torch.min(ratio * gain, torch.clamp(ratio, 0.8, 1.2) * gain).mean()


def clipped_by_maximum(pessimistic: bool) -> Function:
    def function(ratio: Any, gain: Any) -> Any:
        losses = -gain * ratio, -gain * ratio.clamp(0.8, 1.2)
        return (torch.max(*losses) if pessimistic else losses[1]).mean()

    return function


def preference(a: Any, b: Any, c: Any, d: Any) -> Any:
    """DPO's loss, of logarithms of probabilities of a policy and of a reference."""
    return -F.logsigmoid(0.1 * ((a - b) - (c - d))).mean()


def preference_by_softplus(sign: int) -> Function:
    def function(a: Any, b: Any, c: Any, d: Any) -> Any:
        return F.softplus(0.1 * (sign * (a - c) - sign * (b - d)), threshold=1e9).mean()

    return function


def dice(p: Any, t: Any) -> Any:
    return 1 - (2 * (p * t).sum((-2, -1)) + 1) / (p.sum((-2, -1)) + t.sum((-2, -1)) + 1)


def dice_flattened(twice: int) -> Function:
    def function(p: Any, t: Any) -> Any:
        p, t = p.flatten(-2), t.flatten(-2)
        total = p.sum(-1) + t.sum(-1) + 1
        return (total - twice * torch.einsum("bn,bn->b", p, t) - 1) / total

    return function


LOSSES: dict[str, Refactoring] = {
    "GELU by tanh": Refactoring(
        new_gelu, lambda x: F.gelu(x, approximate="tanh"), lambda x: x * torch.sigmoid(1.702 * x), (real(5, 9),)),
    "hard swish": Refactoring(
        F.hardswish, lambda x: x * F.relu6(x + 3) / 6, lambda x: x * torch.clamp(x / 6, 0, 1), (real(5, 9),)),
    "mish": Refactoring(
        F.mish, lambda x: x * torch.tanh(torch.log1p(torch.exp(x))), lambda x: x * torch.tanh(torch.exp(x)),
        (real(5, 9),)),
    "swish by tanh": Refactoring(
        F.silu, lambda x: x / 2 + x / 2 * torch.tanh(x / 2), lambda x: x / 2 + x / 2 * torch.tanh(x), (real(5, 9),)),
    "a leaky rectifier": Refactoring(
        lambda x: F.leaky_relu(x, 0.1), lambda x: torch.maximum(x, 0.1 * x), lambda x: x.relu() + 0.1 * x,
        (real(5, 9),)),
    "a stable logarithm of a sum": Refactoring(
        lambda x: x.logsumexp(-1),
        lambda x: (x - x.amax(-1, keepdim=True)).exp().sum(-1).log() + x.amax(-1),
        lambda x: (x - x.amax(-1, keepdim=True)).exp().sum(-1).log(), (real(5, 9),)),
    "InfoNCE": Refactoring(
        contrastive, contrastive_by_hand(True), contrastive_by_hand(False), (real(5, 9), real(5, 9))),
    "CLIP's loss": Refactoring(clip_loss, clip_by_hand(True), clip_by_hand(False), (real(5, 9), real(5, 9)), True),
    "smoothed labels": Refactoring(
        smoothed, smoothed_by_hand(lambda a: a.mean(-1)), smoothed_by_hand(lambda a: a.sum(-1)),
        (real(5, 9), whole(9, 5))),
    "a focal loss": Refactoring(focal, focal_by_products(2), focal_by_products(1),
        (real(5), torch.tensor([0.0, 1, 1, 0, 1]))),
    "PPO's objective": Refactoring(
        clipped, clipped_by_maximum(True), clipped_by_maximum(False), (positive(5), real(5))),
    "DPO's loss": Refactoring(
        preference, preference_by_softplus(-1), preference_by_softplus(1), tuple(real(5) for _ in range(4))),
    "the Dice loss": Refactoring(
        dice, dice_flattened(2), dice_flattened(1), (positive(2, 5, 7), positive(2, 5, 7))),
    "distances by cdist": Refactoring(
        lambda a, b: torch.cdist(a, b) ** 2, lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1),
        lambda a, b: (a[:, None] - b[None]).sum(-1) ** 2, (real(5, 9), real(4, 9))),
    "the best match of each word": Refactoring(
        lambda q, d: torch.einsum("bqc,bdc->bqd", q, d).amax(-1).sum(-1),
        lambda q, d: (q @ d.mT).transpose(1, 2).max(1).values.sum(1),
        lambda q, d: (q @ d.mT).amax(1).sum(-1), (real(2, 5, 9), real(2, 7, 9))),
}  # fmt: skip

ALL = {**PROJECTIONS, **EXPERTS, **LOSSES}
