"""The derivatives of sums, products, quotients and roots are derivatives: f(x) + s·Df(t) + s²·R = f(x + s·t)."""

from functools import reduce
from operator import matmul

import catdiag as cd
from catdiag.rewrite.differentiate.derivative_theorems import expansion
from catdiag.solvers.z3 import Z3


def of_quotient(a, b, t, u, s):
    return -u * (t - a / b * u) / b / (b + s * u)


def of_root(a, t, s):
    """With q = √(a + s·t) and r = √a: q = r + s·t/(2r) − s²·t²/(2r·(q + r)²)."""
    q, r = cd.sqrt(a + s * t), cd.sqrt(a)
    return -t * t / (2 * r) / (q + r) / (q + r)


LINEAR = [
    cd.algorithm("x, x y")(lambda a, b: a + b),
    cd.algorithm("x, x y")(lambda a, b: a - b),
    cd.algorithm("x")(lambda a: -a),
    cd.algorithm("x y")(lambda a: cd.sum(a, "x")),
    cd.algorithm("x")(lambda a: cd.shift(a, "x", 2)),
    cd.algorithm("x")(lambda a: cd.reverse(a, "x")),
    cd.algorithm("v d, int[t] -> t d")(lambda a, at: cd.gather(a, "v", at)),
    cd.algorithm("x, bool[x], x")(lambda a, c, b: cd.where(c, a, b)),
]
WITH_REMAINDERS = [
    (cd.algorithm("x, x y")(lambda a, b: a * b), lambda a, b, t, u, s: t * u),
    (cd.algorithm("x, x y")(lambda a, b: a / b), of_quotient),
    (cd.algorithm("a b, b c")(lambda a, b: cd.einsum("a b, b c -> a c", a, b)),
     lambda a, b, t, u, s: cd.einsum("a b, b c -> a c", t, u)),
    (cd.algorithm("x")(lambda a: cd.sqrt(a)), of_root),
]  # fmt: skip

with Z3() as ask:
    PAIRS = [expansion(f.diagram, ask) for f in LINEAR]
    PAIRS += [expansion(f.diagram, ask, remainder) for f, remainder in WITH_REMAINDERS]
# A quotient and a root have remainders where the divisor and what is under the root are not 0.
right, left = (cd.Program(reduce(matmul, sides)) for sides in zip(*PAIRS, strict=True))
