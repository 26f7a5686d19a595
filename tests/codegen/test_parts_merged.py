"""The kernel that merges the parts of a split loop: its tiles are halved at launch, and parts are loaded together."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

import catdiag as cd
from catdiag.codegen.triton.launch_checks import MERGING, checks

covariance = cd.algorithm("t i, t j -> i j", name="covariance")(lambda A, B: cd.einsum("t i, t j -> i j", A, B))


@pytest.fixture(scope="module")
def text() -> str:
    plan = covariance.plan("H200", {"t": 2**20, "i": 64, "j": 64})
    assert plan.kernels[0].loops == "stream t, split t, group i j"
    return plan.code("triton")


def test_parts_are_merged_by_more_programs_than_products_have_tiles(text: str) -> None:
    kept, names = re.search(r"    (\w+) = \((g_i, g_j)\)\n", text).groups()  # type: ignore[union-attr]
    launched = text.index("_covariance_2[")
    assert text.index(f"({names}) = _merging({kept}, (i, j))") < launched < text.index(f"({names}) = {kept}\n")
    assert "loop_unroll_factor=16 if g_i * g_j <= 1024 else 4" in text


def merging() -> Any:
    made: dict[str, Any] = {}
    exec("import functools\n" + checks(False) + "\n\n" + MERGING, made)
    return SimpleNamespace(**made)


@pytest.mark.parametrize(
    ("tiles", "lengths", "found"),
    [
        ((64, 32), (64, 64), (16, 16)),  # 16 programs of 256 entries
        ((128, 128), (4096, 4096), (128, 128)),  # there are enough
        ((16, 64), (16, 128), (16, 16)),
        ((128, 256), (1024, 1024), (64, 128)),
        ((8,), (40,), (8,)),
    ],
)
def test_tiles_are_halved_while_there_are_fewer_programs_than_cores(
    tiles: tuple[int, ...], lengths: tuple[int, ...], found: tuple[int, ...]
) -> None:
    assert merging()._merging(tiles, lengths) == found
