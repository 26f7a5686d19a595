"""The example of rules of one's own runs, and says what it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_rules.py"


def test_the_example() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "fold the gain does not match layer: what mul" in done.stdout
    assert "is read 3 times, by other boxes too" in done.stdout
    assert "rule fold the gain into three ·" in done.stdout and "rule divide late ·" in done.stdout
    assert "CONDITIONAL" not in done.stdout
    assert float(done.stdout.split()[-1]) < 1e-12
