"""What to do about what a derivation's theorem, which is about real numbers, does not say."""

from __future__ import annotations

from dataclasses import replace

from catdiag.rewrite import casts
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.stability import Stability, lost_maxima, stability
from catdiag.rewrite.stabilize import stabilized
from catdiag.util.errors import NotStabilizable

_PATIENCE = 10.0


def stability_of(derivation: Derivation, limit: float | None = None) -> Stability:
    """What is proved of each exponential that the derived diagram runs: that its argument is at most 0, on every
    state that is reached and every block; and the maxima that it no longer subtracts or divides by. `limit` is the time
    in seconds for each of them.
    """
    return replace(stability(derivation.diagram, derivation.claims(limit)), dropped=derivation.dropped)


def advice(derivation: Derivation, found: Stability) -> tuple[str, ...]:
    """What to do about exponentials that are not bounded, a line for each that the user wrote, the maxima and the
    casts that are in no derived loop, and what steps do in floating point. `found` is what is proved of the
    exponentials of the derivation.
    """
    left_out = (
        *lost_maxima(derivation.dropped),
        *(str(step.retained) for step in derivation.steps if step.retained),
        *casts.advice(derivation.source, derivation.diagram),
        *(s.note for s in derivation.steps if s.note),
    )
    unbounded = [e for e in found.unbounded if e.line]
    if not unbounded:
        return left_out
    try:
        stabilized(derivation.source, derivation.claims(_PATIENCE))
        what = ".stabilize() subtracts the maximum"
    except NotStabilizable:
        what = "and .stabilize() has no maximum to subtract"
    return (*(f"exp({e.argument}) is not bounded: {what}\n  at {e.line}" for e in unbounded), *left_out)
