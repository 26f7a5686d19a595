"""The declared list, and a run of it: rows kept, gone on with, broken processes, the page."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import pytest

import catdiag as cd
from benchmarks.gpu.cases import declared
from benchmarks.gpu.peers import PEERS
from benchmarks.gpu.prepare import FILE, read
from catdiag.measure.bench import BenchDevice, FailedContestant
from catdiag.measure.bench_case import BenchCase, case_of
from catdiag.measure.bench_kernels import PlannedKernels, proposed


class Steady:
    def time(self, call: Any, times: int) -> float:
        call(0)
        return 2.0


def test_every_case_is_named_once_and_has_all_it_needs() -> None:
    items = declared()
    assert len({item.name for item in items}) == len(items) >= 25
    for item in items:
        diagram = item.build()
        assert set(item.peers) <= set(PEERS)
        assert set(item.scalars) <= {n for n, t in zip(diagram.names, diagram.dom, strict=True) if not t.axes}
        case = case_of(diagram, item.sizes, scalars=item.scalars, draws=item.draws)
        assert case.flops > 0 and case.slices


def small(folder: Path) -> list[BenchCase]:
    cases = [
        case_of(cd.library.get("matmul"), {"a": n, "b": n, "c": n}, "fp32", name=f"{n}", group="products",
                peers=("torch.compile",), refused="no kernel here")
        for n in (8, 16, 32)
    ]  # fmt: skip
    (folder / FILE).write_text("\n".join(json.dumps(c.as_dict()) for c in cases))
    return cases


def options(folder: Path) -> argparse.Namespace:
    return argparse.Namespace(folder=folder, rows=folder / "rows.jsonl", write=folder / "page.md", only="", rounds=1)


@pytest.mark.triton
def test_a_run_keeps_rows_goes_on_and_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    import benchmarks.gpu.__main__ as program
    from catdiag.measure.bench import torch_reference_of

    monkeypatch.setattr(program, "torch_reference_of", lambda case: torch_reference_of(case, lambda f: f))
    small(tmp_path)
    cases, given = read(tmp_path), options(tmp_path)
    machine = BenchDevice("cpu", Steady())
    assert program.measure(cases, given.rows, machine, 1, time.time() - 1) == 0
    assert program.kept(given.rows)[0] == {}

    real, calls = program.run_case, []

    def breaking(case: BenchCase, *args: Any, **more: Any) -> Any:
        calls.append((case.name, [c.name for c in args[1]]))
        if case.name == "16" and len(args[1]) == 2:
            raise FailedContestant("catdiag", "RuntimeError: illegal memory access")
        return real(case, *args, **more)

    monkeypatch.setattr(program, "run_case", breaking)
    until = time.time() + 60
    assert program.measure(cases[:2], given.rows, machine, 1, until) == program.AGAIN
    given.rows.open("a").write('{"row": {"case": "16", "gro')  # a process that was killed while it wrote
    given.rows.open("a").write("\n")
    assert program.measure(cases[:2], given.rows, machine, 1, until) == 0
    assert calls == [
        ("8", ["catdiag", "torch.compile"]),
        ("16", ["catdiag", "torch.compile"]),
        ("16", ["torch.compile"]),
    ]
    program.finish(given, cases)
    text = given.write.read_text()
    assert "8, catdiag: CatdiagError: no kernel here" in text
    assert "16, catdiag: RuntimeError: illegal memory access" in text
    assert text.rstrip().endswith("the time for the run was over: 32.")


def test_a_loop_in_one_part_is_not_tried_beside_the_loop_itself() -> None:
    loop = cd.library.get("matmul").stream("b").group("a c")
    found = [PlannedKernels(loop, 1.0), PlannedKernels(loop.split("b"), 1.5)]
    many = {"a": 4096, "b": 64, "c": 4096}
    assert not any("split" in kernel.about for kernel in proposed(found, "H200", many, most=2))
    few = {"a": 64, "b": 2**16, "c": 64}  # hardly any groups: parts are what pays
    assert proposed(found, "H200", few, most=2)[1].options["p_b"] > 1
