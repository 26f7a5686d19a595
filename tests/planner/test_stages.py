"""Stages: cuts that save no less than others are none."""

from __future__ import annotations

from functools import partial
from typing import Any

import catdiag as cd
from catdiag.planner.graph_segments import StageSequence
from catdiag.rewrite.merge_axes import merged_product

SIZES = {"b": 2, "t": 1024, "d": 512, "f": 512}


def stages(row: StageSequence) -> list[list[str]]:
    return [[row.graph.nodes[place].box.name for place in stage] for stage in row.stages]


def layer_norm(X: Any, g: Any, b: Any) -> Any:
    C = X - cd.mean(X, "e")
    return C / cd.sqrt(cd.mean(C * C, "e") + 1) * g + b


def test_functions_with_weights_go_with_what_they_read() -> None:
    def body(X: Any, g: Any, b: Any, W: Any) -> Any:
        return cd.einsum("q e, f e -> q f", layer_norm(X, g, b), W)

    row = StageSequence(cd.algorithm("q e, e, e, f e -> q f")(body).diagram)
    mean, scale = ["sum[e]", "div"], ["mul", "sum[e]", "div", "add", "sqrt"]
    assert stages(row) == [mean, ["sub"], scale, ["div", "mul", "add"], ["einsum"]]


def test_a_weight_before_a_norm_goes_with_the_norm() -> None:
    def body(X: Any, g: Any, W: Any) -> Any:
        return cd.einsum("q e, f e -> q f", X * g / cd.sqrt(cd.mean(X * X, "e")), W)

    row = StageSequence(cd.algorithm("q e, e, f e -> q f")(body).diagram)
    assert stages(row) == [["mul", "sum[e]", "div", "sqrt"], ["mul", "div"], ["einsum"]]


def test_a_bias_is_no_part_of_a_product_and_an_activation_is() -> None:
    """Torch may compute a product that has nothing after it."""

    def body(X: Any, W: Any, b: Any, V: Any) -> Any:
        H = cd.tanh(cd.einsum("q e, f e -> q f", X, W) + b)
        return cd.einsum("q f, o f -> q o", H, cd.exp(V))

    row = StageSequence(cd.algorithm("q e, f e, f, o f -> q o")(body).diagram)
    assert stages(row) == [["einsum"], ["add", "tanh"], ["exp", "einsum"]]


def test_what_is_narrower_than_its_array_may_be_saved() -> None:
    def body(X: Any) -> Any:
        H = cd.tanh(cd.sum(X, "d"))
        return cd.sum(H, "e"), cd.sum(cd.cast(H, "fp8"), "e")

    row = StageSequence(cd.algorithm("q e d -> q, q")(body).diagram)
    assert [name.partition(":")[0] for name in stages(row)[2]] == ["cast"]


def test_summed_axes_of_the_only_product_of_a_kernel_of_several_are_merged() -> None:
    def body(X: Any, W: Any, G: Any) -> Any:
        H = cd.einsum("b t d, d f -> b t f", X, W)
        return H, cd.einsum("b t d, b t f -> d f", cd.tanh(X), G)

    program = cd.algorithm("b t d, d f, b t f -> b t f, d f")(body)
    row = StageSequence(program.diagram, arranged=partial(merged_product, sizes=SIZES, enough=512 * 512))
    assert stages(row) == stages(StageSequence(program.diagram)) == [["einsum"], ["tanh", "einsum"]]
    assert row.segment_diagram(0, 1) == row.segment(0, 1).diagram
    merged = row.segment_diagram(1, 2)
    assert [box.name for box in merged.boxes] == ["merge[(b t)]", "tanh", "merge[(b t)]", "einsum"]
    assert row.segment_diagram(0, 2) == row.segment(0, 2).diagram  # all of it is planned as it was written
    assert all(other.arranged is row.arranged for other in row.reordered(12))


def test_a_gradient_of_weights_is_one_loop_beside_a_product_that_keeps_its_batch() -> None:
    def body(Q: Any, K: Any, X: Any, G: Any) -> Any:
        P = cd.softmax(cd.einsum("b q d, b k d -> b q k", Q, K), "k")
        return cd.einsum("b q k, b k d -> b q d", P, K), cd.einsum("b q e, b q f -> e f", X, cd.exp(G))

    program = cd.algorithm("b q d, b k d, b q e, b q f -> b q d, e f")(body)
    for side, loop in ((2048, "stream (b q), group e f"), (512, "stream q, group e f b")):  # few tiles: groups add
        plan = program.plan("H200", {"b": 4, "q": 1024, "k": 1024, "d": 64, "e": side, "f": side})
        assert plan.theorem is not None and not plan.theorem.conditional and not plan.unproved
        assert plan.kernels[-1].loops == loop
