"""Derivations composed: in sequence, in parallel, and mapped over a further axis.

The composed derivation has each part's derived diagram in place of that part's source. That the whole means what the
composed sources mean is proved at once where they are small, else by congruence (`catdiag.prover.composites`).

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

from catdiag.category.diagram import Diagram
from catdiag.category.functor import weave as weaved
from catdiag.category.ops import GroupOp
from catdiag.category.types import Axis
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import Theorem, Undecided, parse_assumption
from catdiag.prover.composites import OpenPart, PartEquation, certify_composite
from catdiag.prover.congruence import has_generators
from catdiag.prover.proof_search import OpenGoal
from catdiag.rewrite.derivation import Derivation, NotProved, Step, titled
from catdiag.rewrite.matching.rule_theorem import is_small, proved_through
from catdiag.rewrite.steps import Action, Compose, Weave


def then(first: Derivation, second: Derivation) -> Derivation:
    """Sequential composition of two derivations. Raises TypeMismatch where the types do not match, Undecided where the
    equation is not proved.
    """
    source, diagram = first.source >> second.source, first.diagram >> second.diagram
    inputs, made = len(source.dom), len(first.source.cod)
    reads = (range(inputs), range(inputs, inputs + made))
    return _composed((first, second), source, diagram, Compose(), reads, ">>")


def beside(first: Derivation, second: Derivation) -> Derivation:
    """Parallel composition of two derivations. Raises Undecided where the equation is not proved."""
    source, diagram = first.source @ second.source, first.diagram @ second.diagram
    inputs, own = len(source.dom), len(first.source.dom)
    return _composed((first, second), source, diagram, Compose(parallel=True), (range(own), range(own, inputs)), "@")


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
    return _proved((derivation,), source, made, Weave(axis.name))


def _composed(
    parts: Sequence[Derivation],
    source: Diagram,
    diagram: Diagram,
    action: Action,
    reads: Sequence[Sequence[int]],
    sign: str,
) -> Derivation:
    if not any(part.steps for part in parts):
        assume = tuple(dict.fromkeys(a for part in parts for a in part.assume))
        return replace(Derivation.start(source, parts[0].ask), assume=assume)
    title = f" {sign} ".join(part.diagram.title or "it" for part in parts)
    return _proved(parts, source, titled(diagram, title), action, reads)


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


def _by_parts(
    parts: Sequence[Derivation], source: Diagram, diagram: Diagram, reads: Sequence[Sequence[int]]
) -> Theorem | None:
    """The theorem made of those of the parts, each with the wires that it reads; None where it does not follow."""
    if not reads or has_generators(source) or has_generators(diagram):
        return None
    equations = [
        PartEquation(part.source, part.diagram, tuple(wires), assume=part.assume, theorem=part.theorem)
        for part, wires in zip(parts, reads, strict=True)
    ]
    count, inputs = len(source.dom), list(zip(source.input_names, source.dom, strict=True))
    made = count + sum(len(part.source.cod) for part in parts)
    assume = [parse_assumption(a) for a in dict.fromkeys(a for part in parts for a in part.assume)]
    results = range(made - len(source.cod), made)
    try:
        return certify_composite(parts[0].ask, inputs, equations, results, (source, diagram), assume)
    except (OpenPart, OpenGoal, KernelError):
        return None


def _proved(
    parts: Sequence[Derivation],
    source: Diagram,
    diagram: Diagram,
    action: Action,
    reads: Sequence[Sequence[int]] = (),
) -> Derivation:
    """The composed derivation: its theorem is of the whole where that is small, else made of those of the parts.
    Raises Undecided."""
    assume = tuple(dict.fromkeys(a for part in parts for a in part.assume))
    ask = parts[0].ask
    title = diagram.title or "the whole"
    said = f"each part of {title} means the same as before"
    begun = replace(Derivation.start(source, ask), assume=assume)
    theorem = _whole(begun, diagram) or _by_parts(parts, source, diagram, reads)
    theorem = theorem or proved_through(ask, source, diagram, assume, ([],), said)
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
