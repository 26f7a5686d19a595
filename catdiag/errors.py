"""What can go wrong: all errors that a user can cause, which derive from `CatdiagError`.

>>> import catdiag as cd
>>> issubclass(cd.errors.NotStreamable, cd.errors.CatdiagError), cd.errors.Refuted is cd.Refuted
(True, True)
"""

from __future__ import annotations

from catdiag.importers.example import NotImported
from catdiag.prover.assumptions import AssumptionError
from catdiag.prover.export import NotExportable
from catdiag.prover.outcomes import Interrupted, NotAProof, Refuted, Undecided
from catdiag.rewrite.derivation import NotProved
from catdiag.util.errors import (
    AxisError,
    CatdiagError,
    DoesNotFit,
    EqualityUndecided,
    FormulaError,
    MatchUndecided,
    NoMatch,
    NotDifferentiable,
    NotDistributable,
    NotFusable,
    NotGroupable,
    NotStabilizable,
    NotStreamable,
    OfOneKernel,
    SignatureError,
    SizeError,
    TypeMismatch,
)

__all__ = [
    "AssumptionError",
    "AxisError",
    "CatdiagError",
    "DoesNotFit",
    "EqualityUndecided",
    "FormulaError",
    "Interrupted",
    "MatchUndecided",
    "NoMatch",
    "NotAProof",
    "NotDifferentiable",
    "NotDistributable",
    "NotExportable",
    "NotFusable",
    "NotGroupable",
    "NotImported",
    "NotProved",
    "NotStabilizable",
    "NotStreamable",
    "OfOneKernel",
    "Refuted",
    "SignatureError",
    "SizeError",
    "TypeMismatch",
    "Undecided",
]
