"""Kernels that autograd differentiates: in float64 by references on the CPU, and in Triton's interpreter."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import catdiag as cd
from catdiag.codegen.torch_reference import torch_reference
from catdiag.rewrite.differentiate.forward_and_backward import ForwardAndBackward
from catdiag.util.errors import CatdiagError

torch = pytest.importorskip("torch")

from catdiag.runtime.autograd import register_backward  # noqa: E402

NORM = cd.library.rms_norm
SIZES = {"t": 20, "d": 24}


def reference_operator(name: str, passes: ForwardAndBackward, **sizes: int) -> Any:
    """The operator of both passes, run by their references."""
    forward, backward = (torch_reference(d).function() for d in (passes.forward, passes.backward))
    kinds = ", ".join(f"{'Tensor' if ty.axes else 'float'} a{k}" for k, ty in enumerate(passes.forward.dom))
    outputs = ", ".join(["Tensor"] * len(passes.forward.cod))
    schema = f"({kinds}) -> {outputs if len(passes.forward.cod) == 1 else f'({outputs})'}"

    def run(*arrays: Any) -> Any:
        found = forward(*arrays, **sizes)
        return tuple(a.clone() for a in found) if isinstance(found, tuple) else found.clone()

    torch.library.custom_op(f"catdiag_tests::{name}", run, mutates_args=(), schema=schema)
    register_backward(f"catdiag_tests::{name}", passes, lambda *arrays: backward(*arrays))
    return getattr(torch.ops.catdiag_tests, name).default


@pytest.mark.parametrize("name", ["softmax", "multi_head_attention", "rms_norm", "layer_norm"])
def test_gradients_agree_with_finite_differences_in_float64(name: str) -> None:
    program, lengths = cd.library.get(name), {"q": 3, "x": 4, "t": 3, "d": 5, "b": 1, "h": 2}
    wrt = [n for n, ty in zip(program.names, program.diagram.dom, strict=True) if ty.axes]
    passes = program.forward_and_backward(wrt=wrt)
    operator = reference_operator(name, passes)
    torch.manual_seed(0)
    shapes = [[lengths[str(axis.size)] for axis in ty.axes] for ty in program.diagram.dom]
    arrays = [torch.randn(s, dtype=torch.float64, requires_grad=True) if s else 1e-3 for s in shapes]

    def results(*given: Any) -> Any:
        found = operator(*given)
        return found[: passes.results] if isinstance(found, (tuple, list)) else found

    assert torch.autograd.gradcheck(results, arrays)


def test_an_input_by_which_there_is_no_gradient_is_named() -> None:
    operator = reference_operator("norm_by_rows", NORM.forward_and_backward(wrt="X"))
    X, g = torch.randn(4, 6, requires_grad=True), torch.randn(6, requires_grad=True)
    with pytest.raises(CatdiagError, match=r"'g' requires a gradient, .* by X: expected g.detach\(\)"):
        operator(X, g, 1e-3)
    operator(X, g.detach(), 1e-3)[0].sum().backward()
    assert X.grad.shape == (4, 6)


def test_a_result_that_is_not_differentiated_requires_no_gradient() -> None:
    two = cd.algorithm("q x -> q, q", name="two")(lambda a: (cd.sum(a, "x"), cd.sum(a * a, "x")))
    a = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    total, squares = reference_operator("two_sums", two.forward_and_backward(of=1))(a)
    assert squares.requires_grad and not total.requires_grad
    (found,) = torch.autograd.grad(squares.sum(), [a])
    torch.testing.assert_close(found, 2 * a.detach())


def test_results_that_are_not_used_need_no_cotangent() -> None:
    two = cd.algorithm("q x -> q, q", name="two")(lambda a: (cd.sum(a, "x"), cd.sum(a * a, "x")))
    a = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    _, squares = reference_operator("two_of_which_one_is_used", two.forward_and_backward())(a)
    torch.testing.assert_close(torch.autograd.grad(squares.sum(), [a])[0], 2 * a.detach())


@cache
def norm_kernel() -> Any:
    return NORM.plan("H200", SIZES, dtype="fp32").compile()


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    def kernel(self) -> Any:
        return norm_kernel()

    def data(self) -> list[Any]:
        torch.manual_seed(0)
        return [torch.randn(20, 24, requires_grad=True), torch.randn(24, requires_grad=True)]

    def expected(self, X: Any, g: Any) -> Any:
        return X / torch.sqrt((X * X).mean(-1, keepdim=True) + 1e-3) * g

    def test_gradients_are_those_of_autograd(self) -> None:
        kernel, (X, g) = self.kernel(), self.data()
        found, wanted = kernel(X, g, 1e-3), self.expected(X, g)
        torch.testing.assert_close(found, wanted)
        weight = torch.randn(20, 24)
        one, other = (torch.autograd.grad((y * weight).sum(), [X, g]) for y in (found, wanted))
        torch.testing.assert_close(one, other)
        (only,) = torch.autograd.grad((kernel(X, g.detach(), 1e-3) * weight).sum(), [X])
        torch.testing.assert_close(only, other[0])
        assert sorted(kernel._operators) == [(0,), (0, 1)]
        with torch.no_grad():
            assert not kernel(X, g, 1e-3).requires_grad

    def test_sizes_that_the_backward_pass_reads_of_no_array_are_those_of_the_plan(self) -> None:
        kernel = cd.library.embedding.plan("H200", {"v": 24, "d": 16, "t": 32}, dtype="fp32").compile()
        table, tokens = torch.randn(24, 16, requires_grad=True), torch.randint(0, 24, (32,))
        weight = torch.randn(32, 16)
        one, other = (torch.autograd.grad((y * weight).sum(), [table]) for y in (kernel(table, tokens), table[tokens]))
        torch.testing.assert_close(one, other)

    def test_torch_compile_takes_it_whole(self) -> None:
        kernel, (X, g) = self.kernel(), self.data()

        def loss(X: Any, g: Any) -> Any:
            return (kernel(X * 2, g, 1e-3) ** 3).sum()

        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        found, wanted = (torch.autograd.grad(f(X, g), [X, g]) for f in (compiled, loss))
        torch.testing.assert_close(found, wanted)

    def test_autocast_casts_to_the_types_of_the_kernel(self) -> None:
        kernel, (X, g) = self.kernel(), self.data()
        narrow = X.detach().bfloat16().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = kernel(narrow, g, 1e-3)
        assert found.dtype == torch.float32
        (back,) = torch.autograd.grad(found.sum(), [narrow])
        assert back.dtype == torch.bfloat16

    def test_torchs_own_tests_pass(self) -> None:
        kernel, (X, g) = self.kernel(), self.data()
        operator = kernel._operator_by((0, 1))
        assert set(torch.library.opcheck(operator, (X, g, 1e-3)).values()) == {"SUCCESS"}

    def test_what_has_no_gradient_is_refused(self) -> None:
        kernel, (X, g) = self.kernel(), self.data()
        with pytest.raises(CatdiagError, match="input 'eps' requires a gradient"):
            kernel(X, g, torch.tensor(1e-3, requires_grad=True))
        with pytest.raises(CatdiagError, match="out= is given"):
            kernel(X, g, 1e-3, out=torch.empty(20, 24))
