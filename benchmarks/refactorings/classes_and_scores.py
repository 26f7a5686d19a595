"""Classes, functions of scores, complex numbers and adapters as authors write them, in two ways, and a near miss."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn.attention.flex_attention import flex_attention

from benchmarks.refactorings.pairs import F, Function, Refactoring, real, whole
from benchmarks.refactorings.positions_and_masks import causal, masked

QKV = (real(2, 5, 4), real(2, 5, 4), real(2, 5, 6))
HEADS = tuple(real(1, 3, 5, 16) for _ in range(3))


def scored(score: Function) -> Function:
    return lambda q, k, v: flex_attention(q, k, v, score_mod=score)


def with_bias(slope: float) -> Function:
    """Attention whose scores fall with the distance, by head."""

    def function(q: Any, k: Any, v: Any) -> Any:
        at, heads = torch.arange(q.shape[-2]), torch.arange(q.shape[1])
        bias = (at[None] - at[:, None]) * slope ** (heads + 1)[:, None, None]
        return (q @ k.mT / math.sqrt(q.shape[-1]) + bias).softmax(-1) @ v

    return function


def in_documents(inside: Function) -> Function:
    """Attention in documents, by functions of scores."""

    def function(q: Any, k: Any, v: Any, of: Any) -> Any:
        return flex_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: torch.where(inside(of[b, i], of[b, j]) & (j <= i), s, -math.inf)
        )

    return function


def in_documents_by_mask(q: Any, k: Any, v: Any, of: Any) -> Any:
    mask = (of[:, :, None] == of[:, None])[:, None] & torch.ones(5, 5).tril().bool()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def rotated(x: Any, angles: Any) -> Any:
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    c, s = angles.cos(), angles.sin()
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


def rotated_by_powers(sign: float) -> Function:
    def function(x: Any, angles: Any) -> Any:
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.exp(sign * 1j * angles)
        return torch.view_as_real(turned).flatten(-2)

    return function


def kernel_of_states(c: Any, d: Any, decay: Any, turn: Any, t: Any) -> Any:
    """The kernel of a diagonal state space, by complex numbers."""
    powers = torch.exp(torch.complex(decay, turn)[:, None] * t)
    return torch.einsum("n,nl->l", torch.complex(c, d), powers).real


def kernel_by_sines(sign: float) -> Function:
    def function(c: Any, d: Any, decay: Any, turn: Any, t: Any) -> Any:
        at = turn[:, None] * t
        return (torch.exp(decay[:, None] * t) * (c[:, None] * at.cos() - sign * d[:, None] * at.sin())).sum(0)

    return function


def adapted(x: Any, w: Any, down: Any, up: Any, size: Any) -> Any:
    """An adapter with magnitudes."""
    v = w + up @ down
    return F.linear(x, size[:, None] * v / v.norm(dim=1, keepdim=True))


def adapted_behind(power: float) -> Function:
    def function(x: Any, w: Any, down: Any, up: Any, size: Any) -> Any:
        v = w + up @ down
        return (F.linear(x, w) + F.linear(F.linear(x, down), up)) * (size / v.pow(2).sum(1) ** power)

    return function


def best_expert(x: Any, router: Any, w: Any) -> Any:
    return torch.einsum("tm,tmn->tn", x, w[(x @ router).argmax(-1)])


def best_expert_in_a_loop(choose: Function) -> Function:
    def function(x: Any, router: Any, w: Any) -> Any:
        at, y = choose(x @ router), torch.zeros_like(x[:, :1])
        for e in range(w.shape[0]):
            y = y + torch.where((at == e)[:, None], x @ w[e], 0.0)
        return y

    return function


def of_groups(x: Any, w: Any, b: Any) -> Any:
    return F.group_norm(x, 2, w, b)


def of_groups_by_batches(x: Any, w: Any, b: Any) -> Any:
    group = x.shape[1] // 2 * x.shape[2] * x.shape[3]
    normal = F.batch_norm(x.reshape(1, -1, group), None, None, training=True)
    return normal.reshape(x.shape) * w[:, None, None] + b[:, None, None]


def of_alternating_groups(x: Any, w: Any, b: Any) -> Any:
    y = x.unflatten(1, (-1, 2))
    middle, spread = y.mean((1, 3, 4), keepdim=True), y.var((1, 3, 4), correction=0, keepdim=True)
    return ((y - middle) * torch.rsqrt(spread + 1e-5)).view_as(x) * w[:, None, None] + b[:, None, None]


def in_parts_of_classes(x: Any) -> Any:
    both = torch.logaddexp(x[:, :4].logsumexp(-1, keepdim=True), x[:, 4:].logsumexp(-1, keepdim=True))
    return torch.cat([x[:, :4] - both, x[:, 4:] - both], -1)


def lengths(compare: Function) -> Function:
    """A softmax over rows of given lengths."""
    return lambda x, n: x.masked_fill(~compare(torch.arange(x.shape[1])[None], n[:, None]), -math.inf).softmax(-1)


CLASSES, TABLE = whole(5, 3, 4), real(5, 6)
ALL: dict[str, Refactoring] = {
    "a causal function of scores": Refactoring(
        scored(lambda s, b, h, i, j: torch.where(j <= i, s, -math.inf)), causal,
        scored(lambda s, b, h, i, j: torch.where(j <= i + 1, s, -math.inf)), HEADS),
    "a bias as a function of scores": Refactoring(
        scored(lambda s, b, h, i, j: s + (j - i) * 0.5 ** (h + 1)), with_bias(0.5), with_bias(0.25), HEADS),
    "documents as a function of scores": Refactoring(
        in_documents(lambda a, c: a == c), in_documents_by_mask, in_documents(lambda a, c: a >= c),
        (*HEADS, whole(3, 1, 5))),
    "a rotation by powers of e": Refactoring(
        rotated, rotated_by_powers(1.0), rotated_by_powers(-1.0), (real(2, 5, 8), real(5, 4))),
    "the kernel of a state space": Refactoring(
        kernel_of_states, kernel_by_sines(1.0), kernel_by_sines(-1.0),
        (real(3), real(3), real(3), real(3), torch.arange(6.0))),
    "magnitudes behind an adapter": Refactoring(
        adapted, adapted_behind(0.5), adapted_behind(1.0),
        (real(2, 5, 6), real(7, 6), real(4, 6), real(7, 4), real(7))),
    "the best expert, in a loop": Refactoring(
        best_expert, best_expert_in_a_loop(lambda a: a.argmax(-1)), best_expert_in_a_loop(lambda a: a.argmin(-1)),
        (real(5, 6), real(6, 3), real(3, 6, 4)), True),
    "the best expert by classes": Refactoring(
        best_expert,
        lambda x, r, w: torch.einsum("te,tm,emn->tn", F.one_hot((x @ r).argmax(-1), 3).to(x.dtype), x, w),
        lambda x, r, w: torch.einsum("te,tm,emn->tn", F.one_hot((x @ r).argmin(-1), 3).to(x.dtype), x, w),
        (real(5, 6), real(6, 3), real(3, 6, 4))),
    "products by classes as rows": Refactoring(
        lambda i, t: F.one_hot(i, 5).to(t.dtype) @ t, lambda i, t: F.embedding(i, t), lambda i, t: t[4 - i],
        (CLASSES, TABLE)),
    "a class by comparison": Refactoring(
        lambda i: F.one_hot(i, 5), lambda i: (i[..., None] == torch.arange(5)).long(),
        lambda i: (i[..., None] >= torch.arange(5)).long(), (CLASSES,)),
    "elements by classes": Refactoring(
        lambda x, i: (x[:, None] * F.one_hot(i, 5)).sum(-1), lambda x, i: x.gather(1, i),
        lambda x, i: x.gather(1, i.flip(1)), (real(3, 5), whole(5, 3, 2))),
    "sums of segments": Refactoring(
        lambda x, s: F.one_hot(s, 4).to(x.dtype).T @ x, lambda x, s: torch.zeros(4, 6).index_add(0, s, x),
        lambda x, s: torch.zeros(4, 6).index_add(0, 3 - s, x), (real(5, 6), whole(4, 5))),
    "the same class, by products": Refactoring(
        lambda s: torch.einsum("ba,ca->bc", F.one_hot(s, 4).float(), F.one_hot(s, 4).float()),
        lambda s: (s[:, None] == s[None]).float(), lambda s: (s[:, None] >= s[None]).float(), (whole(4, 5),)),
    "an entropy by classes": Refactoring(
        lambda a, t: -(F.one_hot(t, 7) * a.log_softmax(-1)).sum(-1).mean(), lambda a, t: F.cross_entropy(a, t),
        lambda a, t: F.cross_entropy(a, t, reduction="sum"), (real(4, 7), whole(7, 4))),
    "before, by the later of two": Refactoring(
        masked(lambda i, j: j <= i), masked(lambda i, j: torch.maximum(i, j) == i),
        masked(lambda i, j: torch.maximum(i, j) == j), QKV),
    "before, by what is left of a difference": Refactoring(
        masked(lambda i, j: j <= i), masked(lambda i, j: F.relu((j - i).float()) == 0),
        masked(lambda i, j: F.relu((i - j).float()) == 0), QKV),
    "a band by distances": Refactoring(
        masked(lambda i, j: (i - j < 3) & (j - i < 3)), masked(lambda i, j: (i - j).abs() < 3),
        masked(lambda i, j: (i - j).abs() <= 3), QKV, True),
    "a band by a clamp": Refactoring(
        masked(lambda i, j: (i - j >= 0) & (i - j < 3)), masked(lambda i, j: (i - j).clamp(0, 2) == i - j),
        masked(lambda i, j: (i - j).clamp(0, 3) == i - j), QKV, True),
    "blocks by remainders": Refactoring(
        masked(lambda i, j: i // 2 == j // 2), masked(lambda i, j: i - i % 2 == j - j % 2),
        masked(lambda i, j: i - i % 2 <= j - j % 2), QKV),
    "rows of given lengths": Refactoring(
        lengths(lambda j, n: j < n), lengths(lambda j, n: ~(j >= n)), lengths(lambda j, n: j <= n),
        (real(2, 7), torch.tensor([3, 5]))),
    "rows up to the last one": Refactoring(
        lengths(lambda j, n: j < n), lengths(lambda j, n: j <= n - 1), lengths(lambda j, n: j <= n),
        (real(2, 7), torch.tensor([3, 5])), True),
    "a group norm by a batch norm": Refactoring(
        of_groups, of_groups_by_batches, of_alternating_groups, (real(2, 6, 3, 5), real(6), real(6))),
    "logarithms in parts of classes": Refactoring(
        lambda x: x.log_softmax(-1), in_parts_of_classes,
        lambda x: torch.cat([x[:, :4].log_softmax(-1), x[:, 4:].log_softmax(-1)], -1), (real(3, 10),)),
    "a quotient that may be one by 0": Refactoring(
        lambda a, b: torch.where(b == 0, 0.0, a / torch.where(b == 0, 1.0, b)),
        lambda a, b: torch.where(b == 0, torch.zeros_like(a), a / b),
        lambda a, b: torch.where(b == 0, torch.ones_like(a), a / b), (real(3, 4), real(3, 4))),
}  # fmt: skip
