"""`.skip`: what is left out of a loop changes nothing, and what would change something is not left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.diagram import Graph, Node, of_graph
from catdiag.category.functor import weave
from catdiag.category.integer_polynomial import symbol
from catdiag.category.ops import Box, FoldOp
from catdiag.category.types import ArrayType, Axis
from catdiag.execute.interpreter import run
from catdiag.frontend.builder import program
from catdiag.kernel.checker import Checker
from catdiag.rewrite import group
from catdiag.rewrite.skip import find
from catdiag.rewrite.stream import fold_search
from catdiag.simulate.machine import count
from catdiag.solvers.z3 import Z3


@cd.algorithm("q, x, x -> q")
def below(a, b, c):
    return cd.sum(cd.where(cd.index("x") <= cd.index("q"), a * b * c, 0), "x")


@cd.algorithm("q, x, int[] -> q")
def window(a, b, w):
    kept = (cd.index("x") <= cd.index("q")) & (cd.index("q") - cd.index("x") < w)
    return a * cd.sum(cd.where(kept, b * b, 0), "x")


@cd.algorithm("q, x, int[] -> q")
def around(a, b, w):
    return a * cd.sum(cd.where(cd.abs(cd.index("q") - cd.index("x")) <= w, b, 0), "x")


@cd.algorithm("q, x, int[] -> q")
def first_or_below(a, b, p):
    kept = (cd.index("x") < p) | ~(cd.index("q") < cd.index("x"))
    return a + cd.sum(cd.where(kept, b, 0), "x")


@cd.algorithm("q, x, int[q], int[x] -> q")
def same(a, b, i, j):
    return a + cd.sum(cd.where(i == j, b, 0), "x")


@cd.algorithm("q, x, bool[q x] -> q")
def chosen(a, b, m):
    return a + cd.sum(cd.where(m & (cd.index("x") < cd.index("q")), b, 0), "x")


@cd.algorithm("q, x, int[q] -> q")
def chunks(a, b, i):
    kept = (cd.index("q") // 4 == (cd.index("x") + 1) // 4) | (cd.index("x") // 3 <= i) & (cd.index("x") // 5 == 0)
    return a + cd.sum(cd.where(kept & (cd.index("x") <= cd.index("q")), b, 0), "x")


CASES = {d.title: d for d in (below, window, around, first_or_below, same, chosen, chunks)}


def arrays(diagram, sizes, generator):
    """Small whole numbers, so that sums are exact."""
    found = []
    for ty in diagram.dom:
        shape = tuple(sizes[n] for n in ty.names)
        if ty.element == "bool":
            found.append(generator.random(shape) < 0.3)
        else:
            found.append(generator.integers(0 if ty.element == "int" else -4, 4, shape))
    return found


@pytest.fixture(scope="module")
def derived():
    return {name: diagram.stream("x").skip("x") for name, diagram in CASES.items()}


def fold_of(diagram):
    return next(box.op for box in diagram.boxes if isinstance(box.op, FoldOp))


@pytest.mark.parametrize(("name", "extent", "live"), [
    ("below", True, False), ("window", True, False), ("around", True, False), ("first_or_below", True, False),
    ("same", False, True), ("chosen", True, True), ("chunks", True, True),
])  # fmt: skip
def test_how(derived, name, extent, live):
    fold = fold_of(derived[name].diagram)
    assert (fold.bounds is not None, fold.tests_blocks) == (extent, live)
    assert not derived[name].theorem.conditional
    with Z3() as ask:
        assert Checker(ask).check(derived[name].theorem.certificate).statement == derived[name].theorem.statement


def test_without_tests_all_blocks_between_the_bounds_are_run():
    given_ = arrays(chosen, {"q": 7, "x": 9}, np.random.default_rng(0))
    found = chosen.stream("x").skip("x", tested=False)
    fold = fold_of(found.diagram)
    assert fold.bounds is not None and not fold.tests_blocks and not found.theorem.conditional
    assert [step.name for step in found.steps] == ["stream x", "skip x by bounds"]
    np.testing.assert_array_equal(found.run(*given_, tiles={"s_x": 2}), run(chosen, given_))
    with pytest.raises(cd.errors.NotStreamable, match="the loop over 'x' has no bounds"):
        same.stream("x").skip("x", tested=False)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_blocks_left_out_change_nothing(derived, name, data):
    sizes = {n: data.draw(st.integers(1, 9), label=n) for n in "qx"}
    tiles = {"s_x": data.draw(st.integers(1, 5), label="s_x")}
    given_ = arrays(CASES[name], sizes, np.random.default_rng(data.draw(st.integers(0, 99))))
    np.testing.assert_array_equal(derived[name].run(*given_, tiles=tiles), run(CASES[name], given_))


def test_in_groups(derived):
    grouped = derived["below"].group("q")
    later = below.stream("x").group("q").skip("x")
    given_ = arrays(below, {"q": 7, "x": 9}, np.random.default_rng(0))
    for derivation in (grouped, later):
        found = derivation.run(*given_, tiles={"s_x": 2, "g_q": 3})
        np.testing.assert_array_equal(found, run(below, given_))
    assert grouped.diagram == later.diagram


@pytest.mark.parametrize("name", CASES)
def test_in_parts(derived, name):
    """Parts of which no block is run have nothing to be merged."""
    split = derived[name].split("x")
    given_ = arrays(CASES[name], {"q": 5, "x": 13}, np.random.default_rng(2))
    for parts in (1, 2, 5, 13):
        found = split.run(*given_, tiles={"s_x": 2, "p_x": parts})
        np.testing.assert_array_equal(found, run(CASES[name], given_))


def test_a_first_tile_of_which_nothing_is_run():
    def earlier(a, b):
        return cd.sum(cd.where(cd.index("x") < cd.index("q"), b, 0), "x")

    before = program([ArrayType((Axis("q"),)), ArrayType((Axis("x"),))], earlier, ("a", "b"))
    skipped = find(group.find(fold_search.find(before, "x").diagram, ["q"]), "x")
    given = [np.zeros(4), np.array([0.5, 0.25, 0.125, 3])]
    assert np.allclose(run(skipped, given, {"g_q": 1, "s_x": 1}), [0, 0.5, 0.75, 0.875])


def test_half_is_loaded():
    sizes, tiles = {"q": 64, "x": 64}, {"s_x": 4, "g_q": 4}
    grouped = below.stream("x").group("q")
    whole, less = (count(d.diagram, sizes, tiles) for d in (grouped, grouped.skip("x")))
    # Of 16 tiles of rows, the k-th needs k + 1 of 16 blocks of both streamed arrays.
    assert whole.load - less.load == 2 * 4 * (16 * 16 - 16 * 17 // 2)
    numbers = {symbol(name): number for name, number in {**sizes, **tiles}.items()}
    assert grouped.skip("x").io().load.subs(numbers) == less.load


def changed(diagram, **guides):
    """A diagram with other guides for its loop: functions of the loop's inputs."""
    graph = diagram.graph
    nodes = []
    for node in graph.nodes:
        op = node.box.op
        if isinstance(op, FoldOp):
            names = op.state.input_names
            made = {k: program(list(op.state.dom), f, names) for k, f in guides.items()}
            op = replace(op, **made)
        nodes.append(Node(Box(op, node.box.dom, node.box.cod, node.box.line), node.inputs))
    return of_graph(Graph(graph.dom, tuple(nodes), graph.outputs), diagram.cod, diagram.names, diagram.title)


def proved(derivation, diagram):
    from catdiag.rewrite.derivation import NotProved

    try:
        derivation.derivation.prove(diagram)
    except NotProved:
        return False
    return True


@pytest.mark.parametrize(("holds", "bounds"), [
    (True, lambda i, n: (0 * i, i + 1)),
    (True, lambda i, n: (0 * i - 3, i + 7)),
    (True, lambda i, n: (0 * i, 0 * i + n)),
    (False, lambda i, n: (0 * i, i)),  # the diagonal is dropped
    (False, lambda i, n: (0 * i + 1, i + 1)),  # the first position is
    (False, lambda i, n: (i, i + 1)),
    (False, lambda i, n: (0 * i, 0 * i)),
])  # fmt: skip
def test_false_extents_are_not_proved(holds, bounds):
    start = below.stream("x").skip("x")
    names = fold_of(start.diagram).state.input_names

    def extent(*given_):
        at = dict(zip(names, given_, strict=True))
        return bounds(at["index_q"], cd.size("x"))

    assert proved(start, changed(start.diagram, bounds=extent)) == holds


@pytest.mark.parametrize(("holds", "wanted"), [
    (True, lambda i, j: i == j),
    (True, lambda i, j: i <= j),
    (False, lambda i, j: i < j),
    (False, lambda i, j: (i == j) & (i < 3)),
    (False, lambda i, j: i == j + 1),
])  # fmt: skip
def test_false_guides_are_not_proved(holds, wanted):
    start = same.stream("x")
    names = fold_of(start.diagram).state.input_names

    def live(*given_):
        at = dict(zip(names, given_, strict=True))
        return wanted(at["i"], at["j"])

    assert proved(start, changed(start.diagram, is_live=live)) == holds


def test_nothing_to_leave_out():
    dot = cd.algorithm("x, x ->")(lambda a, b: cd.sum(a * b, "x") + cd.sum(cd.where(cd.index("x") < 3, a, 0), "x"))
    with pytest.raises(cd.errors.NotStreamable, match=r"sum\d takes every element"):
        dot.stream("x").skip("x")
    with pytest.raises(cd.errors.AxisError, match="no loop runs over axis 'y'"):
        dot.stream("x").skip("y")
    with pytest.raises(cd.errors.AxisError, match="stream"):
        find(dot.diagram, "x")


def test_a_weaved_loop_leaves_out_what_it_did(derived):
    woven = weave(derived["below"].diagram, "h", ["a"])
    generator = np.random.default_rng(1)
    a, b, c = generator.integers(-4, 4, (3, 5)), generator.integers(-4, 4, 8), generator.integers(-4, 4, 8)
    expected = np.stack([run(below, (row, b, c)) for row in a])
    np.testing.assert_array_equal(run(woven, (a, b, c), {"s_x": 3}), expected)


@pytest.fixture(scope="module")
def streamed():
    return cd.algorithm("q x, x -> q", name="total")(
        lambda s, a: cd.sum(cd.where(cd.index("x") <= cd.index("q"), cd.exp(s) * a, 0), "x")
    ).stream("x")


@pytest.mark.parametrize("guides", [
    {"bounds": lambda: (0, cd.index("q") + 1)},
    {"bounds": lambda index_q: (0, index_q + 4)},
    {"live": lambda: cd.index("x") <= cd.index("q")},
    {"live": lambda index_q: cd.index("x") <= index_q + 1},
    {"live": lambda: cd.index("x") <= cd.index("q"), "bounds": lambda: (0, cd.index("q") + 2)},
])  # fmt: skip
def test_what_a_user_leaves_out_is_proved(streamed, guides):
    skipped = streamed.skip("x", **guides)
    assert not skipped.theorem.conditional
    given_ = np.random.default_rng(3).standard_normal((5, 9)), np.arange(9.0)
    np.testing.assert_allclose(skipped.run(*given_, tiles={"s_x": 2}), run(streamed.source, given_), rtol=1e-14)


@pytest.mark.parametrize(("guides", "blocks"), [
    ({"bounds": lambda: (0, cd.index("q"))}, (1,)),
    ({"bounds": lambda: (1, cd.index("q") + 1)}, (1,)),
    ({"bounds": lambda: (0, 2)}, (1, 1, 1)),
    ({"live": lambda: cd.index("x") < cd.index("q")}, (1,)),
])  # fmt: skip
def test_what_a_user_leaves_out_and_matters_is_refuted(streamed, guides, blocks):
    with pytest.raises(cd.Refuted, match="skipping blocks of 'x' changes total") as found:
        streamed.skip("x", **guides)
    example = found.value.counterexample
    assert example.blocks_of == blocks and example.lhs != example.rhs
    assert "in blocks [0, 1)" in example.split


@pytest.mark.parametrize(("guides", "error", "words"), [
    ({"bounds": lambda z: (0, z)}, cd.errors.SignatureError, "takes 'z': expected some of s, a, index_x, index_q"),
    ({"bounds": lambda: 3}, cd.errors.TypeMismatch, "integers lo and hi"),
    ({"bounds": lambda a: (0, a)}, cd.errors.TypeMismatch, "free of axis 'x'"),
    ({"live": lambda a: a}, cd.errors.TypeMismatch, "an array of truth values"),
    ({"bounds": (0, 3)}, cd.errors.TypeMismatch, r"bounds of the loop over 'x' is \(0, 3\): expected a function"),
    ({"live": "q"}, cd.errors.TypeMismatch, "live of the loop over 'x' is 'q': expected a function"),
])  # fmt: skip
def test_guides_that_do_not_fit(streamed, guides, error, words):
    with pytest.raises(error, match=words):
        streamed.skip("x", **guides)


def test_a_size_in_an_extent_is_that_of_the_whole_axis(streamed):
    whole = streamed.skip("x", bounds=lambda: (0, cd.size("x") + cd.size("q")))
    assert "meets the range from 0 to x + q:" in whole.code("pseudocode")


@pytest.mark.parametrize("name", ["erf", "sin", "sign", "ceil", "gelu"])
def test_functions_that_are_0_at_0_keep_a_mask(name: str) -> None:
    function = getattr(cd, name, None) or getattr(cd.nn, name)
    masked = cd.algorithm("q x, x d -> q d", name="masked")(
        lambda S, V: cd.einsum(
            "q x, x d -> q d", function(cd.where(cd.index("x") <= cd.index("q"), S, 0)), V)
    )  # fmt: skip
    skipped = masked.stream("x").skip("x")
    S, V = np.random.default_rng(0).standard_normal((2, 5, 5))
    np.testing.assert_allclose(skipped.run(S, V, sizes={"s_x": 2}), masked(S, V), atol=1e-12)
    assert skipped.theorem


def test_a_function_that_is_not_0_at_0_keeps_no_mask() -> None:
    with pytest.raises(cd.errors.NotStreamable, match="cannot skip"):
        cd.algorithm("q x, x d -> q d")(
            lambda S, V: cd.einsum("q x, x d -> q d", cd.cos(cd.where(cd.index("x") <= cd.index("q"), S, 0)), V)
        ).stream("x").skip("x")


def test_bounds_of_a_mask_that_says_what_is_hidden() -> None:
    """As PyTorch's positions are read: a difference is a sum with a multiple, and the mask is a disjunction."""

    def body(a: object, b: object) -> object:
        q, x = cd.index("q"), cd.index("x")
        return a * cd.sum(cd.where((x > q) | (q + x * -1 >= 3), 0, b * b), "x")

    skipped = cd.algorithm("q, x -> q")(body).stream("x").skip("x")
    (loop,) = (box.op for box in skipped.diagram.boxes if isinstance(box.op, FoldOp))
    assert loop.bounds is not None and not loop.tests_blocks
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=7), rng.normal(size=9)
    for block in (1, 2, 4):
        found = run(skipped.diagram, [a, b], sizes={"s_x": block})
        wanted = [a[i] * sum(b[j] ** 2 for j in range(max(0, i - 2), i + 1)) for i in range(7)]
        np.testing.assert_allclose(found, wanted)
