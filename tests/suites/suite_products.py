"""Sums of products: matrix products in every form, contraction orders, biases, batches, blocks."""

from __future__ import annotations

from rewrites import Suite

import catdiag as cd

SUITE = Suite("products")
R, E, C = cd.rearrange, cd.einsum, cd.concat


def mm(a, b):
    """Two matrices over one common axis, the result over the others in order."""
    (k,) = [n for n in a.axes if n in b.axes]
    left, right = [n for n in a.axes if n != k], [n for n in b.axes if n != k]
    return E(f"{' '.join(a.axes)}, {' '.join(b.axes)} -> {' '.join(left + right)}", a, b)


SUITE.same(
    "m k, k n, n p -> m p",
    ("product associates", lambda a, b, c: mm(mm(a, b), c), lambda a, b, c: mm(a, mm(b, c))),
    ("one contraction", lambda a, b, c: mm(mm(a, b), c), lambda a, b, c: E("m k, k n, n p -> m p", a, b, c)),
    ("outer first", lambda a, b, c: mm(mm(a, b), c),
     lambda a, b, c: cd.sum(E("m k, n p -> m k n p", a, c) * b, "k n")),
    ("scalar anywhere", lambda a, b, c: mm(mm(2 * a, b), c), lambda a, b, c: mm(a, mm(b, 2 * c))),
    ("product by broadcast and sum", lambda a, b, c: mm(mm(a, b), c),
     lambda a, b, c: cd.sum(cd.sum(a * b, "k") * c, "n")),
    ("four contractions in another order", lambda a, b, c: mm(mm(a, b), c) * cd.sum(a, "k"),
     lambda a, b, c: E("m k, k n, n p, m k2 -> m p", a, b, c, a.rename(k="k2"))),
)  # fmt: skip
SUITE.same(
    "m k, k n -> n m",
    ("transpose of a product", lambda a, b: R(mm(a, b), "m n -> n m"),
     lambda a, b: mm(R(b, "k n -> n k"), R(a, "m k -> k m"))),
    ("product of transposes", lambda a, b: R(mm(a, b), "m n -> n m"), lambda a, b: E("k n, m k -> n m", b, a)),
    ("scaled rows", lambda a, b: E("m k, k n -> n m", a * cd.sum(a, "k"), b),
     lambda a, b: cd.sum(a, "k") * E("m k, k n -> n m", a, b)),
    ("negated", lambda a, b: E("m k, k n -> n m", -a, b), lambda a, b: -E("m k, k n -> n m", a, b)),
    ("row sums by ones", lambda a, b: E("m k, k n -> n m", a, 0 * b + 1),
     lambda a, b: cd.sum(a, "k") + 0 * cd.sum(b, "k")),
)  # fmt: skip
SUITE.same(
    "m k, m k, k n -> m n",
    ("product distributes on the left", lambda a, b, w: mm(a + b, w), lambda a, b, w: mm(a, w) + mm(b, w)),
    ("difference on the left", lambda a, b, w: mm(a - b, w), lambda a, b, w: mm(a, w) - mm(b, w)),
    ("linear in the left", lambda a, b, w: mm(2 * a - 3 * b, w), lambda a, b, w: 2 * mm(a, w) - 3 * mm(b, w)),
)  # fmt: skip
SUITE.same(
    "m k, k n, k n -> m n",
    ("product distributes on the right", lambda a, v, w: mm(a, v + w), lambda a, v, w: mm(a, v) + mm(a, w)),
    ("residual weights", lambda a, v, w: mm(a, v) + mm(a, w - v), lambda a, v, w: mm(a, w)),
)  # fmt: skip
SUITE.same(
    "m k, k n, n -> m n",
    ("bias before and after", lambda a, w, b: mm(a, w) + b, lambda a, w, b: b + mm(a, w)),
    ("columns scaled", lambda a, w, b: mm(a, w) * b, lambda a, w, b: mm(a, w * b)),
    ("scale folded into weights and bias", lambda a, w, b: 3 * (mm(a, w) + b), lambda a, w, b: mm(a, 3 * w) + 3 * b),
    ("bias as one more row", lambda a, w, b: mm(a, w) + b,
     lambda a, w, b: E("m k+1, k+1 n -> m n", C([a, R(0 * cd.sum(a, "k") + 1, "m -> m 1")], "k+1"),
      C([w, R(b, "n -> 1 n")], "k+1"))),
    ("column normalisation folded", lambda a, w, b: mm(a, w) / cd.exp(b), lambda a, w, b: mm(a, w / cd.exp(b))),
)  # fmt: skip
SUITE.same(
    "m k, k, k n -> m n",
    ("rows of the weights scaled", lambda a, s, w: mm(a * s, w), lambda a, s, w: mm(a, s * w)),
    ("product with a diagonal matrix", lambda a, s, w: E("m k, k, k n -> m n", a, s, w),
     lambda a, s, w: mm(a, E("k, k n -> k n", s, w))),
    ("shift folded into a bias", lambda a, s, w: mm(a + s, w), lambda a, s, w: mm(a, w) + E("k, k n -> n", s, w)),
    ("quotient by a scale", lambda a, s, w: mm(a / s, w), lambda a, s, w: mm(a, w / s)),
)  # fmt: skip
SUITE.same(
    "m k, k n, k p -> m n+p",
    ("products side by side", lambda a, v, w: C([mm(a, v), mm(a, w)], "n+p"),
     lambda a, v, w: E("m k, k n+p -> m n+p", a, C([v, w], "n+p"))),
)  # fmt: skip
SUITE.same(
    "m k, l k, k n -> m+l n",
    ("products one above the other", lambda a, b, w: C([mm(a, w), mm(b, w)], "m+l"),
     lambda a, b, w: E("m+l k, k n -> m+l n", C([a, b], "m+l"), w)),
)  # fmt: skip
SUITE.same(
    "m k, m l, k n, l n -> m n",
    ("block product", lambda a, b, v, w: mm(a, v) + mm(b, w),
     lambda a, b, v, w: E("m k+l, k+l n -> m n", C([a, b], "k+l"), C([v, w], "k+l"))),
    ("block product with a scale", lambda a, b, v, w: 2 * mm(a, v) + mm(b, w),
     lambda a, b, v, w: E("m k+l, k+l n -> m n", C([2 * a, b], "k+l"), C([v, w], "k+l"))),
)  # fmt: skip
SUITE.same(
    "m k+l, k+l n -> m n",
    ("product split over its inner axis", lambda a, w: mm(a, w),
     lambda a, w: mm(cd.split(a, "k+l")[0], cd.split(w, "k+l")[0]) + mm(cd.split(a, "k+l")[1], cd.split(w, "k+l")[1])),
)  # fmt: skip
SUITE.same(
    "m (b g), (b g) n -> m n",
    ("product in blocks", lambda a, w: mm(a, w),
     lambda a, w: E("m b g, b g n -> m n", R(a, "m (b g) -> m b g"), R(w, "(b g) n -> b g n"))),
    ("partial products summed", lambda a, w: mm(a, w),
     lambda a, w: cd.sum(E("m b g, b g n -> b m n", R(a, "m (b g) -> m b g"), R(w, "(b g) n -> b g n")), "b")),
    ("inner axis in the other layout", lambda a, w: mm(a, w),
     lambda a, w: E("m (g b), (g b) n -> m n", R(a, "m (b g) -> m (g b)"), R(w, "(b g) n -> (g b) n"))),
)  # fmt: skip
SUITE.same(
    "b m k, b k n -> b m n",
    ("batched product by broadcast", lambda a, w: E("b m k, b k n -> b m n", a, w), lambda a, w: cd.sum(a * w, "k")),
    ("batched product with its factors exchanged", lambda a, w: E("b m k, b k n -> b m n", a, w),
     lambda a, w: E("b k n, b m k -> b m n", w, a)),
)  # fmt: skip
SUITE.same(
    "b m k, k n -> b m n",
    ("shared weights as one tall product", lambda a, w: E("b m k, k n -> b m n", a, w),
     lambda a, w: R(E("(b m) k, k n -> (b m) n", R(a, "b m k -> (b m) k"), w), "(b m) n -> b m n")),
    ("weights repeated over the batch", lambda a, w: E("b m k, k n -> b m n", a, w),
     lambda a, w: E("b m k, b k n -> b m n", a, w + 0 * cd.index("b"))),
)  # fmt: skip
SUITE.same(
    "i j, j k, k l, l i2 -> i i2",
    ("four matrices in two halves", lambda a, b, c, d: mm(mm(mm(a, b), c), d),
     lambda a, b, c, d: mm(mm(a, b), mm(c, d))),
    ("four matrices from the right", lambda a, b, c, d: mm(mm(mm(a, b), c), d),
     lambda a, b, c, d: mm(a, mm(b, mm(c, d)))),
)  # fmt: skip
SUITE.same(
    "i j, j k ->",
    ("sum of all of a product", lambda a, b: cd.sum(mm(a, b), "i k"),
     lambda a, b: cd.sum(cd.sum(a, "i") * cd.sum(b, "k"), "j")),
    ("grand total by vectors", lambda a, b: E("i j, j k -> ", a, b),
     lambda a, b: E("j, j -> ", cd.sum(a, "i"), cd.sum(b, "k"))),
)  # fmt: skip
SUITE.same(
    "i j, j i2=i ->",
    ("trace is cyclic", lambda a, b: cd.sum(cd.where(cd.index("i") == cd.index("i2"), mm(a, b), 0), "i i2"),
     lambda a, b: E("i j, j i -> ", a, b.rename(i2="i"))),
)  # fmt: skip
SUITE.same(
    "i, j, k ->",
    ("products of sums", lambda a, b, c: cd.sum(a * b * c, "i j k"),
     lambda a, b, c: cd.sum(a, "i") * cd.sum(b, "j") * cd.sum(c, "k")),
    ("two independent sums", lambda a, b, c: E("i, j, k -> ", a, b, c),
     lambda a, b, c: cd.sum(a, "i") * E("j, k -> ", b, c)),
)  # fmt: skip
SUITE.same(
    "i j, i j, j ->",
    ("inner product of matrices", lambda a, b, c: E("i j, i j -> ", a, b), lambda a, b, c: cd.sum(a * b, "j i")),
    ("weighted inner product", lambda a, b, c: E("i j, i j, j -> ", a, b, c),
     lambda a, b, c: E("i j, i j -> ", a * c, b)),
    ("quadratic form expanded", lambda a, b, c: cd.sum((a + b) ** 2 * c, "i j"),
     lambda a, b, c: E("i j, i j, j -> ", a, a, c) + 2 * E("i j, i j, j -> ", a, b, c) + E("i j, i j, j -> ", b, b, c)),
    ("parallelogram", lambda a, b, c: cd.sum((a + b) ** 2, "i j") + cd.sum((a - b) ** 2, "i j"),
     lambda a, b, c: 2 * cd.sum(a * a, "i j") + 2 * cd.sum(b * b, "i j")),
    ("polarisation", lambda a, b, c: cd.sum((a + b) ** 2, "i j") - cd.sum((a - b) ** 2, "i j"),
     lambda a, b, c: 4 * cd.sum(a * b, "i j")),
)  # fmt: skip
SUITE.same(
    "m k, k r, r n, k n -> m n",
    ("low-rank update merged", lambda x, a, b, w: mm(x, w) + mm(mm(x, a), b), lambda x, a, b, w: mm(x, w + mm(a, b))),
    ("low-rank update of the concatenation", lambda x, a, b, w: mm(x, w + mm(a, b)),
     lambda x, a, b, w: E("m k+r, k+r n -> m n", C([x, mm(x, a)], "k+r"), C([w, b], "k+r"))),
    ("low-rank update with a scale", lambda x, a, b, w: mm(x, w) + 2 * mm(mm(x, a), b),
     lambda x, a, b, w: mm(x, w + 2 * mm(a, b))),
)  # fmt: skip
SUITE.same(
    "q d, x d, x e -> q e",
    ("linear attention reassociated", lambda q, k, v: E("q x, x e -> q e", E("q d, x d -> q x", q, k), v),
     lambda q, k, v: E("q d, d e -> q e", q, E("x d, x e -> d e", k, v))),
    ("linear attention with a feature map",
     lambda q, k, v: E("q x, x e -> q e", E("q d, x d -> q x", cd.exp(q), cd.exp(k)), v),
     lambda q, k, v: E("q d, d e -> q e", cd.exp(q), E("x d, x e -> d e", cd.exp(k), v))),
    ("linear attention normalised",
     lambda q, k, v: E("q x, x e -> q e", (s := E("q d, x d -> q x", cd.exp(q), cd.exp(k))), v) / cd.sum(s, "x"),
     lambda q, k, v: E("q d, d e -> q e", cd.exp(q), E("x d, x e -> d e", cd.exp(k), v))
      / E("q d, d -> q", cd.exp(q), cd.sum(cd.exp(k), "x"))),
    ("scale on the keys", lambda q, k, v: E("q x, x e -> q e", E("q d, x d -> q x", q, k) / cd.sqrt(cd.size("d")), v),
     lambda q, k, v: E("q x, x e -> q e", E("q d, x d -> q x", q, k / cd.sqrt(cd.size("d"))), v)),
)  # fmt: skip
SUITE.same(
    "i r, j r, k r, i j -> k r",
    ("matricised tensor product, two paths", lambda a, b, c, t: E("i j, i r, j r, k r -> k r", t, a, b, c),
     lambda a, b, c, t: E("j r, j r, k r -> k r", E("i j, i r -> j r", t, a), b, c)),
    ("matricised tensor product, the other path", lambda a, b, c, t: E("i j, i r, j r, k r -> k r", t, a, b, c),
     lambda a, b, c, t: c * cd.sum(a * E("i j, j r -> i r", t, b), "i")),
)  # fmt: skip
SUITE.same(
    "x d -> x x2=x",
    ("distances by a Gram matrix", lambda a: cd.sum((a - a.rename(x="x2")) ** 2, "d"),
     lambda a: cd.sum(a * a, "d") + cd.sum(a * a, "d").rename(x="x2") - 2
      * E("x d, x2 d -> x x2", a, a.rename(x="x2"))),
    ("Gram matrix is symmetric", lambda a: E("x d, x2 d -> x x2", a, a.rename(x="x2")),
     lambda a: E("x2 d, x d -> x x2", a.rename(x="x2"), a)),
    ("centred Gram matrix",
     lambda a: E("x d, x2 d -> x x2", a - cd.mean(a, "d"), a.rename(x="x2") - cd.mean(a, "d").rename(x="x2")),
     lambda a: E("x d, x2 d -> x x2", a, a.rename(x="x2")) - cd.size("d") * cd.mean(a, "d")
      * cd.mean(a, "d").rename(x="x2")),
)  # fmt: skip
SUITE.same(
    "b, b2 -> b b2",
    ("outer products are scaled", lambda u, v: (2 * u) * v, lambda u, v: u * (2 * v)),
)  # fmt: skip

SUITE.differ(
    "m k, k n, n p -> m p",
    ("a factor left out", lambda a, b, c: mm(mm(a, b), c), lambda a, b, c: mm(mm(a, b), 0 * c + 1)),
    ("scaled twice", lambda a, b, c: mm(mm(2 * a, b), c), lambda a, b, c: mm(2 * a, mm(2 * b, c))),
    ("function moves out of a product", lambda a, b, c: mm(cd.maximum(mm(a, b), 0), c),
     lambda a, b, c: cd.maximum(mm(mm(a, b), c), 0)),
    ("sum of products for the product of sums", lambda a, b, c: cd.sum(a, "k") * cd.sum(c, "n"),
     lambda a, b, c: E("m k, k n, n p -> m p", a, 0 * b + 1, c) + cd.sum(b, "k n")),
)  # fmt: skip
SUITE.differ(
    "m m2=m, m m2=m -> m m2=m",
    ("matrix product commutes", lambda a, b: E("m k, k m2 -> m m2", a.rename(m2="k"), b.rename(m="k")),
     lambda a, b: E("m k, k m2 -> m m2", b.rename(m2="k"), a.rename(m="k"))),
    ("transpose without the exchange", lambda a, b: E("m k, k m2 -> m2 m", a.rename(m2="k"), b.rename(m="k")),
     lambda a, b: E("k m, m2 k -> m m2", a.rename(m="k", m2="m"), b.rename(m2="k", m="m2"))),
    ("elementwise for matrix product", lambda a, b: a * b,
     lambda a, b: E("m k, k m2 -> m m2", a.rename(m2="k"), b.rename(m="k"))),
    ("a matrix for its transpose", lambda a, b: E("m k, k m2 -> m m2", a.rename(m2="k"), b.rename(m="k")),
     lambda a, b: E("k m, k m2 -> m m2", a.rename(m="k", m2="m"), b.rename(m="k"))),
    ("square of a sum as if matrices commuted",
     lambda a, b: E("m k, k m2 -> m m2", (a + b).rename(m2="k"), (a + b).rename(m="k")),
     lambda a, b: E("m k, k m2 -> m m2", a.rename(m2="k"), a.rename(m="k")) + 2
      * E("m k, k m2 -> m m2", a.rename(m2="k"), b.rename(m="k"))
     + E("m k, k m2 -> m m2", b.rename(m2="k"), b.rename(m="k"))),
)  # fmt: skip
SUITE.differ(
    "m k, k n, n -> m n",
    ("bias under the product", lambda a, w, b: mm(a, w) + b, lambda a, w, b: mm(a, w + b)),
    ("bias not scaled", lambda a, w, b: 3 * (mm(a, w) + b), lambda a, w, b: mm(a, 3 * w) + b),
    ("bias without its row of ones", lambda a, w, b: mm(a, w) + b, lambda a, w, b: mm(a, w) + b * cd.sum(a, "k")),
    ("rows for columns", lambda a, w, b: mm(a, w) * b, lambda a, w, b: mm(a, w) * cd.sum(b, "n")),
)  # fmt: skip
SUITE.differ(
    "m k, k, k n -> m n",
    ("shift folded without the weights", lambda a, s, w: mm(a + s, w), lambda a, s, w: mm(a, w) + cd.sum(s, "k")),
    ("scale outside of the sum", lambda a, s, w: mm(a * s, w), lambda a, s, w: cd.sum(s, "k") * mm(a, w)),
    ("inverse scale", lambda a, s, w: mm(a / s, w), lambda a, s, w: mm(a, w * s)),
)  # fmt: skip
SUITE.differ(
    "m (b g), (b g) n -> m n",
    ("blocks contracted crosswise", lambda a, w: mm(a, w),
     lambda a, w: E("m b g, c h n -> m n", R(a, "m (b g) -> m b g"), R(w, "(b g) n -> b g n").rename(b="c", g="h"))),
    ("one block for all", lambda a, w: mm(a, w),
     lambda a, w: E("m b g, c g n -> m n", R(a, "m (b g) -> m b g"), R(w, "(b g) n -> b g n").rename(b="c"))),
    ("average of the blocks", lambda a, w: mm(a, w),
     lambda a, w: cd.mean(E("m b g, b g n -> b m n", R(a, "m (b g) -> m b g"), R(w, "(b g) n -> b g n")), "b")),
)  # fmt: skip
SUITE.differ(
    "m k, k r, r n, k n -> m n",
    ("low-rank update with its scale forgotten", lambda x, a, b, w: mm(x, w) + 2 * mm(mm(x, a), b),
     lambda x, a, b, w: mm(x, w + mm(a, b))),
    ("low-rank update scaled with the weights", lambda x, a, b, w: mm(x, w) + 2 * mm(mm(x, a), b),
     lambda x, a, b, w: mm(x, 2 * (w + mm(a, b)))),
    ("low-rank update elementwise", lambda x, a, b, w: mm(x, w) + mm(mm(x, a), b),
     lambda x, a, b, w: mm(x, w * mm(a, b))),
)  # fmt: skip
SUITE.differ(
    "q d, x d, x e -> q e",
    ("exponential of the scores reassociated",
     lambda q, k, v: E("q x, x e -> q e", cd.exp(E("q d, x d -> q x", q, k)), v),
     lambda q, k, v: E("q d, d e -> q e", cd.exp(q), E("x d, x e -> d e", cd.exp(k), v))),
    ("normaliser summed over the wrong axis",
     lambda q, k, v: E("q x, x e -> q e", (s := E("q d, x d -> q x", cd.exp(q), cd.exp(k))), v) / cd.sum(s, "x"),
     lambda q, k, v: E("q d, d e -> q e", cd.exp(q), E("x d, x e -> d e", cd.exp(k), v))
      / E("q d, x d -> ", cd.exp(q), cd.exp(k))),
    ("scale under the root of another size",
     lambda q, k, v: E("q x, x e -> q e", E("q d, x d -> q x", q, k) / cd.sqrt(cd.size("d")), v),
     lambda q, k, v: E("q x, x e -> q e", E("q d, x d -> q x", q, k) / cd.sqrt(cd.size("x")), v)),
)  # fmt: skip
SUITE.differ(
    "i, j ->",
    ("sum of products of unrelated axes", lambda a, b: cd.sum(a * b, "i j"),
     lambda a, b: cd.sum(a, "i") + cd.sum(b, "j")),
    ("sum of a sum of unrelated axes", lambda a, b: cd.sum(a + b, "i j"), lambda a, b: cd.sum(a, "i") + cd.sum(b, "j")),
    ("sum of a sum with one size", lambda a, b: cd.sum(a + b, "i j"),
     lambda a, b: cd.size("i") * (cd.sum(a, "i") + cd.sum(b, "j"))),
)  # fmt: skip
