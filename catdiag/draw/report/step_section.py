"""The derivation step by step: a description of each rewrite, its theorem, and the pictures before and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from catdiag.draw.report.html import Html, escaped, folded, joined, tag
from catdiag.draw.report.mathml import math, name
from catdiag.draw.report.proof_section import statement, status, theorem_rows
from catdiag.rewrite.steps import (
    Action,
    CastFactors,
    Compose,
    Distribute,
    Fuse,
    Group,
    Skip,
    Split,
    Stabilize,
    Stream,
    Weave,
)

if TYPE_CHECKING:
    from catdiag.category.diagram import Diagram
    from catdiag.rewrite.derivation import Derivation, Step


def before_and_after(derivation: Derivation) -> Iterator[tuple[Step, Diagram]]:
    """Each step with the diagram that it started from: of a part, where it is a step of one.

    >>> import catdiag as cd
    >>> twice = cd.algorithm("q", name="twice")(lambda A: A + A).group("q")
    >>> [(before.title, step.diagram.title) for step, before in before_and_after(twice.derivation)]
    [('twice', "twice.group('q')")]
    """
    now: dict[int, Diagram] = {}
    for step in derivation.steps:
        begun = derivation.source if step.part is None else step.part
        yield step, now.get(id(begun), begun)
        now[id(begun)] = step.diagram


_SAID: dict[type[Action], str] = {
    Stream: "{} is processed in blocks of any size, in a loop that carries a state",
    Group: "tiles of {}, of any size, run independently",
    Split: "the loop over {} runs in several parts at once (split-K), whose states are merged in order",
    Skip: "the blocks of {} that are fully masked are skipped",
    Fuse: "boxes are fused into kernels, so that arrays between them stay on chip",
    Distribute: "sums over {} are distributed, so that their terms are matrix products and sums of one array",
    CastFactors: "integers of few bits are cast to the type of the matrix products that they are factors of",
    Stabilize: "a maximum is subtracted in exponentials that had none, so that they do not overflow",
    Compose: "what was derived from the parts is composed",
    Weave: "everything is mapped over {}",
}


def explained(step: Step) -> Html:
    """A step in a sentence; an unknown kind of step has only its name."""
    action = step.action
    said = _SAID.get(type(action))
    if isinstance(action, Skip) and not action.tested:
        said = "the blocks of {} outside of the bounds of the mask are skipped"
    if said is None:
        return escaped("")
    axes = action.axes if isinstance(action, (Group, Distribute)) else (getattr(action, "axis", ""),)
    typeset = joined([math(name(axis)) for axis in axes if axis], " ")
    said = said if any(axes) else said.replace(" over {}", "")
    head, hole, tail = said.partition("{}")
    parts = [escaped(head[:1].upper() + head[1:]), typeset if hole else "", escaped(tail)]
    if isinstance(action, Stream) and action.passes > 1:
        parts.append(escaped(f", in {action.passes} passes"))
    found = ""
    if isinstance(action, Stream):
        how = "given, and was proved" if step.premises else "found, and was proved"
        found = f". The state was {how}"
    return joined([*parts, escaped(found + ".")])


def step_card(step: Step, number: int, picture: Html, times: bool) -> Html:
    """One step: its description, its picture, its theorem."""
    anchor = f"step-{number}"
    time = f", in {step.theorem.seconds:.2f} s" if times else ""
    head = tag("h3", tag("a", f"{number}. {step.name}", href=f"#{anchor}"), " ", status(step.theorem))
    note = [tag("p", escaped(step.note[:1].upper() + step.note[1:] + "."))] if step.note else []
    note += [tag("p", escaped(f"Beside the loop {step.retained}."))] if step.retained else []
    premises = [tag("p", "Beside it: ", statement(premise)) for premise in step.premises]
    return tag(
        "div",
        head,
        tag("p", explained(step)),
        *note,
        picture,
        tag("p", statement(step.theorem), time),
        folded("the theorem in full", theorem_rows(step.theorem, step.diagram, times), *premises),
        class_="step",
        id=anchor,
    )
