"""Kernels chosen by what stays on chip: what they move, that they compute the same, and what cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.box_types import check
from catdiag.category.ops import GroupOp
from catdiag.category.substitution import inline
from catdiag.execute.interpreter import run
from catdiag.rewrite.fuse import Opened, arrange
from catdiag.simulate.machine import count


@cd.algorithm("q d, x d, x v -> q v")
def normalised(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K)
    P = cd.softmax(S, "x")
    return cd.einsum("q x, x v -> q v", P, V)


@cd.algorithm("x -> x")
def ring(A):
    a = cd.exp(A)
    b = cd.tanh(a)
    c = cd.log(b + 3)
    return a * c


def moved(diagram, sizes):
    """What the formulas say is loaded and saved."""
    io = cd.Program(diagram).io()
    return tuple(int(e.subs({s: sizes[str(s)] for s in e.free_symbols})) for e in (io.load, io.save))


def agrees(diagram, sizes, tiles):
    counts = count(diagram, sizes, tiles)
    values = {**sizes, **tiles}
    assert (counts.load, counts.save) == moved(diagram, values)
    return counts


def test_attention_in_two_or_three_kernels():
    two, three = normalised.fuse(saved="S"), normalised.fuse(saved=["S", "P"])
    assert str(normalised.fuse().io().transfers) == str(normalised.io().transfers)
    assert str((two.io().transfers - normalised.io().transfers).expand()) == "2*q*x"
    assert str((three.io().transfers - normalised.io().transfers).expand()) == "4*q*x"
    assert len(three.diagram.boxes) == 3
    assert two.theorem.trivial and not two.theorem.conditional
    assert two.code("pseudocode").count("in one kernel:") == 2
    assert {t.array for t in two.io().traffic} == {"Q", "K", "V", "einsum [q x]", "out"}


def test_tiles_stay_tiles():
    grouped = normalised.group("q").fuse(saved="S")
    assert [b.name for b in grouped.diagram.boxes] == ["group[q]", "group[q]"]
    agrees(grouped.diagram, {"q": 5, "x": 4, "d": 3, "v": 2}, {"g_q": 2})
    again = grouped.fuse()
    assert [b.name for b in again.diagram.boxes] == ["group[q]"]
    assert again.io().transfers == normalised.group("q").io().transfers


def test_results_are_the_same():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) for s in ((5, 3), (4, 3), (4, 2))]
    want = normalised(*arrays)
    for form in (normalised.fuse(saved="P"), normalised.fuse([]), normalised.stream("x").fuse(["fold[x] [q]"])):
        assert np.allclose(form.run(*arrays), want)


def chain(length):
    def program(A):
        for k in range(length):
            A = cd.exp(A) if k % 2 else A * A
        return A

    return cd.algorithm("q x")(program)


@given(st.integers(2, 9), st.data())
@settings(max_examples=15, deadline=None)
def test_each_array_that_stays_is_moved_twice_less(length, data):
    program = chain(length)
    names = [own[0] for own in Opened(inline(program.diagram)).named().values()]
    stay = data.draw(st.lists(st.sampled_from(names), unique=True))
    sizes = {"q": 3, "x": 5}
    apart, fused = moved(arrange(program.diagram, []), sizes), moved(arrange(program.diagram, stay), sizes)
    assert sum(apart) - sum(fused) == 2 * 15 * len(stay)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_machine_moves_what_the_formulas_say(data):
    program = data.draw(cd.testing.diagrams())
    names = [own[0] for own in Opened(inline(program)).named(program).values()]
    stay = data.draw(st.none() | st.lists(st.sampled_from(names), unique=True)) if names else None
    try:
        fused = arrange(program, stay)
    except cd.errors.NotFusable:
        assert stay is not None
        return
    check(fused)
    assert fused.dom == program.dom and fused.cod == program.cod
    sizes = data.draw(cd.testing.sizes_for(program, min_size=2))
    arrays = data.draw(cd.testing.arrays_for(program, sizes))
    got, want = run(fused, arrays, sizes=sizes), run(program, arrays, sizes=sizes)
    several = isinstance(want, tuple)
    for g, w in zip(got if several else (got,), want if several else (want,), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)
    agrees(fused, sizes, {})
    apart = arrange(program, [])
    assert sum(moved(fused, sizes)) <= sum(moved(apart, sizes))
    assert all(isinstance(b.op, GroupOp) or not b.dom for b in apart.boxes if b.name == "kernel")


def test_a_second_array_of_a_name_is_numbered():
    twice = cd.algorithm("q x -> q x")(lambda A: cd.softmax(cd.softmax(A, "x") * A, "x"))
    names = [own[0] for own in Opened(inline(twice.diagram)).named().values()]
    assert "sum[x] [q]" in names and "sum_1[x] [q]" in names
    assert len(twice.fuse(saved="exp_1 [q x]").diagram.boxes) == 2


def test_a_name_that_is_none():
    with pytest.raises(
        cd.errors.NotFusable, match=r"no intermediate array is called 'R': there are einsum \[q x\] or S; max"
    ):
        normalised.fuse(saved="R")
    with pytest.raises(cd.errors.NotFusable, match="cannot both stay on chip and be saved"):
        normalised.fuse("S", saved="S")


def test_kernels_that_would_wait_for_each_other():
    with pytest.raises(cd.errors.NotFusable, match="wait for each other"):
        ring.fuse("a, b")
    assert len(ring.fuse().diagram.boxes) == len(ring.diagram.boxes)
    assert len(ring.fuse(saved="b").diagram.boxes) >= 2


def test_what_is_in_a_loop_is_no_array():
    flash = normalised.stream("x")
    with pytest.raises(cd.errors.NotFusable, match="no intermediate array is called 'S'"):
        flash.fuse(saved="S")


def test_other_rewrites_come_first():
    with pytest.raises(cd.errors.NotGroupable, match="group first, and fuse last"):
        normalised.fuse(saved="S").group("q")
    assert normalised.fuse(saved="S").stream("x").theorem.conditional is False


def test_the_command_line_counts_kernels(tmp_path, monkeypatch, capsys):
    import sys

    from catdiag.cli import main

    path = tmp_path / "mine.py"
    path.write_text(
        'import catdiag as cd\n\n\n@cd.algorithm("q x")\ndef f(A):\n    E = cd.exp(A)\n    return E * A\n',
        encoding="utf-8",
    )
    monkeypatch.setattr(sys, "argv", ["catdiag", "io", f"{path}:f", "--saved", "E"])
    with pytest.raises(SystemExit):
        main()
    assert "transfers  5*q*x" in capsys.readouterr().out
