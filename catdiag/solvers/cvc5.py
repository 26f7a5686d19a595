"""cvc5, a second opinion on what z3 said; it need not be installed."""

from __future__ import annotations

from typing import ClassVar

from catdiag.solvers.child_process import Solver


class Cvc5(Solver):
    """cvc5 behind a pipe, as `Z3` is: put the same goals, written in its own terms.

    >>> Cvc5().name
    'cvc5'
    """

    name: ClassVar[str] = "cvc5"
    package: ClassVar[str] = "cvc5"

    def __init__(self, rlimit: int = 200_000, seconds: float | None = None) -> None:
        super().__init__(rlimit, seconds)
