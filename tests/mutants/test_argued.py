"""What is argued of mutants is argued of ones that there are; a wrong change is noticed by the tests of its lines."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.mutants.__main__ import _keys, all_mutants


@pytest.mark.slow
def test_what_is_argued_is_argued_of_a_mutant() -> None:
    data = tomllib.loads((Path(__file__).parent / "argued.toml").read_text(encoding="utf-8"))
    argued = {key for item in data["survivor"] for key in _keys(item)}
    assert argued <= {mutant.key for mutant in all_mutants()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "tests"),
    [
        ("rationals:simplest: `x.denominator == 1` with NotEq for Eq", "test_polynomials.py"),
        # The tests share a context that knows normal forms from before.
        ("polynomial:_odd: `if up` is False (2)", "test_sines_and_floors.py"),
    ],
)
def test_a_mutant_is_killed_by_a_test_that_executes_its_line(key: str, tests: str, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    command = ["-m", "tests.mutants", "--key", key, "--results", str(results), "--tests", f"tests/kernel/{tests}"]
    subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
    (record,) = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    assert record["outcome"] == "killed" and 1 <= record["ran"] <= record["tests"]
