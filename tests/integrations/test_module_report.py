"""`catdiag explain` says what is found in a module, and changes nothing."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from catdiag.cli.app import app
from catdiag.integrations.module_report import module_report

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
MODULE = """
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(512))

    def forward(self, x):
        return torch.special.bessel_j0(torch.softmax(x, -1)) * self.scale

example = (torch.randn(4096, 512),)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODULE)
    return tmp_path / "model.py"


def explain(file: Path, *options: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(["explain", f"{file}:Scaled", "--example", str(file), *options], prog_name="catdiag")
    return int(ended.value.code or 0)


def test_regions_are_listed_with_their_bytes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(file) == 0
    *regions, others, total = capsys.readouterr().out.splitlines()
    array = 4 * 4096 * 512
    assert sorted(line.partition(": ")[2].partition(" bytes")[0] for line in regions) == [
        f"1 operation (mul); {2 * array + 4 * 512:,}",
        f"1 operation (softmax); {2 * array:,}",
    ]
    assert others == "in no region: 1 (special_bessel_j0)"
    assert total == f"{6 * array + 4 * 512:,} bytes moved eagerly"


def test_regions_are_planned_for_a_chip(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(file, "--on", "h200") == 0
    out = capsys.readouterr().out
    assert out.count("µs at least by any plan, PyTorch") == 2 and out.count("not taken: no plan is quicker") == 2
    assert explain(file, "--on", "h2000") == 2
    assert "unknown hardware" in capsys.readouterr().err


def test_nothing_is_changed() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    before = {name: (a, a.clone()) for name, a in module.named_parameters()}
    module_report(module, (torch.randn(4, 8),), {}, None, 60)
    for name, parameter in module.named_parameters():
        same, values = before[name]
        assert parameter is same and torch.equal(parameter, values)


def test_the_backend_is_found_by_its_name() -> None:
    project: dict[str, Any] = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, _, name = project["project"]["entry-points"]["torch_dynamo_backends"]["catdiag"].partition(":")
    assert callable(getattr(import_module(module), name))
