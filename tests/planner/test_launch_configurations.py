"""Proposals: what Triton can run, what fits, what differs; and held against kernels that were measured on an H200."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.planner.configuration_candidates import Candidates
from catdiag.planner.configuration_proposal import Proposal
from catdiag.planner.configuration_ties import TIE
from catdiag.planner.fit import searching
from catdiag.planner.launch_configurations import propose
from catdiag.planner.resources.dot_products import dot_products
from catdiag.planner.resources.emitted_smem import EmittedBlocks
from catdiag.planner.resources.triton_resources import SPILLING, TritonBlock
from catdiag.rewrite import skip
from catdiag.schedule.kernel_analysis import measure
from catdiag.util.errors import CatdiagError, DoesNotFit, SizeError
from tests.forms import form, unproved

HEADS = form("multi_head_attention", "x", "b h q")
PRODUCT = form("matmul", "b", "a c")
LONG = {"b": 1, "h": 16, "q": 8192, "x": 8192, "d": 128}
CASES = {
    "multi_head_attention": (HEADS, LONG),
    "matmul": (PRODUCT, {"a": 4096, "b": 4096, "c": 4096}),
    "grouped_query_attention": (
        form("grouped_query_attention", "x", "b k r q"),
        {"b": 2, "k": 8, "r": 4, "q": 4096, "x": 4096, "d": 128},
    ),
    "decoding_attention": (
        form("decoding_attention", "x", "b k r"),
        {"b": 8, "k": 8, "r": 4, "x": 8192, "d": 128},
    ),
    "causal_attention": (form("causal_attention", "x", "q"), {"q": 8192, "x": 8192, "d": 64}),
    "gated_mlp": (form("gated_mlp", "f", "t"), {"t": 8192, "d": 64, "f": 4096, "o": 64}),
    "rms_norm_linear": (form("rms_norm_linear", "d", "t o"), {"t": 8192, "d": 4096, "o": 4096}),
    "linear_distillation": (form("linear_distillation", "v", "t"), {"t": 8192, "d": 64, "e": 64, "v": 32000}),
    "layer_norm": (form("layer_norm", None, "t"), {"t": 8192, "d": 1000}),
    "softmax_entropy": (form("softmax_entropy", "v", "t"), {"t": 8192, "v": 128256}),
    "dot": (form("dot", "x"), {"x": 5000}),
    "conv1d": (form("conv1d", "c", "n y o"), {"n": 8, "y": 500, "x": 502, "c": 64, "k": 3, "o": 64}),
    "max_pool": (form("max_pool", "j", "n y x c"), {"n": 8, "c": 64, "h": 2, "w": 3, "x": 32, "y": 32}),
}


def respects(p: Proposal) -> dict[str, int]:
    return {**p.tiles, "stages": p.stages, "warps": p.warps, "specialized": int(p.specialized)}


@pytest.mark.parametrize("name", CASES)
def test_what_is_proposed_can_run_and_fits(name):
    diagram, sizes = CASES[name]
    found = propose(diagram, "H200", sizes)
    assert 1 <= len(found) <= 8 and found[0].time_s <= TIE * min(p.time_s for p in found)
    for p in found:
        assert all(t >= 1 and (t & (t - 1) == 0 or (p.specialized and t == 192)) for t in p.tiles.values())
        assert p.warps in ((8, 12) if p.specialized else (4, 8, 16, 32)) and 1 <= p.stages <= 4
        assert p.shared_bytes <= 227 * 1024 and p.registers <= SPILLING and p.registers * 32 * p.warps <= 65536
        assert 1 <= p.blocks_per_sm <= 16 and p.time_s > 0
        assert p.blocks_per_sm * (p.shared_bytes + 1024) <= 228 * 1024 or p.blocks_per_sm == 1
    assert len({tuple(respects(p).items()) for p in found}) == len(found)
    assert propose(diagram, "H200", sizes) == found


def test_the_largest_tiles_are_no_longer_than_an_axis_filled_up():
    for diagram, sizes in CASES.values():
        search = searching(diagram, "H200", sizes)
        for p in propose(diagram, "H200", sizes):
            for name, whole in {**search.kernel.tiles, **dict(search.kernel.loops)}.items():
                size = math.ceil(whole.value(sizes))
                assert p.tiles[name] < 2 * size or p.tiles[name] <= 16


@pytest.mark.parametrize("name", ["multi_head_attention", "matmul", "grouped_query_attention"])
def test_proposals_differ_in_every_respect(name):
    diagram, sizes = CASES[name]
    first, *others = propose(diagram, "H200", sizes)
    assert first.differences == () and all(p.differences for p in others)
    seen = Counter(name for p in others for name in p.differences)
    assert {"stages", "warps"} <= set(seen) and len(set(seen) & {"g_q", "s_x", "g_a", "g_c", "s_b"}) >= 2
    for p in others:
        assert p.differences == tuple(n for n, v in respects(p).items() if v != respects(first)[n])


def test_batches_and_heads_have_tile_one_and_rows_of_a_product_sixteen():
    for p in propose(HEADS, "H200", LONG):
        assert p.tiles["g_b"] == p.tiles["g_h"] == 1 and p.tiles["g_q"] >= 16 and p.tiles["s_x"] >= 16
        assert "g_h" not in p.arguments and p.arguments["num_warps"] == p.warps
    diagram, sizes = CASES["decoding_attention"]
    for p in propose(diagram, "H200", sizes):
        assert p.tiles["g_r"] == 16 and p.tiles["s_x"] >= 16  # 4 rows, filled up
    diagram, sizes = CASES["grouped_query_attention"]
    for p in propose(diagram, "H200", {**sizes, "q": 1}):
        assert p.tiles["g_r"] * p.tiles["g_q"] >= 16 and p.tiles["g_k"] == 1


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, 16, 80, 256]))
@settings(max_examples=15, deadline=None)
def test_short_and_odd_axes_are_filled_up(q, x, d):
    for p in propose(HEADS, "H200", {"b": 1, "h": 3, "q": q, "x": x, "d": d}, most=3):
        assert all(16 <= p.tiles[name] <= 64 for name in ("g_q", "s_x"))


def test_shared_memory_is_of_axes_filled_up():
    even, odd = (propose(HEADS, "H200", {**LONG, "d": d}, tiles={"g_q": 128, "s_x": 64}) for d in (128, 80))
    assert [(p.stages, p.shared_bytes) for p in even] == [(p.stages, p.shared_bytes) for p in odd]
    held = {p.stages: p.shared_bytes for p in even}
    assert held[2] == 2 * (128 * 128 + 2 * 2 * 128 * 64) + 5 * 8  # with a barrier for each box
    plain = propose(HEADS, "H200", LONG, tiles={"g_q": 128, "s_x": 64}, boxes=False)
    assert {p.stages: p.shared_bytes for p in plain}[2] == held[2] - 5 * 8


def test_given_tiles_are_taken_and_checked():
    assert {p.tiles["g_q"] for p in propose(HEADS, "H200", LONG, tiles={"g_q": 32})} == {32}
    assert len(propose(HEADS, "H200", LONG, most=1)) == 1
    with pytest.raises(CatdiagError, match=r"'g_q' as 48: expected a power of two"):
        propose(HEADS, "H200", LONG, tiles={"g_q": 48})
    with pytest.raises(CatdiagError, match="most is 0"):
        propose(HEADS, "H200", LONG, most=0)
    with pytest.raises(SizeError, match="'d' is missing"):
        propose(HEADS, "H200", {"b": 1, "h": 1, "q": 8, "x": 8})
    with pytest.raises(CatdiagError, match="accumulates in VMEM: Triton has no kernels for it"):
        propose(HEADS, "TPU v5p", LONG)


def test_a_kernel_that_waits_for_memory_has_the_most_stages_of_those_alike():
    """Measured on an H200: 34.8 µs with four, 42.1 with three; a square product was 0.7% quicker with three."""
    skinny, square = ({"a": rows, "b": 8192, "c": 8192} for rows in (64, 8192))
    matmul = cd.library.get("matmul").stream("b").group("a c")
    assert propose(matmul, "H200", skinny)[0].stages == 4 and propose(matmul, "H200", square)[0].stages == 3


def test_what_cannot_fit_says_what_it_needs():
    with pytest.raises(DoesNotFit, match=r"no Triton kernel fits H200: g_b=1.* needs .* of 232,448 bytes of SMEM and"):
        propose(HEADS, "H200", {**LONG, "d": 4096})


def test_the_same_everywhere():
    code = (
        "import catdiag as cd; from catdiag.planner.launch_configurations import propose;"
        "from catdiag.rewrite import group; from catdiag.rewrite.stream import fold_search as stream;"
        "d = group.find(stream.find(cd.library.get('matmul'), 'b').diagram, ['a', 'c']);"
        "print(*propose(d, 'H200', {'a': 512, 'b': 640, 'c': 512}), sep=chr(10))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1",)
    }
    d, sizes = PRODUCT, {"a": 512, "b": 640, "c": 512}
    here = "\n".join(map(str, propose(d, "H200", sizes)))
    assert said == {here.encode() + b"\n"}


MEASURED = json.loads((Path(__file__).parent / "h200.json").read_text(encoding="utf-8"))


def shape(key):
    kind, *lengths = key.split()
    a, b, c = map(int, lengths)
    if kind == "loop":
        return HEADS, {"b": 1, "h": a, "q": b, "x": b, "d": c}, ("g_q", "s_x"), {"g_b": 1, "g_h": 1}
    return PRODUCT, {"a": a, "c": b, "b": c}, ("g_a", "g_c", "s_b"), {}


def test_what_was_measured_takes_the_shared_memory_that_is_said_and_about_the_registers():
    ratios = []
    for key, rows in MEASURED.items():
        diagram, sizes, names, alone = shape(key)
        search = searching(diagram, "H200", sizes)
        found = dot_products(search.diagram, frozenset(search.kernel.tiles), "bf16")
        emitted = EmittedBlocks(search.diagram, "bf16", search.chip, sizes, found, boxes=False)
        blocks = {n: TritonBlock.of(k, n, emitted) for n, k in search.kernels.items()}
        for *tile, stages, warps, registers, spilled, smem, _ in rows:
            values = {**sizes, **alone, **dict(zip(names, tile, strict=True))}
            assert int(emitted.smem_bytes(values, warps, stages)) == smem
            said = float(blocks[stages].registers(values, warps))
            if said <= SPILLING:
                ratios.append(said / registers)
                assert not spilled
    ratios.sort()
    assert len(ratios) > 300 and ratios[len(ratios) // 20] > 0.85 and ratios[-len(ratios) // 20] < 1.25


@pytest.mark.parametrize(
    ("diagram", "sizes", "tiles", "stages", "warps"),
    [
        # The quickest that were measured on an H200, kernels that copy boxes of arrays.
        (HEADS, {**LONG, "b": 2}, {"g_q": 128, "s_x": 128}, 3, 8),
        (HEADS, {**LONG, "b": 2, "h": 32, "d": 64}, {"g_q": 192, "s_x": 128}, 4, 12),
        (PRODUCT, {"a": 8192, "b": 4096, "c": 4096}, {"g_a": 128, "g_c": 256, "s_b": 64}, 3, 8),
    ],
)
def test_the_first_is_what_was_quickest_where_boxes_are_copied(diagram, sizes, tiles, stages, warps):
    first = propose(diagram, "H200", sizes)[0]
    assert {n: t for n, t in first.tiles.items() if t > 1} == tiles
    assert (first.stages, first.warps) == (stages, warps)


def test_of_those_whose_loads_are_not_apart_too():
    """The quickest of 12 and of 11 that were measured on an H200."""
    for sizes, tiles, stages in (({"b": 2}, (64, 64), 3), ({"b": 2, "h": 32, "d": 64}, (64, 128), 2)):
        first = next(p for p in propose(HEADS, "H200", {**LONG, **sizes}) if not p.specialized)
        assert (first.tiles["g_q"], first.tiles["s_x"], first.stages, first.warps) == (*tiles, stages, 4)


def test_a_window_is_left_to_kernels_that_share_a_core():
    """Its loop has three ranges, of which each begins and ends alone; measured 410 against 366 TFLOP/s."""
    window = skip.find(form("sliding_window_attention", "x", "q"), "x")
    sizes = {"q": 8192, "x": 8192, "d": 128, "width": 1024}
    assert not propose(window, "H200", sizes)[0].specialized


@pytest.mark.parametrize("dtype", ["fp32", "fp8"])
def test_loads_are_apart_where_matrix_units_read_16_bits(dtype):
    assert any(p.specialized for p in propose(HEADS, "H200", LONG))
    assert not any(p.specialized for p in propose(HEADS, "H200", LONG, dtype))
    assert not any(p.specialized for p in propose(HEADS, "A100", LONG))


def test_values_of_another_width_are_columns_of_a_tile():
    """The width of values is grouped, and that of keys is summed: no axis of the tile but rows is shared."""
    heads = cd.algorithm("h q d, h x d, h x v -> h q v")(
        lambda Q, K, V: cd.einsum("h q x, h x v -> h q v", cd.softmax(cd.einsum("h q d, h x d -> h q x", Q, K), "x"), V)
    )
    first = propose(unproved(heads.diagram, "x", "h q v"), "H200", {"h": 16, "q": 8192, "x": 8192, "d": 128, "v": 128})[
        0
    ]
    one = propose(HEADS, "H200", LONG)[0]
    assert first.specialized and first.tiles == {"g_h": 1, "g_q": 128, "g_v": 128, "s_x": one.tiles["s_x"]}
    assert first.time_s == pytest.approx(one.time_s, rel=0.01)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_threads_load_16_bytes_of_an_array_at_once(dtype):
    """What was measured of bf16 beside `LOAD_BYTES`; the model has tiles of half of that for as quick."""
    gated = cd.algorithm("q f, q f -> q f")(lambda G, U: G * cd.nn.sigmoid(G) * U).group("q f")
    first = propose(gated, "H200", {"q": 8192, "f": 14336}, dtype)[0]
    assert math.prod(first.tiles.values()) * {"bf16": 2, "fp32": 4}[dtype] >= 16 * 32 * first.warps


def test_the_measured_best_is_among_the_proposals_and_as_a_rule_the_first():
    near = []
    for key, rows in MEASURED.items():
        diagram, sizes, names, _ = shape(key)
        times = {(*tile, stages, warps): us for *tile, stages, warps, _, _, _, us in rows}
        best, found = min(times.values()), propose(diagram, "H200", sizes, boxes=False)
        taken = [times.get((*(p.tiles[n] for n in names), p.stages, p.warps)) for p in found]
        assert min(t for t in taken if t is not None) <= best / 0.9, key
        assert taken[0] is not None and taken[0] <= best / 0.9, key
        near.append(taken[0] <= best / 0.95)
    assert sum(near) == 11 and len(near) == 15


@pytest.mark.slow
@pytest.mark.parametrize("name", cd.library.names())
def test_every_operator_has_proposals_or_a_reason(name, ask):
    from catdiag.cli.derive_report_data import derive

    diagram = cd.library.get(name)
    try:
        made = derive(diagram, ask).derivation
    except CatdiagError:
        pytest.skip("nothing is derived of it without sizes")
    account = measure(made.diagram)
    sizes = {size: {"q": 1024, "x": 1024, "t": 2048}.get(size, 32) for size in (*account.sizes, *account.scalars)}
    said = ""
    try:
        assert propose(made.diagram, "H200", sizes)
    except CatdiagError as error:
        said = error.message
    assert not said or "no Triton kernel" in said or "fit plans one kernel" in said


@pytest.mark.parametrize(
    ("keys", "measured"),
    [
        # Parts, keys of a block, stages: milliseconds on an H200 (4 warps, 16 rows), interleaved medians of one run.
        (
            8192,
            {(2, 128, 3): 0.0653, (2, 128, 4): 0.0662, (4, 128, 2): 0.0663, (4, 64, 3): 0.0669, (2, 64, 3): 0.0673,
             (8, 64, 2): 0.0681, (4, 32, 3): 0.0684, (2, 128, 2): 0.0704, (8, 32, 4): 0.0709, (8, 64, 3): 0.0733,
             (16, 64, 3): 0.0764},
        ),
        (
            65536,
            {(2, 128, 4): 0.495, (2, 128, 3): 0.495, (4, 128, 2): 0.499, (4, 64, 4): 0.499, (8, 128, 3): 0.502,
             (2, 64, 3): 0.510, (4, 32, 3): 0.510, (4, 64, 3): 0.512, (16, 64, 3): 0.514, (2, 128, 2): 0.535,
             (8, 64, 3): 0.549},
        ),
    ],
)  # fmt: skip
def test_few_rows_and_few_bytes_on_their_way_take_the_time_that_was_measured(keys, measured):
    decoding = unproved(cd.library.get("decoding_attention").diagram, "x", "b k r", parts="x")
    sizes = {"b": 8, "k": 8, "r": 4, "x": keys, "d": 128}
    found = {}
    for block in {block for _, block, _ in measured}:
        made = Candidates(searching(decoding, "H200", sizes, tiles={"s_x": block})).ranked()
        found.update({(p.tiles["p_x"], block, p.stages): p.time_s * 1e3 for p in made if p.warps == 4})
    said = {tile: found[tile] for tile in measured}
    best = min(measured.values())
    assert measured[min(said, key=said.get)] < 1.02 * best
    assert all(0.87 < said[tile] / measured[tile] < 1.2 for tile in measured)
    first = propose(decoding, "H200", sizes)[0]
    assert measured[first.tiles["p_x"], first.tiles["s_x"], first.stages] < 1.05 * best


def test_products_of_few_rows_take_a_buffer_less():
    few, many = ({"a": n, "b": 4096, "c": 4096} for n in (32, 64))
    tiles = {"g_c": 128, "s_b": 64}
    taken = [
        next(p for p in propose(PRODUCT, "H200", s, tiles={**tiles, "g_a": s["a"]}) if (p.stages, p.warps) == (3, 4))
        for s in (few, many)
    ]
    # What Triton 3.6 allots for an H200: 40,976 and 73,760 bytes, the products of 64 rows with a third buffer.
    assert [p.shared_bytes for p in taken] == [2 * (32 + 128) * 64 * 2 + 4 * 8, 3 * (64 + 128) * 64 * 2 + 6 * 8]


def test_where_nothing_is_multiplied_the_longest_blocks_of_what_is_alike_come_first():
    loss = form("cross_entropy", "v", "t")
    first, *others = propose(loss, "H200", {"t": 8192, "v": 128256})
    assert first.tiles["s_v"] == 4096  # 509 µs on an H200, where blocks of 256 took 729
    assert all(p.tiles["s_v"] < 4096 for p in others if p.time_s < first.time_s)


def test_columns_are_cut_into_whole_sectors() -> None:
    pool = cd.algorithm("b x d -> b d", name="pool")(lambda A: cd.sum(cd.exp(A), "x"))
    made = unproved(pool.diagram, "x", "b d")
    for proposal in propose(made, "H200", {"b": 64, "x": 4096, "d": 1024}):
        assert proposal.tiles["g_d"] >= 16, "32 bytes of bf16"
    assert propose(made, "H200", {"b": 64, "x": 4096, "d": 4})[0].tiles["g_d"] == 4, "no longer than the axis"
    rows = cd.algorithm("q x -> q", name="rows")(lambda A: cd.sum(cd.exp(A), "x"))
    assert propose(unproved(rows.diagram, "x", "q"), "H200", {"q": 4096, "x": 4096})[0].tiles["g_q"] < 16, (
        "results are few"
    )


@pytest.mark.parametrize("heads", [71, 128])
def test_heads_may_be_more_than_entries_of_a_head(heads: int) -> None:
    """All of the entries of a few heads are columns of a product; 71 is a prime."""
    heads_of = cd.algorithm("q e, h d e -> h q d", name="heads")(lambda X, W: cd.einsum("q e, h d e -> h q d", X, W))
    first, *_ = propose(unproved(heads_of.diagram, "e", "h q d"), "H200", {"q": 2048, "e": 4096, "h": heads, "d": 64})
    assert first.tiles["g_d"] == 64 and first.tiles["g_h"] <= 4


def test_a_part_of_an_array_that_a_product_reads_has_buffers_of_its_own() -> None:
    part = cd.algorithm("h q d, x d -> h q v", name="part")(
        lambda Q, K: cd.einsum(
            "h q x, x v -> h q v",
            cd.exp(cd.einsum("h q d, x d -> h q x", Q, K)),
            cd.slice(K, "d", 0, cd.size("v"), into="v"),
        )
    )
    made = unproved(part.diagram, "x", "h q v")
    for p in propose(made, "H200", {"h": 16, "q": 1024, "x": 4096, "d": 256, "v": 128}):
        rows, block = p.tiles["g_q"] * 256, p.tiles["s_x"] * (256 + p.tiles["g_v"])
        assert p.shared_bytes >= 2 * (rows + p.stages * block), "as Triton 3.6 compiles them"


def test_the_entries_of_a_window_count_and_not_those_of_the_plane_it_is_cut_from() -> None:
    sizes = {"n": 32, "h": 128, "w": 128, "y": 64, "x": 64, "c": 128}
    first = propose(cd.library.get("average_pool").group("n y x c"), "H200", sizes, most=1)[0]
    window = 2 * 2  # of h and w, for each position of y and x
    assert 2 * window * math.prod(first.tiles.values()) / (32 * first.warps) >= 64  # bytes a thread, in bf16


def test_sums_of_rows_cost_more_where_more_warps_put_them_together() -> None:
    """Of an H200, in µs: five sums of rows of 16,384 in blocks of the loop, by so many warps."""
    measured = {(4096, 4): 64.3, (2048, 4): 67.2, (1024, 4): 92.8, (2048, 8): 92.7, (4096, 16): 103.3}
    rows = cd.library.get("correlation").stream("x").group("q")
    found = Candidates(searching(rows, "H200", {"q": 4096, "x": 16_384}, "bf16"))
    predicted = {
        (block, warps): float(found._timed(1, {"g_q": 1, "s_x": block}, warps, found.backend(1, False)).seconds) * 1e6
        for block, warps in measured
    }
    few = max(predicted[4096, 4], predicted[2048, 4])
    assert few < min(time for (block, warps), time in predicted.items() if block / warps < 512)
    assert all(0.8 < predicted[key] / measured[key] < 1.25 for key in measured), predicted


def test_groups_that_begin_longest_first_fill_up_the_cores() -> None:
    causal = cd.library.get("causal_attention").weave("h", ["Q", "K", "V"])
    skipped = unproved(causal.diagram, "x", "h q", skips="x")
    sizes = {"h": 32, "q": 8192, "x": 8192, "d": 128}
    search = searching(skipped, "H200", sizes)
    (bounds,) = search.kernels[3].loop_bounds.values()
    assert bounds.longest_first and not bounds.of_part("p_x", "part", "chunk").longest_first
    found = Candidates(search)
    timing = found.timing(found.ranked()[0])
    assert timing.imbalance_seconds == 0 and timing.longest.single_block_seconds < timing.seconds


def test_products_that_an_iteration_reads_are_waited_for_one_by_one() -> None:
    sizes = {"q": 8192, "x": 8192, "d": 128, "v": 128}
    (kernel,) = searching(unproved(cd.library.get("differential_attention").diagram, "x", "q v"), "H200", sizes,
                          stages=3).kernels.values()  # fmt: skip
    assert [c.added for c in kernel.contractions] == [False, False, True, True]
