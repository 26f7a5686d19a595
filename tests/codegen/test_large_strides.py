"""Tensors whose entries are further apart than 32 bits count, or share memory: interpreted, compiled, on a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.machine_code import binaries
from catdiag.runtime.module_cache import imported


@cache
def softmax(dtype: str) -> Module:
    form = cd.library.get("softmax").group("q").diagram
    return module(form, {"g_q": 1}, dtype)


def function(made: Module) -> Any:
    return getattr(imported(made.text, made.entry), made.entry)


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_columns_that_are_far_apart(self, tmp_path: Path) -> None:
        import torch

        columns, apart = 48, 2**26
        # A file that holds nothing but the pages that are written to.
        room = torch.from_file(str(tmp_path / "room"), shared=True, size=apart * columns, dtype=torch.float16)
        A = room.as_strided((3, columns), (1, apart))
        A.copy_(torch.randn(3, columns, generator=torch.Generator().manual_seed(0)))
        found = function(softmax("fp16"))(A)
        assert (found.double() - A.double().softmax(1)).abs().max() < 1e-3

    def test_a_result_may_take_the_place_of_what_its_programs_alone_read(self) -> None:
        import torch

        run, A = function(softmax("fp32")), torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
        meant = A.softmax(1)
        with pytest.raises(ValueError, match="out shares memory with"):
            run(A, out=A.as_strided((5, 12), (1, 5)))
        assert run(A, out=A) is A and torch.allclose(A, meant)


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("specialized", [False, True])
def test_both_forms_compile_so(specialized: bool) -> None:
    form = cd.library.get("multi_head_attention").stream("x").group("b h q").diagram
    tiles = {"g_b": 1, "g_h": 1, "g_q": 128, "s_x": 64}
    made = module(form, tiles, "bf16", warps=8, specialized=specialized)
    assert "wide=wide" in made.text
    (code,) = binaries(
        replace(made, text=made.text.replace("wide=wide", "wide=True")), {"b": 1, "h": 2, "q": 300, "x": 300, "d": 64}
    )
    assert (code.kernel in made.specialized) == specialized


@pytest.mark.gpu
def test_a_transposed_tensor_of_five_gigabytes() -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    rows, columns = 40_000, 65_536
    A = torch.randn(columns, rows, device="cuda", dtype=torch.bfloat16).T
    found = function(softmax("bf16"))(A)
    for first in range(0, rows, 5_000):
        part = A[first : first + 5_000].double().softmax(1)
        assert float((found[first : first + 5_000].double() - part).norm() / part.norm()) < 5e-3
