"""How a language writes scalar functions: each dialect has one table from their names to these notations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Text: TypeAlias = tuple[str, int]
"""An expression and its precedence: the higher, the tighter it binds."""
ATOM, CALL, SIGN, TIMES, PLUS, AND, OR, COMPARE = 9, 8, 7, 6, 5, 4, 3, 2
"""The precedences of Python: names and brackets, calls, signs, products, sums, `&`, `|`, comparisons."""


@dataclass(frozen=True)
class Infix:
    """A sign between two operands, its precedence, and the precedences that the operands need without parentheses."""

    sign: str
    level: int
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
    """A call of a function of this name."""

    name: str


Notation: TypeAlias = Infix | Template | Prefix


def grouped(sign: str, level: int) -> Infix:
    """A sign that groups to the left, as − and / do: `a - (b - c)` needs its parentheses."""
    return Infix(sign, level, level, level + 1)


def associative(sign: str, level: int) -> Infix:
    """A sign of an associative operation, as + and *."""
    return Infix(sign, level, level, level)


def comparison(sign: str, level: int) -> Infix:
    """A sign that does not chain, as ==: a comparison of comparisons has parentheses on both sides."""
    return Infix(sign, level, level + 1, level + 1)


OPERATORS: Mapping[str, Notation] = {
    "add": associative("+", PLUS), "sub": grouped("-", PLUS), "mul": associative("*", TIMES),
    "div": grouped("/", TIMES), "neg": Template("-{0}", SIGN, SIGN), "eq": comparison("==", COMPARE),
    "ne": comparison("!=", COMPARE), "lt": comparison("<", COMPARE), "le": comparison("<=", COMPARE),
}  # fmt: skip
"""The functions that are operators of Python, in all languages that are embedded in it."""


def bracketed(text: Text, level: int) -> str:
    """An expression, in parentheses if it binds less tightly than `level`.

    >>> bracketed(("a + b", 5), 6)
    '(a + b)'
    """
    return text[0] if text[1] >= level else f"({text[0]})"


def written(notation: Notation, operands: Sequence[Text]) -> Text:
    """A function of operands, as a notation writes it, with its precedence.

    >>> written(grouped("-", 5), [("a", 9), ("b + c", 5)]), written(Prefix("exp"), [("a + b", 5)])
    (('a - (b + c)', 5), ('exp(a + b)', 9))
    """
    if isinstance(notation, Infix):
        left, right = operands
        return f"{bracketed(left, notation.left)} {notation.sign} {bracketed(right, notation.right)}", notation.level
    if isinstance(notation, Template):
        return notation.text.format(*(bracketed(o, notation.operand) for o in operands)), notation.level
    return f"{notation.name}({', '.join(o[0] for o in operands)})", ATOM
