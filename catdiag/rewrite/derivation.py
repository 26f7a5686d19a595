"""Derivations: a diagram rewritten step by step, with the theorem that the result means the same as the source.

Every rewrite is proved when it is made, against the source of the derivation. A rewrite that the kernel does not accept
raises an error and leaves no derivation. The rewrites are functions from derivations to derivations:
`stream.streaming.stream` and `split`, `group.group`, `skip.skip`, `distribute.distribute`, `stabilize.stabilize`,
`fuse.fuse`, `compose.then` and `beside`, and the user's rules in `matching.rule`.
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
from catdiag.rewrite.loop_state import StateFormulas, formulas
from catdiag.rewrite.steps import Action, Stream, WholeArrays, makes_kernels
from catdiag.solvers.child_process import SolverInterrupted
from catdiag.solvers.z3 import Z3, shared
from catdiag.util.display import AsHTML
from catdiag.util.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.category.ops import Box
    from catdiag.rewrite.matching.splice import Origins


@dataclass(frozen=True)
class Step:
    """One rewrite: its `action`, the diagram after it, and the theorem `source = diagram`.

    - `premises`: further theorems. For a fold that the user gave: the state of a list of one element is `element`.
    - `note`: a warning about floating point, since the theorem is about real numbers.
    - `dropped`: boxes of the source that subtract or divide by a maximum which the new diagram does not have.
    - `retained`: arrays that are on chip along the whole streamed axis.
    - `part`: the source of the part that the step rewrites, where the derivation is a composition; None for the whole.
    """

    action: Action
    diagram: Diagram
    theorem: Theorem
    premises: tuple[Theorem, ...] = ()
    note: str = ""
    dropped: tuple[Box, ...] = ()
    retained: WholeArrays | None = None
    part: Diagram | None = None

    @property
    def formula(self) -> StateFormulas | None:
        """After a stream the states of the loops as formulas, read off the diagram; None for other steps."""
        return formulas(self.diagram) if isinstance(self.action, Stream) else None

    @property
    def name(self) -> str:
        """The rewrite in words, preceded by the name of the part that it applies to."""
        return str(self.action) if self.part is None else f"{self.part.title or 'part'}: {self.action}"

    @property
    def description(self) -> str:
        """The name, and the arrays that a stream keeps on chip along its whole axis."""
        return f"{self.name}, but {self.retained}" if self.retained else self.name

    def __str__(self) -> str:
        return f"{self.description}: {self.theorem}"


@dataclass(frozen=True)
class Derivation(AsHTML):
    """A diagram derived from `source` by proved rewrites.

    `.diagram` is the current diagram, `.steps` are the rewrites that led to it, and `.theorem` says that source and
    diagram mean the same under the assumptions about sizes in `.assume`.
    """

    source: Diagram
    diagram: Diagram
    steps: tuple[Step, ...] = ()
    ungrouped: Diagram | None = None
    groups: tuple[str, ...] = ()
    assume: tuple[str, ...] = ()
    # The diagram as the last user rule left it, and which of its boxes come from the source.
    unchanged: tuple[Diagram, Origins] | None = field(default=None, repr=False, compare=False)
    ask: Z3 = field(repr=False, compare=False, kw_only=True)

    @staticmethod
    def start(source: Diagram, ask: Z3 | None = None) -> Derivation:
        """The derivation without steps."""
        return Derivation(source, source, ungrouped=source, ask=ask or shared())

    @property
    def theorem(self) -> Theorem:
        """The theorem that the source and the derived diagram mean the same, for all sizes, blocks and tiles.

        A derivation without steps gives reflexivity.
        """
        return self.steps[-1].theorem if self.steps else self._reflexive

    @cached_property
    def _reflexive(self) -> Theorem:
        return certify_equation(self.ask, self.source, self.source, self.assume)

    @property
    def base(self) -> Diagram:
        """The diagram that a loop is derived from: the diagram before grouping, where that is known."""
        return self.ungrouped if self.ungrouped is not None else self.diagram

    @property
    def operations(self) -> Diagram:
        """The diagram with the scalar operations that the kernels do: the last one before a step that only forms
        kernels.
        """
        last = len(self.steps)
        while last and makes_kernels(self.steps[last - 1].action):
            last -= 1
        return self.steps[last - 1].diagram if last else self.source

    @property
    def dropped(self) -> tuple[Box, ...]:
        """The boxes of the source that subtract or divide by a maximum which some step dropped."""
        return tuple(dict.fromkeys(box for step in self.steps for box in step.dropped))

    def claims(self, limit: float | None = None) -> Claims:
        """A prover of claims about the diagram, with `limit` seconds for each claim (None: no limit)."""
        check_limit(limit)
        return Claims(self.ask, self.assume, limit)

    def prove(self, diagram: Diagram, further: bool = True, source: Diagram | None = None) -> Theorem:
        """The theorem that the source (or another one, if given) means the same as `diagram`, without new conditions.

        With `further`, a proof search follows where normal forms do not decide. Raises NotProved; Interrupted where the
        time is up.
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
            raise NotProved("it would need the further conditions " + "; ".join(theorem.conditions), True)
        return theorem

    def then(self, action: Action, diagram: Diagram, theorem: Theorem, note: str = "", **changes: Any) -> Derivation:
        """The derivation with one more step, which makes no loop. `changes` replaces further fields of the record."""
        step = Step(action, diagram, theorem, note=note)
        return replace(self, diagram=diagram, steps=(*self.steps, step), **changes)

    def __str__(self) -> str:
        lines = ["; ".join([str(self.source), *(step.description for step in self.steps if step.retained)])]
        lines += [f"{step.name}: {step.theorem.seconds * 1000:.0f} ms" for step in self.steps]
        return "\n".join(lines)


class NotProved(CatdiagError):
    """The equation of a rewrite was not proved. `final`: a longer search would end in the same way."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason, line="")
        self.reason, self.final = reason, final


def titled(diagram: Diagram, title: str) -> Diagram:
    """The diagram with another title."""
    return of_graph(diagram.graph, diagram.cod, diagram.names, title)


def derivation_of(subject: Derivation | Diagram | HasDiagram, ask: Z3 | None = None) -> Derivation:
    """The derivation of `subject`: itself, its attribute `.derivation`, or the derivation without steps
    for a diagram.
    """
    found = getattr(subject, "derivation", subject)
    return found if isinstance(found, Derivation) else Derivation.start(diagram_of(subject), ask)


def source_of(subject: Derivation | Diagram | HasDiagram) -> Diagram:
    """The source of a derivation or program; a diagram itself."""
    return diagram_of(getattr(subject, "source", subject), "the source")
