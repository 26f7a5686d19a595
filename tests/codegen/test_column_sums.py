"""Sums of columns that a loop carries as blocks of partial sums, compiled for Hopper and run in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import module
from catdiag.planner.fit import searching
from catdiag.runtime.module_cache import imported

BODIES: dict[str, tuple[str, Callable[..., Any]]] = {
    "sums": ("t d -> d", lambda a: cd.sum(a, "t")),
    "moments": ("t d -> d, d", lambda a: (cd.sum(a, "t"), cd.sum(a * a, "t"))),
    "masked": ("t d, int[] -> d", lambda a, n: cd.sum(cd.where(cd.index("t") < n, a, 0), "t")),
    "products": ("t d, t d -> d", lambda a, b: cd.einsum("t d, t d -> d", a, b)),
    "of sequences": ("b t d -> b d", lambda a: cd.mean(a, "t")),
}


def program(name: str) -> cd.Program:
    signature, body = BODIES[name]
    return cd.algorithm(signature, name="columns")(body)


def test_a_loop_adds_blocks_and_puts_columns_together_once() -> None:
    looped = program("moments").stream("t").group("d")
    text = module(looped.diagram, {"g_d": 32, "s_t": 64}, stages=1).text
    assert text.count("tl.sum(") == 2 and "    sum1 = sum1_before + tl.sum(sum1, 0)  # columns are put together" in text
    rows = cd.algorithm("t d -> t", name="rows")(lambda a: cd.sum(a, "d")).stream("d").group("t")
    assert "_before" not in module(rows.diagram, {"g_t": 4, "s_d": 64}, stages=1).text


def test_partial_sums_take_registers_and_wait_for_nobody() -> None:
    search = searching(program("sums").stream("t").group("d"), "H200", {"t": 8192, "d": 8192}, "bf16")
    kernel = search.kernel
    assert [str(box.op) for box in kernel.column_sums()] == ["Reduce(monoid='sum', axis='t')"]
    rows = cd.algorithm("t d -> t", name="rows")(lambda a: cd.sum(a, "d")).stream("d").group("t")
    assert not searching(rows, "H200", {"t": 8192, "d": 8192}, "bf16").kernel.column_sums()


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", list(BODIES))
def test_loops_compute_sums_of_columns(name: str, split: bool) -> None:
    torch = pytest.importorskip("torch")
    made = program(name)
    looped = made.stream("t").split("t") if split else made.stream("t")
    looped = looped.group("b d" if name == "of sequences" else "d")
    tiles = {"g_d": 16, "s_t": 8, **({"p_t": 3} if split else {}), **({"g_b": 1} if name == "of sequences" else {})}
    code = module(looped.diagram, tiles, "fp32", stages=1)
    launch = getattr(imported(code.text, code.entry), code.entry)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2, 37, 19) if name == "of sequences" else (37, 19)) for _ in range(2)]
    given = {"masked": [arrays[0], 23], "products": arrays}.get(name, arrays[:1])
    found = launch(*(torch.tensor(a, dtype=torch.float32) if isinstance(a, np.ndarray) else a for a in given))
    wanted = made.run(*given)
    for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (found, wanted)), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=1e-4)
