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
