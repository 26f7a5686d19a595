"""Launches that are recorded without torch: at sizes that no input shows, and where inputs are called as axes are."""

from __future__ import annotations

import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import module
from catdiag.runtime.launch_recorder import record_launches
from catdiag.util.errors import SizeError


def test_a_size_that_no_input_shows_is_handed_over() -> None:
    window = cd.algorithm("x c, k c -> y", name="window")(
        lambda A, w: cd.einsum("y k c, k c -> y", cd.window(A, "x", "y k", pad=(1, 1)), w)
    )
    made = module(window.group("y").diagram, {"g_y": 16})
    (launch,) = record_launches(made, {"x": 512, "c": 64, "k": 3, "y": 512})
    assert launch.grid == (32, 1, 1)
    with pytest.raises(SizeError, match="'y' that no input shows"):
        record_launches(made, {"x": 512, "c": 64, "k": 3})


def test_an_input_may_be_called_as_an_axis_is() -> None:
    scaled = cd.algorithm("b x, -> b x", name="scaled")(lambda A, x: A * x)
    made = module(scaled.group("b x").diagram, {"g_b": 1, "g_x": 64})
    (launch,) = record_launches(made, {"b": 3, "x": 128}, scalars={"x": 0.5})
    assert launch.grid == (6, 1, 1)
