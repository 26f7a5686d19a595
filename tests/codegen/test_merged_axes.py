"""Kernels that read several axes of an array as one: by one stride, whatever memory has."""

from __future__ import annotations

import ast
from typing import Any

import pytest

import catdiag as cd
from catdiag.codegen.triton.triton_module import Module
from catdiag.runtime.launch_recorder import Tensor, Type, launches_on

HEADS = {"t": 512, "h": 8, "d": 64, "m": 512}


@cd.algorithm("t h d, h d m, t m -> t m")
def project(A: Any, W: Any, X: Any) -> Any:
    """The outputs of heads, projected."""
    return X + cd.einsum("t h d, h d m -> t m", A, W)


@cd.algorithm("h q 2 d, h x 2 d, h x v -> h q v")
def halves(Q: Any, K: Any, V: Any) -> Any:
    """Attention whose queries and keys are in two halves."""
    S = cd.einsum("h q 2 d, h x 2 d -> h q x", Q, K) / cd.sqrt(2 * cd.size("d"))
    return cd.einsum("h q x, h x v -> h q v", cd.softmax(S, "x"), V)


@cd.algorithm("h q x, h x v, h v m -> q m")
def through_memory(P: Any, V: Any, W: Any) -> Any:
    """Two products; between them heads lie beside their widths."""
    made = cd.einsum("h q x, h x v -> h q v", P, V)
    return cd.einsum("h q v, h v m -> q m", made, W)


def module_of(program: Any, sizes: dict[str, int], **options: Any) -> Module:
    plan = program.plan("H200", sizes, **options)
    assert plan.module is not None and not plan.theorem.conditional
    return plan.module


def arguments(made: Module, shapes: list[tuple[int, ...]], strides: list[tuple[int, ...]]) -> dict[str, Any]:
    tensors = [Tensor(shape, steps, Type("bfloat16")) for shape, steps in zip(shapes, strides, strict=True)]
    (launch,) = launches_on(made, tensors, {})
    return dict(launch.arguments)


def test_axes_that_lie_together_have_one_stride() -> None:
    made = module_of(project, HEADS)
    found = arguments(made, [(512, 8, 64), (8, 64, 512), (512, 512)], [(512, 64, 1), (32768, 512, 1), (512, 1)])
    assert found["A_merged"].shape == (512, 512) and found["A_merged"].strides == (512, 1)
    assert found["W_merged"].shape == (512, 512) and "A" not in found
    (kernel,) = (n for n in ast.parse(made.text).body if isinstance(n, ast.FunctionDef) and n.name == made.kernels[0])
    divided = [
        ast.unparse(n.right) for n in ast.walk(kernel) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.FloorDiv)
    ]
    assert not {"h", "d"} & set(divided)  # no position along an axis of the two is found


def test_a_buffer_is_allocated_with_merged_axes_and_written_through_a_view() -> None:
    sizes = {"h": 8, "q": 1024, "x": 1024, "v": 128, "m": 1024}
    made = module_of(through_memory, sizes, several=True)
    (line,) = (line for line in made.text.splitlines() if ".unflatten(" in line)
    assert line.strip().endswith("_merged.unflatten(1, (h, v)).permute((1, 0, 2))")
    assert [(b.name, str(b.ty)) for b in made.buffers] == [("t_merged", "[q (h v)]")]


def test_halves_are_one_axis_of_a_warp_specialized_kernel() -> None:
    sizes = {"h": 16, "q": 8192, "x": 8192, "v": 128}
    plan = halves.plan("H200", {**sizes, "d": 64})
    heads = cd.library.get("multi_head_attention").stream("x").group("b h q")
    one = heads.plan("H200", {"b": 1, "h": 16, "q": 8192, "x": 8192, "d": 128})
    (kernel,) = plan.kernels
    assert kernel.warp_specialized and kernel.tiles["s_x"] == one.kernels[0].tiles["s_x"]
    assert plan.time_s == pytest.approx(one.time_s, rel=0.02)


@pytest.mark.triton
@pytest.mark.usefixtures("interpreting")
class TestRun:
    @pytest.mark.parametrize("strided", [False, True])
    def test_what_cannot_be_viewed_is_copied(self, strided: bool) -> None:
        import torch

        made = project.plan("H200", HEADS, dtype="fp16").compile()
        random = torch.Generator().manual_seed(0)
        A, W, X = (torch.randn(s, generator=random).half() for s in ((70, 6, 24), (6, 24, 40), (70, 40)))
        if strided:
            room = torch.full((70, 6, 32), float("nan")).half()
            room[..., :24] = A
            A, W = room[..., :24], W.permute(1, 0, 2).contiguous().permute(1, 0, 2)
        wanted = X.double() + torch.einsum("thd,hdm->tm", A.double(), W.double())
        assert (made(A, W, X).double() - wanted).norm() < 2e-3 * wanted.norm()

    def test_two_kernels_agree_on_a_buffer(self) -> None:
        import torch

        sizes = {"h": 8, "q": 1024, "x": 1024, "v": 128, "m": 1024}
        made = through_memory.plan("H200", sizes, dtype="fp16", several=True).compile()
        random = torch.Generator().manual_seed(0)
        P, V, W = (torch.randn(s, generator=random).half() for s in ((3, 50, 20), (3, 20, 17), (3, 17, 33)))
        wanted = torch.einsum("hqx,hxv,hvm->qm", P.double(), V.double(), W.double())
        assert (made(P, V, W).double() - wanted).norm() < 3e-3 * wanted.norm()

    def test_attention_in_halves(self) -> None:
        import torch

        made = halves.plan("H200", {"h": 16, "q": 8192, "x": 8192, "v": 128, "d": 64}, dtype="fp16").compile()
        random = torch.Generator().manual_seed(0)
        Q, K, V = (torch.randn(s, generator=random).half() for s in ((2, 70, 2, 16), (2, 90, 2, 16), (2, 90, 24)))
        S = torch.einsum("hqad,hxad->hqx", Q.double(), K.double()) / 32**0.5
        wanted = torch.einsum("hqx,hxv->hqv", torch.softmax(S, -1), V.double())
        assert (made(Q, K, V).double() - wanted).norm() < 2e-3 * wanted.norm()
