"""Refactorings of whole attention layers, rotations, norms and experts, as authors of models write them."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tests.importers.refactorings import Module, Pairs, Refactoring, Tensors, adding, check, drawn, linear  # noqa: E402

F = torch.nn.functional
nn, real = torch.nn, torch.randn
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
PAIRS: Pairs = {}
pair = adding(PAIRS)


# -- attention layers ----------------------------------------------------------------------------------------------


def heads(a: Any, count: int) -> Any:
    return a.view(*a.shape[:2], count, a.shape[-1] // count).transpose(1, 2)


def joined(a: Any) -> Any:
    return a.transpose(1, 2).contiguous().view(a.shape[0], a.shape[2], -1)


class Attention(nn.Module):
    """Causal self-attention with biases."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(12, 12) for _ in range(4))

    def forward(self, x: Any) -> Any:
        q, k, v = (heads(f(x), 3) for f in (self.q, self.k, self.v))
        return self.o(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class FusedAttention(nn.Module):
    """The same with one projection, and the mask made by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x: Any) -> Any:
        q, k, v = (heads(a, 3) for a in self.qkv(x).split(12, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(torch.tril(torch.ones(x.shape[1], x.shape[1])) == 0, -torch.inf)
        return self.o(joined(F.softmax(scores, dim=-1) @ v))


def separate(of: Tensors, by_heads: bool = False) -> Tensors:
    """The three projections of a fused one, which is said to hold them one after the other, or head by head."""
    found = {"o.weight": of["o.weight"], "o.bias": of["o.bias"]}
    for part, rest in (("weight", (12,)), ("bias", ())):
        whole = of[f"qkv.{part}"].view(3, 3, 4, *rest)
        for name, a in zip("qkv", whole.transpose(0, 1) if by_heads else whole, strict=True):
            found[f"{name}.{part}"] = a.reshape(12, *rest)
    return found


@pair
def attention_layer_with_a_fused_projection() -> Refactoring:
    return Refactoring(Attention(), FusedAttention(), (real(2, 5, 12),), True, separate)


@pair
def attention_layer_with_a_projection_fused_by_heads() -> Refactoring:
    return Refactoring(
        Attention(), FusedAttention(), (real(2, 5, 12),), False, lambda of: separate(of, by_heads=True)
    )  # fmt: skip


class Grouped(nn.Module):
    """Grouped queries, keys and values repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = linear(12, 24), linear(12, 12), linear(12, 12), linear(24, 12)

    def forward(self, x: Any) -> Any:
        q, k, v = heads(self.q(x), 6), heads(self.k(x), 3), heads(self.v(x), 3)
        return self.o(joined(self.attend(q, k, v)))

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        b, h, t, d = k.shape
        k, v = (a[:, :, None].expand(b, h, 2, t, d).reshape(b, 2 * h, t, d) for a in (k, v))
        mask = torch.full((t, t), -torch.inf).triu(diagonal=1)
        weights = F.softmax(q @ k.transpose(2, 3) / math.sqrt(d) + mask, dim=-1, dtype=torch.float32).to(q.dtype)
        return weights @ v


class GroupedByEinsum(Grouped):
    def attend(self, q: Any, k: Any, v: Any) -> Any:
        b, h, t, d = q.shape
        scores = torch.einsum("bkgtd,bksd->bkgts", q.reshape(b, h // 2, 2, t, d), k) * d**-0.5
        weights = scores.masked_fill(~torch.ones(t, t, dtype=torch.bool).tril(), -torch.inf).softmax(-1)
        return torch.einsum("bkgts,bksd->bkgtd", weights, v).reshape(b, h, t, d)


@pair
def grouped_layer_by_einsum() -> Refactoring:
    return Refactoring(Grouped(), GroupedByEinsum(), (real(2, 5, 12),), True)


@pair
def decoding_with_the_causal_flag() -> Refactoring:
    """The flag aligns one query with the first key."""

    def full(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, -1:]

    def last(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q[:, :, -1:], k, v, is_causal=True)

    return Refactoring(full, last, tuple(real(2, 3, 5, 4) for _ in range(3)), False)


def cached(q: Any, k: Any, v: Any, before: Any, values: Any) -> tuple[Any, Any, Any]:
    return q, torch.cat([before, k], 2), torch.cat([values, v], 2)


@pair
def causal_flag_behind_a_cache() -> Refactoring:
    def triangle(*arrays: Any) -> Any:
        q, k, v = cached(*arrays)
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def flag(*arrays: Any) -> Any:
        return F.scaled_dot_product_attention(*cached(*arrays), is_causal=True)

    example = (*(real(2, 3, 5, 4) for _ in range(3)), real(2, 3, 7, 4), real(2, 3, 7, 4))
    return Refactoring(triangle, flag, example, False)


@pair
def mask_multiplied_and_normalized_again() -> Refactoring:
    mask = torch.ones(5, 7, dtype=torch.bool).tril()

    def filled(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return torch.softmax((q @ k.mT).masked_fill(~mask, -torch.inf), -1) @ v

    def multiplied(q: Any, k: Any, v: Any, mask: Any) -> Any:
        weights = torch.softmax(q @ k.mT, -1) * mask.to(q.dtype)
        return (weights / weights.sum(-1, keepdim=True)) @ v

    return Refactoring(filled, multiplied, (real(2, 5, 4), real(2, 7, 4), real(2, 7, 4), mask), True)


# -- rotations -----------------------------------------------------------------------------------------------------


class Rotary(nn.Module):
    """Rotations by angles that are made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rates", 1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8)))

    def angles(self, x: Any, first: int = 0) -> Any:
        return torch.outer(torch.arange(first, first + x.shape[-2], dtype=torch.float32), self.rates)

    def forward(self, x: Any) -> Any:
        angles = torch.cat((self.angles(x), self.angles(x)), dim=-1)
        half = torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)
        return x * angles.cos() + half * angles.sin()


class RotaryByHalves(Rotary):
    sign = 1

    def forward(self, x: Any) -> Any:
        angles, (a, b) = self.angles(x), x.chunk(2, -1)
        sin = self.sign * angles.sin()
        return torch.cat((a * angles.cos() - b * sin, b * angles.cos() + a * sin), -1)


class RotaryBackwards(RotaryByHalves):
    sign = -1


class RotaryInterleaved(Rotary):
    def forward(self, x: Any) -> Any:
        angles, a, b = self.angles(x), x[..., ::2], x[..., 1::2]
        cos, sin = angles.cos(), angles.sin()
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


class RotaryComplex(Rotary):
    def forward(self, x: Any) -> Any:
        angles = self.angles(x)
        turn = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)


for name, before, after, same in (
    ("rotary made inside, by halves", Rotary, RotaryByHalves, True),
    ("rotary backwards", Rotary, RotaryBackwards, False),
    ("rotary by complex numbers", RotaryInterleaved, RotaryComplex, True),
    ("rotary interleaved with the weights of halves", RotaryInterleaved, Rotary, False),
):
    PAIRS[name] = lambda before=before, after=after, same=same: Refactoring(before(), after(), (real(2, 5, 8),), same)


# -- norms, losses, convolutions -----------------------------------------------------------------------------------


@pair
def norm_by_one_plus_its_weight() -> Refactoring:
    def norm(one: int) -> Any:
        return Module(
            lambda m, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (one + m.weight), weight=drawn(6)
        )

    return Refactoring(norm(0), norm(1), (real(2, 3, 6),), True, lambda of: {"weight": 1 + of["weight"]})


@pair
def batch_norm_folded_into_a_linear_layer() -> Refactoring:
    normed = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)).eval()

    def folded(of: Tensors) -> Tensors:
        scale = of["1.weight"] * torch.rsqrt(of["1.running_var"] + 1e-5)
        return {
            "weight": of["0.weight"] * scale[:, None],
            "bias": (of["0.bias"] - of["1.running_mean"]) * scale + of["1.bias"],
        }

    return Refactoring(nn.Linear(4, 5), normed, (real(3, 4),), True, folded)


@pair
def cross_entropy_by_log_softmax() -> Refactoring:
    def by_hand(x: Any, target: Any) -> Any:
        return -F.log_softmax(x, -1).gather(1, target.unsqueeze(1)).squeeze(1).mean()

    return Refactoring(F.cross_entropy, by_hand, (real(5, 6), torch.tensor([0, 3, 5, 1, 2])), True)


@pair
def convolution_by_unfolding() -> Refactoring:
    def unfolded(m: Any, x: Any) -> Any:
        columns = F.unfold(x, 2, stride=2)
        return (m.weight.flatten(1) @ columns).view(x.shape[0], 5, x.shape[2] // 2, x.shape[3] // 2)

    direct = Module(lambda m, x: F.conv2d(x, m.weight, stride=2), weight=drawn(5, 3, 2, 2))
    return Refactoring(direct, Module(unfolded, weight=drawn(5, 3, 2, 2)), (real(2, 3, 6, 8),), True)


def depthwise(order: int) -> Any:
    def shifted(m: Any, x: Any) -> Any:
        total = m.bias[:, None]
        for k in range(4):
            before = 3 - k if order > 0 else k
            total = total + F.pad(x, (before, 0))[..., : x.shape[-1]] * m.weight[:, 0, k, None]
        return total

    return Module(shifted, weight=drawn(3, 1, 4), bias=drawn(3))


@pair
def causal_convolution_by_shifts() -> Refactoring:
    direct = nn.Sequential(nn.ConstantPad1d((3, 0), 0.0), nn.Conv1d(3, 3, 4, groups=3))
    return Refactoring(
        depthwise(1), direct, (real(2, 3, 7),), True,
        lambda of: {"weight": of["1.weight"], "bias": of["1.bias"]},
    )  # fmt: skip


@pair
def causal_convolution_with_its_taps_reversed() -> Refactoring:
    return Refactoring(depthwise(1), depthwise(-1), (real(2, 3, 7),), False)


@pytest.mark.parametrize("name", PAIRS)
def test_a_refactoring_is_proved_or_refuted(name: str) -> None:
    torch.manual_seed(0)
    check(PAIRS[name]())
