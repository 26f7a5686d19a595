"""What blocks are predicted to take, against kernels that are written, and those that Triton 3.6 has compiled."""

from __future__ import annotations

import numpy as np
import pytest

import catdiag as cd
from catdiag.chip import hardware
from catdiag.planner.configuration_candidates import Candidates
from catdiag.planner.emitted_module import ALIGNMENT_BYTES, write
from catdiag.planner.fit import fit, searching
from catdiag.planner.resources import emitted_smem
from catdiag.planner.resources.block_resources import Resources
from catdiag.planner.resources.dot_products import dot_products
from catdiag.planner.resources.emitted_smem import EmittedBlocks
from tests.forms import form, unproved

AXES = {"a": 1024, "b": 1024, "c": 1024}
LOSS = {"d": 64, "e": 64, "t": 1024, "v": 1024}
LORA = {"d": 64, "o": 64, "r": 1024, "t": 1024}
ROWS = {"d": 64, "q": 1024, "x": 1024}
HEADS = {**ROWS, "h": 1024}
LATENT = {"c": 64, "h": 1024, "q": 1024, "r": 1024, "x": 64}
EXPERTS = {"d": 64, "e": 1024, "f": 1024, "o": 64, "t": 1024}

COMPILED = [
    # chip, operator, streamed, grouped, tiles, sizes, warps, stages, compiled registers of a thread (None: they spill)
    # What instructions of single warps read of both factors, once more for the next of them.
    ("A100", "matmul", "b", "a c", {"g_a": 64, "g_c": 256, "s_b": 64}, AXES, 4, 3, 254),
    ("A100", "linear_distillation", "v", "t", {"g_t": 16, "s_v": 256}, LOSS, 4, 2, 237),
    ("A100", "normalised_contraction", "x", "q v", {"g_q": 64, "g_v": 256, "s_x": 64},
     {"q": 1024, "v": 1024, "x": 1024}, 4, 4, None),
    ("A100", "multi_head_attention", "x", "b h q", {"g_b": 1, "g_h": 1, "g_q": 128, "s_x": 128},
     {**HEADS, "b": 1024}, 8, 3, 195),
    ("A100", "gated_mlp", "f", "t", {"g_t": 128, "s_f": 128}, {"d": 64, "f": 1024, "o": 64, "t": 1024}, 8, 3, None),
    # Second factors that an iteration makes are narrowed before they are stored.
    ("A100", "layer_norm_linear", "d", "o", {"g_o": 64, "s_d": 256}, {"d": 1024, "o": 1024, "t": 64}, 8, 3, None),
    # Results in tensor memory are read into registers whole.
    ("B200", "matmul", "b", "a c", {"g_a": 128, "g_c": 64, "s_b": 64}, AXES, 4, 4, 80),
    ("B200", "expert_mlps", "f", "e t", {"g_e": 1, "g_t": 128, "s_f": 128}, EXPERTS, 4, 3, 139),
    ("B200", "gated_attention", "x", "h q", {"g_h": 1, "g_q": 128, "s_x": 64}, HEADS, 4, 2, 182),
    ("B200", "biased_attention", "x", "q", {"g_q": 128, "s_x": 128}, ROWS, 4, 3, None),
    ("B200", "qk_norm_attention", "x", "q", {"g_q": 128, "s_x": 128}, ROWS, 4, 3, None),
    ("B200", "lora", "r", "t", {"g_t": 128, "s_r": 256}, {"d": 64, "o": 64, "r": 1024, "t": 1024}, 4, 3, None),
    ("B200", "latent_attention", "r", "q h", {"g_q": 1, "g_h": 512, "s_r": 32}, LATENT, 4, 3, None),
]  # fmt: skip
FEATURES = {"d": 1024, "m": 64, "q": 1024, "v": 1024, "x": 64}
CONVOLUTION = {"c": 1024, "k": 64, "n": 1024, "o": 1024, "x": 64, "y": 1024}
GATES = {"d": 1024, "f": 1024, "t": 1024}
NORMED = {"d": 1024, "o": 1024, "t": 1024}
OF_TYPES = [
    # the same, of an element type
    # Products that are alike are made beside each other; what is loaded again to be summed is on its way with the rest.
    ("A100", "fp16", "rms_norm_gate_and_up", "d", "t f", {"g_t": 128, "g_f": 128, "s_d": 32}, GATES, 8, 3, None),
    ("A100", "fp16", "random_feature_attention", "d", "q v", {"g_q": 128, "g_v": 128, "s_d": 128}, FEATURES, 8, 3,
     None),
    # Products in three passes of tf32 take their factors in two parts, of each first factor that is alike.
    ("A100", "fp32", "multi_head_alibi_attention", "x", "h q", {"g_h": 1, "g_q": 64, "s_x": 32}, HEADS, 4, 2, None),
    ("A100", "fp32", "random_feature_attention", "d", "q v", {"g_q": 16, "g_v": 512, "s_d": 32}, FEATURES, 8, 3, None),
    ("H200", "fp32", "differential_attention", "x", "q", {"g_q": 16, "s_x": 64}, {**ROWS, "v": 64}, 4, 3, None),
    ("B200", "fp32", "rms_norm_linear", "d", "t o", {"g_t": 32, "g_o": 128, "s_d": 64}, NORMED, 4, 3, None),
    ("B200", "fp32", "conv1d", "c", "n y o", {"g_n": 128, "g_y": 1, "g_o": 128, "s_c": 1}, CONVOLUTION, 8, 3, None),
    # Where several warps share rows, all are along the longer side of the last product.
    ("B200", "fp32", "differential_attention", "x", "q", {"g_q": 16, "s_x": 16}, {**ROWS, "v": 64}, 4, 4, 231),
    # A vector that is broadcast to a tile is held by as many threads as share its entries.
    ("B200", "fp16", "rotary_embedding", None, "x d", {"g_x": 1, "g_d": 512}, {"d": 1024, "x": 1024}, 4, 1, 34),
    # Where nothing is multiplied, each thread holds what is known of its rows.
    ("H200", "bf16", "kl_divergence", "v", "t", {"g_t": 1, "s_v": 1024}, {"t": 1024, "v": 1024}, 4, 1, 48),
    ("H200", "bf16", "correlation", "x", "q", {"g_q": 1, "s_x": 1024}, {"q": 1024, "x": 1024}, 4, 1, 32),
    # Warps of 64 threads read whole factors before they multiply them.
    ("MI300X", "fp16", "padded_attention", "x", "q", {"g_q": 64, "s_x": 128}, ROWS, 4, 2, 316),
    ("MI300X", "fp16", "rms_norm_linear", "d", "t o", {"g_t": 64, "g_o": 64, "s_d": 128}, NORMED, 4, 3, 292),
]  # fmt: skip
SPECIALIZED = [
    # operator, tiles, width of rows, warps, stages, whether it spills
    # Blocks that no product reads are loaded by the warps that compute, in fp32.
    ("biased_attention", {"g_q": 192, "s_x": 128}, 64, 12, 2, True),
    ("biased_attention", {"g_q": 192, "s_x": 64}, 64, 12, 2, False),
    ("biased_attention", {"g_q": 128, "s_x": 128}, 64, 8, 2, False),
    ("biased_attention", {"g_q": 128, "s_x": 128}, 128, 8, 2, True),
    ("biased_attention", {"g_q": 192, "s_x": 64}, 128, 12, 2, True),
    ("attention", {"g_q": 192, "s_x": 128}, 64, 12, 2, False),
    ("attention", {"g_q": 192, "s_x": 64}, 128, 12, 2, False),
]


def block(
    chip: str, name: str, axis: str | None, axes: str, tiles: dict[str, int], sizes: dict[str, int], warps: int,
    stages: int, specialized: bool = False, dtype: str = "bf16",
) -> Resources:  # fmt: skip
    found = Candidates(searching(form(name, axis, axes), chip, sizes, dtype), dtype=dtype)
    values = found.search.full({**found.sizes, **tiles})
    return found.block(stages, specialized).resources(values, warps)


@pytest.mark.parametrize(("chip", "name", "axis", "axes", "tiles", "sizes", "warps", "stages", "compiled"), COMPILED)
def test_kernels_take_no_more_than_is_predicted(
    chip: str, name: str, axis: str, axes: str, tiles: dict[str, int], sizes: dict[str, int], warps: int, stages: int,
    compiled: int | None,
) -> None:  # fmt: skip
    taken = block(chip, name, axis, axes, tiles, sizes, warps, stages)
    if compiled is None:
        assert taken.registers_per_thread > taken.most_registers
    else:
        assert compiled <= taken.registers_per_thread <= 1.25 * compiled


@pytest.mark.parametrize(
    ("chip", "dtype", "name", "axis", "axes", "tiles", "sizes", "warps", "stages", "compiled"), OF_TYPES
)
def test_kernels_take_no_more_than_is_predicted_of_each_type(
    chip: str, dtype: str, name: str, axis: str | None, axes: str, tiles: dict[str, int], sizes: dict[str, int],
    warps: int, stages: int, compiled: int | None,
) -> None:  # fmt: skip
    taken = block(chip, name, axis, axes, tiles, sizes, warps, stages, dtype=dtype)
    if compiled is None:
        assert taken.registers_per_thread > taken.most_registers
    else:
        assert compiled <= taken.registers_per_thread <= 1.3 * compiled


def test_what_three_passes_add_to_is_in_registers_beside_the_parts_of_factors() -> None:
    """Compiled by Triton 3.6 for B200, a thread takes 207 registers: two such blocks have no room, for 128 each."""
    sizes = {"q": 1024, "v": 1024, "x": 1024}
    tiles = {"g_q": 128, "g_v": 32, "s_x": 64}
    taken = block("B200", "normalised_contraction", "x", "q v", tiles, sizes, 8, 3, dtype="fp32")
    assert 128 < taken.registers_per_thread <= taken.most_registers
    assert int(taken.blocks_per_sm(hardware.B200)) == 1


@pytest.mark.parametrize(("name", "tiles", "width", "warps", "stages", "spills"), SPECIALIZED)
def test_warps_that_compute_hold_what_they_load(
    name: str, tiles: dict[str, int], width: int, warps: int, stages: int, spills: bool
) -> None:
    taken = block("H200", name, "x", "q", tiles, {"q": 4096, "x": 4096, "d": width}, warps, stages, specialized=True)
    assert bool(taken.registers_per_thread > taken.most_registers) is spills


@pytest.mark.parametrize(("block_of_keys", "spills"), [(128, True), (64, False)])
def test_a_plan_says_that_what_is_computed_while_products_run_is_spilled(block_of_keys: int, spills: bool) -> None:
    """Triton 3.6 spills 364 bytes of the decays of 128 keys, none of those of 64."""

    def retention(Q, K, V, rate):
        decay = cd.exp(-rate * (cd.index("q") - cd.index("x")))
        S = cd.where(cd.index("x") <= cd.index("q"), cd.einsum("h q d, h x d -> h q x", Q, K) * decay, 0)
        return cd.einsum("h q x, h x d -> h q d", S, V)

    program = cd.algorithm("h q d, h x d, h x d, h -> h q d")(retention).diagram
    tiles = {"g_h": 1, "g_q": 128, "s_x": block_of_keys}
    sizes = {"h": 16, "q": 8192, "x": 8192, "d": 128}
    found = Candidates(searching(unproved(program, "x", "h q", skips="x"), "H200", sizes, "bf16"), dtype="bf16")
    taken = found.block(3, True).resources(found.search.full({**found.sizes, **tiles}), warps=8)
    assert bool(taken.fits(found.search.chip)) and bool(taken.spills) is spills


@pytest.mark.parametrize("chip", ["A100", "H200"])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize(
    ("name", "axis", "axes", "tiles", "sizes", "warps"),
    [
        ("matmul", "b", "a c", {"g_a": 64, "g_c": 128, "s_b": 64}, AXES, 4),
        ("attention", "x", "q", {"g_q": 64, "s_x": 64}, ROWS, 4),
        ("attention", "x", "q", {"g_q": 16, "s_x": 64}, ROWS, 4),
    ],
)
def test_the_shared_memory_by_which_blocks_are_ranked_is_that_of_what_is_written(
    chip: str, stages: int, name: str, axis: str, axes: str, tiles: dict[str, int], sizes: dict[str, int], warps: int
) -> None:
    """Products by single warps have one buffer less than stages, on an A100 all and else those of few rows."""
    ranked = int(block(chip, name, axis, axes, tiles, sizes, warps, stages).smem_bytes)
    written = write(form(name, axis, axes), tiles, "bf16", stages, warps, False, hardware.get(chip), sizes)
    assert ranked == written.largest.shared.bytes


@pytest.mark.parametrize("chip", ["A100", "H200"])
@pytest.mark.parametrize(("name", "axis", "axes", "sizes"), [("attention", "x", "q", ROWS), ("lora", "r", "t", LORA)])
def test_all_tiles_of_a_class_take_what_one_that_is_read_says(
    chip: str, name: str, axis: str, axes: str, sizes: dict[str, int]
) -> None:
    """Whichever of them is read: here the kernels of all tiles at once, beside each as it is written."""
    found = Candidates(searching(form(name, axis, axes), chip, sizes), dtype="bf16")
    grid = {tile: np.array([16, 64, 128, 16, 32]) for tile in found.options()}
    tile = list(grid)[-1]
    grid[tile] = np.array([64, 64, 32, 256, 128])
    ranked = found.block(3, False).resources(found.search.full({**found.sizes, **grid}), warps=8).smem_bytes
    for place, smem in enumerate(ranked):
        tiles = {symbol: int(column[place]) for symbol, column in grid.items()}
        written = write(form(name, axis, axes), tiles, "bf16", 3, 8, False, hardware.get(chip), sizes)
        assert abs(int(smem) - written.largest.shared.bytes) <= ALIGNMENT_BYTES


@pytest.mark.parametrize("columns", [64, 128, 256])
def test_warp_specialized_candidates_take_what_is_written_whichever_is_asked_about_first(columns: int) -> None:
    sizes = {"q": 8192, "x": 8192, "d": 128}
    found = Candidates(searching(form("attention", "x", "q"), "H200", sizes), dtype="bf16")
    for block, fits in ((columns, columns < 256), (64, True)):
        tiles = {"g_q": 128, "s_x": block}
        taken = found.block(3, True).resources(found.search.full({**found.sizes, **tiles}), warps=8)
        assert bool(taken.fits(found.search.chip)) is fits
        if fits:
            written = write(form("attention", "x", "q"), tiles, "bf16", 3, 8, True, hardware.H200, sizes)
            assert written.largest.specialized and int(taken.smem_bytes) == written.largest.shared.bytes


def test_a_kernel_without_products_takes_no_shared_memory() -> None:
    found = Candidates(searching(form("softmax", None, "q"), "H200", {"q": 1024, "x": 1024}))
    values = found.search.full({**found.sizes, "g_q": 4})
    assert found.block(min(found.kernels), False).resources(values, warps=4).smem_bytes == 0


def test_a_residual_is_held_as_it_was_loaded_where_its_rows_are_aligned():
    """Compiled by Triton 3.6; in tiles of 256 columns with rows of 6,150 entries a thread spills 570 bytes."""
    layer = cd.algorithm("t d, d o, t o -> t o")(lambda X, W, R: cd.einsum("t d, d o -> t o", X, W) + R)
    one, other = (fit(layer.stream("d").group("t o"), "H200", {"t": 8192, "d": 4096, "o": o}) for o in (6144, 6150))
    assert one.tiles == {"g_t": 128, "g_o": 256, "s_d": 64} and 213 <= one.registers_per_thread <= 1.25 * 213
    assert other.tiles == {"g_t": 128, "g_o": 128, "s_d": 64}


@pytest.mark.parametrize(
    ("pattern", "axis", "axes"),
    [("t i, o i j, t j -> t o", "j", "t o"), ("t d, h k d -> h t k", "d", "h t k")],
)
def test_tiles_of_a_class_take_what_one_takes_where_sides_of_products_are_exchanged(
    pattern: str, axis: str, axes: str
) -> None:
    """Either side may be the rows of an instruction, and which does depends on the lengths of axes that are merged."""
    product = cd.algorithm(pattern, name="product")(lambda *arrays: cd.einsum(pattern, *arrays))
    sizes = dict.fromkeys((c for c in pattern if c.isalpha()), 128)
    search = searching(product.stream(axis).group(axes), "H200", sizes, stages=3)
    products = dot_products(search.diagram, frozenset(search.kernel.tiles), "bf16")

    def smem(tiles: dict[str, np.ndarray]) -> np.ndarray:
        blocks = EmittedBlocks(search.diagram, "bf16", search.chip, search.sizes, products)
        return np.asarray(blocks.smem_bytes({**search.sizes, **tiles}, 4, 2))

    symbols = [*search.kernel.tiles, f"s_{axis}"]
    draw = np.random.default_rng(0)
    grid = {symbol: draw.choice([16, 32, 64, 128], 24) for symbol in symbols}
    together = smem(grid)
    for place in range(24):
        assert together[place] == smem({symbol: lengths[place : place + 1] for symbol, lengths in grid.items()})[0]


def test_a_kernel_that_cannot_be_written_is_tried_once_for_each_kind_of_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refused(_: object, tiles: object, *args: object, **options: object) -> None:
        tried.append(tiles)
        raise cd.errors.CatdiagError("it has no form in Triton")

    monkeypatch.setattr(emitted_smem, "module", refused)
    search = searching(cd.library.get("matmul").stream("b").group("a c"), "H200", AXES)
    products = dot_products(search.diagram, frozenset(search.kernel.tiles), search.dtypes)
    blocks = EmittedBlocks(search.diagram, "bf16", search.chip, search.sizes, products)
    values = search.full(
        {**AXES, "g_a": np.array([32, 64, 128]), "g_c": np.array([64, 32, 64]), "s_b": np.array([64] * 3)}
    )
    for warps, stages in ((4, 2), (8, 2), (4, 3)):
        assert not np.any(blocks.smem_bytes(values, warps, stages))
    assert len(tried) == 1
