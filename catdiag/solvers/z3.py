"""z3, whose answers the prover and the checker go by."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from catdiag.solvers.child_process import Solver, SolverInterrupted


class Z3(Solver):
    """z3 behind a pipe. Call it with hypotheses and a goal; started at the first call, `close` ends it.

    >>> from catdiag.kernel.terms import fn, num, size
    >>> with Z3() as ask:
    ...     ask([fn("le", num(2), size("n"))], fn("lt", num(1), size("n")))
    True
    """

    name: ClassVar[str] = "z3"
    package: ClassVar[str] = "z3-solver"


_OF_THREAD = threading.local()


def shared() -> Z3:
    """The solver for those in this thread who bring none; it ends when the last of them does.

    A process for each derivation would take longer to start than most proofs do.

    >>> first = shared()
    >>> first is shared()
    True
    """
    known: weakref.ref[Z3] | None = getattr(_OF_THREAD, "solver", None)
    found = None if known is None else known()
    if found is None:
        found = Z3()
        _OF_THREAD.solver = weakref.ref(found)
    return found


@contextmanager
def borrowed() -> Iterator[Z3]:
    """The solver of this thread for one question; its process ends with the block, unless it was there before."""
    ask = shared()
    there = ask.started
    try:
        yield ask
    finally:
        if not there:
            ask.close()


__all__ = ["Z3", "SolverInterrupted", "borrowed", "shared"]
