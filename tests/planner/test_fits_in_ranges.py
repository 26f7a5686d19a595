"""Capacity for all sizes in ranges: proofs, minimal refutations, and the arrays that make a request impossible."""

import json
from itertools import product as pairs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.chip import hardware
from catdiag.planner.fits_in_ranges import fits, possible
from catdiag.planner.resources.block_resources import peak_bytes
from catdiag.schedule.kernel_analysis import measure
from catdiag.schedule.placement import LEVEL
from tests.forms import form

FLASH = cd.Program(form("attention", "x", "q"))
PRODUCT = cd.Program(form("matmul", "b", "a c"))


def test_proved_for_all_sizes_and_the_least_strengthening_is_refuted():
    ranges = {"d": (16, 128), "g_q": (1, 64), "s_x": (1, 128)}
    found = fits(FLASH, "H100", ranges)
    assert found and found.overflow is None and set(found.proofs) == {"SMEM", "registers"}
    assert "for all 16 ≤ d ≤ 128, 1 ≤ g_q ≤ 64, 1 ≤ s_x ≤ 128" in found.proofs["SMEM"].statement
    most = 2 * 128 * 64 + 8 * 128 * 128
    exactly = hardware.loads(f'name = "exactly"\nbase = "H100"\nsmem_per_block = {most}')
    below = hardware.loads(f'name = "below"\nbase = "H100"\nsmem_per_block = {most - 1}')
    assert fits(FLASH, exactly, ranges)
    over = fits(FLASH, below, ranges)
    assert not over and over.overflow.sizes == {"d": 128, "g_q": 64, "s_x": 128} and over.overflow.allocated == most
    assert over.overflow.live_arrays == (("Q", "operand", 16384), ("K", "streamed", 65536), ("V", "streamed", 65536))


@settings(max_examples=8, deadline=None)
@given(st.integers(8, 400), st.integers(1, 300), st.integers(1, 300), st.integers(1, 3), st.sampled_from([1, 2, 4]))
def test_a_refutation_overflows_and_no_size_of_it_could_be_less(d, q, x, stages, element):
    dtype = {1: "fp8", 2: "bf16", 4: "fp32"}[element]
    ranges = {"d": (8, d), "g_q": (1, q), "s_x": (1, x)}
    found = fits(FLASH, "A100", ranges, dtype, stages, threads=512)
    kernel = measure(FLASH.diagram, dtype, stages, registers=True).kernels[0]
    most = {name: pair[1] for name, pair in ranges.items()}
    room = 4 * 512 * (128 - 40)

    def within(sizes):
        return peak_bytes(kernel, LEVEL, sizes) <= 163 * 1024 and peak_bytes(kernel, "registers", sizes) <= room

    assert found.proved == within(most)
    if not found:
        over = found.overflow
        assert sum(size for _, _, size in over.live_arrays) == over.allocated > over.capacity
        sizes = dict(most, **over.sizes)
        place, limit = (LEVEL, 163 * 1024) if over.level == "SMEM" else ("registers", room)
        assert peak_bytes(kernel, place, sizes) == over.allocated > limit
        for name, size in over.sizes.items():
            assert ranges[name][0] <= size <= ranges[name][1]
            if size > ranges[name][0]:
                moment = next(m for m in kernel.points[place] if int(m.total.value(sizes)) == over.allocated)
                assert moment.total.value({**sizes, name: size - 1}) <= limit


def test_an_impossible_request_names_the_arrays():
    found = possible(FLASH, "H100", {"d": 256, "g_q": 128, "s_x": 128}, stages=3)
    assert not found and found.level == "SMEM" and found.capacity == 232448
    assert found.unsat_core == (("K", "streamed", 196608), ("Q", "operand", 65536)) and found.needed == 262144
    assert sum(size for _, _, size in found.unsat_core) > found.capacity
    for spared in range(len(found.unsat_core)):
        assert sum(size for k, (_, _, size) in enumerate(found.unsat_core) if k != spared) <= found.capacity
    few = possible(FLASH, "H100", {"d": 256, "g_q": 128}, threads=128)
    assert few.level == "registers" and [name for name, _, _ in few.unsat_core] == ["sum3"]
    assert "these arrays alone need 131,072 bytes of registers, which has 110,080" in str(few)
    json.dumps([found.as_dict(), few.as_dict()])


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 300), st.integers(1, 4))
def test_what_is_possible_is_what_fits_at_its_least_sizes(a, c, b, stages):
    asked = {"g_a": a, "g_c": c, "s_b": b}
    found = possible(PRODUCT, "H100", asked, stages=stages, threads=512)
    alone = fits(PRODUCT, "H100", asked, stages=stages, threads=512)
    assert found.proved == alone.proved
    if found:
        assert found.tiles == asked
    else:
        total = {name: size for name, _, size in found.unsat_core}
        assert sum(total.values()) == found.needed > found.capacity
        assert all(found.needed - size <= found.capacity for size in total.values())


def test_matrix_memory_bounds_tiles_too():
    ranges = {"d": 128, "g_q": (1, 256), "s_x": (1, 128)}
    assert fits(FLASH, "B200", ranges, threads=256).proofs["TMEM"].statement.endswith("≤ 262144")
    over = fits(FLASH, "B200", {**ranges, "s_x": (1, 129)}, threads=256)
    assert over.overflow.level == "TMEM" and over.overflow.sizes == {"g_q": 256, "s_x": 129, "d": 128}
    assert fits(FLASH, "MI300X", {"d": 128, "g_q": (1, 512), "s_x": 32}).overflow.level == "LDS"


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"d": 64, "g_q": 64}, "the range of 's_x' is missing: memory depends on d, g_q, s_x"),
        ({"d": 64, "g_q": 64, "s_x": 64, "q": 3}, "'q' is given, and memory does not depend on it"),
        ({"d": (64, 16), "g_q": 64, "s_x": 64}, r"the range of 'd' is \(64, 16\), which is empty"),
        ({"d": 0, "g_q": 64, "s_x": 64}, "'d' is 0: expected a positive integer"),
        ({"d": "64", "g_q": 64, "s_x": 64}, "the range of 'd' is '64': expected a size, or"),
    ],
)
def test_wrong_ranges_are_named(ranges, message):
    with pytest.raises(cd.errors.SizeError, match=message):
        fits(FLASH, "H100", ranges)


def test_wrong_options_are_named():
    sizes = {"d": 64, "g_q": 64, "s_x": 64}
    for wrong, message in pairs([{"threads": 0}], ["threads is 0: expected a number from 1 to 1024"]):
        with pytest.raises(cd.errors.CatdiagError, match=message):
            fits(FLASH, "H100", sizes, **wrong)
    with pytest.raises(cd.errors.CatdiagError, match="passed is 'L1'"):
        possible(FLASH, "H100", sizes, passed="L1")
    with pytest.raises(cd.errors.SizeError, match="'h' is given"):
        possible(FLASH, "H100", {"h": 3})
