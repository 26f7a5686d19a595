"""Plans of forward and backward passes: the types of what passes between them, and sizes that only bodies have."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import catdiag as cd
from catdiag.planner.emitted_module import write
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.planner.training_plans import training_plans
from catdiag.runtime.machine_code import binaries


def test_statistics_are_saved_in_fp32_and_arrays_in_the_type_of_results() -> None:
    plans = training_plans(cd.library.cross_entropy.diagram, cd.hardware.H200, {"t": 8192, "v": 32000}, "bf16", [0])
    assert [len(plan.kernels) for plan in (plans.forward, plans.backward)] == [1, 1]
    assert plans.forward.dtypes["out1"] == plans.backward.dtypes["saved0"] == "fp32"
    assert plans.backward.dtypes["out"] == plans.backward.dtypes["dout"] == "bf16"
    assert plans.backward.module is not None  # it sums over an axis of which it reads no array
    assert plans.time_s == plans.forward.time_s + plans.backward.time_s


@functools.cache
def backward_of(name: str, inputs: int, width: int) -> Plan:
    """The plan of the backward pass of a norm, by its first inputs."""
    sizes = {"t": 8192, "d": width}
    return training_plans(cd.library.get(name).diagram, cd.hardware.H200, sizes, "bf16", range(inputs)).backward


NORMS = [("rms_norm", 2, 2048), ("layer_norm", 3, 1024)]


@pytest.mark.parametrize(("name", "inputs", "width"), NORMS)
def test_gradients_of_gains_are_added_up_by_the_kernel_that_makes_those_of_rows(
    name: str, inputs: int, width: int
) -> None:
    backward = backward_of(name, inputs, width)
    assert len(backward.kernels) == 1
    assert "group t" in str(backward) and not backward.theorem.conditional
    assert "for tile in tl.range(pid * run" in backward.code("triton")


@pytest.mark.parametrize(("name", "inputs", "width"), NORMS)
def test_kernels_that_add_in_runs_take_the_shared_memory_that_is_said(name: str, inputs: int, width: int) -> None:
    """Buffers of the groups that are loaded ahead, and sums of a run on their way out, which take most with one."""
    pytest.importorskip("triton")
    sizes, backward = {"t": 8192, "d": width}, backward_of(name, inputs, width)
    (kernel,), compiled = backward.kernels, binaries(backward.written(), sizes)
    assert max(binary.shared_bytes for binary in compiled) == kernel.shared_memory_bytes
    assert kernel.stages > 2 and not any(binary.spills for binary in compiled)
    assert kernel.diagram is not None and kernel.types is not None
    alone = write(kernel.diagram, kernel.tiles, kernel.types, 1, kernel.warps, False, cd.hardware.H200, sizes)
    shared = max(binary.shared_bytes for binary in binaries(alone.module, sizes))
    assert alone.largest.shared.bytes == shared == 4096


def test_what_is_added_in_registers_is_not_counted_as_moved_for_each_group() -> None:
    backward = backward_of("rms_norm", 2, 2048)
    parts = 4 * 2048 * 2 * cd.hardware.H200.sms  # of two programs of each core, in fp32
    assert backward.kernels[0].save_bytes <= 2 * 8192 * 2048 + parts


def test_a_product_is_saved_where_it_takes_longer_to_compute_again() -> None:
    mlp = cd.algorithm("t d, d f, f d -> t d", name="mlp")(
        lambda X, U, D: cd.einsum("t f, f d -> t d", cd.tanh(cd.einsum("t d, d f -> t f", X, U)), D)
    )
    plans = training_plans(mlp.diagram, cd.hardware.H200, {"t": 2048, "d": 2048, "f": 2048}, "bf16", [0])
    assert [str(plans.passes.forward.cod[k]) for k in plans.passes.products] == ["[t f]"]
    assert plans.backward.dtypes["saved0"] == "bf16"


def gated(X: Any, G: Any, U: Any, D: Any) -> Any:
    return cd.einsum("t f, f d -> t d", cd.nn.silu(cd.einsum("t d, d f -> t f", X, G))
                     * cd.einsum("t d, d f -> t f", X, U), D)  # fmt: skip


def test_one_kernel_makes_all_that_further_products_read() -> None:
    """Of gated units: gradients of both products and the hidden units, from what is saved and one product."""
    program = cd.algorithm("t d, d f, d f, f d -> t d", name="gated")(gated)
    sizes = {"t": 4096, "d": 2048, "f": 5632}
    backward = training_plans(program.diagram, cd.hardware.H200, sizes, "bf16", [0, 1, 2, 3]).backward
    made = [kernel.makes for kernel in backward.kernels if not kernel.flops]
    assert [len(arrays) for arrays in made] == [3] and not backward.unproved


def test_logits_that_the_forward_pass_writes_anyway_are_saved() -> None:
    """They take more than all inputs and results. Where the forward pass does not write them, they are made again."""

    def loss(X: Any, W: Any, y: Any) -> Any:
        L = cd.einsum("t d, v d -> t v", X, W)
        m = cd.max(L, "v")
        return m + cd.log(cd.sum(cd.exp(L - m), "v")) - cd.gather(L, "v", y)

    sizes = {"t": 4096, "d": 2048, "v": 32000}
    program = cd.algorithm("t d, v d, int[t] -> t", name="loss")(loss)
    for diagram in (program.diagram, cd.library.linear_cross_entropy.diagram):
        plans = training_plans(diagram, cd.hardware.H200, sizes, "bf16", [0, 1])
        logits = 2 * sizes["t"] * sizes["v"]
        written = max((size for _, size in plans.forward.saved), default=0) >= logits or plans.passes.products
        assert [str(plans.passes.forward.cod[k]) for k in plans.passes.products] == ["[t v]"] * bool(written)
        assert plans.backward.module is not None and not plans.backward.unproved


@pytest.mark.slow
def test_heads_that_share_keys_add_up_their_parts() -> None:
    """With heads as one axis: no product of the backward pass is in memory, and masked blocks are skipped."""

    def body(Q: Any, K: Any, V: Any) -> Any:
        S = cd.einsum("b k r q d, b k x d -> b k r q x", cd.rearrange(Q, "b (k r) q d -> b k r q d"), K)
        P = cd.softmax(cd.where(cd.index("x") > cd.index("q"), -cd.inf, S), "x")
        return cd.rearrange(cd.einsum("b k r q x, b k x d -> b k r q d", P, V), "b k r q d -> b (k r) q d")

    program = cd.algorithm("b (k r) q d, b k x d, b k x d -> b (k r) q d", name="shared keys")(body)
    sizes = {"b": 2, "k": 2, "r": 4, "q": 2048, "x": 2048, "d": 64}
    backward = training_plans(program.diagram, cd.hardware.H200, sizes, "bf16", [0, 1, 2]).backward
    assert [kernel.loops for kernel in backward.kernels][-1] == "stream q, group b k x r, skip q"
    assert max(size for _, size in backward.saved) < 2 * 2 * 8 * 2048 * 64 and not backward.unproved
