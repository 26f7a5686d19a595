"""Groups of programs that read where arrays of integers say: proved, counted, and planned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.ops import GroupOp
from catdiag.planner.kernel_candidates import PlanTarget
from catdiag.planner.roofline import roofline_bound
from tests.gathers import mixed, permuted


@cd.algorithm("v d, int[t], x d -> t d")
def pooled(table: Any, tokens: Any, p: Any) -> Any:
    return cd.softmax(cd.gather(table, "v", tokens), "d") * cd.max(p, "x") * cd.sum(table, "v")


@cd.algorithm("t v, int[t] -> t")
def loss(Z: Any, label: Any) -> Any:
    return cd.gather(cd.exp(Z), "v", label) / cd.sum(cd.exp(Z), "v")


@cd.algorithm("b h, h q d, h x d -> h q x")
def biased_by_distance(table: Any, Q: Any, K: Any) -> Any:
    apart = cd.maximum(cd.index("q") - cd.index("x"), 0)
    return cd.einsum("h q d, h x d -> h q x", Q, K) + cd.gather(table, "b", cd.floor(cd.log(1 + apart)))


def test_groups_read_a_table_at_computed_places_that_the_program_owes_to_be_in_it() -> None:
    by_q, by_tiles = biased_by_distance.group("q"), biased_by_distance.stream("d").group("h q x")
    for made, blocks in ((by_q, {"g_q": 3}), (by_tiles, {"g_h": 1, "g_q": 3, "g_x": 2, "s_d": 3})):
        assert not made.theorem.conditional
        assert "⌊log(1 + max(i_q + (-1)·i_x, 0))⌋ < b for all i_q < q, i_x < x" in made.theorem.defined
        rng = np.random.default_rng(0)
        table, Q, K = rng.normal(size=(3, 2)), rng.normal(size=(2, 7, 4)), rng.normal(size=(2, 5, 4))
        places = np.floor(np.log1p(np.maximum(np.arange(7)[:, None] - np.arange(5), 0))).astype(int)
        wanted = np.einsum("hqd,hxd->hqx", Q, K) + table[places].transpose(2, 0, 1)
        assert np.allclose(made.run(table, Q, K, tiles=blocks), wanted)


@pytest.mark.parametrize(
    ("program", "axes", "load"),
    [
        (permuted, "t d", lambda t, d, g_t, g_d, **_: t * d + t * -(-d // g_d)),
        (mixed, "t", lambda t, k, d, **_: t * k * d + 2 * t * k),
        (pooled, "t", None),
        (loss, "t", lambda t, v, **_: t * v + t),
    ],
)
def test_groups_read_what_their_tiles_say_and_count_it(program: cd.category.Diagram, axes: str, load: Any) -> None:
    grouped = program.group(axes)
    assert not grouped.theorem.conditional
    assert sum(isinstance(box.op, GroupOp) for box in grouped.diagram.boxes) == 1
    assert all(isinstance(box.op, GroupOp) or box.name == "rename" for box in grouped.diagram.boxes)
    cd.testing.assert_counts_match(grouped)
    if load is not None:
        sizes = {"t": 12, "d": 8, "n": 7, "k": 3, "v": 5, "g_t": 4, "g_d": 2}
        io = grouped.io()
        assert io.load.subs({s: sizes[str(s)] for s in io.load.free_symbols}).doit() == load(**sizes)


def test_an_array_may_be_picked_from_and_streamed_as_well() -> None:
    entropy = cd.library.get("cross_entropy").stream("v").group("t")
    assert not entropy.theorem.conditional
    cd.testing.assert_counts_match(entropy)
    io = entropy.io()
    assert str(io.load) == "t*v + 2*t"  # the logits, one more for each label, and the labels


def test_what_is_picked_from_need_not_cross_the_edge() -> None:
    sizes = {"t": 8192, "d": 4096, "v": 128256}
    target = PlanTarget(cd.hardware.H200, sizes)
    table = cd.library.get("embedding")
    assert (
        roofline_bound(diagram_of(table), target).seconds * cd.hardware.H200.hbm_bytes_per_s
        < 2 * 2 * sizes["t"] * sizes["d"]
    )
    found = table.plan("H200", sizes)
    assert [kernel.loops for kernel in found.kernels] == ["group t d"]
    assert found.bytes_moved < 2.1 * 2 * sizes["t"] * sizes["d"]
    assert found.time_s >= roofline_bound(diagram_of(table), target).seconds


def test_logits_of_any_width_are_planned() -> None:
    found = cd.library.get("cross_entropy").plan("H200", {"t": 8192, "v": 128256})
    assert [kernel.loops for kernel in found.kernels] == ["stream v, group t"]


@cd.algorithm("b x 3 h d -> b h x d")
def packed(P: Any) -> Any:
    """Attention of queries, keys and values in one array."""
    Q, K, V = (cd.gather(P, "3", k) for k in range(3))
    K, V = (A.rename(x="y") for A in (K, V))
    S = cd.einsum("b x h d, b y h d -> b h x y", Q, K)
    return cd.einsum("b h x y, b y h d -> b h x d", cd.softmax(S, "y"), V)


def test_a_loop_reads_blocks_of_what_is_picked_and_renamed() -> None:
    """Keys are at other positions than queries, so that the choice of each is read outside of the group too."""
    made = packed.stream("y").group("b h x")
    (box,) = (box for box in made.boxes if "group" in box.name)
    assert [ty.names for ty in box.dom][1:] == [("b", "y", "h", "d")] * 2
    found = made.plan("H200", {"b": 2, "h": 8, "x": 8192, "d": 64})
    assert found.backend == "triton" and not made.theorem.conditional
    arrays = np.random.default_rng(0).normal(size=(1, 6, 3, 2, 4))
    np.testing.assert_allclose(made(arrays), packed(arrays), rtol=1e-12)
