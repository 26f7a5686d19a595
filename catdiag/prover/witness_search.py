"""Witnesses of theorems, and a soundness alarm: proved programs are run on a few inputs.

A witness is an input that meets all hypotheses of a theorem, so that the theorem is not vacuous. It is found by drawing
inputs, and evaluated by the checker. Both programs must agree on the same inputs: if they do not, a rule, a solver or
the semantics is wrong, and no theorem is returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from catdiag.kernel.terms import KernelError, Term, leaves
from catdiag.kernel.witness import met, satisfied
from catdiag.prover.assumptions import holds, meeting
from catdiag.prover.refute.counterexample_data import NotACounterexample, plain
from catdiag.prover.refute.counterexample_search import CounterexampleSearch
from catdiag.prover.refute.program_comparison import MOST_CELLS, nested
from catdiag.prover.refute.validate import replay

if TYPE_CHECKING:
    from catdiag.kernel.checker import CheckedTheorem, Checker
    from catdiag.kernel.definedness import Obligation
    from catdiag.prover.refute.candidate_inputs import TrialPoint
    from catdiag.prover.refute.counterexample_data import Counterexample

_COUNT = 16
_TRIES = 6
_OPERATIONS = 1_500_000
_NODES = 400
_GROWTH = 12
_VALUES = "read", "holds", "apply"
"""Terms of which sizes and positions alone do not give the value."""


class SoundnessError(RuntimeError):
    """A proved statement is false on an input: a bug of this library. `.counterexample` is the input."""

    def __init__(self, message: str, counterexample: Counterexample) -> None:
        super().__init__(f"{message}\n{counterexample}")
        self.counterexample = counterexample


def is_examined(statement: Mapping[str, Any]) -> bool:
    """Whether a witness of a statement is looked for: its programs are small enough."""
    return sum(len(statement[side]["nodes"]) for side in ("left", "right")) <= _NODES


def examined(
    statement: Mapping[str, Any], checker: Checker, theorem: CheckedTheorem
) -> tuple[CheckedTheorem, dict[str, Any] | None]:
    """The last theorem of a checker, with a witness if one is found, and that witness as plain data; without one it is
    asked whether the theorem is about nothing.

    Raises SoundnessError where the two programs differ on one of a few inputs.
    """
    if not is_examined(statement):
        return checker.examined(theorem), None
    search = CounterexampleSearch(statement, _TRIES, _OPERATIONS, 1, ())
    found = search.examine(_shapes(search, checker.hypotheses), _COUNT)
    for point in _of_parts(statement, found.points) if checker.cuts else found.points:
        witness = as_data(point, search)
        # It raises KernelError for what is no input of these sorts: a search that goes wrong proves nothing.
        met((), search.declared, witness)
        with suppress(KernelError):
            theorem = checker.witnessed(theorem, search.declared, witness)
            break
    else:
        # An input that does not certainly meet the hypotheses says nothing about the theorem.
        return checker.examined(theorem), None
    if found.counterexample is not None:
        try:
            counterexample = replay(statement, found.counterexample)
        except NotACounterexample:
            return theorem, witness
        raise SoundnessError(
            "what was proved is false on these numbers: this is an error of catdiag, please report it", counterexample
        )
    return theorem, witness


def _of_parts(statement: Mapping[str, Any], points: Sequence[TrialPoint]) -> Iterator[TrialPoint]:
    """Inputs of a program of parts, behind the first of them one of the smallest sizes: the checker evaluates all that
    parts make, which may be too much at others."""
    yield from points[:1]
    least = CounterexampleSearch(statement, _TRIES, _OPERATIONS, 1, ())
    yield from least.examine(meeting(least.symbols, least.assume, count=1), 1).points
    yield from points[1:]


def _shapes(search: CounterexampleSearch, hypotheses: Sequence[Obligation]) -> list[dict[str, int]]:
    """The smallest sizes that are all at least 2; if there are none, those of which the most are at least 2.

    If they do not meet the hypotheses on sizes and positions, larger ones that do.
    """
    large = meeting(search.symbols, search.assume, least=2, count=1)
    small = [] if large else meeting(search.symbols, search.assume)
    small.sort(key=lambda sizes: (-sum(n >= 2 for n in sizes.values()), sum(sizes.values())))
    found = large or small[:1]
    of_sizes = [_narrowed(o) for o in hypotheses if not any(leaves(t, op) for t in _terms(o) for op in _VALUES)]
    grown = [_grown(sizes, of_sizes) for sizes in found]
    chosen = [sizes for sizes in grown if all(holds(c, sizes) for c in search.assume)] or found
    # Where an axis may be empty, that case is tried too.
    least = meeting(search.symbols, search.assume, count=1)
    # With many axes, sizes of 2 already give many elements.
    if all(search.cells(sizes) > MOST_CELLS for sizes in chosen):
        chosen = least
    return chosen + [sizes for sizes in least if 0 in sizes.values()]


def _terms(owed: Obligation) -> list[Term]:
    return [owed.condition, *owed.guards, *(n for _, n in owed.ranges)]


def _narrowed(owed: Obligation) -> Obligation:
    """The same without the indices that it does not speak of, over which it would be evaluated again and again."""
    said = {i for t in (owed.condition, *owed.guards) for i in leaves(t, "idx")}
    kept: list[tuple[str, Term]] = []
    for name, n in reversed(owed.ranges):
        if name in said:
            said |= leaves(n, "idx")
            kept.insert(0, (name, n))
    return replace(owed, ranges=tuple(kept))


def _grown(sizes: dict[str, int], of_sizes: Sequence[Obligation]) -> dict[str, int]:
    """Sizes increased on the larger side of inequalities that do not hold, for a bounded number of rounds."""
    for _ in range(_GROWTH):
        failing = [o.condition for o in of_sizes if not satisfied([o], sizes, {}, {})]
        rising = {s for c in failing if c.op in ("lt", "le") for s in leaves(c.args[1], "size")}
        if not rising:
            break
        sizes = {name: n + (name in rising) for name, n in sizes.items()}
    return sizes


def as_data(point: TrialPoint, search: CounterexampleSearch) -> dict[str, Any]:
    """An input as plain data: rationals and −∞ as text."""
    functions = {}
    for name, function in point.functions.items():
        functions[name] = [str(Fraction(c)) for c in getattr(function, "coefficients", ())]
    names = [str(d["name"]) for d in search.declared]
    return {
        "sizes": dict(point.sizes),
        "arrays": {name: plain(nested(a)) for name, a in zip(names, point.arrays, strict=True)},
        "functions": functions,
    }


__all__ = ["SoundnessError", "as_data", "examined"]
