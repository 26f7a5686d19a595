"""Conditions of theorems as formulas: the kernel's terms, in the names with which the kernel prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from catdiag.category.formula import (
    FALSE,
    MINUS_INFINITY,
    TRUE,
    Formula,
    added,
    call,
    infix,
    negative,
    number,
    symbol,
    where,
)
from catdiag.kernel.checker import CheckedTheorem
from catdiag.kernel.definedness import Obligation
from catdiag.kernel.terms import ONE, Printer, Term, has_own_name, is_name


@dataclass(frozen=True)
class Condition:
    """A formula that holds where the `guards` do, for all indices in the `ranges`.

    >>> a = symbol("a")
    >>> print(Condition(infix("≠", a, number(0)), (infix("<", a, symbol("n")),), (infix("<", symbol("i"), a),)))
    a ≠ 0 where a < n for all i < a
    """

    said: Formula
    guards: tuple[Formula, ...] = ()
    ranges: tuple[Formula, ...] = ()

    def __str__(self) -> str:
        guards = f" where {' and '.join(map(str, self.guards))}" if self.guards else ""
        return f"{self.said}{guards}" + (f" for all {', '.join(map(str, self.ranges))}" if self.ranges else "")


@dataclass(frozen=True)
class TheoremFormulas:
    """What a theorem assumes about sizes, what its left side needs to be defined, and what its right side needs beyond
    that.
    """

    hypotheses: tuple[Condition, ...]
    defined: tuple[Condition, ...]
    conditions: tuple[Condition, ...]


def formulas_of_theorem(theorem: CheckedTheorem) -> TheoremFormulas:
    """The hypotheses and conditions of a theorem as formulas, each once."""
    found = (dict.fromkeys(_condition(o, theorem.printer) for o in part) for part in theorem.obligations)
    return TheoremFormulas(*map(tuple, found))


def _condition(obligation: Obligation, printer: Printer) -> Condition:
    named = obligation.named(printer)
    return Condition(
        formula_of_condition(named.condition, printer),
        tuple(formula_of_condition(guard, printer) for guard in named.guards),
        tuple(infix("<", symbol(name), formula_of_term(n, printer)) for name, n in named.ranges),
    )


_INFIX = {"lt": "<", "le": "≤", "eq": "=", "and": "∧", "or": "∨"}


def formula_of_condition(c: Term, printer: Printer) -> Formula:
    """A condition as a formula."""
    if c.op == "not" and c.args[0].op == "eq":
        return infix("≠", *(formula_of_term(a, printer) for a in c.args[0].args))
    if c.op == "real":
        return infix(">", formula_of_term(c.args[0], printer), MINUS_INFINITY)
    return formula_of_term(c, printer)


def formula_of_term(t: Term, printer: Printer, depth: int = 0) -> Formula:
    """A term of the kernel under `depth` binders, as a formula."""
    if t.op == "num" and isinstance(t.data, Fraction):
        return number(t.data)
    if t.op in ("size", "idx"):
        return symbol(str(t.data) if t.op == "size" else printer.index(str(t.data)))
    if t.op == "b" and isinstance(t.data, int) and t.data < depth:
        return symbol(printer.variable(depth - 1 - t.data))
    if t.op == "big":
        bound, body = formula_of_term(t.args[0], printer, depth), formula_of_term(t.args[1], printer, depth + 1)
        return Formula("big", (infix("<", symbol(printer.variable(depth)), bound), body), t.data)
    args = [formula_of_term(a, printer, depth) for a in t.args]
    if t.op in ("read", "holds"):
        name = str(t.data)
        plain = not args and name not in printer.sizes and is_name(name)
        return symbol(name) if plain else Formula("indexed", (symbol(name), *args))
    if t.op == "mul":
        return _product(t.args, args)
    if t.op == "add":
        return reduce(added, args)
    if t.op in _INFIX:
        return infix(_INFIX[t.op], *args)
    if t.op == "inv":
        return infix("/", number(1), args[0])
    if t.op == "div":
        return Formula("floor", (args[0] if t.args[1] == ONE else infix("/", *args),))
    if t.op == "ite":
        return where(*args)
    if t.op in ("not", "sqrt") and len(args) == 1:
        return Formula({"not": "¬", "sqrt": "√"}[t.op], tuple(args))
    constant = {"bot": MINUS_INFINITY, "true": TRUE, "false": FALSE}.get(t.op)
    name = str(t.data) if t.op == "apply" else t.op
    name = name[1:] if has_own_name(t) and name[1:] not in printer.names else name
    return call(name, *args) if constant is None or args else constant


def _product(factors: Sequence[Term], formulas: Sequence[Formula]) -> Formula:
    """Factors, with an inverse after others as a quotient. What follows a quotient multiplies all of it."""
    if factors[0].op == "num" and factors[0].data == -1 and len(factors) > 1:
        return negative(_product(factors[1:], formulas[1:]))
    found = formulas[0]
    for factor, formula in zip(factors[1:], formulas[1:], strict=True):
        found = infix("/", found, formula.args[1]) if factor.op == "inv" else infix("·", found, formula)
    return found
