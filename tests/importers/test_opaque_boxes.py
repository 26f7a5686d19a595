"""Operations that are not known are boxes, where one asks for it: run by their library, and equal to themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd

pytestmark = pytest.mark.filterwarnings("ignore")


def run(program: cd.Program) -> Any:
    return program.run(*map(np.asarray, program.example.arrays), sizes=program.example.sizes)


def real(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


class TestTorch:
    torch = pytest.importorskip("torch")

    def function(self, x: Any, w: Any) -> Any:
        values, places = self.torch.frexp(x @ w)
        return self.torch.lgamma(values.abs()) + places

    def example(self) -> tuple[Any, Any]:
        return self.torch.from_numpy(real(5, 6)), self.torch.from_numpy(real(6, 4))

    def test_runs_and_is_the_same_box_each_time(self) -> None:
        x, w = self.example()
        with pytest.raises(cd.errors.NotImported, match=r"aten\.frexp has no rule.*\n.*aten\.lgamma has no rule"):
            cd.from_torch(self.function, x, w)
        program = cd.from_torch(self.function, x, w, allow_opaque=True)
        assert len(program.example.functions) == 2
        np.testing.assert_allclose(run(program), self.function(x, w).numpy(), rtol=1e-12)
        assert program == cd.from_torch(self.function, x, w, allow_opaque=True)

    def test_at_other_sizes(self) -> None:
        x, w = self.example()
        program = cd.from_torch(self.function, x, w, allow_opaque=True)
        other = real(3, 7), real(7, 2)
        wanted = self.function(*map(self.torch.from_numpy, other))
        np.testing.assert_allclose(program.run(*other), wanted.numpy(), rtol=1e-12)

    def test_other_arguments_are_another_box(self) -> None:
        x, _ = self.example()
        up, down = (cd.from_torch(lambda a, d=d: self.torch.polygamma(d, a), x, allow_opaque=True) for d in (1, 2))
        assert set(up.example.functions) != set(down.example.functions)
        with pytest.raises(cd.Refuted, match="aten_polygamma_"):  # by two functions that differ
            cd.prove(up, down)
        same = cd.from_torch(lambda a: self.torch.polygamma(1, a + a), x, allow_opaque=True)
        twice = cd.from_torch(lambda a: self.torch.polygamma(1, 2 * a), x, allow_opaque=True)
        assert not cd.prove(same, twice).conditional

    def test_rewrites_go_around_it(self) -> None:
        x, w = self.example()

        def attend(q: Any, k: Any, v: Any) -> Any:
            return self.torch.softmax(q @ k.T, -1) @ v + self.torch.lgamma(q.abs() + 1).sum()

        program = cd.from_torch(attend, x, x[:4], w.T[:4, :3], allow_opaque=True)
        np.testing.assert_allclose(run(program), attend(x, x[:4], w.T[:4, :3]).numpy(), rtol=1e-12)
        fast = program.stream("k_0")
        assert not fast.theorem.conditional
        np.testing.assert_allclose(run(fast), run(program), rtol=1e-12)
        with pytest.raises(cd.errors.NotGroupable, match=r"aten_lgamma_.* is uninterpreted"):
            fast.group("q_0")

    def test_random_numbers_are_no_function(self) -> None:
        with pytest.raises(cd.errors.NotImported, match="bernoulli"):
            cd.from_torch(lambda a: self.torch.bernoulli(a), self.torch.rand(3), allow_opaque=True)


def test_jax() -> None:
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:

        def function(a: Any) -> Any:
            return jax.lax.lgamma(jax.numpy.sort(a, 0) ** 2 + 1).mean(1)

        program = cd.from_jax(function, real(5, 4), allow_opaque=True)
        np.testing.assert_allclose(run(program), function(real(5, 4)), rtol=1e-12)
        np.testing.assert_allclose(program.run(real(3, 7)), function(real(3, 7)), rtol=1e-12)
    finally:
        jax.config.update("jax_enable_x64", before)


def test_onnx() -> None:
    onnx = pytest.importorskip("onnx")
    make = onnx.helper
    graph = make.make_graph(
        [make.make_node("Hardmax", ["a"], ["h"]), make.make_node("Add", ["h", "a"], ["y"])],
        "model",
        [make.make_tensor_value_info("a", onnx.TensorProto.DOUBLE, ("n", "m"))],
        [make.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, ("n", "m"))],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 20)])
    program = cd.from_onnx(model, real(3, 4), allow_opaque=True)
    a = real(5, 6)
    np.testing.assert_allclose(program.run(a), a + (a == a.max(-1, keepdims=True)))


def test_functions_of_apply_and_box_are_given_to_run() -> None:
    program = cd.algorithm("x")(lambda a: cd.apply("double", a) + 1)
    np.testing.assert_allclose(program.run([1, 2], functions={"double": lambda a: 2 * a}), [3, 5])
    with pytest.raises(cd.errors.TypeMismatch, match=r"program.run\(\*arrays, functions="):
        program.run([1, 2])
