"""Plans level by level: the largest tiles that experts took by hand, objectives, overlap, other chips, next best."""

import dataclasses
import functools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.chip import hardware
from catdiag.planner import fit as plans
from catdiag.planner.fit import kernels_on
from catdiag.planner.instruction_shapes import alignments, by_symbol
from catdiag.planner.resources.block_resources import Resources, peak_bytes
from catdiag.planner.resources.ideal_resources import IdealBlock
from catdiag.planner.time_model.prediction import predict
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.placement import LEVEL, MATRIX, REGISTERS
from tests.forms import form

# The ideal model, which knows no compiler, is what is compared with tiles that people chose.
fit = functools.partial(plans.fit, backend="ideal")

FLASH = cd.Program(form("attention", "x", "q"))
PRODUCT = cd.Program(form("matmul", "b", "a c"))
HEADS = form("multi_head_attention", "x", "b h q")
LONG = {"q": 8192, "x": 8192}
SQUARE = {"a": 8192, "b": 8192, "c": 8192}
LARGEST = {"objective": "largest"}
FED = {**LARGEST, "producers": 4}

# What kernels' sources say of their tiles: chip, dtype, d, rows, how, keys of a block. Neither rows nor keys are given.
# FlashAttention's tile_size.h: 128 x 192 "hits the limit of smem if MmaPV_is_RS, 128 x 144 if not" (d = 128),
# "128 x 112 hits the limit of smem" (192), "128 x 80 hits the limit of smem" (256), 64 x 80 in one stage (512);
# 128 x 176 is what it takes at d = 128 with the next turn's scores ahead, 192 x 176 at 64, 192 x 144 at 96;
# 128 x 96 in one stage with 8 warps on an A100 (256); fp8 128 x 160 (192).
TAKEN = [
    ("H100", "bf16", 128, 128, {"stages": 2, **LARGEST}, 192),
    ("H100", "bf16", 128, 128, {"stages": 2, "threads": 256, "passed": "SMEM", **FED}, 144),
    ("H100", "bf16", 192, 128, {"stages": 2, **LARGEST}, 112),
    ("H100", "bf16", 256, 128, {"stages": 2, **LARGEST}, 80),
    ("H100", "bf16", 512, 64, {"stages": 1, **LARGEST}, 80),
    ("A100", "bf16", 256, 128, {"stages": 1, "threads": 256, **LARGEST}, 96),
    ("H100", "bf16", 128, 128, {"stages": 2, "threads": 256, "ahead": True, **FED}, 176),
    ("H100", "bf16", 64, 192, {"stages": 2, "threads": 384, **FED}, 176),
    ("H100", "bf16", 96, 192, {"stages": 2, "threads": 384, "passed": "SMEM", **FED}, 144),
    ("H100", "fp8", 192, 128, {"stages": 2, "threads": 256, "ahead": True, **FED}, 160),
]


@pytest.mark.parametrize("case", TAKEN, ids=lambda c: f"{c[0]} {c[1]} d={c[2]} {c[5]}")
def test_the_largest_blocks_are_those_that_experts_took(case):
    chip, dtype, d, rows, how, keys = case
    plan = fit(FLASH, chip, {**LONG, "d": d}, dtype, **how)
    assert plan.tiles == {"g_q": rows, "s_x": keys}
    assert fit(FLASH, chip, {**LONG, "d": d}, dtype, **{**how, "tiles": {"g_q": rows}}).tiles == plan.tiles
    assert "overflows" in plan.limits["s_x"]


def test_products_fill_shared_memory_and_matrix_memory():
    taken = fit(PRODUCT, "H100", SQUARE, tiles={"g_a": 128, "g_c": 256, "s_b": 64}, objective="stages")
    assert taken.stages == 4 and taken.shared_memory_bytes == 196608  # as CUTLASS finds: four stages of 128 x 256 x 64
    assert taken.limits["stages"] == "stages=5 overflows SMEM (245,760 of 232,448 bytes)"
    # 256 x 256 x 64 takes all of a compute unit's LDS; FlashMLA's 64 rows and 64 keys take 221,184 bytes.
    amd = fit(PRODUCT, "MI300X", SQUARE, stages=1, tiles={"g_a": 256, "g_c": 256}, objective="largest")
    assert amd.tiles["s_b"] == 64 and amd.shared_memory_bytes == 64 * 1024
    latents = form("latent_attention", "x", "h q")
    sizes = {"q": 1, "h": 128, "x": 8192, "c": 512, "r": 64}
    mla = fit(latents, "H100", sizes, stages=2, tiles={"g_h": 64}, objective="largest", threads=256)
    assert mla.tiles["s_x"] == 64 and mla.shared_memory_bytes == 3 * 64 * 576 * 2 + 2  # and the scale
    with pytest.raises(cd.errors.DoesNotFit, match="245,760 bytes, too much for 232,448"):
        fit(PRODUCT, "H100", SQUARE, stages=5, tiles={"g_a": 128, "g_c": 256, "s_b": 64})
    # FlashAttention-4 has two tiles of 128 rows and 128 keys on an SM: all 512 columns of tensor memory.
    plan = fit(FLASH, "B200", {**LONG, "d": 128}, tiles={"g_q": 256, "s_x": 128}, threads=256)
    assert plan.matrix_bytes == 256 * 1024 and "TMEM: for all" in plan.proof.statement
    held = {level.name: level for level in plan.levels}
    assert held["TMEM"].allocated == held["TMEM"].capacity and "TMEM" in plan.limits["s_x"]
    assert {role for _, role, _ in held["TMEM"].live_arrays} == {"accumulator", "temporary"}


def test_types_by_array():
    mixed = {"Q": "fp8", "K": "fp8", "V": "fp16", "out": "fp16"}
    plan = fit(FLASH, "H100", {**LONG, "d": 128}, mixed, 2, tiles={"g_q": 128, "s_x": 64})
    assert (
        plan.shared_memory_bytes == 128 * 128 + 2 * 64 * 128 * (1 + 2)
        and plan.dtype == "Q fp8, K fp8, V fp16, out fp16"
    )
    for wrong, message in [({}, "dtype is {}"), ({"Q": "fp3"}, "unknown dtype 'fp3'"), ({"T": "fp8"}, "an array 'T'")]:
        with pytest.raises(cd.errors.CatdiagError, match=message):
            fit(FLASH, "H100", {**LONG, "d": 128}, wrong)


@settings(max_examples=3, deadline=None)
@given(st.sampled_from([32, 64, 96, 128]), st.integers(1, 3), st.sampled_from(["H100", "A100", "MI300X", "B200"]))
def test_no_other_tile_that_fits_is_larger_or_moves_less(d, stages, name):
    chip, sizes = hardware.get(name), {"q": 1024, "x": 512, "d": d}
    kernel = kernels_on(FLASH.diagram, chip, "bf16", stages).kernels[0]
    plans = {o: fit(FLASH, chip, sizes, stages=stages, objective=o) for o in ("largest", "traffic", "time")}
    g, s = np.mgrid[chip.matrix_rows : 1025 : chip.matrix_rows, 16:513:16].reshape(2, -1)
    points, moved = 0, float("inf")
    for warps in chip.warps:
        ok = IdealBlock(kernel, chip).resources({**sizes, "g_q": g, "s_x": s}, warps).fits(chip)
        ok &= g % (chip.matrix_rows * max(1, warps // chip.matrix_warps)) == 0  # rows are not shared between warps
        if ok.any():
            timing = predict(kernel, chip, {**sizes, "g_q": g[ok], "s_x": s[ok]}, stages, warps)
            points, moved = max(points, (g * s)[ok].max()), min(moved, timing.bytes_moved.min())
            assert plans["time"].time_s <= timing.seconds.min() * 1.5 * 1.05
    assert plans["largest"].tiles["g_q"] * plans["largest"].tiles["s_x"] == points
    assert plans["traffic"].bytes_moved == moved


sizes = st.integers(1, 2000)


@settings(max_examples=8, deadline=None)
@given(sizes, sizes, st.integers(1, 200), st.sampled_from(hardware.names()), st.sampled_from(["time", "largest"]))
def test_any_plan_is_within_every_level(q, x, d, name, objective):
    chip = hardware.get(name)
    plan = fit(FLASH, chip, {"q": q, "x": x, "d": d}, objective=objective)
    kernel, values = kernels_on(FLASH.diagram, chip, "bf16", plan.stages).kernels[0], {**plan.sizes, **plan.tiles}
    capacity = {LEVEL: chip.smem_per_block, REGISTERS: 4 * chip.registers_per_sm, MATRIX: chip.tmem_per_sm}
    for place, most in capacity.items():
        assert peak_bytes(kernel, place, values) <= most
    held = {level.name: level.allocated for level in plan.levels}
    assert held["SMEM"] == plan.shared_memory_bytes == peak_bytes(kernel, LEVEL, values)
    for level in plan.levels:
        assert level.kind == "cache" or sum(size for _, _, size in level.live_arrays) == level.allocated
    crossed = {(e.upper, e.lower): e.bytes_moved for e in plan.edges}
    above = [key for key in crossed if key[1] == "SMEM"]
    assert [crossed[key] for key in above] == [plan.bytes_moved]
    assert plan.hbm_bytes == next(moved for (upper, _), moved in crossed.items() if upper == "HBM")
    assert plan.hbm_bytes <= plan.bytes_moved and 0 < plan.utilization <= 1.0001
    json.dumps(plan.as_dict())
    assert str(plan)


def test_pieces_are_named_and_kept():
    plan = fit(PRODUCT, "H100", SQUARE)
    assert plan.divisors == {
        "g_a": {"matrix rows": 64},
        "g_c": {"matrix columns": 8, "row of a load": 64},
        "s_b": {"matrix depth": 16, "row of a load": 64},
    }
    assert all(plan.tiles[name] % piece == 0 for name, of in plan.divisors.items() for piece in of.values())
    whole = PRODUCT.diagram
    for dtype, step in (("fp8", 128), ("bf16", 64), ("tf32", 32), ("fp32", 32)):
        kernel = measure(diagram_of(whole), dtype, registers=True).kernels[0]
        assert by_symbol(alignments(kernel, hardware.H100))["s_b"]["row of a load"] == step
    mine = fit(PRODUCT, "H100", SQUARE, multiples={"s_b": 48}, at_least={"g_a": 200})
    assert mine.tiles["s_b"] % 48 == 0 and mine.tiles["g_a"] >= 200
    short = fit(PRODUCT, "H100", {"a": 100, "b": 40, "c": 7})
    assert short.tiles["g_c"] in (1, 2, 4, 7)  # no multiple fits in the axis: it is whole, or in smaller pieces


def test_statistics_ask_for_no_whole_rows_beside_products():
    """Groups need not have all heads, along which the statistics of rows happen to be stored last."""

    def weighted(Q, K, m):
        return cd.einsum("q h x, x d -> q h d", cd.exp(cd.einsum("q h d, x d -> q h x", Q, K) - m), K)

    program = cd.algorithm("q h d, x d, q h")(weighted).stream("x").group("q h")
    kernel = measure(diagram_of(program), "bf16", registers=True).kernels[0]
    wanted = by_symbol(alignments(kernel, hardware.H200))
    assert "g_h" not in wanted and wanted["g_h*g_q"] == {"matrix rows": 64}


def test_next_best_choices_say_what_they_cost():
    plan = fit(HEADS, "H100", {**LONG, "b": 2, "h": 16, "d": 128})
    assert 0 < len(plan.next_best) <= 5
    assert len({tuple(other.tiles.items()) for other in plan.next_best}) == len(plan.next_best)
    for other in plan.next_best:
        again = fit(HEADS, "H100", plan.sizes, stages=other.stages, threads=other.threads, tiles=dict(other.tiles))
        assert again.time_s == pytest.approx(other.time_s) and again.bytes_moved == other.bytes_moved
        assert other.time_ratio == pytest.approx(other.time_s / plan.time_s) and other.reason
    assert [o.time_s for o in plan.next_best] == sorted(o.time_s for o in plan.next_best)


def test_what_overlaps_counts_once():
    given = {**LONG, "b": 2, "h": 16, "d": 128}
    ways = ["add", ("tensor", "exp"), ("tensor", "exp", "L2"), ("tensor", "exp", "alu", "L2", "HBM"), "max"]
    times = [
        fit(HEADS, "H100", given, stages=2, overlap=way, tiles={"g_q": 128, "s_x": 128}, threads=256).time_s
        for way in ways
    ]
    assert times == sorted(times, reverse=True) and times[0] > 1.5 * times[-1]
    queue = fit(HEADS, "H100", given, stages=2, tiles={"g_q": 128, "s_x": 128}, threads=256)
    assert times[-1] < queue.time_s < times[0]
    best = fit(HEADS, "H100", given, stages=2, overlap="max", tiles={"g_q": 128, "s_x": 128}, threads=256)
    assert best.bound == "matrix units" and best.busy["tensor"] > 0.95
    for wrong, message in [("most", "overlap is 'most'"), (("gpu",), "overlap names 'gpu': the pipelines are tensor")]:
        with pytest.raises(cd.errors.CatdiagError, match=message):
            fit(HEADS, "H100", given, overlap=wrong)


def test_caches_of_several_dies_and_no_cache_at_all():
    given = {**LONG, "b": 1, "h": 32, "d": 128}
    amd = fit(HEADS, "MI300X", given)
    edges = {(e.upper, e.lower): e for e in amd.edges}
    compulsory = 4 * 32 * 8192 * 128 * 2
    assert edges["HBM", "LLC"].bytes_moved == compulsory, "the Infinity Cache holds what a wave touches"
    # Each of the 8 L2s loads its own copy of K and V.
    assert compulsory < edges["LLC", "L2"].bytes_moved <= compulsory + 7 * 2 * 32 * 8192 * 128 * 2
    assert amd.threads % 64 == 0 and amd.shared_memory_bytes <= 64 * 1024 and "LDS" in str(amd)
    tpu = fit(HEADS, "TPU v5p", given)
    assert tpu.hbm_bytes == tpu.bytes_moved and tpu.threads == 1 and tpu.register_bytes == 0
    assert tpu.tiles["g_q"] >= 1024 and "VMEM" in str(tpu)


def test_a_schedule_says_how_many_warpgroups_keep_a_pipeline_busy():
    plan = fit(HEADS, "H100", {**LONG, "b": 2, "h": 16, "d": 128})
    found = plan.schedule
    assert found.actors == plan.blocks_per_sm * plan.threads // 128 and found.busiest == "tensor"
    assert found.slack["tensor"] == min(found.slack.values()) and found.needed == 3
    assert "keep tensor busy" in str(plan) and found.chart().count("\n") == found.actors
    assert fit(PRODUCT, "H100", SQUARE).schedule.needed == 1


def test_wrong_requests_are_named():
    given = {**LONG, "d": 64}
    for options, message in [
        ({"tiles": {"g_x": 3}}, "tiles names 'g_x', which the diagram lacks: its tiles and blocks are g_q, s_x"),
        ({"tiles": {"g_q": 0}}, "tiles gives 'g_q' as 0: expected a positive integer"),
        ({"multiples": {"q": 3}}, "multiples names 'q'"),
        ({"at_least": {"s_x": True}}, "at_least gives 's_x' as True"),
        ({"threads": 100}, "threads is 100: expected a positive multiple of 32"),
        ({"threads": 2048}, "a group on H100 has at most 1024"),
        ({"objective": "speed"}, "objective is 'speed': expected one of time, traffic, largest"),
        ({"producers": -1}, "producers is -1"),
        ({"passed": "L1"}, "passed is 'L1': expected 'registers' or 'SMEM'"),
    ]:
        with pytest.raises(cd.errors.CatdiagError, match=message):
            fit(FLASH, "H100", given, **options)
    small = dataclasses.replace(hardware.H100, name="small", smem_per_block=1024, smem_per_sm=2048)
    with pytest.raises(cd.errors.DoesNotFit, match="too much for 1,024 bytes of SMEM"):
        fit(FLASH, small, given, tiles={"g_q": 128})


def test_axes_shorter_than_a_piece_and_rows_that_nobody_shares():
    def found(name, axis, axes):
        whole = cd.library.get(name)
        return group.find(fold_search.find(diagram_of(whole), axis).diagram if axis else diagram_of(whole), axes)

    batches = found("conv1d", "c", ["n", "y", "o"])
    sizes = {"n": 8, "x": 1026, "y": 1024, "k": 3, "c": 64, "o": 64}
    small = fit(batches, "MI300X", sizes, stages=2, objective="largest")  # 8 of n do not fit: fewer are tried
    assert small.tiles["g_n"] < 8 and small.shared_memory_bytes <= 64 * 1024
    pool = found("average_pool", None, ["n", "y", "x", "c"])
    sizes = {s: {"n": 8, "c": 64}.get(s, 64) for s in kernels_on(pool, hardware.H100, "bf16", 1).sizes}
    assert fit(pool, "H100", sizes).tiles["g_c"] == 64, "the last axis is loaded in whole rows"


def test_blocks_share_a_core_by_tensor_memory_and_need_no_shared_memory():
    taken = Resources(smem_bytes=32768, registers_per_thread=64, most_registers=255, warps=4, tmem_bytes=128 * 1024)
    assert taken.blocks_per_sm(hardware.B200) == 2 and taken.blocks_per_sm(hardware.H100) == 6
    several = dataclasses.replace(taken, smem_bytes=np.array([0, 65536]), tmem_bytes=0, warps=1)
    assert several.blocks_per_sm(hardware.MI300X).tolist() == [32, 1], "a chip that reserves no shared memory"
    tiles, given = {"g_b": 1, "g_h": 1, "g_q": 256, "s_x": 64}, {"b": 1, "h": 32, "q": 4096, "x": 4096, "d": 64}
    plan = plans.fit(HEADS, "B200", given, stages=2, threads=256, tiles=tiles)
    assert plan.backend == "triton" and plan.blocks_per_sm * plan.matrix_bytes <= hardware.B200.tmem_per_sm
