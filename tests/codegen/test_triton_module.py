"""Triton modules by their text: what is a kernel, where loads, loops, masks and stores stand, and what is refused."""

from __future__ import annotations

import ast
import functools
import math
import re

import pytest

import catdiag as cd
from catdiag import library
from catdiag.category.diagram import of_graph
from catdiag.category.types import BYTES
from catdiag.codegen.triton.launch_checks import BOXED
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.abstract_interpreter.tile_values import Pointer
from catdiag.runtime.launch_recorder import record_launches
from catdiag.runtime.machine_code import ArrayArgument, binaries
from catdiag.util.errors import CatdiagError, SizeError, TypeMismatch
from tests.forms import unproved


def body(made: Module, n: int = 0) -> str:
    """The text of a kernel."""
    tree = ast.parse(made.text)
    found = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
    return ast.get_source_segment(made.text, found[made.kernels[n]]) or ""


def attention() -> cd.Derivation:
    return library.get("multi_head_attention").stream("x").group("b h q")


TILES = {"g_b": 1, "g_h": 1, "g_q": 64, "s_x": 64}


@pytest.fixture(scope="module")
def flash() -> Module:
    return module(attention().diagram, TILES, "bf16", stages=3)


def test_it_is_python_that_stands_alone(flash: Module) -> None:
    compile(flash.text, "kernel.py", "exec")
    imports = {line for line in flash.text.splitlines() if re.match(r"(import|from) ", line)}
    assert imports == {
        "import functools",
        "import math",
        "import torch",
        "import triton",
        "import triton.language as tl",
        "from triton.tools.tensor_descriptor import TensorDescriptor",
    }
    assert "def multi_head_attention(Q, K, V, *, g_q=64, s_x=64, num_warps=4, num_stages=3" in flash.text


def test_products_have_the_rows_of_the_tile_and_the_columns_of_the_loop() -> None:
    turned = cd.algorithm("q d, x d, q v -> x v")(
        lambda Q, K, G: cd.einsum("q x, q v -> x v", cd.exp(cd.einsum("q d, x d -> q x", Q, K)), G)
    )
    text = body(module(turned.stream("q").group("x").diagram, {"g_x": 64, "s_q": 64}, "bf16"))
    assert "tl.dot(K_tile, _transposed(Q_tile" in text and text.count("_transposed(") == 1  # the weights are not turned


def test_no_title_ends_a_docstring() -> None:
    total = cd.algorithm("q x -> q", name="total")(lambda A: cd.sum(A, "x")).stream("x").group("q").diagram
    total.title = 'total"""\nraise SystemExit\n"""\\'
    text = module(total, {"g_q": 16, "s_x": 16}).text
    assert not any(line.startswith("raise SystemExit") for line in text.splitlines())
    compile(text, "kernel.py", "exec")


@pytest.mark.parametrize("title", ["lambda", "torch", "_load"])
def test_a_function_is_called_as_nothing_else_is(title: str) -> None:
    total = cd.algorithm("q x -> q", name="total")(lambda A: cd.sum(A, "x")).stream("x").group("q").diagram
    total.title = title
    made = module(total, {"g_q": 16, "s_x": 16})
    assert made.entry == f"{title}_2"
    compile(made.text, "kernel.py", "exec")


def test_the_same_diagram_is_the_same_text(flash: Module) -> None:
    assert module(attention().diagram, TILES, "bf16", stages=3).text == flash.text


def test_rows_are_loaded_before_the_loop_and_blocks_inside(flash: Module) -> None:
    text = body(flash)
    before, inside = text.split("for x0 in tl.range(", 1)
    assert "Q_blocks.load" in before
    assert not re.search(r"[KV]_blocks.load", before)
    assert "K_blocks.load" in inside
    assert "V_blocks.load" in inside
    assert "Q_blocks.load" not in inside


def test_products_are_of_matrix_units_and_exponentials_in_base_two(flash: Module) -> None:
    text = body(flash)
    assert text.count("tl.dot(") + text.count("_dot_of_registers(") == 2
    assert "tl.exp(" not in text
    assert text.count("tl.exp2(") == 2
    assert re.search(r"sum3 = (?:tl\.dot|_dot_of_registers)\(\w+\.to\(V\.dtype\.element_ty\), V_tile, sum3 \* ", text)


def test_one_mask_is_enough_and_only_at_the_end(flash: Module) -> None:
    """Scores beyond the end are minus infinity, so that their exponentials need no mask."""
    text = body(flash)
    assert text.count("tl.where(") == 1
    assert "tl.static_range(1 if even_x else 2)" in text


def test_rows_are_held_beside_none_of_their_length(flash: Module) -> None:
    """ptxas gives two left factors of one shape the same registers."""
    assert ", in_registers and d_block != s_x)" in body(flash)
    assert "in_registers=False" in flash.text


def test_lines_say_which_box_they_are_of(flash: Module) -> None:
    assert "# einsum [b h q x]" in body(flash)
    assert "# max1[b h q]" in body(flash)
    assert not re.search(r"#.*/\w+/", flash.text)  # no path of a machine


def test_masks_are_asked_at_the_edges_only() -> None:
    made = module(unproved(library.get("causal_attention").diagram, "x", "q", skips="x"), {"g_q": 64, "s_x": 32})
    text = body(made)
    assert "# the longest loops first" in text
    assert "tl.static_range(2)" in text
    inside = text.split("for x0 in tl.range(", 1)[1]
    lines = inside.splitlines()
    for n, line in enumerate(lines):
        if "tl.where(" in line:
            assert "if not (phase == 0" in " ".join(lines[n - 2 : n])


@pytest.mark.parametrize(("mebibytes", "entries"), [(60, 2**24), (40, 11_184_810), (4, 1_118_481)])
def test_the_longest_loops_begin_first_among_what_the_chips_l2_holds(mebibytes: int, entries: int) -> None:
    """Of 8 of 15 bytes: as it was tried on an H200, which has 60 MiB."""
    heads = library.get("causal_attention").weave("h", ["Q", "K", "V"]).diagram
    form = unproved(heads, "x", "h q", skips="x")
    text = body(module(form, {"g_h": 1, "g_q": 64, "s_x": 32}, l2_bytes=mebibytes * 2**20))
    assert f"{entries} // x // (d + d)" in text


def test_a_window_has_an_edge_on_each_side() -> None:
    form = unproved(library.get("sliding_window_attention").diagram, "x", "q", skips="x")
    text = body(module(form, {"g_q": 64, "s_x": 32}))
    assert "tl.static_range(3)" in text
    assert "if not (phase == 1):" in text


def test_what_data_decides_is_asked_of_each_block() -> None:
    form = unproved(library.get("masked_attention").diagram, "x", "q", skips="x")
    assert "# unless a mask empties the block" in body(module(form, {"g_q": 64, "s_x": 32}))


def test_a_loop_in_parts_is_two_kernels() -> None:
    form = unproved(library.get("decoding_attention").diagram, "x", "b k r", parts="x")
    made = module(form, {"g_b": 1, "g_k": 1, "g_r": 4, "s_x": 64, "p_x": 8})
    assert len(made.kernels) == 2
    assert "max1_p_parts" in body(made, 0)
    assert "tl.store(out" not in body(made, 0)
    assert "for part_at in tl.range" in body(made, 1)
    assert "p_x=8" in made.text
    assert "_powers(g_r=g_r, s_x=s_x)" in made.text


def test_a_block_that_two_kinds_of_work_read_is_loaded_for_each() -> None:
    made = module(unproved(library.get("l2_norm_linear").diagram, "d", "t o"), {"g_t": 64, "g_o": 64, "s_d": 32})
    text = body(made)
    assert text.count("X_tile_2 = ") == 2  # by descriptor, or by pointer
    assert 'eviction_policy="evict_last"' in text
    assert "tl.dot(X_tile_2, W_tile, sum2)" in text


@pytest.mark.parametrize("names", [("X", "W", "b"), ("o", "x", "d"), ("out", "tma", "pid"), ("g_x", "tl", "num_warps")])
def test_inputs_may_be_called_as_axes_and_options_are(names: tuple[str, str, str]) -> None:
    product = cd.algorithm("b x d, o d, b -> b x o", name="product")(
        lambda X, W, b: cd.einsum("b x d, o d -> b x o", X, W) * b
    )
    program = of_graph(product.diagram.graph, product.cod, names, "product")
    made = module(unproved(program, "d", "b x o"), {"g_b": 1, "g_x": 64, "g_o": 64, "s_d": 64})
    assert tuple(a.name for a in made.inputs) == names
    for function in (f for f in ast.parse(made.text).body if isinstance(f, ast.FunctionDef)):
        arguments = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
        assert len(set(arguments)) == len(arguments)
        given = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        told = ("tl.cast({0}, tl.int64)", "{0} // 8 * 8")  # strides and lengths, as longer numbers or multiples
        given -= {n for n in given if any(f"        {n} = {text.format(n)}\n" in made.text for text in told)}
        assert not given & set(arguments) or function.name == "product"  # out, where none is given


def test_warps_are_one_number_or_one_for_each_group() -> None:
    with pytest.raises(CatdiagError, match=r"warps are \(4, 8\): expected one number, or one for each of 1 groups"):
        module(attention().diagram, TILES, warps=(4, 8))


def test_types_by_name_and_results() -> None:
    form = unproved(library.get("attention_with_log_sum_exp").diagram, "x", "q")
    made = module(form, {"g_q": 64, "s_x": 64}, {"Q": "fp16", "K": "fp16", "*": "bf16"})
    assert [a.dtype for a in made.inputs] == ["float16", "float16", "bfloat16"]
    assert [a.dtype for a in made.outputs] == ["bfloat16", "float32"]


def test_an_axis_of_a_fixed_size_is_as_long_as_it_is() -> None:
    pairs = cd.algorithm("q (2 r), x (2 r) -> q x", name="pairs")(
        lambda A, B: cd.einsum(
            "q 2 r, x 2 r -> q x", cd.exp(cd.rearrange(A, "q (2 r) -> q 2 r")), cd.rearrange(B, "x (2 r) -> x 2 r")
        )
    )
    text = body(module(pairs.group("q x").diagram, {"g_q": 32, "g_x": 32}, "bf16"))
    assert "tl.arange(0, 2)" in text and "tl.arange(0, 16)" not in text
    assert "_transposed(tl.reshape(" in text and "(g_x, 2 * r_block))" in text, "a matrix is transposed when it is one"


def test_the_sizes_of_a_merged_axis_are_in_one_order() -> None:
    # In the order of a set they were as the hash seed had it.
    assert "c: tl.constexpr, k: tl.constexpr" in module(library.get("im2col").diagram, {}).text


def test_only_sides_of_products_have_a_least_length() -> None:
    score = cd.algorithm("h q d, x d -> h q x", name="score")(
        lambda A, B: cd.exp(cd.einsum("h q d, x d -> h q x", A, B))
    )
    text = module(score.group("x").diagram, {"g_x": 64}, "bf16").text
    assert "d_block = _block(d)" in text, "what is summed over"
    assert "q_block = _power(q)" in text and "h_block = _power(h)" in text


def test_a_sum_has_the_order_of_its_axes_where_the_product_has_another() -> None:
    late = cd.algorithm("n q d, m x d -> n m", name="late")(
        lambda A, B: cd.sum(cd.max(cd.einsum("n q d, m x d -> n m q x", A, B), "x"), "q")
    )
    text = body(module(unproved(late.diagram, "d", "n m"), {"g_n": 4, "g_m": 2, "s_d": 32}, "bf16"))
    assert "sum1 = tl.permute(" in text


def test_a_number_is_an_argument() -> None:
    form = unproved(library.get("soft_capped_attention").diagram, "x", "q")
    made = module(form, {"g_q": 64, "s_x": 64})
    assert "def soft_capped_attention(Q, K, V, cap, *" in made.text
    assert "_tanh(" in body(made)


class TestRefusals:
    def test_a_tile_that_is_missing(self) -> None:
        with pytest.raises(SizeError, match=r"the length of s_x, a tile of axis x, is missing: expected all of g_b"):
            module(attention().diagram, {"g_b": 1, "g_h": 1, "g_q": 64})

    @pytest.mark.parametrize("size", [0, -4, 2.5, True, "64"])
    def test_a_tile_that_is_none(self, size: object) -> None:
        with pytest.raises(SizeError, match=r"s_x is .*: expected a positive number of entries of axis x"):
            module(attention().diagram, {**TILES, "s_x": size})  # type: ignore[dict-item]

    def test_an_unknown_type(self) -> None:
        with pytest.raises(CatdiagError, match="unknown dtype 'int4': expected one of"):
            module(attention().diagram, TILES, "int4")

    def test_a_function_that_is_known_by_name_only(self) -> None:
        own = cd.algorithm("q x -> q", name="own")(lambda A: cd.sum(cd.apply("f", A), "x"))
        refusal = r"f cannot be part of a kernel: the function f has a name and no definition"
        with pytest.raises(TypeMismatch, match=refusal):
            module(unproved(own.diagram, "x", "q"), {"g_q": 16, "s_x": 16})


def test_a_launch_asks_for_each_stride_once_and_divides_as_python_does() -> None:
    made = module(unproved(library.get("decoding_attention").diagram, "x", "b k r", parts="x"),
                  {"g_b": 1, "g_k": 1, "g_r": 16, "s_x": 64, "p_x": 2})  # fmt: skip
    launch = made.text.split(f"def {made.entry}(")[1]
    assert "triton." not in launch  # its functions for whole numbers are ten times as slow
    assert "Q_b, Q_k, Q_r, Q_d = Q.stride()" in launch
    assert ".stride(0)" not in launch
    assert launch.count("_block(d)") == 1


def test_names_of_a_launch_are_nobody_elses() -> None:
    # An input may be called as the stride of another, or as the length of a block.
    ab = cd.algorithm("q d, x d, q x -> q d", name="ab")(
        lambda A, A_q, d_block: cd.einsum("q x, x d -> q d", cd.einsum("q d, x d -> q x", A, A_q) + d_block, A_q)
    )
    made = module(unproved(ab.diagram, "x", "q"), {"g_q": 16, "s_x": 16})
    sizes = {"q": 40, "d": 24, "x": 30}
    (launch,) = record_launches(made, sizes)
    assert isinstance(launch.arguments["A_q"], ArrayArgument)
    assert launch.arguments["A_q"].shape == (30, 24)
    assert isinstance(launch.arguments["d_block"], ArrayArgument)
    assert launch.arguments["d_block"].shape == (40, 30)
    given = [value for name, value in launch.arguments.items() if name.startswith(("A_q_", "A_d"))]
    assert 24 in given and 1 in given


def test_products_of_few_rows_may_have_all_registers() -> None:
    product = module(unproved(library.get("matmul").diagram, "b", "a c"), {"g_a": 16, "g_c": 64, "s_b": 32})
    sizes = {"a": 64, "b": 64, "c": 64}
    (launch,) = record_launches(product, sizes, {"num_warps": 16})
    assert launch.options["maxnreg"] == 65536 // (32 * 16)
    (launch,) = record_launches(product, sizes, {"g_a": 64})
    assert "maxnreg" not in launch.options


def test_arrays_that_are_read_often_are_copied_so_that_boxes_can_be_read() -> None:
    made = module(attention().diagram, TILES)
    for d, row in ((100, 104), (99, 104), (104, 104)):
        (launch,) = record_launches(made, {"b": 2, "h": 3, "q": 300, "x": 200, "d": d})
        assert all(launch.arguments[f"{name}_blocks"] is not None for name in "QKV")
        assert [launch.arguments[name] for name in ("Q_q", "K_x", "V_x", "out_q")] == [row, row, row, d]
    # Each key is read once: it would be copied for nothing.
    once = module(unproved(library.get("decoding_attention").diagram, "x", "b k r", parts="x"),
                  {"g_b": 1, "g_k": 1, "g_r": 16, "s_x": 64, "p_x": 2})  # fmt: skip
    launch, _ = record_launches(once, {"b": 2, "k": 3, "r": 4, "x": 200, "d": 100})
    assert all(launch.arguments[f"{name}_blocks"] is None for name in ("K", "V"))
    assert launch.arguments["K_x"] == 100


@cd.algorithm("q d, x d, x -> q d")
def weighted(Q, K, L):
    return cd.einsum("q x, x d -> q d", cd.exp(cd.einsum("q d, x d -> q x", Q, K) - L), K)


@pytest.mark.parametrize("kind", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("block", [16, 32, 64, 128])
def test_each_buffer_of_boxes_begins_at_a_multiple_of_128_bytes(block: int, stages: int, kind: str) -> None:
    made = module(unproved(weighted.diagram, "x", "q"), {"g_q": 64, "s_x": block},
                  {"Q": "bf16", "K": "bf16", "L": kind}, stages=stages)  # fmt: skip
    (launch,) = record_launches(made, {"q": 64, "x": 1024, "d": 64})
    boxes = {n: v for n, v in launch.arguments.items() if isinstance(v, Pointer)}
    assert all(math.prod(b.block) * BYTES[kind if n == "L_blocks" else "bf16"] % 128 == 0 for n, b in boxes.items())
    # What is too short is read by addresses, and nothing beside it.
    assert ("L_blocks" in boxes) == (block * BYTES[kind] >= 128) and "K_blocks" in boxes


@pytest.mark.triton
def test_copies_are_of_the_same_entries() -> None:
    torch = pytest.importorskip("torch")
    names = {"torch": torch, "functools": functools, "math": math, "TensorDescriptor": object}
    exec(BOXED, names)
    names["_copies"] = lambda device: True  # as on a GPU
    aligned = names["_aligned"]
    odd, even = torch.randn(3, 50, 99).to(torch.bfloat16), torch.randn(40, 64)
    first, second = aligned((odd, 4), (even, 1))
    assert torch.equal(first, odd) and first.stride() == (50 * 104, 104, 1) and first.data_ptr() % 16 == 0
    assert second is even
    moved = torch.randn(50, 64).view(-1)[1:3137].view(49, 64)
    assert torch.equal(aligned((moved, 2))[0], moved) and aligned((moved, 2))[0].data_ptr() % 16 == 0
    for kept, often in (
        (odd, 1),  # read once
        (even, 9),
        (torch.randn(99, 50).T, 9),  # columns, which boxes are not read of
        (torch.randn(1, 99).expand(70, 99), 9),  # a copy would be longer
        (torch.randn(0, 99), 9),
    ):
        assert aligned((kept, often))[0] is kept


@pytest.mark.parametrize("name", ["q0", "q_tile", "x_tile", "q_at"])
def test_an_array_may_have_the_name_of_a_tiles_start(name: str) -> None:
    program = cd.algorithm("q x d -> q x", name="peaks")(eval(f"lambda {name}: cd.sum({name}, 'd')", {"cd": cd}))
    for tiles in ({"g_q": 64, "g_x": 64}, {"g_q": 1, "g_x": 64}):
        text = module(program.group("q x"), tiles, "fp32").text
        (kernel,) = (n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "_peaks")
        bound = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        read = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        parameters = {a.arg for a in kernel.args.args}
        assert name in parameters and name not in bound
        assert read <= bound | parameters | {n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)} | {
            "tl", "triton", "float", "range",
        }  # fmt: skip


@pytest.mark.parametrize(("x", "together"), [(1024, 6), (2**16, 2), (2**18, 1)])
def test_the_longest_loops_come_first_among_programs_whose_loads_the_l2_holds(x: int, together: int) -> None:
    program = cd.library.get("causal_attention").weave("h", ["Q", "K", "V"]).weave("b", ["Q", "K", "V"])
    tiles = {"g_b": 1, "g_h": 1, "g_q": 64, "s_x": 64}
    made = module(unproved(program.diagram, "x", "b h q", skips="x"), tiles, "bf16")
    lines = [line.strip() for line in made.text.splitlines() if re.match(r"    (pid|b_at|h_at|q0)\w* = ", line)]
    at: list[tuple[int, int, int]] = []
    for number in range(6 * 4):
        known = {"pid": number, "b": 2, "h": 3, "q": 250, "x": x, "d": 64, "g_q": 64, "tl": Scalars}
        exec("\n".join(lines[1:]), known)
        at.append((known["b_at"], known["h_at"], known["q0"] // 64))
    assert len(set(at)) == 24
    assert [tile for _, _, tile in at[: 4 * together]] == [t for t in (3, 2, 1, 0) for _ in range(together)]


class Scalars:
    """Functions of Triton's on integers."""

    maximum, minimum = max, min

    @staticmethod
    def cdiv(a: int, b: int) -> int:
        return -(-a // b)


@cd.algorithm("t d -> t")
def read_twice(X):
    total = cd.sum(X, "d")
    return total * cd.exp(total)


@pytest.mark.parametrize(("kind", "once"), [("fp32", 1), ("bf16", 0)])
def test_sums_of_loaded_rows_are_read_once_after_a_loop(kind: str, once: int) -> None:
    made = module(read_twice.stream("d").group("t").diagram, {"g_t": 4, "s_d": 512}, kind, warps=4, stages=1)
    assert made.text.count("sum1 = sum1 + 0.0") == once


@pytest.mark.triton
def test_sums_of_loaded_rows_compile() -> None:
    made = module(read_twice.stream("d").group("t").diagram, {"g_t": 4, "s_d": 512}, "fp32", warps=4, stages=1)
    assert not binaries(made, {"t": 1024, "d": 4096})[0].spills


def test_only_tiles_that_share_blocks_both_ways_are_swizzled() -> None:
    tiles = {"g_i": 64, "g_j": 64}
    exchanged = cd.algorithm("i j -> j i", name="exchanged")(lambda X: cd.einsum("i j -> j i", X))
    biased = cd.algorithm("i j, j -> i j", name="biased")(lambda X, b: X + b)
    for program in (exchanged, biased):
        assert "swizzle2d" not in module(program.group("i j"), tiles, "fp16").text
    product = cd.algorithm("i k, k j -> i j", name="product")(lambda X, Y: cd.einsum("i k, k j -> i j", X, Y))
    assert "swizzle2d" in module(product.stream("k").group("i j"), {**tiles, "s_k": 32}, "fp16").text
