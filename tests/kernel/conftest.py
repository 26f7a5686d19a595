"""Makes the oracle beside these tests importable; and a solver."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from catdiag.solvers.z3 import Z3

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def z3() -> Iterator[Z3]:
    with Z3() as solver:
        yield solver
