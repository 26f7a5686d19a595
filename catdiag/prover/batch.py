"""`prove_all`: many equations, optionally in worker processes; nothing that a worker returns is trusted.

Only plain data travels: a statement to the worker; a certificate, a counterexample or a goal back. A certificate is
checked again in this process, against the statement made here. So the executor may run anywhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

from catdiag.kernel.checker import Checker
from catdiag.kernel.terms import KernelError
from catdiag.prover.api import (
    decide,
    given_sides,
    how_false,
    in_time,
    prove_with,
    statement_of,
    title_of,
)
from catdiag.prover.assumptions import AssumptionError
from catdiag.prover.certification import Subject
from catdiag.prover.congruence import has_generators
from catdiag.prover.original_programs import OriginalPrograms
from catdiag.prover.outcomes import Interrupted, NotAProof, Refuted, Theorem, Undecided, plain
from catdiag.prover.refute.counterexample_data import NotACounterexample, as_data, of_data
from catdiag.prover.refute.validate import replay
from catdiag.solvers.child_process import checking
from catdiag.solvers.z3 import Z3
from catdiag.util.errors import require
from catdiag.util.executors import Failed, Progress, each

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from catdiag.kernel.context import Ask

Outcome: TypeAlias = "Theorem | Refuted | Undecided | Interrupted"
Pair: TypeAlias = "tuple[Subject, Subject] | tuple[Subject, Subject, Sequence[str]]"


def prove_all(
    pairs: Iterable[Pair],
    *,
    limit: float | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """The outcome of `prove` for each pair of diagrams, in order: a Theorem, or the Refuted, Undecided or Interrupted
    that it would raise.

    A pair may have assumptions as a third item. `limit` is the time per pair, in seconds. `executor` is any
    `concurrent.futures.Executor` whose workers search the proofs. Without it, they are searched in this process, as are
    those of diagrams with uninterpreted boxes. A theorem or counterexample that a worker found is checked again in this
    process; NotAProof is raised where it is wrong. A pair whose worker failed is tried again here. `progress` is called
    with the numbers of finished pairs and of all pairs. Raises TypeMismatch, AssumptionError and ValueError as `prove`
    does.

    >>> import catdiag as cd
    >>> f = cd.algorithm("x ->")(lambda A: cd.sum(2 * A, "x"))
    >>> g = cd.algorithm("x ->")(lambda A: 2 * cd.sum(A, "x"))
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as executor:
    ...     outcomes = prove_all([(f, g), (f, f, ["x >= 2"])], executor=executor)
    >>> [type(outcome).__name__ for outcome in outcomes]
    ['Theorem', 'Theorem']
    """
    given = list(pairs) if isinstance(pairs, Iterable) else None
    for pair in given or ():
        listed = isinstance(pair, (tuple, list)) and len(pair) in (2, 3)
        require(listed, "a pair", pair, "two diagrams, or two diagrams and a list of assumptions")
    require(given is not None, "pairs", pairs, "pairs of diagrams, such as [(f, g)]")
    goals = [_Goal(*pair) for pair in given or ()]
    away = [goal for goal in goals if executor is not None and not goal.by_congruence]
    with Z3() as ask, closing(each(attempt, [g.task(limit) for g in away], executor=executor)) as coming:
        outcomes = []
        for done, goal in enumerate(goals, 1):
            found = Failed((), "kept here") if executor is None or goal.by_congruence else next(coming)
            # A worker that failed gives no answer: the search is made here instead.
            outcome = goal.here(ask, limit) if isinstance(found, Failed) else goal.believed(ask, found, limit)
            outcomes.append(goal.confirmed(outcome))
            if progress is not None:
                progress(done, len(goals))
        return outcomes


class _Goal:
    """An equation to be proved: its statement, made in this process, and its title."""

    def __init__(self, f: Subject, g: Subject, assume: Sequence[str] = ()) -> None:
        self.originals = OriginalPrograms.of(f, g)
        f, g = given_sides(f, g, assume)
        self.f, self.g, self.assume, self.title = f, g, assume, title_of(f, g)
        # With uninterpreted boxes the cuts are found during the proof, so that there is no statement in advance.
        self.by_congruence = has_generators(f) or has_generators(g)
        self.statement = {} if self.by_congruence else statement_of(f, g, assume)

    def confirmed(self, outcome: Outcome) -> Outcome:
        """The outcome, unless two imported programs run otherwise."""
        if self.originals is None:
            return outcome

        def again() -> Theorem:
            if isinstance(outcome, Theorem):
                return outcome
            raise outcome

        try:
            return self.originals.confirmed(again, bool(self.assume))
        except (Refuted, Undecided, Interrupted) as found:
            return found

    def task(self, limit: float | None) -> tuple[Any, ...]:
        """The arguments of a worker's task."""
        return self.statement, self.title, limit

    def here(self, ask: Ask, limit: float | None) -> Outcome:
        """The outcome of a search in this process."""
        try:
            return prove_with(ask, self.f, self.g, self.assume, limit)
        except (Refuted, Undecided, Interrupted) as outcome:
            return outcome

    def believed(self, ask: Ask, found: Any, limit: float | None) -> Outcome:
        """The outcome that a worker returned, checked. Raises NotAProof where it is wrong."""
        found = plain(found)
        kind = found.get("outcome") if isinstance(found, dict) else None
        if kind == "proved":
            try:
                return in_time(limit, self.title, lambda: self._checked(ask, found))
            except Interrupted as outcome:
                return outcome
        if kind == "refuted":
            try:
                return in_time(limit, self.title, lambda: self._replayed(found))
            except Interrupted as outcome:
                return outcome
        if kind == "undecided":
            return Undecided(f"{self.title} is undecided", str(found.get("goal")))
        if kind == "interrupted":
            return Interrupted(str(found.get("message")))
        if kind == "wrong use":
            raise AssumptionError(str(found.get("message")))
        raise NotAProof(f"what came back for {self.title} is no outcome: {str(found)[:200]}")

    def _checked(self, ask: Ask, found: Mapping[str, Any]) -> Theorem:
        certificate = found.get("certificate")
        if not isinstance(certificate, dict):
            raise NotAProof(f"what came back as a proof of {self.title} is no certificate")
        if json.dumps(certificate.get("statement"), sort_keys=True) != json.dumps(self.statement, sort_keys=True):
            raise NotAProof(f"what came back as a proof of {self.title} is a certificate of something else")
        try:
            checked = Checker(checking(ask)).check(certificate)
        except KernelError as error:
            raise NotAProof(f"what came back as a proof of {self.title} was refused: {error}") from error
        seconds = found.get("seconds")
        return Theorem(checked, certificate, float(seconds) if isinstance(seconds, (int, float)) else 0.0)

    def _replayed(self, found: Mapping[str, Any]) -> Refuted:
        try:
            counterexample = replay(self.statement, of_data(found.get("counterexample")))
        except NotACounterexample as error:
            raise NotAProof(f"what came back as a counterexample to {self.title} is none: {error.message}") from error
        return Refuted(how_false(self.title, counterexample), counterexample)


def attempt(statement: dict[str, Any], title: str, limit: float | None) -> dict[str, Any]:
    """The outcome of `prove` for a statement, as plain data: the task of a worker."""
    start = time.perf_counter()
    with Z3() as ask:
        try:
            theorem = in_time(limit, title, lambda: decide(ask, statement, title))
        except Refuted as error:
            return {"outcome": "refuted", "counterexample": as_data(error.counterexample)}
        except Undecided as error:
            return {"outcome": "undecided", "goal": error.goal}
        except Interrupted as error:
            return {"outcome": "interrupted", "message": error.message}
        except AssumptionError as error:
            return {"outcome": "wrong use", "message": error.message}
    return {"outcome": "proved", "certificate": theorem.certificate, "seconds": time.perf_counter() - start}
