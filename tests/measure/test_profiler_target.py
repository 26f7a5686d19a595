"""The program that a profiler runs, on Triton's interpreter and tensors of the processor (pytest -m triton)."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import catdiag as cd
from catdiag.measure.profile.counter_comparison import compare, shared_out
from catdiag.measure.profile.expected_counters import point_of
from catdiag.measure.profile.ncu import LOADED, CounterReading

STAND_IN = """
import sys
from types import SimpleNamespace
import torch
import catdiag.measure.profile.profiler_target as once
nothing = SimpleNamespace(cudaProfilerStart=lambda: None, cudaProfilerStop=lambda: None)
cuda = SimpleNamespace(synchronize=lambda: None, cudart=lambda: nothing)
class Torch:
    cuda = cuda
    def __getattr__(self, name):
        return getattr(torch, name)
once._torch = Torch
raise SystemExit(once.main(sys.argv[1], sys.argv[2], "cpu"))
"""


@pytest.mark.triton
def test_each_point_is_launched_once_and_failures_are_said(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    product = cd.library.get("matmul").stream("b").group("a c")
    whole = point_of(product, {"g_a": 16, "g_c": 16, "s_b": 16}, {"a": 32, "b": 32, "c": 20}, "fp32", name="whole")
    flash = cd.library.get("attention").stream("x").group("q").split("x")
    tiles = {"g_q": 16, "s_x": 16, "p_x": 2}
    parts = point_of(flash, tiles, {"q": 16, "x": 64, "d": 16}, "fp32", name="parts")
    wrong = replace(whole, name="wrong", options={**whole.options, "g_a": 3})
    points, done, script = tmp_path / "points.json", tmp_path / "done.json", tmp_path / "run.py"
    points.write_text(json.dumps([p.as_dict() for p in (whole, wrong, parts)]), encoding="utf-8")
    script.write_text(STAND_IN, encoding="utf-8")
    env = {
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": ":".join(p for p in sys.path if p),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    ran = subprocess.run(
        [sys.executable, str(script), str(points), str(done)], env=env, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(done.read_text(encoding="utf-8"))
    assert [row["name"] for row in rows] == ["whole", "wrong", "parts"]
    assert rows[0]["launched"] == ["_matmul"] and "g_a is 3" in rows[1]["failure"]
    assert len(rows[2]["launched"]) == 2 and rows[2]["failure"] == ""
    names = [*rows[0]["launched"], *rows[2]["launched"]]
    readings = [CounterReading(name, k, {LOADED: 1.0}) for k, name in enumerate(names)]
    found, failures = shared_out(readings, rows, 3)
    assert [len(own) for own in found] == [1, 0, 2] and failures[0] == failures[2] == ""
    assert len(compare(parts, found[2])) > 6
