"""What a proof comes to: a `Theorem` with its certificate, `Refuted`, `Undecided` or `Interrupted`.

A theorem is made where the checker has replayed its certificate, and nowhere else; one that travels is checked again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catdiag.kernel.checker import CheckedTheorem as Checked
from catdiag.kernel.checker import Checker
from catdiag.kernel.terms import KernelError
from catdiag.solvers.child_process import SolverInterrupted, checking
from catdiag.solvers.z3 import Z3
from catdiag.util.display import AsHTML
from catdiag.util.errors import CatdiagError
from catdiag.util.files import write_whole

if TYPE_CHECKING:
    from catdiag.prover.refute.counterexample_data import Counterexample

_SHOWN = 6


class Refuted(CatdiagError):
    """Two diagrams differ: `.counterexample` has `.sizes`, `.arrays`, `.lhs` and `.rhs`."""

    def __init__(self, message: str, counterexample: Counterexample) -> None:
        super().__init__(f"{message}\n{counterexample}")
        self.counterexample = counterexample


class Undecided(CatdiagError):
    """Neither a proof nor a counterexample was found: `.goal` is where the proof stopped."""

    def __init__(self, message: str, goal: str) -> None:
        super().__init__(f"{message}; it stopped at\n  {goal}")
        self.goal = goal


class Interrupted(CatdiagError):
    """Time was up, or the solver was stopped, before there was a verdict."""


@dataclass(frozen=True)
class Theorem(AsHTML):
    """A checked equation between two diagrams, with the certificate that proves it.

    `.statement`, `.hypotheses`, `.defined` (what the left side needs to be defined), `.conditions` (what the right
    side needs beyond that; empty unless `.conditional`), `.witness`, `.vacuous`, `.axioms`, `.trivial`, `.seconds`,
    `.certificate`, and `.taken`: in words, the arrays that the certificate takes as further inputs (see
    `catdiag.prover.congruence`).
    """

    checked: Checked
    certificate: dict[str, Any] = field(repr=False)
    seconds: float = 0.0
    taken: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """The equation as text."""
        return self.checked.statement

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """What is assumed of sizes."""
        return self.checked.hypotheses

    @property
    def defined(self) -> tuple[str, ...]:
        """What the left side needs to be defined: a hypothesis of the theorem."""
        return self.checked.defined

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the right side needs beyond that."""
        return self.checked.conditions

    @property
    def conditional(self) -> bool:
        """Whether there are such conditions."""
        return self.checked.conditional

    @property
    def trivial(self) -> bool:
        """Whether the two sides are one term."""
        return self.checked.trivial

    @property
    def witness(self) -> str:
        """An input that meets all that the theorem takes for granted, as text; empty where none was found."""
        return self.checked.witness

    @property
    def vacuous(self) -> bool | None:
        """True where nothing meets what the theorem takes for granted, False with a witness, None if not known."""
        return self.checked.vacuous

    @property
    def verdict(self) -> str:
        """ "proved", "proved, on a condition", or "vacuous": of what nothing satisfies, it is said and is no proof.

        Words for people; the fields say the same to programs.
        """
        return "vacuous" if self.vacuous else "proved, on a condition" if self.conditional else "proved"

    @property
    def axioms(self) -> tuple[str, ...]:
        """The axioms used."""
        return self.checked.axioms

    def __reduce__(self) -> tuple[Any, ...]:
        """What travels is the certificate: where it arrives it is checked again."""
        return checked_again, (self.certificate, self.seconds, self.taken)

    def __copy__(self) -> Theorem:
        """Itself: nothing in it changes."""
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> Theorem:
        """Itself: nothing in it changes."""
        return self

    def save(self, path: str) -> None:
        """Writes the certificate, whole or not at all; raises OSError where that cannot be done."""
        write_whole(path, self.text())

    def text(self) -> str:
        """The certificate as JSON, with the theorem in words for people; the checker does not look at them."""
        about = [*str(self.checked).splitlines(), *(f"  where {text}" for text in self.taken)]
        told = {"about": about, **self.certificate}
        fields = (json.dumps(part, ensure_ascii=False, separators=(",", ":")) for part in told.values())
        return "{" + ",\n".join(f"{json.dumps(name)}:{field}" for name, field in zip(told, fields, strict=True)) + "}\n"

    def __str__(self) -> str:
        lines = [str(self.checked), *(f"  where {text}" for text in self.taken[:_SHOWN])]
        more = len(self.taken) - _SHOWN
        return "\n".join(lines + ([f"  and likewise for {more} more"] if more > 0 else []))


class NotAProof(CatdiagError):
    """What came back from another process as a proof or a counterexample is none."""


def checked_again(certificate: Any, seconds: float = 0.0, taken: Sequence[str] = ()) -> Theorem:
    """The theorem of a certificate that came from elsewhere: how a pickled theorem is read. Raises NotAProof."""
    data = plain(certificate)
    try:
        with Z3() as ask:
            return Theorem(Checker(checking(ask)).check(data), data, float(seconds), tuple(map(str, taken)))
    except KernelError as error:
        raise NotAProof(f"what came from another process as a proof was refused: {error}") from error
    except SolverInterrupted as error:
        raise Interrupted(f"the check of a proof from another process was interrupted: {error}") from error


def plain(data: Any) -> Any:
    """Data after it was written as JSON and read again: lists, objects, texts and numbers, and nothing in their guise.

    Raises NotAProof for what cannot be written.
    """
    try:
        return json.loads(json.dumps(data))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotAProof(f"what came back is no plain data: {error}") from error
