"""Launches recorded, and code made, without a GPU (pytest -m triton)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import module
from catdiag.planner.compiled_plan import compiled_of
from catdiag.runtime.machine_code import ArrayArgument, binaries, launches
from catdiag.util.errors import CatdiagError, SizeError
from tests.forms import unproved
from tests.runtime.sample import TEXT, Argument, Module

SIZES = {"q": 500, "x": 1000}
MODULE = Module()
pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("compiling")]


def test_a_launch_is_what_would_be_launched() -> None:
    (launch,) = launches(MODULE, SIZES, tiles={"g_q": 128}, scalars={"c": 2.0}, warps=8)
    assert (launch.kernel, launch.grid, launch.programs) == ("total_kernel", (4, 1, 1), 4)
    assert launch.arguments == {
        "A": ArrayArgument("bfloat16", (500, 1000), (1000, 1)),
        "out": ArrayArgument("bfloat16", (500,), (1,)),
        "q": 500,
        "x": 1000,
        "A_q": 1000,
        "A_x": 1,
        "out_q": 1,
        "c": 2.0,
        "g_q": 128,
        "s_x": 32,
    }
    assert launch.options == {"num_warps": 8, "num_stages": 2}


def test_code_is_specialised_as_by_the_launch() -> None:
    (binary,) = binaries(MODULE, {"q": 512, "x": 1000}, tiles={"s_x": 64})
    assert binary.signature["A"] == "*bf16"
    assert binary.signature["A_x"] == "constexpr"  # 1
    assert binary.signature["q"] == "i32"
    entry = binary.stages["ttir"].split("tt.func public @")[1].split("\n")[0]
    assert entry.count("tt.divisibility = 16") == 3, "A, out and q, and not x, which 16 does not divide"
    assert binary.threads == 128
    assert 0 < binary.registers <= 255
    assert not binary.spills
    assert binary.shared_bytes > 0
    assert binary.assembly.count(".target sm_90") and binary.object_code.startswith(b"\x7fELF")


def test_other_types_make_other_code() -> None:
    (half,) = binaries(MODULE, SIZES)
    (whole,) = binaries(MODULE, SIZES, dtypes={"A": "float32"})
    assert (half.signature["A"], whole.signature["A"]) == ("*bf16", "*fp32")


def test_a_chip_without_a_copy_engine_gets_no_descriptors() -> None:
    made = module(cd.library.get("attention").stream("x").group("q"), {"g_q": 64, "s_x": 64})
    sizes = {"q": 1024, "x": 1024, "d": 64}
    for arch, described in ((80, False), (90, True), (100, True)):
        (launch,) = launches(made, sizes, arch=arch)
        assert [launch.arguments[f"{name}_blocks"] is not None for name in "QKV"] == [described] * 3
    (binary,) = binaries(made, sizes, arch=80)
    assert ".target sm_80" in binary.assembly and "cp.async.bulk" not in binary.assembly


def test_kernels_are_compiled_for_chips_of_amd() -> None:
    gated = cd.algorithm("q d, x d -> q x")(lambda A, B: cd.tanh(cd.einsum("q d, x d -> q x", A, B))).group("q x")
    made = module(gated.diagram, {"g_q": 32, "g_x": 64})
    sizes = {"q": 64, "x": 64, "d": 64}
    (binary,) = binaries(made, sizes, arch="gfx942")
    assert binary.assembly.count("v_mfma") and binary.object_code.startswith(b"\x7fELF")
    assert (binary.arch, binary.threads, binary.spills) == ("gfx942", 4 * 64, False)
    assert 0 < binary.registers <= 512 and "tanh.approx" not in binary.stages["ttir"]
    (other,) = binaries(made, sizes)
    assert "tanh.approx" in other.stages["ttir"]
    for wrong in ("H100", "gfx", 9, True):
        with pytest.raises(CatdiagError, match=f"arch is {wrong!r}: expected ten times a compute capability"):
            binaries(made, sizes, arch=wrong)


def test_only_hopper_gets_warp_specialized_kernels() -> None:
    made = module(
        cd.library.get("attention").stream("x").group("q"), {"g_q": 128, "s_x": 128}, stages=2, warps=8,
        specialized=True,
    )  # fmt: skip
    sizes = {"q": 1024, "x": 1024, "d": 64}
    kernels = [launches(made, sizes, arch=arch)[0].kernel for arch in (80, 90, 100)]
    assert [kernel in made.specialized for kernel in kernels] == [False, True, False]


def test_spills_are_counted() -> None:
    body = TEXT.replace("num_stages=num_stages,", "num_stages=num_stages, maxnreg=24,")
    (binary,) = binaries(replace(MODULE, text=body), SIZES, tiles={"g_q": 128, "s_x": 128})
    assert binary.spills and binary.spill_store_bytes > 0 and binary.spill_load_bytes > 0
    assert binary.registers <= 32


def test_products_by_rows_of_weights_do_not_wait_for_each_other() -> None:
    """A linear layer's weights have their summed axis last. Where the loop over it could run no iteration, ptxas makes
    each product wait; the launch function says that it runs one."""
    linear = cd.algorithm("t d, o d, o -> t o")(lambda X, W, b: cd.einsum("t d, o d -> t o", X, W) + b)
    made = module(linear.stream("d").group("t o"), {"g_t": 128, "g_o": 256, "s_d": 64}, stages=3, warps=8)
    (binary,) = binaries(made, {"t": 8192, "d": 4096, "o": 16384})
    assert not binary.serializes_products and not binary.spills
    assumed = "        if even_d:\n            tl.assume(d_to > 0)\n"
    assert assumed in made.text and "even_d=d % s_d == 0 < d" in made.text
    (before,) = binaries(replace(made, text=made.text.replace(assumed, "")), {"t": 8192, "d": 4096, "o": 16384})
    assert before.serializes_products


def test_products_of_what_a_loop_makes_of_its_loads_are_complete_at_the_end_of_an_iteration() -> None:
    """Triton 3.6 has such a factor in registers, which the next iteration uses again."""
    made = module(unproved(relu_product.diagram, "b", "a c"), {"g_a": 128, "g_c": 128, "s_b": 64}, stages=3, warps=8)

    def last_wait(text: str) -> int:
        (binary,) = binaries(replace(made, text=text), {"a": 4096, "b": 4096, "c": 4096})
        lines = binary.stages["ttgir"].partition("scf.for")[2].partition("scf.yield")[0]
        return int(re.findall(r"warp_group_dot_wait .*pendings = (\d+)", lines)[-1])

    assert last_wait(made.text) == 0
    assert last_wait(re.sub(r"_completed\((tl.dot.*), compiled\)", r"\1", made.text)) > 0


@cd.algorithm("a b, b c -> a c")
def relu_product(A: Any, B: Any) -> Any:
    return cd.einsum("a b, b c -> a c", cd.nn.relu(A), B)


def test_launches_of_one_code_are_together() -> None:
    call = TEXT[TEXT.index("    total_kernel[(") : TEXT.index("    return out")]
    twice = TEXT.replace("    return out", call.replace("triton.cdiv(q, g_q)", "1") + "    return out")
    (binary,) = binaries(replace(MODULE, text=twice), SIZES)
    assert [launch.programs for launch in binary.launches] == [8, 1]


def test_a_grid_may_be_a_function() -> None:
    asked = TEXT.replace("(triton.cdiv(q, g_q),)", 'lambda given: (triton.cdiv(given["q"], given["g_q"]), 2)')
    (launch,) = launches(replace(MODULE, text=asked), SIZES)
    assert launch.grid == (8, 2, 1)


def test_refusals_say_what_was_expected() -> None:
    with pytest.raises(SizeError, match="total has no tile 'g_z', which is given as 2: expected one of g_q, s_x"):
        launches(MODULE, SIZES, tiles={"g_z": 2})
    assert launches(MODULE, SIZES, tiles={"g_z": 1})
    with pytest.raises(SizeError, match="size 'x' is not given"):
        launches(MODULE, {"q": 3})
    with pytest.raises(CatdiagError, match="total has no input 'B': its inputs are A, c"):
        launches(MODULE, SIZES, dtypes={"B": "float32"})
    with pytest.raises(CatdiagError, match="input 'A' has type 'bf16': expected torch's name"):
        launches(MODULE, SIZES, dtypes={"A": "bf16"})
    row = replace(MODULE, inputs=(replace(MODULE.inputs[0], ty=MODULE.outputs[0].ty), MODULE.inputs[1]))
    with pytest.raises(CatdiagError, match="refuses its arguments: A has 1 axes, expected 2: q x"):
        launches(row, SIZES)
    none = replace(MODULE, text=TEXT.replace("    total_kernel[", "    return out\n    total_kernel["))
    with pytest.raises(CatdiagError, match="total launches no kernel"):
        launches(none, SIZES)
    wrong = replace(MODULE, text=TEXT.replace("tl.sum(block", "tl.no_such(block"))
    with pytest.raises(CatdiagError, match="does not compile total_kernel"):
        binaries(wrong, SIZES)


def test_an_input_that_is_whole_is_no_one() -> None:
    whole = replace(
        MODULE, inputs=(MODULE.inputs[0], Argument("c", replace(MODULE.inputs[1].ty, element="int"), "int64"))
    )
    (launch,) = launches(whole, SIZES)
    assert launch.arguments["c"] == 1000
    (launch,) = launches(whole, {**SIZES, "c": 7})
    assert launch.arguments["c"] == 7


def test_a_matrix_whose_columns_are_two_axes_is_compiled() -> None:
    near = cd.algorithm("q d, x y d -> q x y", name="near")(lambda A, B: cd.exp(cd.einsum("q d, x y d -> q x y", A, B)))
    made = compiled_of(near.group("q x y").diagram, near, {"g_q": 64, "g_x": 64, "g_y": 2}, warps=4, stages=3)
    (code,) = made.binaries({"q": 256, "x": 64, "y": 64, "d": 64})
    assert code.shared_bytes < 227 * 1024


def test_rows_of_one_query_are_not_filled_up() -> None:
    rows = cd.algorithm("h q d, x d -> h q x", name="rows")(lambda A, B: cd.exp(cd.einsum("h q d, x d -> h q x", A, B)))
    made = compiled_of(rows.group("x").diagram, rows, {"g_x": 64}, warps=4)
    (code,) = made.binaries({"h": 128, "q": 1, "x": 4096, "d": 256})
    assert code.shared_bytes < 227 * 1024 and not code.spills


def test_an_input_may_be_called_as_an_axis_is() -> None:
    scaled = cd.algorithm("b x, b -> b x", name="scaled")(lambda A, b: A * b)
    kernel = compiled_of(scaled.group("b x").diagram, scaled, {"g_b": 1, "g_x": 64})
    assert [launch.grid for launch in kernel.launches({"b": 3, "x": 128})] == [(6, 1, 1)]


@pytest.mark.parametrize(("columns", "warps"), [(64, 16), (256, 8)])
def test_where_blocks_cannot_be_copied_twelve_warps_become_a_power_of_two(columns: int, warps: int) -> None:
    form = cd.library.get("multi_head_attention").stream("x").group("b h q").diagram
    made = module(form, {"g_b": 1, "g_h": 1, "g_q": 192, "s_x": 128}, "bf16", stages=3, warps=12, specialized=True)
    plain = replace(made, text=made.text.replace("specialized=True", "specialized=False"))
    (code,) = binaries(plain, {"b": 1, "h": 2, "q": 1000, "x": 900, "d": columns}, stages=3 if columns < 128 else 1)
    assert code.kernel in made.kernels and code.threads == 32 * warps
    assert code.shared_bytes <= 232448
