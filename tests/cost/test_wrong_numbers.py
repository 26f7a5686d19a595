"""Sizes that are missing or wrong are said to be, by name."""

from __future__ import annotations

import pytest

import catdiag as cd
from catdiag.util.errors import SizeError

SIZES = {"q": 64, "x": 64, "d": 8}


def test_of_optima():
    io = cd.library.get("attention").stream("x").group("q").io()
    with pytest.raises(SizeError, match="give a size for d, s_x"):
        io.optimum().bracket({"q": 1})
    with pytest.raises(SizeError, match="g_z is no tile: expected g_q, s_x"):
        io.integer_optimum(SIZES, 1000, {"g_z": 2})


def test_of_bounds():
    bound = cd.library.get("attention").lower_bound()
    with pytest.raises(SizeError, match="M is -3, which is negative"):
        bound.at(SIZES, -3)
    with pytest.raises(SizeError, match="q is -1"):
        bound.at({**SIZES, "q": -1}, 100)


def test_an_optimum_in_another_unit_is_not_compared_with_a_bound() -> None:
    product = cd.library.get("matmul")
    blocked = product.stream("b").group("a c")
    optimum = blocked.io(dtype="bf16").optimum()
    with pytest.raises(cd.errors.CatdiagError, match="the optimum is in bytes and the bound in values"):
        product.lower_bound().ratio(optimum)
    inner = blocked.io(levels=("HBM", "SMEM"), dtype="bf16").optimum("SMEM")
    with pytest.raises(cd.errors.CatdiagError, match="in bytes and the bound in values"):
        product.lower_bound().ratio(inner)
    assert product.lower_bound(dtype="bf16").ratio(optimum) is not None
