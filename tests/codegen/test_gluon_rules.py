"""The rules of Gluon that its stand-ins keep, one line of a kernel each, and those that the compiler does not keep.

What runs here was compiled for Hopper by Triton 3.6. It also takes, without a word: instructions wider than the block
or of another K, a left factor laid out for another product, factors of two types, sums in bfloat16, a copy with another
swizzle or too few coordinates, and a product read before its wait.
"""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch")
from tests.codegen.gluon_layouts import GluonError  # noqa: E402
from tests.codegen.gluon_machine import load  # noqa: E402

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("one_thread")]


RULES = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import *


@gluon.jit
def kernel(Q, to, n):
    B: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    L: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    L2: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 32, 16])
    q = gl.allocate_shared_memory(gl.bfloat16, [64, 64], Q.layout)
    r = gl.allocate_shared_memory(gl.bfloat16, [64, 64], Q.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, 1)
    mbarrier.expect(bar, 64 * 64 * 4)
    tma.async_copy_global_to_shared(Q, [0, 0], bar, q)
    tma.async_copy_global_to_shared(Q, [0, 0], bar, r)
    mbarrier.wait(bar, 0)
    z = gl.zeros([64, 64], gl.float32, L)
    cols = gl.arange(0, 64, gl.SliceLayout(0, B))
    other = gl.arange(0, 64, gl.SliceLayout(0, L))
    half = gl.full([64, 64], 1.0, gl.bfloat16, gl.DotOperandLayout(0, L, 2))
{body}


def run():
    import torch
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.bfloat16)
    Q = TensorDescriptor.from_tensor(torch.ones(64, 64, dtype=torch.bfloat16), [64, 64], layout)
    kernel[(1,)](Q, torch.zeros(4096), 3, num_warps=4)
"""


def by_rules(body: str) -> str:
    """The first line of what a kernel of these lines is refused for, or nothing."""
    text = RULES.replace("{body}", "".join(f"    {line}\n" for line in body.split("; ")))
    try:
        load(text)["run"]()
    except GluonError as found:
        return str(found).splitlines()[0]
    return ""


@pytest.mark.parametrize(
    "body",
    [
        "z = warpgroup_mma(q, r, z)",
        "z = warpgroup_mma(half, r, z)",
        "z = gl.zeros([64, 64], gl.float32, L2); z = warpgroup_mma(q, r.permute((1, 0)), z) + 1.0",
        "a = warpgroup_mma(half, r, z, is_async=True); a, half = warpgroup_mma_wait(0, deps=[a, half]); z = a + 1.0",
        "x = cols[None, :] + gl.zeros([64, 64], gl.float32, B); gl.store(to + cols, gl.sum(x, 0))",
        "gl.store(to + cols, gl.load(to + cols, mask=cols < n, other=1.0) / n, mask=cols < n)",
        "x = gl.convert_layout(z, B) + gl.expand_dims(gl.max(gl.zeros([64, 64], gl.float32, B), 1), 1)",
        "x = n.to(gl.int64); x += 1 << 40",
        "x = z.permute((1, 0)); y = gl.convert_layout(x, B) + cols[None, :]",
    ],
)
def test_what_the_compiler_takes_runs(body: str) -> None:
    assert by_rules(body) == ""


NEW = "s = gl.allocate_shared_memory(gl.bfloat16"
COPY = "tma.async_copy_global_to_shared(Q, [0, 0], bar, s)"
TWO = "a = warpgroup_mma(q, r, z, is_async=True); b = warpgroup_mma(q, r, z, is_async=True)"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("gl.store(to + cols, z.to(gl.int32).reshape([4096]))", "ranks|layouts differ|shapes differ"),
        ("gl.store(to + cols, gl.sum(z, 0))", "layouts differ"),
        ("gl.store(to + cols, cols, mask=other < n)", "layouts differ"),
        ("gl.load(to + cols, mask=other < n)", "layouts differ"),
        ("gl.where(cols < n, cols, other)", "layouts differ"),
        ("x = z + cols", "different ranks"),
        ("x = gl.expand_dims(cols, 1)", "left out dimension 0; dimension 1 is added"),
        ("x = gl.expand_dims(z, 0)", "in a SliceLayout"),
        ("x = gl.zeros([64, 64], gl.float32, B) + gl.zeros([64, 32], gl.float32, B)", "shapes differ"),
        ("x = gl.zeros([64], gl.float32, B)", "another rank"),
        ("x = gl.zeros([48, 64], gl.float32, B)", "powers of two"),
        ("x = gl.zeros([64, 64], gl.float32, gl.BlockedLayout([1, 4], [2, 16], [2, 1], [1, 0]))", "for 2 warps; 4 run"),
        ("x = gl.convert_layout(z, gl.NVMMADistributedLayout([3, 0], [8, 1], [16, 64, 16]))", "for 8 warps; 4 run"),
        ("z = gl.zeros([64, 64], gl.float32, B); z = warpgroup_mma(q, r, z)", "not in an NVMMADistributedLayout"),
        ("z = gl.zeros([64, 64], gl.bfloat16, L); z = warpgroup_mma(q, r, z)", "not added up in bfloat16"),
        ("z = warpgroup_mma(z.to(gl.bfloat16), r, z)", "the left factor is in NVMMA"),
        ("z = warpgroup_mma(gl.convert_layout(half, gl.DotOperandLayout(0, L2, 2)), r, z)", "left factor is in Dot"),
        ("z = warpgroup_mma(gl.convert_layout(half, gl.DotOperandLayout(0, L, 1)), r, z)", "left factor is in Dot"),
        ("z = warpgroup_mma(half.to(gl.float16), r, z)", "no product of float16 with bfloat16"),
        ("z = warpgroup_mma(q, half, z)", "right factor lies in shared memory"),
        ("z = warpgroup_mma(q.slice(0, 32), r, gl.zeros([32, 64], gl.float32, L))", "in instructions of 64"),
        ("z = warpgroup_mma(q, r, gl.zeros([64, 32], gl.float32, L2))", "shapes"),
        ("x = gl.exp2(half)", "needs float32"),
        (f"{TWO}; a, b = warpgroup_mma_wait(1, deps=[a, b]); b = b * 2.0", "read before"),
        ("a = warpgroup_mma(q, r, z, is_async=True)", "never waited for"),
        ("q.store(z.to(gl.bfloat16)); z = warpgroup_mma(q, r, z)", "without a fence"),
        ("x = gl.load(to + cols + 5000)", "leaves its tensor"),
        ("s = gl.allocate_shared_memory(gl.float32, [512, 128], Q.layout)", "float32 in NVMMA"),
        ("s = gl.allocate_shared_memory(gl.bfloat16, [1024, 128], Q.layout)", "bytes of shared memory"),
        (f"{NEW}, [64, 64], Q.layout); x = s.load(B)", "reads s, which nothing has written"),
        (f"{NEW}, [64, 32], Q.layout); {COPY}", "a block of"),
        (f"{NEW}, [64, 64], gl.NVMMASharedLayout(64, 16)); {COPY}", "a copy in"),
        ("tma.async_copy_global_to_shared(Q, [0], bar, q)", "1 coordinates"),
        ("mbarrier.arrive(bar, count=2)", "more arrivals than"),
        ("x = n * 2000000000", "int32 overflows"),
        ("x = q.index(0)", "in a layout of rank 2 is not indexed"),
        ("static = n; x = gl.zeros([static], gl.float32, B)", "."),
    ],
)  # fmt: skip
def test_what_goes_wrong_on_a_gpu_is_refused(body: str, message: str) -> None:
    assert re.search(message, by_rules(body))
