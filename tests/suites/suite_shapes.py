"""Broadcast, transpose, reshape, split, concatenation and parts of axes."""

from __future__ import annotations

from rewrites import Suite

import catdiag as cd

SUITE = Suite("shapes")
R, E, C = cd.rearrange, cd.einsum, cd.concat


def part(array, axis, k):
    """Part number k of an array over a sum of axes."""
    return cd.split(array, axis)[k]


SUITE.same(
    "a b c -> a b c",
    ("transpose of a transpose", lambda x: R(R(x, "a b c -> c b a"), "c b a -> a b c"), lambda x: x),
    ("three cyclic transposes", lambda x: R(R(R(x, "a b c -> b c a"), "b c a -> c a b"), "c a b -> a b c"),
     lambda x: x),
    ("function of a transpose", lambda x: R(cd.exp(R(x, "a b c -> c a b")), "c a b -> a b c"), lambda x: cd.exp(x)),
    ("reshape of a reshape", lambda x: R(R(R(x, "a b c -> (a b c)"), "(a b c) -> a b c"), "a b c -> a b c"),
     lambda x: x),
    ("reshape there and back", lambda x: R(R(x, "a b c -> (a b) c"), "(a b) c -> a b c"), lambda x: x),
    ("function under a reshape", lambda x: R(cd.tanh(R(x, "a b c -> (a b) c")), "(a b) c -> a b c"),
     lambda x: cd.tanh(x)),
    ("shifts under a reshape", lambda x: R(R(x, "a b c -> (a b c)") + 1, "(a b c) -> a b c") - 1, lambda x: x),
    ("reshape then transpose then reshape", lambda x: R(R(R(x, "a b c -> (b c) a"), "(b c) a -> a b c") * 2,
                                                       "a b c -> a b c"), lambda x: x + x),
)  # fmt: skip

SUITE.same(
    "a b c -> (a b c)",
    ("merged in two steps", lambda x: R(x, "a b c -> (a b c)"),
     lambda x: R(R(R(x, "a b c -> (a b) c"), "(a b) c -> a b c"), "a b c -> (a b c)")),
    ("merged after a transpose", lambda x: R(x, "a b c -> (a b c)"),
     lambda x: R(R(x, "a b c -> c b a"), "c b a -> (a b c)")),
    ("scaled before and after merging", lambda x: R(3 * x, "a b c -> (a b c)"), lambda x: 3 * R(x, "a b c -> (a b c)")),
    ("product of merged arrays", lambda x: R(x, "a b c -> (a b c)") * R(cd.exp(x), "a b c -> (a b c)"),
     lambda x: R(x * cd.exp(x), "a b c -> (a b c)")),
)  # fmt: skip

SUITE.same(
    "(a b) c -> c (b a)",
    ("space to depth and a transpose", lambda x: R(x, "(a b) c -> c (b a)"),
     lambda x: R(R(R(x, "(a b) c -> a b c"), "a b c -> b a c"), "b a c -> c (b a)")),
    ("through a common merged axis", lambda x: R(x, "(a b) c -> c (b a)"),
     lambda x: R(R(R(x, "(a b) c -> (c a b)"), "(c a b) -> c b a"), "c b a -> c (b a)")),
)  # fmt: skip

SUITE.same(
    "q x, x -> x q",
    ("binary function moves out of a transpose", lambda x, y: R(x, "q x -> x q") + y,
     lambda x, y: R(x + y, "q x -> x q")),
    ("transposed product with a bias", lambda x, y: R(x * y, "q x -> x q"), lambda x, y: y * R(x, "q x -> x q")),
)  # fmt: skip

SUITE.same(
    "x, q -> q x",
    ("function of a broadcast", lambda x, y: cd.exp(x + 0 * y), lambda x, y: cd.exp(x) + 0 * y),
    ("broadcast sum", lambda x, y: x + y, lambda x, y: (0 * y + x) + (0 * x + y)),
    ("broadcast product in two steps", lambda x, y: x * y, lambda x, y: (x * cd.index("q") ** 0) * y),
    ("product of broadcasts", lambda x, y: (x + 0 * y) * (y + 0 * x), lambda x, y: E("x, q -> q x", x, y)),
    ("maximum of broadcasts", lambda x, y: cd.maximum(x + 0 * y, 2 * y - y), lambda x, y: cd.maximum(y, x)),
    ("selection of broadcasts", lambda x, y: cd.where(x > y, x, y), lambda x, y: cd.maximum(x, y)),
)  # fmt: skip

SUITE.same(
    "x, y, z -> x+y+z",
    ("concatenation associates", lambda a, b, c: C([a, b, c], "x+y+z"),
     lambda a, b, c: C([part(C([a, b, c], "x+y+z"), "x+y+z", k) for k in range(3)], "x+y+z")),
    ("function of a concatenation", lambda a, b, c: cd.exp(C([a, b, c], "x+y+z")),
     lambda a, b, c: C([cd.exp(a), cd.exp(b), cd.exp(c)], "x+y+z")),
    ("sum of concatenations", lambda a, b, c: C([a, b, c], "x+y+z") + C([2 * a, b, -c], "x+y+z"),
     lambda a, b, c: C([3 * a, 2 * b, 0 * c], "x+y+z")),
    ("product of concatenations", lambda a, b, c: C([a, b, c], "x+y+z") * C([a, b, c], "x+y+z"),
     lambda a, b, c: C([a * a, b * b, c * c], "x+y+z")),
    ("rectifier of a concatenation", lambda a, b, c: cd.maximum(C([a, b, c], "x+y+z"), 0),
     lambda a, b, c: C([cd.maximum(a, 0), cd.maximum(b, 0), cd.maximum(c, 0)], "x+y+z")),
    ("unknown function of a concatenation", lambda a, b, c: cd.apply("f", C([a, b, c], "x+y+z")),
     lambda a, b, c: C([cd.apply("f", a), cd.apply("f", b), cd.apply("f", c)], "x+y+z")),
    ("scaled by a constant", lambda a, b, c: C([2 * a, 2 * b, 2 * c], "x+y+z"),
     lambda a, b, c: 2 * C([a, b, c], "x+y+z")),
)  # fmt: skip

SUITE.same(
    "x, y, z -> y",
    ("part of a concatenation", lambda a, b, c: part(C([a, b, c], "x+y+z"), "x+y+z", 1), lambda a, b, c: b),
    ("part of a function of a concatenation", lambda a, b, c: part(cd.exp(C([a, b, c], "x+y+z")), "x+y+z", 1),
     lambda a, b, c: cd.exp(b)),
    ("part of a sum of concatenations", lambda a, b, c: part(C([a, b], "x+y") + C([a, 3 * b], "x+y"), "x+y", 1),
     lambda a, b, c: 4 * b),
    ("named part of a concatenation", lambda a, b, c: cd.slice(C([c, b, a], "z+y+x"), "z+y+x", "y"), lambda a, b, c: b),
)  # fmt: skip

SUITE.same(
    "x+y d -> x+y d",
    ("concatenation of the parts", lambda a: a, lambda a: C(cd.split(a, "x+y"), "x+y")),
    ("function of the parts", lambda a: cd.tanh(a), lambda a: C([cd.tanh(p) for p in cd.split(a, "x+y")], "x+y")),
    ("parts through a transpose", lambda a: a,
     lambda a: R(C(cd.split(R(a, "x+y d -> d x+y"), "x+y"), "x+y"), "d x+y -> x+y d")),
    ("parts with different functions", lambda a: C([part(a, "x+y", 0), 2 * part(a, "x+y", 1)], "x+y"),
     lambda a: a + C([0 * part(a, "x+y", 0), part(a, "x+y", 1)], "x+y")),
    ("normalised along another axis", lambda a: cd.softmax(a, "d"),
     lambda a: C([cd.softmax(p, "d") for p in cd.split(a, "x+y")], "x+y")),
    ("positions in parts", lambda a: a * cd.where(cd.index("x+y") < cd.size("x"), 1, 0),
     lambda a: C([part(a, "x+y", 0), 0 * part(a, "x+y", 1)], "x+y")),
)  # fmt: skip

SUITE.same(
    "x x2=x, d -> x x2=x",
    ("transpose of a sum with its transpose", lambda a, d: a + a.rename(x="x2", x2="x"),
     lambda a, d: (a + a.rename(x="x2", x2="x")).rename(x="x2", x2="x")),
    ("diagonal mask is symmetric", lambda a, d: cd.where(cd.index("x") == cd.index("x2"), a, 0),
     lambda a, d: cd.where(cd.index("x2") == cd.index("x"), a.rename(x="x2", x2="x"), 0)),
    ("lower and upper triangle", lambda a, d: a,
     lambda a, d: cd.where(cd.index("x") <= cd.index("x2"), a, 0) + cd.where(cd.index("x") > cd.index("x2"), a, 0)),
    ("transposed mask", lambda a, d: cd.where(cd.index("x") <= cd.index("x2"), a, 0).rename(x="x2", x2="x"),
     lambda a, d: cd.where(cd.index("x2") <= cd.index("x"), a.rename(x="x2", x2="x"), 0)),
    ("band of two triangles",
     lambda a, d: cd.where((cd.index("x") <= cd.index("x2") + 1) & (cd.index("x2") <= cd.index("x") + 1), a, 0),
     lambda a, d: cd.where(cd.abs(cd.index("x") - cd.index("x2")) <= 1, a, 0)),
)  # fmt: skip

SUITE.same(
    "x -> x",
    ("positions are natural", lambda a: cd.maximum(cd.index("x"), 0) * a, lambda a: cd.index("x") * a),
    ("positions are below the size", lambda a: cd.where(cd.index("x") < cd.size("x"), a, 0), lambda a: a),
    ("a mask that nothing meets", lambda a: cd.where(cd.index("x") >= cd.size("x"), a, 0), lambda a: 0 * a),
    ("positions counted from the end", lambda a: cd.where(cd.size("x") - cd.index("x") >= 1, a, 0), lambda a: a),
    ("integers above nothing are at least one", lambda a: cd.where(cd.index("x") > 0, a, 0),
     lambda a: cd.where(cd.index("x") >= 1, a, 0)),
    ("no integer between", lambda a: cd.where(2 * cd.index("x") > 1, a, 0),
     lambda a: cd.where(cd.index("x") > 0, a, 0)),
    ("even and odd exclude each other", lambda a: cd.where(2 * cd.index("x") == 3, a, 0), lambda a: 0 * a),
    ("size is at least one", lambda a: a * cd.maximum(cd.size("x"), 1), lambda a: a * cd.size("x")),
    ("mean by the size", lambda a: a / cd.size("x") * cd.size("x"), lambda a: a),
)  # fmt: skip

SUITE.same(
    "(b g) -> (b g)",
    ("split and merged", lambda a: a, lambda a: R(R(a, "(b g) -> b g"), "b g -> (b g)")),
    ("position in a split axis", lambda a: a * cd.index("(b g)"),
     lambda a: R(R(a, "(b g) -> b g") * (cd.index("b") * cd.size("g") + cd.index("g")), "b g -> (b g)")),
    ("size of a product", lambda a: a * cd.size("(b g)"), lambda a: a * cd.size("b") * cd.size("g")),
    ("transposed and back", lambda a: cd.exp(a),
     lambda a: R(R(R(cd.exp(a), "(b g) -> b g"), "b g -> (g b)"), "(g b) -> (b g)")),
    ("shuffle of channels twice", lambda a: 2 * a,
     lambda a: R(2 * R(R(a, "(b g) -> g b"), "g b -> b g"), "b g -> (b g)")),
)  # fmt: skip

SUITE.same(
    "2 x -> (2 x)",
    ("merged with an integer", lambda a: R(a, "2 x -> (2 x)"), lambda a: R(R(a, "2 x -> x 2"), "x 2 -> (2 x)")),
)  # fmt: skip
SUITE.same(
    "x -> x 1",
    ("unit axis moved", lambda a: R(R(a, "x -> 1 x"), "1 x -> x 1"), lambda a: R(a, "x -> x 1")),
    ("unit axis merged and split", lambda a: R(R(a, "x -> (x 1)"), "(x 1) -> x 1"), lambda a: R(a, "x -> x 1")),
    ("function of a unit axis", lambda a: cd.exp(R(a, "x -> x 1")), lambda a: R(cd.exp(a), "x -> x 1")),
)  # fmt: skip

SUITE.differ(
    "b g -> b g",
    ("positions exchanged", lambda a: a * cd.index("b"), lambda a: a * cd.index("g")),
    ("sizes exchanged", lambda a: a * cd.size("b"), lambda a: a * cd.size("g")),
    ("split off by one", lambda a: a * cd.index("b"), lambda a: a * (cd.index("b") + 1)),
    ("strict mask for a loose one", lambda a: cd.where(cd.index("b") < cd.index("g"), a, 0),
     lambda a: cd.where(cd.index("b") <= cd.index("g"), a, 0)),
    ("mask turned round", lambda a: cd.where(cd.index("b") <= cd.index("g"), a, 0),
     lambda a: cd.where(cd.index("g") <= cd.index("b"), a, 0)),
    ("last position left out", lambda a: cd.where(cd.index("b") < cd.size("b") - 1, a, 0), lambda a: a),
    ("first position left out", lambda a: cd.where(cd.index("b") > 0, a, 0), lambda a: a),
    ("size of one", lambda a: a * cd.size("b"), lambda a: a),
    ("positions are all zero", lambda a: a * cd.index("b"), lambda a: 0 * a),
)  # fmt: skip

SUITE.differ(
    "b g -> (b g)",
    ("the other layout with positions", lambda a: R(a, "b g -> (b g)") * cd.index("(b g)"),
     lambda a: R(a * (cd.index("g") * cd.size("b") + cd.index("b")), "b g -> (b g)")),
    ("position of the slow index only", lambda a: R(a, "b g -> (b g)") * cd.index("(b g)"),
     lambda a: R(a * (cd.index("b") * cd.size("g")), "b g -> (b g)")),
    ("scaled by the wrong size", lambda a: R(a, "b g -> (b g)") * cd.index("(b g)"),
     lambda a: R(a * (cd.index("b") * cd.size("b") + cd.index("g")), "b g -> (b g)")),
)  # fmt: skip

SUITE.differ(
    "x x2=x -> x x2=x",
    ("transpose of anything", lambda a: a, lambda a: a.rename(x="x2", x2="x")),
    ("symmetric part for the whole", lambda a: a, lambda a: (a + a.rename(x="x2", x2="x")) / 2),
    ("triangle for the whole", lambda a: a, lambda a: cd.where(cd.index("x") <= cd.index("x2"), a, 0)),
    ("triangles without the diagonal", lambda a: a,
     lambda a: cd.where(cd.index("x") < cd.index("x2"), a, 0) + cd.where(cd.index("x") > cd.index("x2"), a, 0)),
    ("triangles with the diagonal twice", lambda a: a,
     lambda a: cd.where(cd.index("x") <= cd.index("x2"), a, 0) + cd.where(cd.index("x") >= cd.index("x2"), a, 0)),
)  # fmt: skip

SUITE.differ(
    "x, x -> x+x",
    ("concatenation commutes", lambda a, b: C([a, b], "x+x"), lambda a, b: C([b, a], "x+x")),
    ("one part twice", lambda a, b: C([a, b], "x+x"), lambda a, b: C([a, a], "x+x")),
    ("sum of one part only", lambda a, b: C([a + b, b], "x+x"), lambda a, b: C([a, b], "x+x") + C([b, b], "x+x")),
)  # fmt: skip
SUITE.differ(
    "x+y -> x+y",
    ("mask of the wrong part", lambda a: C([part(a, "x+y", 0), 0 * part(a, "x+y", 1)], "x+y"),
     lambda a: a * cd.where(cd.index("x+y") < cd.size("y"), 1, 0)),
    ("mask one too far", lambda a: C([part(a, "x+y", 0), 0 * part(a, "x+y", 1)], "x+y"),
     lambda a: a * cd.where(cd.index("x+y") <= cd.size("x"), 1, 0)),
    ("positions restart in a part", lambda a: a * cd.index("x+y"),
     lambda a: C([part(a, "x+y", 0) * cd.index("x"), part(a, "x+y", 1) * cd.index("y")], "x+y")),
)  # fmt: skip

SUITE.refused(
    "b g -> (b g)",
    ("reshape to the other layout", lambda a: R(a, "b g -> (b g)"), lambda a: R(a, "b g -> (g b)")),
    ("an axis that is not there", lambda a: R(a, "b g -> (b g)"), lambda a: R(a, "b g -> (b h)")),
    ("an axis lost", lambda a: R(a, "b g -> (b g)"), lambda a: R(a, "b g -> b")),
)  # fmt: skip
SUITE.refused(
    "x, y -> x+y",
    ("concatenated the other way round", lambda a, b: C([a, b], "x+y"), lambda a, b: C([b, a], "x+y")),
    ("concatenated along one axis", lambda a, b: C([a, b], "x+y"), lambda a, b: C([a, b], "x+x")),
)  # fmt: skip
