"""Further refactorings, as functions in few lines: proved equal for all sizes, or told apart by numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from tests.importers.refactorings import Refactoring, check  # noqa: E402

F = torch.nn.functional
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),
]
real = torch.randn
Function = Callable[..., Any]
Case = tuple[Function, Function, tuple[Any, ...]]


def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scores = q @ k.mT
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf), -1) @ v


def in_two_blocks(rescaled: bool) -> Function:
    """Attention with a running maximum over two blocks of keys."""

    def online(q: Any, k: Any, v: Any) -> Any:
        (k1, k2), (v1, v2) = k.chunk(2, 1), v.chunk(2, 1)
        s1, s2 = q @ k1.mT, q @ k2.mT
        m1 = s1.amax(-1, keepdim=True)
        m2 = torch.maximum(m1, s2.amax(-1, keepdim=True))
        p1, p2, factor = torch.exp(s1 - m1), torch.exp(s2 - m2), torch.exp(m1 - m2)
        total = p1.sum(-1, keepdim=True) * factor + p2.sum(-1, keepdim=True)
        return ((p1 @ v1) * (factor if rescaled else 1) + p2 @ v2) / total

    return online


def merged(q: Any, k: Any, v: Any) -> Any:
    """Attention to two parts of the keys, merged by their log-sum-exp."""
    (k1, k2), (v1, v2) = k.split(3, 1), v.split(3, 1)
    s1, s2 = q @ k1.mT, q @ k2.mT
    weight = torch.sigmoid(s1.logsumexp(-1, keepdim=True) - s2.logsumexp(-1, keepdim=True))
    return weight * (s1.softmax(-1) @ v1) + (1 - weight) * (s2.softmax(-1) @ v2)


def grouped(place: int) -> Function:
    """Heads of keys expanded at a place."""

    def expanded(a: Any) -> Any:
        return a.unsqueeze(place).expand(*a.shape[:place], 2, *a.shape[place:]).flatten(1, 2)

    return lambda q, k, v: F.scaled_dot_product_attention(q, expanded(k), expanded(v))


def recurrence(late: bool) -> Function:
    """A state space model, position by position; `late` reads the state before it is updated."""

    def scan(x: Any, dt: Any, a: Any, b: Any, c: Any) -> Any:
        state, found = torch.zeros(x.shape[0], x.shape[2], a.shape[1], dtype=x.dtype), []
        for t in range(x.shape[1]):
            before = torch.einsum("bdn,bn->bd", state, c[:, t])
            decay = torch.exp(dt[:, t, :, None] * a)
            state = decay * state + dt[:, t, :, None] * b[:, t, None, :] * x[:, t, :, None]
            found.append(before if late else torch.einsum("bdn,bn->bd", state, c[:, t]))
        return torch.stack(found, 1)

    return scan


def linear_loop(q: Any, k: Any, v: Any) -> Any:
    state, found = torch.zeros(q.shape[0], q.shape[2], v.shape[2]), []
    for t in range(q.shape[1]):
        state = state + k[:, t, :, None] * v[:, t, None, :]
        found.append((q[:, t, :, None] * state).sum(1))
    return torch.stack(found, 1)


def smoothed(share: str) -> Function:
    def loss(x: Any, y: Any) -> Any:
        logs = F.log_softmax(x, -1)
        rest = logs.mean(-1) if share == "mean" else logs.sum(-1)
        return (-0.9 * logs.gather(1, y[:, None])[:, 0] - 0.1 * rest).mean()

    return loss


def window(reach: int) -> Function:
    def near(q: Any, k: Any, v: Any) -> Any:
        at = torch.arange(q.shape[1])
        return attention(q, k, v, (at[:, None] - at[None]).abs() <= reach)

    return near


def band(q: Any, k: Any, v: Any) -> Any:
    n = q.shape[1]
    return attention(q, k, v, torch.ones(n, n, dtype=torch.bool).tril(2).triu(-2))


def groups(x: Any, outer: int, inner: int) -> Any:
    """Groups of channels that are normalized by hand."""
    y = x.unflatten(1, (outer, inner))
    centered = y - y.mean((2, 3, 4), keepdim=True)
    return (centered / torch.sqrt((centered**2).mean((2, 3, 4), keepdim=True) + 1e-5)).flatten(1, 2)


def shuffled(upper: bool) -> Function:
    def shuffle(x: Any) -> Any:
        b, c, h, w = x.shape
        parts = x.view(b, c // 4, 2, 2, h, w) if upper else x.view(b, 2, 2, c // 4, h, w).permute(0, 3, 1, 2, 4, 5)
        return parts.permute(0, 1, 4, 2, 5, 3).reshape(b, c // 4, 2 * h, 2 * w)

    return shuffle


def unfolded(x: Any, w: Any) -> Any:
    return torch.einsum("bckl,ck->bcl", F.unfold(x, 3, padding=1).unflatten(1, (3, 9)), w.flatten(1)).unflatten(
        2, (4, 5)
    )


def squeezed(pool: Function) -> Function:
    return lambda x, a, b: x * torch.sigmoid(F.relu(pool(x) @ a.T) @ b.T)[:, :, None, None]


def with_sink(q: Any, k: Any, v: Any, sink: Any) -> Any:
    """A logit for each head that takes part in the softmax, and is no key."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = torch.cat([scores, sink.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], -1)], -1)
    return torch.softmax(scores - scores.amax(-1, keepdim=True), -1)[..., :-1] @ v


def gated_by_sink(sign: int) -> Function:
    def attend(q: Any, k: Any, v: Any, sink: Any) -> Any:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        return scores.softmax(-1) @ v * torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sign * sink[:, None, None])

    return attend


def sink_in_the_denominator(q: Any, k: Any, v: Any, sink: Any) -> Any:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    most = torch.maximum(scores.amax(-1, keepdim=True), sink[:, None, None])
    powers = torch.exp(scores - most)
    return powers @ v / (powers.sum(-1, keepdim=True) + torch.exp(sink[:, None, None] - most))


def kernelized(q: Any, k: Any, v: Any) -> Any:
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(1)[:, :, None] + 1e-6)


def kernel_first(least: float) -> Function:
    def attend(q: Any, k: Any, v: Any) -> Any:
        weights = torch.where(q > 0, q + 1, q.exp()) @ torch.where(k > 0, k + 1, k.exp()).mT
        return weights / (weights.sum(-1, keepdim=True) + least) @ v

    return attend


QKV = (real(2, 6, 4), real(2, 6, 4), real(2, 6, 3))
HEADS = (real(2, 6, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 6))
STATE = (real(2, 4, 3), torch.rand(2, 4, 3), real(3, 2), real(2, 4, 2), real(2, 4, 2))
SINK = (real(2, 3, 5, 4), real(2, 3, 6, 4), real(2, 3, 6, 7), real(3))
CLASSES = (real(4, 5), torch.tensor([0, 2, 1, 4]))
IMAGE = (real(2, 8, 3, 5),)
GELU = math.sqrt(2 / math.pi)

SAME: dict[str, Case] = {
    "keys in two blocks": (attention, in_two_blocks(True), QKV),
    "keys in two parts": (attention, merged, QKV),
    "queries in parts": (attention, lambda q, k, v: torch.cat([attention(c, k, v) for c in q.split(3, 1)], 1), QKV),
    "grouped heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)),
        grouped(2), HEADS,
    ),
    "window": (window(2), band, QKV),
    "last row of a causal mask": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, -1:],
        lambda q, k, v: F.scaled_dot_product_attention(q[:, -1:], k, v), QKV,
    ),
    "first row of a causal mask": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0], lambda q, k, v: v[:, 0], QKV,
    ),
    "linear attention in a loop": (linear_loop, lambda q, k, v: (q @ k.mT).tril() @ v, QKV),
    "label smoothing": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), smoothed("mean"), CLASSES),
    "group norm": (lambda x: F.group_norm(x, 2), lambda x: groups(x, 2, 4), IMAGE),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), shuffled(True), IMAGE),
    "depthwise convolution": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=3), unfolded, (real(2, 3, 4, 5), real(3, 1, 3, 3)),
    ),
    "squeeze and excite": (
        squeezed(lambda x: x.mean((2, 3))), squeezed(lambda x: F.adaptive_avg_pool2d(x, 1)[:, :, 0, 0]),
        (real(2, 4, 3, 5), real(2, 4), real(4, 2)),
    ),
    "gelu as a swish": (
        lambda x: F.gelu(x, approximate="tanh"), lambda x: x * torch.sigmoid(2 * GELU * (x + 0.044715 * x**3)),
        (real(5),),
    ),
    "cosine similarity": (
        lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT,
        lambda q, k: F.cosine_similarity(q[:, :, None], k[:, None], dim=-1, eps=1e-12),
        (real(2, 5, 4), real(2, 6, 4)),
    ),
    "a sink as a gate": (with_sink, gated_by_sink(1), SINK),
    "a sink in the denominator": (with_sink, sink_in_the_denominator, SINK),
    "kernelized attention": (kernelized, kernel_first(1e-6), QKV),
    "mish by powers": (F.mish, lambda x: x * ((1 + x.exp()) ** 2 - 1) / ((1 + x.exp()) ** 2 + 1), (real(5),)),
    "gelu by erfc": (F.gelu, lambda x: x * 0.5 * torch.erfc(-x * math.sqrt(0.5)), (real(5),)),
    "distances": (
        lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
        lambda x, y: (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None] - 2 * x @ y.T, (real(5, 3), real(4, 3)),
    ),
}  # fmt: skip

DIFFERENT: dict[str, Case] = {
    "a block that is not rescaled": (attention, in_two_blocks(False), QKV),
    "heads expanded in front": (SAME["grouped heads"][0], grouped(1), HEADS),
    "a window that is narrower": (window(1), band, QKV),
    "a state read too early": (recurrence(False), recurrence(True), STATE),
    "sums without the position itself": (linear_loop, lambda q, k, v: (q @ k.mT).tril(-1) @ v, QKV),
    "label smoothing by a sum": (SAME["label smoothing"][0], smoothed("sum"), CLASSES),
    "a sink of the other sign": (with_sink, gated_by_sink(-1), SINK),
    "kernelized attention without its least sum": (kernelized, kernel_first(0.0), QKV),
    "a hard sigmoid of another slope": (F.hardsigmoid, lambda x: (0.2 * x + 0.5).clamp(0, 1), (real(5),)),
    "other groups": (lambda x: F.group_norm(x, 2), lambda x: groups(x, 4, 2), IMAGE),
    "pixels shuffled by other channels": (lambda x: F.pixel_shuffle(x, 2), shuffled(False), IMAGE),
    "squeezed by a maximum": (
        squeezed(lambda x: x.mean((2, 3))), squeezed(lambda x: x.amax((2, 3))), SAME["squeeze and excite"][2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_equal_functions_are_proved_equal(name: str) -> None:
    before, after, example = SAME[name]
    check(Refactoring(before, after, example, True))


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_functions_are_told_apart(name: str) -> None:
    before, after, example = DIFFERENT[name]
    check(Refactoring(before, after, example, False))
