"""Where no comparison changes between x and x + s·t, maximum, minimum, absolute value, clipping and a choice by a
comparison are linear there: f(x + s·t) = f(x) + s·Df(t)."""

from functools import reduce
from operator import matmul

import catdiag as cd
from catdiag.rewrite.differentiate.derivative_theorems import expansion
from catdiag.solvers.z3 import Z3


def same_order(a, b, t, u, s):
    one, two = a + s * t, b + s * u
    return ((a < b) & (one < two)) | ((b < a) & (two < one))


def same_sign(a, t, s):
    return same_order(0, a, 0, t, s)


def inside_or_outside(a, t, s):
    return same_order(a, 0, t, 0, s) & same_order(a, 1, t, 0, s)


PROGRAMS = [
    (cd.algorithm("x, x y")(lambda a, b: cd.maximum(a, b)), same_order),
    (cd.algorithm("x, x y")(lambda a, b: cd.minimum(a, b)), same_order),
    (cd.algorithm("x")(lambda a: cd.abs(a)), same_sign),
    (cd.algorithm("x")(lambda a: cd.clip(a, 0, 1)), inside_or_outside),
    (cd.algorithm("x, x, x, x")(lambda a, b, c, d: cd.where(a < b, c, d)),
     lambda a, b, c, d, t, u, v, w, s: same_order(a, b, t, u, s)),
]  # fmt: skip

with Z3() as ask:
    PAIRS = [expansion(f.diagram, ask, where=where) for f, where in PROGRAMS]
left, right = (cd.Program(reduce(matmul, sides)) for sides in zip(*PAIRS, strict=True))
