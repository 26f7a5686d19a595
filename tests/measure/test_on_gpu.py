"""On a GPU: kernels that are right are timed, beside the textbook form compiled; `pytest -m gpu tests/measure`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import catdiag as cd
from catdiag.measure.bench import BenchDevice, of_kernels, run_case, torch_reference_of, versions
from catdiag.measure.bench_case import BenchCase, case_of
from catdiag.measure.bench_kernels import kernels_of

pytestmark = pytest.mark.gpu


@cd.algorithm("q d, x d, x v -> q v", name="operator")
def operator(Q: Any, K: Any, V: Any) -> Any:
    W = cd.maximum(cd.einsum("q d, x d -> q x", Q, K), 0)
    return cd.einsum("q x, x v -> q v", W, V) / (1 + cd.sum(W, "x"))


@pytest.fixture
def case() -> BenchCase:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    sizes = {"q": 4096, "x": 4000, "d": 64, "v": 64}
    derived = operator.stream("x").group("q")
    kernels = kernels_of(derived, "H200", sizes, most=2)
    return case_of(operator, sizes, derivation=derived, kernels=kernels)


def test_a_kernel_beside_the_textbook_form(case: BenchCase) -> None:
    row = run_case(case, BenchDevice.gpu(), [*of_kernels(case), torch_reference_of(case)], rounds=3)
    assert [r.failure for r in row.results] == [""] * len(row.results)
    for result in row.results:
        assert result.error is not None and result.error < 1e-2
        assert result.median_ms is not None and 0 < result.median_ms < 1e3
    assert versions()["GPU"]


def test_a_kernel_that_is_wrong_is_not_timed(case: BenchCase) -> None:
    worse = replace(case.kernels[0], text=case.kernels[0].text.replace("tl.maximum", "tl.minimum"))
    row = run_case(
        replace(case, kernels=(worse,)), BenchDevice.gpu(), of_kernels(replace(case, kernels=(worse,))), rounds=1
    )
    assert row.results[0].failure.startswith("WrongResult") and row.results[0].median_ms is None


def test_the_command_runs_what_was_written_elsewhere(
    case: BenchCase, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    from catdiag.cli.bench_command import run_bench
    from catdiag.cli.command_options import BenchArgs

    file, table = tmp_path / "case.json", tmp_path / "table.md"
    file.write_text(json.dumps(case.as_dict()))
    assert run_bench(BenchArgs(str(file), rounds=3, write=table)) == 0
    assert "torch.compile" in table.read_text() and "TFLOP/s" in capsys.readouterr().out


def timed(call: Callable[[], Any]) -> float:
    import time

    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def test_the_clock_agrees_with_the_wall(case: BenchCase) -> None:
    import torch

    from catdiag.measure.device_timer import Events

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    clock = Events()
    clock.time(lambda k: a @ a, 20)
    once = clock.time(lambda k: a @ a, 50)
    wall = timed(lambda: [a @ a for _ in range(50)]) * 1e3 / 50
    assert 0.7 * wall < once < 1.3 * wall
