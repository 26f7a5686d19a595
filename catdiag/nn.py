"""What programs of machine learning are written with: activations, norms and statistics, each made of the basic ones.

>>> import catdiag as cd
>>> gate = cd.algorithm("x, x -> x", name="gate")(lambda a, b: cd.nn.silu(a) * b)
>>> print(gate)
gate: [x] @ [x] → [x]
"""

from __future__ import annotations

from catdiag.frontend.builder import softmax
from catdiag.frontend.elementwise import sigmoid, tanh
from catdiag.frontend.nn import elu, gelu, log_softmax, logsumexp, relu, silu, softplus, var

__all__ = [
    "elu", "gelu", "log_softmax", "logsumexp", "relu", "sigmoid", "silu", "softmax", "softplus", "tanh", "var",
]  # fmt: skip
