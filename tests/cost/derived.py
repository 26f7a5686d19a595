"""The operators of the library as they are derived, and laws of many random programs in blocks."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.rewrite.derivation import Derivation

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
DERIVED = sorted(path for path in PROOFS.glob("*.py") if re.search(r"\.(stream|group)\(", path.read_text()))
Law = Callable[[st.DataObject, cd.category.Diagram, int], None]


def form_of(path: Path) -> cd.category.Diagram:
    """What the program of a stored proof is derived to, without proving it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Derivation, "prove", lambda *args, **options: None)
        right = runpy.run_path(str(path)).get("right")
    form = getattr(right, "diagram", right)
    if not isinstance(form, cd.category.Diagram):
        pytest.skip("no derivation")
    return diagram_of(form)


def holds_of_many(law: Law, kind: str, number: int, examples: int) -> None:
    """Whether a law holds of so many random programs of a kind, in blocks that are drawn."""
    program: Any = getattr(cd.testing, kind)()

    @seed(number)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def every(data: st.DataObject) -> None:
        law(data, data.draw(cd.testing.blocked(data.draw(program))), 2)

    every()
