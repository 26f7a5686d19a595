"""A hand-written Gluon kernel for `test_gluon_machine`: tanh(A B^T + bias), and the largest entry of each row.

One warp loads, one warpgroup adds up; a program computes tiles one after the other. What it computed goes to shared
memory, and from there by a copy, while the next tile is under way. 16 bits or 8.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.constexpr_function
def warpgroup(n, bits):
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, n, 256 // bits])


@gluon.jit
def larger(a, b):
    return gl.maximum(a, b)


@gluon.jit
def tanh(x):
    return gl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], gl.float32, is_pure=True, pack=1)


@gluon.jit
def load(a, b, ra, rb, full, free, tiles, rows, k, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    stages: gl.constexpr = ra.shape[0]
    turn = gl.to_tensor(0)
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for at in range(0, k, BK):
            slot = turn % stages
            hopper.mbarrier.wait(free.index(slot), (turn // stages & 1) ^ 1)
            hopper.mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
            hopper.tma.async_copy_global_to_shared(a, [tile % rows * BM, at], full.index(slot), ra.index(slot))
            hopper.tma.async_copy_global_to_shared(b, [tile // rows * BN, at], full.index(slot), rb.index(slot))
            turn += 1


@gluon.jit
def compute(
    bias, most, c, ra, rb, rc, full, free, tiles, rows, m, n, k,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, BITS: gl.constexpr,
):  # fmt: skip
    layout: gl.constexpr = warpgroup(BN, BITS)
    stages: gl.constexpr = ra.shape[0]
    turn = gl.to_tensor(0)
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        total = hopper.warpgroup_mma_init(gl.zeros([BM, BN], gl.float32, layout))
        for _at in range(0, k, BK):
            slot = turn % stages
            hopper.mbarrier.wait(full.index(slot), turn // stages & 1)
            total = hopper.warpgroup_mma(ra.index(slot), rb.index(slot).permute((1, 0)), total, is_async=True)
            total = hopper.warpgroup_mma_wait(1, deps=[total])
            total = hopper.warpgroup_mma_init(hopper.warpgroup_mma_wait(0, deps=[total]))
            hopper.mbarrier.arrive(free.index(slot), count=1)
            turn += 1
        sums = hopper.warpgroup_mma_wait(0, deps=[total])
        row = tile % rows * BM
        column = tile // rows * BN
        inside = gl.arange(0, BN, gl.SliceLayout(0, layout)) + column < n
        shift = gl.load(bias + column + gl.arange(0, BN, gl.SliceLayout(0, layout)), mask=inside, other=0.0)
        found = tanh(sums + gl.expand_dims(shift, 0))
        high = gl.reduce(gl.where(gl.expand_dims(inside, 0), found, -2.0), 1, larger)
        at = row + gl.arange(0, BM, gl.SliceLayout(1, layout))
        gl.store(most + tile // rows * m + at, high, mask=at < m)
        hopper.tma.store_wait(0)
        rc.store(found.to(rc.dtype))
        hopper.fence_async_shared()
        hopper.tma.async_copy_shared_to_global(c, [row, column], rc)
    hopper.tma.store_wait(0)


@gluon.jit
def product(
    a, b, c, bias, most, m, n, k,
    BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, ST: gl.constexpr, BITS: gl.constexpr,
):  # fmt: skip
    ra = gl.allocate_shared_memory(a.dtype, [ST, BM, BK], a.layout)
    rb = gl.allocate_shared_memory(b.dtype, [ST, BN, BK], b.layout)
    rc = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    full = gl.allocate_shared_memory(gl.int64, [ST, 1], hopper.mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [ST, 1], hopper.mbarrier.MBarrierLayout())
    for slot in gl.static_range(ST):
        hopper.mbarrier.init(full.index(slot), 1)
        hopper.mbarrier.init(free.index(slot), 1)
    hopper.fence_async_shared()
    rows = gl.cdiv(m, BM)
    tiles = rows * gl.cdiv(n, BN)
    gl.warp_specialize([
        (compute, (bias, most, c, ra, rb, rc, full, free, tiles, rows, m, n, k, BM, BN, BK, BITS)),
        (load, (a, b, ra, rb, full, free, tiles, rows, k, BM, BN, BK)),
    ], [1], [24])  # fmt: skip


def run(a, b, bias, c, most, *, BM=64, BN=32, BK=64, ST=2, programs=2):
    kinds = {2: gl.float16, 1: gl.float8e4nv}
    size = a.element_size()
    tiles = [(a, [BM, BK], kinds[size]), (b, [BN, BK], kinds[size]), (c, [BM, BN], gl.float16)]
    ta, tb, tc = (TensorDescriptor.from_tensor(t, s, gl.NVMMASharedLayout.get_default_for(s, d)) for t, s, d in tiles)
    product[(programs,)](
        ta, tb, tc, bias, most, a.shape[0], b.shape[0], a.shape[1],
        BM=BM, BN=BN, BK=BK, ST=ST, BITS=8 * size, num_warps=4,
    )  # fmt: skip
