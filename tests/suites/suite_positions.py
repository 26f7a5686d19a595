"""Integer arithmetic of positions: the rules of loop compilers, as reads at two ways to write one index."""

from __future__ import annotations

from rewrites import Suite

import catdiag as cd

SUITE = Suite("positions")
W, INDEX, MX, MN = cd.where, cd.index, cd.maximum, cd.minimum


def reads(one, other):
    """Two programs that read an array at two positions, 0 outside."""
    return (lambda a: cd.reindex(a, "i j", x=one, fill=0)), (lambda a: cd.reindex(a, "i j", x=other, fill=0))


def n(name):
    """A size."""
    return cd.size(name)


SUITE.same(
    "x -> i j",
    ("terms in another order", *reads(lambda i, j: i + 2 * j + 3, lambda i, j: 3 + j + i + j)),
    ("a quotient of a multiple", *reads(lambda i, j: (4 * i) // 4, lambda i, j: i + 0 * j)),
    ("a quotient of a multiple and less", *reads(lambda i, j: (4 * i + 3) // 4, lambda i, j: i + 0 * j)),
    ("a multiple drawn out of a quotient", *reads(lambda i, j: (4 * i + j) // 4, lambda i, j: i + j // 4)),
    ("a constant drawn out of a quotient", *reads(lambda i, j: (i + 6) // 3 + 0 * j, lambda i, j: i // 3 + 2 + 0 * j)),
    ("quotient of a quotient", *reads(lambda i, j: (i // 2) // 3 + 0 * j, lambda i, j: i // 6 + 0 * j)),
    ("quotient with a common factor", *reads(lambda i, j: (2 * i + 2 * j) // 4, lambda i, j: (i + j) // 2)),
    ("quotient by one", *reads(lambda i, j: i // 1 + j, lambda i, j: i + j)),
    ("remainder of a multiple", *reads(lambda i, j: (4 * i) % 4 + j, lambda i, j: j + 0 * i)),
    ("a multiple dropped from a remainder", *reads(lambda i, j: (4 * i + j) % 4, lambda i, j: j % 4 + 0 * i)),
    ("remainder of a remainder", *reads(lambda i, j: (i % 6) % 3 + j, lambda i, j: i % 3 + j)),
    ("remainder twice", *reads(lambda i, j: (i % 5) % 5 + j, lambda i, j: i % 5 + j)),
    ("quotient of a remainder", *reads(lambda i, j: (i % 5) // 5 + j, lambda i, j: j + 0 * i)),
    ("quotient and remainder put together", *reads(lambda i, j: 5 * (i // 5) + i % 5 + j, lambda i, j: i + j)),
    ("quotient and remainder of two digits", *reads(lambda i, j: (i % 6) // 2 * 2 + i % 2 + j, lambda i, j: i % 6 + j)),
    ("remainder with a common factor", *reads(lambda i, j: (2 * i) % 6 + j, lambda i, j: 2 * (i % 3) + j)),
    ("negative quotient", *reads(lambda i, j: 0 - (0 - i) // 2 + j, lambda i, j: (i + 1) // 2 + j)),
    ("rounded up to a multiple", *reads(lambda i, j: (i + 3) // 4 * 4 + j, lambda i, j: i + (0 - i) % 4 + j)),
    ("sum of two halves", *reads(lambda i, j: i // 2 + (i + 1) // 2 + j, lambda i, j: i + j)),
    ("digits by a size", *reads(lambda i, j: (i * n("j") + j) // n("j") + (i * n("j") + j) % n("j"), lambda i, j: i
     + j)),
    ("quotient by a product of sizes", *reads(lambda i, j: (i // n("j")) // n("x")
     + j, lambda i, j: i // (n("j") * n("x")) + j)),
    ("reversal of a reversal", *reads(lambda i, j: n("x") - 1 - (n("x") - 1 - i) + j, lambda i, j: i + j)),
    ("position less a block's start", *reads(lambda i, j: i - i // 8 * 8 + j, lambda i, j: i % 8 + j)),
)  # fmt: skip
SUITE.same(
    "x -> x",
    ("minimum of shifted positions", lambda a: a * MN(INDEX("x") + 1, INDEX("x") + 3), lambda a: a * (INDEX("x") + 1)),
    ("maximum with what is below", lambda a: a * MX(INDEX("x") - 2, INDEX("x")), lambda a: a * INDEX("x")),
    ("minimum with the size", lambda a: a * MN(INDEX("x"), cd.size("x")), lambda a: a * INDEX("x")),
    ("minimum with the last position", lambda a: a * MN(INDEX("x"), cd.size("x") - 1), lambda a: a * INDEX("x")),
    ("clamped position", lambda a: a * cd.clip(INDEX("x"), 0, cd.size("x") - 1), lambda a: a * INDEX("x")),
    ("comparison moved to one side", lambda a: W(INDEX("x") + 3 < 7, a, 0), lambda a: W(INDEX("x") < 4, a, 0)),
    ("comparison scaled", lambda a: W(3 * INDEX("x") < 12, a, 0), lambda a: W(INDEX("x") < 4, a, 0)),
    ("comparison rounded", lambda a: W(3 * INDEX("x") < 11, a, 0), lambda a: W(INDEX("x") < 4, a, 0)),
    ("quotient compared", lambda a: W(INDEX("x") // 4 < 2, a, 0), lambda a: W(INDEX("x") < 8, a, 0)),
    ("quotient equal to one", lambda a: W(INDEX("x") // 4 == 1, a, 0),
     lambda a: W((INDEX("x") >= 4) & (INDEX("x") < 8), a, 0)),
    ("remainder below its divisor", lambda a: W(INDEX("x") % 4 < 4, a, 0), lambda a: a),
    ("even or odd", lambda a: W(INDEX("x") % 2 == 0, a, 0) + W(INDEX("x") % 2 == 1, a, 0), lambda a: a),
    ("two masks on one position", lambda a: W(INDEX("x") < 3, W(INDEX("x") < 5, a, 7), 0),
     lambda a: W(INDEX("x") < 3, a, 0)),
    ("masks that exclude each other", lambda a: W(INDEX("x") < 3, W(INDEX("x") > 5, a, 0), 0), lambda a: 0 * a),
    ("mask by a difference", lambda a: W(cd.size("x") - INDEX("x") <= 0, a, 5), lambda a: 0 * a + 5),
    ("minimum by cases", lambda a: a * MN(INDEX("x"), 3), lambda a: a * W(INDEX("x") < 3, INDEX("x"), 3)),
    ("sum of a minimum and a maximum", lambda a: a * (MN(INDEX("x"), 3) + MX(INDEX("x"), 3)),
     lambda a: a * (INDEX("x") + 3)),
    ("triangle of positions", lambda a: a * cd.sum(W(INDEX("x") <= 2, 1, 0) + 0 * a, "x") * 0, lambda a: 0 * a),
)  # fmt: skip
SUITE.same(
    "(b g) -> (b g)",
    ("digits of a merged axis", lambda a: a * (INDEX("(b g)") // cd.size("g")),
     lambda a: cd.rearrange(cd.rearrange(a, "(b g) -> b g") * INDEX("b"), "b g -> (b g)")),
    ("low digit of a merged axis", lambda a: a * (INDEX("(b g)") % cd.size("g")),
     lambda a: cd.rearrange(cd.rearrange(a, "(b g) -> b g") * INDEX("g"), "b g -> (b g)")),
    ("block of a mask", lambda a: W(INDEX("(b g)") < cd.size("g"), a, 0),
     lambda a: cd.rearrange(W(INDEX("b") == 0, cd.rearrange(a, "(b g) -> b g"), 0), "b g -> (b g)")),
    ("first block as a read", lambda a: cd.reindex(a, "(b g)", **{"(b g)": lambda i: i % cd.size("g")}),
     lambda a: cd.tile(cd.reindex(a, "g", **{"(b g)": lambda g: g}), "g", "b")),
    ("block repeated", lambda a: cd.reindex(a, "(b g)", **{"(b g)": lambda i: i // cd.size("g") * cd.size("g")}),
     lambda a: cd.repeat(cd.reindex(a, "b", **{"(b g)": lambda b: b * cd.size("g")}), "b", "g")),
)  # fmt: skip

SUITE.differ(
    "x -> i j",
    ("multiple left out", *reads(lambda i, j: (4 * i + j) // 4, lambda i, j: i + 0 * j)),
    ("another quotient of a quotient", *reads(lambda i, j: (i // 2) // 3 + 0 * j, lambda i, j: i // 5 + 0 * j)),
    ("quotient of a sum", *reads(lambda i, j: (i + j) // 2, lambda i, j: i // 2 + j // 2)),
    ("remainder of a sum", *reads(lambda i, j: (i + j) % 2, lambda i, j: i % 2 + j % 2)),
    ("remainder of another multiple", *reads(lambda i, j: (3 * i + j) % 4, lambda i, j: j % 4 + 0 * i)),
    ("quotient of a negation", *reads(lambda i, j: 0 - (0 - i) // 2 + j, lambda i, j: i // 2 + j)),
    ("remainder of a remainder that does not divide", *reads(lambda i, j: (i % 5) % 3 + j, lambda i, j: i % 3 + j)),
    ("digits by another size", *reads(lambda i, j: (i * n("j") + j) // n("i"), lambda i, j: i + 0 * j)),
    ("constant drawn out rounded", *reads(lambda i, j: (i + 5) // 3 + 0 * j, lambda i, j: i // 3 + 1 + 0 * j)),
)  # fmt: skip
SUITE.differ(
    "x -> x",
    ("comparison rounded the wrong way", lambda a: W(3 * INDEX("x") < 11, a, 0), lambda a: W(INDEX("x") < 3, a, 0)),
    ("minimum of shifted positions the wrong way", lambda a: a * MN(INDEX("x") + 1, INDEX("x") + 3),
     lambda a: a * (INDEX("x") + 3)),
    ("quotient compared with its divisor", lambda a: W(INDEX("x") // 2 < 2, a, 0), lambda a: W(INDEX("x") < 2, a, 0)),
    ("clamped one below", lambda a: a * cd.clip(INDEX("x"), 0, cd.size("x") - 2), lambda a: a * INDEX("x")),
    ("remainder is zero", lambda a: W(INDEX("x") % 2 == 0, a, 0), lambda a: a),
    ("masks joined wrongly", lambda a: W(INDEX("x") < 1, W(INDEX("x") < 2, a, 7), 0),
     lambda a: W(INDEX("x") < 2, a, 0)),
)  # fmt: skip
