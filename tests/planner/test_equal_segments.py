"""Parts of a program that are equal up to names are timed, proved and planned once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.planner import cut_search, kernel_drafts, partition
from catdiag.planner.equal_segments import EqualSegments, renamed_axes
from catdiag.planner.graph_segments import StageSequence
from catdiag.planner.kernel_candidates import PlanTarget, timed_schedules
from catdiag.planner.kernel_drafts import KernelDraft
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.prover.composites import OpenPart


def block(X: Any, U: Any, W: Any, axes: str) -> Any:
    """A product, a function at every index, and a product: a kernel each."""
    t, d, f, o = axes.split()
    hidden = cd.tanh(cd.einsum(f"{t} {d}, {d} {f} -> {t} {f}", X, U))
    return cd.einsum(f"{t} {f}, {f} {o} -> {t} {o}", hidden, W)


@cd.algorithm("t d, d f, f e, e g, g o -> t o")
def two(X: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
    return block(block(X, A, B, "t d f e"), C, D, "t e g o")


SIZES = {"t": 4096, "d": 2048, "f": 8192, "e": 2048, "g": 8192, "o": 2048}


@functools.cache
def planned() -> Plan:
    return two.plan("H200", SIZES)


def test_equal_blocks_under_other_names_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[Any] = []

    def counted(piece: Any, target: PlanTarget, enough_s: float) -> Any:
        timed.append(piece)
        return timed_schedules(piece, target)

    monkeypatch.setattr(cut_search, "timed_schedules", counted)
    search = partition.searching(two.diagram, "H200", SIZES)
    assert len(search.chosen()) == 4
    classes = [search._class_of(span)[0] for span in search.chosen()]
    assert classes[0] is classes[2] and classes[1] is classes[3] and classes[0] is not classes[1]
    assert len({id(search._class_of(span)[0]) for span in search._known}) == len(timed) < len(search._known)


def test_their_plan_is_proved_as_a_whole_and_means_the_program() -> None:
    found = planned()
    assert not found.theorem.conditional and found.backend == "triton", found.reason
    first, second, third, fourth = found.kernels
    assert (first.tiles, first.time_s) == (third.tiles, third.time_s)
    assert (second.tiles, second.time_s) == (fourth.tiles, fourth.time_s)
    assert (third.reads[1], fourth.reads[1]) == ("C", "D")
    assert third.loops == "stream e, group t g" and third.sizes == {"t": 4096, "e": 2048, "g": 8192}
    assert found.sizes == SIZES
    small = dict(zip(SIZES, (5, 4, 7, 3, 6, 2), strict=True))
    rng = np.random.default_rng(0)
    given = [rng.normal(size=[small[a.name] for a in ty.axes]) for ty in two.diagram.dom]
    got = cd.Program(found.derivation).run(*given, tiles={name: 2 + k % 2 for k, name in enumerate(found.tiles)})
    np.testing.assert_allclose(got, two(*given))


def test_loops_over_merged_axes_have_those_of_their_own_segment() -> None:
    def heads(X: Any, H: Any, W: Any, axes: str) -> Any:
        d, h, e, o = axes.split()
        made = cd.einsum(f"t {d}, {d} {h} {e} -> t {h} {e}", X, H)
        merged = cd.rearrange(made / cd.sum(made, e), f"t {h} {e} -> t ({h} {e})")
        return cd.einsum(f"t ({h} {e}), ({h} {e}) {o} -> t {o}", merged, W)

    @cd.algorithm("t a, a h e, (h e) b, b k c, (k c) o -> t o")
    def layers(X: Any, H: Any, W: Any, K: Any, P: Any) -> Any:
        return heads(heads(X, H, W, "a h e b"), K, P, "b k c o")

    plan = layers.plan("H200", {"t": 4096, "a": 1024, "h": 16, "e": 64, "b": 1024, "k": 16, "c": 64, "o": 1024})
    assert not plan.unproved and plan.kernels[-1].loops == "stream (k c), group t o"


def test_other_sizes_types_or_boxes_are_other_classes() -> None:
    row = StageSequence(two.diagram)
    pieces = [row.segment_diagram(k, k + 1) for k in range(len(row.stages))]

    def of(known: EqualSegments, k: int, dtype: str = "bf16", **sizes: int) -> Any:
        return known.of(pieces[k], PlanTarget(cd.hardware.H200, {**SIZES, **sizes}, dtype))[0]

    known, longer = EqualSegments(), EqualSegments()
    assert of(known, 0) is of(known, 2) is not of(known, 1)
    assert of(known, 0) is not of(known, 0, "fp16")
    assert of(longer, 0, g=4096) is not of(longer, 2, g=4096)


def test_a_kernel_that_is_not_proved_is_named_and_the_rest_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = planned()

    def refused(*_: Any) -> Any:
        raise OpenPart(2, "f(x) = g(x)")

    monkeypatch.setattr(kernel_drafts, "certify_composite", refused)
    found = two.plan("H200", SIZES)
    assert [k.time_s for k in found.kernels] == [k.time_s for k in whole.kernels]
    assert (found.time_s, found.hbm_bytes) == (whole.time_s, whole.hbm_bytes) and found.source == two.diagram
    assert found.unproved == ("kernel 2: it stopped at f(x) = g(x)",)
    text = str(found)
    assert "not proved kernel 2: it stopped at f(x) = g(x)" in text and "no theorem about the whole" in text
    with pytest.raises(cd.errors.NotFusable, match=r"not proved to mean two: kernel 2: it stopped at f\(x\) = g\(x\)"):
        _ = found.theorem
    with pytest.raises(cd.errors.CatdiagError, match="not proved: kernel 2"):
        found.code("triton")
    assert found.as_dict()["not_proved"] == list(found.unproved) and whole.as_dict()["not_proved"] == []


def test_a_schedule_that_is_not_proved_is_taken_only_where_no_other_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_proof(*_: Any) -> Any:
        raise cd.errors.NotStreamable("the loop over 'd' was not proved: it stopped at a = b")

    monkeypatch.setattr("catdiag.planner.emitted_kernels.proved", lambda *_: None)
    monkeypatch.setattr(KernelDraft, "derivation", no_proof)
    found = two.plan("H200", SIZES)
    assert len(found.kernels) == 4 and found.time_s > 0
    assert [said.split(":")[0] for said in found.unproved] == ["kernel 1", "kernel 2", "kernel 3", "kernel 4"]
    assert "it stopped at a = b" in str(found) and "proved     " not in str(found)


def test_a_kernel_is_proved_once_the_way_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catdiag.planner.emitted_kernels.SLOWER", 0.0)  # all are compared as they are written
    steps = list[str]()
    found = two.plan("H200", SIZES, progress=steps.append)
    assert not found.unproved
    assert sum(step.startswith("proving kernel") for step in steps) == 2, "kernels are equal in pairs"


@cd.algorithm("t d, d g, g e -> t e")
def forms(X: Any, A: Any, B: Any) -> Any:
    """A product of three arrays, quicker in another order."""
    return cd.einsum("t d, d e -> t e", cd.tanh(X), cd.einsum("d g, g e -> d e", A, B))


FORMS = {"t": 4096, "d": 4096, "g": 16, "e": 4096}


def test_a_form_that_is_proved_is_preferred_to_a_quicker_one_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    quickest = forms.plan("H200", FORMS)
    assert [name for name, _ in quickest.saved] == ["einsum [t g]"] and not quickest.unproved

    def refused(*_: Any) -> Any:
        raise OpenPart(1, "f(x) = g(x)")

    monkeypatch.setattr(kernel_drafts, "certify_through", refused)
    found = forms.plan("H200", FORMS)
    assert not found.unproved and not found.theorem.conditional and found.module is not None
    assert found.time_s > quickest.time_s
    monkeypatch.setattr(kernel_drafts, "certify_composite", refused)
    (said,) = forms.plan("H200", FORMS).unproved
    assert said.endswith("it stopped at f(x) = g(x)")


def test_kernels_that_are_proved_in_one_part_are_named_together() -> None:
    assert [kernel_drafts.kernels_of_part((2, 3), part) for part in (1, 2, 3)] == [
        "kernels 1 to 2 together", "kernel 3", "the results that are views",
    ]  # fmt: skip


@cd.algorithm("k r q d, k q d, k q v, e k r v -> q e")
def attended(Q: Any, K: Any, V: Any, W: Any) -> Any:
    """Causal attention of grouped queries, and a product that sums over heads."""
    K, V = (A.rename(q="x") for A in (K, V))
    S = cd.einsum("k r q d, k x d -> k r q x", Q, K)
    S = cd.where(cd.index("x") <= cd.index("q"), S, -float("inf"))
    A = cd.einsum("k r q x, k x v -> k r q v", cd.softmax(S, "x"), V)
    return cd.einsum("k r q v, e k r v -> q e", A, W)


def test_causal_attention_before_a_product_over_heads_is_proved() -> None:
    sizes = {"k": 8, "r": 4, "q": 8192, "d": 128, "v": 128, "e": 4096}
    found = attended.plan("H200", sizes, cuts=1)
    assert not found.unproved and not found.theorem.conditional and found.module is not None


def test_a_kernel_that_cannot_be_written_is_taken_only_where_no_other_way_is() -> None:
    @cd.algorithm("b e, e k d -> b k d")
    def shifted(X: Any, W: Any) -> Any:
        """A product whose entries are then read at other positions, which one kernel of Triton's cannot."""
        Y = cd.einsum("b e, e k d -> b k d", X, W)
        return Y + cd.shift(Y, "d", 3)

    sizes = {"b": 16, "e": 4096, "k": 8, "d": 64}
    one, found = shifted.plan("H200", sizes, cuts=0), shifted.plan("H200", sizes)
    assert one.module is None and "at other positions" in one.reason
    assert found.module is not None and len(found.kernels) == 2 and found.time_s > one.time_s
    assert not found.unproved and not found.theorem.conditional


def test_names_of_the_parts_of_a_product_axis_are_put_where_the_product_is_whole() -> None:
    whole = cd.algorithm("(a b) k")(lambda W: cd.exp(W)).diagram
    assert {axis.name for axis in renamed_axes(whole, {"a": "c", "b": "d", "k": "k"})} == {"a", "b", "k"}
