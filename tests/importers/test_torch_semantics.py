"""Corners of PyTorch's semantics: an imported program means the same there, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def real(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape) + sum(shape)))


def integers(high: int, *shape: int) -> Any:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(high))


def check(function: Callable[..., Any], *example: Any) -> cd.Program:
    program = cd.from_torch(function, *example)
    arrays = [a.detach().numpy() for a in program.example.arrays]
    found = program.run(*arrays, sizes=program.example.sizes)
    wanted = function(*example)
    found, wanted = (v if isinstance(v, (tuple, list)) else (v,) for v in (found, wanted))
    for one, other in zip(found, wanted, strict=True):
        assert np.shape(one) == tuple(other.shape)
        np.testing.assert_allclose(np.asarray(one, float), other.detach().double().numpy(), rtol=1e-10, atol=1e-12)
    return program


def written(a: Any, at: Any, part: Any) -> Any:
    made = a.clone()
    made[at] = part
    return made


REALS, INTEGERS, TRUTHS = 4 * real(7), integers(9, 7) - 4, torch.tensor([True, False, True, True, False, False, True])
SAME: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("a sum of truth values is one", lambda a, c: a + c, (TRUTHS, TRUTHS)),
    ("sum to integers", lambda a: a.sum(dtype=torch.int64), (REALS + 0.7,)),
    ("cumsum to integers", lambda a: a.cumsum(0, dtype=torch.int64), (REALS,)),
    ("logical_not of integers", torch.logical_not, (INTEGERS,)),
    ("logical_and of reals", torch.logical_and, (REALS, INTEGERS)),
    ("logical_xor of integers", torch.logical_xor, (INTEGERS, INTEGERS.flip(0))),
    ("any of reals", lambda a: a.any(0), (REALS,)),
    ("all of integers", lambda a: a.all(), (INTEGERS,)),
    ("not True", lambda a: a != True, (TRUTHS,)),  # noqa: E712
    ("where of truth values", lambda a: torch.where(a, True, False), (TRUTHS,)),
    ("an array of True", lambda a: torch.full((7,), True) & (a > 0), (REALS,)),
    ("a truth value", lambda a: torch.where(torch.tensor(True), a, 0.0), (REALS,)),
    ("2 to the power of an array", lambda a: 2**a, (REALS,)),
    ("reals copied into integers", lambda a, c: a.clone().copy_(c), (INTEGERS, REALS)),
    ("reals written into integers", lambda a, c: written(a, slice(1, 3), c), (INTEGERS, REALS[:2])),
    ("a real written into integers", lambda a, c: written(a, 1, c), (INTEGERS, REALS[2])),
    ("truth values filled with a number", lambda a, c: a.masked_fill(c, 2) & c, (TRUTHS, ~TRUTHS)),
    ("one copied to all", lambda a: a.clone().copy_(a.sum(0, keepdim=True)), (real(3, 2),)),
    ("attention to one key", F.scaled_dot_product_attention, (real(2, 5, 4), real(2, 1, 4), real(2, 1, 3))),
    ("position along one element", lambda a: a.argmax(1), (real(3, 1),)),
    ("rows of one", lambda w, i: F.embedding(i, w), (real(1, 3), integers(1, 4))),
    ("gather along one", lambda a, i: a.gather(1, i), (real(3, 1), integers(1, 3, 2))),
    ("gather of fewer rows", lambda a, i: a.gather(1, i), (real(3, 4), integers(4, 2, 5))),
    ("gather of one row", lambda a, i: a.gather(1, i), (real(3, 4), integers(4, 1, 2))),
    ("the largest", lambda a: a.topk(1), (real(3, 4),)),
    ("addbmm", torch.addbmm, (real(2, 5), real(3, 2, 4), real(3, 4, 5))),
    ("addmv", torch.addmv, (real(2), real(2, 3), real(3))),
    ("cross_entropy of one target", lambda a, t: F.cross_entropy(a, t.expand(4)), (real(4, 3), integers(3, 1))),
    ("an argument given twice", lambda a, c: a - 2 * c, (REALS, REALS)),
]  # fmt: skip
REFUSED: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("integers", lambda a, c: a**c, (REALS, INTEGERS.abs())),
    ("powers of 0", lambda a: 0**a, (REALS.abs(),)),
    ("power 65", lambda a: a**65, (REALS,)),
    ("decimals", lambda a: torch.round(a, decimals=1), (REALS,)),
    ("truth values", lambda a, c: a & c, (INTEGERS, INTEGERS)),
    ("truth values", lambda a: (a > 0).diff(), (REALS,)),
    ("bits", lambda a: a.view(torch.int64), (REALS,)),
    ("padding and dilation", lambda a: F.max_pool1d(a, 2, 1, 1, dilation=3), (real(2, 3, 8),)),
    ("the input 'a' is written", lambda a: a.add_(1), (real(3),)),
    ("depends on values", lambda a: a[a > 0], (REALS,)),
    ("derivatives are not exported", lambda a: torch.func.grad(lambda c: c.sin().sum())(a), (REALS,)),
    ("complex", lambda a: torch.view_as_real(torch.view_as_complex(a).sin()), (real(3, 2),)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "example"), [c[1:] for c in SAME], ids=[c[0] for c in SAME])
def test_means_the_same(function: Callable[..., Any], example: tuple[Any, ...]) -> None:
    check(function, *example)


@pytest.mark.parametrize(("why", "function", "example"), REFUSED)
def test_is_refused(why: str, function: Callable[..., Any], example: tuple[Any, ...]) -> None:
    with pytest.raises(cd.errors.NotImported, match=why):
        cd.from_torch(function, *example)


def test_arguments_given_twice_in_the_example_are_two() -> None:
    one, other = real(3), real(4)[:3]
    program = cd.from_torch(lambda a, c: a - 2 * c, one, one)
    np.testing.assert_allclose(program.run(one.numpy(), other.numpy()), (one - 2 * other).numpy())


class Times(nn.Module):
    """A parameter that is called as the argument is."""

    def __init__(self, square: bool) -> None:
        super().__init__()
        self.x, self.square = nn.Parameter(real(3)), square

    def forward(self, x: Any) -> Any:
        return self.x * (self.x if self.square else x)


def test_a_parameter_is_not_the_argument_of_its_name() -> None:
    program = cd.from_torch(Times(False), real(3))
    assert program.diagram.names == ("x", "x_1")
    with pytest.raises(AssertionError, match="is false"):
        cd.testing.assert_equivalent(Times(True), Times(False), example=(real(3),))


def test_the_window_of_a_pool_is_fixed() -> None:
    program = check(nn.MaxPool1d(2), real(2, 3, 8))
    assert program.run(real(2, 3, 4).numpy()).shape == (2, 3, 2)


def test_positions_from_a_length_on_fix_it() -> None:
    program = check(lambda a: a * torch.arange(a.shape[0] - 1, -1, -1), real(5))
    with pytest.raises(cd.errors.CatdiagError):
        program.run(real(4).numpy())


AT_THE_END = [lambda a: a[a.shape[0] - 1], lambda a: a.repeat(a.shape[0]), lambda a: F.pad(a, (0, a.shape[0] - 2))]


@pytest.mark.parametrize("function", AT_THE_END)
def test_a_number_that_is_computed_from_sizes_is_of_the_size(function: Callable[..., Any]) -> None:
    example = real(8)
    program = cd.from_torch(lambda a: function(a), example, dynamic=({0: torch.export.Dim("n", min=3, max=64)},))
    for length in (5, 9):
        a = real(length)
        np.testing.assert_allclose(program.run(a.numpy()), function(a).numpy())


def test_parts_that_are_read_as_such_are_noted() -> None:
    assert "4:8 of 8 is read as one of 2 parts" in check(lambda a: a[4:], real(8)).example.notes[0]
    assert "7:8 of 8 is read as the last one" in check(lambda a: a[7:], real(8)).example.notes[0]
    assert check(lambda a: a.chunk(2)[0] + a.split(4)[1], real(8)).example.notes != ()


def test_what_torch_export_says_is_said_of_the_module() -> None:
    def branching(a: Any) -> Any:
        return a if a.sum() > 0 else -a

    with pytest.raises(
        cd.errors.NotImported, match=r"could not export branching on \(\[2, 3\]\): [\s\S]*(Try whether|torch\.where)"
    ):
        cd.from_torch(branching, real(2, 3))
