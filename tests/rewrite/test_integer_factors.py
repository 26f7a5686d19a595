"""Integers of few bits as factors of matrix products: their ranges, what is cast, and that meaning and numbers stay."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd
from catdiag.category.ops import Map
from catdiag.category.scalars import Cast
from catdiag.program import Program
from catdiag.rewrite.integer_factors import cast_factors, with_casts
from catdiag.util.errors import NotDifferentiable, TypeMismatch

TYPES = {"X": "bf16", "W": "int8", "s": "bf16", "out": "bf16"}
SIZES = {"t": 64, "d": 1024, "o": 1024}


def linear(change: Callable[[Any], Any] = lambda W: W) -> Program:
    """A linear layer whose weights are made of integers."""
    return cd.algorithm("t d, int[o d] -> t o", name="linear")(
        lambda X, W: cd.einsum("t d, o d -> t o", X, change(W)),
    )


def casts(program: Program, kind: str, stored: str) -> list[str]:
    """The types that factors are cast to, where inputs have these types."""
    found = with_casts(program.diagram, {"X": kind, "W": stored})
    return (
        [b.op.fn.dtype for b in found[1].boxes if isinstance(b.op, Map) and isinstance(b.op.fn, Cast)] if found else []
    )


@pytest.mark.parametrize(
    ("change", "kind", "stored", "expected"),
    [
        (lambda W: W, "bf16", "int8", ["bf16"]),
        (lambda W: W, "fp8", "uint8", ["fp16"]),
        (lambda W: W, "bf16", "int32", []),
        (lambda W: W // 16 - 8, "bf16", "uint8", ["bf16"]),
        (lambda W: W * 2, "bf16", "uint8", []),
        (lambda W: W * 2, "fp16", "uint8", ["fp16"]),
        (lambda W: W * W, "fp16", "uint8", []),
        (lambda W: W * W, "fp32", "uint8", ["fp32"]),
        (lambda W: cd.where(cd.index("d") < 3, W % 4, -W), "bf16", "uint8", ["bf16"]),
        (lambda W: W + cd.index("d"), "bf16", "int8", []),
    ],
)
def test_factors_are_cast_where_that_is_exact(
    change: Callable[[Any], Any], kind: str, stored: str, expected: list[str]
) -> None:
    assert casts(linear(change), kind, stored) == expected


def test_a_product_of_integers_stays_one_of_integers() -> None:
    both = cd.algorithm("int[t d], int[o d] -> int[t o]")(lambda A, B: cd.einsum("t d, o d -> t o", A, B))
    assert with_casts(both.diagram, {"A": "int8", "B": "int8"}) is None


EXPRESSIONS = st.recursive(
    st.one_of(st.just(lambda v: v), st.integers(-9, 9).map(lambda n: lambda v: n)),
    lambda inner: st.one_of(
        st.tuples(inner, inner, st.sampled_from("+-*")).map(
            lambda e: (
                lambda v: e[0](v) + e[1](v) if e[2] == "+" else e[0](v) - e[1](v) if e[2] == "-" else e[0](v) * e[1](v)
            )
        ),
        st.tuples(inner, st.integers(1, 20)).map(lambda e: lambda v: e[0](v) // e[1]),
        st.tuples(inner, st.integers(1, 20)).map(lambda e: lambda v: e[0](v) % e[1]),
        inner.map(lambda e: lambda v: -e(v)),
    ),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, st.sampled_from(["int8", "uint8"]))
def test_what_is_cast_is_exact_for_every_byte(expression: Callable[[Any], Any], stored: str) -> None:
    """The law: a factor is cast to bf16 only if each of its entries is an integer up to 256 in absolute value."""
    program = linear(lambda W: expression(W) + 0 * W)
    if casts(program, "bf16", stored):
        every = np.arange(256) if stored == "uint8" else np.arange(-128, 128)
        assert np.abs(expression(every) + 0 * every).max() <= 256


def test_casts_mean_the_same_and_are_proved() -> None:
    scaled = cd.algorithm("t g c, int[o g c], o g -> t o", name="scaled")(
        lambda X, W, s: cd.einsum("t g c, o g c, o g -> t o", X, W, s)
    )
    made = cast_factors(scaled.derivation, {"X": "bf16", "W": "int8", "s": "bf16"})
    assert str(made.steps[-1].action) == "cast integer factors to bf16" and not made.theorem.conditional
    rng = np.random.default_rng(0)
    X, W, s = rng.normal(size=(3, 2, 4)), rng.integers(-128, 128, (5, 2, 4)), rng.normal(size=(5, 2))
    np.testing.assert_allclose(Program(made.diagram)(X, W, s), np.einsum("tgc,ogc,og->to", X, W, s))


@pytest.fixture(scope="module")
def planned() -> tuple[Program, Any]:
    """A linear layer of 8-bit weights with a scale for each row, and its plan."""
    program = cd.algorithm("t d, int[o d], o -> t o", name="quantized")(
        lambda X, W, s: cd.einsum("t d, o d -> t o", X, W) * s
    )
    return program, program.plan("H200", SIZES, dtype=TYPES)


def test_weights_of_8_bits_are_factors_of_matrix_products(planned: tuple[Program, Any]) -> None:
    plan = planned[1]
    text = plan.code("triton")
    (dot,) = re.findall(r"tl\.dot\(.*", text)
    assert "W_tile.to(tl.float32).to(tl.bfloat16)" in dot
    assert not re.search(r"W_tile = .*int32", text), "8 bits are widened without a step through 32"
    assert plan.theorem is not None and "quantized" in str(plan.theorem)


def test_packed_weights_of_4_bits_are_unpacked_in_the_loop() -> None:
    def forward(X: Any, P: Any, s: Any) -> Any:
        weights = cd.where(cd.equal(cd.index("two"), 0), P % 16, P // 16) - 8
        return cd.einsum("t b two, o b two -> t o", cd.rearrange(X, "t (b two) -> t b two"), weights) * s

    program = cd.algorithm("t (b two=2), int[o b], o -> t o", name="packed")(forward)
    types = {"X": "bf16", "P": "uint8", "s": "bf16", "out": "bf16"}
    loop = cd.Program(cast_factors(program.derivation, types)).stream("b").group("t o")
    plan = loop.plan("H200", {"t": 64, "b": 512, "o": 1024}, dtype=types)
    assert plan.backend == "triton"
    assert "_transposed(tl.reshape(tl.permute(" in plan.code("triton"), "rows stay rows until they are transposed"
    rng = np.random.default_rng(0)
    X, P, s = rng.normal(size=(3, 8)), rng.integers(0, 256, (5, 4)), rng.normal(size=5)
    W = np.stack([P % 16, P // 16], -1).reshape(5, 8) - 8
    np.testing.assert_allclose(program(X, P, s), X @ W.T * s)


def test_weights_whose_entries_threads_would_exchange_are_unpacked_once() -> None:
    """Pairs are runs of two entries, of which rows of a matrix are merged in shared memory one by one."""

    def forward(X: Any, P: Any) -> Any:
        weights = cd.where(cd.equal(cd.index("two"), 0), P % 16, P // 16) - 8
        return cd.einsum("t b two, o b two -> t o", cd.rearrange(X, "t (b two) -> t b two"), weights)

    program = cd.algorithm("t (b two=2), int[o b] -> t o", name="packed")(forward)
    types = {"X": "bf16", "P": "uint8", "out": "bf16"}
    plan = program.plan("H200", {"t": 4096, "b": 2048, "o": 4096}, dtype=types)
    assert len(plan.kernels) == 2 and plan.saved[0][0].startswith("cast:bf16")


def test_integers_have_no_gradient_and_what_they_multiply_has(planned: tuple[Program, Any]) -> None:
    program = planned[0]
    rng = np.random.default_rng(0)
    X, W, s, dO = rng.normal(size=(3, 4)), rng.integers(-128, 128, (5, 4)), rng.normal(size=5), rng.normal(size=(3, 5))
    np.testing.assert_allclose(program.grad(wrt="X")(X, W, s, dO), (dO * s) @ W)
    with pytest.raises(NotDifferentiable, match="of integers"):
        program.grad(wrt="W")


def test_a_kernel_written_for_8_bits_takes_no_wider_integers(planned: tuple[Program, Any]) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    X, W, s = torch.zeros(64, 1024).bfloat16(), torch.zeros(1024, 1024).int(), torch.zeros(1024).bfloat16()
    with pytest.raises(TypeMismatch, match="input 'W' is of int32: expected int8"):
        planned[1].compile()(X, W, s)


@pytest.mark.triton
def test_the_compiler_takes_what_the_plan_says(planned: tuple[Program, Any]) -> None:
    for code in planned[1].compile().binaries(SIZES):
        assert not code.spills
