"""What people try on an array with named axes: methods, NumPy's functions, and functions of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd

A = np.random.default_rng(0).normal(size=(3, 4))
P = np.abs(A) + 0.5
SAME: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("sum", lambda a: a.sum("x"), lambda a: a.sum(1)),
    ("sum of all", lambda a: a.sum() + a, lambda a: a.sum() + a),
    ("max", lambda a: a.max("q") - a.min("q"), lambda a: a.max(0) - a.min(0)),
    ("mean", lambda a: a.mean("q x") * a.prod("x"), lambda a: a.mean() * a.prod(1)),
    ("var", lambda a: a.var("x") + a.std("x"), lambda a: a.var(1) + a.std(1)),
    ("any", lambda a: np.where((a > 1).any("x") | (a > 0).all("x"), 1, 0),
     lambda a: (a > 1).any(1) | (a > 0).all(1)),
    ("functions", lambda a: a.exp() + a.log() + a.sqrt() + a.tanh() + a.abs() + a.clip(0.6, 1).round(),
     lambda a: np.exp(a) + np.log(a) + np.sqrt(a) + np.tanh(a) + np.abs(a) + a.clip(0.6, 1).round()),
    ("np.sum", lambda a: np.sum(a, "x") + np.mean(a, axis="x") + np.amax(a, "x"),
     lambda a: a.sum(1) + a.mean(1) + a.max(1)),
    ("np.var", lambda a: np.var(a) + np.std(a) + np.prod(a), lambda a: a.var() + a.std() + a.prod()),
    ("np.where", lambda a: np.where(a > 1, a, 0), lambda a: np.where(a > 1, a, 0)),
    ("np.clip", lambda a: np.clip(a, 0.7, 0.9) + np.round(a) + np.maximum(a, 1),
     lambda a: np.clip(a, 0.7, 0.9) + np.round(a) + np.maximum(a, 1)),
    ("ufuncs", lambda a: np.square(a) + np.power(a, 3) + np.reciprocal(a) + np.log1p(a) + np.expm1(a) + np.positive(a),
     lambda a: a**2 + a**3 + 1 / a + np.log1p(a) + np.expm1(a) + a),
    ("ufuncs of two", lambda a: np.exp2(a) + np.log2(a), lambda a: np.exp2(a) + np.log2(a)),
]  # fmt: skip
REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda a: a.sum(1), r"a.sum\(\) over axis 1: axes have names here, and the array has q x"),
    (lambda a: a.sum("z"), "cannot sum over axis 'z'"),
    (lambda a: np.sum(a, 1), r"np\.sum over axis 1"),
    (lambda a: np.sum(a, axis="x", keepdims=True), "has no keepdims="),
    (lambda a: np.einsum("ij->i", a), r"np.einsum does not work on named axes: write cd.einsum"),
    (lambda a: np.matmul(a, a), "np.matmul does not work on named axes: write cd.einsum"),
    (lambda a: np.concatenate([a, a]), "write cd.concat"),
    (lambda a: np.argmax(a), "write cd.argmax"),
    (lambda a: np.linalg.norm(a), "does not work on named axes|NumPy cannot hold it"),
    (lambda a: a.T, "no attribute 'T': write cd.rearrange"),
    (lambda a: a.reshape(2, 6), "no attribute 'reshape': write cd.rearrange"),
    (lambda a: a.shape, r"a.axes has the names of its axes, and cd.size\(\"x\"\)"),
    (lambda a: a.colour, "no attribute 'colour'"),
    (lambda a: cd.einsum("ij,jk->ik", a, a), "names of axes stand between blanks: 'i j, j k -> i k'"),
    (lambda a: cd.einsum("qx -> q", a), "names of axes stand between blanks: 'q x -> q'"),
]


@pytest.mark.parametrize(("name", "ours", "numpys"), SAME, ids=lambda v: v if isinstance(v, str) else "")
def test_means_what_numpy_does(name: str, ours: Callable[[Any], Any], numpys: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(cd.algorithm("q x")(ours)(P), numpys(P), rtol=1e-12)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_is_refused_with_what_to_write(number: int) -> None:
    function, said = REFUSED[number]
    with pytest.raises(cd.errors.CatdiagError, match=said):
        cd.algorithm("q x")(function)


def test_an_attribute_that_is_missing_is_missing() -> None:
    """Libraries ask whether an array has an attribute."""
    cd.algorithm("q x")(lambda a: a if not hasattr(a, "shape") else None)


def test_torch_is_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(cd.errors.TypeMismatch, match=r"torch.exp does not work on named axes: write cd.exp"):
        cd.algorithm("q x")(lambda a: torch.exp(a))


def test_jax_is_refused() -> None:
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(cd.errors.TypeMismatch, match=r"functions of other .* do not work on named axes.*cd\.from_jax"):
        cd.algorithm("q x")(lambda a: jnp.exp(a))


def test_einops_is_refused() -> None:
    einops = pytest.importorskip("einops")
    with pytest.raises(cd.errors.TypeMismatch, match=r"functions of other libraries, as einops .*cd\.rearrange"):
        cd.algorithm("q x")(lambda a: einops.rearrange(a, "q x -> x q"))


def test_an_error_of_the_users_own_stays_one() -> None:
    def raising(a):
        raise ValueError(f"no {type(a).__name__}")

    with pytest.raises(ValueError, match="no Traced"):
        cd.algorithm("q x")(raising)


@pytest.mark.parametrize(
    ("method", "said"),
    [("relu", r"cd\.nn\.relu\(a\)"), ("to", r"cd\.cast"), ("masked_fill", r"cd\.where"), ("pow", r"a \*\* b")],
)
def test_methods_of_other_libraries_are_pointed_to_functions(method: str, said: str) -> None:
    with pytest.raises(cd.errors.CatdiagError, match=said):
        cd.algorithm("q x")(lambda a: getattr(a, method)(1))
