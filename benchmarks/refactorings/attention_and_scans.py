"""Attention, positions, recurrences and gates that are merged, unrolled or written by hand, and a near miss of each."""

from __future__ import annotations

import math
from typing import Any

import torch

from benchmarks.refactorings.pairs import F, Function, Refactoring, attend, heads, joined, positive, real, whole

INF = math.inf


# -- attention -----------------------------------------------------------------------------------------------------


def layer(x: Any, w: Any, o: Any) -> Any:
    q, k, v = (heads(a, 2) for a in F.linear(x, w).chunk(3, -1))
    return F.linear(joined(attend(q, k, v, is_causal=True)), o)


def masked_by_hand(mask: Function) -> Function:
    """The same layer with its scores written out."""

    def function(x: Any, w: Any, o: Any) -> Any:
        q, k, v = (heads(a, 2) for a in F.linear(x, w).chunk(3, -1))
        scores = mask(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), x.shape[1])
        return F.linear(joined(scores.softmax(-1) @ v), o)

    return function


def by_truth_values(s: Any, t: int) -> Any:
    return s.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -INF)


def by_addition(diagonal: int) -> Function:
    return lambda s, t: s + torch.full((t, t), -INF).triu(diagonal)


def by_positions(s: Any, t: int) -> Any:
    return torch.where(torch.arange(t) >= torch.arange(t)[:, None], s, -INF)


def split_heads(x: Any, w: Any, o: Any) -> Any:
    q, k, v = (heads(a, 2) for a in F.linear(x, w).chunk(3, -1))
    return F.linear(joined(attend(q, k, v)), o)


def head_by_head(swapped: bool) -> Function:
    def function(x: Any, w: Any, o: Any) -> Any:
        q, k, v = F.linear(x, w).split(8, -1)
        total = 0
        for n in range(2):
            mine, of_output = (
                slice(4 * n, 4 * n + 4),
                slice(4 - 4 * n, 8 - 4 * n) if swapped else slice(4 * n, 4 * n + 4),
            )
            total = total + attend(q[..., mine], k[..., mine], v[..., mine]) @ o[:, of_output].t()
        return total

    return function


def of_one_view(places: tuple[int, ...]) -> Function:
    """Queries, keys and values by one view of the fused projection."""

    def function(x: Any, w: Any, o: Any) -> Any:
        lengths = (3, 2) if places[0] == 2 else (2, 3)
        q, k, v = (x @ w.t()).reshape(*x.shape[:2], *lengths, -1).permute(*places)
        return F.linear(attend(q, k, v).transpose(1, 2).reshape(x.shape), o)

    return function


def one_key_head(x: Any, q: Any, k: Any, v: Any) -> Any:
    keys, values = ((x @ a.t())[:, None].expand(-1, 4, -1, -1) for a in (k, v))
    return joined(attend(heads(x @ q.t(), 4), keys, values))


def one_key_head_by_einsum(outer: bool) -> Function:
    def function(x: Any, q: Any, k: Any, v: Any) -> Any:
        queries = (x @ q.t()).unflatten(-1, (4, -1)) if outer else (x @ q.t()).unflatten(-1, (-1, 4)).mT
        scores = torch.einsum("bqhd,bkd->bhqk", queries, x @ k.t()) * queries.shape[-1] ** -0.5
        return torch.einsum("bhqk,bkd->bqhd", scores.softmax(-1), x @ v.t()).flatten(2)

    return function


def grouped(x: Any, q: Any, k: Any, v: Any) -> Any:
    return joined(attend(heads(x @ q.t(), 4), heads(x @ k.t(), 2), heads(x @ v.t(), 2), enable_gqa=True))


def repeated(in_blocks: bool) -> Function:
    def function(x: Any, q: Any, k: Any, v: Any) -> Any:
        keys, values = (heads(x @ w.t(), 2) for w in (k, v))
        keys, values = (a.repeat_interleave(2, 1) if in_blocks else a.repeat(1, 2, 1, 1) for a in (keys, values))
        return joined(attend(heads(x @ q.t(), 4), keys, values))

    return function


def running_maximum(rescaled: bool) -> Function:
    """FlashAttention's loop over three blocks of keys, from minus infinity and zeros."""

    def function(q: Any, k: Any, v: Any) -> Any:
        most = torch.full((*q.shape[:-1], 1), -INF)
        total, out = torch.zeros_like(most), torch.zeros((*q.shape[:-1], v.shape[-1]))
        for keys, values in zip(k.split(2, 1), v.split(2, 1), strict=True):
            scores = q @ keys.mT / math.sqrt(q.shape[-1])
            larger = torch.maximum(most, scores.amax(-1, keepdim=True))
            p, factor = (scores - larger).exp(), (most - larger).exp()
            total = total * factor + p.sum(-1, keepdim=True)
            out, most = out * (factor if rescaled else 1) + p @ values, larger
        return out / total

    return function


def by_query_chunks(order: int) -> Function:
    return lambda q, k, v: torch.cat([attend(part, k, v) for part in q.split(2, 1)][::order], 1)


def angles(a: Any) -> Any:
    d = a.shape[-1]
    return torch.outer(torch.arange(a.shape[-2]).float(), 1 / 10000 ** (torch.arange(0, d, 2).float() / d))


def rotated_in_halves(a: Any) -> Any:
    by, (x, y) = torch.cat([angles(a)] * 2, -1), a.chunk(2, -1)
    return a * by.cos() + torch.cat([-y, x], -1) * by.sin()


def rotated_as_complex(sign: int) -> Function:
    def function(a: Any) -> Any:
        by = angles(a)
        z = torch.complex(*a.chunk(2, -1)) * torch.polar(torch.ones_like(by), sign * by)
        return torch.cat([z.real, z.imag], -1)

    return function


def by_offsets(q: Any, e: Any) -> Any:
    """Relative positions: the row of each offset, gathered."""
    offset = torch.arange(5)[None] - torch.arange(5)[:, None] + 4
    return (q @ e.t()).gather(2, offset[None].expand(2, -1, -1))


def skewed(at_the_end: bool) -> Function:
    """Transformer-XL's shift of rows, by padding and another view."""

    def function(q: Any, e: Any) -> Any:
        scores = q @ e.t()
        batch, t, _ = scores.shape
        flat = F.pad(F.pad(scores, (0, 1) if at_the_end else (1, 0)).flatten(1), (0, t - 1))
        return flat.view(batch, t + 1, 2 * t - 1)[:, :t, t - 1 :]

    return function


LAYER, MULTI = (real(2, 5, 8), real(24, 8), real(8, 8)), (real(2, 5, 6), real(12, 6), real(3, 6), real(3, 6))
BLOCKS = real(2, 5, 4), real(2, 6, 4), real(2, 6, 3)
ATTENTION: dict[str, Refactoring] = {
    "a causal mask of truth values": Refactoring(
        layer, masked_by_hand(by_truth_values), masked_by_hand(by_positions), LAYER, True),
    "a causal mask that is added": Refactoring(
        layer, masked_by_hand(by_addition(1)), masked_by_hand(by_addition(2)), LAYER, True),
    "attention head by head": Refactoring(split_heads, head_by_head(False), head_by_head(True), LAYER, True),
    "a fused projection in one view": Refactoring(
        split_heads, of_one_view((2, 0, 3, 1, 4)), of_one_view((3, 0, 2, 1, 4)), LAYER, True),
    "one head of keys by einsum": Refactoring(
        one_key_head, one_key_head_by_einsum(True), one_key_head_by_einsum(False), MULTI, True),
    "grouped queries with repeated keys": Refactoring(
        grouped, repeated(True), repeated(False), (real(2, 5, 6), real(12, 6), real(6, 6), real(6, 6)), True),
    "a temperature in the weights": Refactoring(
        lambda x, q, k: torch.softmax((x @ q.t()) @ (x @ k.t()).mT / 0.5, -1),
        lambda x, q, k: torch.softmax((x @ (q * 2).t()) @ (x @ k.t()).mT, -1),
        lambda x, q, k: torch.softmax((x @ (q / 2).t()) @ (x @ k.t()).mT, -1),
        (real(2, 5, 6), real(4, 6), real(4, 6)), True),
    "a scale on both sides": Refactoring(
        attend, lambda q, k, v: torch.softmax((q * q.shape[-1] ** -0.25) @ (k * k.shape[-1] ** -0.25).mT, -1) @ v,
        lambda q, k, v: torch.softmax((q * q.shape[-1] ** -0.25) @ (k * k.shape[-1] ** -0.5).mT, -1) @ v,
        (real(2, 5, 6), real(2, 7, 6), real(2, 7, 4)), True),
    "a loop over blocks of keys": Refactoring(attend, running_maximum(True), running_maximum(False), BLOCKS, True),
    "chunks of queries": Refactoring(
        attend, by_query_chunks(1), by_query_chunks(-1), (real(2, 6, 4), real(2, 7, 4), real(2, 7, 3)), True),
    "values and outputs merged": Refactoring(
        lambda x, q, v, o: attend(x @ q, x, x @ v) @ o, lambda x, q, v, o: attend(x @ q, x, x @ (v @ o)),
        lambda x, q, v, o: attend(x @ q, x, x @ (o @ v)), (real(2, 5, 6), real(6, 6), real(6, 6), real(6, 6)), True),
    "a bias of keys left out": Refactoring(
        lambda x, q, k, a, b: torch.softmax((x @ q + a) @ (x @ k + b).mT, -1),
        lambda x, q, k, a, b: torch.softmax((x @ q + a) @ (x @ k).mT, -1),
        lambda x, q, k, a, b: torch.softmax((x @ q) @ (x @ k + b).mT, -1),
        (real(2, 5, 6), real(6, 4), real(6, 4), real(4), real(4)), True),
    "a rotation of halves by complex numbers": Refactoring(
        rotated_in_halves, rotated_as_complex(1), rotated_as_complex(-1), (real(2, 3, 5, 6),), True),
    "relative positions by a view": Refactoring(
        by_offsets, skewed(True), skewed(False), (real(2, 5, 3), real(9, 3)), True),
}  # fmt: skip


# -- recurrences, scans and gates ----------------------------------------------------------------------------------


def summed_states(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT).tril() @ v


def state_between_chunks(before: bool) -> Function:
    """Linear attention in chunks, with a state between them."""

    def function(q: Any, k: Any, v: Any) -> Any:
        state, out = torch.zeros(q.shape[0], q.shape[-1], v.shape[-1]), []
        for queries, keys, values in zip(q.split(2, 1), k.split(2, 1), v.split(2, 1), strict=True):
            later = state + keys.mT @ values
            out.append((queries @ keys.mT).tril() @ values + queries @ (state if before else later))
            state = later
        return torch.cat(out, 1)

    return function


def averaged(x: Any, a: Any) -> Any:
    """An exponential moving average."""
    h, out = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        h = a * h + (1 - a) * x[:, t]
        out.append(h)
    return torch.stack(out, 1)


def best_two(x: Any, g: Any, w: Any) -> Any:
    """Experts of the two largest probabilities, dense."""
    p = (x @ g.t()).softmax(-1)
    values, at = p.topk(2, -1)
    weights = torch.zeros_like(p).scatter(-1, at, values / values.sum(-1, keepdim=True))
    return torch.einsum("te,eod,td->to", weights, w, x)


def best_two_gathered(of_two: bool) -> Function:
    def function(x: Any, g: Any, w: Any) -> Any:
        z = x @ g.t()
        values, at = z.topk(2, -1)
        weights = values.softmax(-1) if of_two else z.softmax(-1).gather(-1, at)
        return (torch.einsum("tkod,td->tko", w[at], x) * weights[..., None]).sum(1)

    return function


def cell(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    """A step of an LSTM."""
    i, f, g, o = (F.linear(x, w, b) + F.linear(h, u)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def cell_of_one_product(order: tuple[int, int]) -> Function:
    def function(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
        z = (torch.cat([x, h], 1) @ torch.cat([w, u], 1).t() + b).split(5, 1)
        c = torch.sigmoid(z[order[1]]) * c + torch.sigmoid(z[order[0]]) * torch.tanh(z[2])
        return torch.sigmoid(z[3]) * torch.tanh(c), c

    return function


SEQUENCE, TOKENS = real(2, 5, 3), whole(7, 2, 3)
SCANS: dict[str, Refactoring] = {
    "linear attention in chunks": Refactoring(
        summed_states, state_between_chunks(True), state_between_chunks(False),
        (real(2, 6, 3), real(2, 6, 3), real(2, 6, 5)), True),
    "a running sum before each element": Refactoring(
        lambda x: x.cumsum(1) - x, lambda x: F.pad(x, (0, 0, 1, 0)).cumsum(1)[:, :-1],
        lambda x: F.pad(x, (0, 0, 1, 0)).cumsum(1)[:, 1:], (SEQUENCE,), True),
    "a running sum backwards by a triangle": Refactoring(
        lambda x: x.flip(1).cumsum(1).flip(1), lambda x: torch.ones(5, 5).triu() @ x,
        lambda x: torch.ones(5, 5).triu(1) @ x, (SEQUENCE,), True),
    "a moving average by a matrix": Refactoring(
        averaged, lambda x, a: torch.einsum("tsd,bsd->btd", (
            (torch.arange(5)[:, None] - torch.arange(5)).clamp(min=0)[..., None] * a.log()).exp()
            * torch.ones(5, 5).tril()[..., None] * (1 - a), x),
        lambda x, a: torch.einsum("tsd,bsd->btd", (
            (torch.arange(5)[:, None] - torch.arange(5)).clamp(min=0)[..., None] * a.log()).exp()
            * torch.ones(5, 5).tril()[..., None] * a, x), (SEQUENCE, positive(3) / 2), True),
    "experts of the best two": Refactoring(
        best_two, best_two_gathered(True), best_two_gathered(False), (real(3, 4), real(5, 4), real(5, 6, 4)), True),
    "a cell of one product": Refactoring(
        cell, cell_of_one_product((0, 1)), cell_of_one_product((1, 0)),
        (real(2, 4), real(2, 5), real(2, 5), real(20, 4), real(20, 5), real(20)), True),
    "a softmax with one more": Refactoring(
        lambda x: x.exp() / (1 + x.exp().sum(-1, keepdim=True)), lambda x: F.pad(x, (1, 0)).softmax(-1)[..., 1:],
        lambda x: F.pad(x, (1, 0)).softmax(-1)[..., :-1], (real(3, 5),), True),
    "a logarithm of a sum by its first term": Refactoring(
        lambda x: x.logsumexp(-1), lambda x: x[..., 0] + (x - x[..., :1]).exp().sum(-1).log(),
        lambda x: x[..., 0] + (x - x[..., :1]).exp().mean(-1).log(), (real(3, 5),)),
    "a step of Newton's at the root": Refactoring(
        lambda a: a.rsqrt() * (1.5 - 0.5 * a * a.rsqrt() * a.rsqrt()), lambda a: a**-0.5, lambda a: a**0.5,
        (positive(3, 5),)),
    "a bag of words": Refactoring(
        lambda t, e: F.embedding(t, e).mean(1), lambda t, e: F.one_hot(t, 7).float().sum(1) / t.shape[1] @ e,
        lambda t, e: F.one_hot(t, 7).float().amax(1) / t.shape[1] @ e, (TOKENS, real(7, 4)), True),
    "pairs of factors": Refactoring(
        lambda x, v: sum((v[i] @ v[j]) * x[:, i] * x[:, j] for i in range(4) for j in range(i + 1, 4)),
        lambda x, v: 0.5 * ((x @ v).square() - x.square() @ v.square()).sum(-1),
        lambda x, v: 0.5 * (x @ v).square().sum(-1), (real(3, 4), real(4, 2)), True),
    "a covariance": Refactoring(
        lambda x: (x - x.mean(0)).t() @ (x - x.mean(0)) / (x.shape[0] - 1),
        lambda x: (x.t() @ x - x.shape[0] * torch.outer(x.mean(0), x.mean(0))) / (x.shape[0] - 1),
        lambda x: (x.t() @ x - torch.outer(x.mean(0), x.mean(0))) / (x.shape[0] - 1), (real(5, 3),), True),
    "scores of a graph in two parts": Refactoring(
        lambda x, a, b: F.leaky_relu(torch.cat([x[:, None].expand(-1, 5, -1), x[None].expand(5, -1, -1)], -1)
                                     @ torch.cat([a, b]), 0.2).softmax(-1) @ x,
        lambda x, a, b: F.leaky_relu((x @ a)[:, None] + (x @ b)[None], 0.2).softmax(-1) @ x,
        lambda x, a, b: F.leaky_relu((x @ b)[:, None] + (x @ a)[None], 0.2).softmax(-1) @ x,
        (real(5, 3), real(3), real(3)), True),
}  # fmt: skip

ALL = {**ATTENTION, **SCANS}
