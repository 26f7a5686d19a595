"""What a launch function does with tensors of any strides, and with any tiles, warps and buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from catdiag import library
from catdiag.category.diagram import Diagram
from catdiag.category.types import size_value
from catdiag.codegen.gluon.gluon_source import CHECKS
from catdiag.codegen.triton.launch_checks import checks
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.launch_recorder import Tensor, Type, launches_on
from catdiag.runtime.machine_code import RecordedLaunch
from catdiag.util.errors import CatdiagError, SizeError
from tests.forms import unproved


@cache
def derived(name: str) -> Diagram:
    groups = {"causal_attention": "q", "sink_attention": "q"}.get(name, "b h q")
    return unproved(library.get(name).diagram, "x", groups)


def specialised(name: str, rows: int, warps: int, stages: int = 2) -> Module:
    tiles = {"g_b": 1, "g_h": 1, "g_q": rows, "s_x": 64}
    return module(derived(name), tiles, "bf16", stages=stages, warps=warps, specialized=True)


SIZES = {"b": 2, "h": 3, "q": 1000, "x": 900, "d": 64}


def turned(shape: Sequence[int]) -> list[int]:
    """Strides of an array whose axes lie in memory the other way round."""
    strides = [1]
    for n in shape[:-1]:
        strides.append(strides[-1] * n)
    return strides


def every_other(shape: Sequence[int]) -> list[int]:
    """Strides of every other entry of each row."""
    return [2 * n for n in Tensor.of(shape, "bfloat16").strides]


def expanded(shape: Sequence[int]) -> list[int]:
    """Strides of one row that stands for all."""
    return [0] * (len(shape) - 1) + [1]


def launched(
    made: Module, strides: Callable[[Sequence[int]], list[int]], sizes: dict[str, int] = SIZES, **options: object
) -> RecordedLaunch:
    values: list[Any] = []
    for argument in made.inputs:
        shape = tuple(size_value(axis.size, sizes) for axis in argument.ty.axes)
        values.append(Tensor(shape, tuple(strides(shape)), Type(argument.dtype)))
    (launch,) = launches_on(made, values, sizes, options)
    return launch


@pytest.mark.parametrize("strides", [turned, every_other, expanded])
@pytest.mark.parametrize(("rows", "warps"), [(64, 4), (128, 8), (192, 12), (384, 12)])
@pytest.mark.parametrize("name", ["multi_head_attention", "causal_attention", "sink_attention"])
def test_the_plain_form_takes_its_place_with_a_power_of_two_of_warps(
    name: str, rows: int, warps: int, strides: Callable[[Sequence[int]], list[int]]
) -> None:
    made = specialised(name, rows, warps)
    launch = launched(made, strides)
    count = launch.options["num_warps"]
    assert launch.kernel in made.kernels
    assert isinstance(count, int) and count >= warps and count & (count - 1) == 0
    # Where blocks can be copied, the other form has as many warpgroups as were asked for.
    dense = launched(made, lambda shape: list(Tensor.of(shape, "bfloat16").strides))
    assert dense.kernel in made.specialized and dense.arguments["groups"] == warps // 4


def test_rings_that_have_no_room_are_not_tried() -> None:
    made = specialised("multi_head_attention", 128, 8, stages=4)

    def row_by_row(shape: Sequence[int]) -> list[int]:
        return list(Tensor.of(shape, "bfloat16").strides)

    assert launched(made, row_by_row).kernel in made.specialized
    plain = launched(made, row_by_row, {**SIZES, "d": 256})
    assert plain.kernel in made.kernels and plain.options["num_warps"] == 8
    # Sixteen warps have too few registers for products of 256 columns, and warpgroups no rows but powers of two.
    twelve = specialised("multi_head_attention", 192, 12)
    assert launched(twelve, turned, {**SIZES, "d": 256}).options["num_warps"] == 8
    for warps in (4, 8):
        assert launched(twelve, row_by_row, num_warps=warps).kernel in twelve.kernels


def test_buffers_are_as_many_as_there_is_room_for() -> None:
    class OutOfResources(Exception):
        pass

    def tried(room: int) -> list[int]:
        counts: list[int] = []

        def run(*arguments: object, num_stages: int, **options: object) -> None:
            assert arguments == (1, 2) and options == {"tma": True}
            counts.append(num_stages)
            if num_stages > room:
                raise OutOfResources

        namespace["_fitted"](run, 3, 1, 2, tma=True)
        return counts

    namespace: dict[str, Any] = {"triton": type("triton", (), {"OutOfResources": OutOfResources})}
    exec(CHECKS, namespace)
    assert [tried(room) for room in (5, 2, 1)] == [[3], [3, 2], [3, 2, 1]]
    with pytest.raises(OutOfResources):
        tried(0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_warps": 12}, "num_warps is 12: expected 1, 2, 4, 8, 16 or 32\\n"),
        ({"num_warps": 0}, "num_warps is 0: expected 1, 2, 4, 8, 16 or 32\\n"),
        ({"num_stages": 0}, "num_stages is 0: expected a number of buffers, 1 or more"),
        ({"g_q": 0}, "g_q is 0: expected a power of two"),
    ],
)
def test_what_no_kernel_runs_with_is_refused(options: dict[str, int], said: str) -> None:
    made = module(derived("multi_head_attention"), {"g_b": 1, "g_h": 1, "g_q": 64, "s_x": 64}, "bf16")
    with pytest.raises(SizeError, match=said):
        launched(made, turned, **options)


def test_twelve_warps_are_taken_where_there_is_another_form() -> None:
    made = specialised("multi_head_attention", 192, 12)
    with pytest.raises(SizeError, match="num_warps is 20: expected 1, 2, 4, 8, 16 or 32, or 12 with warp spec"):
        launched(made, turned, num_warps=20)
    with pytest.raises(SizeError, match="g_q is 0: expected a number of entries, 1 or more"):
        launched(made, turned, g_q=0)
    assert launched(made, turned, specialized=False).options["num_warps"] == 16


@pytest.mark.parametrize(
    ("name", "warps", "apart"), [("matmul", 12, True), ("matmul", 6, False), ("matmul", 64, False)]
)
def test_no_module_is_written_that_would_refuse_to_run(name: str, warps: int, apart: bool) -> None:
    form = unproved(library.get(name).diagram, "b", "a c")
    with pytest.raises(CatdiagError, match=f"_matmul is to run with {warps} warps: expected 1, 2, 4, 8, 16 or 32"):
        module(form, {"g_a": 64, "g_c": 64, "s_b": 64}, warps=warps, specialized=apart)


def test_numbers_for_each_kernel_are_as_many() -> None:
    namespace: dict[str, Any] = {}
    exec(checks(False), namespace)
    assert namespace["_each"]("num_warps", 4, 2) == (4, 4) and namespace["_each"]("num_warps", (4, 8), 2) == (4, 8)
    with pytest.raises(ValueError, match=r"num_warps is \(4,\): expected one number, or one for each of 2 kernels"):
        namespace["_each"]("num_warps", (4,), 2)
