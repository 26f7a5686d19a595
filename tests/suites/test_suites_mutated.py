"""True rewrites with one side changed in a small place: what is proved of them must be true of numbers too."""

from __future__ import annotations

import random

import pytest
from mutants import mutants
from rewrites import Rewrite, rewrites

from catdiag.kernel.checker import Checker
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import statement_of
from catdiag.prover.proof_search import OpenGoal, find
from catdiag.prover.refute.counterexample_search import refute
from catdiag.solvers.z3 import Z3

TRUE = [r for r in rewrites() if r.true]


def attack(rewrite: Rewrite, seed: int, count: int, ask: Z3) -> list[str]:
    """What is proved of changed programs, the two being different on numbers."""
    rng = random.Random(f"{seed} {rewrite.suite} {rewrite.name}")
    f, g = rewrite.programs()
    statement = statement_of(f, g, rewrite.assume)
    wrong = []
    for k, (said, changed) in enumerate(mutants(statement["right"], rng)):
        if k == count:
            break
        asked = {**statement, "right": changed}
        try:
            theorem = Checker(ask).check(find(ask, asked))
        except (OpenGoal, KernelError):
            continue
        found = refute(asked, tries=30, operations=40_000)
        if found is not None:
            wrong.append(f"{rewrite.suite}: {rewrite.name}, {said}: {theorem}\n{found}")
    return wrong


@pytest.mark.parametrize("part", range(3))
def test_no_changed_program_is_proved_that_differs_on_numbers(part: int, ask: Z3) -> None:
    sample = random.Random(part).sample(TRUE, 20)
    assert not [w for r in sample for w in attack(r, part, 2, ask)]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_no_changed_program_of_any_rewrite_is_proved_that_differs_on_numbers(part: int, ask: Z3) -> None:
    assert not [w for r in TRUE[part::16] for w in attack(r, 100 + part, 4, ask)]
