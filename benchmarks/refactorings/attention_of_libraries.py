"""Attention as several libraries write it, the same written otherwise, and a near miss of each."""

from __future__ import annotations

import math
from typing import Any

import torch

from benchmarks.refactorings.pairs import F, Function, Refactoring, attend, positive, real

INF = math.inf


# -- layers: projections, heads and their layouts -------------------------------------------------------------------


def repeat_kv(x: Any, repeats: int) -> Any:
    b, h, t, d = x.shape
    return x[:, :, None].expand(b, h, repeats, t, d).reshape(b, h * repeats, t, d)


def split(x: Any, w: Any, width: int) -> Any:
    return F.linear(x, w).view(*x.shape[:2], -1, width).transpose(1, 2)


def eager(x: Any, q: Any, k: Any, v: Any, o: Any) -> Any:
    """Attention of transformers as its `eager` path has it: repeated keys, and a triangle of minus infinity added."""
    queries, keys, values = (split(x, w, 4) for w in (q, k, v))
    keys, values = repeat_kv(keys, 3), repeat_kv(values, 3)
    scores = queries @ keys.transpose(2, 3) * 4**-0.5
    scores = scores + torch.full((x.shape[1], x.shape[1]), -INF).triu(1)[None, None]
    mixed = F.softmax(scores, -1, dtype=torch.float32).to(queries.dtype) @ values
    return F.linear(mixed.transpose(1, 2).reshape(*x.shape[:2], -1), o)


def sdpa(causal: bool) -> Function:
    def function(x: Any, q: Any, k: Any, v: Any, o: Any) -> Any:
        mixed = attend(*(split(x, w, 4) for w in (q, k, v)), is_causal=causal, enable_gqa=True)
        return F.linear(mixed.transpose(1, 2).flatten(2), o)

    return function


def flash_layout(transposed: bool) -> Function:
    """Heads behind tokens, as flash attention takes them."""

    def function(x: Any, q: Any, k: Any, v: Any, o: Any) -> Any:
        queries, keys, values = (F.linear(x, w).unflatten(-1, (-1, 4)) for w in (q, k, v))
        queries = queries.unflatten(2, (2, 3))
        scores = torch.einsum("btkrd,bskd->bkrts", queries, keys) / math.sqrt(4)
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        weights = scores.masked_fill(~seen, -INF).softmax(-1)
        mixed = torch.einsum("bkrts,bskd->btkrd" if transposed else "bkrts,bskd->btrkd", weights, values)
        return F.linear(mixed.flatten(2), o)

    return function


def whole_module(x: Any, w: Any, b: Any, o: Any, c: Any) -> Any:
    """torch.nn.MultiheadAttention of one sequence, as a function of its weights."""
    return F.multi_head_attention_forward(
        x, x, x, 8, 2, w, b, None, None, False, 0.0, o, c, training=False, need_weights=False
    )[0]


def by_projections(bias: bool) -> Function:
    def function(x: Any, w: Any, b: Any, o: Any, c: Any) -> Any:
        parts = [F.linear(x, a, e if bias else None) for a, e in zip(w.chunk(3), b.chunk(3), strict=True)]
        q, k, v = (a.view(x.shape[0], x.shape[1], 2, 4).permute(1, 2, 0, 3) for a in parts)
        return F.linear(attend(q, k, v).permute(2, 0, 1, 3).flatten(2), o, c)

    return function


def conv1d_layer(x: Any, w: Any, b: Any) -> Any:
    """GPT-2's projection: a matrix of inputs by outputs, whose columns are queries, keys and values."""
    q, k, v = (x @ w + b).split(8, -1)
    return attend(*(a.unflatten(-1, (2, 4)).transpose(1, 2) for a in (q, k, v)), is_causal=True)


def of_three(order: tuple[int, int, int]) -> Function:
    def function(x: Any, w: Any, b: Any) -> Any:
        parts = [F.linear(x, w[:, 8 * k : 8 * k + 8].t(), b[8 * k : 8 * k + 8]) for k in order]
        return attend(*(a.view(*x.shape[:2], 2, 4).transpose(1, 2) for a in parts), is_causal=True)

    return function


def side_by_side(x: Any, w: Any) -> Any:
    """GPT-NeoX's projection: each head has its queries, keys and values side by side."""
    q, k, v = F.linear(x, w).view(*x.shape[:2], 2, 12).transpose(1, 2).chunk(3, -1)
    return attend(q, k, v)


def one_after_the_other(rearranged: bool) -> Function:
    def function(x: Any, w: Any) -> Any:
        if rearranged:
            w = w.view(2, 3, 4, -1).transpose(0, 1).reshape(w.shape)
        q, k, v = (a.unflatten(-1, (2, 4)).transpose(1, 2) for a in F.linear(x, w).chunk(3, -1))
        return attend(q, k, v)

    return function


def one_key_head(q: Any, k: Any, v: Any) -> Any:
    return torch.einsum(
        "bhts,bsd->bhtd", (torch.einsum("bhtd,bsd->bhts", q, k) / math.sqrt(q.shape[-1])).softmax(-1), v
    )


def normalized_queries(q: Any, k: Any) -> Any:
    return (F.normalize(q, dim=-1, eps=0) @ F.normalize(k, dim=-1, eps=0).mT * 10).softmax(-1)


def normalized_by_rms(mean: bool) -> Function:
    def function(q: Any, k: Any) -> Any:
        q, k = (F.rms_norm(a, a.shape[-1:], eps=0) for a in (q, k))
        products = q.unsqueeze(-2) * k.unsqueeze(-3)
        return ((products.mean(-1) if mean else products.sum(-1)) * 10).softmax(-1)

    return function


LAYER = real(2, 5, 9), real(24, 9), real(8, 9), real(8, 9), real(9, 24)
MODULE = real(5, 3, 8), real(24, 8), real(24), real(8, 8), real(8)
HEADS = real(2, 3, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 6)
SQUARE = real(2, 3, 5, 4), real(2, 3, 5, 4), real(2, 3, 5, 6)
LAYOUTS: dict[str, Refactoring] = {
    "eager attention as whole attention": Refactoring(eager, sdpa(True), sdpa(False), LAYER, True),
    "eager attention in the layout of flash attention": Refactoring(
        eager, flash_layout(True), flash_layout(False), LAYER, True),
    "nn.MultiheadAttention by hand": Refactoring(
        whole_module, by_projections(True), by_projections(False), MODULE, True),
    "a Conv1D of GPT-2 as three projections": Refactoring(
        conv1d_layer, of_three((0, 1, 2)), of_three((1, 0, 2)), (real(2, 5, 7), real(7, 24), real(24)), True),
    "heads side by side, rearranged": Refactoring(
        side_by_side, one_after_the_other(True), one_after_the_other(False), (real(2, 5, 9), real(24, 9)), True),
    "one head of keys": Refactoring(
        one_key_head, lambda q, k, v: attend(q, *(a[:, None].expand(-1, q.shape[1], -1, -1) for a in (k, v))),
        lambda q, k, v: one_key_head(q, k, v) * 2, (real(2, 3, 5, 4), real(2, 7, 4), real(2, 7, 4))),
    "normalized queries by a root mean square": Refactoring(
        normalized_queries,
        normalized_by_rms(True), normalized_by_rms(False), HEADS[:2]),
}  # fmt: skip


# -- masks, biases and sinks ----------------------------------------------------------------------------------------


def by_padding(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return attend(q, k, v, attn_mask=mask[:, None, None].bool())


def by_adding(inverted: bool) -> Function:
    """The least number is added where a mask of 0 and 1 is not set."""

    def function(q: Any, k: Any, v: Any, mask: Any) -> Any:
        out = mask if inverted else 1.0 - mask
        added = out[:, None, None].to(q.dtype) * torch.finfo(q.dtype).min
        return F.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + added, -1) @ v

    return function


def windowed(q: Any, k: Any, v: Any) -> Any:
    t = q.shape[2]
    at, to = torch.arange(t)[:, None], torch.arange(t)
    return attend(q, k, v, (to <= at) & (at - to < 3))


def banded(width: int) -> Function:
    def function(q: Any, k: Any, v: Any) -> Any:
        seen = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril().triu(1 - width)
        return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, -INF).softmax(-1) @ v

    return function


def prefix(q: Any, k: Any, v: Any) -> Any:
    t = q.shape[2]
    at, to = torch.arange(t)[:, None], torch.arange(t)
    return attend(q, k, v, (to <= at) | (to < 2))


def prefix_filled(joined: bool) -> Function:
    def function(q: Any, k: Any, v: Any) -> Any:
        t = q.shape[2]
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
        first = torch.arange(t) >= 2
        hidden = hidden & first if joined else hidden & first & first[:, None]
        return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -INF).softmax(-1) @ v

    return function


def documents(q: Any, k: Any, v: Any, ids: Any) -> Any:
    return attend(q, k, v, (ids[:, None, :, None] == ids[:, None, None]).tril())


def documents_filled(equal: Function) -> Function:
    def function(q: Any, k: Any, v: Any, ids: Any) -> Any:
        apart = ~equal(ids[:, :, None], ids[:, None])[:, None]
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
        return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(later | apart, -INF).softmax(-1) @ v

    return function


def linear_bias(q: Any, k: Any, v: Any, slopes: Any) -> Any:
    t = q.shape[2]
    apart = (torch.arange(t)[None] - torch.arange(t)[:, None]).float()
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + slopes[:, None, None] * apart
    return scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -INF).softmax(-1) @ v


def by_positions(of_keys: bool) -> Function:
    """BLOOM's bias, of the positions of keys alone, added by a product with a factor."""

    def function(q: Any, k: Any, v: Any, slopes: Any) -> Any:
        b, h, t, _ = q.shape
        at = torch.arange(t).float()
        bias = (slopes[:, None] * (at if of_keys else at.flip(0))[None])[None, :, None].expand(b, -1, t, -1)
        scores = torch.baddbmm(
            bias.reshape(-1, t, t), q.flatten(0, 1), k.flatten(0, 1).mT, alpha=q.shape[-1] ** -0.5
        ).view(b, h, t, t)
        return F.softmax(scores + torch.full((t, t), torch.finfo(q.dtype).min).triu(1), -1) @ v

    return function


def buckets(table: Any, apart: Any, sign: int = 1) -> Any:
    """T5's buckets of distances, which are logarithmic from some distance on, and the bias of each."""
    distance = (sign * apart).abs()
    far = 2 + (torch.log(distance.float() / 2) / math.log(8) * 2).long()
    bucket = torch.where(distance < 2, distance, torch.minimum(far, torch.full_like(far, 3)))
    return F.embedding(bucket + (sign * apart > 0).long() * 4, table).permute(2, 0, 1)


def with_buckets(q: Any, k: Any, v: Any, table: Any) -> Any:
    apart = torch.arange(k.shape[2])[None] - torch.arange(q.shape[2])[:, None]
    return attend(q, k, v, buckets(table, apart), scale=1.0)


def with_buckets_by_hand(sign: int) -> Function:
    def function(q: Any, k: Any, v: Any, table: Any) -> Any:
        apart = -(torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])[None])
        return F.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) + buckets(table, apart, sign)[None], -1) @ v

    return function


def with_sink(s: Any, sink: Any, v: Any) -> Any:
    """A logit of each head that takes part in the softmax and in nothing else, as GPT-OSS has it."""
    logits = torch.cat([s, sink[None, :, None, None].expand(s.shape[0], -1, s.shape[2], -1)], -1)
    return logits.softmax(-1)[..., :-1] @ v


def sink_in_the_sum(counted: bool) -> Function:
    def function(s: Any, sink: Any, v: Any) -> Any:
        total = s.exp().sum(-1, keepdim=True)
        return s.exp() @ v / (total + sink[None, :, None, None].exp() if counted else total)

    return function


def capped(q: Any, k: Any, v: Any) -> Any:
    """Gemma-2's cap of scores, under a causal mask."""
    scores = torch.tanh(q @ k.mT / math.sqrt(q.shape[-1]) / 5) * 5
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -INF).softmax(-1) @ v


def capped_and_added(after: bool) -> Function:
    """A triangle of −10⁹ is added, after the cap or before it."""

    def function(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        added = torch.full((q.shape[2], q.shape[2]), torch.finfo(q.dtype).min).triu(1)
        scores = 5 * torch.tanh(scores / 5) + added if after else 5 * torch.tanh((scores + added) / 5)
        return scores.softmax(-1) @ v

    return function


MASK = torch.tensor([[1.0, 1, 1, 0, 0, 0, 1], [1, 1, 1, 1, 0, 1, 1]])
MASKS: dict[str, Refactoring] = {
    "a padding mask of 0 and 1 that is added": Refactoring(by_padding, by_adding(False), by_adding(True),
        (*HEADS, MASK)),
    "a sliding window by triangles": Refactoring(windowed, banded(3), banded(4), SQUARE),
    "a prefix that all see": Refactoring(prefix, prefix_filled(True), prefix_filled(False), SQUARE),
    "documents of one sequence": Refactoring(
        documents, documents_filled(lambda a, b: a == b), documents_filled(lambda a, b: a >= b),
        (*SQUARE, torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 2, 2]]))),
    "ALiBi by the positions of keys": Refactoring(linear_bias, by_positions(True), by_positions(False),
        (*SQUARE, positive(3)), True),
    "T5's buckets": Refactoring(with_buckets, with_buckets_by_hand(1), with_buckets_by_hand(-1),
        (real(3, 2, 7, 4), real(3, 2, 7, 4), real(3, 2, 7, 4), real(8, 2)), True),
    "a sink as a column": Refactoring(with_sink, sink_in_the_sum(True), sink_in_the_sum(False),
        (real(2, 3, 5, 7), real(3), real(2, 3, 7, 4))),
    "capped scores and an added mask": Refactoring(capped, capped_and_added(True), capped_and_added(False), SQUARE),
}  # fmt: skip

ALL = {**LAYOUTS, **MASKS}
