"""Finding proofs and counterexamples; the kernel checks what is found.

- `export`: diagrams as core programs;
- `normal`, `find`: the normal form with its trace, and the search for certificates;
- `exact`, `refute`: exact runs and counterexamples;
- `replay`: counterexamples as data, and run again;
- `alike`: whether two diagrams have one type;
- `cut`: equations cut into pieces, at uninterpreted boxes and in large diagrams;
- `api`: `prove` and `equivalent`; `many`: `prove_all`.
"""

from catdiag.prove.api import (
    AssumptionError,
    Interrupted,
    Refuted,
    Theorem,
    Undecided,
    equivalent,
    prove,
)
from catdiag.prove.many import NotAProof, prove_all

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
