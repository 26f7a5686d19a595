"""Attention with dropout in training: what both passes mean, and kernels that store neither mask nor weights."""

from __future__ import annotations

import pytest

import examples.dropout as example


def test_both_passes_have_the_gradient_with_the_same_mask() -> None:
    assert example.difference() < 1e-12


@pytest.mark.slow
def test_kernels_of_the_backward_pass_store_no_mask_and_compile_without_spills() -> None:
    pytest.importorskip("triton")
    plan = example.plans().backward
    assert [name for name, _ in plan.saved] == ["einsum [h q]"] and not plan.unproved
    assert [binary.spill_store_bytes for binary in plan.compile().binaries(example.SIZES)] == [0, 0]
