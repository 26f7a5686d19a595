"""How a language writes scalar functions: each dialect has one table from their names to these notations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from catdiag.codegen.syntax import (
    ATOM,
    COMPARE,
    COMPARISONS,
    PLUS,
    SIGN,
    TIMES,
    Code,
    FunctionCall,
    PythonExpression,
    Unary,
    bracketed,
    compared,
    dotted,
    joined,
)


@dataclass(frozen=True)
class Infix:
    """A sign between two operands, and the precedences that the operands need without parentheses."""

    sign: str
    left: int
    right: int


@dataclass(frozen=True)
class Template:
    """A text with a place `{0}`, `{1}`, … for each operand, its precedence, and the one that the operands need."""

    text: str
    level: int = ATOM
    operand: int = 0


@dataclass(frozen=True)
class Prefix:
    """A call of a function of this name; `further` are its arguments after the operands."""

    name: str
    further: tuple[PythonExpression, ...] = ()


@dataclass(frozen=True)
class Composed:
    """An expression that is made of the operands, which need this precedence."""

    of: Callable[..., PythonExpression]
    operand: int = 0


Notation: TypeAlias = Infix | Template | Prefix | Composed


def grouped(sign: str, level: int) -> Infix:
    """A sign that groups to the left, as − and / do: `a - (b - c)` needs its parentheses."""
    return Infix(sign, level, level + 1)


def associative(sign: str, level: int) -> Infix:
    """A sign of an associative operation, as + and *."""
    return Infix(sign, level, level)


def comparison(sign: str) -> Infix:
    """A sign that does not chain, as ==: a comparison of comparisons has parentheses on both sides."""
    return Infix(sign, COMPARE + 1, COMPARE + 1)


OPERATORS: Mapping[str, Notation] = {
    "add": associative("+", PLUS), "sub": grouped("-", PLUS), "mul": associative("*", TIMES),
    "div": grouped("/", TIMES), "neg": Composed(lambda a: Unary("-", a), SIGN), "eq": comparison("=="),
    "ne": comparison("!="), "lt": comparison("<"), "le": comparison("<="),
}  # fmt: skip
"""The functions that are operators of Python, in all languages that are embedded in it."""


def written(notation: Notation, operands: Sequence[PythonExpression]) -> PythonExpression:
    """A function of operands, as a notation writes it.

    >>> print(written(grouped("-", PLUS), [Code("a"), Code("b + c", PLUS)]))
    a - (b + c)
    >>> print(written(Prefix("exp"), [Code("a + b", PLUS)]))
    exp(a + b)
    """
    match notation:
        case Infix(sign, need_left, need_right):
            left, right = bracketed(operands[0], need_left), bracketed(operands[1], need_right)
            return compared(left, sign, right) if sign in COMPARISONS else joined(left, sign, right)
        case Template(text, level, need):
            return Code(text.format(*(bracketed(o, need) for o in operands)), level)
        case Prefix(name, further):
            return FunctionCall(dotted(name), (*operands, *further))
        case Composed(of, need):
            return of(*(bracketed(o, need) for o in operands))
