"""No integer of a kernel is longer than its bits, at any sizes and strides that a launch does not refuse."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import catdiag as cd
from catdiag import library
from catdiag.category.types import size_value
from catdiag.cli.io_report import best_of
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.execute.size_inference import tile_bounds
from catdiag.runtime.launch_recorder import Tensor, Type, launches_on
from catdiag.runtime.machine_code import RecordedLaunch
from catdiag.solvers.z3 import Z3
from catdiag.testing.input_generators import symbols_of
from catdiag.util.errors import SizeError
from tests.codegen.offsets_of_text import read
from tests.forms import unproved

LONG = 40_000
"""Tiles of whole axes of this length are 65,536 long, and two such axes hold more entries than 31 bits count."""


def row_by_row(shape: Sequence[int]) -> list[int]:
    """The strides of an array whose last axis is dense."""
    return list(Tensor.of(shape, "bfloat16").strides)


def turned(shape: Sequence[int]) -> list[int]:
    """The strides of an array whose first axis is dense."""
    return row_by_row(shape[::-1])[::-1]


def sparse(shape: Sequence[int]) -> list[int]:
    """The strides of an array whose entries are far apart."""
    return [2**26] * len(shape)


def launches(
    made: Module, sizes: dict[str, int], strides: Callable[[Sequence[int]], list[int]], **options: object
) -> tuple[RecordedLaunch, ...]:
    values: list[Any] = []
    for argument in made.inputs:
        shape = tuple(size_value(axis.size, sizes) for axis in argument.ty.axes)
        values.append(Tensor(shape, tuple(strides(shape)), Type(argument.dtype)) if shape else 3)
    return launches_on(made, values, sizes, options)


def written(form: cd.category.Diagram, **tiles: int) -> Module:
    symbols = tile_bounds(form)
    groups = [s for s in symbols if s.startswith("g_")]
    lengths = {s: 2 if s.startswith("p_") else 1 if s in groups[:-1] else 64 for s in symbols}
    return module(form, lengths | tiles, "bf16", specialized=True)


def check(made: Module, sizes: dict[str, int]) -> None:
    read_by_address = 0
    for strides in (row_by_row, turned, sparse):
        for launch in launches(made, sizes, strides):
            found = read(made.text, launch)
            read_by_address += found.offsets
            assert not found.wrong, (launch.kernel, strides.__name__, found.wrong)
    assert read_by_address


@cd.algorithm("n d, int[q] -> q d", name="rows")
def rows(K: Any, at: Any) -> Any:
    return cd.gather(K, "n", at) * 2


@cache
def derived(name: str) -> cd.category.Diagram:
    """A form of an operator."""
    match name:
        case "rows":
            return rows.group("q").diagram
        case "softmax":
            return library.get(name).group("q").diagram
        case "matmul":
            return unproved(library.get(name).diagram, "b", "a c")
        case "causal_attention":
            return unproved(library.get(name).diagram, "x", "q", skips="x")
    return unproved(library.get(name).diagram, "x", "b h q")


@pytest.mark.parametrize("name", ["softmax", "multi_head_attention", "matmul", "causal_attention", "rows"])
def test_offsets_in_a_tile_are_as_long_as_they_have_to_be(name: str) -> None:
    made, symbols = written(derived(name)), symbols_of(derived(name))
    check(made, dict.fromkeys(symbols, LONG if name == "softmax" else 300))
    (launch,) = launches(made, dict.fromkeys(symbols, 300), sparse)
    assert launch.arguments["wide"]
    assert read(made.text, replace(launch, arguments={**launch.arguments, "wide": False})).wrong


def test_they_are_short_where_that_is_enough() -> None:
    attention = derived("multi_head_attention")
    sizes = dict.fromkeys(symbols_of(attention), 100)
    for strides in (row_by_row, turned):
        assert all(launch.arguments["wide"] is False for launch in launches(written(attention), sizes, strides))


def test_those_of_the_other_form_are_too() -> None:
    made = module(
        derived("multi_head_attention"), {"g_b": 1, "g_h": 1, "g_q": 128, "s_x": 64}, "bf16", warps=8, specialized=True
    )
    sizes = {"b": 1, "h": 1, "q": 300, "x": 300, "d": 64}
    out = Tensor((1, 1, 300, 64), (1, 1, 1, 2**26), Type("bfloat16"))
    for given, wide in ((out, True), (None, False)):
        (launch,) = launches(made, sizes, row_by_row, **({"out": given} if given else {}))
        found = read(made.text, launch)
        assert launch.kernel in made.specialized and launch.arguments["wide"] is wide
        assert found.offsets and not found.wrong


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (
            {"q": 3, "x": 2**31 - 2**24},
            r"x is 2130706432: expected less than 2,130,706,432, as kernels count in 32 bits",
        ),
        ({"q": 2**31 - 1, "x": 3}, r"q is 2147483647: expected less than"),
    ],
)
def test_axes_that_32_bits_do_not_count_are_refused(sizes: dict[str, int], said: str) -> None:
    total = cd.algorithm("q x -> q", name="total")(lambda A: cd.sum(A, "x")).stream("x").group("q").diagram
    with pytest.raises(SizeError, match=said):
        launches(written(total), sizes, row_by_row)
    launches(written(total), {n: min(size, 2**31 - 2**24 - 1) for n, size in sizes.items()}, row_by_row)


def test_more_programs_than_a_grid_has_are_refused() -> None:
    total = cd.algorithm("p q x -> p q", name="total")(lambda A: cd.sum(A, "x")).stream("x").group("p q").diagram
    with pytest.raises(SizeError, match="the number of programs of _total is 2500000000: expected less than"):
        launches(written(total, g_q=1), {"p": 50_000, "q": 50_000, "x": 2}, row_by_row)


@pytest.mark.triton
@pytest.mark.parametrize("name", library.names())
def test_so_are_those_of_the_library(name: str) -> None:
    source = library.get(name)
    with Z3() as ask:
        form = best_of(source.diagram, ask).diagram
    made = written(form)
    entry = next(n for n in ast.parse(made.text).body if isinstance(n, ast.FunctionDef) and n.name == made.entry)
    unseen = [
        a.arg for a, default in zip(entry.args.kwonlyargs, entry.args.kw_defaults, strict=True) if default is None
    ]
    symbols = {*symbols_of(source.diagram), *unseen}
    for length in (LONG, 40):
        # Axes that are products of axes, and grids of several, may be too long for any kernel.
        with suppress(SizeError) if length == LONG else nullcontext():
            check(made, dict.fromkeys(symbols, length))
