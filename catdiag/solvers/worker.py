"""A solver's own process: reads goals on its standard input, answers on its standard output, a line each.

A goal is `{"number": k, "hypotheses": [term, …], "goal": term, "rlimit": n, "seconds": s}`, terms as nested lists; the
answer is `{"number": k, "answer": a}` with `yes`, `no` (a counterexample exists) or `unknown`, or `error` in place of
`answer`. Goals are built with the solvers' constructors, never parsed from text.
"""

from __future__ import annotations

import importlib
import json
import os
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


def main(name: str) -> None:
    """Answers goals by the solver of that name until the input ends."""
    # Only answers go where answers are expected; what a solver may print goes to the errors.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    _bounded(MEMORY)
    answer = importlib.import_module(f"catdiag.solvers.{name}_goals").answer
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        # The process ends itself when its time is up, even if the one that asked is gone and the solver hears nothing.
        signal.setitimer(signal.ITIMER_REAL, float(request["seconds"]) + 1)
        reply: dict[str, Any] = {"number": request["number"]}
        try:
            reply["answer"] = answer(request)
        except ValueError as error:
            reply["error"] = str(error)
        except RecursionError:
            reply["answer"] = "unknown"
        except MemoryError:
            reply["error"] = "out of memory"
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
