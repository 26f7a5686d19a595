"""What the library claims: each theorem of `proofs/` is stated, proved anew, and accepted by the kernel as stored."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from catdiag.kernel.checker import Checker
from catdiag.solvers.z3 import Z3

PROOFS = Path(__file__).resolve().parents[2] / "proofs"


def _maker() -> Any:
    spec = importlib.util.spec_from_file_location("proofs_make", PROOFS / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKER = _maker()
NAMES: list[str] = MAKER.names()
# Derivations are found anew, and run, with the library. Proving takes longer: of these, some are.
DERIVED = [name for name in NAMES if "right = left." in (PROOFS / f"{name}.py").read_text(encoding="utf-8")]
OTHERS = [name for name in NAMES if name not in DERIVED]
PROVED = OTHERS + DERIVED[5::20]


def stored(name: str) -> dict[str, Any]:
    certificate: dict[str, Any] = json.loads((PROOFS / f"{name}.json").read_text(encoding="utf-8"))
    return certificate


def test_each_theorem_has_a_certificate_and_no_other_is_there() -> None:
    assert len(NAMES) >= 40
    assert {file.stem for file in PROOFS.glob("*.json")} == set(NAMES)
    assert {file.suffix for file in PROOFS.iterdir() if file.is_file()} == {".py", ".json"}


def test_all_certificates_fit_the_schema(fitting: Any) -> None:
    for name in NAMES:
        assert fitting.is_valid(stored(name)), name


# All are checked by the command.
@pytest.mark.parametrize("name", OTHERS + DERIVED[::12])
def test_a_stored_certificate_is_accepted(name: str, ask: Z3) -> None:
    certificate = stored(name)
    size = (PROOFS / f"{name}.json").stat().st_size
    theorem = Checker(ask).check(certificate)
    assert not theorem.conditional
    # Two programs: that one is itself is no theorem.
    assert certificate["statement"]["left"]["nodes"] != certificate["statement"]["right"]["nodes"]
    assert certificate["about"][0] == theorem.statement
    # It is about something: sizes of 2 and more, and arrays, that meet all that it takes for granted.
    assert theorem.witness and min(certificate["witness"]["sizes"].values()) >= 2
    assert size < 60_000


# The kernel checks these as stored, with the others; to find them takes seconds.
LONG = ("derivative_off_corners", "adjoint_of_index_maps", "adjoint_of_scalar_functions")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in PROVED])
def test_what_is_proved_anew_is_what_is_stored(name: str) -> None:
    assert MAKER.theorem(name).certificate["statement"] == stored(name)["statement"]


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_all_are_checked_by_the_command(every: int) -> None:
    files = [str(PROOFS / f"{name}.json") for name in NAMES[::every]] if every > 1 else [str(PROOFS)]
    done = subprocess.run(
        [sys.executable, "-m", "catdiag", "check", *files], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    count = len(NAMES[::every])
    assert last.startswith(f"{count} certificates: {count} accepted; z3 "), last
    # A goal of z3's that cvc5 refutes would be a refusal; what it cannot decide is counted.
    assert "cvc5 agrees on " in last


def test_the_library_is_covered() -> None:
    """Each diagram of the library has a derivation here."""
    import catdiag as cd

    said = "\n".join((PROOFS / f"{name}.py").read_text(encoding="utf-8") for name in NAMES)
    missing = [name for name in cd.library.names() if f'cd.library.get("{name}")' not in said]
    assert not missing
