"""Refactored PyTorch modules are proved equal for all sizes, or told apart by numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
from catdiag.testing.module_pairs import with_axes_of  # noqa: E402

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
real = torch.randn


class Separate(nn.Module):
    """Self-attention with three projections."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(12, 12, bias=False) for _ in range(3))

    def heads(self, a: Any) -> Any:
        return a.view(*a.shape[:2], 3, 4).transpose(1, 2)

    def forward(self, x: Any) -> Any:
        q, k, v = (self.heads(f(x)) for f in (self.q, self.k, self.v))
        p = torch.softmax(q @ k.transpose(-2, -1) * 4**-0.5, -1)
        return (p @ v).transpose(1, 2).reshape(x.shape)


class Fused(Separate):
    """The same, with one projection and PyTorch's own attention."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.qkv = nn.Linear(12, 36, bias=False)

    def forward(self, x: Any) -> Any:
        q, k, v = (self.heads(a) for a in self.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)


def from_fused(of: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(("q.weight", "k.weight", "v.weight"), of["qkv.weight"].chunk(3, 0), strict=True))


def swapped(of: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(("k.weight", "q.weight", "v.weight"), of["qkv.weight"].chunk(3, 0), strict=True))


def test_fused_projections_are_the_separate_ones() -> None:
    with pytest.warns(UserWarning, match=r"0\.5 is read as 1/sqrt\(n\), with n the length 4"):
        theorem = cd.testing.assert_equivalent(Separate(), Fused(), example=(real(2, 5, 12),), parameters=from_fused)
    assert not theorem.conditional


def test_swapped_projections_are_refuted() -> None:
    with (
        pytest.raises(AssertionError, match=r"is false(.|\n)* x = np.array"),
        pytest.warns(UserWarning, match="read as"),
    ):
        cd.testing.assert_equivalent(Separate(), Fused(), example=(real(2, 5, 12),), parameters=swapped)


class Adapted(nn.Module):
    """A linear layer with an adapter of low rank."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.base, self.down, self.up = nn.Linear(5, 7), nn.Linear(5, 2, bias=False), nn.Linear(2, 7, bias=False)
        self.scale = scale

    def forward(self, x: Any) -> Any:
        return self.base(x) + self.up(self.down(x)) * self.scale


def merged(of: dict[str, Any]) -> dict[str, Any]:
    return {"weight": of["base.weight"] + of["up.weight"] @ of["down.weight"], "bias": of["base.bias"]}


def test_a_merged_adapter() -> None:
    cd.testing.assert_equivalent(nn.Linear(5, 7), Adapted(), example=(real(3, 5),), parameters=merged)
    with pytest.raises(AssertionError, match="is false"):
        cd.testing.assert_equivalent(nn.Linear(5, 7), Adapted(0.5), example=(real(3, 5),), parameters=merged)


def test_functions() -> None:
    def one(a: Any, b: Any) -> Any:
        return F.relu(a - b) - F.relu(b - a)

    cd.testing.assert_equivalent(one, lambda a, b: a - b, example=(real(2, 3), real(3)))
    with pytest.raises(AssertionError, match="is false"):
        cd.testing.assert_equivalent(one, lambda a, b: b - a, example=(real(2, 3), real(3)))


def test_results_of_other_shapes_are_refused() -> None:
    with pytest.raises(cd.errors.NotImported, match=r"gives results of shapes \[\[2\]\], <lambda>|shapes"):
        cd.testing.assert_equivalent(lambda a: a.sum(1), lambda a: a.sum(0), example=(real(2, 3),))


def test_nothing_is_said_of_modules_that_pytorch_tells_apart_on_the_example() -> None:
    """A power is read as one of a positive base."""
    example = torch.tensor([-1.5, 2.0]), torch.tensor([3.0, 2.0])
    with pytest.raises(AssertionError, match="library gives other numbers on the example"):
        cd.testing.assert_equivalent(lambda a, n: a**n, lambda a, n: a.abs() ** n, example=example)


def test_what_was_run_has_the_parameters_that_are_compared() -> None:
    """Layers of one name hold other numbers, and a module in training counts what it has seen."""
    torch.manual_seed(0)
    one, other = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(2))
    seen = int(one[1].num_batches_tracked)
    cd.testing.assert_equivalent(one.eval(), other.eval(), example=(torch.randn(2, 3),))
    assert int(one[1].num_batches_tracked) == seen


def test_sizes_at_which_pytorch_gives_no_result_are_no_counterexample() -> None:
    """Of one number there are no two largest."""
    with pytest.raises(AssertionError, match="is false") as found:
        cd.testing.assert_equivalent(
            lambda x: x.topk(2, -1)[0][..., 1], lambda x: x.max(-1).values, example=(torch.randn(3, 4),)
        )
    assert "x_1=1" not in str(found.value)


def test_two_axes_stay_two_where_one_gets_the_name_of_the_other() -> None:
    """The sum over pairs is no sum over equal ones, whatever the axes of the other program are called."""

    def scores(a: Any, b: Any) -> Any:
        return torch.exp(a @ b.mT)

    def over_equal(a: Any, b: Any) -> Any:
        return torch.einsum("qy,y->q", scores(a, b), torch.tanh(b.sum(-1)))

    def over_pairs(a: Any, b: Any) -> Any:
        return torch.einsum("qk,y->q", scores(a, b), torch.tanh(b.sum(-1)))

    @cd.algorithm("q d, x d -> q")
    def left(a, b):  # type: ignore[no-untyped-def]
        keys = b.rename(x="y")
        return cd.einsum("q y, y -> q", cd.exp(cd.einsum("q d, y d -> q y", a, keys)), cd.tanh(cd.sum(keys, "d")))

    @cd.algorithm("q d, x d -> q")
    def right(a, b):  # type: ignore[no-untyped-def]
        exponentials = cd.exp(cd.einsum("q d, k d -> q k", a, b.rename(x="k")))
        return cd.einsum("q k, y -> q", exponentials, cd.tanh(cd.sum(b.rename(x="y"), "d")))

    a, b = real(2, 3).double(), real(4, 3).double()
    named = cd.Program(with_axes_of(left.diagram, right.diagram))
    np.testing.assert_allclose(named.run(a.numpy(), b.numpy()), over_pairs(a, b).numpy())
    meta = a.to("meta"), b.to("meta")  # PyTorch cannot be asked
    with pytest.raises(AssertionError, match="is false"):
        cd.testing.assert_equivalent(over_equal, over_pairs, example=meta)


def test_the_parts_of_an_axis_are_named_with_it() -> None:
    """Windows that are shifted, and shifted back along one of two axes."""

    def shifted(back: tuple[int, int]) -> Any:
        def function(x: Any) -> Any:
            rolled = x.roll((-1, -1), (1, 2)).unflatten(1, (-1, 2)).unflatten(3, (-1, 2)).transpose(2, 3).relu()
            return rolled.transpose(2, 3).flatten(1, 2).flatten(2, 3).roll(back, (1, 2))

        return function

    cd.testing.assert_equivalent(shifted((1, 1)), torch.relu, example=(real(1, 4, 6, 3),))
    with pytest.raises(AssertionError, match="is false"):
        cd.testing.assert_equivalent(shifted((1, 1)), shifted((1, 0)), example=(real(1, 4, 6, 3),))


def test_lengths_that_are_equal_in_the_example_are_taken_for_equal() -> None:
    def whole(q: Any, k: Any, v: Any) -> Any:
        return (q @ k.mT).tril() @ v

    def chunked(q: Any, k: Any, v: Any) -> Any:
        (q1, q2), (k1, k2), (v1, v2) = (a.chunk(2) for a in (q, k, v))
        return torch.cat([(q1 @ k1.mT).tril() @ v1, (q2 @ k2.mT).tril() @ v2 + q2 @ (k1.mT @ v1)])

    with pytest.warns(UserWarning, match="lengths that are equal in the example are equal"):
        cd.testing.assert_equivalent(whole, chunked, example=(real(6, 3), real(6, 3), real(6, 5)))


def test_windows_of_a_padded_array_are_as_many_as_its_elements() -> None:
    def last_of_all(x: Any, w: Any) -> Any:
        return F.conv1d(F.pad(x, (3, 0)), w, groups=2)[..., -1]

    example = real(2, 7), real(2, 1, 4)
    cd.testing.assert_equivalent(last_of_all, lambda x, w: (x[..., -4:] * w[:, 0]).sum(-1), example=example)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda of: {"query": of["qkv.weight"]}, "'query' is made, and Separate has no such tensor: it has q.weight"),
        (
            lambda of: {"q.weight": of["qkv.weight"]},
            r"'q.weight' is made with shape \[36, 12\]",
        ),
        (lambda of: {"q.weight": of["q"]}, "cannot be made of those of Fused, qkv.weight.*: KeyError: 'q'"),
        (lambda of: [of["qkv.weight"]], "parameters gives a list"),
        ({"q.weight": "qkv.weight"}, "parameters is a dict: expected a function"),
    ],
)
def test_parameters_that_the_first_module_does_not_have_are_refused(made: Any, message: str) -> None:
    with pytest.raises(cd.errors.NotImported, match=message):
        cd.testing.assert_equivalent(Separate(), Fused(), example=(real(2, 5, 12),), parameters=made)


def test_parameters_of_names_that_the_other_module_lacks_are_listed() -> None:
    with (
        pytest.warns(UserWarning, match="the first module alone has q.weight, .*, and the second qkv.weight"),
        pytest.raises(AssertionError, match="is false"),
    ):
        cd.testing.assert_equivalent(Separate(), Fused(), example=(real(2, 5, 12),))


def test_arguments_by_name() -> None:
    def scaled(x: Any, *, scale: float, shift: Any) -> Any:
        return (x + shift) * scale

    def distributed(x: Any, *, scale: float, shift: Any) -> Any:
        return x * scale + shift * scale

    named = {"scale": 2.0, "shift": real(5)}
    assert not cd.testing.assert_equivalent(scaled, distributed, example=(real(3, 5),), kwargs=named).conditional


def test_masks_of_one_length_are_proved_where_queries_are_as_many_as_keys() -> None:
    """A mask of one row is one of all rows in PyTorch, so that both differ for one query of many keys."""

    def causal(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def by_hand(q: Any, k: Any, v: Any) -> Any:
        n = q.shape[-2]
        scores = q @ k.mT / q.shape[-1] ** 0.5 + torch.full((n, n), -torch.inf).triu(1)
        return scores.softmax(-1) @ v

    with pytest.warns(UserWarning, match="what was imported") as said:
        cd.testing.assert_equivalent(causal, by_hand, example=[real(2, 5, 3) for _ in range(3)])
    notes = [str(one.message) for one in said]
    assert any("lengths that are equal in the example are equal" in note for note in notes)
    assert not any("the example only" in note for note in notes)


@pytest.mark.parametrize("base", [10000.0, 1000000.0, 500000.0])
def test_frequencies_by_powers_are_those_by_exponentials(base: float) -> None:
    def by_powers(x: Any) -> Any:
        return x * base ** (-torch.arange(0, 16, 2).float() / 16)

    def by_exponentials(x: Any) -> Any:
        return x * torch.exp(torch.arange(0, 16, 2).float() * (-math.log(base) / 16))

    cd.testing.assert_equivalent(by_powers, by_exponentials, example=(real(3, 8),))


def test_writes_to_every_third_element() -> None:
    def written(x: Any, y: Any) -> Any:
        made = x.clone()
        made[:, 1::3] = y
        return made

    def stacked(x: Any, y: Any) -> Any:
        first, _, third = x.unflatten(1, (-1, 3)).unbind(-1)
        return torch.stack([first, y, third], -1).flatten(1)

    cd.testing.assert_equivalent(written, stacked, example=(real(2, 12), real(2, 4)))

    def partly(x: Any) -> Any:
        made = x.clone()
        made[:, 4::3] = 0
        return made

    with pytest.raises(
        cd.errors.NotImported,
        match="a write to the elements 4:12:3 of 12: expected every 3-th to the end of a length that 3 divides",
    ):
        cd.from_torch(partly, real(2, 12))


def test_programs_imported_by_themselves_that_have_other_names() -> None:
    x, w = torch.randn(2, 3), torch.randn(4, 3)
    by_letters = cd.from_torch(lambda x, w: torch.einsum("bi,oi->bo", x, w), x, w)
    with pytest.raises(cd.errors.TypeMismatch, match=r"names of their own: names= .*assert_equivalent"):
        cd.prove(cd.from_torch(lambda x, w: x @ w.mT, x, w), by_letters)
    names = {"x": "b i", "w": "o i"}
    assert not cd.prove(cd.from_torch(lambda x, w: x @ w.mT, x, w, names=names), by_letters).conditional
