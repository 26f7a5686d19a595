"""The stored inputs of the fuzzer, once each: what was found and mended stays so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.__main__ import CORPUS, TARGETS, target
from tests.fuzz.source import Source

INPUTS = [(name, file) for name in TARGETS for file in sorted((CORPUS / name).iterdir())]


@pytest.mark.parametrize(("name", "file"), INPUTS, ids=[f"{name}-{file.name}" for name, file in INPUTS])
def test_a_stored_input(name: str, file: Path) -> None:
    target(name)(file.read_bytes())


def test_every_target_has_inputs() -> None:
    assert {name for name, _ in INPUTS} == set(TARGETS)


def test_a_wrong_acceptance_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a checker that takes everything for proved, a changed statement is seen to be false."""
    from catdiag.kernel.checker import CheckedTheorem, Checker
    from tests.fuzz import certificates

    gullible = CheckedTheorem("any", (), (), (), (), 0, 0, False)
    monkeypatch.setattr(Checker, "check", lambda self, certificate: gullible)
    monkeypatch.setattr(certificates, "original", lambda number: certificates.told(gullible))
    wrong = 0
    for number in range(96):
        try:
            certificates.Fuzzed()(bytes((number * 37 + k * k * 11) % 256 for k in range(64)))
        except certificates.Wrong:
            wrong += 1
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
            continue  # what is malformed cannot be evaluated
    assert wrong > 0
    assert Source(b"").below(7) == 0
