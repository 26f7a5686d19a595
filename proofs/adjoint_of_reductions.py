"""The reverse derivatives of reductions and contractions are transposes: a sum is broadcast, and products are summed
over the other axes; an element of a product has all others as its factor."""

from functools import reduce
from operator import matmul

import catdiag as cd
from catdiag.rewrite.differentiate.derivative_theorems import adjointness
from catdiag.solvers.z3 import Z3

PROGRAMS = [
    cd.algorithm("x y")(lambda a: cd.sum(a, "x")),
    cd.algorithm("x y")(lambda a: cd.prod(a, "x")),
    cd.algorithm("x y")(lambda a: cd.max(a, "x")),
    cd.algorithm("x y")(lambda a: cd.min(a, "x")),
    cd.algorithm("a b, b c")(lambda a, b: cd.einsum("a b, b c -> a c", a, b)),
    cd.algorithm("a b, b c, c d")(lambda a, b, c: cd.einsum("a b, b c, c d -> a d", a, b, c)),
    cd.algorithm("a b, c")(lambda a, b: cd.einsum("a b, c -> b", a, b)),
]

with Z3() as ask:
    PAIRS = [adjointness(f.diagram, ask) for f in PROGRAMS]
left, right = (cd.Program(reduce(matmul, sides)) for sides in zip(*PAIRS, strict=True))
