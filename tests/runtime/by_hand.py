"""Kernels written by hand, as text: it is read in the tests, and compiled where Triton is installed."""

TEXT = """\
import triton
import triton.language as tl


@triton.jit
def cascade(Q, K, V, O, q, x, d: tl.constexpr, g_q: tl.constexpr, s_x: tl.constexpr, scaled: tl.constexpr):
    i, e = tl.program_id(0) * g_q + tl.arange(0, g_q), tl.arange(0, d)
    query = tl.load(Q + i[:, None] * d + e[None, :], mask=i[:, None] < q, other=0.0)
    if scaled:
        query = (query * 0.125).to(query.dtype)
    most = tl.full([g_q], float("-inf"), tl.float32)
    total = tl.zeros([g_q], tl.float32)
    result = tl.zeros([g_q, d], tl.float32)
    for first in range(0, x, s_x):
        j = first + tl.arange(0, s_x)
        keys = tl.load(K + j[:, None] * d + e[None, :], mask=j[:, None] < x, other=0.0)
        scores = tl.where(j[None, :] < x, tl.dot(query, tl.trans(keys)), float("-inf"))
        above = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp2(scores - above[:, None])
        again = tl.exp2(most - above)
        total = total * again + tl.sum(weights, 1)
        values = tl.load(V + j[:, None] * d + e[None, :], mask=j[:, None] < x, other=0.0)
        result = tl.dot(weights.to(values.dtype), values, result * again[:, None])
        most = above
    tl.store(O + i[:, None] * d + e[None, :], (result / total[:, None]).to(O.dtype.element_ty), mask=i[:, None] < q)


@triton.jit
def turned(Q, K, O, x, d: tl.constexpr, g_q: tl.constexpr, s_x: tl.constexpr):
    i, e = tl.program_id(0) * g_q + tl.arange(0, g_q), tl.arange(0, d)
    query = tl.load(Q + i[:, None] * d + e[None, :])
    result = tl.zeros([g_q, d], tl.float32)
    for first in range(0, x, s_x):
        j = first + tl.arange(0, s_x)
        keys = tl.load(K + j[:, None] * d + e[None, :])
        weights = tl.exp2(tl.dot(keys, tl.trans(query)))
        result = tl.dot(tl.trans(weights).to(keys.dtype), keys, result)
    tl.store(O + i[:, None] * d + e[None, :], result.to(O.dtype.element_ty))


@triton.jit
def biased(Q, K, V, B, O, q, x, d: tl.constexpr, g_q: tl.constexpr, s_x: tl.constexpr, factor: tl.constexpr):
    i, e = tl.program_id(0) * g_q + tl.arange(0, g_q), tl.arange(0, d)
    query = tl.load(Q + i[:, None] * d + e[None, :], mask=i[:, None] < q, other=0.0)
    result = tl.zeros([g_q, d], tl.float32)
    for first in range(0, x, s_x):
        j = first + tl.arange(0, s_x)
        inside = (i[:, None] < q) & (j[None, :] < x)
        keys = tl.load(K + j[:, None] * d + e[None, :], mask=j[:, None] < x, other=0.0)
        scores = tl.dot(query, tl.trans(keys))
        if factor:
            scores = scores * 0.5
        scores = scores + tl.load(B + i[:, None] * x + j[None, :], mask=inside, other=0.0)
        values = tl.load(V + j[:, None] * d + e[None, :], mask=j[:, None] < x, other=0.0)
        result += tl.dot(tl.exp2(scores).to(values.dtype), values)
    tl.store(O + i[:, None] * d + e[None, :], result.to(O.dtype.element_ty), mask=i[:, None] < q)


@triton.jit
def product(A, B, C, m, n, k, g_a: tl.constexpr, g_c: tl.constexpr, s_b: tl.constexpr, normed: tl.constexpr):
    i, j = tl.program_id(0) * g_a + tl.arange(0, g_a), tl.program_id(1) * g_c + tl.arange(0, g_c)
    total = tl.zeros([g_a, g_c], tl.float32)
    squares = tl.zeros([g_a], tl.float32)
    for first in range(0, k, s_b):
        b = first + tl.arange(0, s_b)
        left = tl.load(A + i[:, None] * k + b[None, :], mask=(i[:, None] < m) & (b[None, :] < k), other=0.0)
        right = tl.load(B + b[:, None] * n + j[None, :], mask=(b[:, None] < k) & (j[None, :] < n), other=0.0)
        if normed:
            wide = left.to(tl.float32)
            squares += tl.sum(wide * wide, 1)
        total = tl.dot(left, right, total)
    if normed:
        total = total * tl.rsqrt(squares / k + 1e-6)[:, None]
    where = (i[:, None] < m) & (j[None, :] < n)
    tl.store(C + i[:, None] * n + j[None, :], total.to(C.dtype.element_ty), mask=where)


@triton.jit
def nested(X, W, O, t, v, k, g_t: tl.constexpr, s_v: tl.constexpr, s_k: tl.constexpr):
    i = tl.program_id(0) * g_t + tl.arange(0, g_t)
    most = tl.full([g_t], float("-inf"), tl.float32)
    total = tl.zeros([g_t], tl.float32)
    for first in range(0, v, s_v):
        j = first + tl.arange(0, s_v)
        scores = tl.zeros([g_t, s_v], tl.float32)
        for start in range(0, k, s_k):
            e = start + tl.arange(0, s_k)
            x = tl.load(X + i[:, None] * k + e[None, :], mask=(i[:, None] < t) & (e[None, :] < k), other=0.0)
            w = tl.load(W + j[:, None] * k + e[None, :], mask=(j[:, None] < v) & (e[None, :] < k), other=0.0)
            scores = tl.dot(x, tl.trans(w), scores)
        scores = tl.where(j[None, :] < v, scores, float("-inf"))
        above = tl.maximum(most, tl.max(scores, 1))
        total = total * tl.exp(most - above) + tl.sum(tl.exp(scores - above[:, None]), 1)
        most = above
    tl.store(O + i, most + tl.log(total), mask=i < t)


@triton.jit
def covariance(X, O, n, m, g_i: tl.constexpr, s_n: tl.constexpr):
    i, j = tl.program_id(0) * g_i + tl.arange(0, g_i), tl.program_id(1) * g_i + tl.arange(0, g_i)
    total = tl.zeros([g_i, g_i], tl.float32)
    rows = tl.zeros([g_i], tl.float32)
    columns = tl.zeros([g_i], tl.float32)
    for first in range(0, n, s_n):
        r = first + tl.arange(0, s_n)
        a = tl.load(X + r[:, None] * m + i[None, :], mask=(r[:, None] < n) & (i[None, :] < m), other=0.0)
        b = tl.load(X + r[:, None] * m + j[None, :], mask=(r[:, None] < n) & (j[None, :] < m), other=0.0)
        total = tl.dot(tl.trans(a), b, total)
        rows += tl.sum(a.to(tl.float32), 0)
        columns += tl.sum(b.to(tl.float32), 0)
    where = (i[:, None] < m) & (j[None, :] < m)
    tl.store(O + i[:, None] * m + j[None, :], total - rows[:, None] * columns[None, :] / n, mask=where)


@triton.jit
def logarithm(X, O, m, n, g_m: tl.constexpr, s_n: tl.constexpr):
    i = tl.program_id(0) * g_m + tl.arange(0, g_m)
    most = tl.full([g_m], float("-inf"), tl.float32)
    total = tl.zeros([g_m], tl.float32)
    for first in range(0, n, s_n):
        j = first + tl.arange(0, s_n)
        inside = (i[:, None] < m) & (j[None, :] < n)
        x = tl.load(X + i[:, None] * n + j[None, :], mask=inside, other=float("-inf")).to(tl.float32)
        above = tl.maximum(most, tl.max(x, 1))
        total = total * tl.exp2(most - above) + tl.sum(tl.exp2(x - above[:, None]), 1)
        most = above
    tl.store(O + i, most + tl.log2(total), mask=i < m)
"""
