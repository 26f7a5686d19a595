"""What grouping finds, run in tiles with remainders against the diagram as written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.box_types import check
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.ops import FoldOp, GroupOp
from catdiag.category.resizing import resize
from catdiag.execute.interpreter import run
from catdiag.execute.size_inference import tile_bounds
from catdiag.measure.bench_case import evaluated
from catdiag.rewrite import group
from catdiag.rewrite.stream import fold_search
from catdiag.schedule.kernel_analysis import measure
from catdiag.util.errors import AxisError, NotGroupable

SIZES = {"q": 5, "x": 7, "d": 4, "h": 3, "k": 2, "r": 2, "b": 2, "y": 5}


def arrays(diagram: Diagram) -> list[Any]:
    """Random arrays for the inputs of a diagram."""
    rng = np.random.default_rng(1)
    return [rng.normal(size=[SIZES[str(a.size)] for a in ty.axes]) for ty in diagram.dom]


def agree(diagram: Diagram, grouped: Diagram, *symbols: str) -> None:
    """Asserts that a grouped diagram gives what the diagram does, with tiles of every kind."""
    check(grouped)
    assert (grouped.dom, grouped.cod, grouped.names) == (diagram.dom, diagram.cod, diagram.names)
    given = arrays(diagram)
    wanted = run(diagram, given)
    for tile in (1, 2, 3, 7):
        found = run(grouped, given, tiles=dict.fromkeys(symbols, tile))
        for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (wanted, found)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def attention() -> Diagram:
    return cd.library.get("attention")


def test_one_axis_and_several() -> None:
    matmul = cd.algorithm("q x, x d -> q d")(lambda A, B: cd.einsum("q x, x d -> q d", A, B))
    agree(matmul, group.find(matmul.diagram, ["q"]), "g_q")
    agree(matmul, group.find(matmul.diagram, ["q", "d"]), "g_q", "g_d")
    assert group.groupable(matmul.diagram) == ["q", "d"]


def test_after_a_stream_and_before() -> None:
    flash = group.find(fold_search.find(attention().diagram, "x").diagram, ["q"])
    agree(attention(), flash, "g_q", "s_x")
    first = fold_search.find(group.find(attention().diagram, ["q"]), "x").diagram
    agree(attention(), first, "g_q", "s_x")
    op = flash.boxes[-1].op
    assert isinstance(op, GroupOp) and [b.name for b in flash.boxes if isinstance(b.op, GroupOp)] == ["group[q]"]
    fold = next(b.op for b in op.body.boxes if isinstance(b.op, FoldOp))
    assert {str(a.size) for ty in fold.step.graph.wire_types() for a in ty.axes} == {"g_q", "s_x", "d"}
    assert {str(a.size) for ty in fold.unit.cod for a in ty.axes} == {"g_q", "d"}


def test_tiles_of_two_steps_make_one_group() -> None:
    heads = attention().weave("h")
    grouped = group.find(group.find(fold_search.find(heads.diagram, "x").diagram, ["q"]), ["h"])
    assert [b.op.tiles for b in grouped.boxes if isinstance(b.op, GroupOp)] == [(("q", "g_q"), ("h", "g_h"))]
    agree(heads, grouped, "g_q", "g_h", "s_x")
    with pytest.raises(NotGroupable, match="already"):
        group.find(grouped, ["q"])


def test_grouped_queries_share_keys() -> None:
    shared = cd.library.get("grouped_query_attention")
    grouped = group.find(fold_search.find(shared.diagram, "x").diagram, ["b", "k", "r", "q"])
    agree(shared, grouped, "g_b", "g_k", "g_r", "g_q", "s_x")


def test_positions_and_sizes_of_grouped_axes_come_from_outside() -> None:
    def causal(S, V):  # type: ignore[no-untyped-def]
        S = cd.where(cd.index("x") <= cd.index("q"), S, -1e9) / cd.size("q")
        return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V) * cd.index("q") / cd.size("d")

    diagram = cd.algorithm("q x, x d -> q d")(causal)
    for start in (diagram, fold_search.find(diagram_of(diagram), "x").diagram):
        for axes in (["q"], ["d"], ["q", "d"], ["d", "q"]):
            agree(diagram, group.find(diagram_of(start), axes), *(f"g_{a}" for a in axes))
    twice = group.find(group.find(diagram_of(diagram), ["d"]), ["q"])
    agree(diagram, twice, "g_q", "g_d")


def test_one_array_in_two_roles() -> None:
    def mixing(A):  # type: ignore[no-untyped-def]
        B = A.rename(x="y")
        return cd.einsum("x y, y d -> x d", cd.softmax(cd.einsum("x d, y d -> x y", A, B), "y"), B)

    diagram = cd.algorithm("x d -> x d")(mixing)
    agree(diagram, group.find(fold_search.find(diagram_of(diagram), "y").diagram, ["x"]), "g_x", "s_y")
    with pytest.raises(NotGroupable, match="sums over it"):
        group.find(diagram_of(diagram), ["d"])


def test_results_that_no_input_reaches() -> None:
    diagram = cd.algorithm("q -> q, q")(lambda a: (a, cd.index("q") * cd.size("q")))
    agree(diagram, group.find(diagram_of(diagram), ["q"]), "g_q")


def test_refusals_name_the_box() -> None:
    softmax = cd.algorithm("q x")(lambda a: cd.softmax(a, "x"))
    with pytest.raises(NotGroupable, match=r"max\[x\] reduces over it"):
        group.find(softmax.diagram, ["x"])
    with pytest.raises(NotGroupable, match="lacks it"):
        group.find(attention().diagram, ["x"])
    with pytest.raises(AxisError, match="expected one of q, d, x"):
        group.find(attention().diagram, ["z"])
    with pytest.raises(AxisError, match="twice"):
        group.find(attention().diagram, ["q", "q"])
    with pytest.raises(AxisError, match="at least one"):
        group.find(attention().diagram, [])
    Q = cd.category.Ty(cd.category.ArrayType((cd.Axis("q"),)))
    with pytest.raises(NotGroupable, match="uninterpreted"):
        group.find(cd.box("f", Q, Q).diagram, ["q"])
    assert group.groupable(softmax.diagram) == ["q"]
    turned = cd.box("f", Q, Q) >> cd.algorithm("q")(lambda a: a.rename(q="k"))
    with pytest.raises(NotGroupable, match="another name"):
        group.find(turned.diagram, ["k"])


def test_the_line_is_the_users() -> None:
    def centred(a):  # type: ignore[no-untyped-def]
        return a - cd.mean(a, "x")

    with pytest.raises(NotGroupable) as caught:
        group.find(cd.algorithm("q x")(centred).diagram, ["x"])
    assert "test_group.py" in str(caught.value)


def test_resize_reaches_into_loops_but_not_the_loops_own_axis() -> None:
    flash = fold_search.find(attention().diagram, "x").diagram
    small = resize(resize(flash, "q", 3), "x", "n")
    fold = next(b.op for b in small.boxes if isinstance(b.op, FoldOp))
    sizes = {str(a.size) for ty in fold.step.graph.wire_types() for a in ty.axes}
    assert sizes == {"3", "s_x", "d"}
    assert {a.size for ty in small.dom for a in ty.axes} == {3, "n", "d"}
    assert resize(small, "z", 2) == small


class TestArraysUnderTwoNames:
    def test_a_result_under_another_name_is_grouped_under_its_own(self) -> None:
        """As the cotangents of keys and of values, of which each has its axis: one kernel makes both."""

        def sums(S: Any, Q: Any, V: Any) -> Any:
            return cd.einsum("q x, q d -> x d", S, Q), cd.einsum("q x, q d -> x d", cd.exp(S), V).rename(x="y")

        grouped = cd.algorithm("q x, q d, q d")(sums).stream("q").group("x")
        assert not grouped.theorem.conditional and [str(ty) for ty in grouped.cod] == ["[x d]", "[y d]"]

    def test_what_is_computed_of_inputs_is_computed_under_each_name(self) -> None:
        """As a normalised array beside itself: a group makes its own rows of both."""

        def alike(a: Any, r: Any) -> Any:
            b = a / r
            return cd.einsum("q d, k d -> q k", b, cd.tanh(b).rename(q="k"))

        program = cd.algorithm("q d, q")(alike)
        grouped = program.group("q k")
        assert not grouped.theorem.conditional
        assert [box.name for box in grouped.boxes] == ["rename", "rename", "group[q k]"]
        given = np.random.default_rng(0).normal(size=(5, 3)), np.array([1.0, 2, -3, 4, 5])
        assert np.allclose(grouped.run(*given, tiles={"g_q": 2, "g_k": 3}), program(*given))

    def test_what_is_read_under_its_new_name_only_has_no_other(self) -> None:
        """As the keys of self-attention: a tile of the old name would be the whole array."""

        def keys(X: Any, W: Any) -> Any:
            return cd.einsum("x e, d e -> x d", X.rename(q="x"), W)

        program = cd.algorithm("q e, d e -> x d", name="keys")(keys)
        for made in (program.group("x d"), program.stream("e").group("x d")):
            (box,) = (box for box in made.boxes if isinstance(box.op, GroupOp))
            loops = [inner for inner in box.op.body.boxes if isinstance(inner.op, FoldOp)]
            assert all(len(loop.dom) == 2 for loop in loops)
            A, B = np.arange(12.0).reshape(4, 3), np.arange(6.0).reshape(2, 3)
            assert np.allclose(made.run(A, B, tiles={"g_x": 3, "g_d": 1}), A @ B.T)

    def gram(self) -> Diagram:
        return cd.algorithm("n i -> i j", name="gram")(
            lambda X: cd.einsum("n i, n j -> i j", X, X.rename(i="j")) - cd.mean(X, "n") * cd.mean(X.rename(i="j"), "n")
        )

    def arrays_agree(self, program: Diagram, form: Any, shape: tuple[int, ...]) -> None:
        given = np.random.default_rng(0).normal(size=shape)
        tiles = {name: k for k, name in enumerate(("g_i", "g_j", "s_n", "s_m"), 2) if name in tile_bounds(form.diagram)}
        np.testing.assert_allclose(form.run(given, tiles=tiles), program.run(given), rtol=1e-9, atol=1e-12)

    def test_a_loop_is_given_what_it_renamed(self) -> None:
        gram = self.gram()
        form = gram.stream("n").group("i j")
        assert not form.theorem.conditional
        assert "load X[n i], X[i→j][n j]" in form.code("pseudocode")
        self.arrays_agree(gram, form, (7, 5))

    def test_so_is_a_loop_in_a_loop_and_one_in_parts(self) -> None:
        program = cd.algorithm("n m i -> i j", name="program")(
            lambda X: cd.sum(cd.exp(cd.einsum("n m i, n m j -> n i j", X, X.rename(i="j")) / 9), "n")
        )
        form = program.stream("n").stream("m").group("i j")
        self.arrays_agree(program, form, (5, 4, 3))
        parts = self.gram().stream("n").split("n").group("i j")
        self.arrays_agree(self.gram(), parts, (7, 5))

    def test_a_tile_of_both_names_is_what_it_moves(self) -> None:
        load = self.gram().stream("n").group("i j").io().load
        # Each of (8/2)·(8/4) groups reads 2 columns of X, and 4 of X under its other name.
        assert evaluated(load, {"n": 6, "i": 8, "g_i": 2, "g_j": 4, "s_n": 3}) == 8 * 6 * (2 + 4)

    def test_what_was_computed_under_one_name_is_refused(self) -> None:
        program = cd.algorithm("i d -> i j", name="program")(
            lambda X: cd.sum(X, "d") * cd.sum(X, "d").rename(i="j") * cd.sum(X, "d")
        )
        with pytest.raises(NotGroupable, match=r"rename gives it another name.*: rename the inputs instead, or"):
            group.find(fold_search.find(diagram_of(program), "d").diagram, ["i"])


def test_an_array_that_a_loop_reads_under_a_new_name_only_is_loaded_under_that_only() -> None:
    keys = cd.algorithm("q e, e d -> x=q d")(lambda X, W: cd.einsum("x e, e d -> x d", X.rename(q="x"), W))
    grouped = keys.stream("e").group("x d")
    assert sorted(t.array for t in measure(grouped.diagram).kernels[0].transfers) == ["W", "X", "out"]
