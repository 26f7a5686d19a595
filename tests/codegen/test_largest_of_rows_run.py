"""Rows whose largest number is any that a type holds, in kernels (pytest -m triton)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.module_cache import imported
from tests.codegen.test_largest_of_rows import PROGRAMS, drawn, form

pytestmark = pytest.mark.triton


@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize("block", [8, 32])
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_kernels_in_triton(self, name: str, block: int) -> None:
        import torch

        inputs, means = drawn(name, "float32")
        made = module(form(name).diagram, {"g_q": 4, "s_x": block}, "fp32")
        launch = getattr(imported(made.text, made.entry), made.entry)
        found = launch(*map(torch.from_numpy, inputs))[0]
        np.testing.assert_allclose(found.numpy(), means, rtol=2e-5, atol=2e-5)


@cd.algorithm("q d, x d, q x, bool[q x], x d -> q d", name="biased")
def biased(Q: Any, K: Any, B: Any, N: Any, V: Any) -> Any:
    S = cd.where(N, cd.einsum("q d, x d -> q x", Q, K) * 0.25 + B, -cd.inf)
    return cd.einsum("q x, x d -> q d", cd.softmax(S, "x"), V)


def written(**options: Any) -> Module:
    return module(biased.stream("x").group("q").diagram, {"g_q": 64, "s_x": 64}, "bf16", **options)


def test_both_forms_subtract_before_they_multiply() -> None:
    text = written(warps=4, specialized=True).text
    lines = [line for line in text.splitlines() if "l.exp2(" in line]
    assert len(lines) >= 4 and all("exp2((" in line for line in lines)
    product = cd.library.get("attention").stream("x").group("q").diagram  # of products alone one instruction is left
    assert "exp2(t_6 * " in module(product, {"g_q": 64, "s_x": 64}, "bf16").text


def test_the_form_whose_warps_are_specialised() -> None:
    torch = pytest.importorskip("torch")
    from tests.codegen.gluon_machine import load

    made = written(warps=4, specialized=True)
    assert made.specialized
    run: Any = load(made.text, seed=1, name="biased.py")
    run["_boxed"] = lambda tensor, shape, *more: True
    draw = torch.Generator().manual_seed(0)
    Q, K, V = (torch.randn(64, 32, generator=draw).bfloat16() for _ in range(3))
    B, N = torch.zeros(64, 64).bfloat16(), torch.rand(64, 64, generator=draw) < 0.7
    least = torch.finfo(torch.bfloat16).min
    B[:8], B[8:16, ::2], B[16:24], B[24:32, 5], N[:, 0] = least, least, -1e30, 3e38, True
    N[32:40, :40] = False
    N[32:40, 50] = True
    S = torch.where(N, (0.25 * (Q.float() @ K.float().T) + B.float()).double(), -torch.inf)
    means = S.softmax(1) @ V.double()
    for block in (32, 64):
        found = run["biased"](Q, K, B, N, V, s_x=block, num_warps=4, num_stages=2)
        assert (found.double() - means).abs().max() < 0.03
