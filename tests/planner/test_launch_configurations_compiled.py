"""What Triton makes of proposals, without a GPU (pytest -m triton): no spills, and the shared memory that was said."""

import pytest

from catdiag.codegen.triton.triton_module import module
from catdiag.planner.launch_configurations import propose
from catdiag.runtime.machine_code import binaries
from tests.forms import form

LONG = {"q": 8192, "x": 8192, "d": 128}
CASES = [
    ("multi_head_attention", "x", "b h q", {**LONG, "b": 1, "h": 16}),
    ("multi_head_attention", "x", "b h q", {**LONG, "b": 1, "h": 32, "d": 64}),
    ("multi_head_attention", "x", "b h q", {**LONG, "b": 1, "h": 8, "d": 256}),
    ("grouped_query_attention", "x", "b k r q", {**LONG, "b": 2, "k": 8, "r": 4, "q": 4096}),
    ("decoding_attention", "x", "b k r", {"b": 8, "k": 8, "r": 4, "x": 8192, "d": 128}),
    ("soft_capped_attention", "x", "q", LONG),
    ("causal_attention", "x", "q", {**LONG, "d": 64}),
    ("differential_attention", "x", "q", {"q": 8192, "x": 8192, "d": 64, "v": 128}),
    ("linear_attention", "x", "q", {"q": 4096, "x": 4096, "d": 64, "v": 64}),
    ("gated_mlp", "f", "t", {"t": 8192, "d": 64, "f": 4096, "o": 64}),
    ("linear_cross_entropy", "v", "t", {"t": 8192, "d": 128, "v": 32000}),
    ("rms_norm_linear", "d", "t o", {"t": 8192, "d": 4096, "o": 4096}),
    ("matmul", "b", "a c", {"a": 4096, "b": 4096, "c": 4096}),
]


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize(("name", "axis", "axes", "sizes"), CASES)
def test_no_proposal_spills_and_each_takes_the_shared_memory_that_is_said(name, axis, axes, sizes):
    diagram = form(name, axis, axes)
    for p in propose(diagram, "H200", sizes):
        code = module(diagram, p.tiles, stages=p.stages, warps=p.warps, specialized=p.specialized)
        scalars = {a.name: 1.0 for a in code.inputs if not a.ty.axes}
        for made in binaries(code, sizes, scalars=scalars):
            # One proposal of a cross-entropy spills one register: 4 bytes.
            few = name == "linear_cross_entropy" and made.spill_store_bytes <= 4
            assert few or not made.spills, f"{p}: {made.registers} registers, {p.registers} were said"
            assert abs(made.shared_bytes - p.shared_bytes) <= 1024, p


EQUAL = {"b": 1024, "h": 1024, "q": 1024, "x": 1024, "d": 64}


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize(
    ("name", "axis", "axes", "sizes"),
    [
        ("multi_head_attention", "x", "b h q", EQUAL),
        ("rms_norm_linear", "d", "t o", {"t": 1024, "d": 1024, "o": 1024}),
        ("matmul", "b", "a c", {"a": 1024, "b": 1024, "c": 1024}),
    ],
)
def test_the_first_proposal_in_float32_does_not_spill(name, axis, axes, sizes):
    """Products in three passes of tf32 read two parts of each first factor from registers."""
    first = propose(form(name, axis, axes), "H200", sizes, dtype="fp32")[0]
    code = module(form(name, axis, axes), first.tiles, "fp32", stages=first.stages, warps=first.warps)
    scalars = {a.name: 1.0 for a in code.inputs if not a.ty.axes}
    assert not any(made.spills for made in binaries(code, sizes, scalars=scalars))
