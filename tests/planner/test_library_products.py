"""Products that torch computes: where plans take them, what is said of them, and that the module calls them rightly."""

from __future__ import annotations

import ast
from typing import Any

import pytest

import catdiag as cd
from catdiag.category.diagram import diagram_of
from catdiag.codegen.triton.product_call import product_axes
from catdiag.codegen.triton.triton_module import module
from catdiag.planner.graph_segments import StageSequence
from catdiag.planner.kernel_drafts import cut
from catdiag.planner.multi_kernel_plan import Plan
from catdiag.solvers.z3 import Z3

SIZES = {"t": 4096, "e": 4096, "h": 32, "d": 128, "f": 4096}
SMALL = {"t": 20, "e": 16, "h": 3, "d": 8, "f": 24}


@cd.algorithm("t e, h d e, f h d -> t f", name="gated")
def gated(X: Any, W: Any, V: Any) -> Any:
    A = cd.einsum("s e, h d e -> h s d", X.rename(t="s"), W).rename(s="t")
    B = cd.tanh(A) * cd.sum(A, "h")
    return cd.einsum("h t d, f h d -> t f", B, V)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return gated.plan("H200", SIZES, dtype="fp16", products="torch")


def test_each_product_is_a_call_and_said(plan: Plan) -> None:
    assert plan.backend == "triton", plan.reason
    calls = [number for number, kernel in enumerate(plan.kernels, 1) if kernel.backend == "torch"]
    assert len(calls) == 2 and len(plan.kernels) > 2
    first, last = plan.assumptions
    assert first == f"kernel {calls[0]}: torch computes einsum [h s d] = Σ_{{e}} X[s e] · W[h d e], up to rounding"
    assert "out[t f] = Σ_{h d} B[h t d] · V[f h d]" in last
    assert all(said in str(plan) for said in plan.assumptions)
    assert plan.as_dict()["assumptions"] == list(plan.assumptions)
    assert not plan.theorem.conditional
    assert plan.kernels[calls[0] - 1].flops == 2 * 4096**3
    tree = ast.parse(plan.code("triton"))
    assert sum(isinstance(n, ast.Call) and ast.unparse(n.func) == "_product" for n in ast.walk(tree)) == 2


def test_nothing_is_said_to_be_proved_of_what_torch_places(plan: Plan) -> None:
    """z3 bounds what written kernels take: of a call there is no bound, in JSON, in words and beside the others."""
    for number, kernel in enumerate(plan.kernels, 1):
        by_torch = kernel.backend == "torch"
        assert (kernel.as_dict()["proof"]["statement"] == "") == by_torch
        assert ("proved " in str(kernel)) != by_torch
        assert (f"kernel {number}:" in plan.proof.statement) != by_torch


def test_nothing_is_assumed_unless_it_is_asked_for() -> None:
    found = cd.library.get("matmul").plan("H200", {"a": 4096, "b": 4096, "c": 4096})
    assert found.assumptions == () and "assumed" not in str(found)


def test_the_quicker_is_taken() -> None:
    sizes = {"a": 4096, "b": 4096, "c": 4096}
    times = {way: cd.library.get("matmul").plan("H200", sizes, products=way) for way in ("triton", "torch", "quickest")}
    assert times["torch"].kernels[0].backend == "torch" and times["triton"].assumptions == ()
    assert times["quickest"].kernels[0].backend == "torch"
    few = cd.library.get("matmul").plan("H200", {**sizes, "a": 16}, products="quickest")
    assert few.kernels[0].backend == "triton"  # parts of the sum at once, no longer than the weights take to load
    assert times["torch"].time_s == times["quickest"].time_s < times["triton"].time_s
    # In fp32 what torch multiplies with depends on its settings, so that nothing is left to it.
    wide = cd.library.get("matmul").plan("H200", sizes, dtype="fp32", products="torch")
    assert wide.assumptions == () and wide.kernels[0].backend == "triton"


def test_attention_stays_one_kernel() -> None:
    sizes = {"q": 8192, "x": 8192, "d": 128}
    found = cd.library.get("attention").plan("H200", sizes, products="torch")
    assert found.assumptions == () and len(found.kernels) == 1


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(cd.errors.CatdiagError, match="products is 'cublas': expected 'triton', 'torch' or 'quickest'"):
        cd.library.get("matmul").plan("H200", {"a": 64, "b": 64, "c": 64}, products="cublas")


@pytest.mark.parametrize(
    ("signature", "pattern", "product"),
    [
        ("a b, b c -> a c", "a b, b c -> a c", True),
        ("k a b, k c b -> a k c", "k a b, k c b -> a k c", True),
        ("b, b c -> c", "b, b c -> c", True),
        ("a b, c -> a c", "a b, c -> a c", False),  # summed in one factor alone
        ("a b, a b -> a b", "a b, a b -> a b", False),  # nothing is summed
        ("int[a b], b c -> a c", "a b, b c -> a c", False),
    ],
)
def test_which_contractions_are_products(signature: str, pattern: str, product: bool) -> None:
    program = cd.algorithm(signature, name="program")(lambda A, B: cd.einsum(pattern, A, B))
    box = next(box for box in program.boxes if type(box.op).__name__ == "Einsum")
    assert (product_axes(box) is not None) == product


def test_a_group_that_is_no_product_is_refused() -> None:
    row = StageSequence(diagram_of(gated))
    with Z3() as ask:
        parts = [((k, k + 1), row.segment_diagram(k, k + 1), None) for k in range(len(row.stages))]
        whole = cut(row, parts, (), row.diagram, ask).diagram
    with pytest.raises(cd.errors.CatdiagError, match="group 1 is to be a call of torch: expected one product"):
        module(whole, {}, library=[1])


@pytest.mark.triton
@pytest.mark.usefixtures("compiling")
def test_the_launches_are_those_of_the_other_kernels(plan: Plan) -> None:
    kernel = plan.compile()
    assert len(kernel.launches(SIZES)) == len(plan.kernels) - 2
    import torch

    meta = kernel.op(*(torch.empty([SMALL[a.name] for a in ty.axes], dtype=torch.float16, device="meta")
                       for ty in plan.source.dom))  # fmt: skip
    assert meta.shape == (20, 24)


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_it_gives_what_the_program_means(self, plan: Plan) -> None:
        import torch

        for order in (1, -1):  # weights as they are, and transposed in memory
            lengths = [[SMALL[a.name] for a in ty.axes] for ty in plan.source.dom]
            random_of = torch.Generator().manual_seed(1)
            arrays = [(torch.randn(n[::order], generator=random_of) / n[-1] ** 0.5).half() for n in lengths]
            arrays = [a.permute(*reversed(range(a.ndim))) if order < 0 else a for a in arrays]
            got = plan.compile()(*arrays)
            wanted = gated.run(*(a.double().numpy() for a in arrays))
            assert abs(got.double().numpy() - wanted).max() < 0.02
