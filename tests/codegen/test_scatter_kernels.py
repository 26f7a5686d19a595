"""Kernels that add rows where arrays of integers say: what is written, and what it computes in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import catdiag as cd
from catdiag.codegen.pseudocode import pseudocode
from catdiag.codegen.triton.triton_module import Module, module
from catdiag.runtime.module_cache import imported
from tests.scatters import FORMS
from tests.schedule.test_scatter_add import arrays_of, symbols_of

BLOCKS = {"g_t": 16, "g_d": 16, "g_b": 1, "s_k": 16}


def written(name: str, dtype: str = "bf16") -> Module:
    form = FORMS[name]
    return module(form, {s: BLOCKS[s] for s in symbols_of(form)}, dtype)


def test_each_entry_is_added_where_it_belongs() -> None:
    text = written("rows").text
    assert text.count("tl.atomic_add(") == 1 and 'sem="relaxed"' in text
    assert "out_sums.zero_()" in text and "out.copy_(out_sums)" in text
    assert "(0 <= ids_tile) & (ids_tile < v)" in text
    assert "tl.sum" not in text and "_parts(" not in text
    assert "scatter_add(G, ids)" in pseudocode(FORMS["rows"])


def test_sums_beside_it_are_added_in_order_if_they_are_asked_to() -> None:
    text = written("beside").text
    assert "_parts(out1" in text and "_parts(out0" not in text


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize("name", FORMS)
    @pytest.mark.parametrize("t", [1, 16, 37])
    def test_results_are_those_of_the_program(self, name: str, t: int) -> None:
        import torch

        form, made = FORMS[name], written(name, "fp32")
        arrays = arrays_of(form, {"t": t, "d": 19, "v": 5, "w": 4, "k": 6, "b": 2})
        tensors = [torch.tensor(a, dtype=None if a.dtype == np.int64 else torch.float32) for a in arrays]
        found: Any = getattr(imported(made.text, made.entry), made.entry)(*tensors)
        wanted: Any = cd.Program(form.source).run(*arrays)
        for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (found, wanted)), strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=2e-4, atol=2e-4)

    def test_a_deterministic_launch_is_refused(self) -> None:
        import torch

        made = written("counts", "fp32")
        with pytest.raises(ValueError, match="entries are added to out at positions that integers say"):
            getattr(imported(made.text, made.entry), made.entry)(
                torch.zeros(5, dtype=torch.int64), torch.zeros(3), deterministic=True
            )
