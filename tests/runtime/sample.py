"""A module in the form that the emitter writes, by hand: rows of a matrix, scaled and summed, in blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

from catdiag.category.types import ArrayType, Axis

TEXT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(A, out, q, x, A_q, A_x, out_q, c, g_q: tl.constexpr, s_x: tl.constexpr):
    i = tl.program_id(0) * g_q + tl.arange(0, g_q)
    total = tl.zeros((g_q,), tl.float32)
    for x0 in range(0, x, s_x):
        j = x0 + tl.arange(0, s_x)
        block = tl.load(A + i[:, None] * A_q + j[None, :] * A_x, mask=(i[:, None] < q) & (j[None, :] < x), other=0.0)
        total += tl.sum(block.to(tl.float32), 1)
    tl.store(out + i * out_q, (total * c).to(out.dtype.element_ty), mask=i < q)


def total(A, c, *, g_q=64, s_x=32, num_warps=4, num_stages=2, out=None):
    if A.ndim != 2:
        raise ValueError(f"A has {A.ndim} axes, expected 2: q x")
    q, x = A.shape
    if out is None:
        out = torch.empty((q,), dtype=A.dtype, device=A.device)
    total_kernel[(triton.cdiv(q, g_q),)](
        A, out, q, x, A.stride(0), A.stride(1), out.stride(0), c,
        g_q=g_q, s_x=s_x, num_warps=num_warps, num_stages=num_stages,
    )
    return out
"""


@dataclass(frozen=True)
class Argument:
    name: str
    ty: ArrayType
    dtype: str


@dataclass(frozen=True)
class Module:
    text: str = TEXT
    entry: str = "total"
    kernels: tuple[str, ...] = ("total_kernel",)
    inputs: tuple[Argument, ...] = (
        Argument("A", ArrayType((Axis("q"), Axis("x"))), "bfloat16"),
        Argument("c", ArrayType(), "float32"),
    )
    outputs: tuple[Argument, ...] = (Argument("out", ArrayType((Axis("q"),)), "bfloat16"),)
    tiles: dict[str, int] = field(default_factory=lambda: {"g_q": 64, "s_x": 32})
