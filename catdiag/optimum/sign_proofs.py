"""Inequalities between algebraic functions, decided by z3 within a work limit; an undecided one counts as not shown.

Sizes are real and at least one, capacities real and positive, so that the results hold for integers. Roots become
unknowns with their defining equations, so that every question is about polynomials.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sympy
from sympy import Expr, Symbol
from sympy.core.relational import Relational

RLIMIT = 500_000
"""The limit in z3's own units of work, so that the outcome is the same on every machine."""


class SignSolver:
    """Questions about sizes and capacities; `rlimit` bounds the work of each.

    >>> a, b = sympy.symbols("a b", positive=True)
    >>> signs = SignSolver()
    >>> signs.impossible([sympy.sqrt(a) > b, a < b]), signs.impossible([sympy.sqrt(a) < b, a > b])
    (True, False)
    """

    def __init__(self, capacities: Collection[Symbol] = (), rlimit: int = RLIMIT) -> None:
        import z3

        self._z3, self._context = z3, z3.Context()
        self._capacities, self._rlimit = frozenset(capacities), rlimit
        self._known: dict[Expr, Any] = {}
        self._facts: dict[Expr, list[Any]] = {}

    def impossible(self, relations: Sequence[Relational], none_of: Sequence[Sequence[Relational]] = ()) -> bool:
        """Whether no sizes satisfy all `relations` and violate each of the conjunctions `none_of`.

        `False` means that it is not shown. Raises KeyboardInterrupt where it is interrupted.
        """
        solver = self._z3.SolverFor("QF_NRA", self._context)
        solver.set("rlimit", self._rlimit)
        try:
            claims = [self._relation(r) for r in relations]
            claims += [
                self._z3.Not(
                    self._z3.And(*(self._relation(r) for r in conjunction), self._z3.BoolVal(True, self._context))
                )
                for conjunction in none_of
            ]
        except NotImplementedError:
            return False
        sides = (side for r in (*relations, *(r for c in none_of for r in c)) for side in _sides(r))
        used = {e for side in sides for e in sympy.preorder_traversal(side)}
        for expression in sorted(used & set(self._facts), key=sympy.default_sort_key):
            solver.add(*self._facts[expression])
        solver.add(*claims)
        answer = solver.check()
        # While z3 runs, it catches Ctrl-C itself and answers "unknown": the interrupt must be raised again here.
        if answer == self._z3.unknown and "interrupted" in solver.reason_unknown():
            raise KeyboardInterrupt
        return bool(answer == self._z3.unsat)

    def _relation(self, relation: Relational) -> Any:
        if relation in (sympy.true, sympy.false):
            return self._z3.BoolVal(relation == sympy.true, self._context)
        left, right = (self._term(side) for side in _sides(relation))
        return {">=": left >= right, ">": left > right, "<=": left <= right, "<": left < right, "!=": left != right}[
            relation.rel_op
        ]

    def _term(self, e: Expr) -> Any:
        if e not in self._known:
            self._known[e] = self._translated(e)
        return self._known[e]

    def _translated(self, e: Expr) -> Any:
        z3 = self._z3
        if e.is_Symbol:
            symbol = self._fresh(e)
            self._facts[e] = [symbol > 0 if e in self._capacities else symbol >= 1]
            return symbol
        if e.is_Rational:
            return z3.RealVal(str(e), self._context)
        if e.is_Add or e.is_Mul:
            parts = [self._term(argument) for argument in e.args]
            total = parts[0]
            for part in parts[1:]:
                total = total + part if e.is_Add else total * part
            return total
        if isinstance(e, (sympy.Max, sympy.Min)):
            total = self._term(e.args[0])
            for argument in e.args[1:]:
                other = self._term(argument)
                total = z3.If((total >= other) == isinstance(e, sympy.Max), total, other)
            return total
        if e.is_Pow and e.exp.is_Rational:
            return self._power(e)
        raise NotImplementedError(f"{e} is no algebraic function")

    def _power(self, e: Expr) -> Any:
        """A power as an unknown.

        The root of a negative number and the inverse of zero are set to zero: the conditions of a regime exclude them
        separately.
        """
        z3, base = self._z3, self._term(e.base)
        degree, unit = int(e.exp.q), base
        facts = []
        if degree > 1:
            unit = self._fresh(sympy.Pow(e.base, sympy.Rational(1, degree), evaluate=False))
            facts += [unit >= 0, z3.If(base >= 0, _integral(unit, degree) == base, unit == 0)]
        raised = _integral(unit, abs(int(e.exp.p)))
        if e.exp < 0:
            inverse = self._fresh(e)
            facts.append(z3.If(raised == 0, inverse == 0, inverse * raised == 1))
            raised = inverse
        self._facts[e] = facts
        return raised

    def _fresh(self, e: Expr) -> Any:
        return self._z3.Real(f"{len(self._known)}:{e}", self._context)


def _sides(relation: Relational) -> tuple[Expr, Expr]:
    """The two sides of a relation, multiplied by a positive denominator: each division would cost an unknown."""
    if relation in (sympy.true, sympy.false):
        return sympy.S.Zero, sympy.S.Zero
    above, below = sympy.fraction(sympy.together(relation.lhs - relation.rhs))
    if relation.rel_op != "!=" and below.is_positive:
        return above, sympy.S.Zero
    return relation.lhs, relation.rhs


def _integral(base: Any, exponent: int) -> Any:
    result = base
    for _ in range(exponent - 1):
        result = result * base
    return result
