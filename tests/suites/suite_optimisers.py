"""Programs of tensor-graph optimisers and superoptimisers: fused layers, gated units, shared keys, merged weights."""

from __future__ import annotations

from rewrites import Suite

import catdiag as cd

SUITE = Suite("optimisers")
R, E, C, W = cd.rearrange, cd.einsum, cd.concat, cd.where
INF = float("inf")


def rms(a, axis):
    """An array divided by its root mean square along an axis."""
    return a / cd.sqrt(cd.mean(a * a, axis))


def unit(a, axis):
    """An array divided by its Euclidean norm along an axis."""
    return a / cd.sqrt(cd.sum(a * a, axis))


def silu(a):
    """The sigmoid-weighted unit."""
    return a * cd.nn.sigmoid(a)


SUITE.same(
    "m k, k n, k n -> m n",
    ("gated unit with its weights side by side",
     lambda x, v, w: silu(E("m k, k n -> m n", x, v)) * E("m k, k n -> m n", x, w),
     lambda x, v, w: (
         (y := E("m k, k n+n -> m n+n", x, C([v, w], "n+n"))),
         (g := cd.split(y, "n+n")[0]),
         g / (1 + cd.exp(-g)) * cd.split(y, "n+n")[1],
     )[-1]),
    ("two products of one input added", lambda x, v, w: E("m k, k n -> m n", x, v) + E("m k, k n -> m n", x, w),
     lambda x, v, w: E("m k, k n -> m n", x, v + w)),
    ("two products of one input, one rectified",
     lambda x, v, w: cd.maximum(E("m k, k n -> m n", x, v), 0) + E("m k, k n -> m n", x, w),
     lambda x, v, w: (
         (y := E("m k, k n+n -> m n+n", x, C([v, w], "n+n"))),
         cd.maximum(cd.split(y, "n+n")[0], 0) + cd.split(y, "n+n")[1],
     )[-1]),
    ("norm, then a gated unit",
     lambda x, v, w: silu(E("m k, k n -> m n", rms(x, "k"), v)) * E("m k, k n -> m n", rms(x, "k"), w),
     lambda x, v, w: (
         (s := cd.sqrt(cd.mean(x * x, "k"))),
         silu(E("m k, k n -> m n", x, v) / s) * (E("m k, k n -> m n", x, w) / s),
     )[-1]),
)  # fmt: skip
SUITE.same(
    "m k, k n, n p -> m p",
    ("two layers without a function between", lambda x, v, w: E("m n, n p -> m p", E("m k, k n -> m n", x, v), w),
     lambda x, v, w: E("m k, k p -> m p", x, E("k n, n p -> k p", v, w))),
    ("norm and two layers", lambda x, v, w: E("m n, n p -> m p", E("m k, k n -> m n", rms(x, "k"), v), w),
     lambda x, v, w: E("m k, k n, n p -> m p", x, v, w) / cd.sqrt(cd.mean(x * x, "k"))),
    ("positive scale through a rectifier",
     lambda x, v, w: E("m n, n p -> m p", cd.maximum(E("m k, k n -> m n", 3 * x, v), 0), w),
     lambda x, v, w: 3 * E("m n, n p -> m p", cd.maximum(E("m k, k n -> m n", x, v), 0), w)),
    ("norm through a rectifier",
     lambda x, v, w: E("m n, n p -> m p", cd.maximum(E("m k, k n -> m n", x * cd.exp(cd.max(x, "k")), v), 0), w),
     lambda x, v, w: cd.exp(cd.max(x, "k")) * E("m n, n p -> m p", cd.maximum(E("m k, k n -> m n", x, v), 0), w)),
)  # fmt: skip
SUITE.same(
    "m n, n p, p -> m p",
    ("scale of the layer before through a rectifier",
     lambda x, w, b: E("m n, n p -> m p", cd.maximum(x * cd.exp(cd.sum(w, "p")), 0), w) + b,
     lambda x, w, b: E("m n, n p -> m p", cd.maximum(x, 0), w * cd.exp(cd.sum(w, "p"))) + b),
    ("residual as one product", lambda x, w, b: E("m n, n p -> m p", x + x, w) + b,
     lambda x, w, b: E("m n, n p -> m p", x, 2 * w) + b),
)  # fmt: skip
SUITE.same(
    "q d, x d, x d -> q d",
    ("attention scaled on the queries",
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k) / cd.sqrt(cd.size("d")), "x"), v),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q / cd.sqrt(cd.size("d")), k), "x"), v)),
    ("attention without its stabiliser",
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k), "x"), v),
     lambda q, k, v: E("q x, x d -> q d", cd.exp(E("q d, x d -> q x", q, k)), v)
      / cd.sum(cd.exp(E("q d, x d -> q x", q, k)), "x")),
    ("attention with a bias of the query",
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k + 1), "x"), v),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k), "x"), v)),
    ("values shifted", lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k), "x"), v + 2),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k), "x"), v) + 2),
    ("queries and keys normalised",
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", unit(q, "d"), unit(k, "d")), "x"), v),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(
         E("q d, x d -> q x", q, k) / (cd.sqrt(cd.sum(q * q, "d")) * cd.sqrt(cd.sum(k * k, "d"))), "x"), v)),
    ("normalised by a Euclidean norm over the keys",
     lambda q, k, v: E("q x, x d -> q d", unit(E("q d, x d -> q x", q, k), "x"), v),
     lambda q, k, v: (
         (p := q.rename(d="e")),
         E("q e, e d -> q d", p, E("x e, x d -> e d", k.rename(d="e"), v))
         / cd.sqrt(E("q d, d e, q e -> q", q, E("x d, x e -> d e", k, k.rename(d="e")), p)),
     )[-1]),
    ("temperature on both sides",
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q / 2, k / 3), "x"), v),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k) / 6, "x"), v)),
)  # fmt: skip
SUITE.same(
    "q c, x c, c d, c d, c e -> q e",
    ("projections of queries and keys merged",
     lambda y, z, a, b, w: E("q x, x e -> q e",
      cd.softmax(E("q d, x d -> q x", E("q c, c d -> q d", y, a), E("x c, c d -> x d", z, b)), "x"),
       E("x c, c e -> x e", z, w)),
     lambda y, z, a, b, w: E("q x, x e -> q e", cd.softmax(
         E("q c, c f, x f -> q x", y, E("c d, f d -> c f", a, b.rename(c="f")), z.rename(c="f")), "x"),
          E("x c, c e -> x e", z, w))),
    ("values projected after the weights",
     lambda y, z, a, b, w: E("q x, x e -> q e",
      cd.softmax(E("q d, x d -> q x", E("q c, c d -> q d", y, a), E("x c, c d -> x d", z, b)), "x"),
       E("x c, c e -> x e", z, w)),
     lambda y, z, a, b, w: E("q c, c e -> q e",
      E("q x, x c -> q c", cd.softmax(E("q d, x d -> q x", E("q c, c d -> q d", y, a), E("x c, c d -> x d", z, b)),
       "x"), z), w)),
    ("keys projected into the queries",
     lambda y, z, a, b, w: E("q x, x e -> q e",
      E("q d, x d -> q x", E("q c, c d -> q d", y, a), E("x c, c d -> x d", z, b)), E("x c, c e -> x e", z, w)),
     lambda y, z, a, b, w: E("q f, f e -> q e", E("q c, c d, f d -> q f", y, a, b.rename(c="f")),
      E("x f, x c, c e -> f e", z.rename(c="f"), z, w))),
)  # fmt: skip
SUITE.same(
    "h r q d, h x d, h x d -> h r q d",
    ("query rows of all heads that share keys, packed",
     lambda q, k, v: E("h r q x, h x d -> h r q d", cd.softmax(E("h r q d, h x d -> h r q x", q, k), "x"), v),
     lambda q, k, v: (
         (p := R(q, "h r q d -> h (r q) d")),
         R(E("h (r q) x, h x d -> h (r q) d", cd.softmax(E("h (r q) d, h x d -> h (r q) x", p, k), "x"), v),
          "h (r q) d -> h r q d"),
     )[-1]),
    ("keys repeated for every head that shares them",
     lambda q, k, v: E("h r q x, h x d -> h r q d", cd.softmax(E("h r q d, h x d -> h r q x", q, k), "x"), v),
     lambda q, k, v: E("h r q x, h r x d -> h r q d",
      cd.softmax(E("h r q d, h r x d -> h r q x", q, k + 0 * cd.index("r")), "x"), v + 0 * cd.index("r"))),
)  # fmt: skip
SUITE.same(
    "q x, q y, x d, y d -> q d",
    ("split keys, each part normalised, merged by their sums",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: (
         (m := cd.max(s, "x")), (n := cd.max(t, "y")),
         (a := cd.sum(cd.exp(s - m), "x")), (b := cd.sum(cd.exp(t - n), "y")),
         (o := E("q x, x d -> q d", cd.exp(s - m), v) / a), (p := E("q y, y d -> q d", cd.exp(t - n), w) / b),
         (top := cd.maximum(m, n)),
         (o * a * cd.exp(m - top) + p * b * cd.exp(n - top)) / (a * cd.exp(m - top) + b * cd.exp(n - top)),
     )[-1]),
)  # fmt: skip
SUITE.same(
    "(b x) d, q d -> q d",
    ("split keys in blocks of one size",
     lambda k, q: E("q (b x), (b x) d -> q d", cd.softmax(E("q d, (b x) d -> q (b x)", q, k), "(b x)"), k),
     lambda k, q: (
         (z := R(k, "(b x) d -> b x d")),
         (e := cd.exp(E("q d, b x d -> q b x", q, z))),
         (o := E("q b x, b x d -> q b d", e, z) / cd.sum(e, "x")),
         (z2 := cd.sum(e, "x")),
         E("q b, q b d -> q d", z2, o) / cd.sum(z2, "b"),
     )[-1]),
)  # fmt: skip
SUITE.same(
    "m c, c n, n, m c -> m n",
    ("residual stream interpolated on the sphere",
     lambda x, w, a, y: E("m c, c n -> m n", unit(x + cd.exp(cd.sum(a, "n")) * (unit(y, "c") - x), "c"), w),
     lambda x, w, a, y: (
         (s := cd.exp(cd.sum(a, "n"))),
         (z := (1 - s) * x + s * y / cd.sqrt(cd.sum(y * y, "c"))),
         E("m c, c n -> m n", z, w) / cd.sqrt(cd.sum(z * z, "c")),
     )[-1]),
    ("norm scales commute with the gate", lambda x, w, a, y: a * E("m c, c n -> m n", rms(x, "c"), w),
     lambda x, w, a, y: E("m c, c n -> m n", rms(x, "c"), a * w)),
)  # fmt: skip
SUITE.same(
    "m k, k r, r n, k r2, r2 n -> m n",
    ("two low-rank updates as one",
     lambda x, a, b, c, d: E("m r, r n -> m n", E("m k, k r -> m r", x, a), b)
      + E("m r2, r2 n -> m n", E("m k, k r2 -> m r2", x, c), d),
     lambda x, a, b, c, d: E("m r+r2, r+r2 n -> m n", E("m k, k r+r2 -> m r+r2", x, C([a, c], "r+r2")),
      C([b, d], "r+r2"))),
)  # fmt: skip
SUITE.same(
    "n c h w, c k, k j -> n j h w",
    ("pointwise convolutions merged",
     lambda x, a, b: E("n k h w, k j -> n j h w", E("n c h w, c k -> n k h w", x, a), b),
     lambda x, a, b: E("n c h w, c j -> n j h w", x, E("c k, k j -> c j", a, b))),
    ("pointwise convolution as a product over positions", lambda x, a, b: E("n c h w, c k, k j -> n j h w", x, a, b),
     lambda x, a, b: R(E("(n h w) c, c j -> (n h w) j", R(x, "n c h w -> (n h w) c"), E("c k, k j -> c j", a, b)),
      "(n h w) j -> n j h w")),
)  # fmt: skip
SUITE.same(
    "n c h w, c k, c k -> n k",
    ("average pooling after a pointwise convolution",
     lambda x, a, b: cd.mean(E("n c h w, c k -> n k h w", x, a), "h w"),
     lambda x, a, b: E("n c, c k -> n k", cd.mean(x, "h w"), a)),
    ("global pooling in two steps", lambda x, a, b: E("n c, c k -> n k", cd.mean(cd.mean(x, "w"), "h"), a + b),
     lambda x, a, b: E("n c, c k -> n k", cd.mean(x, "h w"), a)
      + E("n c, c k -> n k", cd.mean(R(x, "n c h w -> n c (h w)"), "(h w)"), b)),
    ("maximum pooling over a merged axis", lambda x, a, b: E("n c, c k -> n k", cd.max(cd.max(x, "w"), "h"), a),
     lambda x, a, b: E("n c, c k -> n k", cd.max(R(x, "n c h w -> n c (w h)"), "(w h)"), a)),
)  # fmt: skip
SUITE.same(
    "t c, t c, c -> t c",
    ("rotation of halves",
     lambda x, y, f: (x * cd.sqrt(1 - cd.nn.sigmoid(f)) + y * cd.sqrt(cd.nn.sigmoid(f))) ** 2
      + (y * cd.sqrt(1 - cd.nn.sigmoid(f)) - x * cd.sqrt(cd.nn.sigmoid(f))) ** 2,
     lambda x, y, f: x * x + y * y),
    ("skip, then norm", lambda x, y, f: rms(x + y, "c") * f,
     lambda x, y, f: f * (y + x) / cd.sqrt(cd.mean((y + x) ** 2, "c"))),
    ("dropout scale folded", lambda x, y, f: x * W(y > 0, 1, 0) / 0.9, lambda x, y, f: W(y > 0, x / 0.9, 0)),
    ("quantised scale moved", lambda x, y, f: (x / cd.exp(f)) * (y * cd.exp(f)), lambda x, y, f: x * y),
)  # fmt: skip
SUITE.same(
    "q x, x d -> q d",
    ("causal sum of products by masks", lambda s, v: E("q x, x d -> q d", W(cd.index("x") <= cd.index("q"), s, 0), v),
     lambda s, v: E("q x, x d -> q d", s, v) - E("q x, x d -> q d", W(cd.index("x") > cd.index("q"), s, 0), v)),
    ("window as a difference of causal sums",
     lambda s, v: E("q x, x d -> q d", W((cd.index("x") <= cd.index("q")) & (cd.index("q") < cd.index("x") + 4), s,
      0), v),
     lambda s, v: E("q x, x d -> q d", W(cd.index("x") <= cd.index("q"), s, 0), v)
      - E("q x, x d -> q d", W(cd.index("x") + 4 <= cd.index("q"), s, 0), v)),
    ("mask by addition of minus infinity",
     lambda s, v: E("q x, x d -> q d", cd.exp(W(cd.index("x") <= cd.index("q"), s, -INF)), v),
     lambda s, v: E("q x, x d -> q d", cd.exp(s + W(cd.index("x") <= cd.index("q"), 0, -INF)), v)),
)  # fmt: skip
SUITE.same(
    "b q d, b (c x) d, b (c x) d -> b q d",
    ("blocks of keys above the mask drop out",
     lambda q, k, v: (
         (s := cd.exp(E("b q d, b (c x) d -> b q (c x)", q, k))),
         E("b q (c x), b (c x) d -> b q d", W(cd.index("(c x)") <= cd.index("q"), s, 0), v),
     )[-1],
     lambda q, k, v: (
         (s := cd.exp(E("b q d, b c x d -> b q c x", q, R(k, "b (c x) d -> b c x d")))),
         (t := W(cd.index("c") * cd.size("x") + cd.index("x") <= cd.index("q"), s, 0)),
         E("b q c x, b c x d -> b q d", W(cd.index("c") * cd.size("x") <= cd.index("q"), t, 0),
          R(v, "b (c x) d -> b c x d")),
     )[-1]),
)  # fmt: skip

SUITE.differ(
    "m k, k n, k n -> m n",
    ("gated unit with the gate exchanged",
     lambda x, v, w: silu(E("m k, k n -> m n", x, v)) * E("m k, k n -> m n", x, w),
     lambda x, v, w: E("m k, k n -> m n", x, v) * silu(E("m k, k n -> m n", x, w))),
    ("gated unit as one product", lambda x, v, w: silu(E("m k, k n -> m n", x, v)) * E("m k, k n -> m n", x, w),
     lambda x, v, w: silu(E("m k, k n -> m n", x, v * w))),
    ("norm left out of the gate",
     lambda x, v, w: silu(E("m k, k n -> m n", rms(x, "k"), v)) * E("m k, k n -> m n", rms(x, "k"), w),
     lambda x, v, w: silu(E("m k, k n -> m n", x, v)) * E("m k, k n -> m n", rms(x, "k"), w)),
    ("halves of the joint product exchanged", lambda x, v, w: E("m k, k n -> m n", x, v) - E("m k, k n -> m n", x, w),
     lambda x, v, w: ((y := E("m k, k n+n -> m n+n", x, C([v, w], "n+n"))), cd.split(y, "n+n")[1]
      - cd.split(y, "n+n")[0])[-1]),
)  # fmt: skip
SUITE.differ(
    "m k, k n, n p -> m p",
    ("negative scale through a rectifier",
     lambda x, v, w: E("m n, n p -> m p", cd.maximum(E("m k, k n -> m n", -3 * x, v), 0), w),
     lambda x, v, w: -3 * E("m n, n p -> m p", cd.maximum(E("m k, k n -> m n", x, v), 0), w)),
    ("layers merged through a rectifier",
     lambda x, v, w: E("m n, n p -> m p", cd.maximum(E("m k, k n -> m n", x, v), 0), w),
     lambda x, v, w: cd.maximum(E("m k, k p -> m p", x, E("k n, n p -> k p", v, w)), 0)),
    ("bias of a rectifier moved out",
     lambda x, v, w: E("m n, n p -> m p", cd.maximum(E("m k, k n -> m n", x, v) + 1, 0), w),
     lambda x, v, w: E("m n, n p -> m p", cd.maximum(E("m k, k n -> m n", x, v), 0), w) + cd.sum(w, "n")),
    ("positive scale through a sigmoid-weighted unit",
     lambda x, v, w: E("m n, n p -> m p", silu(2 * E("m k, k n -> m n", x, v)), w),
     lambda x, v, w: 2 * E("m n, n p -> m p", silu(E("m k, k n -> m n", x, v)), w)),
)  # fmt: skip
SUITE.differ(
    "q d, x d, x d -> q d",
    ("attention with the scale squared",
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k) / cd.sqrt(cd.size("d")), "x"), v),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k) / cd.size("d"), "x"), v)),
    ("attention with a bias of the key",
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q + 1, k), "x"), v),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k), "x"), v)),
    ("values scaled by the sum",
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k), "x"), v + 2),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k), "x"), v) + 2 * cd.size("x")),
    ("normalised by a sum of squares", lambda q, k, v: E("q x, x d -> q d", unit(E("q d, x d -> q x", q, k), "x"), v),
     lambda q, k, v: (
         (p := q.rename(d="e")),
         E("q e, e d -> q d", p, E("x e, x d -> e d", k.rename(d="e"), v))
          / E("q d, d e, q e -> q", q, E("x d, x e -> d e", k, k.rename(d="e")), p),
     )[-1]),
    ("keys and values exchanged", lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, k), "x"), v),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", q, v), "x"), k)),
    ("keys left unnormalised",
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", unit(q, "d"), unit(k, "d")), "x"), v),
     lambda q, k, v: E("q x, x d -> q d", cd.softmax(E("q d, x d -> q x", unit(q, "d"), k), "x"), v)),
)  # fmt: skip
SUITE.differ(
    "q x, x d -> q d",
    ("window one too long",
     lambda s, v: E("q x, x d -> q d", W((cd.index("x") <= cd.index("q")) & (cd.index("q") < cd.index("x") + 2), s,
      0), v),
     lambda s, v: E("q x, x d -> q d", W((cd.index("x") <= cd.index("q")) & (cd.index("q") <= cd.index("x") + 2), s,
      0), v)),
    ("mask left out", lambda s, v: E("q x, x d -> q d", W(cd.index("x") <= cd.index("q"), s, 0), v),
     lambda s, v: E("q x, x d -> q d", s, v)),
    ("mask turned", lambda s, v: E("q x, x d -> q d", W(cd.index("x") <= cd.index("q"), s, 0), v),
     lambda s, v: E("q x, x d -> q d", W(cd.index("q") <= cd.index("x"), s, 0), v)),
)  # fmt: skip
SUITE.differ(
    "q (c x), (c x) d -> q d",
    ("a block below the mask dropped",
     lambda s, v: E("q (c x), (c x) d -> q d", W(cd.index("(c x)") <= cd.index("q"), s, 0), v),
     lambda s, v: (
         (t := W(cd.index("c") * cd.size("x") + cd.index("x") <= cd.index("q"), R(s, "q (c x) -> q c x"), 0)),
         E("q c x, c x d -> q d", W(cd.index("c") * cd.size("x") + cd.size("x") <= cd.index("q") + 1, t, 0),
          R(v, "(c x) d -> c x d")),
     )[-1]),
    ("a block skipped by its strict bound",
     lambda s, v: E("q (c x), (c x) d -> q d", W(cd.index("(c x)") <= cd.index("q"), s, 0), v),
     lambda s, v: (
         (t := W(cd.index("c") * cd.size("x") + cd.index("x") <= cd.index("q"), R(s, "q (c x) -> q c x"), 0)),
         E("q c x, c x d -> q d", W(cd.index("c") * cd.size("x") < cd.index("q"), t, 0), R(v, "(c x) d -> c x d")),
     )[-1]),
)  # fmt: skip
SUITE.differ(
    "n c h w, c k -> n k",
    ("maximum pooling after a pointwise convolution", lambda x, a: cd.max(E("n c h w, c k -> n k h w", x, a), "h w"),
     lambda x, a: E("n c, c k -> n k", cd.max(x, "h w"), a)),
    ("average pooling by one size", lambda x, a: cd.mean(E("n c h w, c k -> n k h w", x, a), "h w"),
     lambda x, a: E("n c h w, c k -> n k", x, a) / cd.size("h")),
    ("rectifier before the pooling", lambda x, a: cd.mean(cd.maximum(E("n c h w, c k -> n k h w", x, a), 0), "h w"),
     lambda x, a: cd.maximum(E("n c h w, c k -> n k", x, a) / cd.size("h") / cd.size("w"), 0)),
)  # fmt: skip
SUITE.differ(
    "(b x) d, q d -> q d",
    ("blocks averaged",
     lambda k, q: E("q (b x), (b x) d -> q d", cd.softmax(E("q d, (b x) d -> q (b x)", q, k), "(b x)"), k),
     lambda k, q: (
         (z := R(k, "(b x) d -> b x d")),
         (e := cd.exp(E("q d, b x d -> q b x", q, z))),
         cd.mean(E("q b x, b x d -> q b d", e, z) / cd.sum(e, "x"), "b"),
     )[-1]),
)  # fmt: skip

SUITE.refused(
    "x ->",
    ("an assumption that nothing meets", lambda a: cd.sum(a, "x"), lambda a: cd.sum(a, "x"), ),
    assume=["x >= 3", "x <= 2"],
)  # fmt: skip
SUITE.refused(
    "x ->",
    ("an assumption about an unknown size", lambda a: cd.sum(a, "x"), lambda a: cd.sum(a, "x")),
    assume=["n >= 3"],
)  # fmt: skip
SUITE.refused(
    "q x -> q",
    ("results of different axes", lambda a: cd.sum(a, "x"), lambda a: cd.sum(a, "q")),
    ("truth values for numbers", lambda a: cd.sum(a, "x"), lambda a: cd.sum(a, "x") > 0),
    ("products with minus infinity", lambda a: cd.sum(a, "x"), lambda a: cd.sum(W(a > 0, a, -INF) * 0, "x")),
)  # fmt: skip
