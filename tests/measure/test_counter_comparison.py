"""Counters beside predictions: gaps that are planted, readings that are given out, and what is said without a GPU."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import catdiag as cd
from catdiag.chip import hardware
from catdiag.measure.profile import counter_comparison, ncu
from catdiag.measure.profile.counter_comparison import (
    AGREES,
    EXPLAINED,
    REPORTED,
    UNAVAILABLE,
    UNEXPLAINED,
    Measured,
    compare,
    judged,
    measure,
    rows,
    shared_out,
)  # fmt: skip
from catdiag.measure.profile.expected_counters import Cause, ExpectedCounters, ProfilePoint, point_of, sectors
from catdiag.runtime.launch_recorder import record_launches

FULL = {
    ncu.LOADED: 1000.0, ncu.STORED: 3.125, ncu.HBM_READ: 300.0, ncu.HBM_WRITTEN: 100.0, ncu.SHARED: 4096.0,
    ncu.REGISTERS: 128.0, ncu.LOCAL_LOADS: 0.0, ncu.LOCAL_STORES: 0.0,
}  # fmt: skip
POINT = ProfilePoint(
    "p", "op", {"q": 8}, "bf16", {"g_q": 4}, "op", "", (), {},
    (ExpectedCounters("_k", {"A": 600.0, "B": 400.0}, (), 4096, saves={"out": 100.0}),),
    read_bytes=300.0, written_bytes=100.0,
)  # fmt: skip


def statuses(point: ProfilePoint, values: Mapping[str, float], *more: ncu.CounterReading) -> dict[str, str]:
    lines = compare(point, [ncu.CounterReading("_k", 0, values), *more])
    return {line.what: line.status for line in lines}


def test_what_agrees() -> None:
    found = statuses(POINT, FULL)
    assert found.pop("registers of a thread") == REPORTED and set(found.values()) == {AGREES}


@pytest.mark.parametrize(
    ("counter", "value", "what"),
    [
        (ncu.LOADED, 1021.0, "loads L2 to SM"),
        (ncu.LOADED, 979.0, "loads L2 to SM"),
        (ncu.HBM_READ, 330.0, "read from HBM"),
        (ncu.STORED, 3.3, "stores SM to L2"),
        (ncu.SHARED, 4096.0 + 1025, "shared memory of a block"),
        (ncu.LOCAL_STORES, 1.0, "spills, as instructions that ran"),
    ],
)
def test_planted_gaps_are_unexplained(counter: str, value: float, what: str) -> None:
    found = statuses(POINT, {**FULL, counter: value})
    assert found.pop(what) == UNEXPLAINED
    assert UNEXPLAINED not in found.values()


def test_a_cause_explains_as_much_as_it_says_and_no_more() -> None:
    causes = (Cause("sectors", 0.0, 200.0),)
    point = replace(POINT, kernels=(replace(POINT.kernels[0], causes=causes),))
    assert statuses(point, {**FULL, ncu.LOADED: 1210.0})["loads L2 to SM"] == EXPLAINED
    assert statuses(point, {**FULL, ncu.LOADED: 1300.0})["loads L2 to SM"] == UNEXPLAINED
    assert statuses(point, {**FULL, ncu.LOADED: 900.0})["loads L2 to SM"] == UNEXPLAINED


def test_loads_that_l1_served_explain_fewer_bytes() -> None:
    fewer = {**FULL, ncu.LOADED: 700.0}
    assert statuses(POINT, fewer)["loads L2 to SM"] == UNEXPLAINED
    assert statuses(POINT, {**fewer, ncu.L1_HITS: 10.0})["loads L2 to SM"] == EXPLAINED
    assert statuses(POINT, {**fewer, ncu.L1_HITS: 5.0})["loads L2 to SM"] == UNEXPLAINED


def test_an_exact_cause_is_no_range() -> None:
    exact = [Cause("wider", 500.0, 500.0)]
    assert judged("loads", 1000.0, 1500.0, exact).status == EXPLAINED
    assert judged("loads", 1000.0, 1250.0, exact).status == UNEXPLAINED


def test_kernels_are_told_apart_and_bytes_of_memory_added() -> None:
    merge = ExpectedCounters("_m", {"state of a part": 50.0}, (), 1024)
    point = replace(POINT, kernels=(*POINT.kernels, merge))
    second = ncu.CounterReading(
        "_m", 1, {**FULL, ncu.LOADED: 50.0, ncu.HBM_READ: 0.0, ncu.HBM_WRITTEN: 0.0, ncu.SHARED: 1024.0}
    )
    lines = compare(point, [ncu.CounterReading("_k", 0, FULL), second])
    assert {(line.kernel, line.measured) for line in lines if line.what == "loads L2 to SM"} == {
        ("_k", 1000.0), ("_m", 50.0),
    }  # fmt: skip
    assert all(line.status in (AGREES, REPORTED) for line in lines)


def test_what_was_not_read_is_said_and_the_rest_told() -> None:
    lines = compare(POINT, (), "counters are unavailable: no ncu")
    assert {line.status for line in lines if line.predicted is not None} == {UNAVAILABLE}
    assert all("no ncu" in line.reason[0] for line in lines if line.status == UNAVAILABLE)
    some = compare(POINT, [ncu.CounterReading("_k", 0, {ncu.LOADED: 1000.0})])
    assert {line.what: line.status for line in some}["loads L2 to SM"] == AGREES
    assert len(rows(some)) == len(some)


def test_the_compiler_stands_in_for_a_launch() -> None:
    made = {"shared": 4100, "registers": 99, "stack": 0, "spill_stores": 8, "spill_loads": 0}
    point = replace(POINT, kernels=(replace(POINT.kernels[0], compiled=made),))
    lines = {line.what: line for line in compare(point, (), "no ncu")}
    assert lines["shared memory of a block, compiled"].status == AGREES
    assert lines["registers of a thread"].measured == 99
    assert lines["spills of a thread, compiled"].status == UNEXPLAINED


def reading(kernel: str, order: int) -> ncu.CounterReading:
    return ncu.CounterReading(kernel, order, {ncu.LOADED: float(order)})


def test_readings_are_given_out_in_order() -> None:
    readings = [reading(k, n) for n, k in enumerate(["_a", "elementwise", "_a", "_b", "_a"])]
    done = [
        {"name": "1", "launched": ["_a"], "failure": ""},
        {"name": "2", "launched": ["_a", "_b"], "failure": ""},
        {"name": "3", "launched": [], "failure": "out of memory"},
        {"name": "4", "launched": ["_a"], "failure": ""},
    ]
    found, failures = shared_out(readings, done, 5)
    assert [[r.order for r in own] for own in found] == [[0], [2, 3], [], [4], []]
    assert failures == ("", "", "out of memory", "", "the run ended before it")


def test_a_launch_that_was_not_read_leaves_none() -> None:
    done = [{"name": "1", "launched": ["_a", "_b"], "failure": ""}, {"name": "2", "launched": ["_a"], "failure": ""}]
    found, failures = shared_out([reading("_a", 0), reading("_a", 1)], done, 2)
    assert found[0] == () and "_b" in failures[0] and [r.order for r in found[1]] == [0]


SPOILT = """
import json, sys
rows = []
for name in json.loads(sys.argv[1]):
    if name == "dies":
        print("CUDA gave up", file=sys.stderr)
        sys.exit(1)
    rows.append({"name": name, "launched": ["_k"], "failure": "wrong" if name == "fails" else ""})
    open(sys.argv[2], "w").write(json.dumps(rows))
"""


def test_a_point_that_spoils_its_process_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def program(points: Sequence[ProfilePoint], folder: Path) -> tuple[list[str], Path]:
        done = folder / "done.json"
        return [sys.executable, "-c", SPOILT, json.dumps([p.name for p in points]), str(done)], done

    monkeypatch.setattr(counter_comparison, "_program", program)
    points = [replace(POINT, name=name) for name in ("a", "dies", "b", "fails", "c")]
    assert counter_comparison._tried(points, os.environ, 60.0) == [
        "", "the process that ran it ended: CUDA gave up", "", "wrong", "",
    ]  # fmt: skip


# -- predictions -------------------------------------------------------------------------------------------------------


TILES = {"g_a": 128, "g_c": 128, "s_b": 64}


def test_a_point_has_the_exact_formula_with_remainders(product: Any) -> None:
    a, b, c = 1000, 912, 528
    point = point_of(product, TILES, {"a": a, "b": b, "c": c}, "fp16")
    assert point.kernels[0].loads == {"A": 2 * a * b * -(-c // 128), "B": 2 * b * c * -(-a // 128)}
    assert (point.read_bytes, point.written_bytes) == (2 * (a * b + b * c), 2 * a * c)
    assert point.kernels[0].saves == {"out": 2 * a * c}
    assert point.kernels[0].shared == pytest.approx(2 * 2 * (128 * 64 + 64 * 128), abs=1024)
    assert point.kernels[0].causes == ()
    assert ProfilePoint.of(json.loads(json.dumps(point.as_dict()))) == point


def test_sectors_are_a_cause_where_rows_end_within_one(product: Any) -> None:
    point = point_of(product, TILES, {"a": 256, "b": 256, "c": 250})
    (cause,) = point.kernels[0].causes
    assert cause.reason.startswith("sectors: rows of a tile of B")
    assert cause.high == pytest.approx(2 * 256 * 250 * 2 * (sectors((256, 250), 2, 128) - 1))


@pytest.mark.parametrize(
    ("shape", "width", "run", "over"),
    [((64, 64), 2, 64, 1.0), ((64, 64), 2, 16, 1.0), ((2, 8), 2, 8, 2.0), ((4, 12), 4, 12, 4 / 3), ((8,), 4, 4, 2.0)],
)
def test_sectors_by_hand(shape: tuple[int, ...], width: int, run: int, over: float) -> None:
    assert sectors(shape, width, run) == pytest.approx(over)


def test_a_cache_that_is_too_small_is_a_cause_for_each_further_wave(product: Any) -> None:
    small = replace(hardware.get("H200"), l2_bytes=1 << 20)
    sizes = {"a": 2048, "b": 256, "c": 2048}
    found = [point_of(product, TILES, sizes, chip=chip) for chip in (hardware.get("H200"), small)]
    assert found[0].read_causes == found[1].read_causes == ()  # in one wave, three groups a core
    far = point_of(product, TILES, {**sizes, "a": 8192}, chip=small)
    assert [cause.high for cause in far.read_causes] == [2 * far.read_bytes]


def test_shared_memory_is_that_of_the_generation_of_the_chip() -> None:
    """The laws differ in whether Q stays in shared memory while the loop runs."""
    flash = cd.library.get("attention").stream("x").group("q")
    tiles, sizes = {"g_q": 128, "s_x": 64}, {"q": 512, "x": 512, "d": 64}
    for chip, blocks in (("A100", 2 * 2), ("H100", 2 * 2 + 2)):  # 8 KiB each: two buffers of K and V, and Q
        (kernel,) = point_of(flash, tiles, sizes, chip=chip).kernels
        assert kernel.shared is not None and kernel.shared // 8192 == blocks, chip


def test_a_chip_without_a_copy_engine_is_launched_without_descriptors() -> None:
    """A block that a descriptor loads has a barrier of 8 bytes in shared memory."""
    flash = cd.library.get("attention").stream("x").group("q")
    tiles, sizes = {"g_q": 128, "s_x": 64}, {"q": 512, "x": 512, "d": 64}
    (kernel,) = point_of(flash, tiles, sizes, chip="A100").kernels
    assert kernel.shared == 2 * 2 * 8192


def test_launches_without_torch_are_those_that_the_text_makes(product: Any) -> None:
    from catdiag.codegen.triton.triton_module import module

    made = module(product.diagram, TILES)
    (launch,) = record_launches(made, {"a": 1000, "b": 1024, "c": 80}, {"g_a": 64, "num_stages": 3})
    assert launch.programs == 16 and launch.options == {"num_warps": 4, "num_stages": 3}
    assert launch.arguments["g_a"] == 64 and launch.arguments["even_b"] is True
    assert launch.arguments["even_a"] is False


def test_without_a_gpu_it_says_so() -> None:
    found = measure([POINT], profiler="no-such-profiler")
    assert found.readings == ((),) and found.failures[0]
    assert Measured.of(json.loads(json.dumps(found.as_dict()))) == found
