"""Chips, predicted times, tiles and their proofs: those of the ideal model, which knows no compiler."""

import dataclasses
import functools
import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.chip import hardware
from catdiag.library.definitions.attention import attention, grouped_query_attention, multi_head_attention
from catdiag.library.definitions.matmul import matmul
from catdiag.planner import fit as plans
from catdiag.planner.fit import block_candidates, group_candidates
from catdiag.planner.fits_proof import prove_bound
from catdiag.planner.resources.block_resources import peak_bytes
from catdiag.planner.resources.ideal_resources import OTHER_REGISTERS
from catdiag.planner.time_model.prediction import predict
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.placement import LEVEL, REGISTERS

fit = functools.partial(plans.fit, backend="ideal")


def derived(diagram, axis, axes):
    return group.find(fold_search.find(diagram_of(diagram), axis).diagram, axes)


FLASH = derived(attention, "x", ["q"])
HEADS = derived(multi_head_attention, "x", ["b", "h", "q"])
SHARED = derived(grouped_query_attention, "x", ["b", "k", "r", "q"])
PRODUCT = derived(matmul, "b", ["a", "c"])
LONG = {"q": 8192, "x": 8192, "d": 128}


@pytest.mark.parametrize("chip", ["H100", "H200"])
def test_one_head_takes_small_tiles_so_that_every_sm_has_one(chip):
    plan = fit(FLASH, chip, LONG)
    assert plan.tiles["g_q"] == 64 and plan.groups == 128 and plan.waves == 1
    assert 64 <= plan.tiles["s_x"] <= 128 and plan.stages == 2 and plan.threads == 128
    assert plan.registers_per_thread <= 255 and plan.shared_memory_bytes <= 227 * 1024
    assert plan.minimum_traffic.bytes_ratio > 2 and "groups for 132 SMs" in plan.minimum_traffic.reason
    assert plan.load_bytes == 128 * (2 * 8192 * 128 + 64 * 128) * 2 and plan.save_bytes == 8192 * 128 * 2
    assert plan.hbm_bytes == 4 * 8192 * 128 * 2 and plan.flops == 4 * 8192 * 8192 * 128


def test_sixteen_heads_take_the_tiles_that_are_measured_best():
    plan = fit(HEADS, "H200", {**LONG, "b": 1, "h": 16})
    assert plan.tiles["g_q"] in (64, 128) and plan.tiles["s_x"] in (64, 128)
    assert (plan.tiles["g_h"], plan.tiles["g_b"]) == (1, 1)


def test_query_heads_that_share_keys_are_packed():
    plan = fit(SHARED, "H100", {**LONG, "b": 1, "k": 8, "r": 4})
    assert plan.tiles["g_q"] * plan.tiles["g_r"] in (64, 128) and plan.tiles["g_k"] == 1
    decode = fit(SHARED, "H100", {**LONG, "b": 8, "k": 8, "r": 4, "q": 1})
    assert decode.tiles["g_r"] == 4 and decode.bound == "HBM bandwidth"


def test_matrix_products_take_large_tiles():
    for chip in ("A100", "H100"):
        plan = fit(PRODUCT, chip, {"a": 4096, "b": 4096, "c": 4096})
        assert min(plan.tiles["g_a"], plan.tiles["g_c"]) >= 128 and plan.utilization > 0.5


@pytest.mark.parametrize("chip", ["A100", "H100", "H200"])
@pytest.mark.parametrize("d", [64, 128])
def test_many_heads_take_tiles_that_kernel_engineers_take(chip, d):
    for length in (4096, 8192):
        plan = fit(HEADS, chip, {"b": 2, "h": 2048 // d, "q": length, "x": length, "d": d})
        assert 64 <= plan.tiles["g_q"] <= 192 and 64 <= plan.tiles["s_x"] <= 176
        assert (plan.tiles["g_h"], plan.tiles["g_b"]) == (1, 1) and 0.4 < plan.utilization < 0.8


def test_matrix_products_take_blocks_of_a_few_instructions():
    for n in (4096, 8192):
        plan = fit(PRODUCT, "H100", {"a": n, "b": n, "c": n})
        assert sorted((plan.tiles["g_a"], plan.tiles["g_c"])) in ([128, 128], [128, 256])
        assert 32 <= plan.tiles["s_b"] <= 64 and plan.stages >= 2
        assert 690e12 < plan.flops / plan.time_s < 790e12  # what such products were measured at on an H200


MEASURED = [  # heads, d, rows, keys, stages, warps, TFLOP/s on an H200; the model is calibrated on these
    (1, 128, 64, 128, 2, 4, 371),
    (1, 128, 128, 128, 2, 8, 226),
    (1, 128, 256, 64, 2, 8, 101),
    (16, 128, 64, 64, 3, 4, 558),
    (16, 128, 128, 128, 2, 8, 460),
    (16, 128, 256, 64, 2, 8, 425),
    (64, 64, 64, 128, 2, 4, 493),
]


@pytest.mark.parametrize("case", MEASURED, ids=str)
def test_predictions_are_near_measurements(case):
    h, d, rows, keys, stages, warps, measured = case
    values = {**LONG, "b": 1, "h": h, "d": d, "g_b": 1, "g_h": 1, "g_q": rows, "s_x": keys}
    kernel = measure(HEADS, "bf16", stages, registers=True).kernels[0]
    seconds = float(predict(kernel, hardware.H200, values, stages, warps).seconds)
    assert 4 * h * d * 8192**2 / seconds / 1e12 == pytest.approx(measured, rel=0.15)


def test_long_sums_reach_the_bandwidth_and_short_ones_do_not_crumble():
    total = derived(cd.algorithm("q x -> q")(lambda a: cd.sum(a, "x")), "x", ["q"])
    plan = fit(total, "H100", {"q": 8192, "x": 65536})
    assert plan.bound == "HBM bandwidth" and plan.utilization > 0.85 and plan.shared_memory_bytes < 64 * 1024
    small = fit(FLASH, "H100", {"q": 100, "x": 77, "d": 40})
    assert small.tiles["g_q"] >= 64 and small.tiles["s_x"] >= 64  # matrix units take 64 rows at once anyway


def test_a_turn_waits_for_sums_that_others_read():
    def chains(diagram):
        return list(measure(diagram, "bf16", 2, registers=True).kernels[0].chains.values())

    assert chains(FLASH) == [0, 2]  # the scores, then their maximum; what is added to in place is not waited for
    assert chains(PRODUCT) == [0, 0]


def test_it_is_quick(calls):
    work = calls(lambda: fit(PRODUCT, "H100", {"a": 8192, "b": 8192, "c": 8192}))
    assert work < 150_000


sizes = st.integers(1, 3000)


@settings(max_examples=25, deadline=None)
@given(
    q=sizes,
    x=sizes,
    d=st.integers(1, 300),
    dtype=st.sampled_from(["bf16", "fp32", "fp8"]),
    chip=st.sampled_from(["A100", "H100"]),
)
def test_any_plan_is_within_the_chip(q, x, d, dtype, chip):
    chip = hardware.get(chip)
    plan = fit(FLASH, chip, {"q": q, "x": x, "d": d}, dtype=dtype)
    kernel = measure(FLASH, dtype, plan.stages, registers=True).kernels[0]
    values = {**plan.sizes, **plan.tiles}
    assert peak_bytes(kernel, LEVEL, values) == plan.shared_memory_bytes <= chip.smem_per_block
    assert peak_bytes(kernel, REGISTERS, values) <= 4 * plan.threads * (plan.registers_per_thread - OTHER_REGISTERS)
    assert plan.registers_per_thread <= 255 and plan.blocks_per_sm * plan.threads <= chip.threads_per_sm
    assert plan.blocks_per_sm * (plan.shared_memory_bytes + 1024) <= chip.smem_per_sm or plan.blocks_per_sm == 1
    assert 1 <= plan.tiles["g_q"] <= q and 1 <= plan.tiles["s_x"] <= x
    assert plan.groups == -(-q // plan.tiles["g_q"]) and plan.time_s > 0 and 0 < plan.utilization <= 1
    assert plan.minimum_traffic.bytes_moved <= plan.bytes_moved


def test_the_same_call_gives_the_same_plan():
    first, second = fit(FLASH, "H100", LONG), fit(FLASH, "H100", LONG)
    assert dataclasses.replace(first, proof=second.proof) == second


def test_more_of_anything_never_takes_longer():
    chip = hardware.H100
    kernel = measure(FLASH, "bf16", 2, registers=True).kernels[0]
    values = {**LONG, "g_q": 64, "s_x": 64}
    base = predict(kernel, chip, values, 2, 4).seconds
    for name in ("hbm_bytes_per_s", "l2_bytes_per_s", "clock_hz", "alu_per_clock", "special_per_clock"):
        better = dataclasses.replace(chip, **{name: 2 * getattr(chip, name)})
        assert predict(kernel, better, values, 2, 4).seconds <= base
    assert predict(kernel, chip, {**values, "q": 2 * 8192}, 2, 4).seconds > base


def test_one_stage_waits_for_its_loads():
    kernels = {n: measure(FLASH, "bf16", n, registers=True).kernels[0] for n in (1, 2)}
    values = {**LONG, "g_q": 64, "s_x": 64}
    one, two = (predict(kernels[n], hardware.H100, values, n, 4).single_block_seconds for n in (1, 2))
    assert one > two
    assert fit(FLASH, "H100", LONG, stages=1).stages == 1


def test_small_tiles_pay_for_whole_pieces_of_rows():
    kernel = measure(FLASH, "bf16", 2, registers=True).kernels[0]
    cost = {
        g: predict(kernel, hardware.H100, {**LONG, "g_q": g, "s_x": 64}, 2, 4).part_seconds["tensor"]
        for g in (16, 64, 65)
    }
    assert cost[16] == cost[64] == cost[65] / 2


def test_what_does_not_fit_says_what_takes_how_much():
    with pytest.raises(cd.errors.DoesNotFit) as caught:
        fit(FLASH, "H100", {**LONG, "d": 65536})
    text = str(caught.value)
    assert "the smallest tile, g_q=1, s_x=16, needs" in text and "4,325,376 bytes, too much for 232,448" in text
    assert "131,072  Q (operand)" in text and "2,097,152  K (streamed)" in text
    with pytest.raises(cd.errors.DoesNotFit, match="no groups and no stream"):
        fit(attention, "H100", LONG)


def test_wrong_sizes_name_the_axis():
    for wrong, message in [
        ({"q": 8, "x": 8}, "the size of axis 'd' is missing: expected sizes for d, q, x"),
        ({"q": 8, "x": 8, "d": 0}, "axis 'd' has size 0: expected a positive integer"),
        ({"q": -8, "x": 8, "d": 8}, "axis 'q' has size -8"),
        ({"q": 8.5, "x": 8, "d": 8}, "axis 'q' has size 8.5"),
        ({"q": 8, "x": 8, "d": 8, "h": 8}, "size 'h' is given, and the diagram has no such axis"),
    ]:
        with pytest.raises(cd.errors.SizeError, match=message):
            fit(FLASH, "H100", wrong)
    with pytest.raises(
        cd.errors.CatdiagError, match="unknown hardware 'h1000': known are A100, H100, H200, B200, MI300X, TPU v5p"
    ):
        fit(FLASH, "h1000", LONG)
    with pytest.raises(cd.errors.CatdiagError, match="unknown dtype 'int3'"):
        fit(FLASH, "H100", LONG, dtype="int3")
    with pytest.raises(cd.errors.CatdiagError, match="stages is 0"):
        fit(FLASH, "H100", LONG, stages=0)


def test_chips():
    assert hardware.get(" h100 ") is hardware.H100 and hardware.get(hardware.A100) is hardware.A100
    for chip in (hardware.A100, hardware.H100, hardware.H200):
        assert pickle.loads(pickle.dumps(chip)) == chip and hash(chip) == hash(dataclasses.replace(chip))
        json.dumps(chip.as_dict())
        assert "uncertain" in str(chip)
    mine = dataclasses.replace(hardware.H100, name="mine", sms=10)
    assert fit(FLASH, mine, LONG).time_s > 2 * fit(FLASH, hardware.H100, LONG).time_s
    with pytest.raises(cd.errors.CatdiagError, match="sms is 0, expected a positive number"):
        dataclasses.replace(hardware.H100, sms=0)
    with pytest.raises(cd.errors.CatdiagError, match="expected a share of the peak"):
        dataclasses.replace(hardware.H100, sustained={"tensor": 1.0, "hbm": 1.1})
    with pytest.raises(dataclasses.FrozenInstanceError):
        hardware.H100.sms = 3


def test_proofs():
    memory = IntPolynomial.of("d") * IntPolynomial.of("g_q") + IntPolynomial.of("g_q")
    assert "d*g_q + g_q ≤ 20" in prove_bound([memory], 20, {"d": 3, "g_q": 5}).statement
    with pytest.raises(cd.errors.CatdiagError, match="could not prove"):
        prove_bound([memory], 19, {"d": 3, "g_q": 5})


def test_ctrl_c_in_a_proof_is_heard():
    a, b, c, d = map(IntPolynomial.of, "abcd")
    hard = a * a * a * b * b * b + c * c * c * c * c * d - b * b * d * d * d * d * a - a * a * c * c * c * c * b
    code = (
        "import os, signal, threading\n"
        "from catdiag.category.integer_polynomial import IntPolynomial\n"
        "from catdiag.planner.fits_proof import prove_bound\n"
        "import z3\n"
        "threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        f"prove_bound([IntPolynomial({hard.terms!r})], 10**8, dict.fromkeys('abcd', 100))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert "KeyboardInterrupt" in done.stderr.splitlines()[-1], done.stderr
    proof = fit(FLASH, "H100", LONG).proof
    assert "1 ≤ g_q ≤ 64" in proof.statement and "≤ 232448" in proof.statement


def test_candidates():
    assert group_candidates(10) == [1, 2, 4, 8, 10] and block_candidates(10) == [10]
    assert 48 in group_candidates(100) and 100 in group_candidates(100) and min(block_candidates(100)) == 16


def test_several_kernels_are_not_planned_as_one():
    both = FLASH @ FLASH
    with pytest.raises(cd.errors.CatdiagError, match="fit plans one kernel"):
        fit(both, "H100", LONG)


def test_it_prints_and_is_plain():
    plan = fit(FLASH, "H100", LONG)
    assert json.loads(json.dumps(plan.as_dict()))["tiles"] == {"g_q": 64, "s_x": 128}
    for words in ("tiles      g_q=64", "grid       128 groups", "bound by", "times the least", "proved"):
        assert words in str(plan)


def test_a_handful_of_bytes_leaves_no_sm_without_work():
    @cd.algorithm("n c, -> n")
    def scaled(X, t):
        return cd.sum(X * t, "c")

    plan = scaled.stream("c").group("n").plan(cd.hardware.H100, {"n": 65536, "c": 32000})
    assert plan.groups >= 132
    assert plan.tiles["s_c"] >= 64


def test_what_fits_may_depend_on_no_tile():
    @cd.algorithm("d, d x ->", name="product")
    def product(a, b):
        return cd.einsum("d, d x, e x ->", a, b, b.rename(d="e"))

    plan = product.plan("H200", {"d": 100, "x": 3}, dtype="fp32")
    assert plan.time_s > 0 and plan.theorem is not None and not plan.unproved
