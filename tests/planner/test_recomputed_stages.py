"""Rows in which arrays are recomputed where they are read: what they mean, what they save, and when they are taken."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Diagram
from catdiag.category.ops import GroupOp, Reindex
from catdiag.planner.recomputed_stages import RecomputedStages
from catdiag.rewrite.merge_axes import merged_early
from catdiag.schedule.live_ranges import multiplies

GRADIENTS: dict[str, Diagram] = {
    name: cd.library.get(name).grad().diagram
    for name in ("attention", "cross_entropy", "rms_norm", "layer_norm", "causal_grouped_query_attention")
}
ROWS = {
    (name, saves): RecomputedStages(diagram, saves=multiplies if saves else lambda box: False)
    for name, diagram in GRADIENTS.items()
    for saves in (False, True)
}
HEADS = {"b": 2, "k": 8, "r": 4, "q": 4096, "x": 4096, "d": 128}
ROWS["causal_grouped_query_attention", True] = RecomputedStages(
    GRADIENTS["causal_grouped_query_attention"], saves=lambda box: False, arranged=partial(merged_early, sizes=HEADS)
)


@given(st.sampled_from(sorted(ROWS)), st.data())
@settings(deadline=None, max_examples=30)
def test_kernels_of_any_cut_mean_the_diagram(case: tuple[str, bool], data: st.DataObject) -> None:
    row, diagram = ROWS[case], GRADIENTS[case[0]]
    count = len(row.stages)
    ends = sorted(data.draw(st.sets(st.integers(1, count - 1)))) if count > 1 else []
    spans = list(pairwise([0, *ends, count]))
    made, _ = row.composed((span, row.segment_diagram(*span)) for span in spans)
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 3, [3] * len(ty.axes)) if ty.element == "int" else rng.uniform(0.5, 1, [3] * len(ty.axes))
        for ty in diagram.dom
    ]
    found, expected = cd.Program(made).run(*arrays), cd.Program(diagram).run(*arrays)
    if len(diagram.cod) == 1:
        found, expected = (found,), (expected,)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_kernels_give_results_in_their_layout() -> None:
    row = ROWS["attention", False]
    made, _ = row.composed((span, row.segment_diagram(*span)) for span in ((0, 4), (4, 5), (5, 6)))
    assert all(isinstance(box.op, GroupOp) for box in made.boxes)  # dV is made as [d x], and is [x d]


def test_weights_of_attention_are_made_in_both_kernels_from_statistics() -> None:
    row = ROWS["attention", False]
    assert row.saved([4]) == ("max[x] [q]", "sum[x] [q]", "einsum [q]")
    made = [{box.name for box in row.segment_diagram(*span).boxes} for span in ((3, 4), (4, 6))]
    assert "exp" in made[0] & made[1] and "max[x]" not in made[0] | made[1]


def test_of_a_product_of_which_a_function_makes_a_result_the_result_is_saved() -> None:
    row = RecomputedStages(cd.algorithm("q d, x d -> q x")(lambda A, B: cd.einsum("q d, x d -> q x", A, B) / 8).diagram,
                           saves=multiplies)  # fmt: skip
    assert [row.graph.nodes[stage[0]].box.name for stage in row.stages] == ["div"]


def test_products_may_be_checkpoints() -> None:
    row = ROWS["attention", True]
    assert [str(row.types[w]) for w in row.checkpoints].count("[q x]") == 2
    assert "[q x]" not in [str(row.types[w]) for w in ROWS["attention", False].checkpoints]


def test_a_plan_saves_statistics_and_recomputes_the_rest() -> None:
    plan = cd.library.cross_entropy.grad().plan("H200", {"t": 8192, "v": 32000})
    assert {name for name, _ in plan.saved} == {"max[v] [t]", "sum[v] [t]"} and len(plan.kernels) == 2
    assert not plan.unproved and not plan.derivation.theorem.conditional
    assert plan.alternatives[-1].time_s is not None and plan.alternatives[-1].time_s > plan.time_s
    assert plan.module is not None and "@triton.jit" in plan.code("triton")


def test_a_kernel_sums_over_heads_and_queries_as_one_axis_and_computes_its_blocks_of_weights() -> None:
    row = ROWS["causal_grouped_query_attention", True]
    boxes = row.segment_diagram(len(row.stages) - 1, len(row.stages)).boxes
    merged = [box for box in boxes if isinstance(box.op, Reindex)]
    assert {box.name for box in merged} == {"merge[(r q)]"} and not any("x" in box.dom[0].names for box in merged)
    mask = {frozenset(box.cod[0].names) for box in boxes if box.cod[0].element == "bool"}
    assert mask == {frozenset({"x", "(r q)"})}  # of the positions of queries


def test_a_slower_plan_that_recomputes_saves_fewer_bytes() -> None:
    @cd.algorithm("t e, n e f, n f e, t n -> t e")
    def experts(X: Any, W: Any, U: Any, gate: Any) -> Any:
        H = cd.nn.relu(cd.einsum("t e, n e f -> t n f", X, W))
        return cd.einsum("t n, t n e -> t e", gate, cd.einsum("t n f, n f e -> t n e", H, U))

    plan = experts.plan("H200", {"t": 2048, "e": 512, "n": 8, "f": 1024})
    assert [name for name, _ in plan.saved] == ["H", "einsum [t n e]"]  # not H before its function: as many bytes
    others = [other for other in plan.alternatives if other.time_s is not None and other.time_s < plan.time_s]
    assert not others


def test_another_arrangement_leaves_the_stages_of_a_row_as_they_are() -> None:
    row = RecomputedStages(GRADIENTS["attention"], saves=multiplies)
    count = len(row.stages)
    other = replace(row, arranged=partial(merged_early, sizes=HEADS))
    assert len(row.stages) == len(other.stages) == count == len(row.checkpoints)


def test_what_is_made_of_the_same_products_follows_each_other() -> None:
    def sums(Q: Any, K: Any, dO: Any, V: Any) -> tuple[Any, ...]:
        S = cd.exp(cd.einsum("q d, x d -> q x", Q, K))
        P = S * cd.einsum("q d, x d -> q x", dO, V)
        dQ, dK = cd.einsum("q x, x d -> q d", P, K), cd.einsum("q x, q d -> x d", P, Q)
        of_rows = cd.sum(dQ, "d"), cd.sum(dK, "d")
        return *of_rows, cd.einsum("q x, q d -> x d", S, dO)

    row = RecomputedStages(cd.algorithm("q d, x d, q d, x d")(sums).diagram, saves=lambda box: "d" in box.cod[0].names)
    assert [str(row.types[w]) for w in row.checkpoints] == ["[q d]", "[x d]", "[x d]", "[q]", "[x]"]


def test_what_is_read_at_a_position_is_computed_of_what_is_read_there() -> None:
    """A focal loss weighs the logarithm at the label, which another kernel would save for the whole vocabulary."""

    @cd.algorithm("t v, int[t] -> t")
    def focal(z: Any, label: Any) -> Any:
        shifted = z - cd.max(z, "v")
        chosen = cd.gather(shifted - cd.log(cd.sum(cd.exp(shifted), "v")), "v", label)
        return (1 - cd.exp(chosen)) ** 2 * chosen

    plan = cd.Program(focal.forward_and_backward().backward).plan("H200", {"t": 4096, "v": 32000})
    assert len(plan.kernels) == 1 and plan.module is not None and not plan.derivation.theorem.conditional


@pytest.mark.slow
def test_the_gradient_of_grouped_queries_saves_no_scores() -> None:
    backward = cd.library.causal_grouped_query_attention.forward_and_backward().backward
    plan = cd.Program(backward).plan("H200", HEADS)
    assert [kernel.loops for kernel in plan.kernels][1].startswith("stream (r q), group b k x")
    assert [str(n) for _, n in plan.saved] == [str(4 * 2 * 8 * 4 * 4096)] and not plan.unproved
