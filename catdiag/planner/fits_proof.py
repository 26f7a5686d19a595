"""That a tile fits, whatever the sizes: a polynomial bound decided by z3.

>>> from catdiag.category.integer_polynomial import IntPolynomial
>>> bytes_held = IntPolynomial.of("d") * IntPolynomial.of("g_q") + IntPolynomial.of("g_q")
>>> prove_bound([bytes_held], 1000, {"d": 9, "g_q": 100}).statement
'for all 1 ≤ d ≤ 9, 1 ≤ g_q ≤ 100: d*g_q + g_q ≤ 1000'
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.util.errors import CatdiagError

_RLIMIT = 20_000_000  # z3's own count of steps, so that the outcome is the same on every machine


@dataclass(frozen=True)
class Proof:
    """A bound that z3 proved: no counterexample exists. `seconds` is how long it took.

    `levels` are the bounds of each level by name, if it is of levels: of them `statement` is all together. Without a
    `statement` nothing is proved: torch places its products on the chip.
    """

    statement: str
    seconds: float
    levels: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"statement": self.statement, "seconds": self.seconds}


def prove_bound(
    amounts: Sequence[IntPolynomial], limit: int, tops: Mapping[str, int], bottoms: Mapping[str, int] | None = None
) -> Proof:
    """Proves that each amount is at most `limit` when every symbol lies between 1 (or its bottom) and its top.

    It is decided here and not in a child process, whose start would take longer than these small problems do.
    Symbols are real in the proof, which proves it for whole ones. Sizes that the amounts do not mention are
    unbounded. Raises CatdiagError if it is false or z3 gives up, KeyboardInterrupt where it is interrupted.
    """
    import z3

    return _proof(amounts, limit, tops, bottoms or {}, z3.Context())


def _proof(
    amounts: Sequence[IntPolynomial], limit: int, tops: Mapping[str, int], bottoms: Mapping[str, int], context: Any
) -> Proof:
    """`prove_bound` in a context of z3's, which takes longer to make than most proofs."""
    import z3

    start = time.perf_counter()
    used = sorted({s for amount in amounts for s in amount.symbols()})
    least = {name: bottoms.get(name, 1) for name in used}
    unknowns = {name: z3.Real(name, context) for name in used}
    bounds = [c for name, v in unknowns.items() for c in (v >= least[name], v <= tops[name])]
    for amount in amounts:
        # QF_NRA on its own: the default strategy tries slower ones first.
        solver = z3.SolverFor("QF_NRA", context)
        solver.set("rlimit", _RLIMIT)
        solver.add(*bounds, polynomial(amount, unknowns, context) > limit)
        answer = solver.check()
        # While z3 works, Ctrl-C is its own: it stops, answers "unknown", and nobody else hears of it.
        if answer == z3.unknown and "interrupted" in solver.reason_unknown():
            raise KeyboardInterrupt
        if answer != z3.unsat:
            raise CatdiagError(f"could not prove {amount} ≤ {limit} ({answer}): the tile may not fit")
    ranges = ", ".join(f"{least[name]} ≤ {name} ≤ {tops[name]}" for name in used)
    shown = " and ".join(f"{amount} ≤ {limit}" for amount in amounts) or f"0 ≤ {limit}"
    return Proof(f"for all {ranges}: {shown}" if used else shown, time.perf_counter() - start)


def prove_levels(levels: Mapping[str, tuple[Sequence[IntPolynomial], int]], tops: Mapping[str, int]) -> Proof:
    """Proves that what is allocated from point to point fits, of each level by name: the amounts, and the limit. Tensor
    memory that nothing is in is passed over. Raises as `prove_bound` does."""
    import z3

    context = z3.Context()
    proofs = {
        name: _proof(amounts, limit, tops, {}, context)
        for name, (amounts, limit) in levels.items()
        if amounts or name != "TMEM"
    }
    said = "; ".join(f"{name}: {found.statement}" for name, found in proofs.items())
    return Proof(
        f"{said}; whatever the other sizes",
        sum(found.seconds for found in proofs.values()),
        {name: found.statement for name, found in proofs.items()},
    )


def polynomial(amount: IntPolynomial, unknowns: Mapping[str, Any], context: Any) -> Any:
    """An amount as a z3 term in the given unknowns."""
    import z3

    total = z3.RealVal(0, context)
    for monomial, coefficient in amount.terms.items():
        product = z3.RealVal(coefficient, context)
        for name in monomial:
            product = product * unknowns[name]
        total = total + product
    return total
