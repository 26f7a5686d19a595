"""catdiag: array programs as diagrams, rewritten with proofs, costed in closed form.

Names are imported when first used, so that `import catdiag` is quick. `catdiag.sum`, `max`, `min`, `abs`,
`any`, `all`, `slice` and `id` are functions on arrays and diagrams, and share their names with Python's own: write
`import catdiag as cd`, and not `from catdiag import *`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from catdiag.util.display import set_hooks

# As in `typing`, which takes longer to import than all else that is imported before the command line hears Ctrl-C.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from catdiag import cost as cost
    from catdiag import testing as testing
    from catdiag.category.diagram import Diagram
    from catdiag.category.types import ArrayType, Axis, Ty
    from catdiag.chip import hardware
    from catdiag.constructors import algorithm, box, copy, discard, id, library, swap
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
        clip,
        equal,
        exp,
        log,
        maximum,
        minimum,
        sigmoid,
        sqrt,
        tanh,
        where,
    )
    from catdiag.frontend.indexing import gather, reindex, reverse, shift, slice, stride, window
    from catdiag.frontend.nn import elu, inf, log_softmax, logsumexp, relu, silu, var
    from catdiag.frontend.reshape import broadcast, concat, pad, rearrange, repeat, split, tile
    from catdiag.program import Program
    from catdiag.prover import Interrupted, NotAProof, Refuted, Theorem, Undecided, equivalent, prove, prove_all
    from catdiag.rewrite.matching.rule import Rule, rule
    from catdiag.rewrite.stream.user_fold import Fold
    from catdiag.rewrite.theorem_decorator import Claim, theorem
    from catdiag.util.errors import (
        AxisError,
        CatdiagError,
        DoesNotFit,
        EqualityUndecided,
        MatchUndecided,
        NoMatch,
        NotDistributable,
        NotFusable,
        NotGroupable,
        NotStabilizable,
        NotStreamable,
        SignatureError,
        SizeError,
        TypeMismatch,
    )

_HOMES = {
    "catdiag.frontend.builder": "all any argmax argmin einsum index max mean min prod size softmax sum",
    "catdiag.category.diagram": "Diagram",
    "catdiag.constructors": "algorithm box copy discard id swap",
    "catdiag.program": "Program",
    "catdiag.util.errors": (
        "AxisError CatdiagError DoesNotFit EqualityUndecided MatchUndecided NoMatch NotDistributable NotFusable "
        "NotGroupable NotStabilizable NotStreamable SignatureError SizeError TypeMismatch"
    ),
    "catdiag.prover": "Interrupted NotAProof Refuted Theorem Undecided equivalent prove prove_all",
    "catdiag.rewrite.theorem_decorator": "Claim theorem",
    "catdiag.rewrite.stream.user_fold": "Fold",
    "catdiag.rewrite.matching.rule": "Rule rule",
    "catdiag.frontend.elementwise": "abs apply cast clip equal exp log maximum minimum sigmoid sqrt tanh where",
    "catdiag.frontend.nn": "elu inf log_softmax logsumexp relu silu var",
    "catdiag.frontend.indexing": "gather reindex reverse shift slice stride window",
    "catdiag.frontend.reshape": "broadcast concat pad rearrange repeat split tile",
    "catdiag.category.types": "ArrayType Axis Ty",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
_MODULES = {
    "cost": "catdiag.cost",
    "hardware": "catdiag.chip.hardware",
    "testing": "catdiag.testing",
}

__all__ = [  # noqa: RUF022
    "AxisError", "ArrayType", "Axis", "CatdiagError", "Claim", "Diagram", "DoesNotFit", "EqualityUndecided", "Fold",
    "Interrupted", "MatchUndecided", "NoMatch", "NotAProof", "NotDistributable", "NotFusable", "NotGroupable",
    "NotStabilizable", "NotStreamable", "Program", "Refuted", "Rule", "SignatureError", "SizeError", "Theorem", "Ty",
    "TypeMismatch", "Undecided", "abs", "algorithm", "all", "any", "apply", "argmax", "argmin", "box", "broadcast",
    "cast", "clip", "concat", "copy", "cost", "discard", "einsum", "elu", "equal", "equivalent", "exp", "gather",
    "hardware", "id", "index", "inf", "library", "log", "log_softmax", "logsumexp", "max", "maximum", "mean", "min",
    "minimum", "pad", "prod", "prove", "prove_all", "rearrange", "reindex", "relu", "repeat", "reverse", "rule",
    "shift", "sigmoid", "silu", "size", "slice", "softmax", "split", "sqrt", "stride", "sum", "swap", "tanh", "testing",
    "theorem", "tile", "var", "where", "window",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'catdiag' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


set_hooks(
    html=lambda shown: import_module("catdiag.draw.report.notebook").html(shown),
    svg=lambda shown: import_module("catdiag.draw.render").shown(shown),
    lines=lambda shown: import_module("catdiag.codegen.pseudocode").shown(shown),
)


class _Package(ModuleType):
    """This package. `catdiag.library` gives programs to users and is a subpackage to the import system, which binds the
    subpackage here once it is imported: the property keeps the programs in sight.
    """

    @property
    def library(self) -> Any:
        """The library's operators as programs; the subpackage of this name has the diagrams."""
        return import_module("catdiag.constructors").library

    @library.setter
    def library(self, module: ModuleType) -> None:
        """Binding the subpackage is left without effect: `sys.modules` has it."""


sys.modules[__name__].__class__ = _Package
