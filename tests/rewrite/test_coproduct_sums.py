"""Reductions over concatenated arrays, term by term: what they mean, where they are left, and plans made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.ops import Reindex
from catdiag.rewrite.coproduct_sums import by_terms

SIZES = {"r": 3, "x": 4, "y": 2, "z": 5, "d": 3, "v": 2}


@cd.algorithm("r d, x d, d, x v, v -> r v")
def step(Q: Any, C: Any, c: Any, V: Any, v: Any) -> Any:
    """Attention to a cache and to the new entry."""
    K = cd.concat([C, cd.broadcast(c, "1 d")], "x+1")
    S = cd.einsum("r d, x+1 d -> r x+1", Q, K)
    return cd.einsum("r x+1, x+1 v -> r v", cd.softmax(S, "x+1"), cd.concat([V, cd.broadcast(v, "1 v")], "x+1"))


@cd.algorithm("x, y, z, r -> r, ")
def of_three(a: Any, b: Any, c: Any, s: Any) -> Any:
    whole = cd.concat([a, b, c], "x+y+z")
    return cd.sum(cd.exp(whole) * s, "x+y+z"), cd.min(whole, "x+y+z")


@cd.algorithm("r x, r y, d x+y -> r d, r x+y")
def with_a_whole(A: Any, B: Any, W: Any) -> Any:
    """What is computed with an array of the whole coproduct is left, and so is a result."""
    both = cd.concat([A, B], "x+y")
    return cd.einsum("r x+y, d x+y -> r d", both, W) + cd.max(both, "x+y"), 2 * both


@cd.algorithm("r x, r y, x d -> r x, r y")
def with_a_term(A: Any, B: Any, C: Any) -> Any:
    """A term is an axis beside the coproduct: x would be two axes of one array."""
    both = cd.concat([cd.sum(A, "r"), cd.sum(B, "r")], "x+y")
    return cd.sum(A * both, "x+y") + cd.sum(C, "d"), cd.sum(B * both, "x+y")


@pytest.mark.parametrize("program", [step, of_three, with_a_whole, with_a_term], ids=lambda p: str(p.title))
def test_reductions_term_by_term_mean_the_same(program: Any) -> None:
    made = by_terms(program.diagram)
    if program is with_a_term:
        assert made is None
        return
    assert made is not None
    rng = np.random.default_rng(0)
    shapes = [[SIZES.get(a.name, 6 if a.kind == "coproduct" else 1) for a in ty.axes] for ty in program.dom]
    arrays = [rng.normal(size=shape) for shape in shapes]
    expected, found = (p.run(*arrays, sizes=SIZES) for p in (program, cd.Program(made.diagram)))
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b)
    assert not cd.prove(program, cd.Program(made.diagram)).conditional


def test_nothing_of_the_length_of_the_concatenation_is_left_of_a_step() -> None:
    made = by_terms(step.diagram)
    assert made is not None and made.axes == ("x+1",)
    assert not any(isinstance(box.op, Reindex) for box in made.diagram.boxes)
    assert by_terms(cd.library.get("attention").diagram) is None


def test_a_program_that_fits_in_no_other_form_is_planned_term_by_term() -> None:
    peak = cd.algorithm("q x, q -> q", name="peak")(
        lambda A, b: cd.max(cd.exp(cd.concat([A, cd.broadcast(b, "q 1")], "x+1")), "x+1")
    )
    plan = peak.plan("H200", {"q": 1024, "x": 262144})
    assert [kernel.loops for kernel in plan.kernels] == ["stream x, split x, group q"]
    assert plan.backend == "triton" and not plan.theorem.conditional and plan.source == peak.diagram
