"""Each scalar function in the languages that kernels are written in: what the text gives is what the function means."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.codegen.numpy_source import source
from catdiag.codegen.pseudocode import pseudocode
from catdiag.codegen.torch_reference import torch_reference
from catdiag.codegen.triton.triton_module import module
from catdiag.planner.compiled_plan import compiled_of
from catdiag.rewrite.group import find

VALUES = [-7.5, -2.5, -1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 6.0, 40.0, -1e6]
ONE: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    "erf": (cd.erf, math.erf),
    "sin": (cd.sin, math.sin),
    "cos": (cd.cos, math.cos),
    "sign": (cd.sign, lambda v: (v > 0) - (v < 0)),
    "floor": (cd.floor, math.floor),
    "ceil": (cd.ceil, math.ceil),
    "round": (cd.round, round),
    "fraction": (lambda a: a - cd.floor(a), lambda v: v - math.floor(v)),
    "of integers": (lambda a: cd.sign(cd.floor(a)) + cd.ceil(cd.round(a)), lambda v: (v >= 1) - (v < 0) + round(v)),
    "quantized": (lambda a: cd.clip(cd.round(a * 4), -8, 7) / 4, lambda v: min(max(round(v * 4), -8), 7) / 4),
    "gelu": (cd.nn.gelu, lambda v: v / 2 * (1 + math.erf(v / math.sqrt(2)))),
    "softplus": (cd.nn.softplus, lambda v: max(v, 0) + math.log1p(math.exp(-abs(v)))),
}


def program(name: str) -> cd.Program:
    return cd.algorithm("q x", name="f")(lambda a: ONE[name][0](a))


def wanted(name: str) -> Any:
    return np.array([[ONE[name][1](v) for v in VALUES]])


def called(text: str, *arguments: Any) -> Any:
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return next(v for v in reversed(namespace.values()) if isinstance(v, FunctionType))(*arguments)


@pytest.mark.parametrize("name", ONE)
def test_numpy(name: str) -> None:
    arrays = np.array([VALUES])
    np.testing.assert_allclose(program(name)(arrays), wanted(name), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(called(source(program(name)), arrays), wanted(name), rtol=1e-12, atol=1e-12)
    assert "save out" in pseudocode(program(name))


@pytest.mark.parametrize("name", ONE)
def test_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    found = torch_reference(program(name).diagram).function()(torch.tensor([VALUES], dtype=torch.float64))
    np.testing.assert_allclose(found.numpy(), wanted(name), rtol=1e-12, atol=1e-12)


BINNED = cd.algorithm("q, k -> q", name="binned")(
    lambda a, t: cd.gather(t, "k", cd.clip(cd.floor(a * 4), 0, cd.size("k") - 1))
)
"""What the second array says of the bin, of equal width, that a number of the first is in."""


def test_an_array_is_read_at_what_a_function_rounds() -> None:
    a, t = np.array([-1.0, 0.3, 0.99, 5.0]), np.array([10.0, 20.0, 30.0, 40.0])
    assert BINNED(a, t).tolist() == [10.0, 20.0, 40.0, 40.0]
    assert called(source(BINNED), a, t).tolist() == [10.0, 20.0, 40.0, 40.0]
    text = module(find(BINNED.diagram, ["q"]), {"g_q": 16}, "fp32").text
    assert ".to(tl.int32)" in text
    fraction = module(find(program("fraction").diagram, ["q"]), {"g_q": 16}, "fp32").text
    assert "tl.floor" in fraction and ".to(tl.int32)" not in fraction


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize("name", ONE)
    def test_triton_gives_what_a_function_means(self, name: str) -> None:
        diagram = find(program(name).diagram, ["q", "x"])
        cd.testing.assert_compiled(compiled_of(diagram, program(name), {"g_q": 1, "g_x": 16}, "fp32"), trials=4)

    def test_what_is_rounded_is_read_at(self) -> None:
        cd.testing.assert_compiled(compiled_of(find(BINNED.diagram, ["q"]), BINNED, {"g_q": 16}, "fp32"), trials=4)

    def test_halves_are_rounded_to_even(self) -> None:
        torch = pytest.importorskip("torch")
        diagram = find(program("round").diagram, ["q", "x"])
        kernel = compiled_of(diagram, program("round"), {"g_q": 1, "g_x": 16}, "fp32")
        just = [math.nextafter(0.5, 0), -math.nextafter(0.5, 0), 2.0**23 - 0.5, -(2.0**23) + 0.5]
        values = torch.tensor([[*VALUES, *just]], dtype=torch.float32)
        assert torch.equal(kernel(values), torch.round(values).to(kernel(values).dtype))


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
class TestCompiled:
    @pytest.mark.parametrize("name", ["erf", "sin", "round", "of integers"])
    def test_machine_code_is_made(self, name: str) -> None:
        diagram = find(program(name).diagram, ["q", "x"])
        (code,) = compiled_of(diagram, program(name), {"g_q": 16, "g_x": 16}).binaries({"q": 32, "x": 48})
        assert code.registers


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_is_that_of_pytorch(approximate: str) -> None:
    torch = pytest.importorskip("torch")
    values = np.linspace(-9, 9, 181)
    found = cd.algorithm("x")(lambda a: cd.nn.gelu(a, approximate=approximate))(values)
    given = torch.from_numpy(values)
    np.testing.assert_allclose(found, torch.nn.functional.gelu(given, approximate=approximate), atol=1e-14)
    softplus = cd.algorithm("x")(lambda a: cd.nn.softplus(a))
    np.testing.assert_allclose(softplus(values * 50), torch.nn.functional.softplus(given * 50), atol=1e-8)
