"""What is computed from positions, sizes and constants alone is inlined: neither moved nor held, in formulas and by the
machine that counts."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.cost.traffic import io
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search


@cd.algorithm("q x -> q")
def by_distance(A: Any) -> Any:
    return cd.sum(A * (cd.index("q") - cd.index("x")), "x")


@cd.algorithm("q x -> q")
def masked(A: Any) -> Any:
    return cd.sum(cd.where((cd.index("x") <= cd.index("q")) & (cd.index("x") < cd.size("q") / 2), A, 0), "x")


@cd.algorithm("q x -> q")
def weighed(A: Any) -> Any:
    return cd.sum(A * cd.exp((cd.index("x") - cd.index("q")) * 0.5), "x")


def forms(program: Diagram) -> list[Diagram]:
    tiled = group.find(diagram_of(program), ["q"])
    return [program, tiled, group.find(fold_search.find(diagram_of(program), "x").diagram, ["q"])]


@pytest.mark.parametrize("program", [by_distance, masked, weighed], ids=["distance", "mask", "weights"])
def test_arrays_of_positions_take_no_room(program: Diagram) -> None:
    plain = forms(cd.algorithm("q x -> q", name="plain")(lambda A: cd.sum(A * 2, "x")))
    for form, other in zip(forms(program), plain, strict=True):
        for dtype in (None, "bf16"):
            assert io(form, dtype=dtype).memory == io(other, dtype=dtype).memory
            assert io(form, dtype=dtype).transfers == io(other, dtype=dtype).transfers
            cd.testing.assert_counts_match(form, 2, dtype=dtype)
        cd.testing.assert_counts_match(form, 2, dtype="bf16", fused=False)
        cd.testing.assert_counts_match(form, 1, levels=("HBM", "SMEM", "registers"))
    assert {str(io(form).work["alu"]) for form in forms(by_distance)} == {"3*q*x"}


def test_what_is_made_of_data_as_well_is_an_array() -> None:
    shifted = cd.algorithm("q x, q -> q")(lambda A, b: cd.sum(A * (b - cd.index("x")), "x"))
    held = {r.array for r in io(shifted).live_arrays}
    assert "sub [q x]" in held or "mul [q x]" in held
    assert str(io(shifted).memory) == "2*q*x"
    cd.testing.assert_counts_match(shifted, 2)


def test_an_inlined_result_is_saved_from_nowhere() -> None:
    both = cd.algorithm("q x -> q, q x")(lambda A: (cd.sum(A, "x"), (cd.index("q") - cd.index("x")) * 2))
    for form in (both, group.find(both.diagram, ["q"])):
        found = io(form, dtype="bf16")
        assert str(next(t.exact for t in found.traffic if t.array == "out1")) == "8*q*x"
        for fused in (True, False):
            cd.testing.assert_counts_match(form, 2, dtype="bf16", fused=fused)
