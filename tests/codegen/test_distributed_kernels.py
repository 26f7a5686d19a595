"""Sums multiplied out as kernels: run in the interpreter, and compiled for Hopper with products on matrix units.

What no tile changes is a kernel of its own. Run by `pytest -m triton`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import Diagram, diagram_of
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.execute.size_inference import tile_bounds
from catdiag.planner.compiled_plan import compiled_of
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.rewrite.derivation import Derivation
from catdiag.runtime.compile import CompiledKernel
from catdiag.runtime.machine_code import HOPPER, binaries
from catdiag.testing.input_generators import symbols_of

pytestmark = pytest.mark.triton


def squared(a: Any, b: Any) -> Any:
    return cd.sum((a - b) ** 2, "d")


def softened(a: Any, b: Any) -> Any:
    return cd.softmax(-squared(a, b), "x")


OPERATORS: dict[str, tuple[str, Callable[..., Any], str | None, str]] = {
    "distances": ("q d, x d -> q x", squared, None, "q x"),
    "weighted": ("q d, x d, d -> q x", lambda a, b, w: cd.sum((a - b) ** 2 * w, "d"), "d", "q x"),
    "fourth": ("q d, x d -> q x", lambda a, b: cd.sum((a - b) ** 4, "d"), None, "q x"),
    "gaussian": (
        "q d, x d, x e -> q e", lambda a, b, v: cd.einsum("q x, x e -> q e", cd.exp(-squared(a, b)), v), "x", "q",
    ),
    "mean": ("q d, x d, x e -> q e", lambda a, b, v: cd.einsum("q x, x e -> q e", softened(a, b), v), "x", "q"),
    "nearest": ("q d, x d -> q", lambda a, b: cd.min(squared(a, b), "x"), "x", "q"),
}  # fmt: skip


@functools.cache
def derived(name: str) -> Derivation:
    signature, function, stream, group = OPERATORS[name]
    made = cd.algorithm(signature, name=name)(function).distribute("d")
    return (made if stream is None else made.stream(stream)).group(group)


@functools.cache
def kernel(name: str, dtype: str) -> CompiledKernel:
    made = derived(name)
    return compiled_of(made.diagram, made.source, dict.fromkeys(tile_bounds(made.diagram), 16), dtype)


@pytest.mark.usefixtures("interpreting")
@pytest.mark.parametrize("name", OPERATORS)
def test_it_gives_what_was_written(name: str) -> None:
    made = kernel(name, "fp32")
    sizes: dict[str, list[int]] = {symbol: [1, 3, 17] for symbol in symbols_of(made.source)}
    assert cd.testing.assert_compiled(made, sizes, trials=3, repeats=False).compared > 0


@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("name", OPERATORS)
def test_products_are_on_matrix_units(name: str) -> None:
    made = derived(name).diagram
    text = module(made, dict.fromkeys(tile_bounds(diagram_of(made)), 64), "bf16")
    assert text.text.count("tl.dot") == {"fourth": 3, "gaussian": 2, "mean": 2}.get(name, 1)
    codes = binaries(text, dict.fromkeys(symbols_of(diagram_of(made)), 256) | {"d": 64, "e": 64})
    assert codes[0].arch == HOPPER and codes[0].assembly.count("wgmma.mma_async") >= text.text.count("tl.dot")
    assert not any(code.spills for code in codes)


@functools.cache
def apart() -> Plan:
    operator = cd.library.get("distance_attention")
    return operator.distribute("d").plan("H200", {"q": 8192, "x": 8192, "d": 128}, several=True)


def text_of(plans: Plan, size: int) -> Module:
    tiles = {name: min(size, 64) if name.startswith(("g_", "s_")) else 1 for name in plans.tiles}
    return module(plans.diagram, tiles, "bf16")


@pytest.mark.usefixtures("compiling")
def test_what_no_tile_changes_is_a_kernel_of_its_own_in_single_precision() -> None:
    plans = apart()
    assert [step.name for step in plans.derivation.steps] == ["distribute d", "cut: save cast:fp32 [x]"]
    assert plans.source == cd.library.get("distance_attention") and not plans.theorem.conditional
    text = text_of(plans, 64)
    first, second, merge = text.text.split("@triton.jit")[-3:]  # the loop runs in parts
    assert "tl.dot" not in first + merge and "tl.sum(" in first and second.count("tl.dot") == 2
    assert "((x,), torch.float32, " in text.text
    codes = binaries(text, {"q": 512, "x": 512, "d": 64}, scalars={"width": 1.0})
    assert [code.assembly.count("wgmma.mma_async") > 0 for code in codes] == [False, True, False]


@pytest.mark.usefixtures("interpreting")
def test_both_kernels_together_give_what_was_written() -> None:
    plans = apart()
    source: Diagram = plans.source
    made = compiled_of(plans.diagram, source, dict.fromkeys(tile_bounds(plans.diagram), 16), "fp32")
    sizes: dict[str, list[int]] = {symbol: [1, 3, 17] for symbol in symbols_of(source)}
    assert cd.testing.assert_compiled(made, sizes, trials=3, repeats=False).compared > 0
