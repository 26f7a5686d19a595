"""The reverse derivatives of index maps are transposes: a split is merged, a part is padded with zeros, a shift is
shifted back, and what is gathered is added where it was read."""

from functools import reduce
from operator import matmul

import catdiag as cd
from catdiag.rewrite.differentiate.derivative_theorems import adjointness
from catdiag.solvers.z3 import Z3

PROGRAMS = [
    cd.algorithm("(b g) d -> d b g")(lambda a: cd.rearrange(a, "(b g) d -> d b g")),
    cd.algorithm("b g d -> d (b g)")(lambda a: cd.rearrange(a, "b g d -> d (b g)")),
    cd.algorithm("x d, y")(lambda a, b: cd.concat([a, b], "x+y")),
    cd.algorithm("x+y")(lambda a: cd.split(a, "x+y")[1]),
    cd.algorithm("x z -> y z")(lambda a: a.rename(x="y")),
    cd.algorithm("x")(lambda a: cd.reverse(a, "x")),
    cd.algorithm("x")(lambda a: cd.shift(a, "x", 2)),
    cd.algorithm("v d, int[t] -> t d")(lambda a, at: cd.gather(a, "v", at)),
]

with Z3() as ask:
    PAIRS = [adjointness(f.diagram, ask) for f in PROGRAMS]
left, right = (cd.Program(reduce(matmul, sides)) for sides in zip(*PAIRS, strict=True))
