"""Where no comparison changes between x and x + s·t, maximum, minimum and absolute value are linear there:
f(x + s·t) = f(x) + s·Df(t)."""

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


PROGRAMS = [
    (cd.algorithm("x, x y")(lambda a, b: cd.maximum(a, b)), same_order),
    (cd.algorithm("x, x y")(lambda a, b: cd.minimum(a, b)), same_order),
    (cd.algorithm("x")(lambda a: cd.abs(a)), same_sign),
]

with Z3() as ask:
    PAIRS = [expansion(f.diagram, ask, where=where) for f, where in PROGRAMS]
left, right = (cd.Program(reduce(matmul, sides)) for sides in zip(*PAIRS, strict=True))
