"""What the copy engine reads past the end of a slice is no part of it (pytest -m triton)."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.module_cache import imported


@cd.algorithm("a x, x c -> a c", name="sliced")
def sliced(A: Any, B: Any) -> Any:
    return cd.einsum("a y, y c -> a c", *(cd.slice(f, "x", 8, -3, into="y") for f in (A, B)))


def written() -> Module:
    return module(sliced.stream("y").group("a c"), {"g_a": 32, "g_c": 32, "s_y": 32}, "fp16")


def test_blocks_at_the_end_of_a_slice_are_masked() -> None:
    assert written().text.count("_blocks.load(") == written().text.count("tl.where(") == 2
    whole = module(cd.library.get("matmul").stream("b").group("a c"), {"g_a": 32, "g_c": 32, "s_b": 32}, "fp16").text
    assert whole.count("_blocks.load(") == 2 and "tl.where(" not in whole


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize("copies", [False, True])
    def test_sums_over_a_slice(self, copies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        kernels = imported(written().text, "sliced")
        monkeypatch.setattr(kernels, "_copies", lambda device: copies)
        draw = torch.Generator().manual_seed(0)
        A, B = torch.randn(32, 48, generator=draw).half(), torch.randn(48, 32, generator=draw).half()
        wanted = A[:, 8:-3].double() @ B[8:-3].double()
        assert (kernels.sliced(A, B, y=37).double() - wanted).abs().max() < 0.02
