"""Products of rows or columns that are several axes: Triton 3.6 compiles what is written (pytest -m triton)."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.substitution import inline
from catdiag.codegen.triton.triton_module import module
from catdiag.planner.compiled_plan import compiled_of
from catdiag.rewrite.group import find
from catdiag.rewrite.stream.multi_pass import forms

SIZES = {"b": 8, "t": 64, "d": 64, "p": 16, "o": 16, "r": 8, "q": 64, "x": 128, "e": 64}


@cd.algorithm("b t d, p d o -> t p b o")
def layers(X: Any, W: Any) -> Any:
    return cd.einsum("b t d, p d o -> t p b o", X, W)


@cd.algorithm("q e, x d e -> q x d")
def columns(X: Any, W: Any) -> Any:
    return cd.einsum("q e, x d e -> q x d", X, W)


@cd.algorithm("r q d, x d, x e -> r q e")
def heads(Q: Any, K: Any, V: Any) -> Any:
    S = cd.einsum("r q d, x d -> r q x", Q, K)
    return cd.einsum("r q x, x e -> r q e", cd.softmax(S, "x"), V)


def draft(program: cd.category.Diagram, axis: str, axes: str) -> cd.category.Diagram:
    return find(forms(inline(diagram_of(program)), axis, 1)[1][0].diagram, axes.split())


CASES = [
    (layers, "d", "b t o p", {"g_b": 16, "g_t": 4, "g_o": 4, "g_p": 16, "s_d": 64}, 4),
    (heads, "x", "r q", {"g_r": 16, "g_q": 4, "s_x": 64}, 4),
    (heads, "x", "r q", {"g_r": 4, "g_q": 16, "s_x": 64}, 8),
    (columns, "e", "q x d", {"g_q": 64, "g_x": 2, "g_d": 16, "s_e": 32}, 4),
]


def test_the_longest_of_joint_dimensions_is_the_last() -> None:
    program, axis, axes, tiles, _ = CASES[0]
    text = module(draft(program, axis, axes), tiles, "bf16").text
    assert "tl.permute(X_tile, (2, 1, 0)), (s_d, g_t * g_b))" in text  # 16 of b after 4 of t


def test_fewer_warps_are_launched_where_joint_rows_are_few() -> None:
    form = draft(heads, "x", "r q")
    joint = module(form, {"g_r": 4, "g_q": 16, "s_x": 64}, "bf16", warps=8).text
    assert "num_warps=min(num_warps, max(4, g_r * g_q // 16))" in joint
    alone = module(form, {"g_r": 1, "g_q": 64, "s_x": 64}, "bf16", warps=8).text
    assert "num_warps=num_warps" in alone


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize(("program", "axis", "axes", "tiles", "warps"), CASES)
def test_they_compile(program: cd.category.Diagram, axis: str, axes: str, tiles: dict[str, int], warps: int) -> None:
    kernel = compiled_of(draft(program, axis, axes), program, tiles, "bf16", warps=warps)
    names = {a.name for ty in program.dom for a in ty.axes}
    (code,) = kernel.binaries({name: size for name, size in SIZES.items() if name in names})
    assert not code.spills


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize(("program", "axis", "axes", "tiles", "warps"), CASES)
    def test_they_give_what_they_mean(
        self, program: cd.category.Diagram, axis: str, axes: str, tiles: dict[str, int], warps: int
    ) -> None:
        cd.testing.assert_compiled(
            compiled_of(draft(program, axis, axes), program, tiles, "fp32", warps=warps), trials=2
        )
