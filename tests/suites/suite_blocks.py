"""Programs in blocks: prefix sums, chunks under a mask, Kronecker and block products, fast products, folded means."""

from __future__ import annotations

from rewrites import Suite

import catdiag as cd

SUITE = Suite("blocks")
R, E, C, W, INDEX = cd.rearrange, cd.einsum, cd.concat, cd.where, cd.index


def prefix(a, axis="x", other="y"):
    """Sums of all elements up to each one."""
    b = a.rename(**{axis: other})
    return cd.sum(W(INDEX(other) <= INDEX(axis), b, 0), other)


def suffix(a, axis="x", other="y"):
    """Sums of all elements from each one on."""
    b = a.rename(**{axis: other})
    return cd.sum(W(INDEX(other) >= INDEX(axis), b, 0), other)


SUITE.same(
    "x, x, y=x -> x",
    ("prefix sums are linear", lambda a, b, n: prefix(a + 2 * b), lambda a, b, n: prefix(a) + 2 * prefix(b)),
    ("a prefix sum less the one before", lambda a, b, n: prefix(a) - cd.shift(prefix(a), "x", 1), lambda a, b, n: a),
    ("prefix and suffix", lambda a, b, n: prefix(a) + suffix(a), lambda a, b, n: cd.sum(a, "x") + a),
    ("suffix by a reverse", lambda a, b, n: suffix(a), lambda a, b, n: cd.reverse(prefix(cd.reverse(a, "x")), "x")),
    ("last prefix sum", lambda a, b, n: W(INDEX("x") == cd.size("x") - 1, prefix(a), b),
     lambda a, b, n: W(INDEX("x") == cd.size("x") - 1, cd.sum(a, "x"), b)),
    ("first prefix sum", lambda a, b, n: W(INDEX("x") == 0, prefix(a), b), lambda a, b, n: W(INDEX("x") == 0, a, b)),
    ("exclusive prefix sum", lambda a, b, n: prefix(a) - a,
     lambda a, b, n: cd.sum(W(INDEX("y") < INDEX("x"), a.rename(x="y"), 0), "y")),
    ("prefix sum of ones", lambda a, b, n: prefix(0 * a + 1), lambda a, b, n: INDEX("x") + 1 + 0 * a),
    ("prefix maximum of an exponential",
     lambda a, b, n: cd.max(W(INDEX("y") <= INDEX("x"), cd.exp(a.rename(x="y")), 0), "y"),
     lambda a, b, n: cd.exp(cd.max(W(INDEX("y") <= INDEX("x"), a.rename(x="y"), -float("inf")), "y"))),
)  # fmt: skip
SUITE.same(
    "(b g) d, (b g) d, (b g) e -> (b g) e",
    ("causal linear products in chunks",
     lambda q, k, v: (
         (s := E("(b g) d, y d -> (b g) y", q, k.rename(**{"(b g)": "y"}))),
         E("(b g) y, y e -> (b g) e", W(INDEX("y") <= INDEX("(b g)"), s, 0), v.rename(**{"(b g)": "y"})),
     )[-1],
     lambda q, k, v: (
         (p := R(q, "(b g) d -> b g d")),
         (l_ := R(k, "(b g) d -> b g d").rename(b="c", g="h")),
         (w := R(v, "(b g) e -> b g e").rename(b="c", g="h")),
         (state := E("b c, c h d, c h e -> b d e", W(INDEX("c") < INDEX("b"), 1, 0), l_, w)),
         (inside := E("b g h, b h e -> b g e", W(INDEX("h") <= INDEX("g"),
          E("b g d, b h d -> b g h", p, l_.rename(c="b")), 0), w.rename(c="b"))),
         R(E("b g d, b d e -> b g e", p, state) + inside, "b g e -> (b g) e"),
     )[-1]),
)  # fmt: skip
SUITE.same(
    "(b g) -> (b g)",
    ("prefix sums in blocks",
     lambda a: ((r := a.rename(**{"(b g)": "y"})), cd.sum(W(INDEX("y") <= INDEX("(b g)"), r, 0), "y"))[-1],
     lambda a: (
         (s := R(a, "(b g) -> b g")),
         (before := E("c, b c -> b", cd.sum(s, "g").rename(b="c"), W(INDEX("c") < INDEX("b"), 1, 0))),
         (inside := E("b h, g h -> b g", s.rename(g="h"), W(INDEX("h") <= INDEX("g"), 1, 0))),
         R(before + inside, "b g -> (b g)"),
     )[-1]),
)  # fmt: skip
SUITE.same(
    "i k, j l, (k l) -> (i j)",
    ("product with a Kronecker product",
     lambda a, b, x: E("(i j) (k l), (k l) -> (i j)", R(E("i k, j l -> i j k l", a, b), "i j k l -> (i j) (k l)"), x),
     lambda a, b, x: R(E("i k, k j -> i j", a, E("j l, k l -> k j", b, R(x, "(k l) -> k l"))), "i j -> (i j)")),
)  # fmt: skip
SUITE.same(
    "m k, m k, m k, m k, k n, k n, k n, k n -> m n",
    ("seven products for eight, first block",
     lambda a, b, c, d, p, q, r, s: E("m k, k n -> m n", a, p) + E("m k, k n -> m n", b, r),
     lambda a, b, c, d, p, q, r, s: (
         (mm := lambda x, y: E("m k, k n -> m n", x, y)),
         mm(a + d, p + s) + mm(d, r - p) - mm(a + b, s) + mm(b - d, r + s),
     )[-1]),
    ("seven products for eight, last block",
     lambda a, b, c, d, p, q, r, s: E("m k, k n -> m n", c, q) + E("m k, k n -> m n", d, s),
     lambda a, b, c, d, p, q, r, s: (
         (mm := lambda x, y: E("m k, k n -> m n", x, y)),
         mm(a + d, p + s) - mm(c + d, p) + mm(a, q - s) + mm(c - a, p + q),
     )[-1]),
)  # fmt: skip
SUITE.same(
    "x, 3 -> y",
    ("fast convolution of two outputs by four products, the first",
     lambda a, w: E("y k, k -> y", cd.window(a, "x", "y k=3"), w.rename(**{"3": "k"})),
     lambda a, w: (
         (d := [cd.reindex(a, "y", x=lambda y: y), cd.reindex(a, "y", x=lambda y: y + 1),
          cd.reindex(a, "y", x=lambda y: y + 2)]),
         (g := [cd.reindex(w, "", **{"3": k}) for k in range(3)]),
         (d[0] - d[2]) * g[0] + (d[1] + d[2]) * (g[0] + g[1] + g[2]) / 2 + (d[2] - d[1]) * (g[0] - g[1] + g[2]) / 2,
     )[-1]),
)  # fmt: skip
SUITE.same(
    "x c, 1 c j -> x j",
    ("kernel of one enlarged to three",
     lambda a, w: E("x c, c j -> x j", a, cd.sum(w, "1")),
     lambda a, w: E("x k c, k c j -> x j", cd.window(a, "x", "x k=3", pad=(1, 1)),
      cd.reindex(w, "k=3", **{"1": lambda k: k - 1}, fill=0))),
)  # fmt: skip
SUITE.same(
    "x -> y",
    ("sliding sum by its difference", lambda a: cd.sum(cd.reindex(a, "y k=7", x=lambda y, k: y + k + 1, fill=0), "k"),
     lambda a: cd.sum(cd.reindex(a, "y k=7", x=lambda y, k: y + k, fill=0), "k")
      + cd.reindex(a, "y", x=lambda y: y + 7, fill=0) - cd.reindex(a, "y", x=lambda y: y, fill=0)),
)  # fmt: skip
SUITE.same(
    "m k, k n -> m n",
    ("centring folded into the weights", lambda x, w: E("m k, k n -> m n", x - cd.mean(x, "k"), w),
     lambda x, w: E("m k, k n -> m n", x, w - cd.mean(w, "k"))),
    ("layer norm as a norm of centred inputs",
     lambda x, w: E("m k, k n -> m n", (x - cd.mean(x, "k"))
      / cd.sqrt(cd.mean((x - cd.mean(x, "k")) ** 2, "k") + 1), w),
     lambda x, w: (
         (c := x - cd.mean(x, "k")),
         E("m k, k n -> m n", c, w) / cd.sqrt(cd.mean(c * c, "k") + 1),
     )[-1]),
)  # fmt: skip
SUITE.same(
    "q x, x d, -> q d",
    ("linear bias of distances",
     lambda s, v, m: E("q x, x d -> q d", cd.softmax(s - m * (INDEX("q") - INDEX("x")), "x"), v),
     lambda s, v, m: E("q x, x d -> q d", cd.softmax(s + m * INDEX("x"), "x"), v)),
    ("one more score of zero beside the keys",
     lambda s, v, m: E("q x, x d -> q d", cd.exp(s), v) / (1 + cd.sum(cd.exp(s), "x")),
     lambda s, v, m: (
         (t := cd.softmax(C([s, cd.broadcast(0 * cd.sum(s, "x"), "q 1")], "x+1"), "x+1")),
         E("q x, x d -> q d", cd.slice(t, "x+1", "x"), v),
     )[-1]),
    ("causal mask by two masks",
     lambda s, v, m: E("q x, x d -> q d", W(INDEX("x") <= INDEX("q"), W(INDEX("x") + 3 > INDEX("q"), s, 0), 0), v),
     lambda s, v, m: E("q x, x d -> q d", W((INDEX("x") <= INDEX("q")) & (INDEX("q") < INDEX("x") + 3), s, 0), v)),
)  # fmt: skip

SUITE.differ(
    "x, y=x -> x",
    ("exclusive for inclusive prefix", lambda a, n: prefix(a), lambda a, n: prefix(a) - a),
    ("prefix and suffix without the overlap", lambda a, n: prefix(a) + suffix(a), lambda a, n: cd.sum(a, "x") + 0 * a),
    ("prefix of a product", lambda a, n: prefix(a * a), lambda a, n: prefix(a) ** 2),
    ("suffix for prefix", lambda a, n: prefix(a), lambda a, n: suffix(a)),
)  # fmt: skip
SUITE.differ(
    "(b g) -> (b g)",
    ("prefix sums of blocks without what came before",
     lambda a: ((r := a.rename(**{"(b g)": "y"})), cd.sum(W(INDEX("y") <= INDEX("(b g)"), r, 0), "y"))[-1],
     lambda a: (
         (s := R(a, "(b g) -> b g")),
         R(E("b h, g h -> b g", s.rename(g="h"), W(INDEX("h") <= INDEX("g"), 1, 0)), "b g -> (b g)"),
     )[-1]),
    ("prefix sums of blocks with the whole block before",
     lambda a: ((r := a.rename(**{"(b g)": "y"})), cd.sum(W(INDEX("y") <= INDEX("(b g)"), r, 0), "y"))[-1],
     lambda a: (
         (s := R(a, "(b g) -> b g")),
         (before := E("c, b c -> b", cd.sum(s, "g").rename(b="c"), W(INDEX("c") <= INDEX("b"), 1, 0))),
         R(before + E("b h, g h -> b g", s.rename(g="h"), W(INDEX("h") <= INDEX("g"), 1, 0)), "b g -> (b g)"),
     )[-1]),
)  # fmt: skip
SUITE.differ(
    "m k, m k, m k, m k, k n, k n, k n, k n -> m n",
    ("seven products with a wrong sign",
     lambda a, b, c, d, p, q, r, s: E("m k, k n -> m n", a, p) + E("m k, k n -> m n", b, r),
     lambda a, b, c, d, p, q, r, s: (
         (mm := lambda x, y: E("m k, k n -> m n", x, y)),
         mm(a + d, p + s) + mm(d, r - p) + mm(a + b, s) + mm(b - d, r + s),
     )[-1]),
)  # fmt: skip
SUITE.differ(
    "m k, k n -> m n",
    ("centring of the weights along the other axis", lambda x, w: E("m k, k n -> m n", x - cd.mean(x, "k"), w),
     lambda x, w: E("m k, k n -> m n", x, w - cd.mean(w, "n"))),
)  # fmt: skip
SUITE.differ(
    "q x, x d, -> q d",
    ("bias of distances of the queries",
     lambda s, v, m: E("q x, x d -> q d", cd.softmax(s - m * (INDEX("q") - INDEX("x")), "x"), v),
     lambda s, v, m: E("q x, x d -> q d", cd.softmax(s - m * INDEX("x"), "x"), v)),
    ("one more score forgotten", lambda s, v, m: E("q x, x d -> q d", cd.exp(s), v) / (1 + cd.sum(cd.exp(s), "x")),
     lambda s, v, m: E("q x, x d -> q d", cd.softmax(s, "x"), v)),
)  # fmt: skip
