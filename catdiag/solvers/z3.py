"""z3, whose answers the prover and the checker go by."""

from __future__ import annotations

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


__all__ = ["Z3", "SolverInterrupted"]
