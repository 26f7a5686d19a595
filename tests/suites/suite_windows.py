"""Convolutions and pooling as windows: linearity, matrix products, strides, pads, merged and split kernels."""

from __future__ import annotations

from rewrites import Suite

import catdiag as cd

SUITE = Suite("windows")
R, E, C, W, INDEX = cd.rearrange, cd.einsum, cd.concat, cd.where, cd.index


def conv(a, w, stride=1, dilation=1, pad=(0, 0)):
    """Channels c of positions x over kernel positions k, into channels j over y."""
    size = next(axis for axis in w.axes if axis.startswith("k"))
    taken = cd.window(a, "x", f"y {size}", stride, dilation, pad)
    return E(f"{' '.join(taken.axes)}, {' '.join(w.axes)} -> y j", taken, w)


def near(a, axes="y k=3", **options):
    """Windows of three positions."""
    return cd.window(a, "x", axes, **options)


SUITE.same(
    "x c, k c j, k c j -> y j",
    ("convolution is linear in its weights", lambda a, v, w: conv(a, v + w), lambda a, v, w: conv(a, v) + conv(a, w)),
    ("convolution scales", lambda a, v, w: conv(3 * a, v), lambda a, v, w: conv(a, 3 * v)),
    ("convolution of the opposite", lambda a, v, w: conv(-a, w), lambda a, v, w: -conv(a, w)),
    ("convolution as a matrix product", lambda a, v, w: conv(a, w),
     lambda a, v, w: E("y (k c), (k c) j -> y j", R(cd.window(a, "x", "y k"), "y k c -> y (k c)"),
      R(w, "k c j -> (k c) j"))),
    ("convolution as a matrix product in the other layout", lambda a, v, w: conv(a, w),
     lambda a, v, w: E("y (c k), (c k) j -> y j", R(cd.window(a, "x", "y k"), "y k c -> y (c k)"),
      R(w, "k c j -> (c k) j"))),
    ("convolution as a sum of products over shifts", lambda a, v, w: conv(a, w),
     lambda a, v, w: cd.sum(E("y k c, k c j -> y k j", cd.window(a, "x", "y k"), w), "k")),
    ("strided convolution is linear", lambda a, v, w: conv(a, v, 2) - conv(a, w, 2), lambda a, v, w: conv(a, v - w, 2)),
    ("convolution at a stride as a matrix product", lambda a, v, w: conv(a, w, 2),
     lambda a, v, w: E("y (k c), (k c) j -> y j", R(cd.window(a, "x", "y k", 2), "y k c -> y (k c)"),
      R(w, "k c j -> (k c) j"))),
    ("convolution with a turned kernel",
     lambda a, v, w: E("y k c, k c j -> y j", cd.reindex(a, "y k", x=lambda y, k: y + cd.size("k") - 1 - k), w),
     lambda a, v, w: conv(a, cd.reverse(w, "k"))),
    ("dilated convolution scales", lambda a, v, w: conv(2 * a, w, 1, 2), lambda a, v, w: 2 * conv(a, w, 1, 2)),
    ("gradient with respect to the weights is a sum of windows",
     lambda a, v, w: E("y k c, k c j -> y j", cd.window(a, "x", "y k"), w * w), lambda a, v, w: conv(a, w**2)),
)  # fmt: skip
SUITE.same(
    "x c, x c, k c j -> y j",
    ("convolution is linear in its input", lambda a, b, w: conv(a + b, w), lambda a, b, w: conv(a, w) + conv(b, w)),
    ("padded convolution is linear in its input", lambda a, b, w: conv(a + b, w, pad=(1, 1)),
     lambda a, b, w: conv(a, w, pad=(1, 1)) + conv(b, w, pad=(1, 1))),
    ("difference of padded convolutions", lambda a, b, w: conv(a, w, 2, 1, (1, 1)) - conv(b, w, 2, 1, (1, 1)),
     lambda a, b, w: conv(a - b, w, 2, 1, (1, 1))),
)  # fmt: skip
SUITE.same(
    "x c, k c j, j, j -> y j",
    ("normalisation folded into a convolution", lambda a, w, s, b: (conv(a, w) - b) / cd.exp(s),
     lambda a, w, s, b: conv(a, w / cd.exp(s)) - b / cd.exp(s)),
    ("scale folded into a padded convolution", lambda a, w, s, b: conv(a, w, pad=(1, 1)) * s + b,
     lambda a, w, s, b: conv(a, w * s, pad=(1, 1)) + b),
    ("bias added before or after", lambda a, w, s, b: conv(a, w) + (s + b), lambda a, w, s, b: (conv(a, w) + b) + s),
)  # fmt: skip
SUITE.same(
    "x c, x e, k c j, k e j -> y j",
    ("convolution over joined channels", lambda a, b, v, w: conv(a, v) + conv(b, w),
     lambda a, b, v, w: E("y k c+e, k c+e j -> y j", cd.window(C([a, b], "c+e"), "x", "y k"), C([v, w], "c+e"))),
)  # fmt: skip
SUITE.same(
    "x c, k c j, k c i -> y i+j",
    ("convolutions side by side",
     lambda a, v, w: C([E("y k c, k c i -> y i", cd.window(a, "x", "y k"), w), conv(a, v)], "i+j"),
     lambda a, v, w: E("y k c, k c i+j -> y i+j", cd.window(a, "x", "y k"), C([w, v], "i+j"))),
)  # fmt: skip
SUITE.same(
    "x c, c j, j i, k j i2=i -> y i",
    ("pointwise convolution before a convolution",
     lambda a, u, v, w: E("y k j, k j i -> y i", cd.window(E("x c, c j -> x j", a, u), "x", "y k"), w.rename(i2="i")),
     lambda a, u, v, w: E("y k c, k c i -> y i", cd.window(a, "x", "y k"),
      E("c j, k j i -> k c i", u, w.rename(i2="i")))),
)  # fmt: skip
SUITE.same(
    "x c, 1 c j -> x j",
    ("kernel of one as a pointwise convolution",
     lambda a, w: E("y 1 c, 1 c j -> y j", cd.window(a, "x", "y=x 1"), w).rename(y="x"),
     lambda a, w: E("x c, c j -> x j", a, cd.sum(w, "1"))),
)  # fmt: skip
SUITE.same(
    "x, 3 -> y",
    ("kernel of three as three reads", lambda a, w: E("y k, k -> y", near(a), w.rename(**{"3": "k"})),
     lambda a, w: cd.reindex(a, "y", x=lambda y: y) * cd.reindex(w, "", **{"3": lambda: 0})
      + cd.reindex(a, "y", x=lambda y: y + 1) * cd.reindex(w, "", **{"3": lambda: 1})
     + cd.reindex(a, "y", x=lambda y: y + 2) * cd.reindex(w, "", **{"3": lambda: 2})),
    ("turned kernel of three", lambda a, w: E("y k, k -> y", near(a), cd.reverse(w, "3").rename(**{"3": "k"})),
     lambda a, w: E("y k, k -> y", cd.reindex(a, "y k=3", x=lambda y, k: y + 2 - k), w.rename(**{"3": "k"}))),
)  # fmt: skip
SUITE.same(
    "x -> y",
    ("mean over windows as a convolution", lambda a: cd.mean(near(a), "k"), lambda a: cd.sum(near(a) / 3, "k")),
    ("mean over windows as an average of reads", lambda a: cd.mean(near(a, "y k=2"), "k"),
     lambda a: (cd.reindex(a, "y", x=lambda y: y) + cd.reindex(a, "y", x=lambda y: y + 1)) / 2),
    ("maximum over windows as a maximum of reads", lambda a: cd.max(near(a, "y k=2"), "k"),
     lambda a: cd.maximum(cd.reindex(a, "y", x=lambda y: y), cd.reindex(a, "y", x=lambda y: y + 1))),
    ("function of windows", lambda a: cd.sum(cd.exp(near(a)), "k"), lambda a: cd.sum(near(cd.exp(a)), "k")),
    ("maximum over windows of a rectifier", lambda a: cd.max(near(cd.maximum(a, 0)), "k"),
     lambda a: cd.maximum(cd.max(near(a), "k"), 0)),
    ("maximum over windows of an exponential", lambda a: cd.max(near(cd.exp(a)), "k"),
     lambda a: cd.exp(cd.max(near(a), "k"))),
    ("maximum over windows of a shift", lambda a: cd.max(near(a + 5), "k"), lambda a: cd.max(near(a), "k") + 5),
    ("minimum over windows", lambda a: cd.min(near(a), "k"), lambda a: -cd.max(near(-a), "k")),
    ("mean over windows of a scale", lambda a: cd.mean(near(2 * a), "k"), lambda a: 2 * cd.mean(near(a), "k")),
    ("mean over padded windows", lambda a: cd.mean(near(a, pad=(1, 1)), "k"),
     lambda a: cd.sum(near(a, pad=(1, 1)), "k") / 3),
    ("windows of windows add up", lambda a: cd.sum(cd.window(cd.sum(near(a, "z k=2"), "k"), "z", "y m=2"), "m"),
     lambda a: cd.reindex(a, "y", x=lambda y: y) + 2 * cd.reindex(a, "y", x=lambda y: y + 1)
      + cd.reindex(a, "y", x=lambda y: y + 2)),
    ("padded windows as masked reads", lambda a: cd.sum(near(a, "y k=2", pad=(1, 0)), "k"),
     lambda a: W(INDEX("y") >= 1, cd.reindex(a, "y", x=lambda y: y - 1, fill=0), 0)
      + cd.reindex(a, "y", x=lambda y: y, fill=0)),
    ("dilated windows as reads", lambda a: cd.sum(near(a, "y k=2", dilation=3), "k"),
     lambda a: cd.reindex(a, "y", x=lambda y: y) + cd.reindex(a, "y", x=lambda y: y + 3)),
    ("strided windows as reads", lambda a: cd.sum(near(a, "y k=2", stride=2), "k"),
     lambda a: cd.stride(a, "x", "y", 2) + cd.stride(a, "x", "y", 2, start=1)),
)  # fmt: skip
SUITE.same(
    "x -> y",
    ("padded windows as windows of a pad", lambda a: cd.sum(near(a, pad=(1, 1)), "k"),
     lambda a: cd.sum(cd.window(cd.pad(a, "x", 1, 1), "1+x+1", "y k=3"), "k")),
)  # fmt: skip
SUITE.same(
    "(y 2) -> y",
    ("pooling of pairs as a split", lambda a: cd.max(cd.window(a, "(y 2)", "y k=2", stride=2), "k"),
     lambda a: cd.max(R(a, "(y 2) -> y 2"), "2")),
    ("mean of pairs as a split", lambda a: cd.mean(cd.window(a, "(y 2)", "y k=2", stride=2), "k"),
     lambda a: cd.mean(R(a, "(y 2) -> y 2"), "2")),
)  # fmt: skip
SUITE.same(
    "(y k) -> y",
    ("pooling of whole blocks", lambda a: cd.sum(cd.window(a, "(y k)", "y k", stride="k"), "k"),
     lambda a: cd.sum(R(a, "(y k) -> y k"), "k")),
    ("maximum of whole blocks", lambda a: cd.max(cd.window(a, "(y k)", "y k", stride="k"), "k"),
     lambda a: cd.max(R(a, "(y k) -> y k"), "k")),
)  # fmt: skip
SUITE.same(
    "(y n=2 m=2) -> y",
    ("pooling of pairs twice", lambda a: cd.max(cd.max(R(a, "(y n m) -> y n m"), "m"), "n"),
     lambda a: cd.max(cd.window(a, "(y n m)", "y k=4", stride=4), "k")),
    ("pooling of windows of windows",
     lambda a: cd.max(cd.window(cd.max(cd.window(a, "(y n m)", "(y n) m", stride=2), "m"), "(y n)", "y n", stride=2),
      "n"),
     lambda a: cd.max(cd.window(a, "(y n m)", "y k=4", stride=4), "k")),
)  # fmt: skip
SUITE.same(
    "h w c, p q c j -> y z j",
    ("two-dimensional convolution as a matrix product",
     lambda a, f: E("y p z q c, p q c j -> y z j", cd.window(cd.window(a, "h", "y p"), "w", "z q"), f),
     lambda a, f: E("y z (p q c), (p q c) j -> y z j",
      R(cd.window(cd.window(a, "h", "y p"), "w", "z q"), "y p z q c -> y z (p q c)"), R(f, "p q c j -> (p q c) j"))),
    ("windows of two axes in either order",
     lambda a, f: E("y p z q c, p q c j -> y z j", cd.window(cd.window(a, "h", "y p"), "w", "z q"), f),
     lambda a, f: E("y p z q c, p q c j -> y z j", cd.window(cd.window(a, "w", "z q"), "h", "y p"), f)),
    ("padded two-dimensional convolution scales",
     lambda a, f: E("y p z q c, p q c j -> y z j",
      cd.window(cd.window(2 * a, "h", "y p", pad=(1, 1)), "w", "z q"), f),
     lambda a, f: 2 * E("y p z q c, p q c j -> y z j",
      cd.window(cd.window(a, "w", "z q"), "h", "y p", pad=(1, 1)), f)),
)  # fmt: skip
SUITE.same(
    "h w, p, q -> y z",
    ("separable convolution in two passes",
     lambda a, u, v: E("y p z q, p, q -> y z", cd.window(cd.window(a, "h", "y p"), "w", "z q"), u, v),
     lambda a, u, v: E("y z q, q -> y z", cd.window(E("y p w, p -> y w", cd.window(a, "h", "y p"), u), "w", "z q"), v)),
)  # fmt: skip
SUITE.same(
    "x c, k c, c j -> y j",
    ("depthwise, then pointwise",
     lambda a, u, v: E("y c, c j -> y j", E("y k c, k c -> y c", cd.window(a, "x", "y k"), u), v),
     lambda a, u, v: conv(a, u * v)),
)  # fmt: skip
SUITE.same(
    "x g c, k g c j -> y g j",
    ("grouped convolution as a merged one", lambda a, w: E("y k g c, k g c j -> y g j", cd.window(a, "x", "y k"), w),
     lambda a, w: E("y (k c) g, (k c) g j -> y g j", R(cd.window(a, "x", "y k"), "y k g c -> y (k c) g"),
      R(w, "k g c j -> (k c) g j"))),
)  # fmt: skip

SUITE.differ(
    "x c, k=3 c j, k=3 c j -> y j",
    ("convolution commutes with a rectifier", lambda a, v, w: conv(cd.maximum(a, 0), v),
     lambda a, v, w: cd.maximum(conv(a, v), 0)),
    ("convolution for correlation", lambda a, v, w: conv(a, w), lambda a, v, w: conv(a, cd.reverse(w, "k"))),
    ("convolution of a product", lambda a, v, w: conv(a, v * w), lambda a, v, w: conv(a, v) * conv(a, w)),
    ("pad at one end", lambda a, v, w: conv(a, w, pad=(1, 1)), lambda a, v, w: conv(a, w, pad=(2, 0))),
    ("bias under the pad", lambda a, v, w: conv(a + 1, w, pad=(1, 1)),
     lambda a, v, w: conv(a, w, pad=(1, 1)) + cd.sum(w, "k c")),
    ("layout of the matrix product exchanged", lambda a, v, w: conv(a, w),
     lambda a, v, w: E("y (k c), (k c) j -> y j", R(cd.window(a, "x", "y k=3"), "y k c -> y (k c)"),
      cd.reverse(R(w, "k c j -> (k c) j"), "(k c)"))),
)  # fmt: skip
SUITE.differ(
    "x -> y",
    ("mean over windows of a square", lambda a: cd.mean(near(a * a), "k"), lambda a: cd.mean(near(a), "k") ** 2),
    ("maximum over windows for a mean", lambda a: cd.max(near(a), "k"), lambda a: cd.mean(near(a), "k")),
    ("maximum over windows of the opposite", lambda a: cd.max(near(-a), "k"), lambda a: -cd.max(near(a), "k")),
    ("maximum over windows of an absolute value", lambda a: cd.max(near(cd.abs(a)), "k"),
     lambda a: cd.abs(cd.max(near(a), "k"))),
    ("maximum over padded windows without the pad", lambda a: cd.max(near(a, "y k=2", pad=(1, 0)), "k"),
     lambda a: cd.reindex(a, "y", x=lambda y: y, fill=0)),
    ("mean over padded windows by what is inside", lambda a: cd.sum(near(a, "y k=2", pad=(1, 0)), "k") / 2,
     lambda a: cd.sum(near(a, "y k=2", pad=(1, 0)), "k") / W(INDEX("y") >= 1, 2, 1)),
    ("windows of windows as one", lambda a: cd.sum(cd.window(cd.sum(near(a, "z k=2"), "k"), "z", "y m=2"), "m"),
     lambda a: cd.sum(near(a), "k")),
    ("dilation for stride", lambda a: cd.sum(near(a, "y k=2", dilation=2, pad=(1, 1)), "k"),
     lambda a: cd.sum(near(a, "y k=2", stride=2, pad=(1, 1)), "k")),
    ("stride left out", lambda a: cd.sum(near(a, "y k=2", stride=2, pad=(1, 1)), "k"),
     lambda a: cd.sum(near(a, "y k=2", pad=(1, 1)), "k")),
    ("windows one further", lambda a: cd.sum(near(a, "y k=2", pad=(1, 1)), "k"),
     lambda a: cd.sum(near(a, "y k=2", pad=(0, 2)), "k")),
    ("kernel of two for three", lambda a: cd.sum(near(a, "y k=2", pad=(1, 1)), "k"),
     lambda a: cd.sum(near(a, "y k=3", pad=(1, 1)), "k")),
)  # fmt: skip
SUITE.differ(
    "(y 2) -> y",
    ("pooling of overlapping pairs", lambda a: cd.max(cd.window(a, "(y 2)", "y k=2", stride=2), "k"),
     lambda a: cd.max(cd.window(a, "(y 2)", "y k=2"), "k")),
    ("mean of pairs as a sum", lambda a: cd.mean(cd.window(a, "(y 2)", "y k=2", stride=2), "k"),
     lambda a: cd.sum(R(a, "(y 2) -> y 2"), "2")),
    ("pairs half an axis apart", lambda a: cd.sum(cd.window(a, "(y 2)", "y k=2", stride=2), "k"),
     lambda a: cd.sum(cd.reindex(a, "y k=2", **{"(y 2)": lambda y, k: y + k * cd.size("y")}), "k")),
)  # fmt: skip
