"""Expressions of Python as trees, and how they are printed.

Kernels are made of them (`catdiag.codegen.kernel_tree`). Where nothing reads a program, its expressions may be `Code`:
text as it stands.

Parentheses are nodes (`Parens`), set by `bracketed` where they are needed, so that printing decides nothing.

>>> total = joined(Name("a"), "+", joined(Name("b"), "-", Number(1)))
>>> print(total)
a + b - 1
>>> total.left  # a - (b - c) would have parentheses: the text groups to the left, and so does the tree
BinaryOperation(left=Name(id='a'), sign='+', right=Name(id='b'))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

CHOICE, EITHER, BOTH, NOT, COMPARE, OR, XOR, AND, SHIFT, PLUS, TIMES, SIGN, POWER, CALL, ATOM = range(15)
"""Python's precedences, the tightest last: `if`, `or`, `and`, `not`, comparisons, `|`, `^`, `&`, shifts, sums,
products, signs, powers, calls, and names and brackets."""
LEVELS: Mapping[str, int] = {
    "+": PLUS, "-": PLUS, "*": TIMES, "/": TIMES, "//": TIMES, "%": TIMES, "@": TIMES, "&": AND, "|": OR, "^": XOR,
    "<<": SHIFT, ">>": SHIFT, "**": POWER,
}  # fmt: skip
"""The precedences of operators of two operands."""
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in")


class PythonExpression:
    """An expression; `level` is its precedence: the higher, the tighter it binds."""

    @property
    def level(self) -> int:
        """The precedence."""
        return ATOM

    @property
    def text(self) -> str:
        """The source, which is made once."""
        found: str | None = self.__dict__.get("_made")
        if found is None:
            found = self.__dict__["_made"] = self._text()
        return found

    def _text(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Code(PythonExpression):
    """Source as it stands, of this precedence."""

    source: str
    binds: int = ATOM

    @property
    def level(self) -> int:
        return self.binds

    def _text(self) -> str:
        return self.source


@dataclass(frozen=True)
class Unread(Code):
    """An expression whose value nothing depends on: a function without a name, a message."""


@dataclass(frozen=True)
class Name(PythonExpression):
    """A name."""

    id: str

    def _text(self) -> str:
        return self.id


@dataclass(frozen=True)
class Number(PythonExpression):
    """A constant: a number, a truth value, a string or None."""

    value: object

    @property
    def level(self) -> int:
        return SIGN if self.text.startswith("-") else ATOM

    def _text(self) -> str:
        return f'"{self.value}"' if isinstance(self.value, str) else repr(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and self.text == other.text  # 1, 1.0 and True are equal in Python

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True)
class Attribute(PythonExpression):
    """An attribute: `of.name`."""

    of: PythonExpression
    name: str

    def _text(self) -> str:
        return f"{self.of}.{self.name}"


@dataclass(frozen=True)
class FunctionCall(PythonExpression):
    """A call, with arguments by position and by name."""

    function: PythonExpression
    args: tuple[PythonExpression, ...] = ()
    keywords: tuple[tuple[str, PythonExpression], ...] = ()

    @property
    def arguments(self) -> str:
        """The arguments as they are printed."""
        return ", ".join([*map(str, self.args), *(f"{n}={v}" for n, v in self.keywords)])

    def _text(self) -> str:
        return f"{self.function}({self.arguments})"


@dataclass(frozen=True)
class Whole(PythonExpression):
    """The slice `:` in a subscript."""

    def _text(self) -> str:
        return ":"


@dataclass(frozen=True)
class Subscript(PythonExpression):
    """A subscript, with a part for each index: `of[parts]`."""

    of: PythonExpression
    parts: tuple[PythonExpression, ...]

    def _text(self) -> str:
        return f"{self.of}[{', '.join(map(str, self.parts))}]"


@dataclass(frozen=True)
class TupleOf(PythonExpression):
    """A tuple."""

    parts: tuple[PythonExpression, ...]

    def _text(self) -> str:
        return f"({self.parts[0]},)" if len(self.parts) == 1 else f"({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class ListOf(PythonExpression):
    """A list."""

    parts: tuple[PythonExpression, ...]

    def _text(self) -> str:
        return f"[{', '.join(map(str, self.parts))}]"


@dataclass(frozen=True)
class Parens(PythonExpression):
    """An expression in parentheses."""

    of: PythonExpression

    def _text(self) -> str:
        return f"({self.of})"


@dataclass(frozen=True)
class Unary(PythonExpression):
    """A sign before an operand: -, +, ~ or not."""

    sign: str
    of: PythonExpression

    @property
    def level(self) -> int:
        return NOT if self.sign == "not" else SIGN

    def _text(self) -> str:
        return f"not {self.of}" if self.sign == "not" else f"{self.sign}{self.of}"


@dataclass(frozen=True)
class BinaryOperation(PythonExpression):
    """A sign between two operands: one of `LEVELS`."""

    left: PythonExpression
    sign: str
    right: PythonExpression

    @property
    def level(self) -> int:
        return LEVELS[self.sign]

    def _text(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True)
class Compare(PythonExpression):
    """A chain of comparisons: `first sign operand sign operand …`."""

    first: PythonExpression
    rest: tuple[tuple[str, PythonExpression], ...]

    @property
    def level(self) -> int:
        return COMPARE

    def _text(self) -> str:
        return " ".join([str(self.first), *(f"{sign} {operand}" for sign, operand in self.rest)])


@dataclass(frozen=True)
class Logical(PythonExpression):
    """Conditions with `and` or `or` between them."""

    sign: str
    parts: tuple[PythonExpression, ...]

    @property
    def level(self) -> int:
        return BOTH if self.sign == "and" else EITHER

    def _text(self) -> str:
        return f" {self.sign} ".join(map(str, self.parts))


@dataclass(frozen=True)
class IfElse(PythonExpression):
    """`yes if test else no`."""

    test: PythonExpression
    yes: PythonExpression
    no: PythonExpression

    @property
    def level(self) -> int:
        return CHOICE

    def _text(self) -> str:
        return f"{self.yes} if {self.test} else {self.no}"


def bracketed(of: PythonExpression, level: int) -> PythonExpression:
    """An expression, in parentheses if it binds less tightly than `level`.

    >>> print(bracketed(Code("a + b", PLUS), TIMES))
    (a + b)
    """
    return of if of.level >= level else Parens(of)


def joined(left: PythonExpression, sign: str, right: PythonExpression) -> BinaryOperation:
    """The expression that `left sign right` means, without parentheses: Python groups signs of a level to the left."""
    if isinstance(right, BinaryOperation) and right.level == LEVELS[sign]:
        return BinaryOperation(joined(left, sign, right.left), right.sign, right.right)
    return BinaryOperation(left, sign, right)


def joined_all(sign: str, parts: Sequence[PythonExpression]) -> PythonExpression:
    """One or more expressions with a sign between them."""
    first, *rest = parts
    for part in rest:
        first = joined(first, sign, part)
    return first


def compared(left: PythonExpression, sign: str, right: PythonExpression) -> Compare:
    """A comparison."""
    return Compare(left, ((sign, right),))


@lru_cache(maxsize=1024)
def dotted(path: str) -> PythonExpression:
    """A name, or an attribute of one.

    >>> dotted("tl.dot")
    Attribute(of=Name(id='tl'), name='dot')
    """
    first, *rest = path.split(".")
    found: PythonExpression = Name(first)
    for name in rest:
        found = Attribute(found, name)
    return found


def length_of(text: str) -> PythonExpression:
    """A length by its name, or a number.

    >>> length_of("64"), length_of("s_x")
    (Number(value=64), Name(id='s_x'))
    """
    return Number(int(text)) if text.isdigit() else Name(text)


def call(path: str, *args: PythonExpression, **keywords: PythonExpression) -> FunctionCall:
    """A call of a function by its dotted name."""
    return FunctionCall(dotted(path), args, tuple(keywords.items()))


def method(of: PythonExpression, name: str, *args: PythonExpression) -> FunctionCall:
    """A call of a method, of an expression that is put in parentheses where it needs them."""
    return FunctionCall(Attribute(bracketed(of, CALL), name), args)
