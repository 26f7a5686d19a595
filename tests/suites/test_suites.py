"""The suites of rewrites: every true one proved, every false one refuted; those still undecided are marked as such."""

from __future__ import annotations

import pytest
from rewrites import LESS, Rewrite, Weaker, rewrites, verdict
from undecided import UNDECIDED

from catdiag.solvers.z3 import Z3

FIRST = {names[0] for names in UNDECIDED.values()}


def marks(rewrite: Rewrite) -> list[pytest.MarkDecorator]:
    if not rewrite.open:
        return []
    undecided = pytest.mark.xfail(strict=True, raises=Weaker, reason=rewrite.open)
    return [undecided] if f"{rewrite.suite}: {rewrite.name}" in FIRST else [undecided, pytest.mark.slow]


CASES = [pytest.param(r, id=f"{r.suite}: {r.name}", marks=marks(r)) for r in rewrites()]


@pytest.mark.parametrize("rewrite", CASES)
def test_verdict(rewrite: Rewrite, ask: Z3) -> None:
    said, _, detail = verdict(rewrite, ask)
    if said in LESS.get(rewrite.expected, ()):
        raise Weaker(f"{said}: {detail}")
    assert said == rewrite.expected, detail


def test_the_suites_are_as_large_as_they_should_be_and_what_is_undecided_is_in_them() -> None:
    """So that a rewrite that was renamed is not taken for a decided one."""
    named = {f"{r.suite}: {r.name}" for r in rewrites()}
    assert {name for names in UNDECIDED.values() for name in names} <= named
    assert sum(r.true for r in rewrites()) >= 250
    assert sum(not r.true for r in rewrites()) >= 120
