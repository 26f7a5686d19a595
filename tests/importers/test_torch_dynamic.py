"""Modules as their authors write them, with a symbol for every dimension: they mean the same at other sizes, and are
proved equal to programs with named axes for all sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.importers.dimensions import Extent, Factors, NotAligned, TracedLength, same_size
from catdiag.importers.traced_sizes import SizeSum
from tests.importers import inputs

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def real(*shape: int) -> Any:
    return torch.tensor(inputs.real(*shape))


def causal_self_attention(x: Any, weight: Any, out: Any) -> Any:
    b, t, c = x.shape
    q, k, v = F.linear(x, weight).split(12, dim=2)
    k, q, v = (a.view(b, t, 3, c // 3).transpose(1, 2) for a in (k, q, v))
    scores = (q @ k.transpose(-2, -1)) * (1.0 / 4**0.5)
    scores = scores.masked_fill(torch.ones(t, t).tril() == 0, float("-inf"))
    return F.linear((F.softmax(scores, -1) @ v).transpose(1, 2).contiguous().view(b, t, c), out)


def windows(x: Any, w: int = 4) -> Any:
    b, height, width, c = x.shape
    x = x.view(b, height // w, w, width // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, w, w, c)


def cached(x: Any, keys: Any, values: Any) -> Any:
    keys, values = torch.cat([keys, x], 1), torch.cat([values, 2 * x], 1)
    return F.scaled_dot_product_attention(x, keys, values), keys, values


def at_the_end(q: Any, k: Any) -> Any:
    mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
    return F.scaled_dot_product_attention(q, k, k, attn_mask=mask)


def rotary(x: Any) -> Any:
    angles = torch.outer(torch.arange(x.shape[1]).double(), 0.1 ** torch.arange(4).double())
    angles, half = torch.cat((angles, angles), -1), x.shape[-1] // 2
    return x * angles.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * angles.sin()


def chunked(x: Any, a: Any) -> Any:
    b, _, d = x.shape
    a = a.view(b, -1, 4)
    decay = torch.exp(a[..., :, None] - a[..., None, :]).tril()
    return torch.einsum("bcls,bcsd->bcld", decay, x.view(b, -1, 4, d)).reshape(x.shape)


def past_and_new(q: Any, k: Any, past: Any) -> Any:
    t, p = q.shape[1], past.shape[1]
    later = torch.arange(p + t)[None] > torch.arange(p, p + t)[:, None]
    return (q @ torch.cat([past, k], 1).mT).masked_fill(later, float("-inf")).softmax(-1)


def masked_by_buffer(q: Any, k: Any, mask: Any) -> Any:
    return (q @ k.mT).masked_fill(mask[: q.shape[1], : q.shape[1]] > 0, -torch.inf).softmax(-1)


def groups_of_heads(q: Any, k: Any) -> Any:
    b, h, t, d = k.shape
    k = k[:, :, None].expand(b, h, 2, t, d).reshape(b, -1, t, d)
    return F.scaled_dot_product_attention(q, k, k)


def sizes(**numbers: int) -> dict[str, int]:
    return numbers


Case = tuple[str, Callable[..., Any], list[tuple[Any, ...]], dict[str, int], list[dict[str, int]]]
B, T, M = sizes(b=2, t=7), sizes(b=2, t=5, m=7), [sizes(b=3, t=5), sizes(b=1, t=4), sizes(b=5, t=12)]
N = [sizes(b=3, t=4, m=2), sizes(b=7, t=5, m=3), sizes(b=2, t=3, m=11)]
H = [sizes(b=3, h=2, w=2), sizes(b=1, h=4, w=1), sizes(b=2, h=1, w=3)]
CASES: list[Case] = [
    ("attention of nanoGPT", causal_self_attention, [("b", "t", 12), (36, 12), (12, 12)], B, M),
    ("windows", lambda x: windows(x) * 2, [("b", "4*h", "4*w", 6)], sizes(b=2, h=3, w=5), H),
    ("a cache of the same length", cached, [("b", "t", 8), ("b", "m", 8), ("b", "m", 8)], sizes(b=2, t=5, m=5), N),
    ("causal from the end", at_the_end, [("b", "t", 8), ("b", "t+s", 8)], sizes(b=2, t=5, s=2),
     [sizes(b=3, t=3, s=2), sizes(b=1, t=4, s=5), sizes(b=4, t=6, s=1)]),
    ("a table of positions", lambda x, p: x + p[:, : x.shape[1]], [("b", "t", 8), (1, 32, 8)], B, M),
    ("shifted", lambda x: F.mse_loss(x[:, 1:], x[:, :-1]), [("b", "t", "m")], T, N),
    ("the first three", lambda x: x[:, :3].sum(1), [("b", "t", "m")], sizes(b=2, t=6, m=7), N),
    ("shifted right", lambda x: x + torch.cat([torch.zeros(x.shape[0], 1, x.shape[2]), x[:, :-1]], 1),
     [("b", "t", "m")], T, N),
    ("pooling of odd lengths", lambda x: F.max_pool2d(x, 3, 2, 1), [("b", 3, "h", "w")], sizes(b=2, h=9, w=11),
     [sizes(b=3, h=4, w=6), sizes(b=1, h=7, w=8), sizes(b=2, h=10, w=3)]),
    ("positions alone", lambda x: torch.arange(x.shape[1]) * 1.0, [("b", "t")], B, M),
    ("rolled by a half", lambda x: torch.roll(x, -(x.shape[1] // 2), 1), [("b", "2*t")], B, M),
    ("ends", lambda x: x[:, -3] + x[:, x.shape[1] - 1] - x[:, -2:].sum(1), [("b", "2*t", 3)], B, M),
]  # fmt: skip
MORE: list[Case] = [
    ("rows", lambda x: F.softmax(x.reshape(-1, x.shape[-1]), -1).view(x.shape), [("b", "t", "m")], T, N),
    ("divided by a length", lambda x: x.sum(1) / x.shape[1], [("b", "t", "m")], T, N),
    ("a buffer of masks", masked_by_buffer, [("b", "t", 8), ("b", "t", 8), (32, 32)], B, M),
    ("past and new", past_and_new, [("b", "t", 8), ("b", "t", 8), ("b", "m", 8)], sizes(b=2, t=3, m=5), N),
    ("rotary", rotary, [("b", "t", 8)], B, M),
    ("chunks", chunked, [("b", "4*t", "m"), ("b", "4*t")], sizes(b=2, t=3, m=5), N),
    ("halves", lambda x: x[..., : x.shape[-1] // 2] * x[..., x.shape[-1] // 2 :], [("b", "t", "2*m")], T, N),
    ("heads", lambda x: x.view(*x.shape[:-1], x.shape[-1] // 4, 4).transpose(-2, -3), [("b", "t", "4*m")], T, N),
    ("groups of heads", groups_of_heads, [("b", "2*t", "m", 8), ("b", "t", "m", 8)], sizes(b=2, t=3, m=7), N),
    ("a square", lambda x: (x @ x.mT - torch.eye(x.shape[0])).pow(2).mean(), [("t", "m")], T, N),
    ("classes", lambda a, c: F.cross_entropy(a @ c.T, torch.arange(a.shape[0])), [("t", "m"), ("t", "m")], T, N),
    ("of the mean", lambda x: (x - x.mean(0)) / x.std(0), [("t", "m")], T, N),
    ("shuffled", lambda x: F.pixel_shuffle(x, 2), [("b", 12, "h", "w")], sizes(b=2, h=5, w=7), H),
    ("interpolated", lambda x: F.interpolate(x, scale_factor=2.0), [("b", 3, "h", "w")], sizes(b=2, h=5, w=7), H),
    ("groups of channels", lambda x: F.group_norm(x, 2), [("b", 6, "h", "w")], sizes(b=2, h=5, w=7), H),
    ("strides", lambda x, w: F.conv1d(x, w, stride=2), [("b", 3, "2*t"), (4, 3, 3)], B, M),
    ("split", lambda x: torch.cat(x.split([2, x.shape[1] - 2], 1)[::-1], 1), [("b", "t", "m")], T, N),
    ("written", lambda x: x.slice_scatter(torch.zeros_like(x[:, 1:3]), 1, 1, 3), [("b", "t", "m")], T, N),
]  # fmt: skip


def arrays_of(shapes: list[tuple[Any, ...]], sizes: dict[str, int]) -> list[Any]:
    return [real(*(eval(str(n), {}, dict(sizes)) for n in shape)) for shape in shapes]


def everywhere_the_same(case: Case) -> None:
    _, function, shapes, sizes, others = case
    program = cd.from_torch(function, *arrays_of(shapes, sizes), dynamic=True)
    for other in others:
        given = arrays_of(shapes, other)
        rest = [a.detach().numpy() for a in program.example.arrays[len(given) :]]
        found, wanted = program.run(*(a.numpy() for a in given), *rest), function(*given)
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for one, another in pairs:
            np.testing.assert_allclose(one, another.detach().numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_at_other_sizes(case: Case) -> None:
    everywhere_the_same(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", MORE, ids=lambda c: c[0])
def test_more_at_other_sizes(case: Case) -> None:
    everywhere_the_same(case)


def by_hand(signature: str) -> Callable[[Callable[..., Any]], Any]:
    return cd.algorithm(signature)


@by_hand("b t d, b s d -> b t d")
def from_the_end(q: Any, k: Any) -> Any:
    scores = cd.einsum("b t d, b s d -> b t s", q, k) / cd.sqrt(cd.size("d"))
    scores = cd.where(cd.index("s") <= cd.index("t") + cd.size("s") - cd.size("t"), scores, -cd.inf)
    return cd.einsum("b t s, b s d -> b t d", cd.nn.softmax(scores, "s"), k)


@by_hand("b t m, 1 p m -> b t m")
def with_positions(x: Any, p: Any) -> Any:
    return x + cd.gather(cd.sum(p, "1"), "p", cd.index("t"))


@by_hand("b t m -> b m")
def first_three(x: Any) -> Any:
    return cd.reindex(x, "", t=0) + cd.reindex(x, "", t=1) + cd.reindex(x, "", t=2)


@by_hand("n d -> n d")
def standardized(x: Any) -> Any:
    centered = x - cd.mean(x, "n")
    return centered / cd.sqrt(cd.sum(centered**2, "n") / (cd.size("n") - 1))


@by_hand("b t m -> b m")
def averaged(x: Any) -> Any:
    return cd.mean(x, "t")


@by_hand("b t (h=2 m) -> b t m")
def of_halves(x: Any) -> Any:
    return cd.prod(cd.rearrange(x, "b t (h=2 m) -> b t h m"), "h")


PROVED = [
    (at_the_end, from_the_end, ((2, 5, 8), (2, 7, 8)), {"q": "b t d", "k": "b s d"}),
    (CASES[4][1], with_positions, ((2, 5, 8), (1, 32, 8)), {"x": "b t m", "p": "1 p m"}),
    (CASES[6][1], first_three, ((2, 6, 7),), {"x": "b t m"}),
    (MORE[11][1], standardized, ((5, 7),), {"x": "n d"}),
    (MORE[1][1], averaged, ((2, 5, 7),), {"x": "b t m"}),
    (MORE[6][1], of_halves, ((2, 5, 14),), {"x": "b t (h m)"}),
]


@pytest.mark.parametrize(("function", "program", "shapes", "names"), PROVED, ids=lambda v: getattr(v, "name", ""))
def test_proved_equal_to_a_program_for_all_sizes(function: Any, program: Any, shapes: Any, names: Any) -> None:
    imported = cd.from_torch(function, *(real(*s) for s in shapes), names=names, dynamic=True)
    assert not cd.prove(imported, program).conditional


def test_axes_are_called_as_the_dimensions_of_an_export() -> None:
    batch, tokens = torch.export.Dim("batch"), torch.export.Dim("tokens")
    program = cd.from_torch(lambda x: x * 2, real(2, 5, 3), dynamic={"x": {0: batch, 1: tokens}})
    assert str(program.dom) == "[batch tokens x_2]"


def test_lengths_that_torch_fixes_are_noted() -> None:
    program = cd.from_torch(lambda x: x / (1 + math.log(x.shape[1])), real(4, 6), dynamic=True)
    assert "dimension 1 of x (6)" in program.example.notes[0]
    assert cd.from_torch(lambda x: x / x.shape[1], real(4, 6), dynamic=True).example.notes == ()


def test_lengths_of_one_that_are_computed_are_refused() -> None:
    with pytest.raises(NotAligned, match="the length n - 3 is 1 in the example: expected a longer one"):
        Factors().dimension(TracedLength(1, "n - 3", lambda: None))


def test_sums_and_rests_of_sizes() -> None:
    factors = Factors()
    n, m = Extent(7), Extent(4)
    one, other = SizeSum.of(factors, n), SizeSum.of(factors, m)
    left = (one - 1).extent()
    assert left is not None and left.length == 6
    whole = (one - 1 + other).extent()
    assert whole is not None and same_size(whole, Extent(10, parts=(m, left), op="+"))
    half = (other // 2).extent()
    assert half is not None and same_size(m, Extent(4, parts=(Extent(2, fixed=True), half), op="*"))
    assert (one // 2).extent() is None
    assert (1 - one).extent() is None
