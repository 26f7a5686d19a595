"""Finding proofs and counterexamples; the kernel checks what is found.

- `export`: diagrams as core programs;
- `normal`, `find`: the normal form with its trace, and the search for certificates;
- `exact`, `refute`: exact runs and counterexamples;
- `api`: `prove` and `equivalent`.
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

__all__ = ["AssumptionError", "Interrupted", "Refuted", "Theorem", "Undecided", "equivalent", "prove"]
