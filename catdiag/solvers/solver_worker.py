"""A solver's own process: reads goals on its standard input, answers on its standard output, a line each.

A goal is `{"number": k, "hypotheses": [term, …], "goal": term, "rlimit": n, "seconds": s}`, terms as nested lists and
`seconds` null where no clock is to run; the answer is `{"number": k, "answer": a, "work": n}` with `yes`, `no` (a
counterexample exists) or `unknown`, or `error` in place of `answer`, and the work in the solver's own units, null where
it does not say. Goals are built with the solvers' constructors, never parsed from text.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import select
import signal
import sys
from typing import Any

MEMORY = 8 * 2**30
"""Bytes of address space that a solver may have: a goal may be anybody's, and the machine is somebody else's too."""


def _bounded(most: int) -> None:
    """A lower limit that is there already stays."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    lower = [n for n in (most, soft, hard) if n != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(lower), hard))


def _tied(handle: int) -> None:
    """From now on whoever asks may end this process in the middle of a goal by closing the pipe, or by dying.

    The system sends SIGIO when something happens on the pipe; while a goal is worked on nothing else comes on it. A
    thread would not do: some solvers keep Python's lock for as long as they work.
    """
    fcntl.fcntl(handle, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_ASYNC)


def _parent_gone(handle: int) -> bool:
    """Whether the one that asked is gone; if it goes later, while SIGIO is not ignored, so is this process."""
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    pipe = select.poll()
    pipe.register(handle, select.POLLHUP)
    return bool(pipe.poll(0))


def main(name: str) -> None:
    """Answers goals by the solver of that name until the input ends."""
    # Only answers go where answers are expected; what a solver may print goes to the errors.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for kind, action in ((signal.SIGALRM, signal.SIG_DFL), (signal.SIGIO, signal.SIG_IGN)):
        signal.signal(kind, action)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {kind})
    _bounded(MEMORY)
    worked_out = importlib.import_module(f"catdiag.solvers.{name}_encoding").worked_out
    _tied(0)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        if _parent_gone(0):
            return
        if request["seconds"] is not None:
            signal.setitimer(signal.ITIMER_REAL, float(request["seconds"]) + 1)
        reply: dict[str, Any] = {"number": request["number"]}
        try:
            reply["answer"], reply["work"] = worked_out(request)
        except ValueError as error:
            reply["error"] = str(error)
        except RecursionError:
            reply["answer"] = "unknown"
        except MemoryError:
            reply["error"] = "out of memory"
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
