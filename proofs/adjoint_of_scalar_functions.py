"""The reverse derivative of each scalar function is the transpose of its forward derivative: Σ g·Df(t) = Σ R(g)·t."""

from functools import reduce
from operator import matmul

import catdiag as cd
from catdiag.category.diagram import of_box
from catdiag.category.ops import map_box
from catdiag.category.scalars import SCALARS
from catdiag.category.types import ArrayType, Axis
from catdiag.rewrite.differentiate.derivative_theorems import adjointness
from catdiag.solvers.z3 import Z3

# Of two arguments the first lacks an axis of the second, along which its cotangent is summed.
TYPES = [ArrayType((Axis("x"),)), ArrayType((Axis("x"), Axis("y")))]
BOXES = [map_box(fn, TYPES[-arity:]) for fn, (arity, element) in SCALARS.items() if arity < 3 and element != "bool"
         and fn != "floordiv"]  # fmt: skip
BOXES.append(map_box("where", [ArrayType((Axis("y"),), "bool"), *TYPES]))

with Z3() as ask:
    PAIRS = [adjointness(of_box(box), ask) for box in BOXES if box.cod[0].element == "real"]
left, right = (cd.Program(reduce(matmul, sides)) for sides in zip(*PAIRS, strict=True))
