"""Outcomes of a proof: a `Theorem` with its certificate, `Refuted`, `Undecided` or `Interrupted`.

A theorem is made only after the checker has replayed its certificate; one that is unpickled is checked again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catdiag.kernel.checker import CheckedTheorem as Checked
from catdiag.kernel.checker import Checker
from catdiag.kernel.terms import KernelError
from catdiag.prover.condition_formulas import TheoremFormulas, formulas_of_theorem
from catdiag.solvers.child_process import SolverInterrupted, checking
from catdiag.solvers.z3 import borrowed
from catdiag.util.display import AsHTML
from catdiag.util.errors import CatdiagError
from catdiag.util.files import write_whole

if TYPE_CHECKING:
    from catdiag.prover.refute.counterexample_data import Counterexample

_SHOWN = 6


class Refuted(CatdiagError):
    """Two diagrams differ: `.counterexample` has `.sizes`, `.arrays`, `.lhs` and `.rhs`; `.verdict` says it in words.

    >>> import catdiag as cd
    >>> twice, square = cd.algorithm("x")(lambda A: A + A), cd.algorithm("x")(lambda A: A * A)
    >>> try:
    ...     cd.prove(twice, square)
    ... except cd.Refuted as refuted:
    ...     refuted.counterexample.lhs != refuted.counterexample.rhs
    True
    """

    def __init__(self, message: str, counterexample: Counterexample) -> None:
        super().__init__(f"{message}\n{counterexample}")
        self.verdict, self.counterexample = message, counterexample


class Undecided(CatdiagError):
    """Neither a proof nor a counterexample was found: `.goal` is where the proof stopped, `.verdict` says it in words.

    >>> import catdiag as cd
    >>> try:
    ...     raise cd.Undecided("a goal is open", goal="x < y")
    ... except cd.Undecided as undecided:
    ...     print(undecided.goal)
    x < y
    """

    def __init__(self, message: str, goal: str) -> None:
        super().__init__(f"{message}; it stopped at\n  {goal}")
        self.verdict, self.goal = message, goal


class Interrupted(CatdiagError):
    """The time was up, or the solver was stopped, before there was a verdict."""


@dataclass(frozen=True)
class Theorem(AsHTML):
    """A checked equation between two diagrams, with the certificate that proves it.

    `.statement` and `.hypotheses` say what is proved. `.defined` is what the left side needs to be defined, a
    hypothesis. `.conditions` is what the right side needs beyond that; empty unless `.conditional`. `.witness` is an
    input that meets all hypotheses, `.vacuous` says whether there is none. `.axioms` are the axioms used, `.trivial`
    says whether both sides are one term, `.seconds` is the time of the check, `.certificate` the proof. `.taken` says
    in words which arrays the certificate takes as further inputs (see `catdiag.prover.congruence`), `.notes` how
    imported programs were read, and where their library gives other numbers.

    >>> import catdiag as cd
    >>> theorem = cd.prove(cd.algorithm("x")(lambda A: A + A), cd.algorithm("x")(lambda A: 2 * A))
    >>> theorem.trivial, theorem.conditional, theorem.vacuous
    (False, False, False)
    """

    checked: Checked
    certificate: dict[str, Any] = field(repr=False)
    seconds: float = 0.0
    taken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """The equation as text."""
        return self.checked.statement

    @property
    def hypotheses(self) -> tuple[str, ...]:
        """The assumptions about sizes."""
        return self.checked.hypotheses

    @property
    def defined(self) -> tuple[str, ...]:
        """The conditions under which the left side is defined: hypotheses of the theorem."""
        return self.checked.defined

    @property
    def conditions(self) -> tuple[str, ...]:
        """The further conditions that the right side needs to be defined."""
        return self.checked.conditions

    @cached_property
    def formulas(self) -> TheoremFormulas:
        """The hypotheses and conditions as formulas."""
        return formulas_of_theorem(self.checked)

    @property
    def conditional(self) -> bool:
        """Whether there are such further conditions."""
        return self.checked.conditional

    @property
    def trivial(self) -> bool:
        """Whether the two sides are the same term."""
        return self.checked.trivial

    @property
    def witness(self) -> str:
        """An input that meets all hypotheses of the theorem, as text; empty where none was found."""
        return self.checked.witness

    @property
    def vacuous(self) -> bool | None:
        """True if no input meets the hypotheses, False with a witness, None if it is not known."""
        return self.checked.vacuous

    @property
    def verdict(self) -> str:
        """The verdict in words: "proved", "proved, on a condition", or "vacuous", which is no proof.

        These are words for readers; programs use the other fields.
        """
        return "vacuous" if self.vacuous else "proved, on a condition" if self.conditional else "proved"

    @property
    def axioms(self) -> tuple[str, ...]:
        """The axioms used."""
        return self.checked.axioms

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the certificate only: it is checked again when it is unpickled."""
        return checked_again, (self.certificate, self.seconds, self.taken, self.notes)

    def __copy__(self) -> Theorem:
        """Itself: a theorem is immutable."""
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> Theorem:
        """Itself: a theorem is immutable."""
        return self

    def save(self, path: str) -> None:
        """Writes the certificate atomically; raises OSError where that is not possible."""
        write_whole(path, self.text())

    def text(self) -> str:
        """The certificate as JSON, with the theorem in words for readers; the checker ignores the words."""
        about = [*str(self.checked).splitlines(), *(f"  where {text}" for text in self.taken)]
        data = {"about": about, **self.certificate}
        fields = (json.dumps(part, ensure_ascii=False, separators=(",", ":")) for part in data.values())
        return "{" + ",\n".join(f"{json.dumps(name)}:{field}" for name, field in zip(data, fields, strict=True)) + "}\n"

    def __str__(self) -> str:
        lines = [str(self.checked), *(f"  where {text}" for text in self.taken[:_SHOWN])]
        more = len(self.taken) - _SHOWN
        lines += [f"  and likewise for {more} more"] if more > 0 else []
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


class NotAProof(CatdiagError):
    """A proof or counterexample from another process that is wrong."""


def checked_again(
    certificate: Any, seconds: float = 0.0, taken: Sequence[str] = (), notes: Sequence[str] = ()
) -> Theorem:
    """The theorem of a certificate from another process, checked here: how a pickled theorem is read.
    Raises NotAProof.
    """
    data = plain(certificate)
    try:
        with borrowed() as ask:
            checked = Checker(checking(ask)).check(data)
            return Theorem(checked, data, float(seconds), tuple(map(str, taken)), tuple(map(str, notes)))
    except KernelError as error:
        raise NotAProof(f"what came from another process as a proof was refused: {error}") from error
    except SolverInterrupted as error:
        raise Interrupted(f"the check of a proof from another process was interrupted: {error}") from error


def plain(data: Any) -> Any:
    """The data after a round trip through JSON: lists, dicts, texts and numbers, and no subclasses of these.

    Raises NotAProof for data that cannot be written.
    """
    try:
        return json.loads(json.dumps(data))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotAProof(f"what came back is no plain data: {error}") from error
