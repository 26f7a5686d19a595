"""`catdiag derive --distribute`: sums multiplied out where that is asked for, and offered where it would pay."""

from __future__ import annotations

import json

import pytest

PROGRAM = """
import catdiag as cd


@cd.algorithm("q d, x d -> q")
def nearest(A, B):
    return cd.min(cd.sum((A - B) ** 2, "d"), "x")


@cd.algorithm("q d, x d -> q x")
def squares(A, B):
    return cd.sum((A - B) ** 2, "d")


@cd.algorithm("q d, x d -> q x")
def product(A, B):
    return cd.einsum("q d, x d -> q x", A, B)
"""
SIZES = "--on", "h200", "--size", "q=512,x=512,d=64"
CHOSEN = *SIZES, "--stream", "d", "--group", "q x"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    found = tmp_path_factory.mktemp("operators") / "near.py"
    found.write_text(PROGRAM)
    return found


def test_what_cancels_is_said(run, path, tmp_path):
    data, certificate = (tmp_path / n for n in ("all.json", "theorem.json"))
    written = "--json", data, "--certificate", certificate, "--triton", tmp_path / "k.py"
    done = run("derive", f"{path}:squares", *CHOSEN, "--distribute", "d", *written)
    assert done.status == 0, done.err
    assert "1. distribute d, proved in" in done.out and "2. stream d, proved in" in done.out
    assert "note: in floating point the distributed terms cancel" in done.out
    assert "advice: sums multiplied out" not in done.out
    everything = json.loads(data.read_text())
    assert [step["name"] for step in everything["steps"]] == ["distribute d", "stream d", "group q x"]
    assert "cancel" in everything["steps"][0]["note"] and not everything["steps"][1]["note"]
    assert (tmp_path / "k.py").read_text().count("tl.dot") >= 1
    assert run("check", certificate).status == 0


def test_it_is_offered_where_it_pays_and_not_done(run, path):
    done = run("derive", f"{path}:squares", *CHOSEN)
    assert done.status == 0 and "distribute d" not in done.out
    assert "advice: sums multiplied out (--distribute any) are predicted to take" in done.out
    assert "times the time; in floating point the distributed terms cancel" in done.out
    refused = run("derive", f"{path}:product", "--distribute", "d")
    said = "cannot distribute products over sums along axis 'd': einsum of [q d] and [x d]"
    assert refused.status == 2 and said in refused.err


def test_it_is_done_unasked_where_rounding_allows_it(run, path):
    sizes = "--on", "h200", "--size", "q=1024,x=256,d=64"
    done = run("derive", f"{path}:nearest", *sizes)
    assert "1. distribute, proved in" in done.out and "rounding   distribute: in floating point" in done.out
    plain = run("derive", f"{path}:nearest", *sizes, "--distribute", "none")
    assert plain.status == 0 and ". distribute" not in plain.out and "rounding   " not in plain.out
