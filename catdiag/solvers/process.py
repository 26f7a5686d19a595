"""A solver as a function from goals to answers, in a child process that can be killed.

Work is bounded by a resource count, so that answers do not depend on the speed of the machine; a wall-clock
stop is kept as well, and raises `SolverInterrupted`, since running out of time is no answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from catdiag.kernel.terms import Term, term_data
from catdiag.solvers.models import countermodel

# How long one waits at a time, in seconds: an exception raised in this thread from another is heard in between.
_SLICE = 0.05


class SolverInterrupted(Exception):
    """The solver was stopped by the clock, or died: there is no answer."""


class Solver:
    """A solver behind a pipe. Call it with hypotheses and a goal; started at the first call, `close` ends it.

    `rlimit` bounds the work on a goal in the solver's own units, `seconds` the time. Answers are kept, so that one
    goal is put once; `goals` counts them.
    """

    name: ClassVar[str]
    package: ClassVar[str]

    def __init__(self, rlimit: int = 20_000_000, seconds: float = 20.0) -> None:
        self.rlimit, self.seconds = rlimit, seconds
        self.goals = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._answers: dict[tuple[tuple[Term, ...], Term], str] = {}

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

    def start(self) -> None:
        """Starts the child process, so that it loads while other work goes on."""
        if self._process is None:
            self._process = subprocess.Popen(
                # -P: the folder that one stands in is not imported from. A process group of its own: Ctrl-C is for us.
                [sys.executable, "-P", "-m", "catdiag.solvers.worker", self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
            self._finalizer = weakref.finalize(self, _end, self._process, self._owner)

    def close(self) -> None:
        """Ends the child process."""
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._finalizer = None

    def answer(self, hypotheses: Sequence[Term], goal: Term) -> str:
        """`yes` where the hypotheses entail the goal, `no` where something refutes it, `unknown` elsewhere."""
        if self._owner != os.getpid():
            # A fork of the process that started it: the pipe is the other one's.
            self._process, self._finalizer, self._owner, self._lock = None, None, os.getpid(), threading.Lock()
        place = (tuple(hypotheses), goal)
        with self._lock:
            if place not in self._answers and countermodel(hypotheses, goal) is not None:
                self._answers[place] = "no"
            if place not in self._answers:
                self._answers[place] = self._put([term_data(h) for h in hypotheses], term_data(goal))
            return self._answers[place]

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
            "rlimit": self.rlimit,
            "seconds": self.seconds,
        }
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
                raise SolverInterrupted(f"{self.name} ended without an answer")
            found = json.loads(reply)
            # An answer to anything but this goal would be the worst of answers.
            if found.get("number") != number or found.get("answer") not in ("yes", "no", "unknown"):
                raise SolverInterrupted(f"{self.name} said {str(found)[:200]}")
            return str(found["answer"])
        except BrokenPipeError as error:
            self.close()
            raise SolverInterrupted(f"{self.name} ended") from error
        except ValueError as error:
            self.close()
            raise SolverInterrupted(f"{self.name} said what cannot be read: {error}") from error
        except BaseException:
            # Whatever ended the wait, the answer still to come belongs to nobody.
            self.close()
            raise

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + self.seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
            while not selector.select(min(_SLICE, self.seconds)):
                if time.monotonic() > until:
                    raise SolverInterrupted(f"no answer from {self.name} within {self.seconds:g} s")


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
