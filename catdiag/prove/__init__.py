"""Finding proofs and counterexamples; the kernel checks what is found.

- `export`: diagrams as core programs;
- `normal`: the normal form, of `conditions`, `guards` (case distinctions) and `reduced` (reductions, with `binders` in
  order), as a `trace` of steps; `linear`: which known comparisons add up to one;
- `cases`: two terms led to one by parts, by cases or as one sum; `find`: the search for certificates;
- `reals`, `exact`, `functions`: exact numbers, programs run on them, and what stands for uninterpreted functions;
- `refute`: the search for counterexamples, with `comparison` (two programs run on the same inputs), `points` (inputs to
  try), `sieve` (many at once, in floats), `solve` (inputs at which a program turns) and `shrink`;
- `vacuity`, `witness`: assumptions that say too much, and inputs that meet what a theorem assumes;
- `validate`: whether numbers are a counterexample, asked before any is said; `replay`: counterexamples, also as data;
- `alike`: whether two diagrams have one type;
- `cut`: equations cut into pieces, at uninterpreted boxes and in large diagrams;
- `outcomes`: theorems, and what else a proof comes to; `api`: `prove` and `equivalent`; `many`: `prove_all`.
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
from catdiag.prove.many import prove_all
from catdiag.prove.outcomes import NotAProof

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
