"""What to derive when nobody says: which axis to stream and which to group.

Every axis that is reduced and on no output is tried as the stream; the outputs' axes over which the result is
weaved are grouped. Of several streams, the caller's measure (predicted time, or memory) decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from catdiag.boxes import Einsum, Reduce
from catdiag.diagram import Diagram, inline
from catdiag.errors import NotGroupable, NotStreamable
from catdiag.rewrite.derivation import Derivation
from catdiag.rewrite.group import groupable
from catdiag.solvers.z3 import Z3


@dataclass(frozen=True)
class Attempt:
    """A derivation that was tried: the axis streamed (None: none), the result or why there is none."""

    axis: str | None
    derivation: Derivation | None
    reason: str = ""


def reduced_axes(diagram: Diagram) -> list[str]:
    """The axes that some box sums up or otherwise reduces and that are on no output, in order of appearance.

    >>> import catdiag as cd
    >>> reduced_axes(cd.algorithm("q x ->")(lambda A: cd.sum(A, "q x")))
    ['q', 'x']
    """
    kept = {name for ty in diagram.cod for name in ty.names}
    found: dict[str, None] = {}
    for box in inline(diagram).boxes:
        if isinstance(box.op, Reduce):
            found[box.op.axis] = None
        elif isinstance(box.op, Einsum):
            for ty in box.dom:
                found.update(dict.fromkeys(n for n in ty.names if n not in box.cod[0].names))
    return [name for name in found if name not in kept]


def attempts(diagram: Diagram, ask: Z3 | None = None) -> list[Attempt]:
    """All single-stream derivations with every groupable axis grouped, and the plain grouping where none streams."""
    ask = ask or Z3()
    tried: list[Attempt] = []
    for axis in reduced_axes(diagram):
        try:
            streamed = Derivation.start(diagram, ask).stream(axis)
        except NotStreamable as error:
            tried.append(Attempt(axis, None, error.message))
            continue
        tried.append(Attempt(axis, _grouped(streamed)))
    if all(a.derivation is None for a in tried):
        plain = _grouped(Derivation.start(diagram, ask))
        tried.append(Attempt(None, plain if plain.steps else None, "" if plain.steps else "no axis can be grouped"))
    return tried


def _grouped(derivation: Derivation) -> Derivation:
    axes = groupable(derivation.diagram)
    if not axes:
        return derivation
    try:
        return derivation.group(axes)
    except NotGroupable:
        return derivation


def best(tried: list[Attempt], measure: Callable[[Derivation], float]) -> Derivation | None:
    """The derivation of least measure among those that succeeded; the first of equals."""
    found = [a.derivation for a in tried if a.derivation is not None]
    return min(found, key=measure) if found else None
