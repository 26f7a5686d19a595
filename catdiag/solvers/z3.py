"""Solvers as functions from goals to answers, each in a child process that can be killed.

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
import weakref
from collections.abc import Sequence
from typing import Any

from catdiag.kernel.terms import Term, term_data


class SolverInterrupted(Exception):
    """The solver was stopped by the clock, or died: there is no answer."""


class Z3:
    """z3 behind a pipe. Call it with hypotheses and a goal; started at the first call, `close` ends it.

    >>> from catdiag.kernel.terms import fn, num, size
    >>> with Z3() as ask:
    ...     ask([fn("le", num(2), size("n"))], fn("lt", num(1), size("n")))
    True
    """

    def __init__(self, rlimit: int = 20_000_000, seconds: float = 20.0) -> None:
        self.rlimit, self.seconds = rlimit, seconds
        self.goals = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._answers: dict[tuple[tuple[Term, ...], Term], str] = {}

    def __enter__(self) -> Z3:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, in this process or another, has the same limits and a child process of its own."""
        return Z3, (self.rlimit, self.seconds)

    def start(self) -> None:
        """Starts the child process, so that it loads while other work goes on."""
        if self._process is None:
            self._process = subprocess.Popen(
                # -P: the folder that one stands in is not imported from. A process group of its own: Ctrl-C is for us.
                [sys.executable, "-P", "-m", "catdiag.solvers.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
            self._finalizer = weakref.finalize(self, _end, self._process)

    def close(self) -> None:
        """Ends the child process."""
        if self._finalizer is not None:
            self._finalizer()
        self._process = self._finalizer = None

    def __call__(self, hypotheses: Sequence[Term], goal: Term) -> bool:
        """Whether the hypotheses entail the goal; False also where the solver cannot tell."""
        place = (tuple(hypotheses), goal)
        if place not in self._answers:
            request = {
                "hypotheses": [term_data(h) for h in hypotheses],
                "goal": term_data(goal),
                "rlimit": self.rlimit,
            }
            self._answers[place] = self._put(json.dumps(request))
            self.goals += 1
        return self._answers[place] == "yes"

    def _put(self, text: str) -> str:
        self.start()
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise SolverInterrupted("the solver did not start")
        try:
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                if not selector.select(self.seconds):
                    raise SolverInterrupted(f"no answer from z3 within {self.seconds} s")
            reply = process.stdout.readline().decode().strip()
        except (BrokenPipeError, SolverInterrupted) as error:
            self.close()
            raise SolverInterrupted(str(error) or "z3 ended") from error
        if not reply or reply.startswith("error"):
            self.close()
            raise SolverInterrupted(reply or "z3 ended without an answer")
        return reply


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # What was still to be written to a process that has died is lost.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
