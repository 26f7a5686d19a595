"""Each operation of PyTorch that is imported means what it does there: its program against it, in float64.

The lengths of an example all differ, so that no two axes are taken for one by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from tests.codegen.test_algorithm_source import executed

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def real(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape) + sum(shape)))


def positive(*shape: int) -> Any:
    return real(*shape).abs() + 0.5


def integers(high: int, *shape: int) -> Any:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(high))


def written_in_columns(x: Any) -> Any:
    y = x.clone()
    y[:, 1:3] += 1
    y[1:2, 2:] = 0
    return y


def complex_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two complex arrays, as one of real ones: their parts, and those of the result."""
    return lambda a, c: torch.view_as_real(function(torch.complex(a, c), torch.complex(c, 2 * a + 1)))


def truth(*shape: int) -> Any:
    return real(*shape) > -0.3


def check(function: Callable[..., Any], *example: Any) -> cd.Program:
    """Asserts that the printed source of a function's program gives on the example what the function does; gives the
    program."""
    program = cd.from_torch(function, *example)
    arrays = [a.detach().numpy() for a in program.example.arrays]
    found = executed(program.code("algorithm")).run(*arrays, sizes=program.example.sizes)
    wanted = function(*example)
    found, wanted = (v if isinstance(v, (tuple, list)) else (v,) for v in (found, wanted))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == tuple(other.shape)
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-10, atol=1e-12)
    return program


UNARY: Sequence[tuple[str, Callable[[Any], Any], Any]] = [
    ("neg", lambda a: -a, real(2, 3)),
    ("exp", torch.exp, real(2, 3)),
    ("exp2", torch.exp2, real(2, 3)),
    ("expm1", torch.expm1, real(2, 3)),
    ("log", torch.log, positive(2, 3)),
    ("log1p", torch.log1p, positive(2, 3)),
    ("log2", torch.log2, positive(2, 3)),
    ("log10", torch.log10, positive(2, 3)),
    ("sqrt", torch.sqrt, positive(2, 3)),
    ("rsqrt", torch.rsqrt, positive(2, 3)),
    ("reciprocal", torch.reciprocal, positive(2, 3)),
    ("square", torch.square, real(2, 3)),
    ("abs", torch.abs, real(2, 3)),
    ("tanh", torch.tanh, real(2, 3)),
    ("sigmoid", torch.sigmoid, real(2, 3)),
    ("relu", torch.relu, real(2, 3)),
    ("logsigmoid", F.logsigmoid, real(2, 3)),
    ("relu6", F.relu6, 4 * real(2, 3)),
    ("silu", F.silu, real(2, 3)),
    ("mish", F.mish, real(2, 3)),
    ("hardsigmoid", F.hardsigmoid, 4 * real(2, 3)),
    ("hardswish", F.hardswish, 4 * real(2, 3)),
    ("sign", torch.sign, real(2, 3)),
    ("gelu tanh", lambda a: F.gelu(a, approximate="tanh"), real(2, 3)),
    ("softplus", F.softplus, 12 * real(4, 5)),
    ("softplus beta", lambda a: F.softplus(a, 2, 3), 3 * real(4, 5)),
    ("leaky_relu", lambda a: F.leaky_relu(a, 0.1), real(2, 3)),
    ("elu", F.elu, real(2, 3)),
    ("selu", F.selu, real(2, 3)),
    ("trunc, frac", lambda a: a.trunc() + 2 * a.frac(), 4 * real(2, 3)),
    ("tan, sinh, cosh, erfc", lambda a: a.tan() + a.sinh() * a.cosh() + a.erfc(), real(2, 3)),
    ("cumprod", lambda a: a.cumprod(1), real(2, 3)),
    ("clamp", lambda a: a.clamp(-0.5, 0.25), real(2, 3)),
    ("clamp_min", lambda a: a.clamp(min=0.1), real(2, 3)),
    ("clamp_max", lambda a: a.clamp(max=0.1), real(2, 3)),
    ("hardtanh", F.hardtanh, 3 * real(2, 3)),
    ("pow 3", lambda a: a**3, real(2, 3)),
    ("pow -1", lambda a: a**-1, positive(2, 3)),
    ("pow half", lambda a: a**0.5, positive(2, 3)),
    ("pow 0.3", lambda a: a**0.3, positive(2, 3)),
    ("not", lambda a: ~a, truth(2, 3)),
    ("to float", lambda a: a.to(torch.float64), truth(2, 3)),
    ("to bool", lambda a: a.bool(), integers(2, 2, 3)),
    ("dropout", lambda a: F.dropout(a, 0.5, training=False), real(2, 3)),
    ("softmax", lambda a: torch.softmax(a, -1), real(2, 3)),
    ("softmax 0", lambda a: torch.softmax(a, 0), real(2, 3)),
    ("log_softmax", lambda a: torch.log_softmax(a, 1), real(2, 3, 4)),
    ("cumsum", lambda a: a.cumsum(1), real(2, 3)),
    ("logsumexp", lambda a: torch.logsumexp(a, (0, 2)), real(2, 3, 4)),
]
SHAPES: Sequence[tuple[str, Callable[[Any], Any], Any]] = [
    ("view", lambda a: a.view(2, 3, 5, 7), real(6, 35)),
    ("merge", lambda a: a.reshape(30, 7), real(2, 15, 7)),
    ("crossing", lambda a: a.reshape(6, 35), real(2, 15, 7)),
    ("flatten", lambda a: a.flatten(1), real(2, 3, 5)),
    ("unflatten", lambda a: a.unflatten(-1, (3, -1)), real(2, 15)),
    ("unsqueeze", lambda a: a[:, None], real(2, 3)),
    ("squeeze", lambda a: a.squeeze(1), real(2, 1, 3)),
    ("transpose", lambda a: a.transpose(0, 2), real(2, 3, 5)),
    ("t", lambda a: a.t(), real(2, 3)),
    ("mT", lambda a: a.mT, real(2, 3, 5)),
    ("permute", lambda a: a.permute(2, 0, 1), real(2, 3, 5)),
    ("movedim", lambda a: a.movedim(0, 2), real(2, 3, 5)),
    ("expand", lambda a: a.expand(4, 3), real(1, 3)),
    ("expand new", lambda a: a.expand(4, 2, 3), real(2, 3)),
    ("repeat", lambda a: a.repeat(4, 2), real(3, 5)),
    ("repeat more", lambda a: a.repeat(2, 1, 3), real(3, 5)),
    ("repeat_interleave", lambda a: a.repeat_interleave(2, 1), real(3, 5)),
    ("half", lambda a: a[..., :3], real(5, 6)),
    ("second half", lambda a: a[..., 3:], real(5, 6)),
    ("part", lambda a: a[1:4], real(7, 3)),
    ("part from end", lambda a: a[:, -2:], real(3, 5)),
    ("first", lambda a: a[:, :1], real(3, 5)),
    ("last", lambda a: a[:, -1:], real(3, 5)),
    ("strided", lambda a: a[:, ::2], real(3, 10)),
    ("select", lambda a: a[:, 2], real(3, 5)),
    ("select last", lambda a: a[:, -1], real(3, 5)),
    ("select merged", lambda a: a.reshape(6, 5)[4], real(2, 3, 5)),
    ("narrow", lambda a: a.narrow(1, 1, 2), real(3, 5)),
    ("split", lambda a: a.split(2, 1), real(3, 6)),
    ("split uneven", lambda a: a.split([1, 4, 2], 1), real(3, 7)),
    ("chunk", lambda a: a.chunk(3, 0), real(6, 5)),
    ("unbind", lambda a: a.unbind(1), real(4, 3, 5)),
    ("halves swapped", lambda a: torch.cat((-a[..., 3:], a[..., :3]), -1), real(5, 6)),
    ("cat one", lambda a: torch.cat((a[:, :1], a), 1), real(5, 3)),
    ("stack self", lambda a: torch.stack((a, 2 * a), 1), real(5, 3)),
    ("pad", lambda a: F.pad(a, (1, 2)), real(3, 5)),
    ("pad two", lambda a: F.pad(a, (1, 0, 0, 2), value=7.0), real(3, 5)),
    ("crop", lambda a: F.pad(a, (-1, 2)), real(3, 5)),
    ("flip", lambda a: a.flip(1), real(3, 5)),
    ("roll", lambda a: a.roll(2, 1), real(3, 5)),
    ("roll back", lambda a: a.roll((-1, 1), (0, 1)), real(3, 5)),
    ("select from end", lambda a: a.reshape(3, 5)[:, -2], real(15)),
    ("parts of unlike lengths", lambda a: (a[:, :12].view(2, 6, 2), a[:, 12:18], a[:, 18:]), real(2, 24)),
    ("transposed view", lambda a: a.T.reshape(3, 5, 2), real(5, 6)),
    ("thirds reversed", lambda a: torch.cat(tuple(reversed(a.chunk(3, 0))), 0) * a.flip(0), real(7)),
    ("cumsum of a number", lambda a: a.sum().cumsum(0) * a.mean().sum(), real(7)),
    ("softmax of one", lambda a: a[:, :1].softmax(1) + F.layer_norm(a[:, :1], (1,)), real(3, 5)),
    ("odd ones", lambda a: a[:, 1::2], real(3, 10)),
    ("nothing and all", lambda a: torch.cat((a[:, :0], a), 1), real(3, 5)),
    ("diff", lambda a: a.diff(), real(3, 5)),
    ("diff prepended", lambda a: a.diff(dim=1, prepend=a[:, :1] - 1), real(3, 5)),
    ("topk", lambda a: a.topk(2, -1), real(3, 5)),
    ("norm", lambda a: a.norm(), real(3, 5)),
    ("norm along a dimension", lambda a: a.norm(dim=1, keepdim=True), real(3, 5)),
    ("norm of order 1", lambda a: torch.linalg.vector_norm(a, 1, (0, 2)), real(3, 5, 2)),
    ("largest and smallest norm", lambda a: [torch.linalg.norm(a, k, 1) for k in (torch.inf, -torch.inf)], real(3, 5)),
    ("norm of one", lambda a: a.norm(dim=1), real(3, 1)),
    ("normalize", lambda a: F.normalize(a, dim=-1), real(3, 5)),
    ("identity", lambda a: a @ torch.eye(5, dtype=a.dtype) + torch.eye(3, 5), real(3, 5)),
    (
        "identity of truth values",
        lambda a: torch.eye(5, dtype=torch.bool) | torch.eye(5, 6, dtype=torch.bool)[:, 1:],
        real(3, 5),
    ),
    ("copysign", lambda a: torch.copysign(a, a.flip(-1)), real(3, 5)),
    ("rows by chosen integers", lambda a: a[torch.where(a[:, 0] > 0, 1, 0)], real(3, 5)),
    ("integers beside others", lambda a: torch.where(a > 0, 1, a.argmax(-1, keepdim=True)), real(3, 5)),
    ("classes of numbers", lambda a: torch.bucketize(a, torch.tensor([-1.0, 0.0, 1.0], dtype=a.dtype)), real(3, 5)),
    ("identity of integers", lambda a: a[:, :3] * torch.eye(4, 3, dtype=torch.int64)[1:], real(3, 5)),
    ("means of windows", lambda a: F.adaptive_avg_pool1d(a, 3), real(2, 3, 6)),
    ("means of unlike windows", lambda a: F.adaptive_avg_pool1d(a, 3), real(2, 3, 7)),
    ("one mean", lambda a: F.adaptive_avg_pool1d(a, 1), real(2, 3, 7)),
    ("a sigmoid of what is masked", lambda a: a.masked_fill(a < 0, -torch.inf).sigmoid(), real(3, 5)),
    ("histc", lambda a: torch.histc(a, 5, -1, 1), real(4, 5)),
    ("histc of integers", lambda a: torch.histc((3 * a).round().to(a.dtype), 4, 0, 3), real(4, 5)),
    ("one_hot", lambda a: a * F.one_hot(a.argmax(-1), 5), real(3, 5)),
    ("one_hot alone", lambda a: F.one_hot(a.argmax(-1), 5), real(3, 5)),
    ("one_hot of integers", lambda a: a[..., None] * F.one_hot((a > 0).long(), 3), real(3, 5)),
    ("write part", lambda a: torch.slice_scatter(a, 2 * a[:, :2], 1, 2, 4), real(3, 5)),
    ("write one", lambda a: torch.select_scatter(a, 2 * a[:, 0], 1, 3), real(3, 5)),
    ("tril", lambda a: a.tril(), real(3, 5)),
    ("triu", lambda a: a.triu(1), real(3, 5)),
    ("tril of itself", lambda a: (a @ a.T).tril(-1), real(3, 5)),
    ("arange", lambda a: a + torch.arange(5), real(3, 5)),
    ("arange from", lambda a: a + torch.arange(2, 12, 2), real(3, 5)),
    ("ones", lambda a: a + torch.ones(5, dtype=a.dtype), real(3, 5)),
    ("zeros_like", lambda a: torch.zeros_like(a) + a, real(3, 5)),
    ("full", lambda a: a * torch.full((3, 1), 2.0, dtype=a.dtype), real(3, 5)),
    ("ones causal", lambda a: a.masked_fill(~torch.ones(3, 5, dtype=torch.bool).tril(), 0.0), real(3, 5)),
]
REDUCTIONS: Sequence[tuple[str, Callable[[Any], Any], Any]] = [
    ("sum", lambda a: a.sum(), real(2, 3)),
    ("sum dims", lambda a: a.sum((0, 2)), real(2, 3, 5)),
    ("sum keep", lambda a: a.sum(1, keepdim=True), real(2, 3)),
    ("sum repeated", lambda a: a.expand(4, 3).sum(0), real(3)),
    ("mean", lambda a: a.mean(-1), real(2, 3)),
    ("amax", lambda a: a.amax(1), real(2, 3)),
    ("max", lambda a: a.max(1).values, real(2, 3)),
    ("min index", lambda a: a.min(0)[1], real(2, 3)),
    ("max all", lambda a: a.max(), real(2, 3)),
    ("argmax", lambda a: a.argmax(1), real(2, 3)),
    ("prod", lambda a: a.prod(1), real(2, 3)),
    ("any", lambda a: a.any(1), truth(2, 3)),
    ("all", lambda a: a.all(0), truth(2, 3)),
    ("var", lambda a: a.var(1), real(2, 3)),
    ("std", lambda a: a.std(1, correction=0), real(2, 3)),
    ("var_mean", lambda a: torch.var_mean(a, 1), real(2, 3)),
    ("layer_norm", lambda a: F.layer_norm(a, (5,)), real(2, 5)),
    ("layer_norm two", lambda a: F.layer_norm(a, (3, 5)), real(2, 3, 5)),
    ("rms_norm", lambda a: F.rms_norm(a, (5,)), real(2, 5)),
    ("group_norm", lambda a: F.group_norm(a, 3), real(2, 6, 5)),
    ("max_pool1d", lambda a: F.max_pool1d(a, 3, 2, 1), real(2, 3, 9)),
    ("avg_pool2d", lambda a: F.avg_pool2d(a, 2), real(2, 3, 4, 10)),
    ("max_pool2d", lambda a: F.max_pool2d(a, 3, 1), real(2, 3, 7, 8)),
    ("avg_pool1d", lambda a: F.avg_pool1d(a, 3, 1, 1), real(2, 3, 7)),
]
SEVERAL: Sequence[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("add", lambda a, b: torch.add(a, b, alpha=2), (real(2, 3), real(3))),
    ("rsub", lambda a, b: 2 - a + b, (real(2, 3), real(2, 1))),
    ("broadcast", lambda a, b: a * b, (real(4, 1, 3), real(2, 1))),
    ("div", lambda a, b: a / b, (real(2, 3), positive(2, 3))),
    ("maximum", torch.maximum, (real(2, 3), real(3))),
    ("compare", lambda a, b: (a < b) & (b != 0) | (a >= 1), (real(2, 3), real(3))),
    ("where", lambda m, a, b: torch.where(m, a, b), (truth(2, 3), real(2, 3), real(3))),
    ("masked_fill", lambda a, m: torch.softmax(a.masked_fill(m, -torch.inf), -1), (real(2, 9), real(9) > 0.5)),
    ("matmul", torch.matmul, (real(2, 3), real(3, 5))),
    ("batched", torch.matmul, (real(4, 7, 2, 3), real(7, 3, 5))),
    ("matrix vector", torch.matmul, (real(2, 3), real(3))),
    ("vector matrix", torch.matmul, (real(3), real(3, 5))),
    ("dot", torch.matmul, (real(3), real(3))),
    ("bmm", torch.bmm, (real(4, 2, 3), real(4, 3, 5))),
    ("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), (real(5), real(2, 3), real(3, 5))),
    ("linear", F.linear, (real(2, 4, 3), real(5, 3), real(5))),
    ("summed and kept meet", lambda a: torch.einsum("a,c->c", a, a) @ a, (real(5),)),
    (
        "join of a fixed length",
        lambda a: torch.cat((torch.stack((a[..., ::2], a[..., 1::2]), -2).flatten(-2), a[..., :3]), -1),
        (real(5, 8),),
    ),
    ("linear by a vector", F.linear, (real(2, 3), real(3))),
    ("linear of itself", lambda a: torch.cat((a @ a.mT).chunk(3, 0)[::-1], 0) @ (a @ a.mT).mT, (real(6, 5),)),
    ("linear of a vector", F.linear, (real(3), real(5, 3))),
    ("einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b), (real(2, 3, 5), real(2, 7, 5))),
    ("einsum dots", lambda a, b: torch.einsum("...ij,...j->...i", a, b), (real(2, 4, 3, 5), real(4, 5))),
    ("einsum implicit", lambda a, b: torch.einsum("ba,bc", a, b), (real(2, 3), real(2, 5))),
    ("gram", lambda a: a @ a.T, (real(3, 5),)),
    ("gram twice", lambda a: (a @ a.T) @ (a @ a.T), (real(3, 5),)),
    ("einsum of diagonals", lambda a, b: torch.einsum("iij,ij->j", a, b) + torch.einsum("iij,iij->j", a, a),
     (real(3, 3, 5), real(3, 5))),
    ("trace", lambda a, b: torch.trace(a @ b) * torch.einsum("ii", a @ b) + torch.trace(a), (real(3, 5), real(5, 3))),
    ("diagonals", lambda a: torch.diagonal(a, 1, -1, 0) * torch.diagonal(a[:, 0])[1:], (real(3, 2, 3),)),
    ("self einsum", lambda a: torch.einsum("bi,bj->ij", a, a), (real(3, 5),)),
    ("cat", lambda a, b: torch.cat((a, b), 1), (real(2, 3), real(2, 5))),
    ("cat three", lambda a, b, c: torch.cat((a, b, c), 0), (real(2, 3), real(4, 3), real(1, 3))),
    ("cat used", lambda a, b, w: torch.cat((a, b), 1) @ w, (real(2, 3), real(2, 5), real(8, 7))),
    ("cat cut", lambda a, b: torch.cat((a, b), 1)[:, 3:], (real(2, 3), real(2, 5))),
    ("stack", lambda a, b: torch.stack((a, b), -1), (real(2, 3), real(2, 3))),
    ("embedding", lambda t, i: F.embedding(i, t), (real(9, 3), integers(9, 2, 5))),
    ("embedding_bag", lambda t, i, w: F.embedding_bag(i, t, mode="sum", per_sample_weights=w),
     (real(9, 3), integers(9, 2, 5), real(2, 5))),
    ("embedding_bag of the largest", lambda t, i: F.embedding_bag(i, t, mode="max"), (real(9, 3), integers(9, 1, 5))),
    ("index", lambda t, i: t[:, i], (real(4, 9), integers(9, 2, 5))),
    ("index two", lambda t, i, j: t[:, i, j], (real(4, 9, 8), integers(9, 2, 1), integers(8, 1, 5))),
    ("index apart", lambda t, i, j: t[i, :, j], (real(4, 3, 9), integers(4, 2), integers(9, 2))),
    ("writes to columns", written_in_columns, (real(3, 5),)),
    ("index diagonal", lambda t: t[torch.arange(5), torch.arange(5)], (real(5, 5),)),
    ("index_select", lambda t, i: t.index_select(1, i), (real(4, 9), integers(9, 5))),
    ("gather", lambda t, i: t.gather(1, i), (real(4, 9), integers(9, 4, 5))),
    ("cross_entropy", F.cross_entropy, (real(4, 9), integers(9, 4))),
    ("cross_entropy ignoring a class", lambda a, y: F.cross_entropy(a, y, ignore_index=1),
     (real(4, 3), torch.tensor([1, 0, 2, 1]))),
    ("cross_entropy with weights", lambda a, y, w: F.cross_entropy(a, y, w, ignore_index=1, label_smoothing=0.1),
     (real(4, 3), torch.tensor([1, 0, 2, 1]), positive(3))),
    ("cross_entropy with weights of a row", F.cross_entropy, (real(3), torch.tensor(2), positive(3))),
    ("cross_entropy of probabilities", lambda a, t, w: F.cross_entropy(a, t, w, label_smoothing=0.1),
     (real(2, 3, 5), positive(2, 3, 5), positive(3))),
    ("nll_loss with weights", lambda a, y, w: F.nll_loss(a, y, w), (real(2, 3, 5), integers(3, 2, 5), positive(3))),
    ("parts across factors", lambda a: a.view(2, 3, 4, 5).transpose(0, 1).reshape(24, 5).chunk(3), (real(24, 5),)),
    ("layer_norm weights", lambda a, w, b: F.layer_norm(a, (5,), w, b), (real(2, 5), real(5), real(5))),
    (
        "batch_norm",
        lambda a, m, v, w, b: F.batch_norm(a, m, v, w, b),
        (real(2, 3, 5), real(3), positive(3), real(3), real(3)),
    ),
    ("conv1d", lambda a, w, b: F.conv1d(a, w, b), (real(2, 3, 9), real(5, 3, 4), real(5))),
    ("conv1d padded", lambda a, w: F.conv1d(a, w, padding=2), (real(2, 3, 9), real(5, 3, 4))),
    ("conv1d strided", lambda a, w: F.conv1d(a, w, stride=2, padding=1, dilation=2), (real(2, 3, 11), real(5, 3, 4))),
    ("conv1d of parts side by side",
     lambda a, w: F.conv1d(torch.stack([a[..., :4], a[..., 4:]], -1).flatten(2), w, padding=1),
     (real(2, 3, 8), real(5, 3, 3))),
    ("conv1d causal", lambda a, w: F.conv1d(a, w, padding=3, groups=6)[..., :9], (real(2, 6, 9), real(6, 1, 4))),
    ("conv1d groups", lambda a, w: F.conv1d(a, w, groups=2), (real(2, 6, 9), real(10, 3, 4))),
    ("conv2d", lambda a, w: F.conv2d(a, w, padding=1), (real(2, 3, 6, 7), real(5, 3, 3, 3))),
    (
        "conv2d patches",
        lambda a, w: F.conv2d(a, w, stride=4).flatten(2).transpose(1, 2),
        (real(2, 3, 8, 20), real(5, 3, 4, 4)),
    ),
    ("conv2d same", lambda a, w: F.conv2d(a, w, padding="same"), (real(2, 3, 6, 7), real(5, 3, 3, 2))),
    ("sdpa", F.scaled_dot_product_attention, (real(2, 3, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 6))),
    ("sdpa causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (real(2, 3, 5, 4),) * 3),
    (
        "sdpa mask",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        (real(2, 3, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 6), (real(2, 1, 5, 7) > -1.5)),
    ),
    (
        "sdpa bias",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, scale=0.3),
        (real(2, 3, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 6), real(3, 5, 7)),
    ),
    (
        "sdpa gqa",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        (real(2, 6, 5, 4), real(2, 3, 7, 4), real(2, 3, 7, 4)),
    ),
    ("logaddexp", torch.logaddexp, (real(3, 5), real(5))),
    ("nll", lambda a, t: F.nll_loss(a, t), (real(3, 5), torch.tensor([4, 0, 2]))),
    ("scatter", lambda a, i, s: a.scatter(1, i, s), (real(2, 5), torch.tensor([[4, 0, 2], [1, 2, 3]]), real(2, 3))),
    ("scatter number", lambda a, i: a.scatter(0, i, 2.0), (real(5, 2), torch.tensor([[4, 0], [1, 2]]))),
    ("scatter add", lambda a, i, s: a.scatter_add(1, i, s), (real(2, 5), torch.tensor([[4, 4], [1, 4]]), real(2, 2))),
    ("unfold", lambda a, b: F.unfold(a, (2, 3), 2, 1, (2, 1)) + b, (real(2, 3, 9, 8), real(1))),
    ("complex", lambda a, c: torch.view_as_real(torch.view_as_complex(a) * c.conj()[:3]),
     (real(4, 3, 2), torch.complex(real(5), real(5)))),
    ("polar", lambda r, t: torch.view_as_real(torch.polar(r, t)[None] * 2), (positive(3, 5), real(3, 5))),
    ("halves and pairs", lambda a, c: torch.cat((-a[..., 4:], a[..., :4]), -1) * torch.cat((c, c), -1)
     + torch.stack((a[..., ::2] * c, a[..., 1::2]), -1).flatten(-2), (real(3, 8), real(4))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "function", "example"), [*UNARY, *SHAPES, *REDUCTIONS], ids=lambda v: v if isinstance(v, str) else ""
)
def test_of_one_array(name: str, function: Callable[[Any], Any], example: Any) -> None:
    check(function, example)


@pytest.mark.parametrize("kept", [0, 1, 2, -1])
def test_weight_norm(kept: int) -> None:
    v = torch.randn(3, 5, 2, dtype=torch.float64)
    check(lambda v, g: torch._weight_norm(v, g, kept), v, torch.norm_except_dim(v, 2, kept) + 1)


def test_powers_of_a_positive_constant_by_integers() -> None:
    check(lambda a: a * torch.pow(torch.tensor(0.7, dtype=torch.float64), torch.arange(1, 6)), real(5))


def test_an_empty_constant_that_is_joined() -> None:
    check(lambda a: torch.cat([torch.tensor([], dtype=torch.float64), a * 2], -1), real(2, 5))


@pytest.mark.parametrize(("name", "function", "example"), SEVERAL, ids=lambda v: v if isinstance(v, str) else "")
def test_of_several_arrays(name: str, function: Callable[..., Any], example: tuple[Any, ...]) -> None:
    check(function, *example)


COMPLEX: dict[str, Callable[..., Any]] = {
    "powers of e": lambda x, y: torch.exp(x * 0.5j) * 2,
    "sums with real numbers": lambda x, y: x + y.real - (1 + 2j) * y,
    "quotients": lambda x, y: x / y,
    "products of matrices": lambda x, y: x @ y.mT,
    "products by letters": lambda x, y: torch.einsum("ij,kj->ki", x, y),
    "products with a real matrix": lambda x, y: x @ y.real.mT.to(x.dtype),
    "parts side by side": lambda x, y: torch.cat([x, y], 1).chunk(2, 1)[1].sum(0),
    "moduli": lambda x, y: torch.complex(x.abs(), y.abs()),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_of_complex_arrays(name: str) -> None:
    check(complex_of(COMPLEX[name]), real(3, 4), real(3, 4) + 3)


@pytest.mark.parametrize("divisor", [3, -3, integers(4, 2, 7) + 1, -1 - integers(4, 2, 7)])
def test_quotients_of_integers_are_rounded_as_pytorch_does(divisor: Any) -> None:
    a = integers(19, 2, 7) - 9
    for mode in ("floor", "trunc"):
        check(lambda a: torch.div(a, divisor, rounding_mode=mode), a)  # noqa: B023
    for function in (torch.remainder, torch.fmod, torch.floor_divide):
        check(lambda a: function(a, divisor), a)  # noqa: B023
        check(lambda a: function(a / 4, divisor), a)  # noqa: B023
