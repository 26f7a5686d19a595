"""Facts: conditions that hold for all values of their variables; and what follows from the form of a term alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catdiag.kernel.terms import LOGICAL, ONE, ZERO, Data, Term, fn, substitute


@dataclass(frozen=True)
class Fact:
    """A condition that holds for all values of its variables in their ranges (None: all) that satisfy the guards.

    The condition is `real t`, `0 < t`, `0 ≤ t`, `t ≠ 0`, or any other that holds as it stands.
    """

    variables: tuple[tuple[str, Term | None], ...]
    guards: tuple[Term, ...]
    condition: Term

    def at(self, put: dict[tuple[str, Data], Term]) -> Fact:
        """The fact with terms for sizes."""
        ranges = tuple((name, None if n is None else substitute(n, put)) for name, n in self.variables)
        guards = tuple(substitute(g, put) for g in self.guards)
        return Fact(ranges, guards, substitute(self.condition, put))


def real(t: Term) -> Term:
    """The condition that a value is not −∞."""
    return fn("real", t)


def nonzero(t: Term) -> Term:
    """The condition that a value is not 0."""
    return fn("not", fn("eq", t, ZERO))


def negate(c: Term) -> Term:
    """The opposite of a condition."""
    if c.op == "not":
        return c.args[0]
    if c.op == "lt":
        return fn("le", c.args[1], c.args[0])
    if c.op == "le":
        return fn("lt", c.args[1], c.args[0])
    return fn("not", c)


def arithmetic(t: Term) -> bool:
    """Whether a term or condition is about sizes, indices and integers only, so that its numbers are integers."""
    if t.op == "num":
        return isinstance(t.data, type(ONE.data)) and t.data == int(t.data)  # type: ignore[arg-type]
    if t.op in ("size", "idx", "true", "false"):
        return True
    return t.op in ("add", "mul", "div", "lt", "le", "eq", "and", "or", "not") and all(arithmetic(a) for a in t.args)


def natural(t: Term) -> bool:
    """Whether a term is a natural number by its form."""
    if t.op == "num":
        return isinstance(t.data, (int, type(ONE.data))) and t.data == int(t.data) and t.data >= 0  # type: ignore[arg-type]
    return t.op in ("size", "idx") or (t.op in ("add", "mul", "div") and all(natural(a) for a in t.args))


def fresh(ranges: Mapping[str, Term]) -> str:
    """An index name that no user can write and that is not in use."""
    return f"%{len(ranges)}"


def match(pattern: Term, t: Term, variables: set[str]) -> dict[str, Term] | None:
    """The values of index variables for which a pattern equals a term, or None. First-order one-way matching, without
    backtracking."""
    values: dict[str, Term] = {}
    stack = [(pattern, t)]
    while stack:
        p, u = stack.pop()
        if p.op == "idx" and p.data in variables:
            if u.loose or values.setdefault(str(p.data), u) != u or u.op in LOGICAL:
                return None
        elif p.op != u.op or p.data != u.data or len(p.args) != len(u.args):
            return None
        else:
            stack.extend(zip(p.args, u.args, strict=True))
    return values
