"""Mistakes in programs: each is an error of the right kind, at the user's own line, that says what to write."""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

import catdiag as cd
from catdiag.util.errors import AxisError, CatdiagError, SignatureError, TypeMismatch

LEAKED: list = []


@cd.algorithm("x")
def leaking(a):
    LEAKED.append(a)
    return a


def at_this_line(error: CatdiagError, text: str) -> None:
    assert error.line is not None and "test_builder_errors.py" in error.line and text in error.line, error


@pytest.mark.parametrize(
    ("program", "kind", "says"),
    [
        (lambda a, b: cd.sum(a, "y"), AxisError, "cannot sum over axis 'y': the array has q x"),
        (lambda a, b: cd.sum(a, ""), SignatureError, "name one or several"),
        (lambda a, b: cd.sum(a, "x x"), AxisError, "named twice"),
        (lambda a, b: cd.sum(a, "x, q"), SignatureError, "separated by spaces"),
        (lambda a, b: cd.sum(a, 1), SignatureError, "not 1"),
        (lambda a, b: cd.softmax(a, "k"), AxisError, "'k'"),
        (lambda a, b: cd.mean(a, "k"), AxisError, "cannot mean over axis 'k'"),
        (lambda a, b: cd.any(a, "x"), TypeMismatch, "compare first"),
        (lambda a, b: cd.index("y"), AxisError, "axes of this algorithm are q, x"),
        (lambda a, b: cd.size("y"), AxisError, 'cd.size("y")'),
        (lambda a, b: cd.size("q x"), SignatureError, "expected one axis"),
        (lambda a, b: cd.einsum("q x, y -> q", a, b), AxisError, "array 1 of einsum"),
        (lambda a, b: cd.einsum("q x, x -> y", a, b), AxisError, "axis 'y' of the result"),
        (lambda a, b: cd.einsum("q x, x", a, b), SignatureError, "one result after '->'"),
        (lambda a, b: cd.einsum("q x, x -> q, x", a, b), SignatureError, "one result after '->'"),
        (lambda a, b: cd.einsum("q x -> q", a, b), SignatureError, "has 1 arrays before '->' and 2 were given"),
        (lambda a, b: cd.einsum("q x ->> q", a), SignatureError, "cannot read '>'"),
        (lambda a, b: cd.rearrange(a, "q x -> x"), AxisError, "different axes"),
        (lambda a, b: cd.rearrange(a, "x y -> y x"), AxisError, "pattern"),
        (lambda a, b: cd.rearrange(a, "q x -> (q q x)"), AxisError, "occurs twice"),
        (lambda a, b: cd.rearrange(a, "q x"), SignatureError, "one array on each side"),
        (lambda a, b: a.rename(y="z"), AxisError, "a.rename(old='new')"),
        (lambda a, b: a.rename(x="z z"), SignatureError, "expected one name"),
        (lambda a, b: a.rename(x="q"), AxisError, "twice"),
        (lambda a, b: a + b.rename(x="q"), AxisError, "rename one of the two"),
        (lambda a, b: cd.einsum("q x, q -> q", a, b.rename(x="q")), AxisError, "rename one of the two"),
        (lambda a, b: a if a > 0 else b, TypeMismatch, "cd.where"),
        (lambda a, b: 0 < b < 1, TypeMismatch, "& | ~"),
        (lambda a, b: a and b, TypeMismatch, "cd.where"),
        (lambda a, b: list(a), TypeMismatch, "iterated"),
        (lambda a, b: a[0], TypeMismatch, "by name"),
        (lambda a, b: a @ b, TypeMismatch, "cd.einsum"),
        (lambda a, b: math.sqrt(b), TypeMismatch, "cd.sqrt"),
        (lambda a, b: np.sum(a, 0), TypeMismatch, "axes have names"),
        (lambda a, b: np.arcsin(a), TypeMismatch, "np.arcsin"),
        (lambda a, b: np.einsum("ij->i", a), TypeMismatch, "cd.einsum"),
        (lambda a, b: np.where(a, b, b), TypeMismatch, "compare first"),
        (lambda a, b: np.asarray(a), TypeMismatch, "NumPy cannot hold it"),
        (lambda a, b: a.rename(x="k") + cd.sum(b.rename(x="q"), "q") * cd.size("q"), AxisError, 'cd.size("q")'),
        (lambda a, b: a**b, TypeMismatch, "cd.exp(p * cd.log(a))"),
        (lambda a, b: a**0.3, TypeMismatch, "half-integer"),
        (lambda a, b: a**100, TypeMismatch, "at most 64"),
        (lambda a, b: 2**a, TypeMismatch, "cd.exp(a * cd.log(2))"),
        (lambda a, b: a + math.nan, TypeMismatch, "nan"),
        (lambda a, b: a + math.inf, TypeMismatch, "plus infinity"),
        (lambda a, b: cd.where(a > 0, a, math.inf), TypeMismatch, "plus infinity"),
        (lambda a, b: a * -math.inf, TypeMismatch, "cd.where(mask, a, -float('inf'))"),
        (lambda a, b: a + "1", TypeMismatch, "traced array or a number"),
        (lambda a, b: a + None, TypeMismatch, "traced array or a number"),
        (lambda a, b: a + True, TypeMismatch, "truth value"),
        (lambda a, b: a + 1j, TypeMismatch, "traced array or a number"),
        (lambda a, b: a + np.ones(3), TypeMismatch, "argument of the function"),
        (lambda a, b: np.ones(3) * a, TypeMismatch, "argument of the function"),
        (lambda a, b: a + leaking, TypeMismatch, "call the diagram"),
        (lambda a, b: ~a, TypeMismatch, "compare first"),
        (lambda a, b: (a > 0) & True, TypeMismatch, "compare first"),
        (lambda a, b: (a > 0) | b, TypeMismatch, "compare first"),
        (lambda a, b: cd.where(a, a, b), TypeMismatch, "compare first"),
        (lambda a, b: cd.where(True, a, b), TypeMismatch, "array of truth values"),
        (lambda a, b: cd.where(a > 0, a, -math.inf) * 2, TypeMismatch, "scale before masking"),
        (lambda a, b: cd.einsum("q x -> q", cd.maximum(a, -math.inf)), TypeMismatch, "minus infinity"),
        (lambda a, b: cd.prod(cd.maximum(a, -math.inf), "x"), TypeMismatch, "minus infinity"),
        (lambda a, b: cd.apply("f g", a), SignatureError, "name of a function"),
        (lambda a, b: cd.apply("exp", a), SignatureError, "else another name"),
        (lambda a, b: cd.apply("f"), TypeMismatch, "at least one"),
        (lambda a, b: cd.apply("f", a) + cd.apply("f", a, b), TypeMismatch, "'f' of 1 arguments is applied to 2"),
        (lambda a, b: a + LEAKED[0], TypeMismatch, "another algorithm"),
        (lambda a, b: leaking(a, b), TypeMismatch, "leaking takes 1 arrays (a), not 2"),
        (lambda a, b: leaking(cd.sum(b, "x")), AxisError, "lacks axis x"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_at_its_line(program: Callable, kind: type[CatdiagError], says: str) -> None:
    with pytest.raises(kind, match=re.escape(says)) as caught:
        cd.algorithm("q x, x")(program)
    at_this_line(caught.value, "lambda a, b:")


@pytest.mark.parametrize(
    ("signature", "function", "kind", "says"),
    [
        ("q x", lambda a, b: a, SignatureError, "1 input arrays and lambda takes 2 parameters (a, b)"),
        ("q, x", lambda a: a, SignatureError, "2 input arrays and lambda takes 1 parameters (a)"),
        ("q", lambda: None, SignatureError, "(none)"),
        ("q", lambda a, *, k: a, SignatureError, "keyword-only"),
        ("q -> ", lambda a: a, AxisError, "axis q is not declared: reduce over it"),
        ("q -> q x", lambda a: a, AxisError, "axis x is declared and not computed"),
        ("q -> q, q", lambda a: a, SignatureError, "returns 1 arrays"),
        ("q -> q", lambda a: (a, a), SignatureError, "returns 2 arrays"),
        ("q -> q, x", lambda a: (a, a), AxisError, "result 1 of"),
        ("q", lambda a: None, TypeMismatch, "returns nothing"),
        ("q", lambda a: (), TypeMismatch, "returns no arrays"),
        ("q", lambda a: "a", TypeMismatch, "traced array or a number"),
        ("q -> bool[q]", lambda a: a, TypeMismatch, "declared bool[q]"),
        ("d=3, d=4", lambda a, b: a, AxisError, "has size 3 in one array and 4 in another"),
        ("d=3, d", lambda a, b: a, AxisError, "has size 3 in one array and d in another"),
        ("d=3 -> d=4", lambda a: a, AxisError, "size 3"),
        ("q x -> (q x)", lambda a: a, AxisError, "not declared"),
    ],
)
def test_a_signature_that_does_not_fit_is_an_error(
    signature: str, function: Callable, kind: type[CatdiagError], says: str
) -> None:
    with pytest.raises(kind, match=re.escape(says)) as caught:
        cd.algorithm(signature)(function)
    at_this_line(caught.value, "cd.algorithm(signature)(function)")


def test_a_function_without_known_parameters_is_an_error() -> None:
    with pytest.raises(SignatureError, match="wrap it in a function"):
        cd.algorithm("q, q")(max)


def test_a_decorated_non_function_is_an_error() -> None:
    with pytest.raises(SignatureError, match="takes a function"):
        cd.algorithm("q")(3)  # type: ignore[arg-type]


def test_outside_of_an_algorithm_there_is_nothing_to_build() -> None:
    with pytest.raises(TypeMismatch, match=r"under @cd\.algorithm"):
        cd.index("x")
    with pytest.raises(TypeMismatch, match=r"under @cd\.algorithm"):
        LEAKED[0] + 1
    with pytest.raises(TypeMismatch, match=r"under @cd\.algorithm"):
        cd.exp(LEAKED[0])


def test_arrays_are_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(LEAKED[0])


def test_an_error_inside_leaves_no_algorithm_running() -> None:
    def broken(a):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cd.algorithm("x")(broken)
    with pytest.raises(TypeMismatch, match="under @cd"):
        cd.index("x")


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = cd.no_such_name


def test_a_name_of_nn_is_pointed_at() -> None:
    with pytest.raises(AttributeError, match=r"it is cd[.]nn[.]sigmoid"):
        _ = cd.sigmoid  # type: ignore[attr-defined]
