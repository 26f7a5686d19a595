"""catdiag: array programs as diagrams, rewritten with proofs, costed in closed form.

Names are imported when first used, so that `import catdiag` is quick. `catdiag.sum`, `max`, `min`, `abs`, `round`,
`any`, `all`, `slice` and `id` are functions on arrays and diagrams, and share their names with Python's own: write
`import catdiag as cd`, and not `from catdiag import *`.
"""

from __future__ import annotations

from importlib import import_module

from catdiag.util.display import set_hooks

# As in `typing`, which takes longer to import than all else that is imported before the command line hears Ctrl-C.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from catdiag import category as category
    from catdiag import cost as cost
    from catdiag import errors as errors
    from catdiag import library as library
    from catdiag import nn as nn
    from catdiag import testing as testing
    from catdiag.category.types import Axis
    from catdiag.chip import hardware
    from catdiag.constructors import (
        algorithm,
        box,
        compile,
        copy,
        discard,
        from_jax,
        from_onnx,
        from_torch,
        id,
        swap,
        value_and_grad,
    )
    from catdiag.frontend.builder import (
        all,
        any,
        argmax,
        argmin,
        einsum,
        index,
        max,
        mean,
        min,
        prod,
        size,
        softmax,
        sum,
    )
    from catdiag.frontend.elementwise import (
        abs,
        apply,
        cast,
        ceil,
        clip,
        cos,
        equal,
        erf,
        exp,
        floor,
        integer,
        log,
        maximum,
        minimum,
        round,
        sign,
        sin,
        sqrt,
        tanh,
        where,
    )
    from catdiag.frontend.indexing import gather, reindex, reverse, shift, slice, stride, window
    from catdiag.frontend.nn import expm1, inf, log1p
    from catdiag.frontend.random_numbers import dropout, uniform
    from catdiag.frontend.reshape import broadcast, concat, pad, rearrange, reduce, repeat, split, tile
    from catdiag.frontend.scatter import scatter_add
    from catdiag.program import Program
    from catdiag.prover import Refuted, Theorem, Undecided, equivalent, prove, prove_all
    from catdiag.rewrite.matching.rule import rule
    from catdiag.rewrite.stream.user_fold import Fold
    from catdiag.rewrite.theorem_decorator import theorem

_HOMES = {
    "catdiag.frontend.builder": "all any argmax argmin einsum index max mean min prod size softmax sum",
    "catdiag.constructors": "algorithm box compile copy discard from_jax from_onnx from_torch id swap value_and_grad",
    "catdiag.program": "Program",
    "catdiag.prover": "Refuted Theorem Undecided equivalent prove prove_all",
    "catdiag.rewrite.theorem_decorator": "theorem",
    "catdiag.rewrite.stream.user_fold": "Fold",
    "catdiag.rewrite.matching.rule": "rule",
    "catdiag.frontend.elementwise": (
        "abs apply cast ceil clip cos equal erf exp floor integer log maximum minimum round sign sin sqrt tanh where"
    ),
    "catdiag.frontend.nn": "expm1 inf log1p",
    "catdiag.frontend.indexing": "gather reindex reverse shift slice stride window",
    "catdiag.frontend.random_numbers": "dropout uniform",
    "catdiag.frontend.scatter": "scatter_add",
    "catdiag.frontend.reshape": "broadcast concat pad rearrange reduce repeat split tile",
    "catdiag.category.types": "Axis",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
_MODULES = {
    "category": "catdiag.category",
    "cost": "catdiag.cost",
    "errors": "catdiag.errors",
    "hardware": "catdiag.chip.hardware",
    "library": "catdiag.library",
    "nn": "catdiag.nn",
    "testing": "catdiag.testing",
}

__all__ = [
    "Axis", "Fold", "Program", "Refuted", "Theorem", "Undecided", "abs", "algorithm", "all", "any", "apply",
    "argmax", "argmin", "box", "broadcast", "cast", "category", "ceil", "clip", "compile", "concat", "copy", "cos",
    "cost", "discard", "dropout", "einsum", "equal", "equivalent", "erf", "errors", "exp", "expm1", "floor", "from_jax",
    "from_onnx", "from_torch", "gather", "hardware", "id", "index", "inf", "integer", "library", "log", "log1p", "max",
    "maximum", "mean", "min", "minimum", "nn", "pad", "prod", "prove", "prove_all", "rearrange", "reduce", "reindex",
    "repeat", "reverse", "round", "rule", "scatter_add", "shift", "sign", "sin", "size", "slice", "softmax", "split",
    "sqrt", "stride", "sum", "swap", "tanh", "testing", "theorem", "tile", "uniform", "value_and_grad",
    "where", "window",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        known = not name.startswith("_") and name in import_module(_MODULES["nn"]).__all__
        raise AttributeError(f"module 'catdiag' has no attribute {name!r}" + f": it is cd.nn.{name}" * known)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


set_hooks(
    html=lambda shown: import_module("catdiag.draw.report.notebook").html(shown),
    svg=lambda shown: import_module("catdiag.draw.render").shown(shown),
    lines=lambda shown: import_module("catdiag.codegen.pseudocode").shown(shown),
    program=lambda diagram: import_module("catdiag.program").Program(diagram),
)
