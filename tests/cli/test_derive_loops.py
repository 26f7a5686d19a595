"""`catdiag derive` prints the loops; with `--split` and `--skip` as they are run then."""

from __future__ import annotations

import json

import pytest

OPERATOR = """
import catdiag as cd


@cd.algorithm("q, x -> q")
def partial(n, a):
    return cd.sum(cd.where(cd.index("x") <= cd.index("q"), a, 0), "x") + n


@cd.algorithm("x ->")
def long(a):
    total = 0
    for k in range(22):
        total = total + cd.sum(cd.tanh(a + k), "x") * k
    return total
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OPERATOR, encoding="utf-8")
    return path


def test_parts_and_blocks_left_out(run, file, tmp_path):
    done = run("derive", f"{file}:partial", "--split", "x", "--skip", "x", "--json", tmp_path / "all.json")
    assert done.status == 0, done.err
    for said in (
        "3. split x, proved",
        "4. skip x, proved",
        "for blocks and tiles of every size: g_q, s_x, p_x",
        "for each of p_x parts of x, in parallel:",
        "for each block of x (s_x at a time) that meets the range from 0 to max_q t1:",
        "assumed: without rounding: q <= x",
    ):
        assert said in done.out, said
    data = json.loads((tmp_path / "all.json").read_text())
    assert data["formulas"]["loops"][0]["components"][0]["unit"] == "0"
    assert "next part" not in data["pseudocode"] and "save out[q] = sum1 + n" in data["pseudocode"]


def test_long_loops_are_printed_when_asked_for(run, file):
    said = run("derive", f"{file}:long", "--group", "").out + run("derive", f"{file}:long", "--pseudocode").out
    assert said.count("more lines: --pseudocode prints them") == 1
    assert said.count("save out = ") == 1


def test_an_axis_without_a_loop(run, file):
    run("derive", f"{file}:partial", "--skip", "y").one_message(2, "no loop runs over axis 'y'")


def test_exponentials_and_theorems(run, file):
    done = run("derive", "log_sum_exp", "--theorems")
    assert done.status == 0, done.err
    for said in (
        "merge is associative: proved",
        "a shorter last block: proved",
        "step: exp(max1 - max1′) ≤ 1: proved",
        "no exponential overflows",
    ):
        assert said in done.out, said


def test_advice_for_an_exponential_without_a_maximum(run, tmp_path):
    path = tmp_path / "plain.py"
    path.write_text(
        'import catdiag as cd\n\n\n@cd.algorithm("q x -> q")\ndef plain(S):\n'
        '    return cd.log(cd.sum(cd.exp(S), "x"))\n',
        encoding="utf-8",
    )
    done = run("derive", f"{path}:plain")
    assert done.status == 0, done.err
    assert "advice: exp(S) is not bounded: .stabilize() subtracts the maximum" in done.out
    assert "Theorems of the loops" not in done.out


def test_several_passes(run):
    done = run("derive", "softmax", "--passes", 2)
    assert done.status == 0, done.err
    assert "1. stream x in 2 passes, proved" in done.out
    assert "finish out = exp(a - max1)/sum2" in done.out
    run("derive", "softmax", "--passes", 0).one_message(2, "passes is 0")


def test_an_axis_that_the_result_keeps_is_refused_with_the_reason(run):
    done = run("derive", "softmax")
    assert done.status == 0, done.err
    assert "not streamed over x: cannot stream axis 'x': the result [q x] keeps it" in done.out
    assert "in 2 passes it can be" in done.out
    assert "site-packages" not in done.out
