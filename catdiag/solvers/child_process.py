"""A solver as a function from goals to answers, in a child process that can be killed.

An answer depends on the goal, the solver's version and the work that it may take, and on nothing else: not on the
machine, its load, or what was asked before. Work is counted by the solver itself, in units of its own. Whoever searches
for a proof has a quarter of the work that whoever checks it has (`searching`, `checking`), so that what was found is
never refused for want of work. A clock runs only where the caller gave seconds; it raises `SolverInterrupted`, which is
no answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias

from catdiag.kernel.context import Ask
from catdiag.kernel.polynomial import TooLarge
from catdiag.kernel.terms import Term, term_data
from catdiag.solvers.countermodels import countermodel

# How long one waits at a time, in seconds: an exception raised in this thread from another is heard in between.
_SLICE = 0.05


# How much more work a check may take than the search for what is checked.
_MARGIN = 4
# How many goals that take all the work they may a search or a check may put; of others accordingly more.
_GOALS = 8


class SolverInterrupted(Exception):
    """The solver was stopped by a clock that the caller set, or died: there is no answer."""


class _EndedTooSoon(Exception):
    """The child process was ended by the signal that says that nobody waits for it, though somebody does.

    The system sends that signal when something comes on the pipe, after it has woken the child up: on a busy machine
    the child may have begun to work on the goal by then. So the goal is put again.
    """


Place: TypeAlias = "tuple[tuple[Term, ...], Term]"


class Solver:
    """A solver behind a pipe. Call it with hypotheses and a goal; started at the first call, `close` ends it.

    `rlimit` bounds the work on a goal in the solver's own units; `seconds`, if given, the time. Answers are kept, so
    that one goal is put once; `goals` counts those that were put, `work` what they took, where the solver says it.
    """

    name: ClassVar[str]
    package: ClassVar[str]

    def __init__(self, rlimit: int = 20_000_000, seconds: float | None = None) -> None:
        self.rlimit, self.seconds = rlimit, seconds
        self._goal_rlimit = rlimit  # of the goal that is being put
        self.goals = self.work = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._answers: dict[tuple[Place, int], tuple[str, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, in this process or another, has the same limits and a child process of its own."""
        return type(self), (self.rlimit, self.seconds)

    @classmethod
    def version(cls) -> str | None:
        """The version that is installed; None where there is none."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version(cls.package)
        except PackageNotFoundError:
            return None

    @property
    def started(self) -> bool:
        """Whether its child process is there."""
        return self._process is not None and self._owner == os.getpid()

    def start(self) -> None:
        """Starts the child process, so that it loads while other work goes on."""
        if self._process is None:
            self._process = subprocess.Popen(
                # -P: the folder that one stands in is not imported from. A process group of its own: Ctrl-C is for us.
                [sys.executable, "-P", "-m", "catdiag.solvers.solver_worker", self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,
                env=environment(),
            )
            self._finalizer = weakref.finalize(self, _end, self._process, self._owner)

    def close(self) -> None:
        """Ends the child process."""
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._finalizer = None

    def answer(self, hypotheses: Sequence[Term], goal: Term) -> str:
        """`yes` where the hypotheses entail the goal, `no` where something refutes it, `unknown` elsewhere."""
        return self.worked_out(hypotheses, goal, self.rlimit)[0]

    def worked_out(self, hypotheses: Sequence[Term], goal: Term, rlimit: int) -> tuple[str, int]:
        """The answer that is found with so much work, and the work: the same whether it was known before or not."""
        if self._owner != os.getpid():
            # A fork of the process that started it: the pipe is the other one's.
            self._process, self._finalizer, self._owner, self._lock = None, None, os.getpid(), threading.Lock()
        place = (tuple(hypotheses), goal)
        with self._lock:
            known = self._known(place, rlimit)
            if known is None:
                before, self._goal_rlimit = self.work, rlimit
                refuted = countermodel(hypotheses, goal) is not None
                found = "no" if refuted else self._put([term_data(h) for h in hypotheses], term_data(goal))
                known = self._answers[place, rlimit] = found, self.work - before
            return known

    def _known(self, place: Place, rlimit: int) -> tuple[str, int] | None:
        """What was answered before, if it would be answered now: what was found with less is found with more."""
        if (place, rlimit) in self._answers:
            return self._answers[place, rlimit]
        found = self._answers.get((place, rlimit // _MARGIN))
        return None if found is None or found[0] == "unknown" else found

    def __call__(self, hypotheses: Sequence[Term], goal: Term) -> bool:
        """Whether the hypotheses entail the goal; False also where the solver cannot tell."""
        return self.answer(hypotheses, goal) == "yes"

    def _put(self, hypotheses: list[Any], goal: Any) -> str:
        self.goals += 1
        number = self.goals
        request = {
            "number": number,
            "hypotheses": hypotheses,
            "goal": goal,
            "rlimit": self._goal_rlimit,
            "seconds": self.seconds,
        }
        while True:
            try:
                return self._asked(request)
            except _EndedTooSoon:
                self.close()

    def _asked(self, request: dict[str, Any]) -> str:
        try:
            self.start()
            process = self._process
            if process is None or process.stdin is None or process.stdout is None:
                raise SolverInterrupted(f"{self.name} did not start")
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            self._wait(process)
            reply = process.stdout.readline()
            if not reply:
                raise BrokenPipeError
            found = json.loads(reply)
            # An answer to anything but this goal would be the worst of answers.
            if found.get("number") != request["number"] or found.get("answer") not in ("yes", "no", "unknown"):
                raise SolverInterrupted(f"{self.name} said {str(found)[:200]}")
            self.work += int(found.get("work") or 0)
            return str(found["answer"])
        except BrokenPipeError as error:
            if self._process is not None and self._process.wait() == -signal.SIGIO:
                raise _EndedTooSoon from error
            self.close()
            raise SolverInterrupted(f"{self.name} ended without an answer") from error
        except ValueError as error:
            self.close()
            raise SolverInterrupted(f"{self.name} said what cannot be read: {error}") from error
        except BaseException:
            # Whatever ended the wait, the answer still to come belongs to nobody.
            self.close()
            raise

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        until = None if self.seconds is None else time.monotonic() + self.seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
            while not selector.select(_SLICE if self.seconds is None else min(_SLICE, self.seconds)):
                if until is not None and time.monotonic() > until:
                    raise SolverInterrupted(f"no answer from {self.name} within {self.seconds:g} s")


class Allowance:
    """A solver for one search or one check, with so much work for each goal, and for all of them together."""

    def __init__(self, solver: Solver, each: int) -> None:
        self.name, self.solver, self.each, self.left = solver.name, solver, each, _GOALS * each

    def __call__(self, hypotheses: Sequence[Term], goal: Term) -> bool:
        """Whether the hypotheses entail the goal. Raises TooLarge where the work is used up."""
        if self.left <= 0:
            raise TooLarge(f"the goals take {self.name} too much work")
        answer, work = self.solver.worked_out(hypotheses, goal, self.each)
        self.left -= work
        return answer == "yes"


def searching(ask: Ask) -> Ask:
    """A solver for the search for one proof; what is none that counts its work stays as it is."""
    return Allowance(ask, ask.rlimit // _MARGIN) if isinstance(ask, Solver) else ask


def checking(ask: Ask) -> Ask:
    """A solver for one check."""
    return Allowance(ask, ask.rlimit) if isinstance(ask, Solver) else ask


def environment() -> dict[str, str]:
    """The environment of a process of ours, which imports what is imported here: these sources too, from wherever."""
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = [p for p in sys.path if p]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path if ours in path else [*path, ours])}


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner != os.getpid():
        return
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # What was still to be written to a process that has died is lost.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
