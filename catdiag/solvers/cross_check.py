"""Two solvers asked as one: a theorem stands only where the second does not contradict the first."""

from __future__ import annotations

from collections.abc import Sequence

from catdiag.kernel.terms import Term, show
from catdiag.solvers.child_process import Allowance, Solver, SolverInterrupted


class Disagreement(Exception):
    """Something refutes, for the second solver, what the first said is entailed."""


class Both:
    """A function from goals to answers, those of `first`; each goal that it affirms is put to `second` too.

    `agreed` and `undecided` count what the second said of them. Raises Disagreement where it has a counterexample.

    >>> from catdiag.kernel.terms import fn, num, size
    >>> from catdiag.solvers.z3 import Z3
    >>> with Z3() as first, Z3() as second:
    ...     ask = Both(first, second)
    ...     answer = ask([fn("le", num(2), size("n"))], fn("lt", num(1), size("n")))
    >>> answer, ask.agreed, ask.undecided
    (True, 1, 0)
    """

    def __init__(self, first: Solver | Allowance, second: Solver) -> None:
        self.first, self.second = first, second
        self.agreed = self.undecided = 0
        self._seen: set[tuple[tuple[Term, ...], Term]] = set()

    def __call__(self, hypotheses: Sequence[Term], goal: Term) -> bool:
        """Whether the first solver says that the hypotheses entail the goal."""
        if not self.first(hypotheses, goal):
            return False
        place = (tuple(hypotheses), goal)
        if place in self._seen:
            return True
        self._seen.add(place)
        try:
            answer = self.second.answer(hypotheses, goal)
        except SolverInterrupted:
            answer = "unknown"
        if answer == "no":
            given = ", ".join(map(show, hypotheses)) or "nothing"
            raise Disagreement(
                f"{self.second.name} has a counterexample to what {self.first.name} affirms: "
                f"from {given} follows {show(goal)}"
            )
        if answer == "yes":
            self.agreed += 1
        else:
            self.undecided += 1
        return True

    def __str__(self) -> str:
        """What the second solver said, in words."""
        count = self.agreed + self.undecided
        if not count:
            return f"{self.second.name} was put no goal"
        text = f"{self.second.name} agrees on {self.agreed} of {count} goal{'s' * (count != 1)}"
        return text + (f", {self.undecided} undecided" if self.undecided else "")
