"""`cd.compile`: a module with its program, plan and theorem, which is called as the module is."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import catdiag as cd
from catdiag.cli.app import app

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Normalized(nn.Module):
    """A scaled norm, with a result of several parts."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(64))

    def forward(self, x: Any, *, shift: Any = None, kind: str = "plain") -> dict[str, Any]:
        norm = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.scale
        return {"norm": norm if shift is None else norm + shift, "kind": kind, "none": None}


@pytest.fixture(scope="module")
def compiled() -> Any:
    return cd.compile(Normalized().eval(), torch.randn(128, 64), on="h200", kwargs={"shift": torch.randn(64)})


def test_it_has_a_program_a_plan_and_a_theorem(compiled: Any) -> None:
    assert compiled.program.names == ("x", "shift", "scale")
    assert compiled.plan.dtype == "fp32" and compiled.plan.sizes == compiled.program.example.sizes
    assert not compiled.theorem.conditional and not compiled.reason


def test_it_is_shown_in_one_line(compiled: Any) -> None:
    assert repr(compiled) == "CompiledModule(Normalized: kernels for H200, 1)"


@pytest.mark.parametrize(("options", "message"), [({"on": "h900"}, "hardware 'h900'"), ({"dtype": "fp7"}, "'fp7'")])
def test_what_is_unknown_is_named_at_once(options: dict[str, str], message: str) -> None:
    with pytest.raises(cd.errors.CatdiagError, match=f"unknown .*{message}"):
        cd.compile(Normalized().eval(), torch.randn(128, 64), **options)


def test_where_there_is_no_gpu_the_module_runs_and_a_warning_says_so(compiled: Any) -> None:
    x, shift = torch.randn(128, 64), torch.randn(64)
    with torch.no_grad(), pytest.warns(UserWarning, match="runs in PyTorch: .* no GPU here"):
        found = compiled(x, shift=shift)
    torch.testing.assert_close(found["norm"], compiled.module(x, shift=shift)["norm"])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        compiled(x, shift=shift)


def test_kernels_get_the_tensors_that_the_module_has_now_and_give_what_it_gives(compiled: Any) -> None:
    given = []

    def kernels(*arrays: Any) -> Any:
        given.append(arrays)
        return arrays[0]

    compiled.__dict__["_kernels"] = kernels
    try:
        x, shift = torch.randn(128, 64), torch.randn(64)
        with torch.no_grad():
            compiled.module.scale = nn.Parameter(torch.ones(64))
            assert compiled(x, shift=shift) == {"norm": x, "kind": "plain", "none": None}
        assert [a is b for a, b in zip(given[0], (x, shift, compiled.module.scale), strict=True)] == [True] * 3
    finally:
        del compiled.__dict__["_kernels"]


def test_no_gradient_is_derived_where_kernels_cannot_run(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def derived(*_: Any) -> None:
        raise AssertionError("a gradient is derived")

    monkeypatch.setattr("catdiag.planner.training_plans.training_plans", derived)
    assert compiled(torch.randn(128, 64), shift=torch.randn(64))["norm"].requires_grad


def test_the_module_runs_where_its_gradient_is_not_proved(compiled: Any) -> None:
    def kernels(*_: Any) -> None:
        raise cd.errors.NotProved("forward and backward were not proved")

    compiled.__dict__["_kernels"] = kernels
    try:
        with pytest.warns(UserWarning, match="runs in PyTorch: forward and backward were not proved"):
            assert compiled(torch.randn(128, 64), shift=torch.randn(64))["norm"].requires_grad
    finally:
        del compiled.__dict__["_kernels"]


@pytest.mark.parametrize(
    ("rows", "named", "reason"),
    [
        (5, {}, "keyword arguments"),
        (5, {"shift": torch.zeros(64)}, r"0 is \(5, 64\) of torch.float32: planned for \(128, 64\)"),
        (128, {"shift": torch.zeros(64, dtype=torch.float64)}, "of torch.float64: planned for"),
    ],
)
def test_what_kernels_cannot_do_runs_in_pytorch(compiled: Any, rows: int, named: dict[str, Any], reason: str) -> None:
    x = torch.randn(rows, 64)
    with pytest.warns(UserWarning, match=reason):
        found = compiled(x, **named)
    torch.testing.assert_close(found["norm"], compiled.module(x, **named)["norm"])


def test_a_module_that_changes_its_mode_runs_in_pytorch(compiled: Any) -> None:
    x, shift = torch.randn(128, 64), torch.zeros(64)
    compiled.module.train()
    try:
        with pytest.warns(UserWarning, match=r"in training mode, and was compiled in evaluation mode: call .eval\(\)"):
            compiled(x, shift=shift)
    finally:
        compiled.module.eval()


def test_kernels_get_tensors_that_require_gradients(compiled: Any) -> None:
    given = []
    compiled.__dict__["_kernels"] = lambda *arrays: given.append(arrays) or arrays[0] * arrays[2]
    try:
        found = compiled(torch.ones(128, 64), shift=torch.zeros(64))["norm"]
    finally:
        del compiled.__dict__["_kernels"]
    assert given[0][2].requires_grad and found.requires_grad


def test_without_a_chip_there_is_a_program_and_no_plan() -> None:
    found = cd.compile(lambda a: a.exp(), torch.randn(3, 4))
    if not torch.cuda.is_available():
        assert found.plan is None and "no GPU" in found.reason
    assert found.program.title == "function" and not found.theorem.conditional


def test_a_module_is_derived_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\n\nclass Norm(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x / x.abs().sum(-1, keepdim=True)\n\nexample = (torch.randn(8192, 512),)\n"
    )
    file = tmp_path / "model.py"
    with pytest.raises(SystemExit) as ended:
        app(["derive", f"{file}:Norm", "--example", str(file), "--on", "h200"], prog_name="catdiag")
    assert not ended.value.code
    said = capsys.readouterr().out
    assert "x_0=8192" in said and "proved" in said
