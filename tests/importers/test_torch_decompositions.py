"""Operations that PyTorch writes out, and losses: they compute what PyTorch does, and pairs of them are compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
from tests.importers.refactorings import Module, Pairs, Refactoring, adding, check, drawn  # noqa: E402

F, nn, real = torch.nn.functional, torch.nn, torch.randn
pytestmark = pytest.mark.filterwarnings("ignore")
PAIRS: Pairs = {}
pair = adding(PAIRS)
TARGETS = torch.tensor([0, 3, 5])


def doubles(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(sum(shape)).normal(size=shape))


class Recurrent(nn.Module):
    """A recurrent layer that gives its outputs only."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer.double().requires_grad_(False)
        self.eval()

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0]


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mean squared error": (F.mse_loss, (doubles(3, 6), doubles(3, 6))),
    "gated linear unit": (F.glu, (doubles(3, 6),)),
    "normal distribution": (torch.special.ndtr, (doubles(3, 6),)),
    "bilinear": (F.bilinear, (doubles(2, 3), doubles(2, 4), doubles(5, 3, 4), doubles(5))),
    "sliding windows": (lambda x: x.unfold(1, 3, 2), (doubles(2, 7, 4),)),
    "smoothed labels": (lambda x: F.cross_entropy(x, TARGETS, label_smoothing=0.1), (doubles(3, 6),)),
    "recurrence": (Recurrent(nn.LSTM(4, 3)), (doubles(3, 1, 4),)),
    "gated recurrence": (Recurrent(nn.GRU(4, 3, num_layers=2, dropout=0.5)), (doubles(2, 1, 4),)),
    "elements equal to themselves": (lambda x: torch.where(x == x, 2 * x, x), (doubles(3, 6),)),
}


@pytest.mark.parametrize("name", CALLS)
def test_computes_what_pytorch_does(name: str) -> None:
    function, example = CALLS[name]
    program = cd.from_torch(function, *example)
    found = program.run(*map(np.asarray, program.example.arrays), sizes=program.example.sizes)
    np.testing.assert_allclose(found, function(*example).numpy(), rtol=1e-12)


def test_an_operation_that_cannot_be_written_out_is_named() -> None:
    with pytest.raises(cd.errors.NotImported, match=r"aten.lgamma has no rule") as found:
        cd.from_torch(lambda x: torch.lgamma(F.glu(x)), real(3, 6))
    assert "glu has" not in str(found.value)


def smoothed(x: Any, target: Any) -> Any:
    logs = x.log_softmax(-1)
    return (0.9 * -logs.gather(-1, target[:, None])[:, 0] + 0.1 * -logs.mean(-1)).mean()


def smoothed_over_the_others(x: Any, target: Any) -> Any:
    logs = x.log_softmax(-1)
    return (0.9 * -logs.gather(-1, target[:, None])[:, 0] - 0.1 * logs.sum(-1) / 5).mean()


for name, after, same in (("smoothed labels", smoothed, True), ("smoothed others", smoothed_over_the_others, False)):
    PAIRS[name] = lambda after=after, same=same: Refactoring(
        lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), after, (real(3, 6), TARGETS), same
    )


@pair
def gated_linear_unit_with_its_halves_swapped() -> Refactoring:
    return Refactoring(F.glu, lambda x: x[..., 3:] * torch.sigmoid(x[..., :3]), (real(3, 6),), False)


@pair
def cosine_similarity_with_each_length_bounded() -> Refactoring:
    def by_hand(a: Any, c: Any) -> Any:
        return (a * c).sum(-1) / (a.norm(dim=-1).clamp(min=1e-8) * c.norm(dim=-1).clamp(min=1e-8))

    return Refactoring(lambda a, c: F.cosine_similarity(a, c, dim=-1), by_hand, (real(3, 6), real(3, 6)), True)


@pair
def instance_norm_as_a_group_norm() -> Refactoring:
    return Refactoring(F.instance_norm, lambda x: F.group_norm(x, 6), (real(2, 6, 5),), True)


@pair
def normal_distribution_as_gelu() -> Refactoring:
    return Refactoring(F.gelu, lambda x: x * torch.special.ndtr(x), (real(3, 6),), True)


@pair
def softplus_by_its_logarithm() -> Refactoring:
    """PyTorch cuts it off above 20, by less than rounding."""
    return Refactoring(F.softplus, lambda x: torch.log1p(torch.exp(x)), (real(3, 6),), True)


@pair
def softplus_with_its_argument_negated() -> Refactoring:
    return Refactoring(F.softplus, lambda x: torch.log1p(torch.exp(-x)), (real(3, 6),), False)


def filtered(taps: Callable[[Any], Any]) -> Any:
    def windows(m: Any, x: Any) -> Any:
        return torch.einsum("bctk,ck->bct", F.pad(x, (1, 1)).unfold(-1, 3, 1), taps(m.w[:, 0]))

    return Module(windows, w=drawn(3, 1, 3))


for name, taps, same in (("windows", lambda w: w, True), ("windows reversed", lambda w: w.flip(-1), False)):
    PAIRS[f"depthwise convolution as an einsum of {name}"] = lambda taps=taps, same=same: Refactoring(
        Module(lambda m, x: F.conv1d(x, m.w, padding=1, groups=3), w=drawn(3, 1, 3)),
        filtered(taps),
        (real(2, 3, 7),),
        same,
    )


@pair
def attention_by_hand_in_another_layout() -> Refactoring:
    def by_einsum(q: Any, k: Any, v: Any) -> Any:
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
        return torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v)

    def fused(*arrays: Any) -> Any:
        return F.scaled_dot_product_attention(*(a.transpose(1, 2) for a in arrays)).transpose(1, 2)

    return Refactoring(by_einsum, fused, (real(2, 5, 3, 4), real(2, 7, 3, 4), real(2, 7, 3, 4)), True)


@pytest.mark.parametrize("name", PAIRS)
def test_a_refactoring_is_proved_or_refuted(name: str) -> None:
    torch.manual_seed(0)
    check(PAIRS[name]())


def test_dropout_between_recurrent_layers_is_refused_in_training() -> None:
    layers = nn.GRU(4, 3, num_layers=2, dropout=0.5)
    with pytest.raises(cd.errors.NotImported, match=r"aten\.gru"):
        cd.from_torch(layers, real(2, 1, 4))
