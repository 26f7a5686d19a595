"""A type for each array: of products each their own, of results, of what kernels save, in predictions as in modules."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import catdiag as cd
from catdiag.category.types import size_value
from catdiag.codegen.triton.triton_module import module
from catdiag.cost.traffic import io
from catdiag.planner.graph_segments import StageSequence
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.stored_types import element_types
from catdiag.testing import assert_counts_match
from tests import forms

ITEM_BYTES = {"float8_e4m3fn": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
ROUTER = {"t": 4096, "d": 1024, "e": 64, "f": 64}


@cd.algorithm("t d, e d, e f -> t f")
def routed(X: Any, W: Any, G: Any) -> Any:
    return cd.einsum("t e, e f -> t f", cd.einsum("t d, e d -> t e", X, W), G)


@cd.algorithm("a b, b c -> a c")
def narrowed(A: Any, B: Any) -> Any:
    return cd.einsum("a b, b c -> a c", cd.cast(A, "bf16"), cd.cast(B, "bf16"))


@cd.algorithm("t d, d f, f e, d -> t e")
def two_layers(X: Any, U: Any, D: Any, b: Any) -> Any:
    return cd.einsum("t f, f e -> t e", cd.nn.silu(cd.einsum("t d, d f -> t f", X + b, U)), D)


@cd.algorithm("q x -> q x, q")
def with_largest(S: Any) -> Any:
    return S - cd.max(S, "x"), cd.max(S, "x")


@cache
def router() -> cd.Program:
    return routed.stream("d").group("t")


def dots(text: str) -> list[str]:
    """The lines of kernels, but not of what they call, that multiply."""
    lines = (line for line in text.splitlines() if "dot" in line and " = " in line)
    return [line for line in lines if " found = " not in line and not line.startswith("def ")]


def test_each_product_has_the_type_of_its_own_factors() -> None:
    types = {"X": "bf16", "W": "bf16", "G": "fp32", "out": "fp32"}
    found = {c.depth.value(ROUTER): c.dtype for k in measure(routed.diagram, types).kernels for c in k.contractions}
    assert found == {1024: "bf16", 64: "fp32"}
    first, second = dots(module(router().diagram, {"g_t": 64, "s_d": 64}, types).text)
    assert "tf32x3" not in first and "tf32x3" in second


def test_a_small_product_in_fp32_leaves_a_large_one_on_matrix_units() -> None:
    seconds = {
        name: router().plan("H200", ROUTER, dtype=types, backend="ideal").kernels[0]
        for name, types in (
            ("short", "bf16"),
            ("mixed", {"G": "fp32", "*": "bf16"}),
            ("wide", "fp32"),
        )
    }
    assert seconds["short"].time_s <= seconds["mixed"].time_s <= 1.2 * seconds["short"].time_s
    assert seconds["wide"].parts_s["tensor"] == 0 < seconds["mixed"].parts_s["tensor"]
    assert seconds["short"].parts_s["alu"] < seconds["mixed"].parts_s["alu"] < seconds["wide"].parts_s["alu"]


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_a_cast_gives_a_product_its_type(dtype: str) -> None:
    form = narrowed.stream("b").group("a c")
    plan = form.plan("H200", {"a": 1024, "b": 1024, "c": 1024}, dtype=dtype)
    assert plan.kernels[0].parts_s["tensor"] > plan.kernels[0].parts_s["alu"]
    (line,) = dots(plan.code("triton"))
    assert "tf32x3" not in line


def test_what_is_saved_between_kernels_has_the_type_of_the_rest() -> None:
    row = StageSequence(two_layers.diagram)
    for end in range(1, len(row.stages)):
        types = row.types_of(0, end, {"b": "fp32", "*": "bf16"})
        assert not isinstance(types, str)
        assert {name: kind for name, kind in types.items() if kind != "bf16"} == {"b": "fp32"}


def test_a_kernel_of_truth_values_alone_has_the_type_of_the_rest() -> None:
    def first(a: Any, n: Any) -> Any:
        inside = n < 3
        return cd.where(inside, a, 0) / cd.sum(cd.where(inside, a, 0), "x"), cd.where(inside, a, 1)

    row = StageSequence(cd.algorithm("x, int[x] -> x, x")(first).diagram)
    assert [str(ty) for ty in row.segment(0, 1).diagram.cod] == ["bool[x]"]
    assert row.types_of(0, 1, {"a": "fp16", "*": "bf16"}) == "bf16"


@pytest.mark.parametrize(
    "dtype", ["bf16", "fp32", "fp64", "fp8", {"S": "fp16", "*": "bf16"}, {"out1": "bf16", "*": "fp16"}]
)
def test_a_statistic_beside_another_result_stays_in_full_precision(dtype: Any) -> None:
    types = element_types(with_largest.diagram, dtype)
    asked = isinstance(dtype, dict) and "out1" in dtype
    assert types["out1"] == (dtype["out1"] if asked else "fp64" if dtype == "fp64" else "fp32")
    assert types["out0"] != "fp8"
    made = module(with_largest.group("q").diagram, {"g_q": 16}, dtype)
    widths = [ITEM_BYTES[a.dtype] for a in made.outputs]
    save = with_largest.group("q").io(dtype=dtype).save
    assert int(save.subs(dict.fromkeys(save.free_symbols, 8))) == 64 * widths[0] + 8 * widths[1]


def test_a_statistic_alone_has_the_type_that_is_asked_for() -> None:
    total = cd.algorithm("q x -> q")(lambda A: cd.sum(A, "x"))
    assert element_types(total.diagram, "bf16") == {"A": "bf16", "out": "bf16"}


@pytest.mark.parametrize(
    ("operator", "stream", "group"),
    [("attention", "x", "q"), ("attention_with_log_sum_exp", "x", "q"), ("matmul", "b", "a c")],
)
@pytest.mark.parametrize("dtype", ["fp8", "bf16", {"*": "fp16"}, {"out": "fp32", "*": "bf16"}])
def test_bytes_are_those_of_the_arrays_that_a_module_takes(operator: str, stream: str, group: str, dtype: Any) -> None:
    form = forms.form(operator, stream, group)
    if len(form.cod) > 1 and isinstance(dtype, dict):
        dtype = {name.replace("out", "out0") if name == "out" else name: kind for name, kind in dtype.items()}
    axes = dict.fromkeys([a.size for ty in (*form.dom, *form.cod) for a in ty.axes], 64)
    made = module(form, _tiles(form), dtype)
    save = io(form, dtype=dtype).save
    saved = sum(_bytes(a, axes) for a in made.outputs)
    assert int(save.subs(dict.fromkeys(save.free_symbols, 64))) == saved


def _tiles(form: Any) -> dict[str, int]:
    kernel = measure(form).kernels[0]
    return dict.fromkeys((*kernel.tiles, *(block for block, _ in kernel.loops)), 64)


def _bytes(argument: Any, sizes: dict[str, int]) -> int:
    count = ITEM_BYTES[argument.dtype]
    for axis in argument.ty.axes:
        count *= size_value(axis.size, sizes)
    return count


@pytest.mark.parametrize("dtype", ["fp8", {"*": "bf16"}, {"V": "fp32", "*": "fp8"}, {"out1": "fp16", "*": "bf16"}])
def test_the_machine_counts_the_same_bytes(dtype: Any) -> None:
    assert_counts_match(forms.form("attention_with_log_sum_exp", "x", "q"), trials=3, dtype=dtype)


def test_names_that_are_not_there_are_refused() -> None:
    with pytest.raises(cd.errors.CatdiagError, match="an array 'T'"):
        routed.io(dtype={"T": "bf16", "*": "bf16"})
    with pytest.raises(cd.errors.CatdiagError, match="unknown dtype 'fp3'"):
        routed.io(dtype={"*": "fp3"})
