"""The prover: searches for proofs and counterexamples. The kernel checks every proof; nothing here has to be trusted.

- `api`: `prove` and `equivalent`; `batch`: `prove_all`, in worker processes; `outcomes`: `Theorem`, `Refuted`,
  `Undecided`, `Interrupted`.
- `certification`: statements and the certificates that are found for them.
- `export`: diagrams as core programs, the kernel's input; `identifiers`: the names in certificates;
  `interface_comparison`: whether two diagrams have the same type, and how they differ.
- `proof_search`: the search for certificates; `term_equality`: equality of two terms by congruence, case splits and
  sums; `proof_trace`: recorded kernel steps; `proof_cache`: reuse of earlier proofs of loops; `congruence`: equations
  cut at shared arrays; `composites`: programs made of parts; `internal_equivalences`: large equations by way of arrays
  that both sides compute.
- `normal_form/`: normal forms of terms; `lemmas/`: linear arithmetic and lemmas about maxima.
- `refute/`: the search for counterexamples; `assumptions`: assumptions about sizes and their consistency; `hypotheses`:
  those about inputs, in the language of programs; `witness_search`: inputs that meet a theorem's hypotheses.
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
