"""Pairs of programs that a person could take for equal, or different, and that are not so in a corner."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import catdiag as cd

torch = pytest.importorskip("torch")
from catdiag.prover import Refuted, Undecided, prove  # noqa: E402
from catdiag.prover.original_programs import OriginalPrograms  # noqa: E402
from catdiag.prover.refute.counterexample_data import Counterexample  # noqa: E402
from catdiag.testing.module_pairs import ModulePair, prove_modules  # noqa: E402

F, nn = torch.nn.functional, torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
real = torch.randn
attend = F.scaled_dot_product_attention
Pair = tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]


def verdict(first: Any, second: Any, example: tuple[Any, ...]) -> str:
    try:
        theorem, _ = prove_modules(ModulePair.imported(first, second, example), prove)
    except Refuted:
        return "refuted"
    except Undecided:
        return "undecided"
    return str(theorem.verdict)


def integers(high: int, *shape: int) -> Any:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(1))


def masked(s: Any, m: Any) -> Any:
    return s.masked_fill(~m, -torch.inf).softmax(-1)


def or_zero(s: Any, m: Any) -> Any:
    return torch.where(m.any(-1, keepdim=True), masked(s, m), 0.0)


def without_nan(s: Any, m: Any) -> Any:
    p = masked(s, m)
    return p.masked_fill(p.isnan(), 0.0)


QKV, SOME = (real(1, 3, 4), real(1, 5, 4), real(1, 5, 4)), torch.ones(3, 5, dtype=torch.bool)
TABLE, AT, WHOLE, MIXED = real(5, 3), integers(5, 4), integers(9, 4), real(4)
REFUTED: dict[str, Pair] = {
    "a root of 0": (lambda x: x.abs() ** (1 / 3), lambda x: torch.where(x == 0, 7.0, x.abs() ** (1 / 3)), (MIXED,)),
    "integers of 8 bits": (lambda a: a.to(torch.int8).long(), lambda a: a, (WHOLE,)),
    "integers beside reals": (lambda a, x: torch.stack([a, x]).long(), lambda a, x: torch.stack([a, x.round().long()]),
        (WHOLE, WHOLE.float())),
    "integers that are converted": (lambda a, x: torch.stack([a.float(), x]).long(),
        lambda a, x: torch.stack([a, x.ceil().long()]), (WHOLE, WHOLE.float())),
}  # fmt: skip
FROM_THE_END: dict[str, Pair] = {
    "an index that counts from the end": (lambda t, i: t[i], lambda t, i: t[i.abs()], (TABLE, AT)),
    "an index that counts from the end, clamped": (lambda t, i: t[i - 1], lambda t, i: t[(i - 1).clamp(min=0)],
        (TABLE, AT)),
    "two indices": (lambda t, i, j: t[i, j], lambda t, i, j: t[i.clamp(min=0), j], (TABLE, AT, integers(3, 4))),
}  # fmt: skip
PROVED: dict[str, Pair] = {
    "a mask by hand": (
        lambda q, k, v, m: masked(q @ k.mT * 0.5, m) @ v, lambda q, k, v, m: attend(q, k, v, m), (*QKV, SOME)),
    "a causal mask given": (
        lambda q, k, v: attend(q, k, v, torch.arange(5) <= torch.arange(3)[:, None]),
        lambda q, k, v: attend(q, k, v, is_causal=True), QKV),
    "a mask beside grouped queries": (
        lambda q, k, v, m: attend(q, k, v, m, enable_gqa=True),
        lambda q, k, v, m: attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), m),
        (real(2, 4, 3, 5), real(2, 2, 6, 5), real(2, 2, 6, 5), torch.ones(2, 1, 3, 6, dtype=torch.bool))),
    "integers beside reals are reals": (
        lambda a, x: torch.cat([a, x]).long(), lambda a, x: torch.cat([a, x.long()]), (WHOLE, MIXED)),
    "truth values": (lambda a, b: torch.maximum(a, b) ^ b, lambda a, b: a & ~b, (SOME, SOME)),
    "a range that 8 bits hold": (
        lambda x: x.round().clamp(-128, 127).to(torch.int8).float(), lambda x: x.round().clamp(-128, 127), (MIXED,)),
    "rows of classes, multiplied": (
        lambda i, t: F.one_hot(i, 5).to(t.dtype) @ t, lambda i, t: F.embedding(i, t), (AT, TABLE)),
    "a class that there is": (
        lambda i: F.one_hot(i, 5), lambda i: (i[:, None] == torch.arange(5)).long(), (AT,)),
    "a root of what is positive": (
        lambda x: (x * x + 1) ** (1 / 3), lambda x: torch.exp(torch.log(x * x + 1) / 3), (MIXED,)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUTED)
def test_what_differs_in_a_corner_is_refuted(name: str) -> None:
    assert verdict(*REFUTED[name]) == "refuted"


@pytest.mark.parametrize("name", FROM_THE_END)
def test_integers_that_may_count_from_the_end_are_not_taken_for_others(name: str) -> None:
    assert verdict(*FROM_THE_END[name]) == "undecided"


@pytest.mark.parametrize("name", PROVED)
def test_what_is_equal_in_every_corner_is_proved(name: str) -> None:
    assert verdict(*PROVED[name]) == "proved"


def test_attention_is_a_softmax_by_hand_only_where_each_query_has_a_key() -> None:
    """PyTorch gives 0 where a query has none, and NaN by hand: attention is more than the softmax, and not equal."""
    given = lambda q, k, v, m: attend(q, k, v, m)  # noqa: E731
    by_hand = lambda q, k, v, m: masked(q @ k.mT * 0.5, m) @ v  # noqa: E731
    assert verdict(by_hand, given, (*QKV, SOME)) == "proved"
    assert verdict(given, by_hand, (*QKV, SOME)) == "undecided"


def test_attention_is_not_refuted_by_a_softmax_that_gives_0_where_a_query_has_no_key() -> None:
    given = lambda q, k, v, m: attend(q, k, v, m)  # noqa: E731
    by_hand = lambda q, k, v, m: or_zero(q @ k.mT * 0.5, m) @ v  # noqa: E731
    assert verdict(by_hand, given, (*QKV, SOME)) == "proved, on a condition"
    assert verdict(given, by_hand, (*QKV, SOME)) == "proved"


def test_a_module_that_looks_for_nan_is_not_refuted_by_what_has_none() -> None:
    """Both give 0 in rows that are masked whole; what has no value here is NaN there."""
    assert verdict(or_zero, without_nan, (real(3, 5), SOME)) == "proved, on a condition"


def test_integers_that_the_library_does_not_take_refute_nothing() -> None:
    """As it was imported the one gives 0 at a class that there is not, and has no value there by hand."""
    alike = lambda s: (s[:, None] == s[None]).float()  # noqa: E731
    by_classes = lambda s: F.one_hot(s, 5).float() @ F.one_hot(s, 5).float().mT  # noqa: E731
    runs = ModulePair.imported(alike, by_classes, (AT,)).runs
    assert runs is not None
    (name,) = runs.names
    for classes, taken in ([0, 4, 4, 0], True), ([0, 5, 5, 0], False):
        error = Refuted("they differ", Counterexample({}, {name: classes}, 1, 0, {}, elements={name: "int"}))
        with nullcontext() if taken else pytest.raises(Undecided, match=f"{name} is 5 there, and the library says"):
            runs.require_its_integers(error)
    assert verdict(by_classes, alike, (AT,)) == "proved"
    assert verdict(alike, by_classes, (AT,)) == "proved, on a condition"


def test_the_numbers_of_the_example_tell_apart_what_the_search_does_not() -> None:
    """Bands of three and of four keys, which only four queries and more tell apart, and one by a clamp."""

    def banded(width: int) -> Callable[..., Any]:
        def function(q: Any, k: Any, v: Any) -> Any:
            far = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
            return attend(q, k, v, attn_mask=far.clamp(0, width - 1) == far)

        return function

    pair = ModulePair.imported(banded(3), banded(4), (real(1, 5, 4), real(1, 5, 4), real(1, 5, 6)))
    assert pair.runs is not None
    found = pair.runs.difference(pair.first, pair.second)
    assert found is not None and found.lhs != found.rhs
    assert sum(a.size for a in found.numpy().values()) < 20, "it is made small"
    same = ModulePair.imported(banded(3), banded(3), (real(1, 5, 4), real(1, 5, 4), real(1, 5, 6)))
    assert same.runs is not None and same.runs.difference(same.first, same.second) is None


class Held(nn.Module):
    """A module with a buffer, and a function of it and the argument."""

    def __init__(self, held: Any, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.register_buffer("held", held)
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self.held, x)


def test_a_buffer_of_both_modules_is_not_any_array() -> None:
    of_truth = torch.tensor([1.0, 0.0, 1.0, 1.0])
    squared, once = (lambda h, x: x * h * h), (lambda h, x: x * h)
    assert verdict(Held(of_truth, squared), Held(of_truth, once), (real(3, 4),)) == "undecided"
    assert verdict(Held(2 * of_truth, squared), Held(2 * of_truth, once), (real(3, 4),)) == "refuted"


class Two(nn.Module):
    """Two linear layers, tied or not, and a function of them."""

    def __init__(self, tied: bool, function: Callable[..., Any]) -> None:
        super().__init__()
        self.a, self.b = (nn.Linear(4, 4, bias=False) for _ in range(2))
        if tied:
            self.b.weight = self.a.weight
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def test_parameters_without_numbers_are_not_one_tensor() -> None:
    with torch.device("meta"):
        sums, twice = Two(False, lambda m, x: m.a(x) + m.b(x)), Two(False, lambda m, x: 2 * m.a(x))
        assert verdict(sums, twice, (real(3, 4),)) == "refuted"


def test_tied_parameters_are_told_from_two() -> None:
    both = lambda m, x: m.b(torch.relu(m.a(x)))  # noqa: E731
    assert verdict(Two(True, both), Two(False, both), (real(3, 4),)) == "refuted"
    assert verdict(Two(True, both), Two(True, both), (real(3, 4),)) == "proved"


def test_what_is_read_otherwise_than_it_runs_is_neither_proved_nor_refuted() -> None:
    """A program is put in the place of a module that does something else."""
    shifted, same = (lambda x: x + (x == 0)), (lambda x: x + 0)
    example = torch.tensor([-1.5, 0.5, 2.0, -3.0])  # were all positive, others of its shape would be so, too
    alike = ModulePair.imported(same, same, (example,))
    other = ModulePair.imported(shifted, same, (example,))
    with pytest.raises(Undecided, match="equal as they were imported"):
        prove_modules(replace(alike, runs=other.runs), prove)
    with pytest.raises(Undecided, match="differ as they were imported"):
        prove_modules(replace(other, runs=alike.runs), prove)
    with pytest.raises(Refuted):
        prove_modules(other, prove)


AT_THE_EXAMPLE: dict[str, Pair] = {
    "a part, and half": (lambda x: x[:, :4], lambda x: x[:, : x.shape[1] // 2], (real(3, 8),)),
    "a number, and a length": (lambda x: x.sum(-1) / 5, lambda x: x.mean(-1), (real(3, 5),)),
    "a power of a length": (lambda x: x * x.shape[1] ** 2, lambda x: x * 25, (real(3, 5),)),
    "the lesser of a length and a number": (lambda x: x * min(x.shape[0], 4), lambda x: x * x.shape[0], (real(3, 5),)),
    "a choice by a length": (lambda x: x if x.shape[1] > 1 else 2 * x, lambda x: x, (real(3, 5),)),
    "masks of two lengths": (
        lambda s: s.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), 0.0),
        lambda s: s.masked_fill(torch.ones(s.shape, dtype=torch.bool).triu(1 + s.shape[1] - s.shape[0]), 0.0),
        (real(5, 5),)),
}  # fmt: skip


@pytest.mark.parametrize("name", AT_THE_EXAMPLE)
def test_what_is_equal_at_the_sizes_of_the_example_is_not_said_of_all(name: str) -> None:
    first, second, example = AT_THE_EXAMPLE[name]
    _, notes = prove_modules(ModulePair.imported(first, second, example), prove)
    assert "at the sizes of the example only" in notes[-1]


def test_what_python_computes_from_lengths_is_refuted_at_the_sizes_of_the_example() -> None:
    """At the sizes of a first counterexample, of one element each, both scales are 1."""
    qkv = real(2, 6, 3, 4), real(2, 6, 5, 4), real(2, 6, 5, 7)
    by_values = lambda q, k, v: attend(q, k, v, scale=v.shape[-1] ** -0.5)  # noqa: E731
    assert verdict(lambda q, k, v: attend(q, k, v), by_values, qkv) == "refuted"
    assert (
        verdict(lambda x: x.argmax(-1), lambda x: x.shape[-1] - 1 - x.flip(-1).argmax(-1), (real(3, 5),)) == "refuted"
    )


def test_two_imported_programs_are_run_as_modules_are() -> None:
    powers = lambda a, n: a**n, lambda a, n: a.abs() ** n
    example = torch.tensor([-1.5, 2.0]), torch.tensor([3.0, 2.0])
    with pytest.raises(Undecided, match="other numbers on the example"):
        prove(*(cd.from_torch(f, *example) for f in powers))
    looked_up = lambda t, i: t[i], lambda t, i: t[i.abs()]
    assert cd.equivalent(*(cd.from_torch(f, TABLE, AT) for f in looked_up)) is None
    sums, twice = (Two(False, f) for f in (lambda m, x: m.a(x) + m.a(x), lambda m, x: 2 * m.a(x)))
    assert not prove(*(cd.from_torch(m, real(3, 4)) for m in (sums, twice))).notes  # of one matrix, not of two
    first, second, example = AT_THE_EXAMPLE["a power of a length"]
    theorem = prove(*(cd.from_torch(f, *example) for f in (first, second)))
    assert "at the sizes of the example only" in theorem.notes[-1]
    assert pickle.loads(pickle.dumps(theorem)).notes == theorem.notes


def test_what_pytorch_does_not_run_is_said() -> None:
    with torch.device("meta"):
        sums, twice = Two(False, lambda m, x: m.a(x) + m.a(x)), Two(False, lambda m, x: 2 * m.a(x))
    theorem, notes = prove_modules(ModulePair.imported(sums, twice, (real(3, 4, device="meta"),)), prove)
    assert theorem.verdict == "proved" and "has no numbers" in notes[-1]
    thrice = Two(False, lambda m, x: 3 * m.a(x)).to("meta")
    with pytest.raises(Refuted, match=r"as it was imported .its library was not compared: a tensor is on the device"):
        prove(*(cd.from_torch(m, real(3, 4, device="meta")) for m in (twice, thrice)))


def test_results_are_compared_at_their_keys() -> None:
    """And numbers of Python that are returned beside tensors; None beside them is nothing."""
    by_name = lambda x: {"a": x, "b": 2 * x}  # noqa: E731
    assert verdict(by_name, lambda x: {"b": x + x, "a": x}, (MIXED,)) == "proved"
    assert verdict(by_name, lambda x: {"b": x, "a": 2 * x}, (MIXED,)) == "refuted"
    assert verdict(lambda x: (x, None), lambda x: x, (MIXED,)) == "proved"
    assert verdict(lambda x: (x, 3), lambda x: (x, 3), (MIXED,)) == "proved"
    for other in (lambda x: {"a": x, "c": 2 * x}, lambda x: (x, 2 * x, 3)):
        with pytest.raises(cd.errors.NotImported, match="returns"):
            verdict(by_name, other, (MIXED,))
    assert cd.equivalent(*(cd.from_torch(f, MIXED) for f in (lambda x: (x, 3), lambda x: (x, 4)))) is None


def test_what_is_no_real_tensor_is_refused_by_name() -> None:
    with pytest.raises(cd.errors.NotImported, match="a complex result: return"):
        cd.from_torch(lambda x: torch.complex(x, x), MIXED)
    with pytest.raises(cd.errors.NotImported, match="item: a number of Python that depends on values"):
        cd.from_torch(lambda x: x * x.sum().item(), MIXED)


def test_a_power_that_is_read_as_a_ratio_is_noted() -> None:
    assert (
        "the power 0.3333333333333333 is read as 1/3" in cd.from_torch(lambda x: x ** (1 / 3), MIXED).example.notes[0]
    )
    assert not cd.from_torch(lambda x: x**0.7 + x**2.5, MIXED).example.notes


def test_a_constant_of_the_code_is_not_any_array() -> None:
    chosen, stacked = (lambda x: x[torch.tensor([-1, 0])]), (lambda x: torch.stack([x[2], x[0]]))
    assert verdict(chosen, stacked, (real(3, 5),)) != "refuted"


def test_rows_that_are_masked_whole_have_no_value_when_run() -> None:
    arrays = [a.double() for a in QKV]
    program = cd.from_torch(lambda q, k, v, m: attend(q, k, v, m), *arrays, SOME)
    mask = SOME.clone()
    mask[1] = False
    found, run = program.run(*(a.numpy() for a in (*arrays, mask))), attend(*arrays, mask).numpy()
    np.testing.assert_allclose(found[:, [0, 2]], run[:, [0, 2]])
    assert np.isnan(found[:, 1]).all() and not run[:, 1].any()


@pytest.mark.parametrize(
    ("stop", "function"),
    [
        ("detach", lambda x: (x + (x.round() - x).detach()).sum()),
        (r"torch.no_grad\(\)", lambda x: (x / torch.no_grad()(torch.sum)(x)).sum()),
    ],
)
def test_a_stop_of_gradients_is_not_differentiated(stop: str, function: Callable[..., Any]) -> None:
    program = cd.from_torch(function, real(4))
    with pytest.raises(cd.errors.NotDifferentiable, match=f"gradients stop at {stop}"):
        program.grad()
    assert cd.from_torch(lambda x: (x * torch.tensor([1.0, 2.0]).detach()).sum(), real(2)).grad()


def test_arithmetic_of_few_bits_is_refused() -> None:
    with pytest.raises(cd.errors.NotImported, match="arithmetic of uint8, which wraps around"):
        cd.from_torch(lambda a: a - 1, WHOLE.to(torch.uint8))
    with pytest.raises(cd.errors.NotImported, match="addmv of integers"):
        cd.from_torch(lambda a, m, v: torch.addmv(a, m, v, beta=0.5), AT, integers(3, 4, 2), integers(3, 2))


def test_what_differs_by_a_rounded_constant_only_is_not_refuted() -> None:
    example = real(3)
    one, other = cd.from_torch(torch.cos, example), cd.from_torch(lambda x: torch.sin(x + math.pi / 2), example)
    runs = OriginalPrograms.of(one, other)
    with pytest.raises(Refuted) as caught:
        prove(one.diagram, cd.from_torch(torch.sin, example).diagram)
    rounded = replace(caught.value.counterexample, lhs=Fraction(1), rhs=1 + Fraction(1, 10**15))

    def refuting(found: Any) -> Any:
        raise Refuted("false", found)

    assert runs is not None and not runs.only_rounded(caught.value.counterexample)
    with pytest.raises(Undecided, match="less than 64-bit numbers are rounded"):
        runs.confirmed(lambda: refuting(rounded))
