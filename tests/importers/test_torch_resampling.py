"""Interpolation, transposed convolutions, windows added up: they compute what PyTorch does, and pairs are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
from tests.importers.test_torch_operations import check, real  # noqa: E402

F, nn = torch.nn.functional, torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")


def up(**how: Any) -> Callable[[Any], Any]:
    return lambda x: F.interpolate(x, **how)


def module(made: Any) -> Any:
    return made.double().eval()


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "nearest, by factors": (up(scale_factor=(2, 3)), (real(2, 3, 4, 5),)),
    "nearest, along three dimensions": (up(size=(4, 6, 4)), (real(1, 2, 2, 3, 4),)),
    "nearest, shorter": (up(scale_factor=0.5), (real(1, 2, 4, 6),)),
    "nearest, between": (up(size=(7, 5)), (real(1, 2, 4, 3),)),
    "linear": (up(scale_factor=3, mode="linear"), (real(2, 3, 4),)),
    "linear, shorter": (up(size=3, mode="linear"), (real(2, 4, 5),)),
    "bilinear": (up(scale_factor=2, mode="bilinear"), (real(2, 3, 4, 5),)),
    "bilinear, with corners": (up(size=(7, 9), mode="bilinear", align_corners=True), (real(2, 3, 4, 5),)),
    "trilinear": (up(size=(4, 3, 5), mode="trilinear"), (real(1, 2, 2, 3, 4),)),
    "windows side by side": (lambda x: F.fold(x, (4, 6), 2, stride=2), (real(1, 12, 6),)),
    "windows that overlap": (lambda x: F.fold(x, (5, 6), 3, padding=1), (real(2, 18, 30),)),
    "windows at distances": (lambda x: F.fold(x, (7, 6), (3, 2), dilation=2, stride=(1, 2)), (real(1, 12, 6),)),
    "transposed": (F.conv_transpose2d, (real(2, 3, 4, 5), real(3, 6, 2, 3))),
    "transposed, side by side": (module(nn.ConvTranspose2d(4, 6, 2, stride=2)), (real(1, 4, 3, 5),)),
    "transposed, twice as long": (module(nn.ConvTranspose1d(3, 4, 3, 2, 1, 1)), (real(2, 3, 5),)),
    "transposed, in groups": (
        module(nn.ConvTranspose2d(4, 6, 3, padding=1, groups=2, dilation=2)),
        (real(1, 4, 5, 7),),
    ),
    "transposed, cut": (module(nn.ConvTranspose1d(3, 4, 4, 3, 2)), (real(2, 3, 5),)),
    "a maximum with the last window": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (real(2, 3, 8, 11),)),
    "a maximum, windows side by side": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), (real(2, 3, 8, 11),)),
    "a mean with the last window": (lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), (real(2, 3, 8, 11),)),
    "a mean of what is inside": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), (real(2, 3, 8, 11),),
    ),
    "a mean by another number": (lambda x: F.avg_pool1d(x, 3, 1, 1) + F.avg_pool2d(x[None], 1, 1,
                                 divisor_override=5)[0], (real(2, 3, 8),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_computes_what_pytorch_does(name: str) -> None:
    function, example = CALLS[name]
    check(function, *example)


def repeated(x: Any) -> Any:
    return x.repeat_interleave(2, -1).repeat_interleave(2, -2)


def by_einsum(x: Any, w: Any) -> Any:
    b, _, h, width = x.shape
    made = torch.einsum("bchw,coij->bohiwj", x, w)
    return made.reshape(b, w.shape[1], h * 2, width * 2)


PAIRS = {
    "nearest": (up(scale_factor=2), repeated, lambda x: x.repeat(1, 1, 2, 2), (real(2, 3, 4, 5),)),
    "transposed": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        by_einsum,
        lambda x, w: by_einsum(x, w.flip(-1)),
        (real(1, 3, 4, 5), real(3, 7, 2, 2)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_told_apart(name: str) -> None:
    one, same, other, example = PAIRS[name]
    assert not cd.testing.assert_equivalent(one, same, example=example).conditional
    with pytest.raises(AssertionError, match="is false: left gives"):
        cd.testing.assert_equivalent(one, other, example=example)


def test_lengths_are_symbols() -> None:
    program = cd.from_torch(up(scale_factor=2, mode="bilinear"), real(2, 3, 4, 5))
    (result,) = program.cod
    assert not any(isinstance(axis.size, int) and axis.size > 2 for axis in result.axes)


def test_what_is_read_otherwise_is_said() -> None:
    assert "read as 2 times as long" in " ".join(cd.from_torch(up(size=8), real(1, 2, 4)).example.notes)
    with pytest.raises(cd.errors.NotImported, match="bicubic interpolation"):
        cd.from_torch(up(scale_factor=2, mode="bicubic"), real(1, 2, 4, 5))
