"""Theorems about parts say what programs they are of: parts that are together another program are refused."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.prover.composites import PartEquation, certify_composite
from catdiag.solvers.z3 import shared


def made(pattern: str, body: Any) -> Diagram:
    return cd.algorithm(pattern)(body).diagram


def transposed(before: str, after: str) -> Diagram:
    return made(f"{before} -> {after}", lambda A: cd.rearrange(A, f"{before} -> {after}"))


INPUTS = [("A", made("q x -> q x", lambda A: cd.exp(A)).dom[0])]
EXP = made("q x -> q x", lambda A: cd.exp(A))
COPY, BACK = transposed("q x", "x q"), transposed("x q", "q x")
COPIED = made("x q -> q x", lambda A: cd.exp(cd.rearrange(A, "x q -> q x")))


def certified(sides: tuple[Diagram, Diagram], *parts: Diagram) -> Any:
    equations = [PartEquation(part, part, (n,)) for n, part in enumerate(parts)]
    return certify_composite(shared(), INPUTS, equations, [len(parts)], sides)


def test_a_transposition_and_one_back_are_none() -> None:
    theorem = certified((EXP, EXP), COPY, BACK, EXP)
    assert not theorem.conditional
    certified((EXP, EXP), COPY, COPIED)  # a copy that a later part reads as the array


@pytest.mark.parametrize("parts", [(COPY,), (COPY, BACK), (COPY, made("x q -> x q", lambda A: cd.exp(A)))])
def test_parts_with_other_values_or_another_order_at_the_end_are_refused(parts: tuple[Diagram, ...]) -> None:
    with pytest.raises(ValueError, match="the parts are together not"):
        certified((EXP, EXP), *parts)
