"""Shared memory read off the text of kernels, against what Triton's compiler takes."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import pytest

import catdiag as cd
from catdiag.chip import hardware
from catdiag.planner.emitted_module import write
from catdiag.runtime.abstract_interpreter.register_layouts import blocked_layout, conversion_bytes, product_layout
from catdiag.runtime.abstract_interpreter.shared_memory import Pointer, shared_memory
from catdiag.util.errors import CatdiagError
from tests.forms import form, unproved
from tests.runtime.by_hand import TEXT

TENSORS = {
    "cascade": "QKVO", "turned": "QKO", "biased": "QKVBO", "product": "ABC", "nested": "XWO", "covariance": "XO",
    "logarithm": "XO",
}  # fmt: skip
NEAR = 1024
"""Bytes within which it must be right."""

COMPILED = [
    # kernel, type, constants, warps, stages, Triton 3.6's metadata.shared for compute capability 9.0
    ("cascade", "bf16", {"d": 128, "g_q": 128, "s_x": 128, "scaled": False}, 4, 2, 163840),
    ("cascade", "bf16", {"d": 128, "g_q": 128, "s_x": 64, "scaled": False}, 8, 3, 131072),
    ("cascade", "bf16", {"d": 64, "g_q": 64, "s_x": 64, "scaled": False}, 4, 1, 16384),
    ("cascade", "bf16", {"d": 64, "g_q": 128, "s_x": 32, "scaled": True}, 4, 2, 32768),
    ("cascade", "fp16", {"d": 256, "g_q": 64, "s_x": 64, "scaled": False}, 4, 2, 163840),
    ("cascade", "fp8", {"d": 128, "g_q": 128, "s_x": 64, "scaled": False}, 4, 2, 40960),
    ("cascade", "fp32", {"d": 64, "g_q": 64, "s_x": 64, "scaled": False}, 4, 2, 81920),
    ("cascade", "bf16", {"d": 128, "g_q": 16, "s_x": 64, "scaled": False}, 4, 3, 71680),
    ("cascade", "fp8", {"d": 64, "g_q": 16, "s_x": 64, "scaled": False}, 4, 3, 20480),
    ("cascade", "bf16", {"d": 32, "g_q": 64, "s_x": 32, "scaled": False}, 4, 4, 20480),
    # What one product reads, and another reads by way of a result that is turned, is read by products only.
    ("turned", "bf16", {"d": 128, "g_q": 64, "s_x": 64}, 4, 3, 73728),
    ("biased", "bf16", {"d": 64, "g_q": 128, "s_x": 32, "factor": True}, 4, 2, 40960),
    ("biased", "bf16", {"d": 64, "g_q": 128, "s_x": 32, "factor": False}, 4, 3, 45056),
    ("biased", "bf16", {"d": 64, "g_q": 16, "s_x": 32, "factor": True}, 4, 3, 21504),
    ("biased", "fp32", {"d": 64, "g_q": 64, "s_x": 32, "factor": True}, 4, 2, 57344),
    ("product", "bf16", {"g_a": 128, "g_c": 256, "s_b": 64, "normed": False}, 8, 3, 147456),
    ("product", "bf16", {"g_a": 128, "g_c": 128, "s_b": 32, "normed": True}, 4, 3, 40960),
    ("product", "bf16", {"g_a": 16, "g_c": 256, "s_b": 64, "normed": False}, 4, 3, 69632),
    ("product", "fp32", {"g_a": 64, "g_c": 64, "s_b": 32, "normed": True}, 4, 3, 40960),
    ("product", "fp8", {"g_a": 128, "g_c": 128, "s_b": 64, "normed": False}, 4, 3, 32768),
    ("product", "bf16", {"g_a": 128, "g_c": 256, "s_b": 16, "normed": False}, 4, 1, 16384),
    ("product", "bf16", {"g_a": 64, "g_c": 16, "s_b": 64, "normed": False}, 4, 3, 30720),
    ("nested", "bf16", {"g_t": 128, "s_v": 128, "s_k": 64}, 8, 3, 98304),
    ("nested", "bf16", {"g_t": 16, "s_v": 128, "s_k": 64}, 4, 2, 18432),
    ("nested", "fp8", {"g_t": 64, "s_v": 64, "s_k": 64}, 4, 3, 24576),
    ("covariance", "bf16", {"g_i": 64, "s_n": 64}, 4, 3, 33792),
    ("covariance", "fp32", {"g_i": 128, "s_n": 32}, 4, 2, 34816),
    ("logarithm", "bf16", {"g_m": 1, "s_n": 1024}, 4, 2, 16),
    ("logarithm", "bf16", {"g_m": 64, "s_n": 64}, 4, 2, 128),
]


def predicted(kernel: str, dtype: str, constants: dict[str, Any], warps: int, stages: int) -> int:
    pointers = {name: Pointer(dtype) for name in TENSORS[kernel]}
    return shared_memory(TEXT, kernel, {**pointers, **constants}, warps, stages).bytes


@pytest.mark.parametrize(("kernel", "dtype", "constants", "warps", "stages", "compiled"), COMPILED)
def test_it_is_what_the_compiler_took(
    kernel: str, dtype: str, constants: dict[str, Any], warps: int, stages: int, compiled: int
) -> None:
    assert abs(predicted(kernel, dtype, constants, warps, stages) - compiled) <= NEAR


BRANCHES = """
import triton
import triton.language as tl


@triton.jit
def product(A, B, C, n: tl.constexpr):
    i = tl.arange(0, n)
    at = i[:, None] * n + i[None, :]
    if A.dtype.element_ty == tl.float16:
        a, b = tl.load(A + at), tl.load(B + at)
        tl.store(C + at, tl.dot(a, b))
"""


@pytest.mark.parametrize(("dtype", "reads"), [("fp16", True), ("bf16", False)])
def test_a_kernel_may_compare_the_type_of_an_array_with_one_of_tritons(dtype: str, reads: bool) -> None:
    arrays = {name: Pointer(dtype) for name in "ABC"}
    assert (shared_memory(BRANCHES, "product", {**arrays, "n": 64}, 4, 2).bytes > 0) == reads


LONG = {"q": 1024, "x": 1024, "d": 64}
HEADS = {"q": 64, "h": 1024, "x": 64, "r": 1024, "c": 64}
NARROW = {"q": 64, "h": 64, "c": 80, "r": 16, "x": 1024}
WRITTEN = [
    # operator, streamed, grouped, tiles, sizes, stages, Triton 3.6's metadata.shared for compute capability 9.0
    # A factor from a descriptor stays while the loop runs where one product reads it; several read it from registers.
    ("attention", "x", "q", {"g_q": 16, "s_x": 128}, LONG, 3, 71712),
    ("attention", "x", "q", {"g_q": 16, "s_x": 128}, {**LONG, "x": 1000}, 3, 69664),
    ("differential_attention", "x", "q", {"g_q": 16, "s_x": 128}, {**LONG, "v": 64}, 2, 57384),
    ("document_attention", "x", "q", {"g_q": 16, "s_x": 128}, {"q": 8192, "x": 8192, "d": 128}, 3, 141344),
    # A factor that is narrowed in the loop, and made before it, is narrowed before it.
    ("rotary_attention", "x", "q", {"g_q": 16, "s_x": 16}, {"q": 1024, "x": 1024, "r": 64, "v": 64}, 3, 25168),
    # What a product was made of is not read again where the product is added to another.
    ("latent_attention", "r", "q h", {"g_q": 1, "g_h": 128, "s_r": 64}, HEADS, 3, 73752),
    # What an iteration loads twice it loads once.
    ("latent_attention", "x", "q h", {"g_q": 16, "g_h": 1, "s_x": 128}, NARROW, 3, 82464),
    ("latent_attention", "x", "q h", {"g_q": 128, "g_h": 1, "s_x": 32}, NARROW, 2, 55328),
]
TWICE = """
@triton.jit
def twice(A, B, C, n, sa: tl.constexpr, sb: tl.constexpr, g: tl.constexpr, s: tl.constexpr):
    i, k = tl.arange(0, g), tl.arange(0, s)
    first, other = tl.zeros((g, g), tl.float32), tl.zeros((g, g), tl.float32)
    for at in range(0, n, s):
        a = tl.load(A + i[:, None] * sa + (at + k)[None, :])
        b = tl.load(B + (at + k)[:, None] * sb + i[None, :])
        first = tl.dot(a, b, first)
        # between
        again = tl.load(B + (at + k)[:, None] * sb + i[None, :])
        other = tl.dot(a, again, other)
    tl.store(C + i[:, None] * sa + i[None, :], first + other)
"""


ROWS = {"q": 1024, "x": 1024, "d": 64}
MOMENTS = {"q": 1024, "v": 1024, "x": 1024}
POOL = {"c": 1024, "h": 64, "n": 1024, "w": 64, "x": 1024, "y": 1024}
AMONG_HEADS = """
@triton.jit
def kernel(Q, K, V, O, n, g: tl.constexpr, s: tl.constexpr, d: tl.constexpr):
    i, j = tl.arange(0, g), tl.arange(0, d)
    total = tl.zeros((g, d), tl.float32)
    q = Q.load([0, 0, 0]).reshape((g, d))
    for at in range(0, n, s):
        k = K.load([at, 0, 0]).reshape((s, d))
        scores = tl.exp2(tl.dot(q, tl.trans(k)))
        v = V.load([at, 0, 0]).reshape((s, d))
        total = tl.dot(scores.to(V.dtype), v, total)
    tl.store(O + i[:, None] * d + j[None, :], total)
"""


@pytest.mark.parametrize(
    ("dtype", "rows", "d", "stages", "compiled"),
    [("bf16", 64, 64, 2, 32800), ("bf16", 64, 128, 3, 98360), ("bf16", 16, 64, 3, 34848), ("fp32", 64, 64, 2, 65560),
     ("fp8", 64, 64, 3, 24624)],
)  # fmt: skip
def test_products_read_blocks_in_place_of_which_a_middle_axis_is_removed(
    dtype: str, rows: int, d: int, stages: int, compiled: int
) -> None:
    blocks = {name: Pointer(dtype, (length, 1, d)) for name, length in (("Q", rows), ("K", 64), ("V", 64))}
    given = {**blocks, "O": Pointer("fp32"), "g": rows, "s": 64, "d": d}
    found = shared_memory(AMONG_HEADS, "kernel", given, warps=4, stages=stages)
    assert compiled - 64 <= found.bytes <= compiled + 64


UNDER_A_CONDITION = """
@triton.jit
def kernel(A, B, C, n, wanted, g: tl.constexpr, s: tl.constexpr):
    i = tl.arange(0, g)
    total = tl.zeros((g, g), tl.float32)
    for at in range(0, n, s):
        if tl.load(wanted + at) != 0:
            a = A.load([0, at])
            b = B.load([at, 0])
            total = tl.dot(a, b, total)
    tl.store(C + i[:, None] * g + i[None, :], total)
"""


def test_nothing_is_prefetched_for_products_under_a_condition() -> None:
    blocks = {"A": Pointer("bf16", (128, 64)), "B": Pointer("bf16", (64, 128))}
    given = {**blocks, "C": Pointer("fp32"), "wanted": Pointer("int32"), "g": 128, "s": 64}
    found = shared_memory(UNDER_A_CONDITION, "kernel", given, warps=4, stages=3)
    assert 2 * 64 * 128 * 2 <= found.bytes <= 2 * 64 * 128 * 2 + 64  # Triton 3.6: 32776


CONVOLUTION = {"c": 1024, "k": 64, "n": 1024, "o": 1024, "x": 64, "y": 1024}
GATES = {"d": 1024, "f": 1024, "t": 1024}
NORMED = {"d": 1024, "o": 1024, "t": 1024}
LATENT = {"c": 64, "d": 1024, "h": 1024, "q": 64, "r": 64, "v": 64, "x": 64}
OF_CHIPS = [
    # chip, operator, streamed, grouped, tiles, sizes, warps, stages, Triton 3.6's metadata.shared
    # A factor that depends on a sum is not computed in the layout of its product's operand.
    ("H200", "info_nce", "j", "i", {"g_i": 16, "s_j": 256}, {"d": 64, "i": 1024, "j": 1024}, 8, 3, 100368),
    ("A100", "info_nce", "j", "i", {"g_i": 128, "s_j": 128}, {"d": 64, "i": 1024, "j": 1024}, 8, 3, 65536),
    # Sums of products of computed tiles are matrix products in three passes of tf32.
    ("H200", "softmax_moments", "x", "q v", {"g_q": 64, "g_v": 16, "s_x": 16}, MOMENTS, 4, 3, 16944),
    ("A100", "softmax_moments", "x", "q v", {"g_q": 128, "g_v": 16, "s_x": 16}, MOMENTS, 8, 3, 24576),
    # Tiles of three axes have the default layout, in which warps are along the axis that is summed.
    ("H200", "distance_attention", "x", "q", {"g_q": 16, "s_x": 16}, ROWS, 8, 3, 16416),
    # Axes of one entry come first in blocks, which products read where they lie.
    ("H200", "multi_query_attention", "x", "b h q", {"g_b": 1, "g_h": 64, "g_q": 1, "s_x": 128},
     {**ROWS, "b": 1024, "h": 1024}, 4, 2, 73760),
    # Lanes and warps go along the first axis next to the contiguous one, where loads are by addresses.
    ("A100", "average_pool", "j", "n y x c", {"g_n": 1, "g_y": 1, "g_x": 2, "g_c": 512, "s_j": 2}, POOL, 4, 1,
     16384),
    # A factor that is computed of a load outside loops passes through shared memory beside the other one.
    ("A100", "linear_attention_by_state", "x", "q v", {"g_q": 128, "g_v": 128, "s_x": 32}, {**MOMENTS, "d": 64}, 8, 3,
     32768),
    # Where several products of a loop divide rows alike, what one makes is read from registers by the next.
    ("A100", "attention", "x", "q", {"g_q": 128, "s_x": 128}, ROWS, 8, 3, 81920),
    ("A100", "attention", "x", "q", {"g_q": 16, "s_x": 128}, ROWS, 4, 3, 71680),
    # Loads whose axes are exchanged, others than the last two of a matrix, are converted from registers to registers.
    ("A100", "conv1d", "c", "n y o", {"g_n": 128, "g_y": 1, "g_o": 64, "s_c": 1}, CONVOLUTION, 8, 3, 32768),
    ("A100", "conv1d", "c", "n y o", {"g_n": 64, "g_y": 1, "g_o": 64, "s_c": 1}, CONVOLUTION, 8, 3, 24576),
    ("H200", "conv1d", "c", "n y o", {"g_n": 128, "g_y": 1, "g_o": 128, "s_c": 1}, CONVOLUTION, 8, 4, 81952),
    ("A100", "conv1d", "c", "n y o", {"g_n": 64, "g_y": 1, "g_o": 64, "s_c": 2}, CONVOLUTION, 8, 3, 65536),
    ("H200", "conv1d", "c", "n y o", {"g_n": 64, "g_y": 1, "g_o": 64, "s_c": 2}, CONVOLUTION, 8, 3, 81936),
    # Before Hopper, results of products are stored by 16 bytes on their way out.
    ("A100", "l2_norm_linear", "d", "t o", {"g_t": 128, "g_o": 128, "s_d": 16}, NORMED, 8, 2, 32768),
    # On Blackwell an iteration waits for a product whose result it reads, or one of whose factors others read too.
    ("B200", "rms_norm_gate_and_up", "d", "t f", {"g_t": 128, "g_f": 64, "s_d": 64}, GATES, 4, 3, 65864),
    ("B200", "random_feature_attention", "d", "q v", {"g_q": 16, "g_v": 512, "s_d": 128},
     {**MOMENTS, "d": 1024, "m": 64, "x": 64}, 4, 3, 73768),
    # There blocks that are not at the front are read from shared memory, ...
    ("B200", "multi_query_attention", "x", "b h q", {"g_b": 1, "g_h": 128, "g_q": 1, "s_x": 64},
     {**ROWS, "b": 1024, "h": 1024}, 4, 2, 49216),
    # ... and computed first factors lie in tensor memory.
    ("B200", "qk_norm_attention", "x", "q", {"g_q": 128, "s_x": 128}, ROWS, 4, 3, 98384),
    # A vector that is loaded with fewer neighbors a thread than the tile that it meets is converted.
    ("B200", "rotary_embedding", None, "x d", {"g_x": 1, "g_d": 512}, {"d": 1024, "x": 1024}, 4, 1, 1024),
    ("MI300X", "rotary_embedding", None, "x d", {"g_x": 1, "g_d": 1024}, {"d": 1024, "x": 1024}, 4, 1, 2048),
    # On AMD's chips what meets a product's result stays in registers, ...
    ("MI300X", "biased_attention", "x", "q", {"g_q": 16, "s_x": 128}, ROWS, 4, 2, 40960),
    ("MI300X", "relative_position_attention", "x", "q", {"g_q": 16, "s_x": 128}, {**ROWS, "r": 64}, 4, 2, 36864),
    # ... and what is read transposed and on more than one way; a factor has its place until the last loop begins.
    ("MI300X", "causal_linear_attention", "x", "q", {"g_q": 64, "s_x": 128}, {**ROWS, "v": 64}, 4, 2, 40960),
    ("MI300X", "linear_attention_by_state", "x", "q v", {"g_q": 64, "g_v": 64, "s_x": 64}, {**MOMENTS, "d": 64}, 4, 3,
     24576),
    # Two chained products of a loop with four stages have one buffer of each load.
    ("MI300X", "multi_head_latent_attention", "d", "h", {"g_h": 1, "s_d": 64}, LATENT, 4, 4, 24576),
]  # fmt: skip


@pytest.mark.parametrize(("chip", "name", "axis", "axes", "tiles", "sizes", "warps", "stages", "compiled"), OF_CHIPS)
def test_written_kernels_take_what_the_compiler_took_for_each_chip(
    chip: str, name: str, axis: str | None, axes: str, tiles: dict[str, int], sizes: dict[str, int], warps: int,
    stages: int, compiled: int,
) -> None:  # fmt: skip
    made = write(form(name, axis, axes), tiles, "bf16", stages, warps, False, hardware.get(chip), sizes)
    assert compiled - 64 <= made.largest.shared.bytes <= compiled + 64


OF_TYPES = [
    # chip, type, operator, streamed, grouped, tiles, sizes, warps, stages, Triton 3.6's metadata.shared
    # Products in three passes of tf32 read each factor in two parts.
    ("H200", "fp32", "matmul", "b", "a c", {"g_a": 64, "g_c": 128, "s_b": 64}, {"a": 1024, "b": 1024, "c": 1024}, 4, 3,
     163872),
    ("H200", "fp32", "qk_norm_attention", "x", "q", {"g_q": 16, "s_x": 32}, ROWS, 4, 3, 57376),
    ("H200", "fp32", "softmax_moments", "x", "q v", {"g_q": 64, "g_v": 16, "s_x": 16}, MOMENTS, 4, 3, 22560),
    # What mma reads in 8 bits and a descriptor loads before the loop is widened in registers.
    ("H200", "fp8", "attention", "x", "q", {"g_q": 16, "s_x": 256}, ROWS, 4, 3, 73760),
    # What a descriptor loads in 8 bits is stored again where its columns are contiguous, and prefetched too.
    ("H200", "fp8", "expert_mlps", "f", "e t", {"g_e": 1, "g_t": 64, "s_f": 256},
     {"d": 64, "e": 1024, "f": 1024, "o": 64, "t": 1024}, 4, 3, 102432),
    # If an mma follows the loop, a factor from before it is divided in the registers from which mma reads it.
    ("A100", "fp32", "lora", "r", "t", {"g_t": 16, "s_r": 32}, {"d": 64, "o": 64, "r": 1024, "t": 1024}, 4, 3, 36864),
    # What mma reads in parts goes to registers as soon as it is loaded.
    ("A100", "fp32", "latent_attention", "r", "q h", {"g_q": 1, "g_h": 16, "s_r": 32},
     {"c": 64, "h": 1024, "q": 1024, "r": 1024, "x": 64}, 4, 3, 20480),
    # A first factor that depends on sums is converted on its way to tensor memory.
    ("B200", "fp32", "softmax_moments", "x", "q v", {"g_q": 64, "g_v": 16, "s_x": 16}, MOMENTS, 4, 3, 16416),
]  # fmt: skip


@pytest.mark.parametrize(
    ("chip", "dtype", "name", "axis", "axes", "tiles", "sizes", "warps", "stages", "compiled"), OF_TYPES
)
def test_written_kernels_take_what_the_compiler_took_for_each_type(
    chip: str, dtype: str, name: str, axis: str, axes: str, tiles: dict[str, int], sizes: dict[str, int], warps: int,
    stages: int, compiled: int,
) -> None:  # fmt: skip
    made = write(form(name, axis, axes), tiles, dtype, stages, warps, False, hardware.get(chip), sizes)
    assert compiled - 64 <= made.largest.shared.bytes <= compiled + 64


def test_warps_exchange_what_one_product_makes_for_another_in_registers_whatever_its_width() -> None:
    """Triton 3.6's metadata.shared on an A100: K, V and the two parts of Q, and nothing for the parts of weights."""
    tiles = {"g_b": 1, "g_h": 1, "g_q": 64, "s_x": 32}
    sizes = {**ROWS, "b": 1024, "h": 1024}
    made = write(form("multi_head_attention", "x", "b h q"), tiles, "fp32", 2, 4, False, hardware.A100, sizes)
    assert made.largest.shared.bytes == 49152


@pytest.mark.parametrize(("name", "axis", "axes", "tiles", "sizes", "stages", "compiled"), WRITTEN)
def test_written_kernels_take_what_the_compiler_took(
    name: str, axis: str, axes: str, tiles: dict[str, int], sizes: dict[str, int], stages: int, compiled: int
) -> None:
    made = write(form(name, axis, axes), tiles, "bf16", stages, 4, False, hardware.H200, sizes)
    assert compiled <= made.largest.shared.bytes <= compiled + 64


def test_a_transposed_factor_from_before_the_loop_stays_while_it_runs() -> None:
    @cd.algorithm("b t d, a t, s a -> b s d", name="mixed")
    def mixed(X: Any, V: Any, W: Any) -> Any:
        hidden = cd.nn.gelu(cd.einsum("b t d, a t -> b d a", X, V))
        return cd.einsum("b d a, s a -> b s d", hidden, W)

    kernel = unproved(mixed.diagram, "a", "b s d")
    tiles, sizes = {"g_b": 1, "g_s": 256, "g_d": 64, "s_a": 32}, {"a": 256, "b": 32, "d": 512, "s": 196, "t": 196}
    made = write(kernel, tiles, "bf16", 3, 4, False, hardware.H200, sizes)
    assert 135192 <= made.largest.shared.bytes <= 135192 + 64  # Triton 3.6's metadata.shared for 9.0


@pytest.mark.parametrize(
    ("between", "buffers"), [("", 2), ("tl.store(C + i[:, None] * sa + i[None, :], first)", 3), ("at = at + s", 3)]
)
def test_equal_loads_share_a_buffer_unless_something_is_stored_between_them(between: str, buffers: int) -> None:
    given = {**{name: Pointer("bf16") for name in "ABC"}, "sa": 4096, "sb": 4096, "g": 64, "s": 64}
    found = shared_memory(TWICE.replace("# between", between), "twice", given, warps=4, stages=2)
    assert [b.bytes for b in found.buffers if "2 buffers" in b.what] == [2 * 64 * 64 * 2] * buffers


def test_the_buffers_are_named_and_add_up() -> None:
    arguments = {**{n: Pointer("bf16") for n in "QKVO"}, "d": 128, "g_q": 128, "s_x": 64, "scaled": False}
    found = shared_memory(TEXT, "cascade", arguments, warps=4, stages=2)
    assert sum(b.bytes for b in found.buffers) == found.bytes == 2 * 128 * (128 + 4 * 64)
    assert {b.what for b in found.buffers} == {"Q", "K, 2 buffers", "V, 2 buffers"}


def test_a_loop_says_its_own_stages() -> None:
    own = TEXT.replace("in range(0, x, s_x)", "in tl.range(0, x, s_x, num_stages=4)")
    arguments = {**{n: Pointer("bf16") for n in "QKVO"}, "d": 64, "g_q": 64, "s_x": 64, "scaled": False}
    assert shared_memory(own, "cascade", arguments, stages=2) == shared_memory(TEXT, "cascade", arguments, stages=4)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("tl.arange(0, d)", "tl.arange(0, q)", "this length is not known"),
        ("for first in range(0, x, s_x)", "for first in things", "expected a loop over range"),
        ("most = above", "most = lambda: above\n        most()", "expected a call of a function"),
        ("tl.dot(query, tl.trans(keys))", "tl.dot(query, keys)", "expected two tiles"),
        ("def cascade(", "def cascade((", "is not Python"),
        ("def cascade(", "def another(", "no kernel 'cascade'"),
    ],
)
def test_what_is_not_understood_is_said(old: str, new: str, why: str) -> None:
    arguments = {**{n: Pointer("bf16") for n in "QKVO"}, "d": 128, "g_q": 128, "s_x": 64, "scaled": False}
    with pytest.raises(CatdiagError, match=why):
        shared_memory(TEXT.replace(old, new), "cascade", arguments)


def test_one_layout_into_itself_takes_least() -> None:
    """The more register steps two layouts have in common, the less a turn takes."""
    made = product_layout((128, 128), 4, 3)
    sizes = [conversion_bytes((128, 128), 2, made, blocked_layout((128, 128), 1, v, 4)) for v in (8, 4, 2)]
    assert conversion_bytes((128, 128), 2, made, made) < min(sizes) <= max(sizes) <= 128 * 128 * 2


# -- with Triton -----------------------------------------------------------------------------------------------------


def compiled_kernels(folder: Path) -> Any:
    path = folder / "by_hand_kernels.py"
    path.write_text(TEXT, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("by_hand_kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(kernel: Any, dtype: str, constants: dict[str, Any], warps: int, stages: int) -> int:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kind = {"bf16": "*bf16", "fp16": "*fp16", "fp32": "*fp32", "fp8": "*fp8e4nv"}[dtype]
    tensors = TENSORS[kernel.fn.__name__]
    signature = {n: "constexpr" if n in constants else kind if n in tensors else "i32" for n in kernel.arg_names}
    by_16 = {(k,): [["tt.divisibility", 16]] for k, n in enumerate(kernel.arg_names) if n not in constants}
    source = ASTSource(kernel, signature, constants, by_16)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps, "num_stages": stages})
    return int(made.metadata.shared)


def points() -> list[tuple[str, str, dict[str, Any], int, int]]:
    """Every kernel at a wide range of tiles, warps and stages."""
    found: list[tuple[str, str, dict[str, Any], int, int]] = []
    for dtype, d, g_q, s_x, stages in itertools.product(
        ("bf16", "fp8", "fp32"), (32, 64, 128), (16, 64, 128), (32, 64, 128), (2, 3)
    ):
        scaled = dtype != "fp8" and (g_q + s_x + stages) % 3 == 0
        found.append(("cascade", dtype, {"d": d, "g_q": g_q, "s_x": s_x, "scaled": scaled}, g_q // 64 * 4 or 4, stages))
    for d, g_q, s_x, stages in itertools.product((64, 128), (64, 128), (64, 128), (2, 3)):
        found.append(("turned", "bf16", {"d": d, "g_q": g_q, "s_x": s_x}, 4, stages))
    for dtype, d, g_q, factor in itertools.product(("bf16", "fp32"), (64, 128), (16, 64, 128), (True, False)):
        found.append(("biased", dtype, {"d": d, "g_q": g_q, "s_x": 32, "factor": factor}, 4, 2 + factor))
    for dtype, g_a, g_c, s_b, normed in itertools.product(
        ("bf16", "fp8", "fp32"), (16, 64, 128), (32, 128, 256), (32, 64), (True, False)
    ):
        found.append(("product", dtype, {"g_a": g_a, "g_c": g_c, "s_b": s_b, "normed": normed}, 8, 2 + normed))
    for dtype, g, s in itertools.product(("bf16", "fp32"), (16, 64, 128), (32, 64)):
        found.append(("nested", dtype, {"g_t": g, "s_v": 2 * s, "s_k": s}, 4, 3))
        found.append(("covariance", dtype, {"g_i": g, "s_n": s}, 4, 2))
    return found


@pytest.mark.triton
def test_it_is_what_the_compiler_takes(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    module = compiled_kernels(tmp_path)
    wrong = []
    for name, dtype, constants, warps, stages in points():
        took = compiled(getattr(module, name), dtype, constants, warps, stages)
        said = predicted(name, dtype, constants, warps, stages)
        if abs(took - said) > NEAR:
            wrong.append((name, dtype, constants, warps, stages, took, said))
    assert not wrong
