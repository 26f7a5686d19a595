"""Kernels whose loads are apart: which programs have that form, and what their text says."""

import ast

import pytest

import catdiag as cd
from catdiag import library
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.abstract_interpreter.shared_memory import shared_of_launch
from catdiag.runtime.launch_recorder import record_launches
from examples.backward_passes import attention_dkv
from tests.forms import unproved

TILES = {"g_b": 1, "g_h": 1, "g_q": 128, "s_x": 128}


def attention() -> cd.category.Diagram:
    return unproved(library.get("multi_head_attention").diagram, "x", "b h q")


def written(diagram: cd.category.Diagram, tiles: dict[str, int], **options: object) -> Module:
    return module(diagram, tiles, "bf16", stages=2, warps=8, specialized=True, **options)  # type: ignore[arg-type]


def functions(text: str) -> dict[str, ast.FunctionDef]:
    return {n.name: n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)}


def test_what_loads_and_what_computes_are_functions_of_their_own() -> None:
    made = written(attention(), TILES)
    found = functions(made.text)
    assert made.specialized == ("_multi_head_attention_specialized",)
    loads, rows = (ast.unparse(found[f"_multi_head_attention_{n}"]) for n in ("loads", "rows"))
    assert loads.count("async_copy_global_to_shared") == 3 and "warpgroup_mma" not in loads
    assert "async_copy" not in rows and "gl.store" in rows and "gl.store" not in loads


def test_a_product_goes_on_while_the_next_block_is_computed() -> None:
    rows = ast.unparse(functions(written(attention(), TILES).text)["_multi_head_attention_rows"])
    turn = rows[rows.index("for x0 in range") :]
    begun = turn.index("sum3_next = hopper.warpgroup_mma")
    ended = turn.index("hopper.warpgroup_mma_wait(0, deps=[sum3_next])")
    assert begun < turn.index("gl.exp2") < ended


def test_a_block_of_two_products_is_copied_once_and_what_no_product_reads_is_loaded_before_a_wait() -> None:
    made = written(unproved(attention_dkv.diagram, "q", "h x"), {"g_h": 1, "g_x": 128, "s_q": 64})
    assert made.reused_blocks == (True,) and written(attention(), TILES).reused_blocks == (False,)
    loads, rows = (ast.unparse(functions(made.text)[f"_attention_dkv_{n}"]) for n in ("loads", "rows"))
    assert loads.count("async_copy_global_to_shared") == 4  # K, V, Q, dO
    iteration = rows[rows.index("for q0 in range") :]
    assert iteration.index("D_tile = ") < iteration.index("hopper.mbarrier.wait")


def test_the_launch_takes_it_where_it_can() -> None:
    launch = ast.unparse(functions(written(attention(), TILES).text)["multi_head_attention"])
    assert "specialized=True" in launch
    assert launch.index("_multi_head_attention_specialized[") < launch.index("_multi_head_attention[")


def test_nothing_changes_unless_it_is_asked_for() -> None:
    plain = module(attention(), TILES, "bf16", stages=2, warps=8)
    assert plain.specialized == () and "gluon" not in plain.text


@pytest.mark.parametrize(
    ("name", "stream", "group", "tiles"),
    [
        ("matmul", "b", "a c", {"g_a": 128, "g_c": 128, "s_b": 64}),  # rows and columns are both tiles
        ("log_sum_exp", "x", "q", {"g_q": 128, "s_x": 128}),  # no product of matrices
        ("rms_norm_linear", "d", "t o", {"g_t": 128, "g_o": 128, "s_d": 64}),
    ],
)
def test_other_loops_keep_their_one_form(name: str, stream: str, group: str, tiles: dict[str, int]) -> None:
    made = written(unproved(library.get(name).diagram, stream, group), tiles)
    assert made.specialized == () and "gluon" not in made.text


@pytest.mark.parametrize("dtype", ["fp32", "fp8"])
def test_matrix_units_are_given_16_bits(dtype: str) -> None:
    assert module(attention(), TILES, dtype, stages=2, warps=8, specialized=True).specialized == ()


def test_a_sum_of_values_has_that_form_without_a_maximum() -> None:
    @cd.algorithm("q d, x d, x d -> q d")
    def sums(Q, K, V):  # type: ignore[no-untyped-def]
        S = cd.einsum("q d, x d -> q x", Q, K)
        return cd.einsum("q x, x d -> q d", S * S, V)

    made = written(unproved(sums.diagram, "x", "q"), {"g_q": 128, "s_x": 64})
    assert made.specialized == ("_sums_specialized",)


def test_names_of_arrays_do_not_meet_those_of_the_text() -> None:
    @cd.algorithm("q d, x d, x d -> q d")
    def rows(turn, me, each):  # type: ignore[no-untyped-def]
        return cd.einsum("q x, x d -> q d", cd.softmax(cd.einsum("q d, x d -> q x", turn, me), "x"), each)

    made = written(unproved(rows.diagram, "x", "q"), {"g_q": 128, "s_x": 64})
    found = functions(made.text)["_rows_rows"]
    names = [a.arg for a in found.args.args]
    assert len(names) == len(set(names)) and "me_2" in names


def test_the_text_is_the_same_each_time() -> None:
    assert written(attention(), TILES).text == written(attention(), TILES).text


@pytest.mark.parametrize(("tiles", "warps", "kernel"), [(TILES, 8, "_specialized"), ({**TILES, "g_q": 64}, 8, "")])
def test_without_torch_its_launch_says_what_it_takes(tiles: dict[str, int], warps: int, kernel: str) -> None:
    made = written(attention(), tiles)
    sizes = {"b": 1, "h": 2, "q": 1024, "x": 1024, "d": 128}
    (launch,) = record_launches(made, sizes, {**made.tiles, "num_warps": warps, "num_stages": 2})
    assert launch.kernel == f"_multi_head_attention{kernel}"
    if kernel:  # the rows, two blocks of each of two arrays, and nine barriers
        assert shared_of_launch(made.code, launch).bytes == (128 + 4 * 128) * 128 * 2 + 9 * 8
