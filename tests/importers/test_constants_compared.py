"""Buffers, constants and lengths of two modules that are compared: what they hold counts, and parts have any length."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from catdiag.prover import Refuted, Undecided, prove  # noqa: E402
from catdiag.testing.module_pairs import ModulePair, prove_modules  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
real = torch.randn
attend = torch.nn.functional.scaled_dot_product_attention


class Holding(torch.nn.Module):
    """A module with one buffer, and a function of it and the argument."""

    def __init__(self, held: Any, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.register_buffer("held", held)
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self.held, x)


def verdict(first: Any, second: Any, *example: Any) -> str:
    try:
        theorem, notes = prove_modules(ModulePair.imported(first, second, example), prove)
    except Refuted:
        return "refuted"
    except Undecided as error:
        return f"undecided: {error.message}"
    assert not theorem.conditional
    return "proved at the example" if any("sizes of the example" in n for n in notes) else "proved"


def test_constants_are_the_same_where_they_hold_the_same() -> None:
    a, b, c = torch.tensor([0.5, 0.25, 0.125]), torch.tensor([3.0, 7.0, 1.0]), torch.tensor([0.5, 0.25, 0.1])
    assert verdict(lambda x: x * a + b, lambda x: b + a.clone() * x, real(2, 3)) == "proved"
    assert verdict(lambda x: x * a, lambda x: x * c, real(2, 3)) == "refuted"
    assert verdict(Holding(a, torch.mul), Holding(c, torch.mul), real(2, 3)) == "refuted"
    assert verdict(Holding(a, torch.mul), lambda x: a * x, real(2, 3)) == "proved"


def causal(shift: int, fill: float) -> Holding:
    def masked(mask: Any, x: Any) -> Any:
        n = x.shape[-2]
        scores = x @ x.transpose(-1, -2) / math.sqrt(x.shape[-1])
        return scores.masked_fill(mask[:n, :n] == fill, -math.inf).softmax(-1) @ x

    return Holding(
        torch.tril(torch.full((8, 8), 1 - fill), shift) + torch.triu(torch.full((8, 8), fill), shift + 1), masked
    )


def test_a_causal_mask_in_a_buffer_is_one_of_positions() -> None:
    flag = lambda x: attend(x, x, x, is_causal=True)  # noqa: E731
    assert verdict(causal(0, 0.0), flag, real(2, 5, 6)) == "proved"
    assert verdict(causal(1, 1.0), flag, real(2, 5, 6)) == "refuted"


def test_a_table_that_one_module_holds_is_not_any_array() -> None:
    table = torch.cos(torch.arange(5)[:, None] / torch.arange(1, 4))
    made = lambda x: x * torch.cos(torch.arange(5)[:, None] / torch.arange(1, 4))  # noqa: E731
    assert "give the same with what held holds" in verdict(Holding(table, torch.mul), made, real(5, 3))
    assert verdict(Holding(table + 1, torch.mul), made, real(5, 3)) == "refuted"


def test_a_number_of_many_digits_is_read_as_a_fraction() -> None:
    assert verdict(lambda x: (x / 0.7).exp(), lambda x: (x * (1 / 0.7)).exp(), real(2, 3)) == "proved"
    assert verdict(lambda x: x / 3, lambda x: x * 0.3333, real(2, 3)) == "refuted"


def test_a_rounded_decimal_is_read_as_the_decimal() -> None:
    old, new = real(2, 3), real(2, 3)
    average = lambda a, b: 0.99 * a + (1 - 0.99) * b  # noqa: E731
    assert verdict(average, lambda a, b: torch.lerp(a, b, 0.01), old, new) == "proved"
    assert verdict(average, lambda a, b: torch.lerp(a, b, 0.0100001), old, new) == "refuted"
    assert verdict(lambda x: x * (0.9**3), lambda x: x * 0.729, old) == "proved"


def test_a_difference_of_little_more_than_single_precision_rounds_is_seen() -> None:
    def standardized(x: Any, w: Any, epsilon: float) -> Any:
        flat = torch.nn.functional.layer_norm(w.flatten(1), (w[0].numel(),), eps=epsilon)
        return torch.nn.functional.conv2d(x, flat.view_as(w))

    def in_a_batch(x: Any, w: Any) -> Any:
        rows = torch.nn.functional.batch_norm(w.view(1, w.shape[0], -1), None, None, training=True, eps=1e-3)
        return torch.nn.functional.conv2d(x, rows.view_as(w))

    arrays = real(2, 3, 5, 6), real(4, 3, 2, 2)
    assert verdict(lambda x, w: standardized(x, w, 1e-3), in_a_batch, *arrays) == "proved"
    assert verdict(lambda x, w: standardized(x, w, 1e-5), in_a_batch, *arrays) == "refuted"


def test_only_sizes_that_numbers_are_made_of_are_fixed() -> None:
    """√4 of a width that is not summed over: the theorem is for all lengths, and this width."""

    def absorbed(x: Any, c: Any, queries: Any, keys: Any) -> Any:
        q = torch.einsum("btd,de,re->btr", x, queries, keys)
        return (torch.einsum("btr,bsr->bts", q, c) / math.sqrt(keys.shape[-1])).softmax(-1) @ c

    def whole(x: Any, c: Any, queries: Any, keys: Any) -> Any:
        return attend(torch.einsum("btd,de->bte", x, queries), torch.einsum("bsr,re->bse", c, keys), c)

    example = real(2, 5, 6), real(2, 7, 3), real(6, 4), real(3, 4)
    _, notes = prove_modules(ModulePair.imported(whole, absorbed, example), prove)
    assert notes[-1] == "proved where e == 4, sizes of the example that numbers are made of"


@pytest.mark.parametrize("width", [4, 9, 64])
def test_a_fourth_root_on_both_sides_is_one_of_the_width(width: int) -> None:
    """Also where it is a root of another small integer: of 64, the fourth root of 1/64 is that of 1/8."""

    def scaled(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax((q * q.shape[-1] ** -0.25) @ (k * k.shape[-1] ** -0.25).mT, -1) @ v

    assert verdict(attend, scaled, real(2, 5, width), real(2, 7, width), real(2, 7, 3)) == "proved"


def test_a_scale_before_the_heads_are_taken_apart_is_one_of_their_width() -> None:
    def scaled(power: float, x: Any, w: Any, k: Any, v: Any) -> Any:
        q = (x @ w.T) * 8**power  # beside a product over another length
        return (q.unflatten(-1, (3, 8)).transpose(1, 2) @ k.mT).softmax(-1) @ v

    def whole(x: Any, w: Any, k: Any, v: Any) -> Any:
        return attend((x @ w.T).unflatten(-1, (3, 8)).transpose(1, 2), k, v)

    example = real(2, 5, 6), real(24, 6), real(2, 3, 7, 8), real(2, 3, 7, 4)
    assert verdict(whole, lambda *a: scaled(-0.5, *a), *example) == "proved"
    assert verdict(whole, lambda *a: scaled(-0.25, *a), *example) == "refuted"
    notes = ModulePair.imported(whole, lambda *a: scaled(-0.5, *a), example).notes
    assert len(notes) == 1 and "0.3535533905932738 is read as 1/sqrt(n), with n the length 8" in notes[0]


def state(x: Any, late: bool = False) -> Any:
    h, found = torch.zeros(3), []
    for t in range(4):
        found += [h] if late else []
        h = torch.sigmoid(x[t]) * h + x[t]
        found += [] if late else [h]
    return torch.stack(found)


def test_a_loop_that_gives_its_state_a_step_late_is_refuted() -> None:
    assert verdict(state, lambda x: state(x, late=True), real(4, 3)) == "refuted"


def by_hand(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1) @ v


def keys_in_parts(q: Any, k: Any, v: Any) -> Any:
    scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).exp()
    one, two = scores[..., :3], scores[..., 3:]
    return (one @ v[:, :3] + two @ v[:, 3:]) / (one.sum(-1, keepdim=True) + two.sum(-1, keepdim=True))


def test_queries_and_keys_in_parts() -> None:
    qkv = real(2, 6, 4), real(2, 8, 4), real(2, 8, 5)
    chunks = lambda q, k, v: torch.cat([by_hand(part, k, v) for part in q.chunk(2, -2)], -2)  # noqa: E731
    assert verdict(by_hand, chunks, *qkv) == "proved"
    assert verdict(by_hand, keys_in_parts, *qkv) == "proved"


def test_an_array_cut_in_two_ways_that_do_not_refine_each_other() -> None:
    def halves(x: Any) -> Any:
        a, b = x[..., :4].chunk(2, -1)
        return torch.cat([torch.cat([-b, a], -1), x[..., 4:]], -1)

    def parts(x: Any) -> Any:
        return torch.cat([-x[..., 2:4], x[..., :2], x[..., 4:]], -1)

    assert verdict(halves, parts, real(3, 8)) == "proved"


def test_statistics_of_training_are_no_range_even_where_they_hold_one() -> None:
    """What training changes stands for any array, whatever it holds in the example."""
    first, second = (torch.nn.BatchNorm1d(4).eval().double() for _ in range(2))
    for module in (first, second):
        module.running_mean.copy_(torch.arange(4))
    pair = ModulePair.imported(first, second, [real(3, 4).double()])
    assert not any("range" in note for note in pair.notes) and "running_mean" in pair.first.input_names
