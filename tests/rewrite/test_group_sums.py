"""Accumulating outputs: results that lack a grouped axis and are sums over it, to which each group adds its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.rewrite.group import groupable
from catdiag.simulate.machine import count
from catdiag.testing.assert_counts import assert_counts_match
from catdiag.util.errors import CatdiagError, NotGroupable, NotStreamable
from examples import backward_passes as backward

SIZES = {"h": 2, "q": 5, "x": 7, "d": 3, "v": 2, "t": 6, "f": 4, "a": 5, "b": 3, "k": 7}


@cd.algorithm("a k, k b -> a b")
def matmul(A, B):  # type: ignore[no-untyped-def]
    """A product, whose inner axis can be grouped."""
    return cd.einsum("a k, k b -> a b", A, B)


@cd.algorithm("q x, x -> q,")
def rows_and_total(A, w):  # type: ignore[no-untyped-def]
    """A result for each row, and one that is linear in sums over rows."""
    weighted = cd.sum(A * w, "x")
    rows = cd.exp(weighted) - cd.sum(A, "x")
    return rows, (cd.sum(rows, "q") / cd.size("q") - 2 * cd.sum(weighted, "q")) * cd.sum(w, "x")


@cd.algorithm("q x, x -> q x, x")
def rows_and_sum(A, w):  # type: ignore[no-untyped-def]
    """A result that keeps the streamed axis, and one that is reduced over it; both of the same elements."""
    scaled = cd.exp(A * w) * (cd.index("q") + 1)
    return scaled - cd.size("q"), cd.sum(scaled, "q")


GROUPED: dict[str, tuple[Callable[[], Any], str]] = {
    "matmul": (lambda: matmul, "a b k"),
    "matmul, inner axis alone": (lambda: matmul, "k"),
    "linear in sums": (lambda: rows_and_total, "q"),
    "RMSNorm": (lambda: backward.rms_norm_backward, "t"),
    "LayerNorm": (lambda: backward.layer_norm_backward, "t"),
    "dQ by keys": (lambda: backward.attention_dq, "h x"),
    "dK, dV by both": (lambda: backward.attention_dkv, "q h x"),
    "attention": (lambda: backward.attention_dqkv, "h q x"),
    "a loop inside": (lambda: matmul.stream("k"), "a b"),
    "emitted and added": (lambda: backward.attention_dqkv.stream("q"), "h x"),
    "emitted at positions": (lambda: backward.causal_dqkv.stream("q"), "h x"),
    "emitted": (lambda: rows_and_sum.stream("q"), "x"),
}


def arrays_of(program: Any, seed: int = 0) -> list[Any]:
    """Random arrays for the inputs."""
    random = np.random.default_rng(seed)
    return [random.normal(size=[SIZES[a.name] for a in ty.axes]) for ty in program.dom]


def listed(found: Any) -> tuple[Any, ...]:
    """The results, also if there is one."""
    return found if isinstance(found, tuple) else (found,)


# "RMSNorm" and "attention" add the same sums by the same tiles.
SLOW = ("LayerNorm", "dK, dV by both")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in GROUPED])
def test_theorem_results_and_counts(name: str) -> None:
    made, axes = GROUPED[name]
    program = made()
    grouped = program.group(axes)
    assert not grouped.theorem.conditional
    grouped.check()
    arrays = arrays_of(program)
    wanted = listed(program.run(*arrays))
    written: dict[str, Any] = {}
    exec(grouped.code("numpy"), written)
    function = next(f for key, f in written.items() if callable(f) and not key.startswith("_") and key != "np")
    random = np.random.default_rng(1)
    for _ in range(1):
        tiles = {str(t): int(random.integers(1, 8)) for t in (*grouped.io().groups, *grouped.io().streams)}
        for found in (grouped.run(*arrays, tiles=tiles), function(*arrays, **tiles)):
            for a, b in zip(listed(found), wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert_counts_match(grouped, 4, seed=1, dtype="bf16")


def test_a_backward_pass_makes_five_products_in_one_kernel() -> None:
    form = backward.attention_dqkv.stream("q").group("h x")
    sizes = dict.fromkeys("hqxdv", 1)
    assert form.io().work["tensor"].subs({s: sizes[str(s)] for s in form.io().work["tensor"].free_symbols}) == 5 * 2
    assert "in any order" in form.steps[-1].note
    text = form.code("pseudocode")
    assert "        add to out0[h q d]: (Σ_x t2·K)/√d" in text and text.count("exp(") == 1


@cd.algorithm("q x, x -> q, x")
def sums_both_ways(A, w):  # type: ignore[no-untyped-def]
    """A result that a loop over rows emits and groups of columns add to, and one that the loop adds up."""
    scaled = cd.exp(-(A * A)) * w
    return cd.sum(scaled, "x"), cd.sum(scaled, "q")


def test_pictures_listings_and_claims_know_what_is_emitted() -> None:
    form = sums_both_ways.stream("q").group("x")
    assert form.draw("svg").startswith("<svg") and "add to out0" in form.draw("html")
    assert form.claims()["merge gives the state of the whole"].proved


def test_a_loop_that_emits_is_proved_by_itself() -> None:
    streamed = rows_and_sum.stream("q")
    streamed.check()
    arrays = arrays_of(rows_and_sum)
    for a, b in zip(streamed.run(*arrays, tiles={"s_q": 2}), rows_and_sum.run(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    assert_counts_match(streamed, 3)
    for rewrite in ("skip", "split"):
        with pytest.raises(NotStreamable):
            getattr(streamed, rewrite)("q")
    centred = cd.algorithm("q x -> q x, x")(lambda A: (A - cd.mean(A, "q"), cd.sum(A, "q")))
    with pytest.raises(NotStreamable, match="in 2 passes it can be"):
        centred.stream("q")


def test_additions_are_counted_and_said() -> None:
    io = matmul.group("a b k").io(dtype="bf16")
    sizes = {"a": 64, "b": 32, "k": 128, "g_a": 64, "g_b": 32, "g_k": 32}
    added = {t.exact.subs({s: sizes[str(s)] for s in t.exact.free_symbols}) for t in io.traffic if t.array == "out"}
    whole = 64 * 32
    # Cleared, read and written by each of four groups in fp32, then read and saved in bf16.
    assert added == {4 * whole, 4 * 4 * whole, 2 * whole}
    found = count(matmul.group("a b k").diagram, {"a": 64, "b": 32, "k": 128},
                  {"g_a": 64, "g_b": 32, "g_k": 32}, dtype="bf16")  # fmt: skip
    assert found.loads["out"] == 4 * 4 * whole + 4 * whole
    assert found.saves["out"] == 4 * whole + 4 * 4 * whole + 2 * whole
    text = matmul.group("a b k").code("pseudocode")
    assert "clear out[a b]" in text and "add to out[a b]: Σ_k A·B" in text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (lambda A: cd.max(A, "x"), r"max\[x\] combines it by max, and groups combine their parts by sums only"),
        (lambda A: cd.exp(cd.sum(A, "x")), "exp is not linear in a sum over it"),
        (lambda A: cd.sum(A, "x") + 1, "add is not linear"),
        (lambda A: cd.sum(A, "x") * cd.sum(A, "x"), "mul is not linear"),
        (lambda A: 1 / cd.sum(A, "x"), "div is not linear"),
        (lambda A: cd.sum(cd.softmax(A, "x"), "x"), "combines it by max"),
    ],
)
def test_refusals_say_why(body: Any, why: str) -> None:
    with pytest.raises(NotGroupable, match=why):
        cd.algorithm("q x -> q")(body).group("x")


def test_what_does_not_depend_on_the_axis_is_no_sum() -> None:
    program = cd.algorithm("q x, q -> q x, q")(lambda A, b: (2 * A, 2 * b))
    with pytest.raises(NotGroupable, match=r"result 2 \[q\] lacks it.*does not depend on it"):
        program.group("x")


def test_partial_sums_are_read_by_nothing_else() -> None:
    program = cd.algorithm("q x -> q x, q")(lambda A: (A - cd.mean(A, "x"), cd.sum(A, "x")))
    with pytest.raises(NotGroupable):
        program.group("x")


def test_automatic_choices_write_each_part_once() -> None:
    assert groupable(backward.rms_norm_backward.diagram) == []
    assert groupable(matmul.diagram) == ["a", "b"]


def test_what_does_not_count_additions_refuses() -> None:
    with pytest.raises(CatdiagError, match="groups add to"):
        matmul.group("a b k").io(levels=["HBM", "SMEM", "registers"])


@settings(max_examples=5, deadline=None)
@given(st.data())
def test_random_linear_programs(data: st.DataObject) -> None:
    """Sums of products in any order and of any axes, grouped along every axis that some result lacks."""
    axes = data.draw(st.permutations(["a", "b", "k"]))
    first = " ".join(axes[:2])
    ends = data.draw(st.lists(st.sampled_from([axes[0], axes[2], f"{axes[0]} {axes[2]}"]), min_size=1, max_size=2))

    def body(A, B):  # type: ignore[no-untyped-def]
        scaled = cd.exp(A / 4) * B
        results = [cd.einsum(f"{' '.join(scaled.type.names)} -> {end}", scaled) for end in ends]
        return tuple(r * 3 - r / cd.size("a") for r in results) if len(results) > 1 else results[0]

    program = cd.algorithm(f"{first}, {axes[1]} {axes[2]} -> {', '.join(ends)}")(body)
    chosen = data.draw(st.lists(st.sampled_from(axes), min_size=1, unique=True))
    grouped = program.group(" ".join(chosen))
    arrays = arrays_of(program, 3)
    tiles = {str(t): data.draw(st.integers(1, 7)) for t in grouped.io().groups}
    for a, b in zip(listed(grouped.run(*arrays, tiles=tiles)), listed(program.run(*arrays)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert_counts_match(grouped, 3, seed=data.draw(st.integers(0, 99)))
