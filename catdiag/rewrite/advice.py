"""Advice on what a derivation's theorem leaves open: it is about real numbers, and says nothing of overflow or
rounding.
"""

from __future__ import annotations

from dataclasses import replace

from catdiag.rewrite import casts
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.stability import Stability, lost_maxima, stability
from catdiag.rewrite.stabilize import stabilized
from catdiag.util.errors import NotStabilizable


def stability_of(derivation: Derivation, limit: float | None = None) -> Stability:
    """The overflow analysis of the derived diagram: for each exponential whether its argument is proved to be at most
    0, on every reachable state and every block; and the maxima that the source subtracts or divides by and the derived
    diagram does not. `limit` is the time per exponential, in seconds.
    """
    return replace(stability(derivation.diagram, derivation.claims(limit)), dropped=derivation.dropped)


def advice(derivation: Derivation, found: Stability) -> tuple[str, ...]:
    """Advice, one text per item: exponentials without a proved bound (once per source line), maxima that were dropped,
    casts that no derived loop makes, and the notes of the steps on floating point. `found` is the overflow analysis of
    the derivation, as `stability_of` gives it.
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
        stabilized(derivation.source, derivation.claims())
        what = ".stabilize() subtracts the maximum"
    except NotStabilizable:
        what = "and .stabilize() has no maximum to subtract"
    return (*(f"exp({e.argument}) is not bounded: {what}\n  at {e.line}" for e in unbounded), *left_out)
