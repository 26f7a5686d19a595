"""Refactorings of norms, gates, products, experts and scans: proved equal for all sizes, or told apart by numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tests.importers.refactorings import Module, Pairs, Refactoring, Tensors, adding, check, drawn, linear  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
nn, real = torch.nn, torch.randn
PAIRS: Pairs = {}
pair = adding(PAIRS)


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
def layer_norm_as_a_centered_root_mean_square() -> Refactoring:
    """The mean is taken off by a matrix, which can be folded into the layer before."""

    def centered(x: Any) -> Any:
        n = x.shape[-1]
        return rms(x @ (torch.eye(n, dtype=x.dtype) - torch.ones(n, n, dtype=x.dtype) / n))

    return Refactoring(lambda x: F.layer_norm(x, x.shape[-1:]), centered, (real(3, 6),), True)


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
def gelu_by_hand() -> Refactoring:
    return Refactoring(F.gelu, lambda x: 0.5 * x * (1 + torch.erf(x * 2**-0.5)), (real(3, 6),), True)


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
def gate_and_up_interleaved_but_read_as_halves() -> Refactoring:
    found = gate_and_up_fused()

    def parts(of: Tensors) -> Tensors:
        both = of["both.weight"]
        return {"gate.weight": both[0::2], "up.weight": both[1::2], "down.weight": of["down.weight"]}

    return Refactoring(found.before, found.after, found.example, False, parts)


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


def likelihood(left_out: bool) -> Callable[..., Any]:
    """Targets of −100 are no classes."""

    def loss(x: Any, y: Any) -> Any:
        counts = y != -100
        chosen = x.gather(1, torch.where(counts, y, 0)[:, None])[:, 0]
        return -(torch.where(counts, chosen, 0.0) if left_out else chosen).sum()

    return loss


LOSS = Module(lambda _, x, y: F.nll_loss(x, y, reduction="sum"))


@pair
def likelihood_of_targets_that_count() -> Refactoring:
    return Refactoring(LOSS, likelihood(True), (real(4, 5), torch.tensor([0, 2, 1, 4])), True)


@pair
def likelihood_of_targets_that_do_not_count() -> Refactoring:
    return Refactoring(LOSS, likelihood(False), (real(4, 5), torch.tensor([0, 2, 1, 4])), False)


@pair
def divergence_by_hand() -> Refactoring:
    def by_hand(p: Any, q: Any) -> Any:
        return (p.softmax(-1) * (p.log_softmax(-1) - q.log_softmax(-1))).sum(-1).mean()

    def divergence(p: Any, q: Any) -> Any:
        return F.kl_div(q.log_softmax(-1), p.softmax(-1), reduction="batchmean")

    return Refactoring(by_hand, divergence, (real(4, 5), real(4, 5)), True)


@pair
def sum_divided_by_another_length() -> Refactoring:
    return Refactoring(lambda x: x.sum((0, 1)) / 3, lambda x: x.mean(1).sum(), (real(3, 5),), False)


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


def bias_dropped(of: str, equal: bool) -> Refactoring:
    """Attention in which the queries or the keys lose their bias."""

    def scores(m: Any, x: Any) -> Any:
        return torch.softmax(m.q(x) @ m.k(x).mT, -1) @ x

    with_biases = Module(scores, q=linear(5, 4, True), k=linear(5, 4, True))
    without = Module(scores, q=linear(5, 4, of != "q"), k=linear(5, 4, of != "k"))
    rest = [f"{'k' if of == 'q' else 'q'}.bias", "q.weight", "k.weight"]
    return Refactoring(
        without, with_biases, (real(2, 7, 5),), equal, lambda given: {name: given[name] for name in rest}
    )


@pair
def keys_bias_dropped() -> Refactoring:
    """A bias of the keys adds the same to all scores of a query."""
    return bias_dropped("k", True)


@pair
def queries_bias_dropped() -> Refactoring:
    return bias_dropped("q", False)


@pair
def tied_embedding() -> Refactoring:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(11, 4), linear(4, 11)
            self.head.weight = self.embed.weight

        def forward(self, ids: Any) -> Any:
            return self.head(self.embed(ids))

    untied = Module(lambda m, ids: m.embed(ids) @ m.embed.weight.T, embed=nn.Embedding(11, 4))
    return Refactoring(untied, Tied(), (torch.tensor([[0, 3, 10]]),), True)


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
def experts_gathered_or_dense() -> Refactoring:
    def gathered(x: Any, chosen: Any, experts: Any) -> Any:
        return torch.einsum("tm,tmh->th", x, experts[chosen])

    def dense(x: Any, chosen: Any, experts: Any) -> Any:
        """Each expert of each token, times one where it was chosen."""
        return torch.einsum("tm,emh,te->th", x, experts, F.one_hot(chosen, 3).to(x.dtype))

    return Refactoring(gathered, dense, (real(4, 6), torch.tensor([0, 2, 1, 2]), real(3, 6, 5)), True)


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
    return Refactoring(
        lambda q, k, v: (q @ k.mT) @ v,
        lambda q, k, v: q @ (k.mT @ v),
        (real(2, 5, 4), real(2, 7, 4), real(2, 7, 6)),
        True,
    )


def chosen_experts(one_hot: bool) -> Callable[..., Any]:
    """The two experts of a token with the largest weights: gathered, or all of them weighted, most by zero."""

    def experts(x: Any, gate: Any, weight: Any) -> Any:
        value, at = torch.softmax(x @ gate, -1).topk(2, -1)
        if one_hot:
            dense = (F.one_hot(at, 3).to(x.dtype) * value[..., None]).sum(1)
            return torch.einsum("td,edh,te->th", x, weight, dense)
        return (value[..., None] * torch.einsum("td,tkdh->tkh", x, weight[at])).sum(1)

    return experts


@pair
def two_experts_gathered_or_dense() -> Refactoring:
    return Refactoring(chosen_experts(False), chosen_experts(True), (real(4, 6), real(6, 3), real(3, 6, 5)), True)


def looped(count: int) -> Callable[..., Any]:
    """Experts one after the other."""

    def experts(x: Any, gate: Any, up: Any, down: Any) -> Any:
        weights = torch.softmax(x @ gate, -1)
        return sum(weights[:, e : e + 1] * ((x @ up[e]).relu() @ down[e]) for e in range(count))

    return experts


def dense(x: Any, gate: Any, up: Any, down: Any) -> Any:
    hidden = torch.einsum("td,edf->tef", x, up).relu()
    return torch.einsum("tef,efd,te->td", hidden, down, torch.softmax(x @ gate, -1))


EXPERTS = (real(5, 4), real(4, 3), real(3, 4, 6), real(3, 6, 4))


@pair
def experts_in_a_loop() -> Refactoring:
    return Refactoring(dense, looped(3), EXPERTS, True)


@pair
def experts_in_a_loop_that_ends_early() -> Refactoring:
    return Refactoring(dense, looped(2), EXPERTS, False)


@pytest.mark.parametrize("name", PAIRS)
def test_a_refactoring_is_proved_or_refuted(name: str) -> None:
    torch.manual_seed(0)
    check(PAIRS[name]())
