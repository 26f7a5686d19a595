"""What streaming finds, run in blocks with remainders and in trees against the diagram as written."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.box_types import check
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.category.functor import weave
from catdiag.execute.interpreter import run
from catdiag.rewrite.loop_state import formulas
from catdiag.rewrite.stream.fold_search import candidates, find
from catdiag.rewrite.stream.loop_builder import Streamed
from catdiag.util.errors import AxisError, NotStreamable

SIZES = {"q": 3, "x": 7, "d": 4, "h": 2, "k": 2, "r": 2, "b": 2, "y": 3, "f": 5}


def arrays(diagram: Diagram, seed: int = 0, positive: bool = False) -> list[Any]:
    """Random arrays for the inputs of a diagram."""
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=[SIZES[str(a.size)] for a in ty.axes]) for ty in diagram.dom]
    return [abs(a) + 0.1 for a in made] if positive else made


def agree(diagram: Diagram, streamed: Diagram, given: list[Any], axis: str = "x") -> None:
    """Asserts that a streamed diagram gives what the textbook one does, in blocks of every kind."""
    check(streamed)
    wanted = run(diagram, given)
    assert np.all([np.all(np.isfinite(w)) for w in (wanted if isinstance(wanted, tuple) else (wanted,))])
    for block in (1, 2, 3, 7, 9):
        found = run(streamed, given, tiles={f"s_{axis}": block})
        for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (wanted, found)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def merged(streamed: Streamed, given: list[Any], cuts: list[int]) -> list[list[Any]]:
    """The states of pieces of the lists put together by `merge`, and the state of the whole."""
    fold, graph = streamed.fold, streamed.diagram.graph
    place = next(k for k, n in enumerate(graph.nodes) if n.box.op is fold or n.box.op == fold)
    node = graph.nodes[place]
    from catdiag.category.diagram import Graph, of_graph

    before = of_graph(Graph(graph.dom, graph.nodes[:place], node.inputs))
    inputs = run(before, given) if len(node.inputs) > 1 else (run(before, given),)
    sizes = dict(SIZES)
    ends = [0, *cuts, SIZES[fold.axis]]

    def tuple_of(value: Any) -> tuple[Any, ...]:
        return value if isinstance(value, tuple) else (value,)

    def state(lo: int, hi: int) -> tuple[Any, ...]:
        part = []
        for ty, a in zip(node.box.dom, inputs, strict=True):
            place = ty.names.index(fold.axis) if fold.axis in ty.names else None
            part.append(a if place is None else np.take(a, range(lo, hi), axis=place))
        return tuple_of(run(fold.state, part, sizes={**sizes, fold.block: hi - lo}))

    parts = [state(lo, hi) for lo, hi in pairwise(ends)]
    total = parts[0]
    for part in parts[1:]:
        total = tuple_of(run(fold.merge, [*total, *part], sizes=sizes))
    return [list(total), list(state(0, SIZES[fold.axis]))]


PROGRAMS: dict[str, tuple[str, Callable[..., Any]]] = {}


def program(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a program to the table."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = (signature, function)
        return function

    return add


@program("q x")
def plain_sum(a):
    return cd.sum(a, "x")


@program("q x")
def plain_product(a):
    return cd.prod(a, "x")


@program("q x")
def plain_max(a):
    return cd.max(a, "x")


@program("q x")
def plain_min(a):
    return cd.min(a, "x")


@program("q x")
def spread(a):
    return cd.max(a, "x") - cd.min(a, "x")


@program("x, x")
def dot(a, b):
    return cd.einsum("x, x ->", a, b)


@program("q x, x d")
def matmul(a, b):
    return cd.einsum("q x, x d -> q d", a, b)


@program("q x")
def log_sum_exp(a):
    m = cd.max(a, "x")
    return m + cd.log(cd.sum(cd.exp(a - m), "x"))


@program("q x")
def log_sum_exp_unshifted(a):
    return cd.log(cd.sum(cd.exp(a), "x"))


@program("q x, x d")
def contraction(a, v):
    return cd.einsum("q x, x d -> q d", cd.softmax(a, "x"), v)


@program("q x, x d, ")
def temperature_inside(a, v, T):
    return cd.einsum("q x, x d -> q d", cd.softmax(a / T, "x"), v)


@program("q x, x d, ")
def temperature_outside(a, v, T):
    m = cd.max(a, "x")
    e = cd.exp((a - m) / T)
    return cd.einsum("q x, x d -> q d", e / cd.sum(e, "x"), v)


@program("q x, x d, q")
def inverse_temperature_by_row(a, v, beta):
    m = cd.max(a, "x")
    e = cd.exp(beta * a - beta * m)
    return cd.einsum("q x, x d -> q d", e / cd.sum(e, "x"), v)


@program("q x, x d")
def temperature_of_size(a, v):
    m = cd.max(a, "x")
    e = cd.exp((a - m) / cd.sqrt(cd.size("d")))
    return cd.einsum("q x, x d -> q d", e / cd.sum(e, "x"), v)


@program("q x, x d")
def temperature_constant(a, v):
    e = cd.exp(2 * (a - cd.max(a, "x")))
    return cd.einsum("q x, x d -> q d", e, v) / cd.sum(e, "x")


@program("q d, x d, x d -> q d")
def causal(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K)
    S = cd.where(cd.index("x") <= cd.index("q"), S, -1e9)
    return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)


@program("q d, x d, x d -> q d")
def masked_after(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K)
    e = cd.where(cd.index("x") <= cd.index("q"), cd.exp(S - cd.max(S, "x")), 0)
    return cd.einsum("q x, x d -> q d", e / cd.sum(e, "x"), V)


@program("q d, x d, x d -> q d")
def masked_exponent(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K)
    e = cd.exp(cd.where(cd.index("x") <= cd.index("q"), S - cd.max(S, "x"), -1e9))
    return cd.einsum("q x, x d -> q d", e / cd.sum(e, "x"), V)


@program("q x")
def mean(a):
    return cd.mean(a, "x")


@program("q x")
def variance(a):
    c = a - cd.mean(a, "x")
    return cd.mean(c * c, "x")


@program("q x")
def third_moment(a):
    c = a - cd.mean(a, "x")
    return cd.mean(c * c * c, "x")


@program("q x")
def skewness(a):
    c = a - cd.mean(a, "x")
    s = cd.sqrt(cd.mean(c * c, "x"))
    return cd.mean((c / s) * (c / s) * (c / s), "x")


@program("q x")
def entropy(a):
    p = cd.softmax(a, "x")
    return -cd.sum(p * cd.log(p), "x")


@program("q x")
def expected_score(a):
    return cd.sum(cd.softmax(a, "x") * a, "x")


@program("q x")
def largest_probability(a):
    return cd.max(cd.softmax(a, "x"), "x")


@program("q x")
def collision(a):
    p = cd.softmax(a, "x")
    return cd.sum(p * p, "x")


@program("q x, x d")
def normalised_contraction(a, v):
    return cd.einsum("q x, x d -> q d", a / cd.sqrt(cd.sum(a * a, "x")), v)


@program("q x, x d")
def l1_normalised(a, v):
    return cd.einsum("q x, x d -> q d", a / cd.sum(a, "x"), v)


@program("q x, y x")
def cosine(a, b):
    na = cd.sqrt(cd.sum(a * a, "x"))
    nb = cd.sqrt(cd.sum(b * b, "x"))
    return cd.einsum("q x, y x -> q y", a / na, b / nb)


@program("q x, x f, x, x")
def layer_norm_linear(a, W, g, b):
    c = a - cd.mean(a, "x")
    n = c / cd.sqrt(cd.mean(c * c, "x") + 1e-5) * g + b
    return cd.einsum("q x, x f -> q f", n, W)


@program("q x, x f, x")
def rms_norm_linear(a, W, g):
    n = a / cd.sqrt(cd.mean(a * a, "x") + 1e-5) * g
    return cd.einsum("q x, x f -> q f", n, W)


@program("q d, d x, d x, x d -> q d")
def gated_mlp(t, Wg, Wu, Wd):
    gate = cd.einsum("q d, d x -> q x", t, Wg)
    up = cd.einsum("q d, d x -> q x", t, Wu)
    return cd.einsum("q x, x d -> q d", gate * cd.nn.sigmoid(gate) * up, Wd)


@program("q d, x d, x d -> q d")
def sigmoid_weights(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K)
    return cd.einsum("q x, x d -> q d", cd.nn.sigmoid(S), V)


@program("q d, x d, x d -> q d, q")
def with_log_sum_exp(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d"))
    m = cd.max(S, "x")
    e = cd.exp(S - m)
    total = cd.sum(e, "x")
    return cd.einsum("q x, x d -> q d", e / total, V), m + cd.log(total)


@program("q d, x d, x d -> q d")
def normalised_by_log_sum_exp(Q, K, V):
    S = cd.einsum("q d, x d -> q x", Q, K)
    m = cd.max(S, "x")
    lse = m + cd.log(cd.sum(cd.exp(S - m), "x"))
    return cd.einsum("q x, x d -> q d", cd.exp(S - lse), V)


@program("q d, x d, x d -> q d")
def normed_queries_and_keys(Q, K, V):
    Qn = Q / cd.sqrt(cd.mean(Q * Q, "d") + 1e-6)
    Kn = K / cd.sqrt(cd.mean(K * K, "d") + 1e-6)
    S = cd.einsum("q d, x d -> q x", Qn, Kn)
    return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)


@program("q d, x d, x d, d f, h q x -> h q f")
def projected_with_bias(Q, K, V, W, B):
    S = cd.einsum("q d, x d -> q x", Q, K) + B
    P = cd.softmax(S, "x")
    return cd.einsum("h q x, x d, d f -> h q f", P, V, W)


@program("h q x, x d -> q d")
def average_of_heads(S, V):
    P = cd.mean(cd.softmax(S, "x"), "h")
    return cd.einsum("q x, x d -> q d", P, V)


@program("h q x, x d -> q d")
def average_of_heads_squared(S, V):
    P = cd.mean(cd.softmax(S, "x"), "h")
    return cd.einsum("q x, x d -> q d", P * P, V)


@program("h q x, h x d -> q d")
def heads_summed(S, V):
    return cd.einsum("h q x, h x d -> q d", cd.softmax(S, "x"), V)


@program("q x y, x y d -> q d")
def two_axes(S, V):
    m = cd.max(S, "x y")
    e = cd.exp(S - m)
    return cd.einsum("q x y, x y d -> q d", e, V) / cd.sum(e, "x y")


@program("q x")
def centred_exponentials(a):
    return cd.sum(cd.exp(a - cd.mean(a, "x")), "x")


@program("q x")
def sum_after_max(a):
    return cd.sum(a - cd.max(a, "x"), "x")


@program("q x")
def max_after_mean(a):
    return cd.max(a - cd.mean(a, "x"), "x")


@program("q x, x")
def weighted_variance(a, w):
    n = w / cd.sum(w, "x")
    mu = cd.sum(n * a, "x")
    return cd.sum(n * (a - mu) * (a - mu), "x")


@program("q x, q x")
def covariance(a, b):
    return cd.mean((a - cd.mean(a, "x")) * (b - cd.mean(b, "x")), "x")


@program("q x, q x")
def cross_entropy(a, t):
    m = cd.max(a, "x")
    return cd.sum(t * (m + cd.log(cd.sum(cd.exp(a - m), "x")) - a), "x")


@program("q x, q x")
def relative_entropy(a, b):
    p, r = cd.softmax(a, "x"), cd.softmax(b, "x")
    return cd.sum(p * (cd.log(p) - cd.log(r)), "x")


@program("q x")
def position_weighted(a):
    return cd.sum(a * cd.index("x"), "x") / cd.size("x")


@program("q x")
def guarded_mean_of_positive(a):
    n = cd.sum(cd.where(a > 0, 1, 0), "x")
    return cd.sum(cd.where(a > 0, cd.where(n > 0, a / n, 0), 0), "x")


@program("q x, d x, f x -> q d, q f")
def two_contractions(a, v, w):
    p = cd.softmax(a, "x")
    return cd.einsum("q x, d x -> q d", p, v), cd.einsum("q x, f x -> q f", p, w)


@program("q x, x d")
def spherical(a, v):
    w = a * a
    return cd.einsum("q x, x d -> q d", w / cd.sum(w, "x"), v)


@program("q x, x d")
def differential(a, v):
    b = -a
    return cd.einsum("q x, x d -> q d", cd.softmax(a, "x") - cd.softmax(b, "x") * 0.3, v)


@program("q x, x d")
def soft_min(a, v):
    e = cd.exp(cd.min(a, "x") - a)
    return cd.einsum("q x, x d -> q d", e / cd.sum(e, "x"), v)


def build(name: str) -> Diagram:
    signature, function = PROGRAMS[name]
    return cd.algorithm(signature)(function)


@pytest.mark.parametrize("name", PROGRAMS)
def test_streams_as_written(name: str) -> None:
    diagram = build(name)
    positive = name in ("temperature_inside", "temperature_outside")
    given = arrays(diagram, positive=positive)
    for streamed in candidates(diagram_of(diagram), "x"):
        assert streamed.diagram.dom == diagram.dom and streamed.diagram.cod == diagram.cod
        assert streamed.diagram.names == diagram.names
        agree(diagram, streamed.diagram, given)
        for cuts in ([3], [1, 4], [2, 3, 6]):
            whole, once = merged(streamed, given, cuts)
            for a, b in zip(whole, once, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
        assert str(formulas(streamed.diagram)).count("\n") >= 3


def components(name: str) -> list[str]:
    return [c.rstrip("0123456789") for c in find(build(name).diagram, "x").fold.components]


def test_states_are_small() -> None:
    assert components("contraction") == ["max", "sum", "sum"]
    assert components("log_sum_exp") == ["max", "sum"]
    assert components("two_contractions") == ["max", "sum", "sum", "sum"]
    assert components("variance") == ["sum", "sum"]
    assert components("third_moment") == ["sum", "sum", "sum"]
    assert components("spread") == ["max", "max"]
    assert components("temperature_constant") == ["max", "sum", "sum"]
    assert components("normalised_contraction") == ["sum", "sum"]


def test_the_loop_is_what_the_user_wrote() -> None:
    found = formulas(find(build("contraction").diagram, "x").diagram)
    assert [str(c.element) for c in found.components] == ["max_x a", "Σ_x exp(a - max1)", "Σ_x exp(a - max1)·v"]
    assert [c.repair and str(c.repair) for c in found.components] == [None, "exp(max1 - max1′)", "exp(max1 - max1′)"]
    assert [str(formula) for _, formula in found.finish] == ["sum3/sum2"]


def test_shifts_keep_large_exponents_finite() -> None:
    for name in ("contraction", "temperature_of_size", "temperature_outside", "normalised_by_log_sum_exp"):
        diagram = build(name)
        given = [1000 * a for a in arrays(diagram, positive=name == "temperature_outside")]
        if name == "normalised_by_log_sum_exp":
            given = [a / 30 for a in given]
        if name == "temperature_outside":
            given[2] = given[2] / 1000
        agree(diagram, find(diagram_of(diagram), "x").diagram, given)


def test_leading_zeros_and_cancelling_prefixes_are_no_trouble() -> None:
    diagram = cd.algorithm("x, x")(lambda a, v: cd.sum(a * v, "x") / cd.sqrt(cd.sum(a * a, "x")))
    given = [np.array([0.0, 0, 3, 4]), np.array([1.0, 2, 1, 3])]
    agree(diagram, find(diagram_of(diagram), "x").diagram, given)
    diagram = cd.algorithm("x, x")(lambda a, v: cd.sum(a / cd.sum(a, "x") * v, "x"))
    agree(diagram, find(diagram_of(diagram), "x").diagram, [np.array([1.0, -1, 2]), np.array([3.0, 4, 5])])


@pytest.mark.parametrize("shape", [("h", "b"), ("b",)])
def test_woven(shape: tuple[str, ...]) -> None:
    diagram = build("with_log_sum_exp")
    for axis in shape:
        diagram = weave(diagram, axis)
    agree(diagram, find(diagram_of(diagram), "x").diagram, arrays(diagram))


def test_shared_heads() -> None:
    diagram = weave(weave(cd.library.get("attention").diagram, cd.Axis("r"), ["Q"]), cd.Axis("k"))
    agree(diagram, find(diagram_of(diagram), "x").diagram, arrays(diagram))


def test_another_axis_name_and_axes_of_one_size() -> None:
    def self_mixing(A):  # type: ignore[no-untyped-def]
        B = A.rename(x="y")
        return cd.einsum("x y, y d -> x d", cd.softmax(cd.einsum("x d, y d -> x y", A, B), "y"), B)

    diagram = cd.algorithm("x d -> x d")(self_mixing)
    agree(diagram, find(diagram_of(diagram), "y").diagram, arrays(diagram), "y")


def test_any_and_all() -> None:
    diagram = cd.algorithm("q x")(lambda a: cd.where(cd.any(a > 1, "x"), 1, cd.where(cd.all(a < 0, "x"), 2, 3)))
    agree(diagram, find(diagram_of(diagram), "x").diagram, arrays(diagram))


def test_fully_masked_first_block() -> None:
    def masked(a, v):  # type: ignore[no-untyped-def]
        s = cd.where(cd.index("x") < 3, -float("inf"), a)
        return cd.einsum("q x, x d -> q d", cd.softmax(s, "x"), v)

    diagram = cd.algorithm("q x, x d")(masked)
    given = arrays(diagram)
    forms = [s.diagram for s in candidates(diagram_of(diagram), "x")]
    good = [d for d in forms if all(np.isfinite(run(d, given, tiles={"s_x": b})).all() for b in (1, 2, 3))]
    assert good
    for d in good:
        agree(diagram, d, given)


def refused(signature: str, function: Callable[..., Any], axis: str = "x") -> str:
    with pytest.raises(NotStreamable) as caught:
        find(cd.algorithm(signature)(function).diagram, axis)
    return str(caught.value)


def test_refusals() -> None:
    assert "keeps it" in refused("q x", lambda a: cd.softmax(a, "x"))
    assert "nothing is reduced" in refused("q x, d", lambda a, b: cd.sum(b, "d"))
    text = refused("q x", lambda a: cd.sum(cd.tanh(a - cd.max(a, "x")), "x"))
    assert "tanh" in text and "max[x]" in text and "test_stream.py" in text and "sum[x]" in text
    text = refused("q x", lambda a: cd.sum(cd.exp(a / cd.max(a, "x")), "x"))
    assert "exp" in text and "max[x]" in text
    assert "max[x]" in refused("q x", lambda a: cd.sum(cd.where(a > cd.max(a, "x") - 1, a, 0), "x"))
    assert "sum[x]" in refused("q x", lambda a: cd.sum(cd.abs(a - cd.mean(a, "x")), "x"))
    assert "sum[x]" in refused("q x", lambda a: cd.prod(a - cd.mean(a, "x"), "x"))

    def cumulative(a):  # type: ignore[no-untyped-def]
        y = a.rename(x="y")
        b = cd.where(cd.index("y") <= cd.index("x"), y, 0)
        return cd.sum(b, "y")

    assert "keeps it" in refused("x -> x", cumulative)


def test_a_computed_array_under_another_name_is_computed_of_a_renamed_one() -> None:
    def summed_twice(a):  # type: ignore[no-untyped-def]
        s = a - cd.max(a, "x")
        return cd.sum(cd.exp(s) * cd.einsum("y ->", s.rename(x="y")), "x")

    streamed = cd.algorithm("x")(summed_twice).stream("x")
    assert not streamed.theorem.conditional
    given = np.random.default_rng(0).normal(size=7)
    assert np.allclose(streamed.run(given, tiles={"s_x": 3}), summed_twice_of(given))


def summed_twice_of(a):  # type: ignore[no-untyped-def]
    s = a - a.max()
    return (np.exp(s) * s.sum()).sum()


def test_unknown_axis() -> None:
    with pytest.raises(AxisError, match="expected one of q, x"):
        find(build("plain_sum").diagram, "z")


def test_uninterpreted_boxes_run_before_the_loop_or_are_refused() -> None:
    X = cd.category.Ty(cd.category.ArrayType((cd.Axis("x"),)))
    total = cd.algorithm("x")(lambda a: cd.sum(a, "x"))
    streamed = find((cd.box("f", X, X) >> total).diagram, "x").diagram
    assert [b.name for b in streamed.boxes] == ["f", "fold[x]"]
    centred = cd.algorithm("x")(lambda a: a - cd.max(a, "x"))
    with pytest.raises(NotStreamable, match="nothing is known"):
        find((centred >> cd.box("f", X, X) >> total).diagram, "x")


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_sums_of_products(data: st.DataObject) -> None:
    """Polynomials in elements and earlier statistics always stream."""

    def polynomial(a, b):  # type: ignore[no-untyped-def]
        statistics = [cd.mean(a, "x")]
        for _ in range(data.draw(st.integers(1, 2))):
            element = data.draw(st.sampled_from([a, b]))
            for _ in range(data.draw(st.integers(1, 3))):
                s = data.draw(st.sampled_from(statistics))
                other = data.draw(st.sampled_from([a, b, a - s, b * s, s - a]))
                join = data.draw(st.sampled_from([operator.add, operator.sub, operator.mul]))
                element = join(element, other)
            statistics.append(cd.mean(element, "x"))
        return statistics[-1]

    diagram = cd.algorithm("q x, q x -> q")(polynomial)
    try:
        found = find(diagram_of(diagram), "x").diagram
    except NotStreamable:
        # Random terms may cancel; then there is nothing to stream.
        np.testing.assert_allclose(diagram(*arrays(diagram)), 0, atol=1e-9)
        return
    agree(diagram, found, arrays(diagram))


def test_a_sum_that_cancels_is_refused_with_that_reason() -> None:
    def cancelling(a):  # type: ignore[no-untyped-def]
        m = cd.mean(a, "x")
        return cd.sum(a + (m - a) - m, "x")

    with pytest.raises(NotStreamable, match="cancels"):
        find(cd.algorithm("x ->")(cancelling).diagram, "x")
