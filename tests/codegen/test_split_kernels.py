"""The two kernels of a split loop: each runs the loops that it needs."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import module
from catdiag.planner.compiled_plan import compiled_of


@cd.algorithm("q x, q y -> q")
def beside(A: Any, B: Any) -> Any:
    """Loops over two axes, neither of which needs the other."""
    return cd.sum(cd.exp(A), "x") + cd.sum(B * cd.tanh(B), "y")


@cd.algorithm("q x, q y -> q")
def within(A: Any, B: Any) -> Any:
    """A loop over x that reads what a loop over y gives."""
    return cd.sum(cd.exp(A) * cd.sum(B, "y"), "x")


TILES = {"g_q": 16, "s_x": 16, "s_y": 16, "p_x": 3}


@functools.cache
def split(program: cd.Program) -> Any:
    return program.stream("x").stream("y").split("x", "p_x").group("q").diagram


def kernels(program: cd.Program) -> list[str]:
    return module(split(program), TILES, "fp32").text.split("@triton.jit")[-2:]


def test_a_loop_that_is_read_after_the_merge_runs_there() -> None:
    saving, merging = kernels(beside)
    assert "for x0 in" in saving and "for y0 in" not in saving
    assert "for y0 in" in merging and "for x0 in" not in merging


def test_a_loop_that_the_parts_read_runs_before_them() -> None:
    saving, merging = kernels(within)
    assert "for y0 in" in saving and "for x0 in" in saving
    assert "for y0 in" not in merging and "for x0 in" not in merging


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
@pytest.mark.parametrize("program", [beside, within])
def test_they_give_what_they_mean(program: cd.Program) -> None:
    made = compiled_of(split(program), program, TILES, "fp32")
    assert cd.testing.assert_compiled(made, trials=4, repeats=False).compared > 0
