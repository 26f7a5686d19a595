"""A hand-written Gluon kernel for `test_gluon_machine`: one warp loads, W warpgroups of 64 rows compute.

With OVER the product with the values of one block runs under the exponentials of the next; with PING the warpgroups
take turns at the tensor cores; HOLD says whether the probabilities are rounded before or after the wait.
"""

import math

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# fmt: off


@gluon.jit
def load(Q, K, V, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, tile, b, h, n,
         BM: gl.constexpr, BN: gl.constexpr, D: gl.constexpr, ST: gl.constexpr, W: gl.constexpr):
    mbarrier.expect(fullq, BM * W * D * 2)
    for w in gl.static_range(W):
        tma.async_copy_global_to_shared(Q, [b, h, tile * (BM * W) + w * BM, 0], fullq, sq.index(w))
    for j in range(n):
        i = j % ST
        ph = (j // ST) & 1
        mbarrier.wait(emptyk.index(i), ph ^ 1)
        mbarrier.expect(fullk.index(i), BN * D * 2)
        tma.async_copy_global_to_shared(K, [b, h, j * BN, 0], fullk.index(i), sk.index(i))
        mbarrier.wait(emptyv.index(i), ph ^ 1)
        mbarrier.expect(fullv.index(i), BN * D * 2)
        tma.async_copy_global_to_shared(V, [b, h, j * BN, 0], fullv.index(i), sv.index(i))


@gluon.jit
def compute(me: gl.constexpr, to, so0, so1, so2, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, turn,
            tile, b, h, n, c, S, BM: gl.constexpr, BN: gl.constexpr, D: gl.constexpr, ST: gl.constexpr, W: gl.constexpr,
            PING: gl.constexpr, OVER: gl.constexpr, HOLD: gl.constexpr):
    LS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    LO: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    LP: gl.constexpr = gl.DotOperandLayout(0, LO, 2)
    RS: gl.constexpr = gl.SliceLayout(1, LS)
    RO: gl.constexpr = gl.SliceLayout(1, LO)
    mbarrier.wait(fullq, 0)
    q = sq.index(me).reshape([BM, D])
    acc = gl.zeros([BM, D], gl.float32, LO)
    zero = gl.zeros([BM, BN], gl.float32, LS)
    if OVER:
        mbarrier.wait(fullk.index(0), 0)
        s = warpgroup_mma(q, sk.index(0).reshape([BN, D]).permute((1, 0)), zero, use_acc=False, is_async=True)
        s = warpgroup_mma_wait(0, deps=[s])
        mbarrier.arrive(emptyk.index(0), count=1)
        m = gl.max(s, 1)
        mc = m * c
        p = gl.exp2(s * c - gl.expand_dims(mc, 1))
        total = gl.sum(p, 1)
        pb = gl.convert_layout(p.to(gl.bfloat16), LP)
        for j in range(1, n):
            i = j % ST
            ph = (j // ST) & 1
            i1 = (j - 1) % ST
            ph1 = ((j - 1) // ST) & 1
            mbarrier.wait(fullk.index(i), ph)
            if PING:
                mbarrier.wait(turn.index(me), (j - 1) & 1)
            s_ = warpgroup_mma(q, sk.index(i).reshape([BN, D]).permute((1, 0)), zero, use_acc=False, is_async=True)
            mbarrier.wait(fullv.index(i1), ph1)
            a_ = warpgroup_mma(pb, sv.index(i1).reshape([BN, D]), acc, is_async=True)
            if PING:
                mbarrier.arrive(turn.index((me + 1) % W), count=1)
            s = warpgroup_mma_wait(1, deps=[s_])
            mbarrier.arrive(emptyk.index(i), count=1)
            mn = gl.maximum(m, gl.max(s, 1))
            mc = mn * c
            al = gl.exp2(m * c - mc)
            p = gl.exp2(s * c - gl.expand_dims(mc, 1))
            total = total * al + gl.sum(p, 1)
            m = mn
            if HOLD:
                acc, p, total, al = warpgroup_mma_wait(0, deps=[a_, p, total, al])
                pb = gl.convert_layout(p.to(gl.bfloat16), LP)
            else:
                pb = gl.convert_layout(p.to(gl.bfloat16), LP)
                acc = warpgroup_mma_wait(0, deps=[a_])
            mbarrier.arrive(emptyv.index(i1), count=1)
            acc = acc * gl.expand_dims(gl.convert_layout(al, RO), 1)
        i1 = (n - 1) % ST
        ph1 = ((n - 1) // ST) & 1
        mbarrier.wait(fullv.index(i1), ph1)
        acc = warpgroup_mma(pb, sv.index(i1).reshape([BN, D]), acc, is_async=True)
        acc = warpgroup_mma_wait(0, deps=[acc])
    else:
        m = gl.full([BM], -float("inf"), gl.float32, RS)
        total = gl.zeros([BM], gl.float32, RS)
        for j in range(n):
            i = j % ST
            ph = (j // ST) & 1
            mbarrier.wait(fullk.index(i), ph)
            if PING:
                mbarrier.wait(turn.index(me), j & 1)
            s = warpgroup_mma(q, sk.index(i).reshape([BN, D]).permute((1, 0)), zero, use_acc=False)
            if PING:
                mbarrier.arrive(turn.index((me + 1) % W), count=1)
            mbarrier.arrive(emptyk.index(i), count=1)
            mn = gl.maximum(m, gl.max(s, 1))
            mc = mn * c
            al = gl.exp2(m * c - mc)
            p = gl.exp2(s * c - mc[:, None])
            total = total * al + gl.sum(p, 1)
            m = mn
            acc = acc * gl.convert_layout(al, RO)[:, None]
            mbarrier.wait(fullv.index(i), ph)
            acc = warpgroup_mma(gl.convert_layout(p.to(gl.bfloat16), LP), sv.index(i).reshape([BN, D]), acc)
            mbarrier.arrive(emptyv.index(i), count=1)
    acc = acc / gl.expand_dims(gl.convert_layout(total, RO), 1)
    rows = gl.expand_dims(tile * (BM * W) + me * BM + gl.arange(0, BM, RO), 1)
    cols = gl.expand_dims(gl.arange(0, D, gl.SliceLayout(0, LO)), 0)
    to += b.to(gl.int64) * so0 + h.to(gl.int64) * so1
    gl.store(to + (rows.to(gl.int64) * so2 + cols), acc.to(gl.bfloat16), mask=rows < S)


@gluon.jit
def attn(Q, K, V, to, so0, so1, so2, H, S, c,
         BM: gl.constexpr, BN: gl.constexpr, D: gl.constexpr, ST: gl.constexpr, W: gl.constexpr,
         PING: gl.constexpr, OVER: gl.constexpr, HOLD: gl.constexpr):
    nm = gl.cdiv(S, BM * W)
    pid = gl.program_id(0)
    tile = pid % nm
    b = pid // nm // H
    h = pid // nm % H
    n = gl.cdiv(S, BN)
    sq = gl.allocate_shared_memory(gl.bfloat16, [W, 1, 1, BM, D], Q.layout)
    sk = gl.allocate_shared_memory(gl.bfloat16, [ST, 1, 1, BN, D], K.layout)
    sv = gl.allocate_shared_memory(gl.bfloat16, [ST, 1, 1, BN, D], V.layout)
    BL: gl.constexpr = mbarrier.MBarrierLayout()
    fullq = gl.allocate_shared_memory(gl.int64, [1], BL)
    fullk = gl.allocate_shared_memory(gl.int64, [ST, 1], BL)
    fullv = gl.allocate_shared_memory(gl.int64, [ST, 1], BL)
    emptyk = gl.allocate_shared_memory(gl.int64, [ST, 1], BL)
    emptyv = gl.allocate_shared_memory(gl.int64, [ST, 1], BL)
    turn = gl.allocate_shared_memory(gl.int64, [W, 1], BL)
    mbarrier.init(fullq, 1)
    for i in gl.static_range(ST):
        mbarrier.init(fullk.index(i), 1)
        mbarrier.init(fullv.index(i), 1)
        mbarrier.init(emptyk.index(i), W)
        mbarrier.init(emptyv.index(i), W)
    for i in gl.static_range(W):
        mbarrier.init(turn.index(i), 1)
    mbarrier.arrive(turn.index(0), count=1)
    fence_async_shared()
    if W == 1:
        gl.warp_specialize([
            (compute, (0, to, so0, so1, so2, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, turn, tile, b, h, n, c, S,
                       BM, BN, D, ST, W, PING, OVER, HOLD)),
            (load, (Q, K, V, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, tile, b, h, n, BM, BN, D, ST, W)),
        ], [1], [24])
    elif W == 2:
        gl.warp_specialize([
            (compute, (0, to, so0, so1, so2, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, turn, tile, b, h, n, c, S,
                       BM, BN, D, ST, W, PING, OVER, HOLD)),
            (compute, (1, to, so0, so1, so2, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, turn, tile, b, h, n, c, S,
                       BM, BN, D, ST, W, PING, OVER, HOLD)),
            (load, (Q, K, V, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, tile, b, h, n, BM, BN, D, ST, W)),
        ], [4, 1], [240, 24])
    else:
        gl.warp_specialize([
            (compute, (0, to, so0, so1, so2, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, turn, tile, b, h, n, c, S,
                       BM, BN, D, ST, W, PING, OVER, HOLD)),
            (compute, (1, to, so0, so1, so2, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, turn, tile, b, h, n, c, S,
                       BM, BN, D, ST, W, PING, OVER, HOLD)),
            (compute, (2, to, so0, so1, so2, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, turn, tile, b, h, n, c, S,
                       BM, BN, D, ST, W, PING, OVER, HOLD)),
            (load, (Q, K, V, sq, sk, sv, fullq, fullk, fullv, emptyk, emptyv, tile, b, h, n, BM, BN, D, ST, W)),
        ], [4, 4, 1], [152, 152, 24])


def attention(q, k, v, *, BM=64, BN=128, ST=2, W=2, PING=0, OVER=1, HOLD=0):
    import torch
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    Z, H, S, D = q.shape
    out = torch.full_like(q, float("nan"))
    lq = gl.NVMMASharedLayout.get_default_for([1, 1, BM, D], gl.bfloat16)
    lk = gl.NVMMASharedLayout.get_default_for([1, 1, BN, D], gl.bfloat16)
    qd = TensorDescriptor.from_tensor(q, [1, 1, BM, D], lq)
    kd = TensorDescriptor.from_tensor(k, [1, 1, BN, D], lk)
    vd = TensorDescriptor.from_tensor(v, [1, 1, BN, D], lk)
    c = 1.4426950408889634 / math.sqrt(D)
    attn[(triton.cdiv(S, BM * W) * Z * H,)](
        qd, kd, vd, out, out.stride(0), out.stride(1), out.stride(2), H, S, c,
        BM=BM, BN=BN, D=D, ST=ST, W=W, PING=PING, OVER=OVER, HOLD=HOLD, num_warps=4)
    return out
