"""Refactorings of attention and of positions: proved equal for all sizes, or told apart by numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tests.importers.refactorings import Module, Pairs, Refactoring, Tensors, adding, check, linear  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
real = torch.randn
PAIRS: Pairs = {}
pair = adding(PAIRS)


def heads(a: Any, count: int) -> Any:
    return a.unflatten(-1, (count, a.shape[-1] // count)).transpose(1, 2)


def joined(a: Any) -> Any:
    return a.transpose(1, 2).flatten(2)


# -- attention ---------------------------------------------------------------------------------------------------


def by_hand(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, -1) @ v


def qkv(queries: int = 5, keys: int = 7) -> tuple[Any, Any, Any]:
    return real(2, 3, queries, 4), real(2, 3, keys, 4), real(2, 3, keys, 6)


@pair
def fused_projections() -> Refactoring:
    separate = Module(
        lambda m, x: joined(by_hand(*(heads(f(x), 3) for f in (m.q, m.k, m.v)))),
        q=linear(12, 12), k=linear(12, 12), v=linear(12, 12),
    )  # fmt: skip
    fused = Module(lambda m, x: joined(by_hand(*(heads(a, 3) for a in m.qkv(x).chunk(3, -1)))), qkv=linear(12, 36))
    return Refactoring(
        separate, fused, (real(2, 5, 12),), True,
        lambda of: dict(zip(("q.weight", "k.weight", "v.weight"), of["qkv.weight"].chunk(3, 0), strict=True)),
    )  # fmt: skip


@pair
def fused_projections_with_keys_and_values_swapped() -> Refactoring:
    found = fused_projections()
    names = ("q.weight", "v.weight", "k.weight")
    return Refactoring(
        found.before, found.after, found.example, False,
        lambda of: dict(zip(names, of["qkv.weight"].chunk(3, 0), strict=True)),
    )  # fmt: skip


@pair
def attention_by_hand_and_fused() -> Refactoring:
    return Refactoring(by_hand, F.scaled_dot_product_attention, qkv(), True)


@pair
def attention_scaled_by_the_values_width() -> Refactoring:
    def other(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(v.shape[-1]), -1) @ v

    return Refactoring(by_hand, other, qkv(), False)


@pair
def scale_on_the_queries() -> Refactoring:
    def other(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1), -1) @ v

    return Refactoring(by_hand, other, qkv(), True)


@pair
def scale_on_queries_and_on_keys() -> Refactoring:
    def other(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax((q / 4**0.25) @ (k / 4**0.25).transpose(-2, -1), -1) @ v

    return Refactoring(lambda q, k, v: torch.softmax(q @ k.mT / 2, -1) @ v, other, qkv(), True)


@pair
def causal_mask_as_infinities_or_as_a_flag() -> Refactoring:
    def filled(q: Any, k: Any, v: Any) -> Any:
        n = q.shape[-2]
        later = torch.triu(torch.full((n, n), -torch.inf, dtype=q.dtype), 1)
        return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + later, -1) @ v

    def flagged(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Refactoring(filled, flagged, qkv(5, 5), True)


@pair
def causal_mask_that_hides_the_token_itself() -> Refactoring:
    def filled(q: Any, k: Any, v: Any) -> Any:
        n = q.shape[-2]
        return by_hand(q, k, v, torch.ones(n, n, dtype=torch.bool).tril(1))

    def flagged(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Refactoring(filled, flagged, qkv(5, 5), False)


@pair
def mask_of_keys_as_where_or_as_sum() -> Refactoring:
    def where(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = torch.where(mask[:, None, None], q @ k.mT, -torch.inf)
        return torch.softmax(scores, -1) @ v

    def added(q: Any, k: Any, v: Any, mask: Any) -> Any:
        bias = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, bias[:, None, None], scale=1.0)

    return Refactoring(where, added, (*qkv(), torch.tensor([[True] * 7, [True] * 4 + [False] * 3])), True)


@pair
def large_negative_number_for_infinity() -> Refactoring:
    mask = torch.ones(5, 7, dtype=torch.bool).tril()

    def filled(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return torch.softmax((q @ k.mT).masked_fill(~mask, -1e9), -1) @ v

    def infinite(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return torch.softmax((q @ k.mT).masked_fill(~mask, -torch.inf), -1) @ v

    return Refactoring(filled, infinite, (*qkv(), mask), False)


@pair
def grouped_queries_by_repeating_or_by_einsum() -> Refactoring:
    def repeated(q: Any, k: Any, v: Any) -> Any:
        return by_hand(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))

    def grouped(q: Any, k: Any, v: Any) -> Any:
        scores = torch.einsum("bkrqd,bkxd->bkrqx", q.unflatten(1, (3, 2)), k) / math.sqrt(q.shape[-1])
        return torch.einsum("bkrqx,bkxe->bkrqe", scores.softmax(-1), v).flatten(1, 2)

    return Refactoring(repeated, grouped, (real(2, 6, 5, 4), *qkv()[1:]), True)


@pair
def grouped_queries_by_tiling() -> Refactoring:
    def repeated(q: Any, k: Any, v: Any) -> Any:
        return by_hand(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))

    def tiled(q: Any, k: Any, v: Any) -> Any:
        return by_hand(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))

    return Refactoring(repeated, tiled, (real(2, 6, 5, 4), *qkv()[1:]), False)


@pair
def causal_mask_behind_a_cache() -> Refactoring:
    """The last queries of a longer sequence of keys."""

    def positions(q: Any, k: Any, v: Any) -> Any:
        row, column = torch.arange(5)[:, None] + 4, torch.arange(9)[None]
        return by_hand(q, k, v, column <= row)

    def triangle(q: Any, k: Any, v: Any) -> Any:
        return by_hand(q, k, v, torch.ones(5, 9, dtype=torch.bool).tril(4))

    return Refactoring(positions, triangle, qkv(5, 9), True)


@pair
def causal_mask_without_the_caches_offset() -> Refactoring:
    found = causal_mask_behind_a_cache()

    def triangle(q: Any, k: Any, v: Any) -> Any:
        return by_hand(q, k, v, torch.ones(5, 9, dtype=torch.bool).tril())

    return Refactoring(found.before, triangle, found.example, False)


@pair
def causal_mask_of_least_numbers() -> Refactoring:
    """A mask of the least number of the type, as models of transformers make it."""

    def filled(q: Any, k: Any, v: Any) -> Any:
        scores, at = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), torch.arange(q.shape[-2])
        return torch.softmax(scores.masked_fill(at[None] > at[:, None], torch.finfo(q.dtype).min), -1) @ v

    return Refactoring(filled, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), qkv(5, 5), True)


def windowed(reach: int) -> Callable[..., Any]:
    def window(q: Any, k: Any, v: Any) -> Any:
        row, column = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None]
        return by_hand(q, k, v, (column <= row) & (row - column < reach))

    return window


@pair
def sliding_window() -> Refactoring:
    def band(q: Any, k: Any, v: Any) -> Any:
        ones = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        return by_hand(q, k, v, ones.tril() & ones.triu(-2))

    return Refactoring(windowed(3), band, qkv(6, 6), True)


@pair
def sliding_window_off_by_one() -> Refactoring:
    return Refactoring(windowed(3), windowed(4), qkv(6, 6), False)


def with_linear_bias(distance: Callable[[Any, Any], Any], last: int = 0) -> Callable[..., Any]:
    """A bias by the distance of positions (ALiBi), over keys up to the query's position."""

    def attention(q: Any, k: Any, v: Any, slope: Any) -> Any:
        at = torch.arange(q.shape[-2])
        bias = slope[:, None, None] * distance(at[:, None], at[None]).to(q.dtype)
        scores = (q @ k.mT + bias).masked_fill(at[None] > at[:, None] + last, -torch.inf)
        return torch.softmax(scores, -1) @ v

    return attention


@pair
def linear_bias_by_the_keys_position() -> Refactoring:
    by_distance = with_linear_bias(lambda q, k: -(q - k).abs())
    return Refactoring(by_distance, with_linear_bias(lambda q, k: k), (*qkv(5, 5), real(3)), True)


@pair
def linear_bias_by_the_keys_position_under_a_later_mask() -> Refactoring:
    by_distance = with_linear_bias(lambda q, k: -(q - k).abs(), 1)
    return Refactoring(by_distance, with_linear_bias(lambda q, k: k, 1), (*qkv(5, 5), real(3)), False)


@pair
def softmax_by_powers_of_two() -> Refactoring:
    def powers(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-2, -1) * (math.log2(math.e) / math.sqrt(q.shape[-1]))
        weights = torch.exp2(scores - scores.amax(-1, keepdim=True))
        return (weights @ v) / weights.sum(-1, keepdim=True)

    return Refactoring(by_hand, powers, qkv(), True)


@pair
def softmax_by_powers_of_two_without_a_factor() -> Refactoring:
    def powers(a: Any) -> Any:
        weights = torch.exp2(a - a.amax(-1, keepdim=True))
        return weights / weights.sum(-1, keepdim=True)

    return Refactoring(lambda a: a.softmax(-1), powers, (real(3, 5),), False)


@pair
def cross_attention_with_projections_absorbed() -> Refactoring:
    """Keys are never made: their projection is applied to the queries."""
    made = Module(lambda m, q, c: torch.softmax(q @ m.k(c).mT, -1) @ m.v(c), k=linear(6, 4), v=linear(6, 3))
    absorbed = Module(
        lambda m, q, c: F.linear(torch.softmax((q @ m.k.weight) @ c.mT, -1) @ c, m.v.weight),
        k=linear(6, 4), v=linear(6, 3),
    )  # fmt: skip
    return Refactoring(made, absorbed, (real(2, 5, 4), real(2, 7, 6)), True)


# -- positions ---------------------------------------------------------------------------------------------------


def halves(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def interleaved(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


@pair
def rotary_by_halves_or_interleaved_with_permuted_weights() -> Refactoring:
    def scores(rotate: Any) -> Any:
        return Module(
            lambda m, x, cos, sin: rotate(m.q(x), cos, sin) @ rotate(m.k(x), cos, sin).mT,
            q=linear(5, 8),
            k=linear(5, 8),
        )

    def permuted(of: Tensors) -> Tensors:
        return {name: w.unflatten(0, (4, 2)).transpose(0, 1).flatten(0, 1) for name, w in of.items()}

    return Refactoring(scores(halves), scores(interleaved), (real(2, 7, 5), real(7, 4), real(7, 4)), True, permuted)


@pair
def rotary_by_halves_or_interleaved_with_the_same_weights() -> Refactoring:
    found = rotary_by_halves_or_interleaved_with_permuted_weights()
    return Refactoring(found.before, found.after, found.example, False)


@pair
def rotary_by_rotating_half() -> Refactoring:
    def rotated(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.chunk(2, -1)
        return x * torch.cat([cos, cos], -1) + torch.cat([-b, a], -1) * torch.cat([sin, sin], -1)

    return Refactoring(halves, rotated, (real(2, 7, 8), real(7, 4), real(7, 4)), True)


@pair
def rotary_with_the_sign_on_the_other_half() -> Refactoring:
    def rotated(x: Any, cos: Any, sin: Any) -> Any:
        a, b = x.chunk(2, -1)
        return x * torch.cat([cos, cos], -1) + torch.cat([b, -a], -1) * torch.cat([sin, sin], -1)

    return Refactoring(halves, rotated, (real(2, 7, 8), real(7, 4), real(7, 4)), False)


def rotated_scores(queries: int, keys: int) -> Callable[..., Any]:
    """Scores of queries and keys that are rotated by their positions, which begin at these."""

    def scores(q: Any, k: Any, frequencies: Any) -> Any:
        at = torch.arange(q.shape[-2]).to(q.dtype)[:, None]
        rows, columns = (at + queries) * frequencies, (at + keys) * frequencies
        return halves(q, rows.cos(), rows.sin()) @ halves(k, columns.cos(), columns.sin()).mT

    return scores


@pytest.mark.parametrize(("offsets", "same"), [((3, 3), True), ((7, 7), True), ((3, 2), False)])
def test_rotary_scores_depend_on_the_distance(offsets: tuple[int, int], same: bool) -> None:
    example = real(2, 5, 4), real(2, 5, 4), real(2)
    check(Refactoring(rotated_scores(0, 0), rotated_scores(*offsets), example, same))


@pytest.mark.parametrize("name", PAIRS)
def test_a_refactoring_is_proved_or_refuted(name: str) -> None:
    torch.manual_seed(0)
    check(PAIRS[name]())
