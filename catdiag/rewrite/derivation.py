"""Derivations: a diagram, rewritten step by step, with the theorem that it still means the same.

A derivation never holds a bare diagram: each rewrite is proved when it is made, against the diagram that the
derivation began with, and what the kernel does not accept is not taken. The rewrites are functions of derivations:
`streaming.stream` and `split`, `group.group`, `skip.skip`, `expand.distribute`, `stabilise.stabilize`, `fuse.fuse`,
`compose.then` and `beside`, and the rules of `rule`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catdiag.category.diagram import Diagram, HasDiagram, diagram_of, of_graph
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import Interrupted, Theorem, certify_equation, check_limit
from catdiag.prover.proof_search import OpenGoal
from catdiag.rewrite.claims import Claims
from catdiag.rewrite.steps import Action, WholeArrays, makes_kernels
from catdiag.solvers.child_process import SolverInterrupted
from catdiag.solvers.z3 import Z3
from catdiag.util.display import AsHTML

if TYPE_CHECKING:
    from catdiag.category.ops import Box
    from catdiag.rewrite.formula import FoldFormula
    from catdiag.rewrite.matching.splice import Origins


@dataclass(frozen=True)
class Step:
    """One rewrite: what it did, the diagram it led to, the theorem `source = diagram`, and what a stream found.

    `part` is the source where the step is one of a part of what the derivation began with, and None where it is of the
    whole. `premises` are theorems beside it: of a fold that was given, that one element's state is what `element`
    gives. `note` is what the theorem, which is about real numbers, does not say, `dropped` are the boxes that subtract
    or divide by a maximum which the diagram no longer has, and `retained` are the arrays that are on chip along all of
    the axis that is streamed.
    """

    action: Action
    diagram: Diagram
    theorem: Theorem
    formula: FoldFormula | None = None
    premises: tuple[Theorem, ...] = ()
    note: str = ""
    dropped: tuple[Box, ...] = ()
    retained: WholeArrays | None = None
    part: Diagram | None = None

    @property
    def name(self) -> str:
        """The rewrite in words, after the part that it is of."""
        return str(self.action) if self.part is None else f"{self.part.title or 'part'}: {self.action}"

    @property
    def description(self) -> str:
        """Its name, and what a stream holds along all of its axis."""
        return f"{self.name}, but {self.retained}" if self.retained else self.name

    def __str__(self) -> str:
        return f"{self.description}: {self.theorem}"


@dataclass(frozen=True)
class Derivation(AsHTML):
    """A diagram derived from `source` by proved rewrites.

    `.diagram` is where it stands, `.steps` how it got there, `.theorem` says that both mean the same, under the
    assumptions about sizes `.assume`.
    """

    source: Diagram
    diagram: Diagram
    steps: tuple[Step, ...] = ()
    ungrouped: Diagram | None = None
    groups: tuple[str, ...] = ()
    assume: tuple[str, ...] = ()
    # The diagram as a rule left it, and what of it was in the source.
    unchanged: tuple[Diagram, Origins] | None = field(default=None, repr=False, compare=False)
    ask: Z3 = field(repr=False, compare=False, kw_only=True)

    @staticmethod
    def start(source: Diagram, ask: Z3 | None = None) -> Derivation:
        """The derivation of no steps."""
        return Derivation(source, source, ungrouped=source, ask=ask or Z3())

    @property
    def theorem(self) -> Theorem:
        """The theorem that the source and the derived diagram mean the same, for all sizes, blocks and tiles.

        Of no steps it is that the source means what it means.
        """
        return self.steps[-1].theorem if self.steps else self._reflexive

    @cached_property
    def _reflexive(self) -> Theorem:
        return certify_equation(self.ask, self.source, self.source, self.assume)

    @property
    def base(self) -> Diagram:
        """What a loop is made of: the diagram before its groups, where that is known."""
        return self.ungrouped if self.ungrouped is not None else self.diagram

    @property
    def operations(self) -> Diagram:
        """The diagram whose scalar operations the kernels do: the last one before they were made."""
        last = len(self.steps)
        while last and makes_kernels(self.steps[last - 1].action):
            last -= 1
        return self.steps[last - 1].diagram if last else self.source

    @property
    def dropped(self) -> tuple[Box, ...]:
        """The boxes of the source that subtract or divide by a maximum which some step dropped."""
        return tuple(dict.fromkeys(box for step in self.steps for box in step.dropped))

    def claims(self, limit: float | None = None) -> Claims:
        """What puts claims about the diagram to the kernel, each with so many seconds."""
        check_limit(limit)
        return Claims(self.ask, self.assume, limit)

    def prove(self, diagram: Diagram, further: bool = True, source: Diagram | None = None) -> Theorem:
        """The theorem that the source, or another one, means what a diagram means, which needs nothing new.

        With `further`, more is tried than normal forms. Raises NotProved.
        """
        earlier = self.theorem.certificate if self.steps else None
        try:
            theorem = certify_equation(
                self.ask, source or self.source, diagram, self.assume, further=further, earlier=earlier
            )
        except OpenGoal as error:
            raise NotProved(error.goal, error.large) from error
        except SolverInterrupted as error:
            raise Interrupted(f"a proof was interrupted: {error}") from error
        except KernelError as error:
            raise NotProved(str(error)) from error
        if theorem.conditional:
            raise NotProved("it would newly need " + "; ".join(theorem.conditions), True)
        return theorem

    def then(self, action: Action, diagram: Diagram, theorem: Theorem, **changes: Any) -> Derivation:
        """With one more step, of no loop; other fields of the record change as they are given."""
        return replace(self, diagram=diagram, steps=(*self.steps, Step(action, diagram, theorem)), **changes)

    def __str__(self) -> str:
        lines = ["; ".join([str(self.source), *(step.description for step in self.steps if step.retained)])]
        lines += [f"{step.name}: {step.theorem.seconds * 1000:.0f} ms" for step in self.steps]
        return "\n".join(lines)


class NotProved(Exception):
    """The equation of a rewrite was not proved; `final` where a longer search ends no differently."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.final = reason, final


def titled(diagram: Diagram, title: str) -> Diagram:
    """A diagram under a title."""
    return of_graph(diagram.graph, diagram.cod, diagram.names, title)


def derivation_of(subject: Derivation | Diagram | HasDiagram, ask: Z3 | None = None) -> Derivation:
    """A derivation itself, that of what has one, or that of no steps for a diagram."""
    found = getattr(subject, "derivation", subject)
    return found if isinstance(found, Derivation) else Derivation.start(diagram_of(subject), ask)


def source_of(subject: Derivation | Diagram | HasDiagram) -> Diagram:
    """What something was derived from; a diagram itself."""
    return diagram_of(getattr(subject, "source", subject), "the source")
