"""Plans of several kernels: where a diagram is cut, that it is the quickest way, and what comes out of it."""

from __future__ import annotations

import copy
import functools
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.category.ops import Const, GroupOp, Index, SizeOf
from catdiag.draw.plots.roofline_plot import roofline_of
from catdiag.planner.cheapest_cuts import cheapest_cuts
from catdiag.planner.graph_segments import StageSequence
from catdiag.planner.kernel_candidates import PlanTarget
from catdiag.planner.multi_kernel_plan import Plan, one_kernel
from catdiag.planner.partition import PartitionSearch, searching
from catdiag.planner.roofline import roofline_bound
from catdiag.rewrite.local_sizes import sizes_in
from catdiag.schedule.live_ranges import is_view


@cd.algorithm("t d, d f, f o -> t o")
def layer(X: Any, U: Any, W: Any) -> Any:
    return cd.einsum("t f, f o -> t o", cd.tanh(cd.einsum("t d, d f -> t f", X, U)), W)


@cd.algorithm("t d, d f, f e, e o -> t e, t o")
def chain(X: Any, A: Any, B: Any, C: Any) -> Any:
    H = cd.tanh(cd.einsum("t d, d f -> t f", X, A))
    E = cd.exp(cd.einsum("t f, f e -> t e", H, B))
    E = E / cd.sum(E, "e")
    return E, cd.einsum("t e, e o -> t o", E, C)


NARROW = {"t": 65536, "d": 64, "f": 4096, "o": 64}
WIDE = {"t": 8192, "d": 4096, "f": 14336, "o": 4096}
LONG = {"t": 4096, "d": 2048, "f": 8192, "e": 1024, "o": 2048}


@functools.cache
def planned(name: str) -> Plan:
    diagram, sizes = {"layer": (layer, WIDE), "narrow layer": (layer, NARROW), "chain": (chain, LONG)}[name]
    return diagram.plan("H200", sizes)


def spans(search: PartitionSearch) -> list[list[tuple[int, int]]]:
    count = search.full_span[1]
    return [list(pairwise([0, *places, count])) for n in range(count) for places in combinations(range(1, count), n)]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3) | st.none(), min_size=15, max_size=15), st.integers(1, 5), st.integers(0, 2))
def test_the_cheapest_cuts_are_those_of_trying_all(amounts: list[int | None], count: int, between: int) -> None:
    cost = dict(zip(combinations(range(6), 2), amounts, strict=True))
    ways: dict[int, list[tuple[float, int, tuple[tuple[int, int], ...]]]] = {}
    for used in range(1, count + 1):
        for places in combinations(range(1, count), used - 1):
            way = tuple(pairwise([0, *places, count]))
            found = [amount for span in way if (amount := cost[span]) is not None]
            if len(found) == used:
                ways.setdefault(used, []).append((sum(found) + between * (used - 1), used, way))
    least = {used: (min(every)[0], min(every)[2]) for used, every in ways.items()}
    assert cheapest_cuts(count, cost.get, kernels=count, between=between) == least
    one = cheapest_cuts(count, cost.get, kernels=1, between=between)
    assert one == {used: way for used, way in least.items() if used == 1}
    best = min((min(every) for every in ways.values()), default=None)
    any_number = {} if best is None else {0: (best[0], best[2])}
    assert cheapest_cuts(count, cost.get, kernels=None, between=between) == any_number


@pytest.mark.parametrize(
    ("diagram", "sizes"),
    [(layer, WIDE), pytest.param(chain, LONG, marks=pytest.mark.slow), (chain, dict.fromkeys("tdfeo", 64))],
)
def test_the_way_taken_is_the_quickest_of_all(diagram: cd.category.Diagram, sizes: dict[str, int]) -> None:
    search = searching(diagram_of(diagram), "H200", sizes)
    way = search.chosen()
    looked_at = len(search._known)
    gap_s = search.target.chip.kernel_gap_s
    every = {tuple(w): sum(map(search.seconds, w)) + gap_s * (len(w) - 1) for w in map(tuple, spans(search))}
    least = min(every.values())
    assert search.total(way) == every[way]
    assert every[way] == (every[(search.full_span,)] if every[(search.full_span,)] <= 1.15 * least else least)
    assert looked_at <= len(search._known)
    for span in search._known:
        assert roofline_bound(search.row.segment_diagram(*span), search.target).seconds <= search.seconds(span) * (
            1 + 1e-9
        )


def test_a_wide_layer_is_two_kernels_and_says_why() -> None:
    found = planned("layer")
    assert [k.loops for k in found.kernels] == ["stream d, group t f", "stream f, group t o"]
    assert found.saved == (("tanh [t f]", 2 * 8192 * 14336),)
    assert found.time_s == pytest.approx(sum(k.time_s for k in found.kernels) + found.gap_s)
    assert found.flops == 2 * 8192 * 4096 * 14336 * 2
    one = found.alternatives[0]
    assert one.kernels == 1
    assert one.time_s is not None
    assert one.time_s > 10 * found.time_s
    assert one.flops > 2 * found.flops
    assert "times the FLOPs" in found.explanation()[0]
    assert found.tiles.keys() >= {"g_t", "g_t_2"}


def test_what_kernels_of_8_bits_save_for_others_has_16() -> None:
    found = layer.plan("H200", WIDE, dtype="fp8")
    assert found.backend == "triton", found.reason
    module = found.kernels[1].module
    assert module is not None
    assert [a.dtype for a in module.inputs] == ["float16", "float8_e4m3fn"]


@pytest.mark.slow
def test_what_does_not_fit_one_kernel_says_what_is_too_much() -> None:
    found = planned("chain")
    assert len(found.kernels) > 1
    one = found.alternatives[0]
    assert one.time_s is None
    assert found.explanation()[0].startswith("one kernel: nothing fits H200")
    assert "too much for 232,448 bytes of SMEM" in str(found)
    assert found.as_dict()["rivals"][0]["does_not_fit"] == one.misfit
    with pytest.raises(cd.errors.DoesNotFit, match="nothing fits H200"):
        searching(chain, "H200", LONG, cuts=0)


def test_a_narrow_layer_stays_in_one() -> None:
    found = planned("narrow layer")
    assert len(found.kernels) == 1
    assert found.saved == ()
    (several,) = found.alternatives
    assert several.saved == ("tanh [t f]",)
    assert several.time_s is not None
    assert several.time_s > found.time_s


@cd.algorithm("t d, t d, d o -> t o")
def gated(A: Any, B: Any, W: Any) -> Any:
    return cd.einsum("t d, d o -> t o", cd.tanh(A) * B, W)


def test_a_factor_is_made_once_where_making_it_again_in_every_tile_takes_longer() -> None:
    search = searching(gated.diagram, "H200", {"t": 8192, "d": 4096, "o": 4096}, stages=3)
    assert len(search.chosen()) == 2
    (one, *_) = search.alternatives(search.chosen())
    assert one.recomputed == ("mul [t d] in each of 16 tiles of o",)
    assert "products wait for mul [t d] in each of 16 tiles of o" in one.against(search.total(search.chosen()))
    assert "wait" not in one.against(2 * search.total(search.chosen()))  # no reason where it is no slower
    few = searching(gated.diagram, "H200", {"t": 16, "d": 4096, "o": 4096}, stages=3)
    assert len(few.chosen()) == 1


@pytest.mark.parametrize("name", ["layer", pytest.param("chain", marks=pytest.mark.slow)])
def test_it_is_one_proved_diagram_of_kernels_with_symbols_of_their_own(name: str) -> None:
    found = planned(name)
    diagram = found.source
    assert not found.theorem.conditional
    groups = []
    for box in found.diagram.boxes:
        if isinstance(box.op, GroupOp):
            groups.append(box.op)
        else:
            assert is_view(box) or isinstance(box.op, (Index, SizeOf, Const))
    assert len(groups) == len(found.kernels) > 1
    own = [sizes_in(g.body) - sizes_in(diagram) for g in groups]
    assert sum(map(len, own)) == len(set().union(*own)) == len(found.tiles)
    for kernel, symbols in zip(found.kernels, own, strict=True):
        assert set(kernel.tiles) == symbols
        assert kernel.derivation is not None
        assert not kernel.derivation.theorem.conditional
        assert kernel.shared_memory_bytes <= cd.hardware.H200.smem_per_block
    small = {"t": 5, "d": 4, "f": 7, "e": 3, "o": 2}
    rng = np.random.default_rng(0)
    given = [rng.normal(size=[small[a.name] for a in ty.axes]) for ty in diagram.dom]
    got = cd.Program(found.derivation).run(*given, tiles={name: 2 + k % 2 for k, name in enumerate(found.tiles)})
    want = cd.Program(diagram)(*given)
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_allclose(a, b)


def test_so_many_cuts_at_most() -> None:
    counts = [searching(layer.diagram, "H200", WIDE, cuts=n) for n in (0, 1)]
    assert all(len(s.chosen()) <= n + 1 for n, s in enumerate(counts))
    totals = [s.total(s.chosen()) for s in counts]
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ({"t": 1}, {}, "size of axis 'd' is missing"),
        ({**WIDE, "z": 1}, {}, "size 'z' is given"),
        ({**WIDE, "t": 0}, {}, "'t' has size 0"),
        (WIDE, {"cuts": -1}, "cuts is -1"),
        (WIDE, {"cuts": True}, "cuts is True"),
        (WIDE, {"dtype": "bf17"}, "unknown dtype 'bf17'"),
        (WIDE, {"stages": 0}, "stages is 0"),
    ],
)
def test_wrong_requests(sizes: dict[str, int], options: dict[str, Any], words: str) -> None:
    with pytest.raises(cd.errors.CatdiagError, match=words):
        layer.plan("H200", sizes, **options)


def test_one_box_is_not_cut() -> None:
    with pytest.raises(cd.errors.NotFusable, match="dot has one box at work: there is nothing to cut into several"):
        cd.library.get("dot").plan("H200", {"x": 1024}, several=True)


def test_what_is_derived_already_is_refused() -> None:
    with pytest.raises(cd.errors.CatdiagError, match="before it is derived"):
        searching(layer.stream("f").diagram, "H200", WIDE)


@cd.algorithm("t d, v d -> t")
def log_normaliser(H: Any, W: Any) -> Any:
    return cd.nn.logsumexp(cd.einsum("t d, v d -> t v", H, W), "v")


def test_a_width_that_does_not_fit_is_streamed_inside() -> None:
    found = log_normaliser.plan("H200", {"t": 8192, "v": 128256, "d": 4096})
    (kernel,) = found.kernels
    assert kernel.loops.startswith("stream v, in it d")
    assert found.saved == ()
    assert kernel.tiles["s_d"] < 4096
    assert kernel.shared_memory_bytes <= cd.hardware.H200.smem_per_block
    turns = -(-128256 // (kernel.tiles.get("p_v", 1) * kernel.tiles["s_v"])) * kernel.tiles.get("p_v", 1)
    rows = -(-8192 // kernel.tiles["g_t"])
    # H again for each block of v, W again for each tile of t.
    assert kernel.load_bytes >= 2 * 4096 * (turns * 8192 + rows * 128256)
    assert kernel.load_bytes <= 1.01 * 2 * 4096 * (turns * 8192 + rows * 128256)
    assert [s.name for s in found.derivation.steps][:2] == ["stream v", "stream d"]
    small = searching(log_normaliser.diagram, "H200", {"t": 8192, "v": 128256, "d": 64})
    assert small.chosen() == (small.full_span,)
    ways = small.schedules(small.full_span)
    assert isinstance(ways, list)
    assert "in it" not in str(ways[0])


def test_a_loop_that_few_groups_run_is_cut_in_parts() -> None:
    dot = cd.algorithm("x, x ->", name="dot")(lambda a, b: cd.sum(a * b, "x"))
    found = dot.plan("H200", {"x": 1 << 24})
    assert found.kernels[0].loops == "stream x, split x"
    assert found.tiles["p_x"] > 1


def test_sums_of_columns_are_added_up_in_runs_of_whole_rows() -> None:
    sums = cd.algorithm("t d -> d", name="sums")(lambda a: cd.sum(a, "t"))
    found = sums.plan("H200", {"t": 65536, "d": 4096}, dtype="bf16")
    assert found.kernels[0].loops == "group t" and "for tile in tl.range(pid * run" in found.code("triton")
    assert found.kernels[0].stages == 3 and not found.theorem.conditional
    rows = cd.algorithm("t d, d -> t", name="rows")(lambda a, b: cd.einsum("t d, d -> t", a, b))
    assert "group d" not in str(rows.plan("H200", {"t": 16384, "d": 8192}, dtype="bf16"))  # which would cut rows


@cd.algorithm("h q d, h x d, h x d -> h q d")
def causal(Q: Any, K: Any, V: Any) -> Any:
    scores = cd.where(cd.index("x") <= cd.index("q"), cd.einsum("h q d, h x d -> h q x", Q, K), -float("inf"))
    return cd.einsum("h q x, h x d -> h q d", cd.softmax(scores, "x"), V)


def test_masked_blocks_are_skipped_unasked() -> None:
    sizes = {"h": 32, "q": 4096, "x": 4096, "d": 128}
    found = causal.plan("H200", sizes)
    by_hand = causal.stream("x").group("h q").skip("x").plan("H200", sizes)
    assert found.kernels[0].loops == "stream x, group h q, skip x"
    assert found.time_s <= 1.03 * by_hand.time_s and not found.theorem.conditional


def test_a_window_whose_width_is_given_is_all_that_is_read() -> None:
    sizes = {"q": 65536, "x": 65536, "d": 128}
    window = cd.library.get("sliding_window_attention")
    searches = [searching(window.diagram, "H200", {**sizes, **given}) for given in ({}, {"width": 1024})]
    found = [search.schedules(search.full_span) for search in searches]
    whole, few = (str(timers[0]) for timers in found if isinstance(timers, list))
    assert (whole, few) == ("stream x, group q", "stream x, group q, skip x")
    assert 10 * searches[1].quickest() < searches[0].quickest()


def test_a_kernel_of_a_plan_runs_its_loop_in_parts() -> None:
    state = cd.algorithm("q d, x d, x v -> q v")(
        lambda Q, K, V: cd.einsum("q d, d v -> q v", Q, cd.einsum("x d, x v -> d v", K, V))
    )
    found = state.plan("H200", {"q": 65536, "x": 65536, "d": 64, "v": 64})
    assert found.kernels[0].loops == "stream x, split x, group d v" and len(found.kernels) == 2
    assert found.tiles["p_x"] > 1 and found.time_s < 25e-6
    assert found.backend == "triton" and not found.theorem.conditional


def test_what_is_made_element_by_element_takes_no_registers_of_its_own() -> None:
    gate = cd.algorithm("t d, d f -> t f")(
        lambda X, U: (lambda h: h * cd.nn.sigmoid(h))(cd.einsum("t d, d f -> t f", X, U))
    )
    plain = cd.algorithm("t d, d f -> t f")(lambda X, U: cd.einsum("t d, d f -> t f", X, U))
    sizes = {"t": 8192, "d": 4096, "f": 14336}
    both = [f.stream("d").group("t f").plan("H200", sizes, tiles={"g_t": 128, "g_f": 128}) for f in (gate, plain)]
    assert both[0].register_bytes == both[1].register_bytes == 4 * 128 * 128


def test_what_a_kernel_has_for_itself_is_asked_of_a_plan_of_one() -> None:
    one = planned("narrow layer")
    assert (one.stages, one.warps, one.limits) == (one.kernels[0].stages, one.kernels[0].warps, one.kernels[0].limits)
    assert one_kernel(one) is one.kernels[0] and "stages" in dir(one)
    two = planned("layer")
    names = r"the plan is of 2 kernels, and warps is of one: .*kernels\[0\] \(stream d, group t f: X, .* → tanh \[t f\]"
    with pytest.raises(AttributeError, match=names) as caught:
        _ = two.warps
    assert isinstance(caught.value, cd.errors.CatdiagError) and not hasattr(two, "stages")
    with pytest.raises(cd.errors.CatdiagError, match="and a roofline is of one"):
        roofline_of(two)
    with pytest.raises(AttributeError, match="no attribute 'shared'"):
        _ = one.shared
    assert two.proof.statement.startswith("kernel 1: SMEM") and "kernel 2: SMEM" in two.proof.statement
    assert two.tiles.keys() == {*two.kernels[0].tiles, *two.kernels[1].tiles}
    shown = two._repr_html_()
    assert shown is not None and shown.count("<details") == 2 and "kernel 2: stream f, group t o" in shown
    assert copy.copy(two) == two


def test_the_text_of_a_plan() -> None:
    plan = planned("narrow layer")
    assert plan.code() == plan.code("triton") == plan.written().text
    assert "def layer(" in plan.code("numpy")
    assert plan.code("pseudocode") == cd.Program(plan.derivation).code("pseudocode")
    with pytest.raises(cd.errors.CatdiagError, match="expected 'triton', 'numpy' or 'pseudocode'"):
        plan.code("cuda")  # type: ignore[arg-type]


def test_options_of_the_other_kind_are_named() -> None:
    with pytest.raises(cd.errors.CatdiagError, match=r"'tiles' is said of a kernel, and 'layer' is not in loops"):
        layer.plan("H200", WIDE, tiles={"g_t": 64})
    with pytest.raises(
        cd.errors.CatdiagError, match=r"'cuts' is said of how a diagram is cut .* 'layer' runs in loops"
    ):
        layer.stream("f").group("t o").plan("H200", WIDE, cuts=1)


def test_a_kernel_found_for_another_way_keeps_symbols_of_its_own() -> None:
    """Ways are derived one after another, and kernels of an earlier one are used again: no new one has their tiles."""

    @cd.algorithm("t d, d f, e f -> t e")
    def scaled(X: Any, A: Any, B: Any) -> Any:
        return cd.einsum("t f, e f -> t e", cd.tanh(cd.einsum("t d, d f -> t f", X, A)), B)

    search = searching(scaled.diagram, "H200", {"t": 256, "d": 128, "f": 128, "e": 128}, stages=2)
    row, source = search.row, sizes_in(scaled.diagram)
    assert len(row.stages) == 2
    assert search.seconds((1, 2))
    (later,) = search.kernels(((1, 2),))
    assert search.seconds((0, 1))
    both = search.kernels(((0, 1), (1, 2)))
    assert both[1].plan == later.plan
    own = [sizes_in(kernel.diagram) - source for kernel in both]
    assert sum(map(len, own)) == len(set().union(*own)) > 0


def test_a_kernel_may_need_a_size_that_none_of_its_arrays_has() -> None:
    @cd.algorithm("a d, d b, a b -> a b")
    def scaled(A: Any, B: Any, C: Any) -> Any:
        return cd.softmax(cd.einsum("a d, d b -> a b", A, B) + C, "b") * cd.sqrt(cd.size("d"))

    found = scaled.plan("H200", {"a": 256, "d": 128, "b": 512}, several=True)
    assert len(found.kernels) == 2 and found.backend == "triton", found.reason
    assert found.kernels[1].sizes == {"a": 256, "b": 512, "d": 128}


def test_each_step_is_said_as_it_begins() -> None:
    def two(A: Any, W: Any) -> Any:
        N = A / cd.sum(A, "x")
        return cd.einsum("q x, x d -> q d", N, W)

    said: list[str] = []
    sizes = {"q": 8192, "x": 4096, "d": 4096}
    cd.algorithm("q x, x d -> q d", name="two")(two).plan("H200", sizes, several=True, progress=said.append)
    assert said[0] == "timing stages 1 to 1 of 3 as one kernel"
    assert [step for step in said if step.startswith("proving")] == [
        "proving kernel 1 of 2, which makes N",
        "proving kernel 2 of 2, which makes einsum [q d]",
        "proving that the 2 kernels mean two together",
    ]


def test_a_kernel_that_is_much_slower_as_it_is_written_is_compared_with_others() -> None:
    """A norm after a product needs whole rows in a group, which the ideal model takes for free."""

    def mixed(X: Any, H: Any, W: Any, g: Any) -> Any:
        R = X + cd.einsum("b t e, s t -> b s e", H, W)
        return R, R * g / cd.sqrt(cd.mean(R * R, "e"))

    sizes = {"b": 32, "s": 196, "t": 384, "e": 768}
    program = cd.algorithm("b s e, b t e, s t, e -> b s e, b s e", name="mixed")(mixed)
    found = program.plan("H200", sizes)
    assert len(found.kernels) == 2 and found.time_s < 20e-6  # one kernel takes 62


@cd.algorithm("m k, n k -> m n")
def correlation(A: Any, B: Any) -> Any:
    a, b = A - cd.mean(A, "k"), B - cd.mean(B, "k")
    lengths = cd.sqrt(cd.sum(a * a, "k")), cd.sqrt(cd.sum(b * b, "k"))
    return cd.einsum("m k, n k -> m n", a / lengths[0], b / lengths[1])


def test_what_two_factors_are_made_of_in_turn_is_a_kernel_each() -> None:
    found = correlation.plan("H200", {"m": 4096, "n": 4096, "k": 8192})
    assert [kernel.loops for kernel in found.kernels] == ["group m", "group n", "stream k, group m n"]
    assert found.saved == (("div [m k]", 2 * 4096 * 8192), ("div [n k]", 2 * 4096 * 8192))
    A, B = np.random.default_rng(0).normal(size=(2, 3, 5))
    got = cd.Program(found.derivation).run(A, B, tiles=dict.fromkeys(found.tiles, 2))
    assert np.allclose(got, np.corrcoef(A, B)[:3, 3:])


def test_a_concatenation_is_a_kernel_in_groups_of_its_other_axes() -> None:
    joined = cd.algorithm("b x c, b y c -> b x+y c")(lambda A, B: cd.concat([A, B], "x+y"))
    found = joined.plan("H200", {"b": 8, "x": 64, "y": 1, "c": 128})
    assert [kernel.loops for kernel in found.kernels] == ["group b c"] and not found.theorem.conditional
    assert found.module is not None and found.hbm_bytes == 2 * 2 * 8 * 65 * 128


def test_a_softmax_alone_says_nothing_of_what_streams_its_axis() -> None:
    attention = cd.algorithm("b t d, b s d, b s d -> b t d")(
        lambda Q, K, V: cd.einsum(
            "b t s, b s d -> b t d", cd.softmax(cd.tanh(cd.einsum("b t d, b s d -> b t s", Q, K)), "s"), V
        )
    )
    found = searching(attention.diagram, "H200", {"b": 8, "t": 4096, "s": 4096, "d": 128})
    alone = found.seconds((0, 2))  # it makes weights for all keys, and the kernel with one stage more makes none
    assert alone > 2 * found.seconds((0, 3)) > 2 * found._least_s.get((0, 3), 0.0)


def test_reductions_over_a_concatenation_make_none() -> None:
    step = cd.algorithm("b q s, b q 1, b s d, b 1 d -> b q d")(
        lambda S, s, V, v: cd.einsum(
            "b q s+1, b s+1 d -> b q d", cd.exp(cd.concat([S, s], "s+1")), cd.concat([V, v], "s+1")
        )
    )
    found = searching(step.diagram, "H200", {"b": 64, "q": 4, "s": 8192, "d": 128})
    assert found.form is not None and found.form.action.by_terms == ("s+1",)


def test_parts_of_inputs_are_read_where_they_are() -> None:
    @cd.algorithm("t e, o+p e -> t o, e t")
    def halves(X: Any, W: Any) -> Any:
        return cd.einsum("t e, o e -> t o", X, cd.slice(W, "o+p", "o")), cd.rearrange(X, "t e -> e t")

    row = StageSequence(halves.diagram)
    assert [row.graph.nodes[places[-1]].box.name for places in row.stages] == ["einsum", "rename"]
    plan = halves.plan("H200", {"t": 512, "e": 256, "o": 256, "p": 256})
    assert not plan.theorem.conditional and plan.module is not None and plan.saved == ()
    X, W = np.random.default_rng(0).normal(size=(8, 4)), np.random.default_rng(1).normal(size=(6, 4))
    for got, want in zip(
        cd.Program(plan.derivation).run(X, W, sizes={"o": 2, "p": 4}), (X @ W[:2].T, X.T), strict=True
    ):
        assert np.allclose(got, want)


def test_functions_that_follow_each_other_are_one_stage() -> None:
    """Not where others read what is between them, nor where entries would be made many times over."""

    def rotated(W: Any, X: Any, c: Any, s: Any) -> Any:
        Q = cd.einsum("t e, h d e -> t h d", X, W)
        return Q * c + cd.tanh(Q) * s

    row = StageSequence(cd.algorithm("h d e, t e, t d, t d -> t h d")(rotated).diagram)
    assert [row.graph.nodes[places[-1]].box.name for places in row.stages] == ["einsum", "add"]

    def read_twice(A: Any, B: Any, C: Any) -> Any:
        S = A * B + C * C
        return S * C, cd.sum(S, "x")

    row = StageSequence(cd.algorithm("q x, q x, q x -> q x, q")(read_twice).diagram)
    assert [row.graph.nodes[places[-1]].box.name for places in row.stages] == ["add", "mul", "sum[x]"]

    def spread(a: Any, b: Any, C: Any) -> Any:
        return cd.exp(a / b) * C

    row = StageSequence(cd.algorithm("q, q, q x -> q x")(spread).diagram)
    assert len(row.stages) == 2


def test_rooflines_are_of_what_kernels_move_and_multiply() -> None:
    sizes = {"q": 256, "x": 512, "d": 64, "a": 128, "b": 256, "c": 64, "t": 128, "v": 4096}
    for name in ("attention", "matmul", "softmax", "cross_entropy"):
        program = cd.library.get(name)
        target = PlanTarget(cd.hardware.H200, sizes)
        bound, io = roofline_bound(program.diagram, target), program.io(dtype="bf16")
        bytes_moved = io.transfers.subs({s: sizes[str(s)] for s in io.transfers.free_symbols})
        assert bound.memory_s == pytest.approx(float(bytes_moved) / cd.hardware.H200.sustained_hbm_bytes_per_s)
        products = searching(program.diagram, "H200", target.sizes_of(program.diagram)).quickest()
        assert bound.seconds <= products * (1 + 1e-9)
