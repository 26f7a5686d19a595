"""Sorting, running extremes, distances, writes, padding, losses of several dimensions: as PyTorch computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import catdiag as cd
from catdiag.category.substitution import inline
from catdiag.schedule.scatter_add import one_hot_sums

torch = pytest.importorskip("torch")
from tests.importers.test_torch_operations import check, integers, real, truth  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")
TIES = torch.tensor([[2.0, 1.0, 2.0, 0.0], [1.0, 1.0, 3.0, 3.0]], dtype=torch.float64)
INTEGERS = torch.tensor([[4, 2, 2, 5]])


def put(at: Any, add: bool = False) -> Callable[[Any, Any], Any]:
    def written(x: Any, y: Any) -> Any:
        if add:
            return x.index_put((at,), y, accumulate=True)
        z = x.clone()
        z[:, at] = y
        return z

    return written


def masked(x: Any, m: Any) -> Any:
    y = x.clone()
    y[m] = 0
    return y


def below(x: Any) -> Any:
    y = x.clone()
    y[1:] += 1
    return y


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "cummax": (lambda x: tuple(torch.cummax(x, 1)), (TIES,)),
    "cummin": (lambda x: tuple(torch.cummin(x, 0)), (TIES,)),
    "logcumsumexp": (lambda x: torch.logcumsumexp(x, 1), (real(3, 4),)),
    "cumprod": (lambda x: (torch.cumprod(x, 1), torch.cumprod(torch.arange(1, 7).view(2, 3), 0)), (real(3, 4),)),
    "sort": (lambda x: tuple(torch.sort(x, dim=-1, stable=True)), (TIES,)),
    "sort, descending": (lambda x: torch.sort(x, 0, descending=True)[0], (real(5, 2),)),
    "argsort": (lambda x: torch.argsort(x, 1), (real(2, 5),)),
    "sort of integers": (lambda x: torch.sort(x)[0], (INTEGERS,)),
    "median": (lambda x: tuple(x.median(1, keepdim=True)), (real(2, 6),)),
    "median of all": (torch.median, (real(3, 5),)),
    "kthvalue": (lambda x: tuple(torch.kthvalue(x, 2, 0)), (real(5, 3),)),
    "topk of the smallest": (lambda x: tuple(torch.topk(x, 2, largest=False)), (real(3, 5),)),
    "topk of stacked arrays": (lambda x, y: torch.stack([x, y], 1).flatten(1).topk(3)[0], (real(3, 5), real(3, 5))),
    "cdist": (torch.cdist, (real(2, 3, 5), real(2, 4, 5))),
    "cdist of absolute differences": (lambda x, y: torch.cdist(x, y, p=1.0), (real(3, 5), real(4, 5))),
    "hypot and inverses": (
        lambda x: torch.hypot(x, 2 * x) + torch.asinh(x) + torch.acosh(1 + x * x) + torch.atanh(x / 9), (real(4),)
    ),
    "index_add": (lambda x, i, y: x.index_add(0, i, y, alpha=2.0), (real(5, 3), integers(5, 7), real(7, 3))),
    "index_copy": (lambda x, y: x.index_copy(1, torch.tensor([3, 0]), y), (real(2, 5), real(2, 2))),
    "index_put": (put(torch.tensor([3, 0])), (real(4, 5, 3), real(4, 2, 3))),
    "index_put from the end": (put(torch.tensor([-1, 1])), (real(4, 5, 3), real(2, 1))),
    "index_put that adds": (put(torch.tensor([1, 1, 4]), add=True), (real(5, 3), real(3, 3))),
    "index_put at a matrix": (
        lambda x, y: x.index_put((torch.tensor([[0, 2], [1, 4]]),), y), (real(5, 3), real(2, 2, 3))
    ),
    "index_put at single elements": (
        lambda x, i, j, y: x.index_put((i, j), y, accumulate=True),
        (real(5, 4), integers(5, 6), integers(4, 6), real(6)),
    ),
    "index_put at a grid": (
        lambda x, y: x.index_put((torch.tensor([[0], [-1]]), torch.tensor([1, 3, 2])), y), (real(5, 4), real(2, 3))
    ),
    "index_put behind a dimension": (
        lambda x, i, j, y: torch.ops.aten.index_put(x, (None, i, j), y, True),
        (real(2, 5, 4), integers(5, 6), integers(4, 6), real(2, 6)),
    ),
    **{
        f"scatter_reduce, {how}": (
            lambda x, y, how=how: x.scatter_reduce(0, torch.tensor([[0, 2, 1], [0, 1, 1]]), y, how),
            (real(4, 3), real(2, 3)),
        )
        for how in ("sum", "prod", "amax", "amin")
    },
    "a write under a mask": (masked, (real(3, 4), truth(3, 4))),
    "a write to masked rows": (masked, (real(3, 4), truth(3))),
    "a write below the first row": (below, (real(3, 4),)),
    "reflected": (lambda x: F.pad(x, (2, 1, 1, 1), mode="reflect"), (real(1, 2, 3, 4),)),
    "in a circle": (lambda x: F.pad(x, (2, 3), mode="circular"), (real(1, 2, 4),)),
    "repeated at the ends": (lambda x: F.pad(x, (2, 3), mode="replicate"), (real(1, 2, 4),)),
    "each third": (lambda x: x[:, 1::3], (real(2, 9),)),
    "rolled as one": (lambda x: torch.roll(x, 2), (real(3, 4),)),
    "finite": (lambda x: torch.where(torch.isfinite(x), torch.nan_to_num(x), 0), (real(3, 4),)),
    "losses of sequences": (F.cross_entropy, (real(2, 5, 3), integers(5, 2, 3))),
    "losses, one each": (
        lambda x, t: F.cross_entropy(x, t, reduction="none", ignore_index=1), (real(2, 5, 3, 4), integers(5, 2, 3, 4))
    ),
    "added to zeros": (lambda x, i: x.new_zeros(5, 3).index_add(0, i, x), (real(7, 3), integers(5, 7))),
    "the loss of one row": (F.cross_entropy, (real(5), torch.tensor(3))),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_computes_what_pytorch_does(name: str) -> None:
    function, example = CALLS[name]
    check(function, *example)


def test_what_is_added_to_zeros_is_added_to_nothing() -> None:
    """So the result is a sum over one-hot rows, which kernels write row by row."""
    added = cd.from_torch(lambda x, i: x.new_zeros(5, 3).scatter_add(0, i, x), real(7, 3), integers(5, 7, 3))
    assert one_hot_sums(inline(added.diagram))


def onto(x: Any, i: Any, y: Any) -> Any:
    return x.index_add(0, i, y)


def by_one_hot(x: Any, i: Any, y: Any) -> Any:
    return x + F.one_hot(i, x.shape[0]).to(y.dtype).T @ y


def test_adding_at_indices_is_a_product_with_their_one_hot() -> None:
    example = (real(5, 3), integers(5, 7), real(7, 3))
    assert not cd.testing.assert_equivalent(onto, by_one_hot, example=example).conditional
    with pytest.raises(AssertionError, match="is false"):
        cd.testing.assert_equivalent(onto, lambda x, i, y: x.index_copy(0, i, y), example=example)
