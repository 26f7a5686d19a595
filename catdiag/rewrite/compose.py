"""Derivations composed: in sequence, in parallel, and mapped over a further axis.

The composed derivation has each part's derived diagram in place of that part's source. That the whole means what the
composed sources mean follows from the parts' theorems by congruence: the equation is cut at the arrays that pass
between the parts, and the kernel checks every piece.

>>> from catdiag.frontend import builder as build
>>> total = build.algorithm("q x -> q", name="total")(lambda a: build.sum(a, "x"))
>>> double = build.algorithm("q -> q", name="double")(lambda a: a + a)
>>> both = then(Derivation.start(total), Derivation.start(double))
>>> both.diagram == total >> double, both.steps
(True, ())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from catdiag.category.diagram import Diagram, inline
from catdiag.category.functor import weave as weaved
from catdiag.category.ops import GroupOp
from catdiag.category.types import Axis
from catdiag.prover.api import Theorem, Undecided
from catdiag.rewrite.derivation import Derivation, NotProved, Step, titled
from catdiag.rewrite.matching.rule_theorem import is_small, proved_through
from catdiag.rewrite.steps import Action, Compose, Weave

Pairs = list[tuple[int, int]]


def then(first: Derivation, second: Derivation) -> Derivation:
    """Sequential composition of two derivations. Raises TypeMismatch where the types do not match, Undecided where the
    equation is not proved.
    """
    source, diagram = first.source >> second.source, first.diagram >> second.diagram
    left, right = inline(first.source).graph, inline(first.diagram).graph
    inputs = len(source.dom)
    pairs: dict[int, int] = {}
    for a, b in zip(left.outputs, right.outputs, strict=True):
        if a >= inputs and b >= inputs and a not in pairs and b not in pairs.values():
            pairs[a] = b
    return _composed((first, second), source, diagram, Compose(), list(pairs.items()), ">>")


def beside(first: Derivation, second: Derivation) -> Derivation:
    """Parallel composition of two derivations. Raises Undecided where the equation is not proved."""
    source, diagram = first.source @ second.source, first.diagram @ second.diagram
    return _composed((first, second), source, diagram, Compose(parallel=True), [], "@")


def weave(derivation: Derivation, axis: Axis, inputs: Sequence[int | str] | str | None = None) -> Derivation:
    """A derivation mapped over one more axis: both its source and its derived diagram. The axis comes first in all
    outputs and in the given inputs (None: all inputs). Raises AxisError as `catdiag.category.functor.weave` does,
    Undecided where the equation is not proved.
    """
    source = weaved(derivation.source, axis, inputs)
    if not derivation.steps:
        return replace(Derivation.start(source, derivation.ask), assume=derivation.assume)
    diagram = weaved(derivation.diagram, axis, inputs)
    made = titled(diagram, f"{derivation.diagram.title or 'it'}.weave({axis.name!r})")
    return _proved((derivation,), source, made, Weave(axis.name), [])


def _composed(
    parts: Sequence[Derivation], source: Diagram, diagram: Diagram, action: Action, pairs: Pairs, sign: str
) -> Derivation:
    if not any(part.steps for part in parts):
        assume = tuple(dict.fromkeys(a for part in parts for a in part.assume))
        return replace(Derivation.start(source, parts[0].ask), assume=assume)
    title = f" {sign} ".join(part.diagram.title or "it" for part in parts)
    return _proved(parts, source, titled(diagram, title), action, pairs)


def _whole(begun: Derivation, diagram: Diagram) -> Theorem | None:
    """The theorem of the uncut equation, which has the fewest conditions; None where the diagrams are large or normal
    forms do not prove it.
    """
    if not is_small(begun.source, diagram):
        return None
    try:
        return begun.prove(diagram, further=False)
    except NotProved:
        return None


def _proved(parts: Sequence[Derivation], source: Diagram, diagram: Diagram, action: Action, pairs: Pairs) -> Derivation:
    """The composed derivation, with the equation cut at the arrays `pairs` between the parts. Raises Undecided."""
    assume = tuple(dict.fromkeys(a for part in parts for a in part.assume))
    ask = parts[0].ask
    title = diagram.title or "the whole"
    said = f"each part of {title} means the same as before"
    begun = replace(Derivation.start(source, ask), assume=assume)
    theorem = _whole(begun, diagram) or proved_through(
        ask, source, diagram, assume, (pairs, []) if pairs else ([],), said
    )
    if theorem.conditional and not any(step.theorem.conditional for part in parts for step in part.steps):
        raise Undecided(f"{said}; the whole would need further conditions", "; ".join(theorem.conditions))
    steps = [
        step if step.part is not None else replace(step, part=part.source) for part in parts for step in part.steps
    ]
    kernels = any(isinstance(box.op, GroupOp) for box in diagram.boxes)
    return Derivation(
        source,
        diagram,
        (*steps, Step(action, diagram, theorem)),
        ungrouped=None if kernels else diagram,
        assume=assume,
        ask=ask,
    )
