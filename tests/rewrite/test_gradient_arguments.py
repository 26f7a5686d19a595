"""What `grad`, `jvp` and `value_and_grad` take: inputs and results by name or number, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.errors import NotDifferentiable, SignatureError, TypeMismatch


@cd.algorithm("q d, x d, bool[q x], int[q] -> q, q d, int[q]", name="mixed")
def mixed(Q, K, mask, n):
    S = cd.where(mask, cd.einsum("q d, x d -> q x", Q, K), 0)
    return cd.sum(S, "x"), Q * Q, cd.argmax(S, "x") + n


def test_cotangents_are_called_after_results_and_results_follow_wrt() -> None:
    assert mixed.grad().names == ("Q", "K", "mask", "n", "dout0", "dout1")
    assert [str(ty) for ty in mixed.grad(of={"S": 0}, wrt="K Q").cod] == ["[x d]", "[q d]"]
    assert mixed.grad(of={"S": 0}, wrt="K Q").names == ("Q", "K", "mask", "n", "dS")
    assert mixed.grad(of=[1], wrt=[0]) == mixed.grad(of=1, wrt=0) == mixed.grad(of={"out1": 1}, wrt="Q")
    assert mixed.jvp("K").names == ("Q", "K", "mask", "n", "dK")
    assert len(mixed.jvp().cod) == 2
    assert mixed.grad(of=0, wrt="K").title == "mixed.grad('K')"


def test_a_name_that_is_taken_gets_an_underscore() -> None:
    f = cd.algorithm("x, x")(lambda dout, a: dout * a)
    assert f.grad().names == ("dout", "a", "dout_")
    assert f.grad().grad(of=0).names == ("dout", "a", "dout_", "dout0")


def test_an_input_that_does_not_matter_has_the_gradient_zero() -> None:
    f = cd.algorithm("x, y d")(lambda a, b: a * a)
    (by_a, by_b) = f.grad().run([1, 2], np.ones((3, 4)), [1, 1])
    assert by_a.tolist() == [2, 4] and by_b.tolist() == np.zeros((3, 4)).tolist()


def test_the_gradient_has_the_layout_of_its_input() -> None:
    f = cd.algorithm("q x -> x q")(lambda a: a * a)
    assert f.grad().run(np.ones((2, 3)), np.ones((3, 2))).shape == (2, 3)


@pytest.mark.parametrize(
    ("error", "options", "said"),
    [
        (NotDifferentiable, {"wrt": "n"}, r"input n of mixed is int\[q\], of integers: expected an input of real"),
        (NotDifferentiable, {"wrt": "Q mask"}, r"input mask of mixed is bool\[q x\], of truth values"),
        (NotDifferentiable, {"of": 2}, r"result out2 of mixed is int\[q\], made by add: integers and truth values"),
        (SignatureError, {"wrt": "P"}, "wrt has 'P': expected some of the inputs Q, K, mask, n"),
        (SignatureError, {"wrt": 7}, "wrt has 7"),
        (SignatureError, {"wrt": "Q Q"}, "wrt has input Q twice"),
        (SignatureError, {"of": "O"}, "names 1 results and mixed has 3"),
        (SignatureError, {"of": "Q P n"}, "of='Q P n' gives a result the name of input Q: .* wrt='Q'"),
        (SignatureError, {"of": 5}, "mixed has no result 5"),
        (SignatureError, {"of": {"a b": 0}}, "a result is called 'a b'"),
        (TypeMismatch, {"wrt": 1.5}, "wrt is 1.5: expected names of inputs"),
        (TypeMismatch, {"of": 1.5}, "of is 1.5: expected names for the results"),
    ],
)
def test_what_cannot_be_differentiated_is_refused(error: type[Exception], options: dict[str, Any], said: str) -> None:
    with pytest.raises(error, match=said):
        mixed.grad(**options)


def test_a_result_without_a_derivative_is_refused_with_its_line() -> None:
    with pytest.raises(NotDifferentiable, match=r"test_gradient_arguments.py:\d+: return cd.sum"):
        mixed.grad(of=2)
    truth = cd.algorithm("x", name="truth")(lambda a: a > 0)
    with pytest.raises(NotDifferentiable, match=r"no result of truth .* gives bool\[x\], made by lt(.|\n)*a > 0"):
        truth.grad()
    with pytest.raises(NotDifferentiable, match="no input of count holds real numbers"):
        cd.algorithm("int[x]", name="count")(lambda n: n * 1.5).grad()


def test_value_and_grad_has_the_value_and_needs_no_cotangent() -> None:
    loss = cd.algorithm("t d, d ->", name="loss")(lambda X, w: cd.sum(cd.sum(X * w, "d") ** 2, "t"))
    X, w = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0])
    value, by_w = cd.value_and_grad(loss, "w").run(X, w)
    assert float(value) == 2.0
    np.testing.assert_allclose(by_w, 2 * X.T @ (X @ w))
    assert cd.value_and_grad(loss.diagram, "w") == loss.value_and_grad("w")
    assert not any(box.name == "1" for box in loss.value_and_grad().boxes)
    with pytest.raises(NotDifferentiable, match=r"rows gives \[q\]: expected one number"):
        cd.value_and_grad(cd.algorithm("q x", name="rows")(lambda a: cd.sum(a, "x")))


def test_value_and_grad_is_the_gradient_at_the_cotangent_one() -> None:
    loss = cd.algorithm("x, x ->")(lambda a, b: cd.log(cd.sum(cd.exp(a * b), "x")) / 3)
    at_one = cd.algorithm("x, x -> , x, x")(lambda a, b: (loss(a, b), *loss.grad()(a, b, 1.0)))
    assert not cd.prove(loss.value_and_grad(), at_one).conditional


def test_a_gradient_is_a_box_inside_an_algorithm() -> None:
    f = cd.algorithm("x ->", name="f")(lambda a: cd.sum(a * a, "x"))
    step = cd.algorithm("b x -> b x")(lambda a: a - 0.1 * f.grad()(a, cd.sum(a * 0, "x") + 1))
    np.testing.assert_allclose(step.run([[1.0, 2.0]]), [[0.8, 1.6]])
