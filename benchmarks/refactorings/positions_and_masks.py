"""Positions, masks, experts and images as model authors write them, in two ways, and a near miss of each."""

from __future__ import annotations

import math
from typing import Any

import torch

from benchmarks.refactorings.pairs import F, Function, Refactoring, real

SEQUENCE = real(2, 5, 8)


def causal(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def masked(mask: Function) -> Function:
    """Attention with a mask that is made of the positions of queries and of keys."""

    def function(q: Any, k: Any, v: Any) -> Any:
        places = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask(*places))

    return function


def added_triangle(diagonal: int) -> Function:
    def function(q: Any, k: Any, v: Any) -> Any:
        n = q.shape[-2]
        scores = q @ k.mT / q.shape[-1] ** 0.5 + torch.triu(torch.full((n, n), -math.inf), diagonal)
        return scores.softmax(-1) @ v

    return function


def angles(x: Any, frequencies: Any) -> Any:
    return torch.outer(torch.arange(x.shape[-2]).float(), frequencies)


def by_powers(x: Any, base: float) -> Any:
    d = x.shape[-1]
    return angles(x, 1 / base ** (torch.arange(0, d, 2).float() / d))


def by_exponentials(x: Any, base: float) -> Any:
    d = x.shape[-1]
    return angles(x, torch.exp(torch.arange(0, d, 2).float() * (-math.log(base) / d)))


def rotated(made: Function, base: float) -> Function:
    def function(x: Any) -> Any:
        a = made(x, base)
        first, second = x.chunk(2, -1)
        return torch.cat([first * a.cos() - second * a.sin(), second * a.cos() + first * a.sin()], -1)

    return function


def waves(x: Any) -> Any:
    """The positions of the first transformer, written to every other element."""
    table, a = torch.zeros(x.shape[-2:]), by_exponentials(x, 10000.0)
    table[:, 0::2] = a.sin()
    table[:, 1::2] = a.cos()
    return x + table


def waves_side_by_side(swapped: bool) -> Function:
    def function(x: Any) -> Any:
        a = by_powers(x, 10000.0)
        parts = [a.cos(), a.sin()] if swapped else [a.sin(), a.cos()]
        return x + torch.stack(parts, -1).view(x.shape[-2:])

    return function


def neighbors_written(x: Any) -> Any:
    a, made = by_powers(x, 10000.0), torch.empty_like(x)
    even, odd = x[..., ::2], x[..., 1::2]
    made[..., ::2] = even * a.cos() - odd * a.sin()
    made[..., 1::2] = even * a.sin() + odd * a.cos()
    return made


def neighbors_stacked(sign: int) -> Function:
    def function(x: Any) -> Any:
        a = by_powers(x, 10000.0)
        even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([even * a.cos() - sign * odd * a.sin(), odd * a.cos() + sign * even * a.sin()], -1).flatten(
            -2
        )

    return function


def experts(x: Any, gate: Any, up: Any, down: Any) -> Any:
    hidden = torch.einsum("td,edh->teh", x, up).relu()
    return torch.einsum("te,teh,ehd->td", (x @ gate).softmax(-1), hidden, down)


def experts_in_batches(over: int) -> Function:
    def function(x: Any, gate: Any, up: Any, down: Any) -> Any:
        made = torch.bmm(torch.bmm(x.expand(up.shape[0], -1, -1), up).relu(), down)
        return (made * (x @ gate).softmax(over).t().unsqueeze(-1)).sum(0)

    return function


def windows(x: Any) -> Any:
    b, h, w, c = x.shape
    return x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)


def in_windows(x: Any) -> Any:
    b, h, w, c = x.shape
    part = windows(x)
    made = F.scaled_dot_product_attention(part, part, part)
    return made.view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)


def in_windows_by_einsum(whole: bool) -> Function:
    def function(x: Any) -> Any:
        b, h, w, c = x.shape
        y = x.reshape(b, h // 2, 2, w // 2, 2, c)
        s = torch.einsum("bhiwjc,bhkwlc->bhwijkl", y, y) * c**-0.5
        p = s.flatten(-2).softmax(-1).view_as(s) if whole else s.softmax(-1)
        return torch.einsum("bhwijkl,bhkwlc->bhiwjc", p, y).reshape(b, h, w, c)

    return function


ATTENDED = real(2, 5, 3), real(2, 5, 3), real(2, 5, 3)

ALL: dict[str, Refactoring] = {
    "a triangle that is added": Refactoring(causal, added_triangle(1), added_triangle(2), ATTENDED, True),
    "before or equal": Refactoring(
        causal, masked(lambda q, k: (k < q) | (k == q)), masked(lambda q, k: (k < q) | (k == 0)), ATTENDED, True),
    "before, from not after and unequal": Refactoring(
        masked(lambda q, k: (k < q) | (k == 0)), masked(lambda q, k: ((k <= q) & (k != q)) | (k == 0)),
        masked(lambda q, k: (k <= q) | (k == 0)), ATTENDED, True),
    "a mask by signs": Refactoring(
        causal, masked(lambda q, k: torch.sign(q - k) >= 0), masked(lambda q, k: (torch.sign(q - k) > 0) | (k == 0)),
        ATTENDED, True),
    "frequencies by exponentials": Refactoring(
        rotated(by_powers, 10000.0), rotated(by_exponentials, 10000.0), rotated(by_exponentials, 1000.0),
        (SEQUENCE,), True),
    "frequencies of Llama 3": Refactoring(
        rotated(by_powers, 500000.0), rotated(by_exponentials, 500000.0), rotated(by_exponentials, 50000.0),
        (SEQUENCE,), True),
    "waves of positions": Refactoring(waves, waves_side_by_side(False), waves_side_by_side(True), (SEQUENCE,), True),
    "neighbors rotated in place": Refactoring(
        neighbors_written, neighbors_stacked(1), neighbors_stacked(-1), (SEQUENCE,), True),
    "experts in batches": Refactoring(
        experts, experts_in_batches(-1), experts_in_batches(0),
        (real(5, 4), real(4, 3), real(3, 4, 6), real(3, 6, 4)), True),
    "attention in windows": Refactoring(
        in_windows, in_windows_by_einsum(True), in_windows_by_einsum(False), (real(2, 4, 6, 3),), True),
    "depthwise and pointwise as one": Refactoring(
        lambda x, d, p: F.conv2d(F.conv2d(x, d, groups=3), p), lambda x, d, p: F.conv2d(x, p * d.transpose(0, 1)),
        lambda x, d, p: F.conv2d(x, p * d.transpose(0, 1).mT), (real(2, 3, 5, 5), real(3, 1, 3, 3), real(4, 3, 1, 1)),
        True),
    "a shift of an image, one axis after the other": Refactoring(
        lambda x: torch.roll(x, (1, 2), (1, 2)), lambda x: torch.roll(torch.roll(x, 2, 2), 1, 1),
        lambda x: torch.roll(torch.roll(x, 1, 2), 2, 1), (real(2, 5, 4),)),
    "a variance by pairs": Refactoring(
        lambda x: x.var(-1, correction=0), lambda x: (x[..., :, None] - x[..., None, :]).square().mean((-1, -2)) / 2,
        lambda x: (x[..., :, None] - x[..., None, :]).square().mean((-1, -2)), (real(2, 5),)),
    "a divergence by entropies": Refactoring(
        lambda p, q: _mixed(p, q, 0.5), lambda p, q: _by_entropies(p, q, 0.5), lambda p, q: _by_entropies(p, q, 1.0),
        (real(4, 3), real(4, 3)), True),
}  # fmt: skip


def _mixed(p: Any, q: Any, share: float) -> Any:
    """Jensen and Shannon's divergence."""
    p, q = p.softmax(-1), q.softmax(-1)
    m = (p + q) / 2
    return share * ((p * (p / m).log()).sum(-1) + (q * (q / m).log()).sum(-1))


def _by_entropies(p: Any, q: Any, share: float) -> Any:
    p, q = p.softmax(-1), q.softmax(-1)
    of_mixture, *own = (-(d * d.log()).sum(-1) for d in ((p + q) / 2, p, q))
    return of_mixture - share * sum(own)
