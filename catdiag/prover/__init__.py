"""Finding proofs and counterexamples; the kernel checks what is found.

- `api`: `prove` and `equivalent`; `batch`: `prove_all`; `outcomes`: what a proof comes to;
- `export`: diagrams as core programs, with the names that `identifiers` gives; `interface_comparison`: whether two
  diagrams have one type;
- `proof_search`: the search for certificates; `term_equality`: two terms led to one; `proof_trace`: steps applied and
  written down; `proof_cache`: proofs of loops found before; `congruence`: equations cut into pieces;
- `normal_form/`: terms normalized by steps; `lemmas/`: sums of comparisons, maxima;
- `refute/`: counterexamples; `assumptions`, `witness_search`: assumptions that say too much, and inputs that meet them.
"""

from catdiag.prover.api import (
    AssumptionError,
    Interrupted,
    Refuted,
    Theorem,
    Undecided,
    equivalent,
    prove,
)
from catdiag.prover.batch import prove_all
from catdiag.prover.outcomes import NotAProof

__all__ = [
    "AssumptionError",
    "Interrupted",
    "NotAProof",
    "Refuted",
    "Theorem",
    "Undecided",
    "equivalent",
    "prove",
    "prove_all",
]
