"""Random programs of JAX and random models of ONNX mean the same here as there, in float64."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import catdiag as cd

POOLS = ([2, 3, 4], [2, 2, 4, 6], [3, 5, 7, 6], [4, 4, 2])


def inputs(rng: random.Random) -> list[Any]:
    """Arrays of a few lengths, so that axes meet."""
    pool = rng.choice(POOLS)
    shapes = [tuple(rng.choice(pool) for _ in range(rng.randint(1, 3))) for _ in range(2)]
    return [np.random.default_rng(k).normal(size=s) for k, s in enumerate(shapes)]


def run(program: cd.Program) -> Any:
    return program.run(*map(np.asarray, program.example.arrays), sizes=program.example.sizes)


def jax_steps(jax: Any) -> list[Callable[[Any, Any, random.Random], Any]]:
    jnp = jax.numpy
    return [
        lambda a, c, r: a + c,
        lambda a, c, r: a @ jnp.swapaxes(c, -1, -2) if c.ndim > 1 else a * jnp.sum(c),
        lambda a, c, r: a.transpose(r.sample(range(a.ndim), a.ndim)),
        lambda a, c, r: a.reshape(-1, a.shape[-1]) if r.random() < 0.5 else a.reshape(-1),
        lambda a, c, r: jnp.concatenate([a, 2 * a], r.randrange(a.ndim)),
        lambda a, c, r: jnp.stack([a, -a], r.randrange(a.ndim)),
        lambda a, c, r: a[..., a.shape[-1] // 2 :],
        lambda a, c, r: a[r.randrange(-a.shape[0], a.shape[0])],
        lambda a, c, r: jnp.mean(a, r.randrange(a.ndim), keepdims=r.random() < 0.5),
        lambda a, c, r: jax.nn.softmax(a, r.randrange(a.ndim)),
        lambda a, c, r: jnp.where(a > 0.1, a, -1.0),
        lambda a, c, r: jnp.cumsum(a, r.randrange(a.ndim)),
        lambda a, c, r: jnp.flip(a, r.randrange(a.ndim)),
        lambda a, c, r: jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(1, 2)]),
        lambda a, c, r: jnp.take(a, jnp.arange(a.shape[-1])[::-1], axis=-1),
        lambda a, c, r: jnp.tril(a) if a.ndim > 1 else jnp.tanh(a),
        lambda a, c, r: a / jnp.sqrt(a.shape[-1]) + a.var(-1, keepdims=True),
    ]


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_programs_of_jax(seed: int) -> None:
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        example, steps = inputs(random.Random(seed)), jax_steps(jax)

        def function(*arrays: Any) -> Any:
            rng, found = random.Random(seed), list(arrays)
            for _ in range(6):
                step, a, c = rng.choice(steps), rng.choice(found), rng.choice(found)
                try:
                    made = step(a, c, random.Random(seed))
                except (TypeError, ValueError):  # shapes that do not fit
                    continue
                if made.ndim and made.size < 2000:
                    found.append(made)
            return found[-1]

        program = cd.from_jax(function, *example, dynamic=False)
        np.testing.assert_allclose(run(program), function(*map(jax.numpy.asarray, example)), rtol=1e-9, atol=1e-10)
    finally:
        jax.config.update("jax_enable_x64", before)


def onnx_step(rng: random.Random, shape: tuple[int, ...], constant: Callable[[Any], str]) -> tuple[str, list[str], Any]:
    """An operator, the names of its further inputs, and its attributes."""
    k, rank = rng.randrange(len(shape)), len(shape)
    n = shape[k]
    start = rng.randrange(n)
    return rng.choice([
        lambda: ("Softmax", [], {"axis": k}), lambda: ("Tanh", [], {}), lambda: ("Neg", [], {}),
        lambda: ("Transpose", [], {"perm": rng.sample(range(rank), rank)}),
        lambda: ("Reshape", [constant(np.array([-1, shape[-1]]))], {}),
        lambda: ("Flatten", [], {"axis": k}),
        lambda: ("ReduceMean", [constant(np.array([k]))], {"keepdims": 1}),
        lambda: ("ReduceMax", [constant(np.array([k]))], {"keepdims": int(rank == 1)}),
        lambda: ("CumSum", [constant(np.int64(k))], {}),
        lambda: ("Slice", [constant(np.array([v])) for v in (start, rng.randint(start + 1, n), k)], {}),
        lambda: ("Unsqueeze", [constant(np.array([k]))], {}),
        lambda: ("Expand", [constant(np.array((2, *shape)))], {}),
        lambda: ("Tile", [constant(np.array([1] * (rank - 1) + [2]))], {}),
        lambda: ("Gather", [constant(np.array([n - 1, 0]))], {"axis": k}),
        lambda: ("Pad", [constant(np.array([1, 2])), constant(np.float64(1.5)), constant(np.array([k]))], {}),
        lambda: ("LayerNormalization", [constant(np.linspace(1, 2, shape[-1]))], {}),
    ])()  # fmt: skip


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_models_of_onnx(seed: int) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    rng, helper = random.Random(seed), onnx.helper
    example = inputs(rng)
    values = {f"x{k}": a for k, a in enumerate(example)}
    nodes: list[Any] = []
    constants: dict[str, Any] = {}

    def constant(value: Any) -> str:
        constants[f"c{len(constants)}"] = value
        return f"c{len(constants) - 1}"

    def model(output: str) -> Any:
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes, "model", [info(n, onnx.TensorProto.DOUBLE, values[n].shape) for n in ("x0", "x1")],
            [info(output, onnx.TensorProto.DOUBLE, None)],
            [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])

    for number in range(6):
        source, name = rng.choice(list(values)), f"y{number}"
        other = rng.choice([n for n in values if values[n].shape == values[source].shape])
        if rng.random() < 0.3:
            node = helper.make_node(rng.choice(["Add", "Mul"]), [source, other], [name])
        else:
            kind, more, attributes = onnx_step(rng, values[source].shape, constant)
            node = helper.make_node(kind, [source, *more], [name], **attributes)
        nodes.append(node)
        (made,) = ReferenceEvaluator(model(name)).run(None, dict(zip(("x0", "x1"), example, strict=True)))
        if made.ndim and made.size < 2000:
            values[name] = made
        else:
            nodes.pop()
    last = list(values)[-1]
    nodes[:] = nodes if last.startswith("y") else [*nodes, helper.make_node("Identity", [last], ["z"])]
    last = last if last.startswith("y") else "z"
    found = run(cd.from_onnx(model(last), *example))
    (wanted,) = ReferenceEvaluator(model(last)).run(None, dict(zip(("x0", "x1"), example, strict=True)))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)  # eps of a norm is of 32 bits there
