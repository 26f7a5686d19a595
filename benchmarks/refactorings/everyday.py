"""Refactorings of everyday code of models: attention, masks, convolutions, gates, losses and updates."""

from __future__ import annotations

import math
from typing import Any

import torch

from benchmarks.refactorings.pairs import F, Function, Refactoring, attend, positive, real, whole

WIDTHS = real(2, 5, 4), real(2, 7, 4), real(2, 7, 3)
SQUARE = real(2, 6, 4), real(2, 6, 4), real(2, 6, 3)


# -- attention ------------------------------------------------------------------------------------------


def angles(tokens: int, width: int) -> Any:
    return torch.outer(torch.arange(tokens).float(), 10000.0 ** (-torch.arange(0, width, 2).float() / width))


def neighbors_turned(x: Any) -> Any:
    a, e, o = angles(x.shape[-2], x.shape[-1]), x[..., 0::2], x[..., 1::2]
    return torch.stack([e * a.cos() - o * a.sin(), o * a.cos() + e * a.sin()], -1).flatten(-2)


def halves_turned(x: Any) -> Any:
    a, (first, second) = angles(x.shape[-2], x.shape[-1]).repeat(1, 2), x.chunk(2, -1)
    return x * a.cos() + torch.cat([-second, first], -1) * a.sin()


def halves_for_neighbors(w: Any) -> Any:
    return w.view(2, 3, 2, w.shape[1]).transpose(1, 2).reshape(12, w.shape[1])


def turned_scores(turned: Function, of_queries: Function, of_keys: Function) -> Function:
    def function(x: Any, q: Any, k: Any) -> Any:
        queries, keys = (turned((x @ w.T).unflatten(-1, (2, 6)).transpose(1, 2)) for w in (of_queries(q), of_keys(k)))
        return queries @ keys.mT

    return function


def unchanged(w: Any) -> Any:
    return w


def groups_repeated(q: Any, k: Any, v: Any) -> Any:
    count = q.shape[1] // k.shape[1]
    return attend(q, k.repeat_interleave(count, 1), v.repeat_interleave(count, 1))


def groups_as_tokens(q: Any, k: Any, v: Any) -> Any:
    b, h, t, d = q.shape
    return attend(q.reshape(b, k.shape[1], -1, d), k, v).reshape(b, h, t, v.shape[-1])


def groups_in_turns(q: Any, k: Any, v: Any) -> Any:
    count = q.shape[1] // k.shape[1]
    return attend(q, k.repeat(1, count, 1, 1), v.repeat(1, count, 1, 1))


def online(rescaled: bool) -> Function:
    """The loop of FlashAttention over blocks of three keys."""

    def function(q: Any, k: Any, v: Any) -> Any:
        top = torch.full(q.shape[:-1], -math.inf)
        total, found = torch.zeros(q.shape[:-1]), torch.zeros(*q.shape[:-1], v.shape[-1])
        for j in range(0, k.shape[-2], 3):
            s = torch.einsum("bqd,bkd->bqk", q, k[:, j : j + 3]) / math.sqrt(q.shape[-1])
            new = torch.maximum(top, s.max(-1).values)
            p, a = (s - new[..., None]).exp(), (top - new).exp()
            total = a * total + p.sum(-1)
            found = (a[..., None] * found if rescaled else found) + p @ v[:, j : j + 3]
            top = new
        return found / total[..., None]

    return function


def merged_by_logarithms(weighted: bool) -> Function:
    """Both halves of the keys, each normalized by itself, merged by the logarithms of their sums."""

    def part(q: Any, k: Any, v: Any) -> Any:
        s = q @ k.mT / q.shape[-1] ** 0.5
        log = s.logsumexp(-1, keepdim=True)
        return (s - log).exp() @ v, log

    def function(q: Any, k: Any, v: Any) -> Any:
        half = k.shape[1] // 2
        (a, m), (c, n) = part(q, k[:, :half], v[:, :half]), part(q, k[:, half:], v[:, half:])
        log = torch.logaddexp(m, n)
        return a * (m - log).exp() + c * (n - log).exp() if weighted else (a + c) / 2

    return function


def by_hand(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def masked_by(mask: Function) -> Function:
    return lambda q, k, v: attend(q, k, v, attn_mask=mask(q.shape[-2]))


def every_other(t: int) -> Any:
    apart = torch.arange(t)[:, None] - torch.arange(t)[None]
    return (apart >= 0) & (apart < 4) & (apart % 2 == 0)


def two_diagonals(place: int) -> Function:
    def function(t: int) -> Any:
        return torch.eye(t, dtype=torch.bool) | torch.ones(t, t, dtype=torch.bool).tril(-place).triu(-place)

    return function


def additive_scores(swapped: bool) -> Function:
    def function(q: Any, k: Any, w: Any, u: Any) -> Any:
        first, second = w.chunk(2, 1)
        if swapped:
            first, second = second, first
        return (torch.tanh((q @ first.T)[:, :, None] + (k @ second.T)[:, None]) @ u).softmax(-1) @ k

    return function


def joined_scores(q: Any, k: Any, w: Any, u: Any) -> Any:
    t, s = q.shape[1], k.shape[1]
    both = torch.cat([q[:, :, None].expand(-1, -1, s, -1), k[:, None].expand(-1, t, -1, -1)], -1)
    return (torch.tanh(both @ w.T) @ u).softmax(-1) @ k


def features(a: Any) -> Any:
    return F.elu(a) + 1


def normalized_kernel(q: Any, k: Any, v: Any) -> Any:
    s = features(q) @ features(k).mT
    return (s / s.sum(-1, keepdim=True)) @ v


def kernel_of_sums(q: Any, k: Any, v: Any) -> Any:
    q, k = features(q), features(k)
    return (q @ (k.mT @ v)) / (q @ k.sum(1)[..., None])


def rows_attend(x: Any) -> Any:
    b, h, w, d = x.shape
    y = x.reshape(b * h, w, d)
    return attend(y, y, y).view(b, h, w, d)


def along(rows: bool) -> Function:
    def function(x: Any) -> Any:
        x = x if rows else x.transpose(1, 2)
        s = torch.einsum("bhwd,bhvd->bhwv", x, x) / math.sqrt(x.shape[-1])
        found = torch.einsum("bhwv,bhvd->bhwd", s.softmax(-1), x)
        return found if rows else found.transpose(1, 2)

    return function


# -- convolutions and images ------------------------------------------------------------------------------


def normed_behind(x: Any, w: Any, c: Any, mean: Any, variance: Any, g: Any, b: Any) -> Any:
    return F.batch_norm(F.conv_transpose2d(x, w, c, stride=2), mean, variance, g, b)


def folded(shifted: bool) -> Function:
    def function(x: Any, w: Any, c: Any, mean: Any, variance: Any, g: Any, b: Any) -> Any:
        scale = g * torch.rsqrt(variance + 1e-5)
        bias = (c - mean) * scale + (b if shifted else 0)
        return F.conv_transpose2d(x, w * scale[None, :, None, None], bias, stride=2)

    return function


def standardized(x: Any, w: Any) -> Any:
    mean = w.mean((1, 2, 3), keepdim=True)
    return F.conv2d(x, (w - mean) / torch.sqrt(w.var((1, 2, 3), keepdim=True, unbiased=False) + 1e-5))


def standardized_by_a_norm(epsilon: float) -> Function:
    def function(x: Any, w: Any) -> Any:
        return F.conv2d(x, F.layer_norm(w.flatten(1), (w[0].numel(),), eps=epsilon).view_as(w))

    return function


def axis_turned(x: Any, a: Any) -> Any:
    first, second = x.chunk(2, -1)
    return torch.cat([first * a.cos() - second * a.sin(), second * a.cos() + first * a.sin()], -1)


def axes_apart(x: Any) -> Any:
    _, h, w, d = x.shape
    f = 100.0 ** (-torch.arange(d // 4).float() / (d // 4))
    rows, columns = x.chunk(2, -1)
    down, right = (torch.arange(n).float()[:, None] * f for n in (h, w))
    return torch.cat([axis_turned(rows, down[:, None]), axis_turned(columns, right[None])], -1)


def axes_together(swapped: bool) -> Function:
    def function(x: Any) -> Any:
        b, h, w, d = x.shape
        f, n = 100.0 ** (-torch.arange(d // 4).float() / (d // 4)), torch.arange(h * w)
        row, column = (n // w).float(), (n % w).float()
        a = torch.stack([torch.outer(i, f) for i in ((column, row) if swapped else (row, column))], 1)
        first, second = x.reshape(b, h * w, 2, 2, d // 4).unbind(3)
        return torch.stack([first * a.cos() - second * a.sin(), second * a.cos() + first * a.sin()], 3).view(x.shape)

    return function


# -- layers, losses, updates --------------------------------------------------------------------------------


def modulated(x: Any, c: Any, w: Any) -> Any:
    shift, scale, gate = F.linear(F.silu(c), w).chunk(3, -1)
    return x + gate[:, None] * (F.layer_norm(x, x.shape[-1:]) * (1 + scale[:, None]) + shift[:, None])


def modulated_at_once(one: float) -> Function:
    def function(x: Any, c: Any, w: Any) -> Any:
        m = F.linear(c * torch.sigmoid(c), w).view(-1, 1, 3, x.shape[-1])
        h = F.layer_norm(x, x.shape[-1:])
        return torch.addcmul(x, m[:, :, 2], torch.addcmul(m[:, :, 0], h, one + m[:, :, 1]))

    return function


def gated_loop(step: Function) -> Function:
    def function(x: Any, z: Any, c: Any) -> Any:
        gate, candidate = torch.sigmoid(x @ z.T), x @ c.T
        h, found = torch.zeros_like(candidate[:, 0]), []
        for t in range(x.shape[1]):
            h = step(h, candidate[:, t], gate[:, t])
            found.append(h)
        return torch.stack(found, 1)

    return function


def in_chunks(h: Any, w: Any, y: Any) -> Any:
    total = 0.0
    for rows, classes in zip(h.split(2), y.split(2), strict=True):
        logits = rows @ w.T
        total = total + (torch.logsumexp(logits, -1) - logits.gather(-1, classes[:, None])[:, 0]).sum()
    return total / h.shape[0]


def mean_of_chunks(h: Any, w: Any, y: Any) -> Any:
    losses = [F.cross_entropy(rows @ w.T, classes) for rows, classes in zip(h.split(2), y.split(2), strict=True)]
    return sum(losses) / len(losses)


def means(function: Function) -> Function:
    return lambda a, b: torch.stack([F.mse_loss(x, y) for x, y in zip(function(a), function(b), strict=True)]).mean()


def balanced(l: Any, i: Any) -> Any:  # noqa: E741
    share = F.one_hot(i, 4).float().mean(0)
    return 4 * (l.softmax(-1).mean(0) * share).sum()


def balanced_by_comparison(factor: int) -> Function:
    def function(l: Any, i: Any) -> Any:  # noqa: E741
        share = torch.stack([(i == e).float().mean() for e in range(4)])
        return factor * torch.dot(share, F.softmax(l, 1).mean(0))

    return function


def signed_pairs(a: Any, b: Any, t: Any) -> Any:
    n = a.shape[0]
    return -F.logsigmoid((2 * torch.eye(n) - torch.ones(n, n)) * (a @ b.T * t.exp())).sum() / n


def pairs_by_softplus(count: Function) -> Function:
    def function(a: Any, b: Any, t: Any) -> Any:
        logits = a @ b.T * t.exp()
        return (F.softplus(logits).sum() - logits.diagonal().sum()) / count(logits)

    return function


def on_and_off(a: Any, b: Any) -> Any:
    c = a.T @ b / a.shape[0]
    diagonal = torch.diagonal(c)
    return (diagonal - 1).pow(2).sum() + 0.005 * (c.pow(2).sum() - diagonal.pow(2).sum())


def weighted_apart(on: float) -> Function:
    def function(a: Any, b: Any) -> Any:
        c = torch.einsum("nd,ne->de", a, b) / a.shape[0]
        e = torch.eye(c.shape[0])
        return ((c - e) ** 2 * torch.where(e.bool(), on, 0.005)).sum()

    return function


def overlaps(a: Any, b: Any) -> Any:
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = (high - low).clamp(min=0)
    inside = sides[..., 0] * sides[..., 1]
    first, second = ((x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b))
    return inside / (first[:, None] + second[None] - inside)


def overlaps_by_sides(cut: Function) -> Function:
    def function(a: Any, b: Any) -> Any:
        w = torch.minimum(a[:, None, 2], b[:, 2]) - torch.maximum(a[:, None, 0], b[:, 0])
        h = torch.minimum(a[:, None, 3], b[:, 3]) - torch.maximum(a[:, None, 1], b[:, 1])
        inside = cut(w, h)
        first, second = ((x[:, 2:] - x[:, :2]).prod(-1) for x in (a, b))
        return inside / (first[:, None] + second - inside)

    return function


def boxes(count: int) -> Any:
    return torch.cat([positive(count, 2), positive(count, 2) + 1], -1)


def with_largest_gain(w: Any, u: Any) -> Any:
    v = F.normalize(w.T @ u, dim=0)
    u = F.normalize(w @ v, dim=0)
    return w / (u @ w @ v)


def gain_by_hand(divided: bool) -> Function:
    def function(w: Any, u: Any) -> Any:
        v = w.T @ u
        v = v / v.norm().clamp_min(1e-12)
        u = w @ v
        return w / torch.einsum("i,ij,j->", u / u.norm().clamp_min(1e-12) if divided else u, w, v)

    return function


ALL: dict[str, Refactoring] = {
    "weights of halves for neighbors": Refactoring(
        turned_scores(neighbors_turned, unchanged, unchanged),
        turned_scores(halves_turned, halves_for_neighbors, halves_for_neighbors),
        turned_scores(halves_turned, unchanged, halves_for_neighbors), (real(2, 5, 8), real(12, 8), real(12, 8))),
    "groups of queries as tokens": Refactoring(
        groups_repeated, groups_as_tokens, groups_in_turns, (real(2, 6, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 4))),
    "an online softmax": Refactoring(
        attend, online(True), online(False), (real(2, 5, 4), real(2, 9, 4), real(2, 9, 3))),
    "halves of the keys, merged by logarithms": Refactoring(
        by_hand, merged_by_logarithms(True), merged_by_logarithms(False),
        (real(2, 5, 4), real(2, 6, 4), real(2, 6, 3))),
    "every other token": Refactoring(
        masked_by(every_other), masked_by(two_diagonals(2)), masked_by(two_diagonals(1)), SQUARE),
    "scores of a layer of two": Refactoring(
        joined_scores, additive_scores(False), additive_scores(True),
        (real(2, 5, 4), real(2, 7, 4), real(6, 8), real(6))),
    "scores with a matrix between": Refactoring(
        lambda q, k, w, v: torch.softmax(q @ w @ k.mT, -1) @ v,
        lambda q, k, w, v: torch.softmax(torch.einsum("bqd,bkd->bqk", q, F.linear(k, w)), -1) @ v,
        lambda q, k, w, v: torch.softmax(torch.einsum("bqd,bkd->bqk", q, F.linear(k, w.T)), -1) @ v,
        (real(2, 5, 4), real(2, 7, 4), real(4, 4), real(2, 7, 3))),
    "a kernel normalized by its sums": Refactoring(
        normalized_kernel, kernel_of_sums, lambda q, k, v: features(q) @ (features(k).mT @ v), WIDTHS),
    "heads that are mixed": Refactoring(
        lambda s, w, v: torch.einsum("gh,bhqk->bgqk", w, s).softmax(-1) @ v,
        lambda s, w, v: F.conv2d(s, w[:, :, None, None]).softmax(-1) @ v,
        lambda s, w, v: F.conv2d(s, w.T[:, :, None, None]).softmax(-1) @ v,
        (real(2, 3, 5, 7), real(3, 3), real(2, 3, 7, 4))),
    "attention along rows": Refactoring(rows_attend, along(True), along(False), (real(2, 4, 4, 5),)),
    "queries and keys scaled by a fourth root": Refactoring(
        attend, lambda q, k, v: torch.softmax((q * q.size(-1) ** -0.25) @ (k * k.size(-1) ** -0.25).mT, -1) @ v,
        lambda q, k, v: torch.softmax(q @ k.mT / q.size(-1), -1) @ v, WIDTHS),
    "more keys than queries, causal": Refactoring(
        lambda q, k, v: attend(q, k, v, is_causal=True),
        lambda q, k, v: attend(q, k, v, attn_mask=torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril()),
        lambda q, k, v: attend(q, k, v, attn_mask=torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(2)),
        WIDTHS),
    "an adapter of a convolution": Refactoring(
        lambda x, w, a, b: F.conv2d(x, w, padding=1) + 2.0 * F.conv2d(F.conv2d(x, a, padding=1), b),
        lambda x, w, a, b: F.conv2d(x, w + 2.0 * torch.einsum("or,rikl->oikl", b[:, :, 0, 0], a), padding=1),
        lambda x, w, a, b: F.conv2d(x, w + torch.einsum("or,rikl->oikl", b[:, :, 0, 0], a), padding=1),
        (real(2, 4, 5, 7), real(6, 4, 3, 3), real(2, 4, 3, 3), real(6, 2, 1, 1))),
    "a batch norm folded into a transposed convolution": Refactoring(
        normed_behind, folded(True), folded(False),
        (real(2, 4, 3, 5), real(4, 6, 2, 2), real(6), real(6), positive(6), real(6), real(6))),
    "weights standardized by a layer norm": Refactoring(
        standardized, standardized_by_a_norm(1e-5), standardized_by_a_norm(1e-3), (real(2, 3, 5, 6), real(4, 3, 2, 2))),
    "a causal convolution that is cut": Refactoring(
        lambda x, w: F.conv1d(F.pad(x, (2, 0)), w), lambda x, w: F.conv1d(x, w, padding=2)[..., :-2],
        lambda x, w: F.conv1d(x, w, padding=2)[..., 2:], (real(2, 4, 9), real(5, 4, 3))),
    "every other result of a convolution": Refactoring(
        lambda x, w: F.conv2d(x, w, stride=2, padding=1), lambda x, w: F.conv2d(x, w, padding=1)[..., ::2, ::2],
        lambda x, w: F.conv2d(x, w, padding=1)[..., 1::2, 1::2], (real(2, 3, 8, 6), real(5, 3, 3, 3))),
    "an image of twice the size": Refactoring(
        lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
        lambda x: x.repeat_interleave(2, -1).repeat_interleave(2, -2), lambda x: x.repeat(1, 1, 2, 2),
        (real(2, 3, 4, 5),)),
    "the largest of four pixels": Refactoring(
        lambda x: F.max_pool2d(x, 2), lambda x: x.unflatten(-1, (-1, 2)).unflatten(-3, (-1, 2)).amax((-1, -3)),
        lambda x: F.avg_pool2d(x, 2), (real(2, 3, 4, 6),)),
    "a mean that counts its padding": Refactoring(
        lambda x: F.avg_pool2d(x, 3, 1, 1),
        lambda x: F.pad(x, (1, 1, 1, 1)).unfold(2, 3, 1).unfold(3, 3, 1).mean((-1, -2)),
        lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), (real(1, 2, 5, 6),)),
    "a rotation of two axes": Refactoring(axes_apart, axes_together(False), axes_together(True), (real(2, 3, 5, 8),)),
    "products of channels": Refactoring(
        lambda x: x.flatten(2) @ x.flatten(2).mT / (x.shape[1] * x.shape[2] * x.shape[3]),
        lambda x: torch.einsum("bchw,bdhw->bcd", x, x) / x[0].numel(),
        lambda x: torch.einsum("bchw,bdhw->bcd", x, x) / x[0, 0].numel(), (real(2, 3, 4, 5),)),
    "a layer with a condition, at once": Refactoring(
        modulated, modulated_at_once(1.0), modulated_at_once(0.0), (real(2, 5, 6), real(2, 4), real(18, 4))),
    "guidance without a condition": Refactoring(
        lambda x, c, w: (lambda a, b: b + 7.5 * (a - b))(*F.linear(torch.cat([x, c]), w).chunk(2)),
        lambda x, c, w: 7.5 * F.linear(x, w) - 6.5 * F.linear(c, w),
        lambda x, c, w: 7.5 * F.linear(x, w) - 7.5 * F.linear(c, w), (real(3, 4), real(3, 4), real(5, 4))),
    "a gated loop by lerp": Refactoring(
        gated_loop(lambda h, c, z: (1 - z) * h + z * c), gated_loop(torch.lerp),
        gated_loop(lambda h, c, z: torch.lerp(c, h, z)), (real(2, 3, 4), real(5, 4), real(5, 4))),
    "a squared rectifier": Refactoring(
        lambda x: F.relu(x) ** 2, lambda x: x * F.relu(x), lambda x: x * x.abs(), (real(3, 5),)),
    "a cap by a sigmoid": Refactoring(
        lambda x: 30 * torch.tanh(x / 30), lambda x: 30 * (2 * torch.sigmoid(2 * x / 30) - 1),
        lambda x: 30 * (2 * torch.sigmoid(x / 30) - 1), (real(3, 5),)),
    "a soft rectifier by the logarithm of a sigmoid": Refactoring(
        lambda x: torch.log1p(torch.exp(x)), lambda x: -F.logsigmoid(-x), lambda x: -F.logsigmoid(x), (real(3, 5),)),
    "an exponential unit in two parts": Refactoring(
        lambda x: F.elu(x, alpha=1.5), lambda x: x.clamp(min=0) + 1.5 * (torch.exp(x.clamp(max=0)) - 1),
        lambda x: x.clamp(min=0) + torch.exp(1.5 * x.clamp(max=0)) - 1, (real(3, 5),)),
    "a bounded rectifier by two": Refactoring(
        F.relu6, lambda x: F.relu(x) - F.relu(x - 6), lambda x: F.relu(x) - F.relu(x - 5), (3 * real(3, 5),)),
    "a rectifier steeper below": Refactoring(
        lambda x: F.leaky_relu(x, 1.5), lambda x: torch.minimum(x, 1.5 * x), lambda x: torch.maximum(x, 1.5 * x),
        (real(3, 5),)),
    "a loss in chunks of tokens": Refactoring(
        lambda h, w, y: F.cross_entropy(h @ w.T, y), in_chunks, mean_of_chunks, (real(5, 4), real(7, 4), whole(7, 5))),
    "a mean of means": Refactoring(
        F.mse_loss, means(lambda a: a.chunk(3)), means(lambda a: a.split(4)), (real(6, 5), real(6, 5))),
    "two classes, one of them 0": Refactoring(
        lambda x, y: F.binary_cross_entropy_with_logits(x, y.float()),
        lambda x, y: F.cross_entropy(torch.stack([torch.zeros_like(x), x], -1), y),
        lambda x, y: F.cross_entropy(torch.stack([x, torch.zeros_like(x)], -1), y), (real(5), whole(2, 5))),
    "a loss with squared normalizers": Refactoring(
        lambda a, y: F.cross_entropy(a, y) + 1e-4 * (torch.logsumexp(a, -1) ** 2).mean(),
        lambda a, y: (lambda z: (z - a.gather(-1, y[:, None])[:, 0] + 1e-4 * z * z).mean())(a.exp().sum(-1).log()),
        lambda a, y: (lambda z: (z - a.gather(-1, y[:, None])[:, 0] + 1e-4 * z).mean())(a.exp().sum(-1).log()),
        (real(5, 7), whole(7, 5))),
    "the load of experts": Refactoring(
        balanced, balanced_by_comparison(4), balanced_by_comparison(1), (real(6, 4), whole(4, 6))),
    "a sigmoid for each pair": Refactoring(
        signed_pairs, pairs_by_softplus(lambda a: a.shape[0]), pairs_by_softplus(lambda a: a.numel()),
        (real(5, 4), real(5, 4), torch.tensor(0.3)), True),
    "correlations near the identity": Refactoring(
        on_and_off, weighted_apart(1.0), weighted_apart(0.005), (real(6, 4), real(6, 4))),
    "overlaps of boxes": Refactoring(
        overlaps, overlaps_by_sides(lambda w, h: w.relu() * h.relu()), overlaps_by_sides(lambda w, h: (w * h).relu()),
        (boxes(3), boxes(5)), True),
    "products of unit vectors": Refactoring(
        lambda a, b: F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T,
        lambda a, b: (a @ b.T) / (a.norm(dim=-1).clamp_min(1e-12)[:, None] * b.norm(dim=-1).clamp_min(1e-12)[None]),
        lambda a, b: (a @ b.T) / (a.norm(dim=-1).clamp_min(1e-12)[None] * b.norm(dim=-1).clamp_min(1e-12)[:, None]),
        (real(5, 4), real(5, 4))),
    "a moving average of weights": Refactoring(
        lambda a, b: 0.99 * a + (1 - 0.99) * b, lambda a, b: torch.lerp(a, b, 0.01),
        lambda a, b: torch.lerp(b, a, 0.01),
        (real(3, 4), real(3, 4))),
    "a weight divided by its gain": Refactoring(
        with_largest_gain, gain_by_hand(True), gain_by_hand(False), (real(3, 4), real(3))),
    "lengths of gradients": Refactoring(
        lambda g: ((g.flatten(1).norm(2, 1) - 1) ** 2).mean(),
        lambda g: (g.square().sum((1, 2)).sqrt() - 1).square().sum() / g.shape[0],
        lambda g: (g.norm() - 1) ** 2, (real(3, 4, 5),)),
    "waves and their shifts": Refactoring(
        lambda x, b: torch.cat([(2 * math.pi * x @ b.T).sin(), (2 * math.pi * x @ b.T).cos()], -1),
        lambda x, b: (lambda z: torch.stack([z.sin(), z.cos()], -2).flatten(-2))(F.linear(x, b * 2 * math.pi)),
        lambda x, b: (lambda z: torch.stack([z.sin(), z.cos()], -2).flatten(-2))(F.linear(x, b * math.pi)),
        (real(4, 3), real(5, 3))),
    "positions of tokens that count": Refactoring(
        lambda m: (m.cumsum(-1) - 1).masked_fill(m == 0, 1),
        lambda m: torch.where(m.bool(), torch.cumsum(m, -1) - 1, 1),
        lambda m: torch.where(m.bool(), torch.cumsum(m, -1), 1), (torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),)),
}  # fmt: skip
