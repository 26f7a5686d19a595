"""Plans around uninterpreted boxes: where they are cut, what is said of them, and that functions are called rightly."""

from __future__ import annotations

from typing import Any

import pytest

import catdiag as cd
from catdiag.category.types import ArrayType, Axis, Ty
from catdiag.planner.multi_kernel_plan import Plan

ROWS, COLUMNS = (ArrayType(tuple(map(Axis, names))) for names in ("qx", "xq"))
f, both = cd.box("f", ROWS, ROWS), cd.box("both", Ty(ROWS, ArrayType((Axis("q"),))), Ty(COLUMNS, ROWS))
SIZES = {"q": 64, "x": 48}


@cd.algorithm("q x, x -> q x", name="around")
def around(A: Any, b: Any) -> Any:
    scores = cd.exp(A * b)
    made = f(scores)
    return made / cd.sum(made, "x")


@cd.algorithm("q x -> q, q x", name="permuted")
def permuted(A: Any) -> Any:
    turned, other = both(cd.reverse(A, "x"), cd.sum(A, "x"))
    return cd.sum(2 * turned, "x"), other


@pytest.fixture(scope="module")
def plan() -> Plan:
    return around.plan("H200", SIZES, dtype="fp32")


def test_the_parts_around_it_are_kernels_with_a_theorem(plan: Plan) -> None:
    backends = [kernel.backend for kernel in plan.kernels]
    assert plan.backend == "triton" and backends.count("function") == 1 and len(backends) > 2
    (said,) = plan.assumptions
    number = backends.index("function") + 1
    assert said == f"kernel {number}: f is a function of scores, and changes none of its arguments"
    assert said in str(plan) and "what functions take beside reading and writing" in str(plan)
    assert not plan.theorem.conditional and "where f is any function" in str(plan.theorem)
    assert plan.kernels[number - 1].hbm_bytes == 2 * 4 * 64 * 48
    assert not plan.launches_dominate and "CUDA graph" not in str(plan)
    assert plan.module is not None and plan.module.functions == ("f",)


def test_nothing_is_fused_with_it_and_it_is_not_left_out() -> None:
    found = f.plan("H200", {"q": 64, "x": 64})
    assert [kernel.backend for kernel in found.kernels] == ["function"]
    with pytest.raises(cd.errors.CatdiagError, match="calls a function, and no kernel does that with anything else"):
        around.plan("H200", SIZES, cuts=0)


def test_what_it_reads_and_gives_in_any_order_of_axes() -> None:
    found = permuted.plan("H200", {"q": 64, "x": 48}, dtype="fp32")
    assert found.backend == "triton", found.reason
    assert "view" in found.kernels[0].makes[0][0] or "view" in found.kernels[1].makes[0][0]
    assert not found.theorem.conditional


def test_a_box_inside_of_a_named_one_is_seen() -> None:
    named = cd.algorithm("q x", name="outer")(lambda A: cd.exp(around_rows(A)))
    found = named.plan("H200", {"q": 64, "x": 48}, dtype="fp32")
    assert [kernel.backend for kernel in found.kernels].count("function") == 1


@cd.algorithm("q x", name="around_rows")
def around_rows(A: Any) -> Any:
    return 2 * f(A + 1)


@pytest.mark.triton
class TestCompiled:
    @pytest.fixture(autouse=True)
    def _compiling(self, compiling: None) -> None:
        """Without Triton's interpreter."""

    def test_a_function_that_is_missing_is_named(self, plan: Plan) -> None:
        with pytest.raises(cd.errors.CatdiagError, match=r"'f' has no function: .*functions=\{'f': torch.sin\}"):
            plan.compile()
        with pytest.raises(cd.errors.CatdiagError, match="a CUDA graph cannot call 'f'"):
            plan.compile(graph=True, functions={"f": lambda a: a})

    def test_each_function_is_an_operator_of_its_own(self, plan: Plan) -> None:
        import torch

        one, other = (plan.compile(functions={"f": function}) for function in (torch.sin, torch.cos))
        assert one.op is not other.op and plan.compile(functions={"f": torch.sin}) is one
        meta = one.op(torch.empty(5, 3, device="meta"), torch.empty(3, device="meta"))
        assert meta.shape == (5, 3)

    def test_an_imported_program_has_its_functions(self) -> None:
        import torch

        program = cd.from_torch(lambda a: torch.lgamma(2 * a).T + 1, torch.ones(6, 5), allow_opaque=True)
        found = program.plan("H200", program.example.sizes, dtype="fp32")
        assert len(found.compile().functions) == 1


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def test_functions_are_called_between_kernels(self, plan: Plan) -> None:
        import torch

        kernel = plan.compile(functions={"f": lambda a: a.sort(-1).values})
        A, b = (torch.randn(n, generator=torch.Generator().manual_seed(1)) for n in ((20, 9), (9,)))
        made = torch.exp(A * b).sort(-1).values
        torch.testing.assert_close(kernel(A, b), made / made.sum(-1, keepdim=True))

    def test_axes_in_any_order_and_several_results(self) -> None:
        import torch

        found = permuted.plan("H200", {"q": 64, "x": 48}, dtype="fp32")
        kernel = found.compile(functions={"both": lambda a, b: (a.T + b, a.sin())})
        A = torch.randn(20, 9, generator=torch.Generator().manual_seed(1))
        turned, total = A.flip(1), A.sum(1)
        wanted = (2 * (turned.T + total)).sum(0), turned.sin()
        for got, want in zip(kernel(A), wanted, strict=True):
            torch.testing.assert_close(got, want)
        with pytest.raises(ValueError, match=r"result 0 of both has shape \(20, 9\): expected \(9, 20\)"):
            found.compile(functions={"both": lambda a, b: (a, a)})(A)

    def test_the_operations_of_a_module_that_has_no_rule_for_them(self) -> None:
        import torch

        def function(a: Any, w: Any) -> Any:
            values, places = torch.sort(a * w, dim=-1)
            return torch.lgamma(values.abs()).T + places.T

        a, w = torch.randn(20, 9), torch.randn(9)
        program = cd.from_torch(function, a, w, allow_opaque=True)
        found = program.plan("H200", program.example.sizes, dtype="fp32")
        torch.testing.assert_close(found.compile()(a, w), function(a, w).float())
        other = torch.randn(7, 11), torch.randn(11)
        torch.testing.assert_close(found.compile()(*other), function(*other).float())
