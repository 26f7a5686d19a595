"""Rotated positions, caches and running states as several libraries write them, and a near miss of each."""

from __future__ import annotations

import math
from typing import Any

import torch

from benchmarks.refactorings.attention_of_libraries import HEADS, INF, SQUARE, split
from benchmarks.refactorings.pairs import F, Function, Refactoring, attend, positive, real

# -- rotations ------------------------------------------------------------------------------------------------------


def angles_of(x: Any, frequencies: Any, first: int = 0) -> Any:
    return torch.outer(torch.arange(first, first + x.shape[1]).float(), frequencies)


def rotate_half(x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def rotated_scores(x: Any, q: Any, k: Any, frequencies: Any) -> Any:
    """Llama's rotation, as transformers has it: two equal halves of cosines."""
    twice = torch.cat((angles_of(x, frequencies),) * 2, -1)
    queries, keys = (rotate_half(split(x, w, 8), twice.cos(), twice.sin()) for w in (q, k))
    return queries @ keys.mT


def scores_in_halves(sign: int) -> Function:
    def function(x: Any, q: Any, k: Any, frequencies: Any) -> Any:
        angles = torch.einsum("i,j->ij", torch.arange(x.shape[1]).float(), frequencies)
        cos, sin = angles.cos(), angles.sin()

        def rotated(a: Any) -> Any:
            one, two = a.chunk(2, -1)
            return torch.cat([one * cos - two * sin, two * cos + sign * one * sin], -1)

        return rotated(split(x, q, 8)) @ rotated(split(x, k, 8)).transpose(-1, -2)

    return function


def scores_by_complex_numbers(permuted: bool) -> Function:
    """Meta's rotation of neighbors, with weights whose rows are permuted, or not."""

    def function(x: Any, q: Any, k: Any, frequencies: Any) -> Any:
        if permuted:
            q, k = (w.view(-1, 2, 4, w.shape[1]).transpose(1, 2).reshape(w.shape) for w in (q, k))
        angles = angles_of(x, frequencies)
        turns = torch.polar(torch.ones_like(angles), angles)[None, :, None]

        def rotated(a: Any) -> Any:
            pairs = torch.view_as_complex(a.float().reshape(*a.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turns).flatten(3).type_as(a).transpose(1, 2)

        return rotated(split(x, q, 8).transpose(1, 2)) @ rotated(split(x, k, 8).transpose(1, 2)).mT

    return function


def shifted_scores(keys: int) -> Function:
    """Positions of queries and of keys that count from another number, as behind a cache."""

    def function(x: Any, q: Any, k: Any, frequencies: Any) -> Any:
        def rotated(w: Any, first: int) -> Any:
            twice = torch.cat((angles_of(x, frequencies, first),) * 2, -1)
            return rotate_half(split(x, w, 8), twice.cos(), twice.sin())

        return rotated(q, 3) @ rotated(k, keys).mT

    return function


def partly_rotated(x: Any, cos: Any, sin: Any) -> Any:
    """GPT-NeoX rotates the first elements of each head, and passes the others."""
    turned, passed = x[..., :4], x[..., 4:]
    return torch.cat((rotate_half(turned, cos, sin), passed), -1)


def partly_by_one_and_zero(first: bool) -> Function:
    """A rotation by 0 of what is passed."""

    def function(x: Any, cos: Any, sin: Any) -> Any:
        a, b, passed = x.split((2, 2, 3), -1) if first else (x[..., 2:4], x[..., :2], x[..., 4:])
        c, s = cos[:, :2], sin[:, :2]
        d, t = cos[:, 2:], sin[:, 2:]
        return torch.cat((a * c - b * s, b * d + a * t, passed), -1)

    return function


def rotated_by_matrix(transposed: bool) -> Function:
    def function(x: Any, angles: Any) -> Any:
        rows = torch.stack((angles.cos(), -angles.sin(), angles.sin(), angles.cos()), -1).unflatten(-1, (2, 2))
        letters = "tfdc,btfd->btfc" if transposed else "tfcd,btfd->btfc"
        return torch.einsum(letters, rows, x.unflatten(-1, (-1, 2))).flatten(-2)

    return function


def rotated_neighbors(x: Any, angles: Any) -> Any:
    """GPT-J's rotation: strided slices, joined again."""
    a, b = x[..., ::2], x[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


ROTATED = real(2, 5, 9), real(24, 9), real(24, 9), positive(4)
ROTATIONS: dict[str, Refactoring] = {
    "Llama's rotation in halves": Refactoring(rotated_scores, scores_in_halves(1), scores_in_halves(-1), ROTATED, True),
    "Llama's rotation by complex numbers": Refactoring(
        rotated_scores, scores_by_complex_numbers(True), scores_by_complex_numbers(False), ROTATED, True),
    "a rotation of shifted positions": Refactoring(
        rotated_scores, shifted_scores(3), shifted_scores(2), ROTATED, True),
    "a rotation of some elements": Refactoring(
        partly_rotated, partly_by_one_and_zero(True), partly_by_one_and_zero(False),
        (real(2, 5, 7), real(5, 4), real(5, 4))),
    "a rotation by matrices": Refactoring(
        rotated_neighbors, rotated_by_matrix(False), rotated_by_matrix(True), (real(2, 5, 8), real(5, 4))),
}  # fmt: skip


# -- in parts: caches, merged halves, running sums ------------------------------------------------------------------


def causal(q: Any, k: Any, v: Any) -> Any:
    return attend(q, k, v, is_causal=True)


def in_chunks(aligned: bool) -> Function:
    """Two chunks of queries, the second one behind a cache of the first one's keys."""

    def function(q: Any, k: Any, v: Any) -> Any:
        first = attend(q[:, :, :2], k[:, :, :2], v[:, :, :2], is_causal=True)
        seen = torch.ones(3, 5, dtype=torch.bool).tril(2 if aligned else 0)
        return torch.cat([first, attend(q[:, :, 2:], k, v, seen)], 2)

    return function


def merged(weighted: bool) -> Function:
    """Attention to two parts of the keys, merged by the logarithms of their sums."""

    def function(q: Any, k: Any, v: Any) -> Any:
        parts = [q @ part.mT / math.sqrt(q.shape[-1]) for part in (k[:, :, :3], k[:, :, 3:])]
        outs = [s.softmax(-1) @ part for s, part in zip(parts, (v[:, :, :3], v[:, :, 3:]), strict=True)]
        logs = torch.stack([s.logsumexp(-1) for s in parts])
        weights = logs.softmax(0) if weighted else torch.full_like(logs, 0.5)
        return (weights[..., None] * torch.stack(outs)).sum(0)

    return function


def appended(q: Any, k: Any, v: Any, key: Any, value: Any) -> Any:
    """One token behind a cache."""
    return attend(q, torch.cat([k, key], 2), torch.cat([v, value], 2))


def by_parts(scaled: bool) -> Function:
    def function(q: Any, k: Any, v: Any, key: Any, value: Any) -> Any:
        root = math.sqrt(q.shape[-1])
        old, new = (q @ k.mT / root).exp(), (q @ key.mT / (root if scaled else 1.0)).exp()
        return (old @ v + new * value) / (old.sum(-1, keepdim=True) + new)

    return function


def causal_linear(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT).tril() @ v


def by_running_state(inclusive: bool) -> Function:
    def function(q: Any, k: Any, v: Any) -> Any:
        states = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
        states = states if inclusive else F.pad(states, (0, 0, 0, 0, 1, 0))[:, :, :-1]
        return torch.einsum("bhtd,bhtde->bhte", q, states)

    return function


def retained(q: Any, k: Any, v: Any, decay: Any) -> Any:
    """RetNet: scores decay with the distance."""
    at = torch.arange(q.shape[2])
    apart = (at[:, None] - at).float()
    return ((q @ k.mT) * torch.exp(decay[:, None, None] * apart).tril()) @ v


def decayed_apart(sign: int) -> Function:
    """The decay as a factor of queries and one of keys."""

    def function(q: Any, k: Any, v: Any, decay: Any) -> Any:
        powers = torch.exp(decay[:, None] * torch.arange(q.shape[2]).float())[..., None]
        return ((q * powers) @ (k * powers**sign).mT).tril() @ v

    return function


def segment_sums(x: Any, log_decay: Any) -> Any:
    """Mamba-2's decays: of all between two positions, by differences of running sums."""
    total = log_decay.cumsum(-1)
    return torch.exp(total[..., :, None] - total[..., None, :]).tril() @ x


def masked_sums(first: int) -> Function:
    """The same by a running sum of a masked square."""

    def function(x: Any, log_decay: Any) -> Any:
        t = log_decay.shape[-1]
        each = log_decay[..., None].expand(*log_decay.shape, t)
        lower = torch.ones(t, t, dtype=torch.bool)
        sums = each.masked_fill(~lower.tril(first), 0).cumsum(-2).masked_fill(~lower.tril(), -INF)
        return torch.exp(sums) @ x

    return function


PARTS: dict[str, Refactoring] = {
    "chunks of queries behind a cache": Refactoring(causal, in_chunks(True), in_chunks(False), SQUARE, True),
    "two parts of the keys, merged": Refactoring(attend, merged(True), merged(False), HEADS, True),
    "a token behind a cache": Refactoring(
        appended, by_parts(True), by_parts(False),
        (real(2, 3, 1, 4), *HEADS[1:], real(2, 3, 1, 4), real(2, 3, 1, 6))),
    "causal linear attention by a running state": Refactoring(
        causal_linear, by_running_state(True), by_running_state(False), SQUARE),
    "a decay with the distance, in two factors": Refactoring(
        retained, decayed_apart(-1), decayed_apart(1), (*SQUARE, positive(3))),
    "decays by differences of running sums": Refactoring(
        segment_sums, masked_sums(-1), masked_sums(0), (real(2, 5, 4), real(2, 5))),
}  # fmt: skip

ALL = {**ROTATIONS, **PARTS}
