"""Derived gradients that are proved equal to those that textbooks give, written by hand, for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.frontend.builder import program
from catdiag.frontend.diagram_calls import call_diagram
from catdiag.frontend.tracing import running
from catdiag.prover.api import prove_with
from catdiag.rewrite.differentiate.derivative_theorems import adjointness, expansion
from catdiag.rewrite.differentiate.gradient import gradient
from catdiag.solvers.z3 import Z3

ASK = Z3()


def scores(Q: Any, K: Any) -> Any:
    return cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d"))


def attention(S: Any, V: Any, dO: Any) -> tuple[Any, Any]:
    """dS and dV of softmax(S)·V, as in FlashAttention (Dao et al., 2022, appendix B)."""
    P = cd.softmax(S, "x")
    dP = cd.einsum("q d, x d -> q x", dO, V)
    D = cd.sum(P * dP, "x")
    return P * (dP - D), cd.einsum("q x, q d -> x d", P, dO)


def of_scores(Q: Any, K: Any, dS: Any) -> tuple[Any, Any]:
    scale = cd.sqrt(cd.size("d"))
    return cd.einsum("q x, x d -> q d", dS, K) / scale, cd.einsum("q x, q d -> x d", dS, Q) / scale


def attention_grad(Q: Any, K: Any, V: Any, dO: Any) -> Any:
    dS, dV = attention(scores(Q, K), V, dO)
    return *of_scores(Q, K, dS), dV


def biased_grad(Q: Any, K: Any, V: Any, B: Any, dO: Any) -> Any:
    dS, dV = attention(scores(Q, K) + B, V, dO)
    return *of_scores(Q, K, dS), dV, dS


def row_norm(X: Any, eps: Any) -> Any:
    return cd.sqrt(cd.mean(X * X, "d") + eps)


def rms_norm_grad(X: Any, g: Any, eps: Any, dY: Any) -> Any:
    r = row_norm(X, eps)
    return dY * g / r - X * cd.sum(dY * g * X, "d") / (r * r * r * cd.size("d")), cd.sum(dY * X / r, "t")


def layer_norm_grad(X: Any, g: Any, b: Any, eps: Any, dY: Any) -> Any:
    centred = X - cd.mean(X, "d")
    r = cd.sqrt(cd.mean(centred * centred, "d") + eps)
    y = centred / r
    dy = dY * g
    return (dy - cd.mean(dy, "d") - y * cd.mean(dy * y, "d")) / r, cd.sum(dY * y, "t"), cd.sum(dY, "t")


def one_hot(axis: str, label: Any) -> Any:
    return cd.where(cd.index(axis) == label, 1, 0)


def cosine_grad(A: Any, B: Any, g: Any) -> Any:
    n, m = cd.sqrt(cd.sum(A * A, "x")), cd.sqrt(cd.sum(B * B, "x"))
    c = cd.sum(A * B, "x") / (n * m)
    return g * (B / (n * m) - c * A / (n * n)), g * (A / (n * m) - c * B / (m * m))


def softmax_grad(a: Any, dP: Any) -> Any:
    P = cd.softmax(a, "x")
    return P * (dP - cd.sum(P * dP, "x"))


def linear_cross_entropy_grad(H: Any, W: Any, label: Any, g: Any) -> Any:
    dZ = g * (cd.softmax(cd.einsum("t d, v d -> t v", H, W), "v") - one_hot("v", label))
    return cd.einsum("t v, v d -> t d", dZ, W), cd.einsum("t v, t d -> v d", dZ, H)


# For operators of the library, or programs: the inputs to differentiate by (None: all), and the gradient by hand.
TEXTBOOK: dict[str, tuple[Any, str | None, Callable[..., Any]]] = {
    "matmul": ("matmul", None, lambda A, B, G: (
        cd.einsum("a c, b c -> a b", G, B), cd.einsum("a b, a c -> b c", A, G))),
    "matvec": ("matvec", None, lambda A, v, g: (g * v, cd.sum(A * g, "a"))),
    "dot": ("dot", None, lambda a, b, g: (g * b, g * a)),
    "sum_of_squares": ("sum_of_squares", None, lambda a, g: 2 * g * a),
    "mean": ("mean", None, lambda a, g: g / cd.size("x") + 0 * a),
    "variance": ("variance", None, lambda a, g: 2 * g * (a - cd.mean(a, "x")) / cd.size("x")),
    "covariance": ("covariance", None, lambda a, b, g: (
        g * (b - cd.mean(b, "x")) / cd.size("x"), g * (a - cd.mean(a, "x")) / cd.size("x"))),
    "cosine_similarity": ("cosine_similarity", None, cosine_grad),
    "softmax": ("softmax", None, softmax_grad),
    "log_sum_exp": ("log_sum_exp", None, lambda a, g: g * cd.softmax(a, "x")),
    "softmax_contraction": ("softmax_contraction", None, lambda a, v, g: (
        cd.softmax(a, "x") * (g * v - g * cd.sum(cd.softmax(a, "x") * v, "x")),
        cd.sum(g * cd.softmax(a, "x"), "q"))),
    "cross_entropy": ("cross_entropy", None, lambda Z, label, g: g * (cd.softmax(Z, "v") - one_hot("v", label))),
    "soft_cross_entropy": ("soft_cross_entropy", "Z", lambda Z, p, g: (
        g * (cd.softmax(Z, "v") * cd.sum(p, "v") - p))),
    "linear_cross_entropy": ("linear_cross_entropy", None, linear_cross_entropy_grad),
    "attention": ("attention", None, attention_grad),
    "biased_attention": ("biased_attention", None, biased_grad),
    "rms_norm": ("rms_norm", "X g", rms_norm_grad),
    "layer_norm": ("layer_norm", "X g b", layer_norm_grad),
    "mlp": ("mlp", None, lambda X, W, U, dY: (
        cd.einsum("t f, d f -> t d", cd.where(cd.einsum("t d, d f -> t f", X, W) > 0,
                                              cd.einsum("t o, f o -> t f", dY, U), 0), W),
        cd.einsum("t f, t d -> d f", cd.where(cd.einsum("t d, d f -> t f", X, W) > 0,
                                              cd.einsum("t o, f o -> t f", dY, U), 0), X),
        cd.einsum("t o, t f -> f o", dY, cd.nn.relu(cd.einsum("t d, d f -> t f", X, W))))),
    "embedding": ("embedding", None, lambda table, tokens, g: cd.sum(
        cd.where(cd.index("v") == tokens, g, 0), "t")),
    "lora": ("lora", "A B", lambda X, W, A, B, s, G: (
        s * cd.einsum("t d, t r -> d r", X, cd.einsum("t o, r o -> t r", G, B)),
        s * cd.einsum("t r, t o -> r o", cd.einsum("t d, d r -> t r", X, A), G))),
    "squared error": (cd.algorithm("x, x ->", name="mse")(lambda a, b: cd.mean((a - b) ** 2, "x")), None,
                      lambda a, b, g: (2 * g * (a - b) / cd.size("x"), 2 * g * (b - a) / cd.size("x"))),
    "silu": (cd.algorithm("x", name="silu")(lambda a: cd.nn.silu(a)), None,
             lambda a, g: g * cd.nn.sigmoid(a) * (1 + a * (1 - cd.nn.sigmoid(a)))),
}  # fmt: skip


def log_ratio(a: Any, b: Any) -> Any:
    return cd.nn.log_softmax(a, "v") - cd.nn.log_softmax(b, "v")


def temperature_grad(a: Any, T: Any, g: Any) -> Any:
    P = cd.softmax(a / T, "v")
    dS = P * (g - cd.sum(P * g, "v"))
    return dS / T, -cd.sum(cd.sum(dS * a, "v"), "t") / (T * T)


def unit_grad(x: Any, g: Any) -> Any:
    n = cd.sqrt(cd.sum(x * x, "d"))
    return (g - x / n * cd.sum(g * x / n, "d")) / n


def retention_grad(Q: Any, K: Any, V: Any, D: Any, g: Any) -> Any:
    dS = cd.einsum("q v, x v -> q x", g, V) * D
    dV = cd.einsum("q x, q v -> x v", cd.einsum("q d, x d -> q x", Q, K) * D, g)
    return cd.einsum("q x, x d -> q d", dS, K), cd.einsum("q x, q d -> x d", dS, Q), dV


def written(signature: str, function: Callable[..., Any]) -> cd.Program:
    return cd.algorithm(signature, name="f")(function)


TEXTBOOK |= {
    "KL of two softmaxes": (
        written("t v, t v -> t", lambda a, b: cd.sum(cd.softmax(a, "v") * log_ratio(a, b), "v")), None,
        lambda a, b, g: (
            g * cd.softmax(a, "v") * (log_ratio(a, b) - cd.sum(cd.softmax(a, "v") * log_ratio(a, b), "v")),
            g * (cd.softmax(b, "v") - cd.softmax(a, "v")))),
    "softmax at a temperature": (
        written("t v, -> t v", lambda a, T: cd.softmax(a / T, "v")), None, temperature_grad),
    "unit vectors": (written("t d", lambda x: x / cd.sqrt(cd.sum(x * x, "d"))), None, unit_grad),
    "bilinear": (
        written("t i, i j, t j -> t", lambda x, W, y: cd.einsum("t i, i j, t j -> t", x, W, y)), None,
        lambda x, W, y, g: (g * cd.einsum("i j, t j -> t i", W, y), cd.einsum("t, t i, t j -> i j", g, x, y),
                            g * cd.einsum("t i, i j -> t j", x, W))),
    "triangle update": (
        written("i k c, j k c -> i j c", lambda a, b: cd.einsum("i k c, j k c -> i j c", a, b)), None,
        lambda a, b, g: (cd.einsum("i j c, j k c -> i k c", g, b), cd.einsum("i j c, i k c -> j k c", g, a))),
    "retention": (
        written("q d, x d, x v, q x -> q v", lambda Q, K, V, D: cd.einsum(
            "q x, x v -> q v", cd.einsum("q d, x d -> q x", Q, K) * D, V)), "Q K V", retention_grad),
    "focal loss": (
        written("x", lambda p: -((1 - p) ** 2) * cd.log(p)), None,
        lambda p, g: g * (2 * (1 - p) * cd.log(p) - (1 - p) ** 2 / p)),
    # Both also at 0, where the branches that they are made of meet.
    "softplus": (written("x", lambda a: cd.nn.softplus(a)), None, lambda a, g: g * cd.nn.sigmoid(a)),
    "elu": (written("x", lambda a: cd.nn.elu(a)), None, lambda a, g: g * cd.where(a > 0, 1, cd.exp(a))),
}  # fmt: skip


def textbook(name: str) -> tuple[cd.Program, cd.Program]:
    """The derived gradient, and the one by hand on the same inputs."""
    known, wrt, hand = TEXTBOOK[name]
    derived = (cd.library.get(known) if isinstance(known, str) else known).grad(wrt=wrt)
    made = program(list(derived.dom), hand, derived.names, f"textbook {name}")
    return derived, arranged(made, derived)


def arranged(made: Any, like: cd.Program) -> cd.Program:
    """The program with its results in the layouts of another one's."""

    def body(*arrays: Any) -> Any:
        found = call_diagram(made, arrays)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(running().rename(a, {}, ty.axes) for a, ty in zip(found, like.cod, strict=True))

    return cd.Program(program(list(like.dom), body, like.names, made.title))


# The derived gradient of a gather adds nothing for a label that is out of range, where the program has no value.
ASSUME = {"cross_entropy": ["0 <= label", "label < v"]}


@pytest.mark.parametrize("name", TEXTBOOK)
def test_derived_gradients_are_proved_equal_to_those_of_textbooks(name: str) -> None:
    derived, hand = textbook(name)
    theorem = prove_with(ASK, derived, hand, ASSUME.get(name, ()))
    assert not theorem.conditional and not theorem.vacuous


def test_the_derivative_of_an_uninterpreted_function_obeys_the_chain_rule() -> None:
    derived = cd.algorithm("x", name="e")(lambda a: cd.exp(cd.apply("f", a)) * a).grad(of="y")
    assert derived.names == ("a", "dy")
    shown = derived.code("pseudocode")
    assert "f'(a)" in shown and "exp(f(a))" in shown
    twice = cd.algorithm("x", name="twice")(lambda a: cd.apply("f", a) + cd.apply("f", a)).grad(of="y")
    once = cd.algorithm("x", name="once")(lambda a: 2 * cd.apply("f", a)).grad(of="y")
    assert not prove_with(ASK, twice, once).conditional


def test_programs_that_mean_the_same_may_have_different_gradients() -> None:
    """Gradients are of diagrams: at 0 the two branches have different derivatives."""
    plain = cd.algorithm("x", name="plain")(lambda a: a + 0)
    chosen = cd.algorithm("x", name="chosen")(lambda a: cd.where(a == 0, 0, a))
    assert not prove_with(ASK, plain, chosen).conditional
    assert plain.grad().run([0, 1], [1, 1]).tolist() == [1, 1]
    assert chosen.grad().run([0, 1], [1, 1]).tolist() == [0, 1]
    with pytest.raises(cd.Refuted):
        prove_with(ASK, plain.grad(), chosen.grad())


# -- maxima ---------------------------------------------------------------------------------------------------


def redundant(program_: cd.Program) -> list[str]:
    """The maxima that are proved not to matter, by the names of their boxes."""
    return [found.box.name for found in gradient(program_.diagram, ASK).redundant]


def extrema(program_: cd.Program) -> int:
    """How many comparisons there are in a gradient: those of ties, and of the arguments of maximum and minimum."""
    return sum(box.name in ("eq", "lt") for box in program_.grad().boxes)


def test_the_maximum_that_a_softmax_subtracts_has_no_cotangent_and_a_theorem() -> None:
    found = gradient(cd.library.attention.diagram, ASK)
    (one,) = found.redundant
    assert one.box.name == "max[x]" and not one.theorem.conditional and not one.theorem.vacuous
    assert extrema(cd.library.softmax) == 0


def test_the_maximum_of_a_masked_softmax_has_no_cotangent() -> None:
    masked = cd.algorithm("x, bool[x]", name="masked")(lambda a, m: cd.softmax(cd.where(m, a, -cd.inf), "x"))
    assert redundant(masked) == ["max[x]"]


def test_a_maximum_of_maxima_has_no_cotangent_as_one() -> None:
    def sink(a: Any, s: Any) -> Any:
        m = cd.maximum(cd.max(a, "x"), s)
        return cd.exp(a - m) / (cd.sum(cd.exp(a - m), "x") + cd.exp(s - m))

    assert redundant(cd.algorithm("q x, ", name="sink")(sink)) == ["max"]


def test_the_scale_of_a_quantized_array_has_no_cotangent() -> None:
    def quantized(a: Any) -> Any:
        scale = cd.max(cd.exp(a), "x")
        return cd.cast(a / scale, "fp8") * scale

    f = cd.algorithm("q x", name="quantized")(quantized)
    assert redundant(f) == ["max[x]"]
    np.testing.assert_allclose(f.grad().run([[1.0, 2.0]], [[3.0, 4.0]]), [[3.0, 4.0]])


def test_equal_parts_of_a_program_are_proved_once() -> None:
    def twice(a: Any) -> Any:
        return cd.softmax(cd.softmax(a, "x") * a, "x")

    one, two = gradient(cd.algorithm("q x", name="twice")(twice).diagram, ASK).redundant
    assert one.theorem is two.theorem


def test_a_maximum_that_matters_keeps_its_cotangent() -> None:
    top = cd.algorithm("q x -> q", name="top")(lambda a: cd.max(a, "x"))
    assert redundant(top) == [] and extrema(top) == 1
    wrong = cd.algorithm("q x", name="wrong")(lambda a: cd.exp(a - cd.max(a, "x")))
    assert redundant(wrong) == []
    # The softmax does not depend on it, and the second result does.
    both = cd.algorithm("q x -> q x, q", name="both")(lambda a: (cd.softmax(a, "x"), cd.max(a, "x")))
    np.testing.assert_allclose(both.grad().run([[1.0, 3.0]], [[0.0, 0.0]], [2.0]), [[0.0, 2.0]], atol=1e-15)


def test_only_results_that_are_differentiated_decide_whether_a_maximum_matters() -> None:
    both = cd.algorithm("q x -> q x, q", name="both")(
        lambda a: (cd.exp(a - cd.max(a, "x")) / cd.sum(cd.exp(a - cd.max(a, "x")), "x"), cd.max(a, "x")))  # fmt: skip
    assert [r.box.name for r in gradient(both.diagram, ASK, of=0).redundant] == ["max[x]"]
    assert gradient(both.diagram, ASK, of=1).redundant == ()


def test_a_row_in_which_everything_is_masked_has_the_gradient_zero() -> None:
    f = cd.library.masked_attention
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(2, 3)), rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    mask = np.array([[False] * 4, [True, False, True, True]])
    dQ, dK, dV = f.grad().run(Q, K, V, mask, np.ones((2, 3)))
    assert np.isfinite(dK).all() and np.isfinite(dV).all() and dQ[0].tolist() == [0, 0, 0]


# -- loops and groups of gradients ------------------------------------------------------------------------------


def test_the_gradient_by_queries_runs_in_a_loop_over_keys() -> None:
    """From Q, K, V and dO alone: the statistics of the forward pass are found with those of the gradient."""
    loop = cd.library.attention.grad(of="O", wrt="Q").stream("x").group("q")
    assert not loop.theorem.conditional
    assert [str(step.action) for step in loop.steps] == ["stream x", "group q"]
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(n, 2)) for n in (3, 5, 5, 3)]
    np.testing.assert_allclose(
        loop.run(*arrays, tiles={"s_x": 2, "g_q": 2}), cd.library.attention.grad(wrt="Q").run(*arrays), atol=1e-12
    )


def test_the_gradients_by_keys_and_values_run_in_a_loop_over_queries_where_statistics_are_given() -> None:
    """With L the log-sum-exp of the scores as an input, O = Σ_x e^(S − L)·V and s = Σ_x e^(S − L). Since dL = −D, with
    D = Σ dO·O, the cotangents dO and −D of the two are those of attention."""

    def given(Q: Any, K: Any, V: Any, L: Any) -> Any:
        P = cd.exp(scores(Q, K) - L)
        return cd.einsum("q x, x d -> q d", P, V), cd.sum(P, "x")

    f = cd.algorithm("q d, x d, x d, q -> q d, q", name="given")(given)
    back = f.grad(of="O s", wrt="K V")
    assert back.names == ("Q", "K", "V", "L", "dO", "ds")
    loop = back.stream("q").group("x")
    assert not loop.theorem.conditional
    rng = np.random.default_rng(1)
    Q, K, V, dO = (rng.normal(size=(n, 2)) for n in (3, 5, 5, 3))
    S = Q @ K.T / np.sqrt(2)
    L = np.log(np.exp(S).sum(1))
    D = (dO * (np.exp(S - L[:, None]) @ V)).sum(1)
    for got, expected in zip(
        loop.run(Q, K, V, L, dO, -D, tiles={"s_q": 2, "g_x": 2}),
        cd.library.attention.grad(wrt="K V").run(Q, K, V, dO),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, atol=1e-12)


# -- the equations themselves -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "l2_norm_linear", "rms_norm"])
def test_the_gradient_of_a_whole_program_is_proved_to_be_the_transpose_of_its_derivative(name: str) -> None:
    assert not prove_with(ASK, *adjointness(cd.library.get(name).diagram, ASK)).conditional


def test_the_derivative_of_a_whole_program_is_proved_to_be_one() -> None:
    def remainder(a: Any, b: Any, t: Any, u: Any, s: Any) -> Any:
        return cd.sum(t * t * (b + s * u) + 2 * a * t * u, "x")

    f = cd.algorithm("x, x ->", name="f")(lambda a, b: cd.sum(a * a * b, "x"))
    assert not prove_with(ASK, *expansion(f.diagram, ASK, remainder)).conditional
    with pytest.raises(cd.Refuted):
        prove_with(ASK, *expansion(f.diagram, ASK))
