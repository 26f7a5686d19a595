"""Statistics between kernels are fp32 unless a cast says otherwise: which arrays are, and where that is counted."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.ops import array_name
from catdiag.category.substitution import inline
from catdiag.cost.traffic import io
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.schedule.full_precision import statistics


def told(program: Diagram) -> list[str]:
    graph = inline(diagram_of(program)).graph
    found, wire = statistics(graph), len(graph.dom)
    names = []
    for node in graph.nodes:
        for k in range(len(node.box.cod)):
            names += [array_name(node.box, k)] if wire in found else []
            wire += 1
    return names


def of(signature: str, body: Any) -> list[str]:
    return told(cd.algorithm(signature, name="program")(body))


def test_results_of_reductions_are_statistics() -> None:
    log_sum = of("q x -> q", lambda S: cd.max(S, "x") + cd.log(cd.sum(cd.exp(S - cd.max(S, "x")), "x")))
    assert {"log [q]", "add [q]"} <= set(log_sum) and "exp [q x]" not in log_sum
    assert of("q v, q v -> q", lambda A, G: cd.einsum("q v, q v -> q", A, G)) == ["einsum [q]"]
    assert of("q v, q v -> q", lambda A, G: cd.sum(A * G, "v")) == ["sum[v] [q]"]
    assert of("q d, -> q", lambda X, eps: 1 / cd.sqrt(cd.mean(X * X, "d") + eps))[-1] == "div [q]"
    # Counts, of data and of positions.
    assert of("q x -> q", lambda S: cd.sum(cd.where(S > 0, 1, 0), "x")) == ["sum[x] [q]"]
    assert of("q -> q", lambda b: b / cd.sum(cd.where(cd.index("q") >= cd.index("q").rename(q="x"), 1, 0), "x")) == [
        "sum[x] [q]"
    ]
    # A bias along what is reduced does not hide the row.
    assert of("q x, x -> q", lambda S, b: cd.max(S + b, "x")) == ["max[x] [q]"]


def test_other_arrays_are_none() -> None:
    assert of("a b, b c -> a c", lambda A, B: cd.einsum("a b, b c -> a c", A, B)) == []
    # The same product, and distances, as a sum of what is made element by element.
    assert of("a b, b c -> a c", lambda A, B: cd.sum(A * B, "b")) == []
    assert of("q d, x d -> q x", lambda A, B: cd.sum((A - B) ** 2, "d")) == []
    assert of("q x -> q x", lambda S: S / cd.sum(S, "x")) == ["sum[x] [q]"]
    assert of("q x, q -> q", lambda S, b: cd.sum(S, "x") + b) == ["sum[x] [q]"]


@pytest.mark.parametrize("name", ["attention", "layer_norm_linear", "linear_cross_entropy", "qk_norm_attention"])
def test_loops_and_groups_keep_them(name: str) -> None:
    """The states of a streamed form are statistics where what they become is."""
    source = cd.library.get(name)
    axis = {"attention": "x", "linear_cross_entropy": "v", "qk_norm_attention": "x"}.get(name, "d")
    streamed = inline(fold_search.find(source.diagram, axis).diagram)
    graph = streamed.graph
    found, wire = statistics(graph), len(graph.dom)
    for node in graph.nodes:
        for k, ty in enumerate(node.box.cod):
            made = getattr(node.box.op, "components", ())
            if made:  # accumulators of products are as wide as what is summed in them
                assert (wire in found) == (len(ty.axes) == 1), (name, made[k])
            wire += 1


@cd.algorithm("t d -> t d")
def normed(X: Any) -> Any:
    return X / cd.sqrt(cd.sum(X * X, "t"))


def test_bytes_between_kernels() -> None:
    forms = [normed, normed.fuse(saved="sqrt [d]").diagram]
    for form in forms:
        for dtype, width in (("bf16", 4), ("fp8", 4), ("fp32", 4), ("fp64", 8)):
            found = {t.array: str(t.exact) for t in io(form, dtype=dtype, fused=False).traffic if t.direction == "save"}
            assert found["sqrt [d]"] == f"{width}*d"
            cd.testing.assert_counts_match(form, 1, dtype=dtype, fused=False)
    narrow = cd.algorithm("t d -> t d")(lambda X: X / cd.cast(cd.sum(X, "t"), "bf16"))
    found = {t.array: str(t.exact) for t in io(narrow, dtype="bf16", fused=False).traffic if t.direction == "save"}
    assert found["cast:bf16 [d]"] == "2*d"
    grouped = group.find(normed.diagram, ["d"])  # a result follows the dtype
    assert {t.array: str(t.exact) for t in io(grouped, dtype="bf16").traffic}["out"] == "2*d*t"


def test_plans_count_prove_and_write_statistics_in_fp32() -> None:
    plans = normed.plan("H200", {"t": 65536, "d": 1024}, several=True)
    first, second = plans.kernels
    assert plans.saved == (("sqrt [d]", 4 * 1024),) and plans.dtype == "bf16"
    assert dict(first.makes) == {"sqrt [d]": 4 * 1024}
    assert (first.dtype, second.dtype) == ("X bf16, out fp32", "X bf16, sqrt [d] fp32, out bf16")
    assert first.save_bytes == 4 * 1024 * (1 + first.tiles["p_t"])  # of the parts, and of the sum
    text = plans.code("triton")
    assert "((d,), torch.float32" in text and "torch.empty((t, d), dtype=torch.bfloat16" in text
    wide = normed.plan("H200", {"t": 65536, "d": 512}, dtype="fp32", several=True)
    assert wide.kernels[0].dtype == "fp32"


def test_statistics_that_are_given_have_the_type_that_is_said_of_them() -> None:
    scaled = cd.algorithm("t d, d -> t d")(lambda X, s: X / cd.sqrt(cd.sum(X * X, "t")) * s)
    dtype = {"X": "bf16", "s": "fp32", "out": "bf16"}
    plans = scaled.plan("H200", {"t": 65536, "d": 1024}, dtype=dtype, several=True)
    assert plans.saved == (("sqrt [d]", 4 * 1024),) and plans.dtype == "X bf16, s fp32, out bf16"
    assert plans.kernels[-1].dtype == "X bf16, sqrt [d] fp32, s fp32, out bf16"
    assert "((d,), torch.float32" in plans.code("triton")
    found = {t.array: str(t.exact) for t in io(plans.diagram, dtype=dtype).traffic if t.direction == "load"}
    assert found["s"].startswith("4*d") and found["X"] == "2*d*t"


def test_matrix_units_work_in_the_type_of_what_products_read() -> None:
    """Row sums that are given in fp32 do not make products of bf16 arrays products of fp32 ones."""

    @cd.algorithm("q d, x d, x v, q -> q v")
    def again(Q: Any, K: Any, V: Any, L: Any) -> Any:
        return cd.einsum("q x, x v -> q v", cd.exp(cd.einsum("q d, x d -> q x", Q, K) - L), V)

    sizes = {"q": 4096, "x": 4096, "d": 128, "v": 128}
    form = again.stream("x").group("q")
    named = dict.fromkeys(("Q", "K", "V", "out"), "bf16")
    plain, wide = form.plan("H200", sizes), form.plan("H200", sizes, dtype=named | {"L": "fp32"})
    assert wide.time_s == pytest.approx(plain.time_s, rel=0.02)
    assert wide.load_bytes - plain.load_bytes == 2 * sizes["q"]
    assert form.plan("H200", sizes, dtype=named | {"V": "fp32"}).time_s > 2 * plain.time_s
