"""Running the command line, in this process where that is enough, and in one of its own where it is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

OPERATORS = Path(__file__).parents[1] / "golden" / "operators.py"


@dataclass
class Outcome:
    status: int
    out: str
    err: str

    def one_message(self, status: int, *words: str) -> None:
        """Exit status and one message without a traceback that has the words."""
        assert self.status == status, (self.status, self.out, self.err)
        assert "Traceback" not in self.err + self.out
        for word in words:
            assert word in self.err, self.err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*args: object) -> Outcome:
        from catdiag.cli import main

        capsys.readouterr()
        # Not by `monkeypatch`: proofs are not reused in a test that asks for it, since it may change the program.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["catdiag", *map(str, args)])
            try:
                main()
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1 if end.code else 0
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


@pytest.fixture
def apart() -> Callable[..., Outcome]:
    def call(*args: object, prefix: str = "", cwd: Path | None = None) -> Outcome:
        code = f"{prefix}\nfrom catdiag.cli import main\nmain()"
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=600, cwd=cwd
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def op() -> Callable[[str], str]:
    return lambda name: f"{OPERATORS}:{name}"
