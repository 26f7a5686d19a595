"""Rows that begin at multiples of 8 entries, but not of 16."""

from __future__ import annotations

import re

import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.launch_recorder import record_launches
from catdiag.runtime.machine_code import binaries


def softmax() -> Module:
    rows = cd.algorithm("t v -> t v", name="rows")(lambda Z: cd.softmax(Z, "v"))
    return module(rows.group("t"), {"g_t": 1}, "bf16", warps=4)


@pytest.mark.parametrize(("length", "told"), [(1000, True), (1024, False), (1001, False), (1004, False), (7000, True)])
def test_the_compiler_is_told_of_multiples_of_8_that_it_does_not_see(length: int, told: bool) -> None:
    (launch,) = record_launches(softmax(), {"t": 64, "v": length})
    assert launch.arguments["divisible_by_8"] is told


def test_strides_of_last_axes_and_arrays_without_rows_are_left_alone() -> None:
    assert "if divisible_by_8:" in softmax().text and "Z_v // 8" not in softmax().text
    total = cd.algorithm("v -> ", name="total")(lambda x: cd.sum(x, "v"))
    text = module(total.stream("v"), {"s_v": 64}, "bf16").text
    assert "divisible_by_8=math.gcd(v, 16) == 8" in text


@pytest.mark.triton
def test_rows_of_1000_entries_are_moved_16_bytes_at_a_time() -> None:
    (told,) = binaries(softmax(), {"t": 64, "v": 1000})
    (odd,) = binaries(softmax(), {"t": 64, "v": 1001})
    assert [bool(re.search(r"st\.global\.v4", one.assembly)) for one in (told, odd)] == [True, False]
