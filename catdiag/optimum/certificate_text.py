"""The argument that the certificate of an optimum rests on, in words."""

from __future__ import annotations

from catdiag.optimum.closed_form_certificate import Absorb, Certificate, Drop, Fill, Monotone, Shifted, Weights
from catdiag.optimum.posynomial import Powers


def proof_in_words(certificate: Certificate) -> str:
    """The argument that a certificate of an optimum rests on, as one sentence."""
    match certificate.proof:
        case Weights(transfers, memory):
            of = ", ".join(map(str, transfers)), ", ".join(map(str, memory))
            main = f"the dual with weights {of[0]} of the transfers and {of[1]} of the memory"
        case Shifted(root=root):
            main = f"two tiles, root {root}"
        case Monotone(monomial, roots):
            main = f"transfers fall with {_monomial(monomial)}, which memory caps at {', '.join(map(str, roots))}"
        case None:
            main = "nothing is left to choose"
    return "; ".join([*map(_reduction_in_words, certificate.reductions), main])


def _reduction_in_words(step: Absorb | Drop | Fill) -> str:
    if isinstance(step, Absorb):
        return f"{step.variable} = 1 is best" + (f", its part taken by {_monomial(step.into)}" if step.into else "")
    if isinstance(step, Fill):
        return f"{step.variable} as large as its axis is best"
    return f"branch {step.branch} of the memory is below branch {step.by}"


def _monomial(powers: Powers) -> str:
    return "*".join(str(v) if e == 1 else f"{v}**{e}" for v, e in powers) or "1"
