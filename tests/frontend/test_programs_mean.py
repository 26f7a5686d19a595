"""What programs compute, against NumPy written by hand."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.ops import Call, Const, Rename

rng = np.random.default_rng(7)
Q, K, V = rng.normal(size=(5, 3)), rng.normal(size=(7, 3)), rng.normal(size=(7, 3))
A, B = rng.normal(size=(4, 6)), rng.normal(size=6)


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_textbook_attention() -> None:
    @cd.algorithm("q d, x d, x d -> q d")
    def attention(Q, K, V):
        S = cd.einsum("q d, x d -> q x", Q, K) / cd.sqrt(cd.size("d"))
        return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)

    assert (attention.title, attention.names) == ("attention", ("Q", "K", "V"))
    assert str(attention) == "attention: [q d] @ [x d] @ [x d] → [q d]"
    np.testing.assert_allclose(attention(Q, K, V), softmax(Q @ K.T / math.sqrt(3)) @ V)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda a, b: a + b, lambda: A + B),
        (lambda a, b: b - a, lambda: B - A),
        (lambda a, b: a * b / 2, lambda: A * B / 2),
        (lambda a, b: 1 / (1 + b * b) + a, lambda: 1 / (1 + B**2) + A),
        (lambda a, b: 3 - a, lambda: 3 - A),
        (lambda a, b: -a + +b, lambda: -A + B),
        (lambda a, b: abs(a), lambda: np.abs(A)),
        (lambda a, b: a**2 + b**5, lambda: A**2 + B**5),
        (lambda a, b: a**0 + b**1, lambda: 1 + np.broadcast_to(B, A.shape)),
        (lambda a, b: abs(a) ** 0.5 * abs(b) ** -0.5, lambda: np.sqrt(np.abs(A)) / np.sqrt(np.abs(B))),
        (lambda a, b: (1 + a * a) ** -3, lambda: (1 + A * A) ** -3.0),
        (lambda a, b: abs(a) ** 1.5, lambda: np.abs(A) ** 1.5),
        (lambda a, b: cd.exp(a) + cd.log(1 + b * b), lambda: np.exp(A) + np.log(1 + B * B)),
        (lambda a, b: cd.tanh(a) - cd.nn.sigmoid(b), lambda: np.tanh(A) - 1 / (1 + np.exp(-B))),
        (lambda a, b: cd.abs(cd.minimum(a, b)), lambda: np.abs(np.minimum(A, B))),
        (lambda a, b: cd.maximum(a, 0), lambda: np.maximum(A, 0)),
        (lambda a, b: cd.clip(a, -0.5, 0.25), lambda: np.clip(A, -0.5, 0.25)),
        (lambda a, b: cd.where(a > b, a, 2 * b), lambda: np.where(A > B, A, 2 * B)),
        (lambda a, b: cd.where((a < 0) | ~(b >= 0), 1, 0), lambda: np.where((A < 0) | (B < 0), 1, 0)),
        (lambda a, b: cd.where((a <= 0) & (b != 0), a, b), lambda: np.where((A <= 0) & (B != 0), A, B)),
        (lambda a, b: (a > 0) * b, lambda: (A > 0) * B),
        (lambda a, b: cd.where(cd.equal(a, a), a, b), lambda: A),
        (lambda a, b: a + np.float64(0.5) * b, lambda: A + 0.5 * B),
        (lambda a, b: np.float64(0.5) * b + a, lambda: A + 0.5 * B),
        (lambda a, b: np.exp(a) - np.maximum(a, b) * np.float32(0.5), lambda: np.exp(A) - np.maximum(A, B) / 2),
        (lambda a, b: cd.where(np.float64(0) > a, a, b), lambda: np.where(A < 0, A, B)),
        (lambda a, b: cd.where((a > 0) & np.logical_not(a > 1), a, b), lambda: np.where((A > 0) & (A <= 1), A, B)),
        (lambda a, b: cd.softmax(a + b, "x"), lambda: softmax(A + B)),
        (lambda a, b: a + cd.index("x") - cd.size("q"), lambda: A + np.arange(6) - 4),
        (lambda a, b: cd.where(cd.index("x") <= cd.index("q"), a, b),
         lambda: np.where(np.arange(6) <= np.arange(4)[:, None], A, B)),
        (lambda a, b: cd.exp(cd.where(cd.index("x") <= 2, a, -float("inf"))),
         lambda: np.where(np.arange(6) <= 2, np.exp(A), 0)),
        (lambda a, b: cd.softmax(cd.where(cd.index("x") <= 2, a, -math.inf), "x"),
         lambda: softmax(np.where(np.arange(6) <= 2, A, -np.inf))),
        (lambda a, b: a + cd.mean(b, "x"), lambda: A + B.mean()),
        (lambda a, b: a - cd.einsum("x, x ->", b, b), lambda: A - B @ B),
        (lambda a, b: a + cd.sum(b.rename(x="y"), "y"), lambda: A + B.sum()),
        (lambda a, b: a * Fraction(1, 3), lambda: A / 3),
    ],
)  # fmt: skip
def test_arithmetic(program: Callable, expected: Callable) -> None:
    with np.errstate(all="raise"):
        np.testing.assert_allclose(cd.algorithm("q x, x -> q x")(program)(A, B), expected(), rtol=1e-12)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda a: cd.sum(a, "x"), lambda a: a.sum(1)),
        (lambda a: cd.max(a, "q"), lambda a: a.max(0)),
        (lambda a: cd.min(a, "q x"), lambda a: a.min()),
        (lambda a: cd.prod(a, "x q"), lambda a: a.prod()),
        (lambda a: cd.mean(a, "q x"), lambda a: a.mean()),
        (lambda a: cd.sum(a > 0, "x"), lambda a: (a > 0).sum(1)),
        (lambda a: cd.mean(a > 0, "q x"), lambda a: (a > 0).mean()),
        (lambda a: cd.where(cd.any(a > 1, "x"), 1, 0), lambda a: (a > 1).any(1)),
        (lambda a: cd.where(cd.all(a > -1, "q"), 1, 0), lambda a: (a > -1).all(0)),
        (lambda a: cd.prod(1 + cd.index("x"), "x"), lambda a: 720.0),
        (lambda a: cd.sum(cd.index("x") * cd.index("q"), "x q"), lambda a: 90.0),
        (lambda a: cd.rearrange(a, "q x -> x q"), lambda a: a.T),
        (lambda a: a.rename(x="y"), lambda a: a),
        (lambda a: cd.einsum("q x, p x -> q p", a, a.rename(q="p")), lambda a: a @ a.T),
        (lambda a: cd.einsum("x q -> x", a), lambda a: a.sum(0)),
        (lambda a: cd.einsum("q x, x, -> q", a, cd.index("x"), 2), lambda a: 2 * (a @ np.arange(6))),
    ],
)
def test_reductions_and_layout(program: Callable, expected: Callable) -> None:
    np.testing.assert_allclose(cd.algorithm("q x")(program)(A), expected(A), rtol=1e-12)


def test_results_come_in_the_declared_layout() -> None:
    f = cd.algorithm("q x -> x q", name="transposed")(lambda a: 2 * a)
    np.testing.assert_allclose(f(A), 2 * A.T)
    assert isinstance(f.diagram.boxes[-1].op, Rename)
    g = cd.algorithm("q x -> q x")(lambda a: a)
    assert len(g) == 0 and g == cd.id(g.dom)


def test_several_results() -> None:
    @cd.algorithm("q x -> q, x q, q")
    def stats(a):
        m = cd.max(a, "x")
        return m, cd.rearrange(a - m, "q x -> x q"), m

    low, rest, again = stats(A)
    np.testing.assert_allclose(low, A.max(1))
    np.testing.assert_allclose(rest, (A - A.max(1, keepdims=True)).T)
    assert np.array_equal(low, again) and len(stats) == 3


def test_a_renamed_axis_may_be_declared_in_the_result() -> None:
    gram = cd.algorithm("x d -> x y")(lambda a: cd.einsum("x d, y d -> x y", a, a.rename(x="y")))
    np.testing.assert_allclose(gram(A), A @ A.T)


def test_composite_axes() -> None:
    f = cd.algorithm("(b g) d, d -> (b g)")(lambda a, v: cd.einsum("(b g) d, d -> (b g)", a, v))
    np.testing.assert_allclose(f(A, B), A @ B)
    g = cd.algorithm("b, x+y, (b g)")(lambda b, c, d: cd.sum(c, "x+y") + b * cd.mean(d, "(b g)") + cd.size("g"))
    np.testing.assert_allclose(g([1, 2], B, np.arange(6)), B.sum() + np.array([1, 2]) * 2.5 + 3)
    alone = cd.algorithm("(b g)")(lambda a: cd.mean(a, "(b g)"))
    np.testing.assert_allclose(alone(B), B.mean())
    three = cd.algorithm("q 3 -> q")(lambda a: cd.sum(a, "3") / cd.size("3"))
    np.testing.assert_allclose(three([[1, 2, 6]]), [3])


def test_constants_sizes_and_positions_are_shared_and_computations_are_not() -> None:
    def program(a):
        twice = cd.exp(a * 0.1) + cd.exp(a * 0.1)
        return twice + cd.size("x") * cd.size("x") + cd.index("x") * cd.index("x")

    names = [b.name for b in cd.algorithm("x")(program).diagram.boxes]
    assert names.count("exp") == 2 and names.count("mul") == 4
    assert names.count("1/10") == 1 and len(names) == len(set(names)) + names.count("exp") - 1 + 3 + 2


def test_dead_boxes_are_dropped() -> None:
    def program(a, b):
        cd.exp(a) + cd.sum(b, "x")
        return a * 2

    f = cd.algorithm("x, x")(program)
    assert [b.name for b in f.diagram.boxes] == ["2", "mul"] and len(f.dom) == 2


def test_softmax_is_one_named_box() -> None:
    f = cd.algorithm("h q x")(lambda a: cd.softmax(a, "x"))
    (box,) = f.diagram.boxes
    assert isinstance(box.op, Call) and box.op.name == "softmax"
    assert [b.name for b in box.op.body.boxes] == ["max[x]", "sub", "exp", "sum[x]", "div"]
    a = rng.normal(size=(2, 4, 3)) * 300
    np.testing.assert_allclose(f(a), softmax(a))
    np.testing.assert_allclose(cd.algorithm("q x")(lambda a: cd.softmax(a, "q x"))(A), softmax(A.ravel()).reshape(4, 6))


def test_decimals_are_exact() -> None:
    f = cd.algorithm("x")(lambda a: a * 0.1 + np.float32(0.2) + np.int64(3))
    constants = [b.op.value for b in f.diagram.boxes if isinstance(b.op, Const)]
    assert constants == [Fraction(1, 10), Fraction(1, 5), Fraction(3)]


def test_functions_of_plain_numbers() -> None:
    assert cd.sqrt(4) == 2 and cd.maximum(2, 3) == 3 and cd.minimum(2, 3) == 2 and cd.clip(7, 0, 5) == 5
    assert cd.exp(0) == 1 and cd.log(1) == 0 and cd.tanh(0) == 0 and cd.abs(-2) == 2 and cd.equal(1, 1) is True
    assert cd.nn.sigmoid(-800) == 0 and cd.nn.sigmoid(800) == 1 and cd.nn.sigmoid(0) == 0.5
    f = cd.algorithm("x -> x")(lambda a: a * cd.sqrt(2))
    assert [b.name for b in f.diagram.boxes] == ["2", "sqrt", "mul"]  # exact: √2 is no rational


def test_a_diagram_is_a_function_inside_an_algorithm() -> None:
    inner = cd.algorithm("q x, x -> q, q", name="inner")(lambda a, b: (cd.einsum("q x, x -> q", a, b), cd.sum(a, "x")))

    @cd.algorithm("x h q, x")
    def outer(a, b):
        one, two = inner(a, b)  # another layout, and one axis more than the diagram has
        return one - two

    a = rng.normal(size=(6, 2, 4))
    expected = np.einsum("xhq,x->hq", a, B) - a.sum(0)
    np.testing.assert_allclose(outer(a, B), expected)
    assert [b.name for b in outer.diagram.boxes if isinstance(b.op, Call)] == ["inner"]


def test_uninterpreted_functions_are_maps() -> None:
    f = cd.algorithm("q, x")(lambda a, b: cd.apply("f", a, b))
    assert f.diagram.boxes[0].name == "f" and str(f.cod) == "[q x]"


def test_names_and_parameters() -> None:
    f = cd.algorithm("q, x, x")(lambda a, *rest: a + rest[0] * rest[1])
    assert f.names == ("a", "rest0", "rest1")
    g = cd.algorithm("q")(lambda a, scale=2: a * scale)
    assert g.names == ("a",)
    h = cd.algorithm("-> x")(lambda: cd.index("x") * 2)
    assert h.names == () and str(h.cod) in ("[x]", "int[x]")
    s = cd.algorithm("")(lambda a: a + 1)
    assert len(s.dom) == 1 and s(2) == 3
    typed = cd.algorithm("bool[x], x -> x")(lambda m, a: cd.where(m, a, 0))
    np.testing.assert_allclose(typed([True, False], [1, 2]), [1, 0])


def test_each_box_knows_the_line_that_made_it() -> None:
    f = cd.algorithm("x")(lambda a: cd.exp(a) + 1)
    assert all("test_programs_mean.py" in (b.line or "") and "cd.exp(a) + 1" in (b.line or "") for b in f.diagram.boxes)


@given(st.integers(-64, 64), st.floats(0.5, 2))
def test_powers(n: int, v: float) -> None:
    f = cd.algorithm("x")(lambda a: a**n)
    np.testing.assert_allclose(f([v]), [v**n], rtol=1e-12)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_the_fraction_of_its_shortest_text(v: float) -> None:
    f = cd.algorithm("")(lambda a: a + v)
    (value,) = [b.op.value for b in f.diagram.boxes if isinstance(b.op, Const)]
    assert value is not None and float(value) == v and value == Fraction(repr(v))
