"""The example that puts the paper's figures beside derived ones: which agree, and which do not."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import sympy

from examples.napkin import tables

ROOT = Path(__file__).resolve().parent.parent.parent
# Figures that ours do not round to, and what is said of them.
DIFFER = {
    "M of attention": "three numbers a row",
    "s_x is a multiple of": "16 in FP16",
    "d' is a multiple of": "unknown origin",
    "slack of the exponentials, %": "about 50",
    "FlashAttention-3, FP8: reached, % of the peak": "60.6",
    "FP16, within warpgroups, two thirds more: %": "one exponential more",
    "FP8, between warpgroups, two thirds more: %": "one exponential more",
    "FP16, between warpgroups: slack of the softmax, %": "one exponential more",
}


def told(rows):
    for row in rows:
        if row.agrees is False:
            assert DIFFER[row.what] in row.note, row.what
            assert row.mark == "differs" or abs(float(row.derived) / float(row.paper) - 1) <= 0.5
        elif row.agrees is None:
            assert (row.mark, bool(row.note)) in (("new", False), ("new", True), ("not rederived", True))
    return {row.what: row for row in rows}


def test_the_kernel_on_hopper():
    found = told([*tables.arrays(), *tables.configuration(), *tables.overlapping()])
    assert set(DIFFER) <= {*found, "M of attention"}
    assert sum(row.agrees is True for row in found.values()) >= 30
    assert found["registers of a warpgroup, KiB"].agrees and found["bandwidth test: g_q above"].agrees
    assert [row.mark for row in tables.unknown()] == ["not rederived", "not rederived"]


def test_a_figure_that_is_off_is_marked():
    assert tables.Row("", "4.06", 4.0625).mark == "="
    assert tables.Row("", "4.06", 4.07).mark == "+0.2 %"
    a = sympy.sympify("2*a*b*c/sqrt(M) + a*c")
    assert tables.Row("", "2*a*b*c*M**(-1/2) + a*c", a).mark == "="
    assert tables.Row("", "2*a*b*c*M**(-1/2) + 2*a*c", a).mark == "differs"


@pytest.mark.slow
def test_all_of_it_in_little_time():
    for section in tables.SECTIONS:
        told(section())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "examples.napkin"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert after.ru_utime - before.ru_utime < 20
    for said in ("681.47", "295.35", "74.75", "1.3192", "no published figure", "tensor 100%", "not rederived"):
        assert said in done.stdout
