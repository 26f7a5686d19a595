"""The blocks of docs/how-to/kernels.md that need torch, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "kernels.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|py)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def run(change: dict[str, str]) -> None:
    namespace: dict[str, object] = {"__name__": __name__}
    for number, (_, block) in enumerate(BLOCKS, 1):
        for old, new in change.items():
            block = block.replace(old, new)
        exec(compile(block, f"kernels.md, block {number}", "exec"), namespace)
    out, again = (namespace[name] for name in ("out", "other"))
    arrays = [namespace[name] for name in "QKV"]
    assert (again(*arrays) - out).abs().max() < 0.1  # type: ignore[operator]


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_it_runs(self) -> None:
        eager = {"fullgraph=True": 'fullgraph=True, backend="aot_eager"', '"cuda"': '"cpu"'}
        short = {"randn(300,": "randn(70,"}
        # Machine code is made where nothing is interpreted.
        aside = {"for code in attention.binaries(sizes):": "for code in ():"}
        aside |= {"for launch in attention.launches(sizes):": "for launch in ():"}
        run({**eager, **short, **aside})


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
def test_code_is_made() -> None:
    """The blocks on machine code, without the others."""
    told = [block for kind, block in BLOCKS if kind == "python" or "binaries" in block]
    namespace: dict[str, object] = {"__name__": __name__}
    exec(compile("\n".join([*told[:-1], "attention = plan.compile()", told[-1]]), "kernels.md", "exec"), namespace)


@pytest.mark.gpu
@pytest.mark.usefixtures("compiling")
def test_it_runs_on_a_gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    run({})
