"""Softmax, its online and split forms, norms folded into the next product, losses, masks."""

from __future__ import annotations

from rewrites import Suite

import catdiag as cd

SUITE = Suite("normalisers")
R, E, C, W = cd.rearrange, cd.einsum, cd.concat, cd.where
INF = float("inf")


def rms(a, axis):
    """An array divided by its root mean square along an axis."""
    return a / cd.sqrt(cd.mean(a * a, axis))


def layer(a, axis):
    """An array centred, and divided by its standard deviation along an axis."""
    c = a - cd.mean(a, axis)
    return c / cd.sqrt(cd.mean(c * c, axis) + 1)


SUITE.same(
    "q x, q -> q x",
    ("softmax without its stabiliser", lambda a, c: cd.softmax(a, "x"),
     lambda a, c: cd.exp(a) / cd.sum(cd.exp(a), "x")),
    ("softmax does not see shifts", lambda a, c: cd.softmax(a + c, "x"), lambda a, c: cd.softmax(a, "x")),
    ("softmax with any stabiliser", lambda a, c: cd.softmax(a, "x"),
     lambda a, c: cd.exp(a - c) / cd.sum(cd.exp(a - c), "x")),
    ("softmax by the reciprocal of its sum", lambda a, c: cd.softmax(a, "x"),
     lambda a, c: cd.exp(a - cd.max(a, "x")) * (1 / cd.sum(cd.exp(a - cd.max(a, "x")), "x"))),
    ("logarithm of a softmax", lambda a, c: cd.log(cd.softmax(a, "x")),
     lambda a, c: a - cd.max(a, "x") - cd.log(cd.sum(cd.exp(a - cd.max(a, "x")), "x"))),
    ("logarithm of a softmax by the logarithm of a sum", lambda a, c: cd.log(cd.softmax(a, "x")),
     lambda a, c: a - cd.log(cd.sum(cd.exp(a), "x"))),
    ("softmax through its logarithm", lambda a, c: cd.softmax(a, "x"),
     lambda a, c: cd.exp(a - cd.log(cd.sum(cd.exp(a), "x")))),
    ("softmax of a logarithm", lambda a, c: cd.softmax(cd.log(cd.exp(a) * cd.exp(c)), "x"),
     lambda a, c: cd.exp(a) / cd.sum(cd.exp(a), "x")),
    ("softmax of a softmax's logarithm", lambda a, c: cd.softmax(cd.log(cd.softmax(a, "x")), "x"),
     lambda a, c: cd.softmax(a, "x")),
    ("softmax times its sum", lambda a, c: cd.softmax(a, "x") * cd.sum(cd.softmax(a, "x"), "x"),
     lambda a, c: cd.softmax(a, "x")),
    ("mask by a large shift of the row", lambda a, c: cd.softmax(W(c > 0, a, a + 7), "x"),
     lambda a, c: cd.softmax(a, "x")),
    ("norm does not see a positive scale", lambda a, c: rms(a * cd.exp(c), "x"), lambda a, c: rms(a, "x")),
    ("norm twice", lambda a, c: rms(rms(a, "x"), "x"), lambda a, c: rms(a, "x")),
    ("norm by a sum of squares", lambda a, c: rms(a, "x"),
     lambda a, c: a * cd.sqrt(cd.size("x")) / cd.sqrt(cd.sum(a * a, "x"))),
    ("Euclidean norm does not see a positive scale",
     lambda a, c: cd.exp(c) * a / cd.sqrt(cd.sum((cd.exp(c) * a) ** 2, "x")),
     lambda a, c: a / cd.sqrt(cd.sum(a * a, "x"))),
    ("layer norm does not see shifts", lambda a, c: layer(a + c, "x"), lambda a, c: layer(a, "x")),
    ("layer norm by two moments", lambda a, c: layer(a, "x"),
     lambda a, c: (a - cd.mean(a, "x")) / cd.sqrt(cd.mean(a * a, "x") - cd.mean(a, "x") ** 2 + 1)),
    ("layer norm of the opposite", lambda a, c: layer(-a, "x"), lambda a, c: -layer(a, "x")),
    ("layer norm is centred", lambda a, c: layer(a, "x") - cd.mean(layer(a, "x"), "x"), lambda a, c: layer(a, "x")),
    ("standard score by a root", lambda a, c: (a - c) * (1 / cd.sqrt(cd.exp(c))), lambda a, c: (a - c) / cd.exp(c / 2)),
)  # fmt: skip
SUITE.same(
    "q x -> q",
    ("softmax sums to one", lambda a: cd.sum(cd.softmax(a, "x"), "x"), lambda a: 0 * cd.sum(a, "x") + 1),
    ("logarithm of a sum of exponentials", lambda a: cd.log(cd.sum(cd.exp(a), "x")),
     lambda a: cd.max(a, "x") + cd.log(cd.sum(cd.exp(a - cd.max(a, "x")), "x"))),
    ("logarithm of a sum shifted", lambda a: cd.log(cd.sum(cd.exp(a + 5), "x")),
     lambda a: 5 + cd.log(cd.sum(cd.exp(a), "x"))),
    ("logarithm of a mean of exponentials", lambda a: cd.log(cd.mean(cd.exp(a), "x")),
     lambda a: cd.log(cd.sum(cd.exp(a), "x")) - cd.log(cd.size("x"))),
    ("entropy of a softmax", lambda a: -cd.sum(cd.softmax(a, "x") * cd.log(cd.softmax(a, "x")), "x"),
     lambda a: cd.log(cd.sum(cd.exp(a), "x")) - cd.sum(cd.softmax(a, "x") * a, "x")),
    ("largest of a softmax", lambda a: cd.max(cd.softmax(a, "x"), "x"),
     lambda a: 1 / cd.sum(cd.exp(a - cd.max(a, "x")), "x")),
    ("mean of squares of a norm", lambda a: cd.mean(rms(a, "x") ** 2, "x"),
     lambda a: cd.mean(a * a, "x") / cd.mean(a * a, "x")),
)  # fmt: skip
SUITE.same(
    "q x, q x -> q",
    ("cross entropy", lambda a, t: -cd.sum(t * cd.log(cd.softmax(a, "x")), "x"),
     lambda a, t: cd.sum(t, "x") * cd.log(cd.sum(cd.exp(a), "x")) - cd.sum(t * a, "x")),
    ("cross entropy, stabilized", lambda a, t: -cd.sum(t * cd.log(cd.softmax(a, "x")), "x"),
     lambda a, t: cd.sum(t * (cd.log(cd.sum(cd.exp(a - cd.max(a, "x")), "x")) + cd.max(a, "x") - a), "x")),
    ("divergence of two softmaxes",
     lambda a, t: cd.sum(cd.softmax(a, "x") * (cd.log(cd.softmax(a, "x")) - cd.log(cd.softmax(t, "x"))), "x"),
     lambda a, t: cd.sum(cd.softmax(a, "x") * (a - t), "x") - cd.log(cd.sum(cd.exp(a), "x"))
      + cd.log(cd.sum(cd.exp(t), "x"))),
    ("gradient of a softmax",
     lambda a, t: cd.sum(cd.softmax(a, "x") * (t - cd.sum(cd.softmax(a, "x") * t, "x")), "x"),
     lambda a, t: 0 * cd.sum(a, "x")),
    ("normalise after the sum", lambda a, t: cd.sum(cd.softmax(a, "x") * t, "x"),
     lambda a, t: cd.sum(cd.exp(a) * t, "x") / cd.sum(cd.exp(a), "x")),
    ("cosine of two arrays",
     lambda a, t: cd.sum(a / cd.sqrt(cd.sum(a * a, "x")) * (t / cd.sqrt(cd.sum(t * t, "x"))), "x"),
     lambda a, t: cd.sum(a * t, "x") / (cd.sqrt(cd.sum(a * a, "x")) * cd.sqrt(cd.sum(t * t, "x")))),
    ("weighted by a tempered softmax", lambda a, t: cd.sum(cd.softmax(a / 2, "x") * t, "x"),
     lambda a, t: cd.sum(cd.sqrt(cd.exp(a)) * t, "x") / cd.sum(cd.sqrt(cd.exp(a)), "x")),
)  # fmt: skip
SUITE.same(
    "q x, q y, x d, y d -> q d",
    ("two parts with a common maximum",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: (E("q x, x d -> q d", cd.exp(s), v) + E("q y, y d -> q d", cd.exp(t), w))
     / (cd.sum(cd.exp(s), "x") + cd.sum(cd.exp(t), "y"))),
    ("two parts renormalised by their sums",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: (cd.sum(cd.exp(s), "x") * E("q x, x d -> q d", cd.softmax(s, "x"), v)
                         + cd.sum(cd.exp(t), "y") * E("q y, y d -> q d", cd.softmax(t, "y"), w))
     / (cd.sum(cd.exp(s), "x") + cd.sum(cd.exp(t), "y"))),
    ("two parts merged by the logarithms of their sums",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: (
         (e := cd.log(cd.sum(cd.exp(s), "x"))),
         (f := cd.log(cd.sum(cd.exp(t), "y"))),
         (g := cd.log(cd.exp(e) + cd.exp(f))),
         cd.exp(e - g) * E("q x, x d -> q d", cd.softmax(s, "x"), v) + cd.exp(f - g)
          * E("q y, y d -> q d", cd.softmax(t, "y"), w),
     )[-1]),
    ("two parts, the second one first",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: E("q y+x, y+x d -> q d", cd.softmax(C([t, s], "y+x"), "y+x"), C([w, v], "y+x"))),
    ("rescaled step of an online softmax",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: (
         (m := cd.max(s, "x")),
         (n := cd.maximum(m, cd.max(t, "y"))),
         (c := cd.exp(m - n)),
         (c * E("q x, x d -> q d", cd.exp(s - m), v) + E("q y, y d -> q d", cd.exp(t - n), w))
         / (c * cd.sum(cd.exp(s - m), "x") + cd.sum(cd.exp(t - n), "y")),
     )[-1]),
)  # fmt: skip
SUITE.same(
    "q x, x d -> q d",
    ("divide after the product", lambda s, v: E("q x, x d -> q d", cd.softmax(s, "x"), v),
     lambda s, v: E("q x, x d -> q d", cd.exp(s), v) / cd.sum(cd.exp(s), "x")),
    ("masked positions drop out",
     lambda s, v: E("q x, x d -> q d", cd.exp(W(cd.index("x") <= cd.index("q"), s, -INF)), v),
     lambda s, v: cd.sum(W(cd.index("x") <= cd.index("q"), cd.exp(s) * v, 0), "x")),
    ("causal softmax without its stabiliser",
     lambda s, v: E("q x, x d -> q d", cd.softmax(W(cd.index("x") <= cd.index("q"), s, -INF), "x"), v),
     lambda s, v: E("q x, x d -> q d", W(cd.index("x") <= cd.index("q"), cd.exp(s), 0), v)
      / cd.sum(W(cd.index("x") <= cd.index("q"), cd.exp(s), 0), "x")),
    ("ones beside the values count the normaliser",
     lambda s, v: E("q x, x d -> q d", cd.softmax(s, "x"), v),
     lambda s, v: (
         (o := E("q x, x d+1 -> q d+1", cd.exp(s), C([v, R(0 * cd.sum(v, "d") + 1, "x -> x 1")], "d+1"))),
         cd.slice(o, "d+1", "d") / cd.sum(cd.slice(o, "d+1", "1"), "1"),
     )[-1]),
)  # fmt: skip
SUITE.same(
    "m k, k, k n -> m n",
    ("root mean square norm folded into the next product",
     lambda a, g, w: E("m k, k n -> m n", rms(a, "k") * g, w),
     lambda a, g, w: E("m k, k n -> m n", a, E("k, k n -> k n", g, w)) / cd.sqrt(cd.mean(a * a, "k"))),
    ("layer norm folded into the next product",
     lambda a, g, w: E("m k, k n -> m n", layer(a, "k") * g, w),
     lambda a, g, w: (E("m k, k, k n -> m n", a, g, w) - cd.mean(a, "k") * E("k, k n -> n", g, w))
     / cd.sqrt(cd.mean(a * a, "k") - cd.mean(a, "k") ** 2 + 1)),
    ("norm with its scale after the product", lambda a, g, w: E("m k, k n -> m n", rms(a, "k"), w) * cd.sum(g, "k"),
     lambda a, g, w: E("m k, k n -> m n", a, cd.sum(g, "k") * w) / cd.sqrt(cd.mean(a * a, "k"))),
    ("product and squares in one pass", lambda a, g, w: E("m k, k n -> m n", rms(a, "k") * g, w),
     lambda a, g, w: cd.sum(a * g * w, "k") * cd.sqrt(cd.size("k")) / cd.sqrt(cd.sum(a * a, "k"))),
)  # fmt: skip
SUITE.same(
    "n c, c, c, c, c, c k -> n k",
    ("batch norm folded into the next product",
     lambda x, mu, s, g, b, w: E("n c, c k -> n k", (x - mu) / cd.exp(s) * g + b, w),
     lambda x, mu, s, g, b, w: E("n c, c k -> n k", x, g * cd.exp(-s) * w)
      + E("c, c k -> k", b - g * mu / cd.exp(s), w)),
)  # fmt: skip
SUITE.same(
    "n c, c k, k, k, k, k, k -> n k",
    ("batch norm folded into the product before",
     lambda x, w, bias, mu, s, g, b: (E("n c, c k -> n k", x, w) + bias - mu) / cd.sqrt(cd.exp(s) + 1) * g + b,
     lambda x, w, bias, mu, s, g, b: E("n c, c k -> n k", x, w * (g / cd.sqrt(cd.exp(s) + 1)))
      + ((bias - mu) * g / cd.sqrt(cd.exp(s) + 1) + b)),
)  # fmt: skip

SUITE.differ(
    "q x, q -> q x",
    ("softmax of a scaled row", lambda a, c: cd.softmax(a * 2, "x"), lambda a, c: cd.softmax(a, "x")),
    ("softmax over the other axis", lambda a, c: cd.softmax(a, "x"), lambda a, c: cd.softmax(a, "q")),
    ("softmax with the maximum forgotten below", lambda a, c: cd.softmax(a, "x"),
     lambda a, c: cd.exp(a - cd.max(a, "x")) / cd.sum(cd.exp(a), "x")),
    ("softmax of a masked row by zeros", lambda a, c: cd.softmax(W(cd.index("x") <= cd.index("q"), a, -INF), "x"),
     lambda a, c: cd.softmax(W(cd.index("x") <= cd.index("q"), a, 0), "x")),
    ("mask after the softmax", lambda a, c: cd.softmax(W(cd.index("x") <= cd.index("q"), a, -INF), "x"),
     lambda a, c: W(cd.index("x") <= cd.index("q"), cd.softmax(a, "x"), 0)),
    ("mask with the diagonal left out", lambda a, c: cd.exp(W(cd.index("x") <= cd.index("q"), a, -INF)),
     lambda a, c: cd.exp(W(cd.index("x") < cd.index("q"), a, -INF))),
    ("softmax of a softmax", lambda a, c: cd.softmax(cd.softmax(a, "x"), "x"), lambda a, c: cd.softmax(a, "x")),
    ("logarithm of a softmax without the maximum", lambda a, c: cd.log(cd.softmax(a, "x")),
     lambda a, c: a - cd.log(cd.sum(cd.exp(a - cd.max(a, "x")), "x"))),
    ("norm does not see any scale", lambda a, c: rms(a * c, "x"), lambda a, c: rms(a, "x")),
    ("root mean square for layer norm", lambda a, c: layer(a, "x"), lambda a, c: a / cd.sqrt(cd.mean(a * a, "x") + 1)),
    ("norm with a sum for a mean", lambda a, c: rms(a, "x"), lambda a, c: a / cd.sqrt(cd.sum(a * a, "x"))),
    ("layer norm with the regulariser outside", lambda a, c: layer(a, "x"),
     lambda a, c: (a - cd.mean(a, "x")) / (cd.sqrt(cd.mean((a - cd.mean(a, "x")) ** 2, "x")) + 1)),
    ("layer norm scales", lambda a, c: layer(2 * a, "x"), lambda a, c: layer(a, "x")),
    ("sigmoid for softmax", lambda a, c: cd.softmax(a, "x"), lambda a, c: cd.nn.sigmoid(a)),
)  # fmt: skip
SUITE.differ(
    "q x, q y, x d, y d -> q d",
    ("two parts averaged",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: (E("q x, x d -> q d", cd.softmax(s, "x"), v) + E("q y, y d -> q d", cd.softmax(t, "y"), w))
      / 2),
    ("two parts weighted by their sizes",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: (cd.size("x") * E("q x, x d -> q d", cd.softmax(s, "x"), v)
                         + cd.size("y") * E("q y, y d -> q d", cd.softmax(t, "y"), w)) / (cd.size("x") + cd.size("y"))),
    ("rescaled step with its factor inverted",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: (
         (m := cd.max(s, "x")),
         (n := cd.maximum(m, cd.max(t, "y"))),
         (c := cd.exp(n - m)),
         (c * E("q x, x d -> q d", cd.exp(s - m), v) + E("q y, y d -> q d", cd.exp(t - n), w))
         / (c * cd.sum(cd.exp(s - m), "x") + cd.sum(cd.exp(t - n), "y")),
     )[-1]),
    ("rescaled step with the old maximum of the new part",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: (
         (m := cd.max(s, "x")),
         (n := cd.maximum(m, cd.max(t, "y"))),
         (c := cd.exp(m - n)),
         (c * E("q x, x d -> q d", cd.exp(s - m), v) + E("q y, y d -> q d", cd.exp(t - m), w))
         / (c * cd.sum(cd.exp(s - m), "x") + cd.sum(cd.exp(t - m), "y")),
     )[-1]),
    ("values of the parts exchanged under one weight",
     lambda s, t, v, w: E("q x+y, x+y d -> q d", cd.softmax(C([s, t], "x+y"), "x+y"), C([v, w], "x+y")),
     lambda s, t, v, w: E("q y+x, y+x d -> q d", cd.softmax(C([t, s], "y+x"), "y+x"), C([w, 2 * v], "y+x"))),
)  # fmt: skip
SUITE.differ(
    "m k, k, k n -> m n",
    ("layer norm folded without the mean",
     lambda a, g, w: E("m k, k n -> m n", layer(a, "k") * g, w),
     lambda a, g, w: E("m k, k, k n -> m n", a, g, w) / cd.sqrt(cd.mean(a * a, "k") - cd.mean(a, "k") ** 2 + 1)),
    ("norm of the product for the product of the norm", lambda a, g, w: E("m k, k n -> m n", rms(a, "k"), w),
     lambda a, g, w: rms(E("m k, k n -> m n", a, w), "n")),
    ("scale left out of the fold", lambda a, g, w: E("m k, k n -> m n", rms(a, "k") * g, w),
     lambda a, g, w: E("m k, k n -> m n", a, w) / cd.sqrt(cd.mean(a * a, "k"))),
    ("scale under the norm", lambda a, g, w: E("m k, k n -> m n", rms(a, "k") * g, w),
     lambda a, g, w: E("m k, k n -> m n", rms(a * g, "k"), w)),
)  # fmt: skip
SUITE.differ(
    "n c, c k, k, k -> n k",
    ("batch norm folded with the bias unscaled", lambda x, w, b, g: (E("n c, c k -> n k", x, w) + b) * g,
     lambda x, w, b, g: E("n c, c k -> n k", x, w * g) + b),
    ("batch norm folded with the mean added", lambda x, w, b, g: (E("n c, c k -> n k", x, w) - b) * g,
     lambda x, w, b, g: E("n c, c k -> n k", x, w * g) + b * g),
)  # fmt: skip
