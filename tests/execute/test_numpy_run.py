"""Diagrams on arrays: sizes, element types, loops in real blocks and tiles, memory, and mistakes."""

import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag import testing
from catdiag.category.diagram import of_box
from catdiag.category.functor import weave
from catdiag.category.ops import Box, FoldOp, Generic, GroupOp, Map
from catdiag.category.scalars import Apply
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.execute.interpreter import run
from catdiag.execute.named_arrays import NamedArray, contract
from catdiag.execute.size_inference import tile_bounds
from catdiag.frontend.builder import program
from catdiag.frontend.tracing import running
from catdiag.util.errors import SizeError, TypeMismatch

rng = np.random.default_rng(11)
q, d, x = map(Axis, "qdx")
xs = Axis("x", "s_x")
INF = float("inf")


def array(*axes: Axis, element: str = "real") -> ArrayType:
    return ArrayType(axes, element)


def online(query: tuple[Axis, ...]) -> cd.category.Diagram:
    """Softmax contraction Σ_x softmax(QKᵀ) V with a running maximum, for queries over some axes."""
    Q, K, V = array(*query, d), array(x, d), array(x, d)
    Kb, Vb = array(xs, d), array(xs, d)
    rows = " ".join(a.name for a in query)
    m, length, o = array(*query, element="extended"), array(*query), array(*query, d)
    layout = m.axes

    def unit() -> Any:
        trace = running()
        return (
            trace.rename(trace.lift(-INF, True), {}, layout),
            trace.rename(trace.lift(0), {}, layout),
            trace.rename(trace.lift(0), {}, (*layout, d)),
        )

    def element(Q: Any, K: Any, V: Any) -> Any:
        s = cd.einsum(f"{rows} d, x d -> {rows} x", Q, K)
        top = cd.maximum(cd.max(s, "x"), -INF)
        e = cd.exp(s - top)
        return top, cd.sum(e, "x"), cd.einsum(f"{rows} x, x d -> {rows} d", e, V)

    def merge(m: Any, n: Any, o: Any, m2: Any, n2: Any, o2: Any) -> Any:
        top = cd.maximum(m, m2)
        a, b = cd.exp(m - top), cd.exp(m2 - top)
        return top, a * n + b * n2, a * o + b * o2

    def step(m: Any, n: Any, o: Any, Q: Any, K: Any, V: Any) -> Any:
        return merge(m, n, o, *element(Q, K, V))

    states = (m, length, o)
    fold = FoldOp(
        "x",
        "s_x",
        program([], unit),
        program([*states, Q, Kb, Vb], step),
        program([*states, *states], merge),
        program([Q, Kb, Vb], element),
        ("m", "l", "o"),
    )
    loop = of_box(Box(fold, Ty(Q, K, V), Ty(*states)))
    assert loop.cod == fold.step.cod == fold.unit.cod == fold.merge.cod == fold.state.cod
    finish = program(states, lambda m, n, o: o / n)
    whole = loop >> finish
    whole.names = ("Q", "K", "V")
    return whole


def grouped() -> cd.category.Diagram:
    body = online((Axis("q", "g_q"),))
    whole = of_box(Box(GroupOp((("q", "g_q"),), body), Ty(array(q, d), array(x, d), array(x, d)), Ty(array(q, d))))
    whole.names = ("Q", "K", "V")
    return whole


def textbook(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    s = Q @ K.T
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ V


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 11), st.integers(1, 8), st.booleans())
def test_loops_run_in_blocks_of_any_length(nq: int, nx: int, s: int, g: int, in_groups: bool) -> None:
    Q, K, V = rng.normal(size=(nq, 3)), rng.normal(size=(nx, 3)), rng.normal(size=(nx, 3))
    f = grouped() if in_groups else online((q,))
    tiles = {"s_x": s, "g_q": g} if in_groups else {"s_x": s}
    np.testing.assert_allclose(run(f, [Q, K, V], tiles=tiles), textbook(Q, K, V), rtol=1e-10)
    np.testing.assert_allclose(cd.Program(f)(Q, K, V), textbook(Q, K, V), rtol=1e-10)


def test_blocks_are_real() -> None:
    """Each block is what the step sees, with its own length as the local size."""
    seen: list[tuple[int, ...]] = []

    def spy(a: np.ndarray) -> np.ndarray:
        seen.append(a.shape)
        return a

    total, block = array(), array(xs)
    step = program([total, block], lambda t, a: t + cd.sum(cd.apply("spy", a), "x") * cd.size("x"))
    unit = program([], lambda: 0)
    merge = program([total, total], lambda s, t: s + t)
    state = program([block], lambda a: cd.sum(a, "x"))
    f = of_box(Box(FoldOp("x", "s_x", unit, step, merge, state), Ty(array(x)), Ty(total)))
    values = np.arange(7.0)
    result = run(f, [values], tiles={"s_x": 3}, functions={"spy": spy})
    assert seen == [(3,), (3,), (1,)]
    assert result == 3 * (0 + 1 + 2) + 3 * (3 + 4 + 5) + 1 * 6


def test_positions_given_from_outside_are_the_global_ones() -> None:
    total, block, where = array(), array(xs), array(xs, element="int")
    step = program([total, block, where], lambda t, a, i: t + cd.sum(a * i, "x"))
    unit, merge = program([], lambda: 0), program([total, total], lambda s, t: s + t)
    state = program([block, where], lambda a, i: cd.sum(a * i, "x"))
    inner = of_box(Box(FoldOp("x", "s_x", unit, step, merge, state), Ty(array(x), array(x, element="int")), Ty(total)))
    f = program([array(x)], lambda a: (a, cd.index("x"))) >> inner
    values = rng.normal(size=10)
    np.testing.assert_allclose(run(f, [values], tiles={"s_x": 4}), values @ np.arange(10))


def test_several_axes_in_one_group() -> None:
    h = Axis("h")
    body = program([array(Axis("h", "g_h"), Axis("q", "g_q")), array(Axis("h", "g_h"))],
                   lambda a, b: 2 * a + cd.sum(b, "h"))  # fmt: skip
    f = of_box(Box(GroupOp((("h", "g_h"), ("q", "g_q")), body), Ty(array(h, q), array(h)), Ty(array(h, q))))
    # The second input's axis is grouped as well: each group sees a part of it.
    a, b = rng.normal(size=(5, 7)), rng.normal(size=5)
    result = run(f, [a, b], tiles={"g_h": 2, "g_q": 3})
    parts = np.repeat([b[:2].sum(), b[2:4].sum(), b[4:].sum()], [2, 2, 1])
    np.testing.assert_allclose(result, 2 * a + parts[:, None])


def test_weaved_loops_run() -> None:
    f = weave(online((q,)), "h")
    Q, K, V = (rng.normal(size=(2, n, 3)) for n in (4, 6, 6))
    expected = np.stack([textbook(*parts) for parts in zip(Q, K, V, strict=True)])
    np.testing.assert_allclose(run(f, [Q, K, V], tiles={"s_x": 4}), expected)
    g = weave(grouped(), "r", ["Q"])
    expected = np.stack([textbook(part, K[0], V[0]) for part in Q])
    np.testing.assert_allclose(run(g, [Q, K[0], V[0]], tiles={"s_x": 4, "g_q": 3}), expected)


def test_memory_does_not_grow_with_the_streamed_axis() -> None:
    f = grouped()

    def peak(n: int) -> int:
        Q, K, V = np.ones((64, 16)), np.ones((n, 16)), np.ones((n, 16))
        run(f, [Q, K, V], tiles={"s_x": 64, "g_q": 32})
        tracemalloc.start()
        run(f, [Q, K, V], tiles={"s_x": 64, "g_q": 32})
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    # The interpreter's own free lists are filled first; the scores, never stored, would be 4 MiB.
    peak(8192)
    small, large = peak(256), peak(8192)
    assert large < small + 300_000


@given(st.data())
@settings(max_examples=60)
def test_weaving_runs_the_diagram_at_each_index(data: st.DataObject) -> None:
    f = data.draw(testing.diagrams(max_outputs=1))
    sizes = data.draw(testing.sizes_for(f))
    several = [data.draw(testing.arrays_for(f, sizes)) for _ in range(3)]
    expected = np.stack([cd.Program(f)(*arrays) for arrays in several])
    woven = cd.Program(weave(f, "w"))(*(np.stack(parts) for parts in zip(*several, strict=True)))
    np.testing.assert_allclose(woven, expected, rtol=1e-9, atol=1e-9)


@given(st.data())
def test_contract_is_einsum(data: st.DataObject) -> None:
    lengths = {n: data.draw(st.integers(1, 3)) for n in "abcde"}
    names = st.lists(st.sampled_from("abcde"), max_size=4, unique=True)
    arrays = [
        NamedArray(np.array(rng.integers(-3, 4, [lengths[n] for n in chosen])), tuple(chosen))
        for chosen in data.draw(st.lists(names, min_size=1, max_size=4))
    ]
    union = sorted({n for a in arrays for n in a.names})
    kept = data.draw(st.permutations(union).flatmap(lambda p: st.integers(0, len(p)).map(lambda k: p[:k])))
    expected = np.einsum(",".join("".join(a.names) for a in arrays) + "->" + "".join(kept), *(a.data for a in arrays))
    result = contract(arrays, kept)
    assert set(result.names) == set(kept)
    assert np.array_equal(result.over(tuple(kept)), expected)


# -- element types ----------------------------------------------------------------------------------------


def test_floating_types_are_kept() -> None:
    f = cd.algorithm("q x, x")(
        lambda a, b: cd.softmax(a * cd.size("x") * cd.size("x") + cd.index("x") + 0.1, "x") * cd.sqrt(2) * b
    )
    a, b = rng.normal(size=(3, 4)), rng.normal(size=4)
    expected = f(a, b)
    assert expected.dtype == np.float64
    single = f(a.astype(np.float32), b.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-4)
    assert f(a.astype(np.float32), b).dtype == np.float64
    assert f(a.astype(np.float32), [1, 2, 3, 4]).dtype == np.float32
    assert f(np.ones((3, 4), int), [1, 2, 3, 4]).dtype == np.float64
    assert run(f, [a, b], dtype="float32").dtype == np.float32
    assert run(f, [a.astype(np.float16), b], dtype=np.float16).dtype == np.float16


def test_truth_values_given_for_numbers_are_numbers() -> None:
    f = cd.algorithm("x, x -> x")(lambda a, b: a + b)
    np.testing.assert_array_equal(f([True, True], [True, False]), [2.0, 1.0])


def test_truth_values_and_integers_stay() -> None:
    f = cd.algorithm("bool[x], int[x]")(lambda m, i: (~m, i + cd.index("x")))
    m, i = f([True, False], [1, 2])
    assert m.dtype == bool and m.tolist() == [False, True]
    assert i.dtype.kind == "i" and i.tolist() == [1, 3]


def test_integers_do_not_wrap_around() -> None:
    f = cd.algorithm("x -> ")(lambda a: cd.prod(cd.index("x") + cd.size("x"), "x") * 0 + cd.prod(a * 10**30, "x"))
    np.testing.assert_allclose(f([1.0] * 10), 1e300)
    huge = cd.algorithm("x -> ")(lambda a: cd.prod(cd.index("x") + cd.size("x"), "x"))
    assert huge(np.ones(30)) == float(np.prod(np.arange(30, 60.0)))


def test_minus_infinity_is_computed_with_quietly() -> None:
    f = cd.algorithm("extended[x] -> x")(lambda a: cd.exp(a - cd.max(a, "x")))
    with np.errstate(all="raise"):
        np.testing.assert_allclose(f([-INF, 0.0, 1.0]), [0, np.exp(-1), 1])
        g = cd.algorithm("x -> x")(lambda a: cd.where(a != 0, 1 / a, 0))
        np.testing.assert_allclose(g([0, 2]), [0, 0.5])


def test_results_do_not_share_memory_with_inputs() -> None:
    a = rng.normal(size=(3, 4))
    for f in (cd.id(array(q, x)), cd.copy(array(q, x)), cd.algorithm("q x -> x q")(lambda a: a)):
        results = f(a)
        for result in results if isinstance(results, tuple) else [results]:
            assert not np.shares_memory(result, a) and result.flags.writeable and result.flags.c_contiguous
    first, second = cd.copy(array(q, x))(a)
    assert not np.shares_memory(first, second)


def test_the_arrays_given_are_not_changed() -> None:
    Q, K, V = rng.normal(size=(4, 3)), rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    before = [a.copy() for a in (Q, K, V)]
    run(grouped(), [Q, K, V], tiles={"s_x": 2, "g_q": 3})
    for a, b in zip((Q, K, V), before, strict=True):
        np.testing.assert_array_equal(a, b)


# -- what the user supplies ---------------------------------------------------------------------------------


def test_uninterpreted_functions_and_boxes_run_when_given() -> None:
    f = cd.algorithm("q, x")(lambda a, b: cd.apply("f", a, b))
    result = run(f, [[1, 2], [3, 4, 5]], functions={"f": lambda a, b: a * b + 1})
    assert result.tolist() == [[4, 5, 6], [7, 9, 11]]
    # Weaved axes come in front.
    g = cd.box("flip", Ty(array(x)), Ty(array(x), array()))
    functions = {"flip": lambda a: (a[..., ::-1], a.sum(-1))}
    flipped, total = run(g, [[1, 2, 3]], functions=functions)
    assert flipped.tolist() == [3, 2, 1] and total == 6
    flipped, total = run(g.weave("h"), [[[1, 2, 3], [4, 5, 6]]], functions=functions)
    assert flipped.tolist() == [[3, 2, 1], [6, 5, 4]] and total.tolist() == [6, 15]


def test_sizes_that_no_input_shows_can_be_given() -> None:
    f = cd.algorithm("-> x")(lambda: cd.index("x") * 2)
    assert run(f, [], sizes={"x": 3}).tolist() == [0, 2, 4]
    with pytest.raises(SizeError, match=re.escape("sizes={'x': 4}")):
        f()


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        (([1, 2], [1, 2, 3]), "input a has shape (2,): expected 2 axes, [q x]"),
        (([[1, 2]], [1, 2, 3]), "input b has length 3 along axis 'x': expected 2 (x = 2 by input a)"),
        ((np.ones((0, 2)), [1, 2]), "input a has length 0 along axis 'q'"),
        (([[1, 2], [3]], [1, 2]), "input a is not a rectangular array"),
    ],
)
def test_shapes_that_disagree(arrays: Any, says: str) -> None:
    f = cd.algorithm("q x, x")(lambda a, b: a + b)
    with pytest.raises(SizeError, match=re.escape(says)) as caught:
        f(*arrays)
    assert "test_numpy_run.py" in str(caught.value.line)


@pytest.mark.parametrize(
    ("signature", "shapes", "says"),
    [
        ("3", [(4,)], "input a has length 4 along axis '3': expected 3"),
        ("d=3", [(4,)], "input a has length 4 along axis 'd': expected 3"),
        ("b, (b g)", [(2,), (7,)], "expected a multiple of 2, for b*g"),
        ("b, b+g", [(2,), (2,)], "expected more than 2, for b + g"),
        ("b, g, (b g)", [(2,), (3,), (7,)], "expected 6 (b = 2 by input a, g = 3 by input b)"),
        ("(b g), (b g)", [(6,), (7,)], "expected 6, as on another input"),
        ("(b 2)", [(5,)], "expected a multiple of 2, for b*2"),
    ],
)
def test_integer_and_composite_axes_are_checked(signature: str, shapes: list, says: str) -> None:
    names = "abc"[: len(shapes)]
    f = cd.algorithm(signature)(eval(f"lambda {', '.join(names)}: a"))
    with pytest.raises(SizeError, match=re.escape(says)):
        f(*map(np.ones, shapes))


def test_integer_and_composite_axes_are_solved() -> None:
    f = cd.algorithm("(a b 2), x+(y 3), a")(lambda p, r, s: s * 0 + cd.size("b"))
    assert f(np.ones(12), np.ones(10), np.ones(3)).tolist() == [2, 2, 2]
    g = cd.algorithm("x+(y 3), x")(lambda r, s: s * 0 + cd.size("y"))
    assert g(np.ones(10), np.ones(4)).tolist() == [2, 2, 2, 2]
    h = cd.algorithm("(x x)")(lambda r: cd.sum(r, "(x x)"))
    assert h(np.ones(9)) == 9


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda f, a: cd.Program(f)(a), TypeMismatch, "1 arrays were given: expected 3 (Q, K, V)"),
        (lambda f, a: cd.Program(f)(a, a, a, a), TypeMismatch, "4 arrays were given"),
        (lambda f, a: cd.Program(f)(a, a, a + 1j), TypeMismatch, "input V holds complex128"),
        (lambda f, a: cd.Program(f)(a, a, [["u", "v", "w"]]), TypeMismatch, "input V holds <U1"),
        (lambda f, a: cd.Program(f)(a, a, None), TypeMismatch, "input V holds object"),
        (lambda f, a: run(f, [a, a, a], tiles={"s_x": 0}), SizeError, "tile s_x is 0: expected a positive integer"),
        (lambda f, a: run(f, [a, a, a], tiles={"s_x": -2}), SizeError, "tile s_x is -2"),
        (lambda f, a: run(f, [a, a, a], tiles={"s_x": 1.5}), SizeError, "tile s_x is 1.5"),
        (lambda f, a: run(f, [a, a, a], tiles={"x": 2}), SizeError, "no tile is called 'x': this diagram has g_q, s_x"),
        (lambda f, a: run(f, [a, a, a], sizes={"x": 0}), SizeError, "size x is 0: expected a positive integer"),
        (lambda f, a: run(f, [a, a, a], sizes={"x": 3}), SizeError, "expected 3 (x = 3 by sizes=)"),
        (lambda f, a: run(f, [a, a, a], dtype=int), TypeMismatch, "expected a floating type"),
        (lambda f, a: run(cd.id(array(q, d)), [a], tiles={"g_q": 2}), SizeError, "no tiles"),
        (lambda f, a: cd.box("f", array(q, d), array(q, d))(a), TypeMismatch, "functions={'f': np.sin}"),
        (lambda f, a: run(cd.box("f", array(q, d), array(q)), [a], functions={"f": np.sin}), SizeError,
         "the function of 'f' gave shape (2, 3): expected (2,)"),
        (lambda f, a: run(cd.box("f", array(q, d), Ty()), [a], functions={"f": np.sin}), TypeMismatch, "0 outputs"),
        (lambda f, a: run(of_box(Box(Map(Apply("f")), Ty(array(q, d)), Ty(array(q, d)))), [a],
                          functions={"f": np.sum}), SizeError, "expected a function applied at every index"),
        (lambda f, a: cd.id(array(q, d, element="bool"))(a), TypeMismatch, "expected truth values"),
        (lambda f, a: cd.id(array(q, d, element="int"))(a), TypeMismatch, "expected integers"),
    ],
)  # fmt: skip
def test_wrong_calls_say_what_was_expected(call: Callable, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=re.escape(says)) as caught:
        call(grouped(), np.ones((2, 3)))
    assert "test_numpy_run.py" in str(caught.value.line)  # type: ignore[attr-defined]


def test_tiles_of_nested_loops_are_known_with_what_they_divide() -> None:
    assert tile_bounds(grouped()) == {"g_q": "q", "s_x": "x"}
    assert isinstance(cd.box("f", array(q), array(q)).diagram.boxes[0].op, Generic)
