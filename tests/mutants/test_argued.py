"""What is argued of mutants is argued of mutants that there are."""

import tomllib
from pathlib import Path

import pytest

from tests.mutants.__main__ import _keys, all_mutants


@pytest.mark.slow
def test_what_is_argued_is_argued_of_a_mutant() -> None:
    data = tomllib.loads((Path(__file__).parent / "argued.toml").read_text(encoding="utf-8"))
    argued = {key for item in data["survivor"] for key in _keys(item)}
    assert argued <= {mutant.key for mutant in all_mutants()}
