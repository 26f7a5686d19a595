"""Refactorings that authors of models make: proved equal for all sizes, or told apart by numbers.

Each pair is one module as it was and one as it is said to be after a refactoring; some are subtly false.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
real = torch.randn
Tensors = dict[str, Any]


@dataclass(frozen=True)
class Refactoring:
    """Two modules or functions, a call's arguments, and whether both mean the same."""

    before: Any
    after: Any
    example: tuple[Any, ...]
    same: bool
    parameters: Callable[[Tensors], Tensors] | None = None


PAIRS: dict[str, Callable[[], Refactoring]] = {}


def pair(function: Callable[[], Refactoring]) -> Callable[[], Refactoring]:
    PAIRS[function.__name__.replace("_", " ")] = function
    return function


class Module(nn.Module):
    """A module of parts and a function of them and the arguments."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, *arrays: Any) -> Any:
        return self.function(self, *arrays)


def linear(rows: int, columns: int, bias: bool = False) -> Any:
    return nn.Linear(rows, columns, bias=bias)


def drawn(*shape: int) -> Any:
    return nn.Parameter(torch.rand(*shape))


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


# -- norms -------------------------------------------------------------------------------------------------------


def rms(x: Any, eps: float = 1e-5) -> Any:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)


@pair
def norm_folded_into_the_projection() -> Refactoring:
    folded = Module(lambda m, x: m.up(rms(x)), up=linear(6, 4))
    scaled = Module(lambda m, x: m.up(rms(x) * m.scale), scale=drawn(6), up=linear(6, 4))
    return Refactoring(
        folded, scaled, (real(3, 6),), True, lambda of: {"up.weight": of["up.weight"] * of["scale"]}
    )  # fmt: skip


@pair
def norm_folded_along_the_wrong_axis() -> Refactoring:
    folded = Module(lambda m, x: m.up(rms(x)), up=linear(6, 6))
    scaled = Module(lambda m, x: m.up(rms(x) * m.scale), scale=drawn(6), up=linear(6, 6))
    return Refactoring(
        folded, scaled, (real(3, 6),), False, lambda of: {"up.weight": of["up.weight"] * of["scale"][:, None]}
    )


@pair
def layer_norm_folded_into_the_projection() -> Refactoring:
    plain = Module(lambda m, x: m.up(F.layer_norm(x, (6,))), up=linear(6, 4, bias=True))
    affine = Module(lambda m, x: m.up(m.norm(x)), norm=nn.LayerNorm(6), up=linear(6, 4, bias=True))

    def folded(of: Tensors) -> Tensors:
        w = of["up.weight"]
        return {"up.weight": w * of["norm.weight"], "up.bias": of["up.bias"] + w @ of["norm.bias"]}

    return Refactoring(plain, affine, (real(3, 6),), True, folded)


@pair
def rms_norm_by_hand() -> Refactoring:
    by_hand = Module(lambda m, x: m.weight * (x / torch.sqrt(x.pow(2).mean(-1, True) + 1e-5)), weight=drawn(6))
    return Refactoring(by_hand, nn.RMSNorm(6, eps=1e-5), (real(3, 6),), True)


@pair
def rms_norm_with_its_constant_outside_the_root() -> Refactoring:
    return Refactoring(rms, lambda x: x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-5), (real(3, 6),), False)


@pair
def rms_norm_by_the_length() -> Refactoring:
    def normalized(x: Any) -> Any:
        return F.normalize(x, dim=-1, eps=0.0) * 6**0.5

    return Refactoring(lambda x: x / x.pow(2).mean(-1, keepdim=True).sqrt(), normalized, (real(3, 6),), True)


@pair
def layer_norm_by_two_moments() -> Refactoring:
    def moments(x: Any) -> Any:
        mean, square = x.mean(-1, keepdim=True), (x * x).mean(-1, keepdim=True)
        return (x - mean) * torch.rsqrt(square - mean * mean + 1e-5)

    return Refactoring(lambda x: F.layer_norm(x, x.shape[-1:]), moments, (real(3, 6),), True)


@pair
def layer_norm_with_the_unbiased_variance() -> Refactoring:
    def unbiased(x: Any) -> Any:
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5)

    return Refactoring(lambda x: F.layer_norm(x, x.shape[-1:]), unbiased, (real(3, 6),), False)


@pair
def norm_before_or_after() -> Refactoring:
    def before(m: Any, x: Any) -> Any:
        return x + m.up(m.norm(x))

    def after(m: Any, x: Any) -> Any:
        return m.norm(x + m.up(x))

    parts = ({"norm": nn.RMSNorm(6, eps=1e-5), "up": linear(6, 6)} for _ in range(2))
    return Refactoring(Module(before, **next(parts)), Module(after, **next(parts)), (real(3, 6),), False)


@pair
def batch_norm_folded_into_a_convolution() -> Refactoring:
    plain = nn.Conv2d(3, 4, 3, padding=1).eval()
    normed = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)).eval()
    normed[1].running_mean.copy_(torch.rand(4))
    normed[1].running_var.copy_(1 + torch.rand(4))

    def folded(of: Tensors) -> Tensors:
        scale = of["1.weight"] / torch.sqrt(of["1.running_var"] + 1e-5)
        return {
            "weight": of["0.weight"] * scale[:, None, None, None],
            "bias": of["1.bias"] - of["1.running_mean"] * scale,
        }

    return Refactoring(plain, normed, (real(2, 3, 6, 5),), True, folded)


# -- activations and gates -----------------------------------------------------------------------------------------


@pair
def gelu_by_erf_or_by_tanh() -> Refactoring:
    return Refactoring(F.gelu, lambda x: F.gelu(x, approximate="tanh"), (real(3, 6),), False)


@pair
def swish_by_hand() -> Refactoring:
    return Refactoring(F.silu, lambda x: x / (1 + torch.exp(-x)), (real(3, 6),), True)


@pair
def gate_and_up_fused() -> Refactoring:
    separate = Module(
        lambda m, x: m.down(F.silu(m.gate(x)) * m.up(x)), gate=linear(4, 6), up=linear(4, 6), down=linear(6, 4)
    )
    fused = Module(
        lambda m, x: m.down((lambda a: F.silu(a[0]) * a[1])(m.both(x).chunk(2, -1))), both=linear(4, 12),
        down=linear(6, 4),
    )  # fmt: skip

    def parts(of: Tensors) -> Tensors:
        gate, up = of["both.weight"].chunk(2, 0)
        return {"gate.weight": gate, "up.weight": up, "down.weight": of["down.weight"]}

    return Refactoring(separate, fused, (real(3, 4),), True, parts)


@pair
def softmax_by_the_logarithm_of_its_sum() -> Refactoring:
    return Refactoring(
        lambda x: torch.softmax(x, -1), lambda x: torch.exp(x - torch.logsumexp(x, -1, keepdim=True)),
        (real(3, 6),), True,
    )  # fmt: skip


@pair
def cross_entropy_by_hand() -> Refactoring:
    def by_hand(x: Any, target: Any) -> Any:
        return (torch.logsumexp(x, -1) - x.gather(-1, target[:, None])[:, 0]).mean()

    return Refactoring(F.cross_entropy, by_hand, (real(5, 6), torch.tensor([0, 3, 5, 1, 2])), True)


# -- products ------------------------------------------------------------------------------------------------------


@pair
def adapter_merged() -> Refactoring:
    adapted = Module(
        lambda m, x: m.base(x) + 2.0 * m.up(m.down(x)), base=linear(5, 7, True), down=linear(5, 2), up=linear(2, 7)
    )
    return Refactoring(
        nn.Linear(5, 7), adapted, (real(3, 5),), True,
        lambda of: {
            "weight": of["base.weight"] + 2.0 * of["up.weight"] @ of["down.weight"], "bias": of["base.bias"]
        },
    )  # fmt: skip


@pair
def adapter_merged_without_its_scale() -> Refactoring:
    found = adapter_merged()
    return Refactoring(
        found.before, found.after, found.example, False,
        lambda of: {"weight": of["base.weight"] + of["up.weight"] @ of["down.weight"], "bias": of["base.bias"]},
    )  # fmt: skip


@pair
def two_linear_layers_as_one() -> Refactoring:
    return Refactoring(
        nn.Linear(5, 7), nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 7)), (real(3, 5),), True,
        lambda of: {
            "weight": of["1.weight"] @ of["0.weight"], "bias": of["1.weight"] @ of["0.bias"] + of["1.bias"]
        },
    )  # fmt: skip


@pair
def keys_bias_left_out() -> Refactoring:
    """A bias of the keys adds the same to all scores of a query."""

    def scores(m: Any, x: Any) -> Any:
        return torch.softmax(m.q(x) @ m.k(x).mT, -1) @ x

    with_bias = Module(scores, q=linear(5, 4, True), k=linear(5, 4, True))
    return Refactoring(
        Module(scores, q=linear(5, 4, True), k=linear(5, 4)), with_bias, (real(2, 7, 5),), True,
        lambda of: {name: of[name] for name in ("q.weight", "q.bias", "k.weight")},
    )  # fmt: skip


@pair
def queries_bias_left_out() -> Refactoring:
    def scores(m: Any, x: Any) -> Any:
        return torch.softmax(m.q(x) @ m.k(x).mT, -1) @ x

    with_bias = Module(scores, q=linear(5, 4, True), k=linear(5, 4, True))
    return Refactoring(
        Module(scores, q=linear(5, 4), k=linear(5, 4, True)), with_bias, (real(2, 7, 5),), False,
        lambda of: {name: of[name] for name in ("q.weight", "k.bias", "k.weight")},
    )  # fmt: skip


@pair
def embedding_that_is_not_tied() -> Refactoring:
    tied = Module(lambda m, ids: m.embed(ids) @ m.embed.weight.T, embed=nn.Embedding(11, 4))
    free = Module(lambda m, ids: m.head(m.embed(ids)), embed=nn.Embedding(11, 4), head=linear(4, 11))
    return Refactoring(tied, free, (torch.tensor([[0, 3, 10]]),), False)


@pair
def patches_by_a_convolution_or_by_a_product() -> Refactoring:
    def folded(m: Any, x: Any) -> Any:
        b, c, h, w = x.shape
        patches = x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, c * 4)
        return patches @ m.weight.flatten(1).T

    weights = (drawn(5, 3, 2, 2) for _ in range(2))
    convolved = Module(lambda m, x: F.conv2d(x, m.weight, stride=2).flatten(2).mT, weight=next(weights))
    return Refactoring(convolved, Module(folded, weight=next(weights)), (real(2, 3, 6, 8),), True)


# -- mixtures of experts and scans -----------------------------------------------------------------------------------


@pair
def experts_weighted_before_or_after_normalizing() -> Refactoring:
    def before(x: Any) -> Any:
        return torch.softmax(x, -1).topk(2, -1)[0]

    def after(x: Any) -> Any:
        return torch.softmax(x.topk(2, -1)[0], -1)

    return Refactoring(before, after, (real(6, 4),), False)


@pair
def running_sum_or_triangular_product() -> Refactoring:
    def triangle(x: Any) -> Any:
        n = x.shape[1]
        return torch.ones(n, n, dtype=x.dtype).tril() @ x

    return Refactoring(lambda x: x.cumsum(1), triangle, (real(2, 5, 3),), True)


@pair
def linear_attention_in_either_order() -> Refactoring:
    return Refactoring(lambda q, k, v: (q @ k.mT) @ v, lambda q, k, v: q @ (k.mT @ v), qkv(), True)


def compared(found: Refactoring) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the theorem is about what was imported")
        return cd.testing.assert_equivalent(
            found.before, found.after, example=found.example, parameters=found.parameters
        )


@pytest.mark.parametrize("name", PAIRS)
def test_a_refactoring_is_proved_or_refuted(name: str) -> None:
    torch.manual_seed(0)
    found = PAIRS[name]()
    if found.same:
        assert not compared(found).conditional
    else:
        with pytest.raises(AssertionError, match="is false"):
            compared(found)
