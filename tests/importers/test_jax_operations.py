"""Each primitive of JAX that is imported means what it does there: its program against it, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from tests.importers.inputs import integers, positive, real

jax = pytest.importorskip("jax")
jnp, jnn, lax = jax.numpy, jax.nn, jax.lax


pytestmark = pytest.mark.usefixtures("jax_in_double")


def check(function: Callable[..., Any], *example: Any, **options: Any) -> cd.Program:
    program = cd.from_jax(function, *example, **options)
    arrays = [np.asarray(a) for a in program.example.arrays]
    found = program.run(*arrays, sizes=program.example.sizes)
    wanted = function(*map(jnp.asarray, example))
    found, wanted = (v if isinstance(v, (tuple, list)) else (v,) for v in (found, wanted))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert np.shape(one) == other.shape
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-10, atol=1e-12)
    return program


_A, _B, _P, _I = real(3, 4), real(4, 6), positive(3, 4), integers(-4, 4, 5)
UNARY = (
    "exp", "expm1", "tanh", "sin", "cos", "tan", "sinh", "cosh", "abs", "negative", "square", "sign", "floor", "ceil",
    "round", "logical_not", "exp2", "isfinite", "positive",
)  # fmt: skip
OF_POSITIVE = ("log", "log1p", "log2", "sqrt", "reciprocal")
ACTIVATIONS = (
    "relu", "relu6", "sigmoid", "softplus", "soft_sign", "silu", "log_sigmoid", "elu", "leaky_relu", "hard_tanh",
    "hard_sigmoid", "hard_silu", "celu", "selu", "gelu", "mish", "squareplus", "softmax", "log_softmax", "logsumexp",
    "standardize",
)  # fmt: skip
OPERATIONS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda a, c: (a @ c, a**3, a**-2, 2**a, a % 1.5, a // 0.7), (_A, _B)),
    (lambda a: (a**2.5, lax.rsqrt(a), jnp.log2(a)), (_P,)),
    (lambda a: (lax.erf(a), lax.erfc(a), lax.logistic(a), jnn.gelu(a, approximate=False)), (_A,)),
    (lambda i: (i // 3, i % 3, lax.div(i, 3), lax.rem(i, 3), -i, abs(i), jnp.sign(i)), (_I,)),
    (lambda a: (a.astype(int), (a > 0).astype(float), a.astype(bool), jnp.int32(2) + a.astype(int)), (3 * _A,)),
    (lambda a: (a > 0) & ~(a < 1) | (a != 0.5) ^ (a >= -1), (_A,)),
    (lambda a, c: (jnp.maximum(a, c), jnp.where(a > c, a, -1.0), jnp.clip(a, -0.5, None)), (_A, _A[::-1])),
    (lambda a: lax.select_n(jnp.arange(4) % 3, a[0], a[1], a[2]), (_A,)),
    (lambda a: (a.sum(), a.max(0), a.min(1), a.prod(0), (a > 0).any(0), (a > 0).all(1)), (_A,)),
    (lambda a: (a.argmax(1), a.argmin(0), lax.top_k(a, 2)[0], lax.top_k(a, 2)[1]), (_A,)),
    (lambda a: (jnp.cumsum(a, 0), lax.cumsum(a, 1, reverse=True), a.var(1, ddof=1), a.std(0)), (_A,)),
    (lambda a: (jnp.sort(a, 1), jnp.argsort(jnp.round(a), 0), lax.sort((a, 2 * a), dimension=0, num_keys=1)[1]), (_A,)),
    (lambda a: (lax.lt_to_p.bind(a, -a), lax.le_to_p.bind(a, -a), lax.pad(a, 0.0, ((1, 2, 1), (-1, 0, 2)))), (_A,)),
    (lambda a: lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a.T, a.T + 1)), (_A,)),
    (lambda a: (jnp.median(a, 1), jnp.quantile(a, 0.3, axis=0)), (_A,)),
    (lambda a: (lax.cummax(a, 1), lax.cummin(a, 0, reverse=True), jnp.cumprod(a, 1), lax.cumlogsumexp(a, 0)), (_A,)),
    (lambda a: jnp.pad(a, ((0, 0), (2, 1)), mode="edge"), (_A,)),
    (lambda a: (a.reshape(2, 6), a.T.reshape(-1), a[:, None], a[..., ::2], a[1:, -1], jnp.flip(a, 1)), (_A,)),
    (lambda a: (jnp.split(a, [1, 3], 1)[1], jnp.stack([a, -a], 1), jnp.concatenate([a, a[:1]])), (_A,)),
    (lambda a: (jnp.tile(a, (2, 1)), jnp.repeat(a, 2, 0), jnp.broadcast_to(a, (2, 3, 4)), jnp.roll(a, 1, 1)), (_A,)),
    (lambda a: (jnp.pad(a, ((0, 1), (2, 0))), jnp.pad(a, 1, constant_values=2.0), jnp.tril(a, -1)), (_A,)),
    (lambda a, i: (a[i], jnp.take(a, i, axis=0, mode="clip"), a[:, i], jnp.take(a, i, 1)), (real(4, 7), _I)),
    (lambda a, i: jnp.take(a, i, 0, mode="fill", fill_value=-1), (real(4, 7), integers(0, 9, 5))),
    (lambda a: (jnp.take_along_axis(a, a.argmax(1, keepdims=True), 1), a[jnp.arange(3), jnp.arange(3)]), (_A,)),
    (lambda a, i: (lax.dynamic_slice(a, (i, 1), (2, 2)), lax.dynamic_index_in_dim(a, i)), (_A, np.array(2))),
    (lambda a, i: lax.dynamic_update_slice(a, 2 * a[:2], (i, 0)), (_A, np.array(2))),
    (lambda a: (a.at[:, 1].set(5.0), a.at[0].add(a[1]), a.at[:, :2].set(a[:, 2:])), (_A,)),
    (lambda a, c: (jnp.einsum("ij,jk->k", a, c), jnp.tensordot(a, c, 1), jnp.outer(a[0], c[1])), (_A, _B)),
    (jax.vmap(lambda a, c: jnp.vdot(a, c)), (_A, _A)),
    (lambda a: lax.conv_general_dilated(a, a[:2, :, :3], (2,), [(1, 2)], rhs_dilation=(2,)), (real(3, 4, 9),)),
    (lambda a: lax.scan(lambda c, x: (c + x, c * x), a[0], a, reverse=True), (_A,)),
    (jax.jit(lambda a: jax.checkpoint(jnp.sin)(a) + jax.lax.stop_gradient(a)), (_A,)),
    (jax.grad(lambda a: jnp.sum(jnp.tanh(a) ** 2)), (_A,)),
    (lambda a: a * np.arange(4.0) + jnp.linspace(0, 1, 4), (_A,)),
    (lambda a: jnp.exp(jnp.where(a > 0, a, -jnp.inf)) + jnp.isfinite(jnp.where(a > 0, a, -jnp.inf)), (_A,)),
    (lambda a: jnn.logsumexp(jnp.where(jnp.eye(4, dtype=bool), a, -jnp.inf), -1), (real(4, 4),)),
    (lambda a: jnn.one_hot(a, 5), (integers(0, 5, 6),)),
    (lambda a: (jnp.cbrt(a), jnp.arcsinh(a), jnp.arccosh(a * a + 1), jnp.arctanh(a / 9)), (_A,)),
    (lambda a: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 0.5), (0, a))[1], (_A,)),
    (lambda a: lax.cond(a.sum() > 0, lambda a: (a, a.sum()), lambda a: (2 * a, a.max()), a), (_A,)),
    (lambda a: lax.cond(a.sum() > 1e9, jnp.sin, jnp.cos, a), (_A,)),
    (lambda a, k: lax.switch(k, [jnp.sin, jnp.cos, jnp.exp], a), (_A, np.array(1))),
    (lambda a, k: lax.switch(k, [jnp.sin, jnp.cos, jnp.exp], a), (_A, np.array(7))),
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY + OF_POSITIVE)
def test_functions(name: str) -> None:
    if name == "logical_not":
        check(lambda a: jnp.logical_not(a > 0), _A)
    else:
        check(lambda a: getattr(jnp, name)(a), _P if name in OF_POSITIVE else _A)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    check(lambda a: getattr(jnn, name)(a), 2 * _A)


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_operations(number: int) -> None:
    function, example = OPERATIONS[number]
    check(function, *example)


_AT, _ROWS = np.array([0, 2, 0]), real(3, 4)
WRITES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a number added": (lambda a, i: a.at[i].add(1.0), (_A, _AT)),
    "rows added": (lambda a, i, u: a.at[i].add(u), (_A, _AT, _ROWS)),
    "columns added": (lambda a, i, u: a.at[:, i].add(u), (_A, _AT, real(3, 3))),
    "rows of a square": (lambda a, i, u: a.at[i].add(u), (real(4, 4), np.array([0, 2, 0, -1]), real(4, 4))),
    "rows written": (lambda a, i, u: a.at[i].set(u), (_A, np.array([2, 0]), real(2, 4))),
    "rows multiplied": (lambda a, i, u: a.at[i].multiply(u), (_A, _AT, _ROWS)),
    "the largest": (lambda a, i, u: a.at[i].max(u), (_A, _AT, _ROWS)),
    "the smallest, at all": (lambda a, i, u: a.at[i].min(u), (_A, 0 * _AT, _ROWS)),
    "beyond the ends": (lambda a, i, u: a.at[i].add(u), (_A, np.array([0, 7, -9]), _ROWS)),
    "clipped": (lambda a, i, u: a.at[i].add(u, mode="clip"), (_A, np.array([0, 7, -9]), _ROWS)),
    "single elements": (lambda a, i, j: a.at[i, j].add(1.0), (_A, np.array([0, 2]), np.array([1, 3]))),
    "a grid": (lambda a, i, j, u: a.at[i[:, None], j].add(u), (_A, np.array([0, 2]), np.array([1, 3, 1]), real(2, 3))),
    "at a matrix": (lambda a, i, u: a.at[i].add(u), (_A, np.array([[0, 2], [1, 1]]), real(2, 2, 4))),
    "segments": (lambda a, i: jax.ops.segment_sum(a, i, num_segments=2), (_A, np.array([0, 1, 0]))),
    "the gradient of a gather": (jax.grad(lambda a: (a[np.array([0, 2, 0])] ** 2).sum()), (_A,)),
}
_IMAGE = real(2, 8, 9, 3)


def pooled(start: float, function: Any, width: int, stride: int, how: str) -> Callable[[Any], Any]:
    return lambda a: lax.reduce_window(a, start, function, (1, width, width, 1), (1, stride, stride, 1), how)


def turned(strides: tuple[int, int], how: str) -> Callable[[Any, Any], Any]:
    return lambda a, w: lax.conv_transpose(a, w, strides, how, dimension_numbers=("NHWC", "HWIO", "NHWC"))


WINDOWS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "maxima side by side": (pooled(-np.inf, lax.max, 2, 2, "VALID"), (_IMAGE,)),
    "maxima with padding": (pooled(-np.inf, lax.max, 3, 2, "SAME"), (_IMAGE,)),
    "minima with padding": (pooled(np.inf, lax.min, 3, 2, "SAME"), (_IMAGE,)),
    "sums with padding": (pooled(0.0, lax.add, 3, 1, "SAME"), (_IMAGE,)),
    "a transposed convolution": (turned((2, 2), "SAME"), (_IMAGE, real(3, 3, 3, 4))),
    "one without overlaps": (turned((2, 2), "VALID"), (_IMAGE, real(2, 2, 3, 4))),
    "one with gaps": (turned((3, 2), "VALID"), (_IMAGE, real(2, 4, 3, 4))),
    "the gradient of a convolution": (
        jax.grad(lambda a, w: (lax.conv(a, w, (2, 2), "SAME") ** 2).sum()),
        (real(2, 3, 8, 9), real(4, 3, 3, 3)),
    ),
}


@pytest.mark.parametrize("name", [*WRITES, *WINDOWS])
def test_writes_and_windows(name: str) -> None:
    function, example = {**WRITES, **WINDOWS}[name]
    check(function, *example)


def test_a_loop_that_depends_on_values_is_refused_with_what_to_do() -> None:
    with pytest.raises(cd.errors.NotImported, match=r"number of iterations depends on values[\s\S]*jnp.where"):
        cd.from_jax(lambda a: lax.while_loop(lambda c: c.sum() > 1, lambda c: c * 0.5, a), _A)


def test_all_that_is_not_known_is_listed_with_its_line() -> None:
    with pytest.raises(cd.errors.NotImported) as raised:
        cd.from_jax(lambda a: (lax.digamma(a), lax.lgamma(a), jnp.tanh(a)), _A)
    said = str(raised.value)
    assert "jax.digamma has no rule" in said and "jax.lgamma has no rule" in said and "jax.tanh" not in said
    assert said.count("[" + __file__) == 2


def test_what_cannot_be_traced_is_said_of_the_function() -> None:
    def branching(a: Any) -> Any:
        return a if a[0, 0] > 0 else -a

    with pytest.raises(cd.errors.NotImported, match=r"could not trace branching on \(\[3, 4\]\)[\s\S]*jnp.where"):
        cd.from_jax(branching, _A)
    with pytest.raises(cd.errors.NotImported, match=r"argument how is 'sum'.*functools.partial"):
        cd.from_jax(lambda a, how: a, _A, "sum")
    check(partial(lambda how, a: getattr(jnp, how)(a), "sum"), _A)


def test_what_is_closed_over_is_an_input_or_a_number() -> None:
    table, ones = real(4), np.ones(4)
    program = check(lambda a: a * table + ones, _A)
    assert program.names == ("a", "constant")


def test_numbers_of_lengths_are_of_sizes_where_jax_can() -> None:
    def means(a: Any) -> Any:
        return a.mean(0) + a.shape[1] - jnp.sqrt(a.shape[0])

    program = check(means, _A, dynamic=True)
    other = real(7, 2)
    np.testing.assert_allclose(program.run(other), means(jnp.asarray(other)), rtol=1e-12)
    assert check(means, _A, dynamic=False).example.notes != ()

    def fixed(a: Any) -> Any:
        return a / float(a.shape[0])

    program = check(fixed, _A)
    assert "axes as long as 3 are those of the example" in program.example.notes[0]
    with pytest.raises(cd.errors.NotImported, match="symbols for all lengths"):
        cd.from_jax(fixed, _A, dynamic=True)


def test_a_branch_on_lengths_is_that_of_the_example() -> None:
    """Symbols are never equal: a trace with them does something else than the one on the example, and is not taken."""
    branches: list[Callable[[Any, Any], Any]] = [
        lambda a, c: a.sum() + c.sum() if a.shape == c.shape else a.sum() - c.sum(),
        lambda a, c: a * (2.0 if a.shape == c.shape else 3.0) + c.sum(),
        lambda a, c: (a if a.shape == c.shape else a * 2).sum() + c.sum(),
        lambda a, c: (a if a.shape == c.shape else c).sum() + c.sum() + a.sum(),
    ]
    for function in branches:
        program = check(function, _A, 2 * _A)
        assert "other operations" in program.example.notes[0]
