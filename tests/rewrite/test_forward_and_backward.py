"""The forward and the backward pass of a program: what is saved, and that both give the results and the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.category.op_facts import reduced_axes
from catdiag.rewrite.differentiate.forward_and_backward import ForwardAndBackward, forward_and_backward
from catdiag.rewrite.differentiate.gradient import restricted
from catdiag.solvers.z3 import shared

SIZES = {"b": 1, "h": 2, "k": 2, "r": 2, "q": 3, "x": 4, "d": 2, "t": 3, "v": 5, "f": 4}


def arrays_of(diagram: cd.category.Diagram, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [[SIZES[str(axis.size)] for axis in ty.axes] for ty in diagram.dom]
    return [
        rng.integers(0, 3, shape) if ty.element == "int" else rng.normal(size=shape) ** 2 + 0.5
        for shape, ty in zip(shapes, diagram.dom, strict=True)
    ]


def run_both(both: ForwardAndBackward, arrays: list[np.ndarray], cotangents: list[np.ndarray]) -> list[np.ndarray]:
    made = cd.Program(both.forward).run(*arrays)
    made = made if isinstance(made, tuple) else (made,)
    pulled = cd.Program(both.backward).run(
        *(arrays[k] for k in both.reads), *(made[k] for k in both.saved), *cotangents
    )
    return [*made[: both.results], *(pulled if isinstance(pulled, tuple) else (pulled,))]


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("softmax", []),
        ("rms_norm", ["[t]"]),
        ("layer_norm", ["[t]", "[t]"]),
        ("cross_entropy", ["[t]"]),
        ("linear_cross_entropy", ["[t]"]),
        ("multi_head_attention", ["[b h q]"]),
        ("grouped_query_attention", ["[b k r q]"]),
        ("causal_attention", ["[q]"]),
        ("soft_capped_attention", ["[q]"]),
        ("sliding_window_attention", ["[q]"]),
        ("padded_attention", ["extended[q]"]),
        ("document_attention", ["extended[q]"]),
        ("alibi_attention", ["[q]"]),
        ("sink_attention", ["[q]"]),
        ("qk_norm_attention", ["[q]", "[x]", "[q]"]),
    ],
)
def test_the_two_passes_are_proved_and_give_results_and_gradient(name: str, saved: list[str]) -> None:
    program = cd.library.get(name)
    wrt = [n for n, ty in zip(program.names, program.diagram.dom, strict=True) if ty.axes and ty.element != "int"]
    both = program.forward_and_backward(wrt=wrt)
    assert [str(ty) for ty in both.forward.cod[both.results :]] == saved
    assert not both.theorem.conditional
    arrays = arrays_of(program.diagram)
    results = program.run(*arrays)
    cotangent = np.random.default_rng(1).normal(size=results.shape)
    expected = program.grad(wrt=wrt).run(*arrays, cotangent)
    expected = [results, *(expected if isinstance(expected, tuple) else (expected,))]
    for found, wanted in zip(run_both(both, arrays, [cotangent]), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def scores(Q: Any, K: Any) -> Any:
    return cd.einsum("q d, x d -> q x", Q, K)


def zero_where_masked(Q: Any, K: Any, M: Any) -> Any:
    weights = cd.where(M, cd.exp(scores(Q, K) - cd.max(cd.where(M, scores(Q, K), -cd.inf), "x")), 0)
    return cd.einsum("q x, x d -> q d", weights / cd.sum(weights, "x"), K)


def zero_in_empty_rows(Q: Any, K: Any, M: Any) -> Any:
    weights = cd.softmax(cd.where(M, scores(Q, K), -cd.inf), "x")
    return cd.where(cd.any(M, "x"), cd.einsum("q x, x d -> q d", weights, K), 0)


def divided_last(Q: Any, K: Any, M: Any) -> Any:
    weights = cd.exp((scores(Q, K) * 3 - cd.max(scores(Q, K) * 3, "x")) / 2)
    return cd.einsum("q x, x d -> q d", weights, K) / cd.sum(weights, "x")


def one_more_weight(Q: Any, K: Any, M: Any) -> Any:
    m = cd.maximum(cd.max(scores(Q, K), "x"), 0)
    weights = cd.exp(scores(Q, K) - m)
    return cd.einsum("q x, x d -> q d", weights, K) / (cd.sum(weights, "x") + cd.exp(-m))


def logarithms(Q: Any, K: Any, M: Any) -> Any:
    less = scores(Q, K) - cd.max(scores(Q, K), "x")
    logarithm = less - cd.log(cd.sum(cd.exp(less), "x"))
    return cd.exp(logarithm) * logarithm


@pytest.mark.parametrize(
    "body", [zero_where_masked, zero_in_empty_rows, divided_last, one_more_weight, logarithms], ids=lambda f: f.__name__
)
def test_maximum_and_sum_of_a_row_are_one_statistic_however_they_are_read(body: Any) -> None:
    gives = "q x" if body is logarithms else "q d"
    program = cd.algorithm(f"q d, x d, bool[q x] -> {gives}", name=body.__name__)(body)
    both = program.forward_and_backward()
    assert [ty.names for ty in both.forward.cod[both.results :]] == [("q",)]
    assert not both.theorem.conditional
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=(3, 2)),
        rng.normal(size=(4, 2)),
        np.array([[1, 1, 0, 1], [0, 0, 1, 0], [0, 1, 1, 1]]) > 0,
    ]
    if body is zero_in_empty_rows:
        arrays[2][1] = False
    results = program.run(*arrays)
    cotangent = rng.normal(size=results.shape)
    expected = [results, *program.grad().run(*arrays, cotangent)]
    for found, wanted in zip(run_both(both, arrays, [cotangent]), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["document_attention", "padded_attention"])
def test_rows_in_which_everything_is_masked_ask_nothing_of_a_whole_row_backwards(name: str) -> None:
    program = cd.library.get(name)
    both = program.forward_and_backward(wrt="Q K V")
    made = [box.name for box in both.backward.boxes]
    assert not [name for name in made if name.startswith(("any", "max", "sum"))]
    assert len(both.saved) == 2  # the result, and the log-sum-exp of each row of scores
    keys = cd.Program(restricted(both.backward, (1, 2))).stream("q").group("x")
    assert not keys.theorem.conditional


def test_a_norm_that_divides_scores_is_not_taken_for_a_sum_of_exponentials() -> None:
    both = cd.library.get("qk_norm_attention").forward_and_backward()
    assert [box.name for box in both.forward.boxes].count("log") == 1


def test_what_is_a_scalar_function_of_what_is_read_is_not_read() -> None:
    norm = cd.library.get("rms_norm").forward_and_backward()
    assert norm.saved == (1,)  # the root of each row; the result is the input divided by it
    sink = cd.library.get("sink_attention").forward_and_backward()
    assert sink.reads == (0, 1, 2, 3)  # exp(s − L) of each row is made of the sink's number


def test_a_sum_of_products_is_taken_through_a_result() -> None:
    both = cd.library.attention.forward_and_backward()
    assert both.saved == (0, 1)  # what attention gave, and the log-sum-exp of each row of scores
    assert [str(box) for box in both.backward.boxes if [str(ty) for ty in box.dom] == ["[q d]", "[q d]"]] != []
    sums = [box for box in both.backward.boxes if str(box.cod[0]) == "[q]"]
    assert [tuple(map(str, box.dom)) for box in sums] == [("[q d]", "[q d]")]


def test_what_the_forward_pass_does_not_need_to_save_is_recomputed() -> None:
    gated = cd.algorithm("t f, t f -> t f", name="gated")(lambda A, B: cd.nn.silu(A) * B)
    both = gated.forward_and_backward()
    assert both.saved == () and both.reads == (0, 1) and both.backward.names == ("A", "B", "dout")
    product = cd.algorithm("t d, d f -> t f")(lambda A, W: cd.einsum("t d, d f -> t f", A, W))
    assert product.forward_and_backward(wrt="A").reads == (1,)


def test_some_of_several_results_may_have_cotangents() -> None:
    both = cd.algorithm("q x -> q x, q")(lambda a: (cd.softmax(a, "x"), cd.max(a, "x"))).forward_and_backward(of=0)
    assert both.of == (0,) and both.results == 2 and len(both.backward.dom) == 2
    with pytest.raises(cd.errors.NotDifferentiable):
        cd.algorithm("int[q]")(lambda a: a + 1).forward_and_backward()


@cd.algorithm("q f, x f, f d, f d, f d, d f, f v, f v, v f, f -> q f", name="layer")
def layer(X, Y, K, L, V, W, G, U, D, g):
    """Attention of rows of unit length and gated units, each added to what it reads."""

    def normal(A):
        return A / cd.sqrt(cd.mean(A * A, "f") + 1) * g

    N, M = normal(X), normal(Y)
    S = cd.einsum("q d, x d -> q x", cd.einsum("q f, f d -> q d", N, K), cd.einsum("x f, f d -> x d", M, L))
    values = cd.einsum("x f, f d -> x d", M, V)
    A = X + cd.einsum("q d, d f -> q f", cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), values), W)
    N = normal(A)
    gate, up = (cd.einsum("q f, f v -> q v", N, B) for B in (G, U))
    return A + cd.einsum("q v, v f -> q f", cd.nn.silu(gate) * up, D)


def test_a_whole_layer_is_proved_array_by_array():
    both = layer.forward_and_backward()
    assert not both.theorem.conditional
    assert [str(ty) for ty in both.forward.cod[1:]] == ["[q]", "[x]", "[q]", "[q]"]
    arrays = arrays_of(layer.diagram)
    cotangent = np.random.default_rng(1).normal(size=(3, 4))
    found = run_both(both, arrays, [cotangent])
    expected = [layer.run(*arrays), *layer.grad().run(*arrays, cotangent)]
    assert all(np.allclose(a, b) for a, b in zip(found, expected, strict=True))


def test_products_that_are_expensive_are_saved_and_sums_are_taken_through_them():
    both = forward_and_backward(layer.diagram, shared(), expensive=lambda box: reduced_axes(box) in (("f",), ("x",)))
    assert not both.theorem.conditional
    assert [str(both.forward.cod[k]) for k in both.products] == ["[q d]", "[x d]", "[x d]", "[q d]", "[q v]", "[q v]"]
    assert "Σ_x" not in cd.Program(both.backward).code("pseudocode").split("save")[0]


def hidden(Q: Any, K: Any, V: Any, D: Any) -> Any:
    q, x = cd.index("q"), cd.index("x")
    return (x > q) | ((q - x >= 2) | (D > 1))


def outside(Q: Any, K: Any, V: Any, D: Any) -> Any:
    q, x = cd.index("q"), cd.index("x")
    return ~((x <= q) & (q - x < 2))


@pytest.mark.parametrize("mask", [hidden, outside])
def test_of_rows_that_may_be_hidden_whole_one_statistic_is_saved(mask: Any) -> None:
    """Written with what is hidden, not with what is seen: rows of which all keys are have no value, and others have a
    real statistic."""

    def body(Q: Any, K: Any, V: Any, D: Any) -> Any:
        S = cd.where(mask(Q, K, V, D), -cd.inf, scores(Q, K))
        return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)

    program = cd.algorithm("q d, x d, x d, int[x] -> q d")(body)
    both = program.forward_and_backward(wrt=[0, 1, 2])
    assert [str(ty) for ty in both.forward.cod] == ["[q d]", "[q]"] and both.saved == (0, 1)
    assert not both.theorem.conditional
    arrays = [*arrays_of(program.diagram)[:3], np.zeros(SIZES["x"], dtype=np.int64)]
    cotangent = np.random.default_rng(1).normal(size=(SIZES["q"], SIZES["d"]))
    expected = program.grad(wrt=[0, 1, 2]).run(*arrays, cotangent)
    for found, wanted in zip(run_both(both, arrays, [cotangent])[1:], expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_sum_of_products_is_taken_through_a_result_in_another_arrangement() -> None:
    """The heads of a result are one axis, of which queries and keys have two: the sum is of the result's own rows."""

    def body(Q: Any, K: Any, V: Any) -> Any:
        P = cd.softmax(cd.einsum("k r q d, k x d -> k r q x", cd.rearrange(Q, "(k r) q d -> k r q d"), K), "x")
        return cd.rearrange(cd.einsum("k r q x, k x d -> k r q d", P, V), "k r q d -> (k r) q d")

    program = cd.algorithm("(k r) q d, k x d, k x d -> (k r) q d")(body)
    both = program.forward_and_backward()
    assert [str(both.forward.cod[k]) for k in both.saved] == ["[(k r) q d]", "[k r q]"]


def test_a_sum_of_products_is_taken_through_a_result_of_a_part() -> None:
    """A sink is a column beside the scores, and the result is of the other columns."""

    def body(Q: Any, K: Any, V: Any, s: Any) -> Any:
        P = cd.softmax(cd.concat([scores(Q, K), s], "x+e"), "x+e")
        return cd.einsum("q x, x d -> q d", cd.split(P, "x+e")[0], V)

    program = cd.algorithm("q d, x d, x d, q e -> q d")(body)
    both = program.forward_and_backward()
    assert 0 in both.saved and not both.theorem.conditional
    made = [box for box in both.backward.boxes if "x+e" in reduced_axes(box)]
    assert not made  # no sum over all columns
