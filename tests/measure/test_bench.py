"""Comparisons on CPU tensors with a clock that counts: what is wrong is said and not timed, what is right is timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import catdiag as cd
from catdiag.measure.bench import BenchDevice, BenchRow, Contestant, run_case, torch_reference_of, torch_with_gpu
from catdiag.measure.bench_case import BenchCase, case_of
from catdiag.measure.device_timer import interleaved
from catdiag.measure.output_check import WrongResult, check, inputs_of, reference
from catdiag.util.errors import CatdiagError

Function = Callable[..., Any]


class Counting:
    """A clock: each call takes the time that is noted under the name of what is called, and all calls are kept."""

    def __init__(self, *times: float) -> None:
        self.times, self.calls, self.known = list(times), [], {}

    def time(self, call: Callable[[int], Any], times: int) -> float:
        for k in range(min(times, 2)):
            call(k)
        name = self.known.setdefault(id(call), len(self.known))
        self.calls.append(name)
        return self.times[name % len(self.times)]


def test_rounds_are_interleaved_after_all_are_warm() -> None:
    clock = Counting(1.0, 2.0)
    calls = {"a": lambda k: None, "b": lambda k: None}
    found, failed = interleaved(calls, clock, rounds=3)
    assert clock.calls == [0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1]
    assert (found["a"].median_ms, found["b"].median_ms, failed) == (1.0, 2.0, {})


def test_what_raises_while_it_is_timed_is_told_and_the_others_go_on() -> None:
    def broken(k: int) -> None:
        raise RuntimeError("out of memory")

    found, failed = interleaved({"a": broken, "b": lambda k: None}, Counting(1.0), rounds=2)
    assert list(found) == ["b"] and str(failed["a"]) == "out of memory"


def test_without_a_gpu_the_error_says_what_is_missing() -> None:
    try:
        import torch
    except ImportError:
        with pytest.raises(CatdiagError, match=r"catdiag\[gpu\]"):
            torch_with_gpu()
        return
    if not torch.cuda.is_available():
        with pytest.raises(CatdiagError, match="no GPU"):
            torch_with_gpu()


def case(dtype: str = "fp32", **sizes: int) -> BenchCase:
    return case_of(cd.library.get("causal_attention"), {"q": 40, "x": 40, "d": 16, **sizes}, dtype, name="small")


def given(name: str, function: Function, out: bool = False) -> Contestant:
    return Contestant(name, lambda: function, out)


def run(case: BenchCase, *contestants: Contestant, budget_bytes: float = 2.0**30) -> BenchRow:
    return run_case(case, BenchDevice("cpu", Counting(1.0, 2.0, 4.0), budget_bytes=budget_bytes), contestants, rounds=2)


@pytest.mark.triton
def test_the_textbook_beside_a_peer_of_another_formula() -> None:
    torch = pytest.importorskip("torch")

    def peer(Q: Any, K: Any, V: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(Q[None], K[None], V[None], is_causal=True)[0]

    row = run(case(), torch_reference_of(case(), lambda f: f), given("peer", peer))
    assert [(r.median_ms, r.failure) for r in row.results] == [(1.0, ""), (2.0, "")]
    assert all(r.error is not None and r.error < 1e-6 for r in row.results)
    assert row.flops == 4 * 16 * 40 * 40


@pytest.mark.triton
@pytest.mark.parametrize("budget_bytes", [2.0**30, 2.0**14, 1.0])
def test_the_reference_is_the_same_however_it_is_cut(budget_bytes: float) -> None:
    pytest.importorskip("torch")
    row = run(case(), torch_reference_of(case(), lambda f: f), budget_bytes=budget_bytes)
    assert row.results[0].error is not None and row.results[0].error < 1e-6


@pytest.mark.triton
def test_of_very_many_slices_some_are_compared_and_all_are_looked_at_for_nan() -> None:
    torch = pytest.importorskip("torch")
    made = case()
    inputs = inputs_of(made, "cpu", 0)
    out = torch_reference_of(made, lambda f: f).build()(*inputs)
    meant = reference(made, inputs, budget_bytes=1.0, most=4)
    assert check(made, out, meant).entries == 4 * 16
    out[20, 3] = torch.nan  # slices 0, 13, 26 and 39 are compared
    with pytest.raises(WrongResult, match="1 of 640 entries are NaN"):
        check(made, out, meant)
    out[20, 3], out[26] = 0, 1.0
    with pytest.raises(WrongResult, match="error"):
        check(made, out, meant)


@pytest.mark.triton
def test_one_wrong_entry_of_very_many_is_seen() -> None:
    torch = pytest.importorskip("torch")
    made = case_of(cd.library.get("matvec"), {"a": 100_000, "b": 2}, "bf16")
    inputs = inputs_of(made, "cpu", 0)
    out = torch_reference_of(made, lambda f: f).build()(*inputs)
    meant = reference(made, inputs)
    assert 0 < check(made, out, meant).worst < 1e-2
    out[torch.argmin(out.abs())] = 1.0
    with pytest.raises(WrongResult, match="an entry is off by"):
        check(made, out, meant)


@pytest.mark.triton
def test_an_integer_that_rounding_decides_may_be_each_that_it_then_is() -> None:
    torch = pytest.importorskip("torch")
    first = case_of(cd.algorithm("t x -> t", name="first")(lambda X: cd.argmax(X, "x")), {"t": 2, "x": 3}, "fp16")
    meant = reference(first, [torch.tensor([[1.0, 2.0, 2.0], [1.0, 2.0, 3.0]]).half()])
    for index in (1, 2):
        check(first, torch.tensor([index, 2]), meant)
    for wrong in ([0, 2], [1, 1]):
        with pytest.raises(WrongResult):
            check(first, torch.tensor(wrong), meant)


@pytest.mark.triton
def test_what_a_program_rounds_itself_may_be_so_far_off() -> None:
    torch = pytest.importorskip("torch")
    for body, right in ((lambda a: cd.sum(cd.cast(a, "bf16"), "x"), True), (lambda a: cd.sum(a, "x"), False)):
        made = case_of(cd.algorithm("x", name="total")(body), {"x": 4}, "fp32")
        values = torch.tensor([1.003, 1.003, 1.003, 1.003])
        meant, out = reference(made, [values]), values.bfloat16().float().sum()
        if right:
            assert check(made, out, meant).error > 1e-3
        else:
            with pytest.raises(WrongResult, match="expected at most 1e-03 for fp32"):
                check(made, out, meant)


@pytest.mark.triton
def test_what_is_wrong_is_told_and_not_timed() -> None:
    torch = pytest.importorskip("torch")
    right = torch_reference_of(case(), lambda f: f).build()

    def lazy(*inputs: Any, out: Any) -> Any:
        out[:-1] = right(*inputs)[:-1]
        return out

    def raising(*inputs: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory\nmore")

    def unmade() -> Function:
        raise ImportError("no such backend")

    row = run(
        case(),
        given("last row never written", lazy, out=True),
        given("without the mask", lambda Q, K, V: torch.softmax(Q @ K.T / 4, -1) @ V),
        given("raises", raising),
        given("transposed", lambda *inputs: right(*inputs).T),
        Contestant("not there", unmade),
        given("right", right),
    )
    said = {r.name: r.failure for r in row.results}
    assert said["last row never written"].startswith("WrongResult: 16 of 640 entries are NaN")
    assert said["without the mask"].startswith("WrongResult: the error is ")
    assert said["raises"] == "OutOfMemoryError: CUDA out of memory"
    assert said["transposed"].startswith("WrongResult: a result has shape (16, 40)")
    assert said["not there"] == "ImportError: no such backend"
    assert [r.name for r in row.results if r.median_ms] == ["right"]


@pytest.mark.triton
def test_inputs_on_which_a_diagram_means_nothing_are_refused() -> None:
    pytest.importorskip("torch")
    logarithm = cd.algorithm("q x -> q", name="total")(lambda a: cd.sum(cd.log(a), "x"))
    made = case_of(logarithm, {"q": 4, "x": 8}, "fp32")
    row = run(made, torch_reference_of(made, lambda f: f))
    assert "the diagram is not defined at" in row.results[0].failure
    drawn = case_of(logarithm, {"q": 4, "x": 8}, "fp32", draws={"a": {"draw": "uniform"}})
    assert run(drawn, torch_reference_of(drawn, lambda f: f)).results[0].failure == ""


@pytest.mark.triton
def test_inputs_rotate_where_a_cache_could_hold_them() -> None:
    pytest.importorskip("torch")
    seen: set[int] = set()
    made = case_of(cd.library.get("matmul"), {"a": 4, "b": 4, "c": 4}, "fp32")

    def product(A: Any, B: Any) -> Any:
        seen.add(A.data_ptr())
        return A @ B

    run_case(made, BenchDevice("cpu", Counting(1.0), cache=1000), [given("product", product)], rounds=1)
    assert len(seen) == 2  # the counting clock makes two calls


@pytest.mark.triton
class TestRunInTheHarness:
    def test_a_generated_kernel_is_checked(self, interpreting: None) -> None:
        from catdiag.measure.bench import of_kernels
        from catdiag.measure.bench_kernels import kernels_of

        @cd.algorithm("q d, x d, x v -> q v", name="operator")
        def operator(Q: Any, K: Any, V: Any) -> Any:
            W = cd.maximum(cd.einsum("q d, x d -> q x", Q, K), 0)
            return cd.einsum("q x, x v -> q v", W, V) / (1 + cd.sum(W, "x"))

        sizes = {"q": 21, "x": 35, "d": 16, "v": 16}
        derived = operator.stream("x").group("q")
        kernels = kernels_of(derived, "H200", sizes, "fp32", most=2)
        made = case_of(operator, sizes, "fp32", derivation=derived, kernels=kernels)
        row = run(made, *of_kernels(made), torch_reference_of(made, lambda f: f))
        assert [r.failure for r in row.results] == [""] * 3
        worse = [replace(k, text=k.text.replace("tl.maximum", "tl.minimum")) for k in kernels[:1]]
        assert worse[0].text != kernels[0].text
        wrong = case_of(operator, sizes, "fp32", derivation=derived, kernels=worse)
        assert run(wrong, *of_kernels(wrong)).results[0].failure.startswith("WrongResult: the error is")
