"""`catdiag prove` on PyTorch modules of two files."""

from __future__ import annotations

from pathlib import Path

import pytest

from catdiag.cli.app import app

pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")

MODULES = """
import torch
from torch import nn

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate = nn.Linear(4, 6, bias=False), nn.Linear(4, 6, bias=False)

    def forward(self, x):
        return torch.relu(self.gate(x)) * self.up(x)

class Fused(nn.Module):
    def __init__(self, hidden=6):
        super().__init__()
        self.both = nn.Linear(4, 2 * hidden, bias=False)

    def forward(self, x):
        up, gate = self.both(x).chunk(2, -1)
        return torch.relu(gate) * up

class Wide(Fused):
    def __init__(self, hidden):
        super().__init__(hidden)

example = (torch.randn(3, 4),)

def parameters(of):
    return dict(zip(("up.weight", "gate.weight"), of["both.weight"].chunk(2, 0)))

def swapped(of):
    return dict(zip(("gate.weight", "up.weight"), of["both.weight"].chunk(2, 0)))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "modules.py").write_text(MODULES)
    return tmp_path / "modules.py"


def prove(file: Path, left: str, right: str, *options: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(["prove", f"{file}:{left}", f"{file}:{right}", *options], prog_name="catdiag")
    return int(ended.value.code or 0)


def test_modules_are_proved_or_refuted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = ("--example", f"{file}:example")
    assert prove(file, "Plain", "Fused", *example, "--parameters", f"{file}:parameters") == 0
    assert "proved in" in capsys.readouterr().out
    assert prove(file, "Plain", "Fused", *example, "--parameters", f"{file}:swapped") == 1
    assert "refuted" in capsys.readouterr().out


def test_weights_shared_by_name(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = ("--example", f"{file}:example")
    parts = ("--map", "up.weight=both.weight[0:6]", "--map", "gate.weight=both.weight[6:, :]")
    assert prove(file, "Plain", "Fused", *example, *parts) == 0
    assert "proved in" in capsys.readouterr().out
    parts = ("--map", "gate.weight=both.weight[0:6]", "--map", "up.weight=both.weight[6:, :]")
    assert prove(file, "Plain", "Fused", *example, *parts) == 1


@pytest.mark.parametrize(
    ("right", "options", "reason"),
    [
        ("Fused", ("--parameters", "FILE:parameters"), "expected --example, too"),
        ("Fused", ("--map", "up.weight=both.weight"), "--map is of PyTorch modules: expected --example, too"),
        ("Fused", ("--example", "FILE:example", "--map", "up=none"), "there is no 'none'; there are both.weight"),
        ("Fused", ("--example", "FILE:example", "--map", "up"), "expected NAME=NAME or NAME=NAME[0:12, :]"),
        ("Fused", ("--example", "FILE:example", "--map", "up=both.weight[a]"), "is no part of a dimension"),
        ("Fused", ("--example", "FILE:parameters"), "expected a tuple of a module's arguments"),
        ("Fused", ("--example", "FILE:nothing"), "defines nothing called 'nothing'"),
        ("Wide", ("--example", "FILE:example"), "cannot be made without arguments"),
        ("example", ("--example", "FILE:example"), "a module or a function of tensors"),
    ],
)
def test_wrong_use(
    file: Path, capsys: pytest.CaptureFixture[str], right: str, options: tuple[str, ...], reason: str
) -> None:
    given = [o.replace("FILE", str(file)) for o in options]
    assert prove(file, "Fused" if right != "Fused" else "Plain", right, *given) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "reason"),
    [("FILE:Plain", "is a PyTorch module: expected --example"), ("model.onnx", "name = cd.from_onnx('model.onnx')")],
)
def test_what_is_no_operator_is_named(file: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str) -> None:
    with pytest.raises(SystemExit) as ended:
        app(["derive", name.replace("FILE", str(file))], prog_name="catdiag")
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_torch_does_not_log_what_it_cannot_export(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text(MODULES.replace("randn(3, 4)", "randn(3, 5)"))
    assert prove(file, "Plain", "Plain", "--example", f"{file}:example") == 2
    said = capfd.readouterr().err
    assert said.startswith("catdiag: PyTorch does not run Plain on ([3, 5])")
    assert "Traceback" not in said
