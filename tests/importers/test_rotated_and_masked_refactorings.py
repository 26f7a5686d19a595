"""Attention layers with rotated queries, masks and buckets, as two libraries write them: proved, or told apart."""

from __future__ import annotations

import math
from typing import Any

import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
from tests.importers.refactorings import Pairs, Refactoring, Tensors, adding, check, linear  # noqa: E402

F = torch.nn.functional
nn, real = torch.nn, torch.randn
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
PAIRS: Pairs = {}
pair = adding(PAIRS)
HEADS, KV, WIDTH, MODEL = 4, 2, 8, 16


# -- rotations -----------------------------------------------------------------------------------------------------


class Rotated(nn.Module):
    """Grouped queries with a rotation of halves, by `rotate_half`, and heads of keys that are expanded."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.o = linear(MODEL, HEADS * WIDTH), linear(HEADS * WIDTH, MODEL)
        self.k, self.v = linear(MODEL, KV * WIDTH), linear(MODEL, KV * WIDTH)
        self.register_buffer("inv_freq", 1.0 / (10000.0 ** (torch.arange(0, WIDTH, 2).float() / WIDTH)))

    def projected(self, x: Any) -> tuple[Any, Any, Any]:
        split = [f(x).view(*x.shape[:2], -1, WIDTH).transpose(1, 2) for f in (self.q, self.k, self.v)]
        return split[0], split[1], split[2]

    def forward(self, x: Any) -> Any:
        q, k, v = self.projected(x)
        angles = torch.outer(torch.arange(x.shape[1]).float(), self.inv_freq)
        twice = torch.cat((angles, angles), -1)

        def rotated(a: Any) -> Any:
            half = a.shape[-1] // 2
            return a * twice.cos() + torch.cat((-a[..., half:], a[..., :half]), -1) * twice.sin()

        def expanded(a: Any) -> Any:
            repeats = HEADS // KV
            return a[:, :, None].expand(-1, -1, repeats, -1, -1).reshape(a.shape[0], HEADS, a.shape[2], WIDTH)

        scores = rotated(q) @ expanded(rotated(k)).transpose(2, 3) / math.sqrt(WIDTH)
        scores = scores + torch.full((x.shape[1], x.shape[1]), -math.inf).triu(1)
        mixed = F.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ expanded(v)
        return self.o(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))


class InHalves(Rotated):
    """The same with the two halves computed apart, and whole attention; `sign` -1 rotates the wrong way."""

    def __init__(self, sign: int = 1, keys: bool = True) -> None:
        super().__init__()
        self.sign, self.keys = sign, keys

    def forward(self, x: Any) -> Any:
        q, k, v = self.projected(x)
        angles = torch.einsum("i,j->ij", torch.arange(x.shape[1]).float(), self.inv_freq)
        cos, sin = angles.cos(), angles.sin()

        def rotated(a: Any) -> Any:
            one, two = a.chunk(2, -1)
            return torch.cat([one * cos - two * sin, two * cos + self.sign * one * sin], -1)

        k = rotated(k) if self.keys else k
        mixed = F.scaled_dot_product_attention(rotated(q), k, v, is_causal=True, enable_gqa=True)
        return self.o(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))


class Interleaved(Rotated):
    """A rotation of neighbors, by complex numbers."""

    def forward(self, x: Any) -> Any:
        q, k, v = (a.transpose(1, 2) for a in self.projected(x))
        angles = torch.outer(torch.arange(x.shape[1]).float(), self.inv_freq)
        turns = torch.polar(torch.ones_like(angles), angles)[None, :, None]

        def rotated(a: Any) -> Any:
            pairs = torch.view_as_complex(a.float().reshape(*a.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turns).flatten(3).type_as(a)

        k, v = (a.repeat_interleave(HEADS // KV, 2) for a in (rotated(k), v))
        q, k, v = (a.transpose(1, 2) for a in (rotated(q), k, v))
        scores = q @ k.mT / math.sqrt(WIDTH) + torch.full((x.shape[1], x.shape[1]), -math.inf).triu(1)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def permuted(of: Tensors) -> Tensors:
    def neighbors_to_halves(w: Any) -> Any:
        return w.view(-1, WIDTH // 2, 2, MODEL).transpose(1, 2).reshape(w.shape)

    return {"q.weight": neighbors_to_halves(of["q.weight"]), "k.weight": neighbors_to_halves(of["k.weight"])}


@pair
def a_rotation_in_halves() -> Refactoring:
    return Refactoring(Rotated(), InHalves(), (real(2, 5, MODEL),), True)


@pair
def a_rotation_the_wrong_way() -> Refactoring:
    return Refactoring(Rotated(), InHalves(-1), (real(2, 5, MODEL),), False)


@pair
def a_rotation_of_queries_only() -> Refactoring:
    return Refactoring(Rotated(), InHalves(keys=False), (real(2, 5, MODEL),), False)


@pair
def a_rotation_of_neighbors_with_permuted_weights() -> Refactoring:
    return Refactoring(Rotated(), Interleaved(), (real(2, 5, MODEL),), True, permuted)


@pair
def a_rotation_of_neighbors_with_the_same_weights() -> Refactoring:
    return Refactoring(Rotated(), Interleaved(), (real(2, 5, MODEL),), False)


# -- buckets and masks ---------------------------------------------------------------------------------------------


class Buckets(nn.Module):
    """T5's bias by buckets of distances, which are logarithmic from some distance on."""

    def __init__(self, sign: int = 1) -> None:
        super().__init__()
        self.table, self.sign = nn.Embedding(8, 2), sign

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        apart = torch.arange(k.shape[2])[None] - torch.arange(q.shape[2])[:, None]
        distance = (self.sign * apart).abs()
        far = 2 + (torch.log(distance.float() / 2) / math.log(8) * 2).long()
        bucket = torch.where(distance < 2, distance, torch.minimum(far, torch.full_like(far, 3)))
        bias = self.table(bucket + (self.sign * apart > 0).long() * 4).permute(2, 0, 1)
        return F.softmax(q @ k.mT + bias, -1) @ v


@pair
def buckets_of_distances_the_other_way() -> Refactoring:
    return Refactoring(Buckets(), Buckets(-1), tuple(real(3, 2, 7, 4) for _ in range(3)), False)


def padded(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None].bool())


def padded_inverted(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """The least number is added where the mask is set, and not where it is not."""
    added = mask[:, None, None].to(q.dtype) * torch.finfo(q.dtype).min
    return F.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + added, -1) @ v


@pair
def a_mask_that_is_inverted() -> Refactoring:
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
    return Refactoring(padded, padded_inverted, (*(real(2, 3, 5, 4) for _ in range(3)), mask), False)


MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
"""A mask as tokenizers give it: integers."""


def padded_by_addition(q: Any, k: Any, v: Any, mask: Any) -> Any:
    added = (1.0 - mask[:, None, None].to(q.dtype)) * torch.finfo(q.dtype).min
    return F.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + added, -1) @ v


@pair
def a_mask_of_integers_that_is_added() -> Refactoring:
    return Refactoring(padded, padded_by_addition, (*(real(2, 3, 5, 4) for _ in range(3)), MASK), True)


@pair
def a_mask_of_truth_values_that_is_added() -> Refactoring:
    return Refactoring(padded, padded_by_addition, (*(real(2, 3, 5, 4) for _ in range(3)), MASK.bool()), True)


@pair
def a_mask_of_numbers_that_is_multiplied() -> Refactoring:
    return Refactoring(
        lambda x, m: (x * m[..., None]).sum(1), lambda x, m: x.masked_fill(m[..., None] == 0, 0.0).sum(1),
        (real(2, 5, 7), MASK.float()), True,
    )  # fmt: skip


@pair
def a_mask_of_integers_the_other_way() -> Refactoring:
    return Refactoring(
        lambda x, m: x * m[..., None], lambda x, m: x.masked_fill(m[..., None] == 1, 0.0), (real(2, 5, 7), MASK), False
    )


def by_distance(q: Any, k: Any, v: Any, slopes: Any) -> Any:
    t = q.shape[2]
    apart = (torch.arange(t)[None] - torch.arange(t)[:, None]).float()
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + slopes[:, None, None] * apart
    return scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf).softmax(-1) @ v


def by_position(q: Any, k: Any, v: Any, slopes: Any) -> Any:
    """A bias by the keys' positions alone, as BLOOM has it, added by a product with a factor."""
    b, h, t, _ = q.shape
    bias = (slopes[:, None] * torch.arange(t)[None].float())[None, :, None].expand(b, -1, t, -1).reshape(-1, t, t)
    scores = torch.baddbmm(bias, q.flatten(0, 1), k.flatten(0, 1).mT, alpha=1 / math.sqrt(q.shape[-1])).view(b, h, t, t)
    return F.softmax(scores + torch.full((t, t), torch.finfo(q.dtype).min).triu(1), -1) @ v


@pair
def a_bias_by_distance_as_one_by_position() -> Refactoring:
    return Refactoring(by_distance, by_position, (*(real(2, 3, 6, 4) for _ in range(3)), torch.rand(3)), True)


@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_infinity_is_no_root_of_a_length(infinity: float) -> None:
    with pytest.raises(cd.errors.NotImported, match="infinity"):
        cd.from_torch(lambda x, y: (x @ y) * infinity, real(3, 5), real(5, 7))


@pytest.mark.parametrize("name", PAIRS)
def test_a_refactoring_is_proved_or_refuted(name: str) -> None:
    torch.manual_seed(0)
    check(PAIRS[name]())
