"""Formulas as trees, and how they are printed.

A formula is an operation with formulas as arguments. Whoever makes one builds the tree; it is printed where it is
shown, by a dialect: `PLAIN` text here, LaTeX in `category.latex_formulas`, MathML in `draw.report.mathml`, labels of
pictures in `draw.label_formulas`. Nothing takes printed formulas apart. Parentheses come from one table of precedences,
`NOTATIONS`, in every dialect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any, Generic, TypeVar

from catdiag.category.formula_names import BIG, powers_of_ten
from catdiag.category.index_maps import Expr, read_off
from catdiag.category.integer_polynomial import IntPolynomial
from catdiag.category.types import composition

LOGIC, RELATION, SUM, FLOOR, STAR, PRODUCT, POWER, ATOM = range(8)
"""Precedences: what binds less tightly comes first. A big operator (Σ, max) binds as a relation: it reaches far."""


@dataclass(frozen=True)
class FormulaNotation:
    """The precedence of an operation, and those that its first and its further arguments need without parentheses.

    `sign` is the sign between the arguments, or before the only one, in plain text.
    """

    level: int = ATOM
    first: int = LOGIC
    further: int = LOGIC
    sign: str = ""


NOTATIONS: Mapping[str, FormulaNotation] = {
    "symbol": FormulaNotation(),
    "word": FormulaNotation(),
    "number": FormulaNotation(),
    "decimal": FormulaNotation(),
    "infinity": FormulaNotation(),
    "index": FormulaNotation(),
    "call": FormulaNotation(),
    "cases": FormulaNotation(),
    "→": FormulaNotation(LOGIC, sign="→"),
    "of": FormulaNotation(LOGIC, sign=" of "),
    ";": FormulaNotation(LOGIC, sign="; "),
    ",": FormulaNotation(LOGIC, sign=", "),
    "∨": FormulaNotation(LOGIC, RELATION, RELATION, " ∨ "),
    "∧": FormulaNotation(LOGIC, RELATION, RELATION, " ∧ "),
    **{sign: FormulaNotation(RELATION, SUM, SUM, f" {sign} ") for sign in "=≠<≤>≥"},
    "big": FormulaNotation(RELATION, LOGIC, PRODUCT),
    "+": FormulaNotation(SUM, SUM, SUM, " + "),
    "−": FormulaNotation(SUM, SUM, FLOOR, " - "),
    "negative": FormulaNotation(SUM, PRODUCT, sign="-"),
    "//": FormulaNotation(FLOOR, STAR, STAR, "//"),
    "*": FormulaNotation(STAR, STAR, STAR, "*"),
    "·": FormulaNotation(PRODUCT, PRODUCT, PRODUCT, "·"),
    "product": FormulaNotation(PRODUCT, PRODUCT, PRODUCT, "·"),
    "/": FormulaNotation(PRODUCT, PRODUCT, POWER, "/"),
    "power": FormulaNotation(POWER, ATOM, ATOM),
    "¬": FormulaNotation(ATOM, ATOM, sign="¬"),
    "√": FormulaNotation(ATOM, ATOM, sign="√"),
    "root": FormulaNotation(),
    "indexed": FormulaNotation(ATOM, ATOM),
    "row": FormulaNotation(LOGIC, sign=" "),
    "axes": FormulaNotation(ATOM, sign=" "),
    "coproduct": FormulaNotation(ATOM, sign="+"),
    "ceiling": FormulaNotation(),
    "floor": FormulaNotation(),
}
"""Every operation of formulas.

Leaves: "symbol" and "word" have their text as data, "number" its value, "decimal" that of a float as text; "index" is
the position along an axis. "→" and "of" are renamed axes and parts of axes inside brackets, "row" is axes in a row,
"axes" and "coproduct" the names of products and coproducts of axes. "·" has a dot, "product" is juxtaposed where that
is readable. "*" and "//" are arithmetic of sizes and positions. "big" is a reduction (data: its monoid) over all
arguments but the last, which is its body: over axes, or where a condition on an index holds. "cases" has a condition
and a value for each case, and last the value otherwise.
"""

INFIX = frozenset(op for op, notation in NOTATIONS.items() if notation.sign) - {
    "negative",
    "¬",
    "√",
    "axes",
    "coproduct",
}
"""The operations with a sign between their arguments."""


@dataclass(frozen=True)
class Formula:
    """An operation of `NOTATIONS` with its arguments. It prints as plain text; comparing two compares the trees.

    >>> from catdiag.category.formula import big, infix, symbol
    >>> a, b = symbol("a"), symbol("b")
    >>> print(infix("·", infix("+", a, b), big("sum", ["x"], infix("−", a, b))))
    (a + b)·(Σ_x (a - b))
    """

    op: str
    args: tuple[Formula, ...] = ()
    data: Any = ""
    printed: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The formula as plain text."""
        return PLAIN.print(self)

    @property
    def level(self) -> int:
        """How tightly it binds."""
        if self.op == "number":
            return SUM if self.data < 0 else ATOM if self.data.denominator == 1 or powers_of_ten(self.data) else PRODUCT
        if self.op in ("+", "−") and self.args[-1].op == "big":
            return RELATION  # the operator at its end reaches as far as it can
        return NOTATIONS[self.op].level

    def names(self) -> set[str]:
        """The identifiers in it."""
        found: set[str] = set()
        todo = [self]
        while todo:
            here = todo.pop()
            found |= {here.data} if here.op == "symbol" else set()
            todo += here.args
        return found

    def replaced(self, put: Mapping[Formula, Formula]) -> Formula:
        """The formula with subformulas replaced, all at once."""
        made: dict[int, Formula] = {}
        todo = [(self, False)]
        while todo:
            here, ready = todo.pop()
            if here in put:
                made[id(here)] = put[here]
            elif ready or not here.args:
                args = tuple(made[id(a)] for a in here.args)
                made[id(here)] = Formula(here.op, args, here.data) if args != here.args else here
            else:
                todo += [(here, True), *((a, False) for a in here.args)]
        return made[id(self)]


# -- makers -------------------------------------------------------------------------------------------


def symbol(name: str) -> Formula:
    """An identifier: an array, a size, a state; primes belong to it."""
    return Formula("symbol", (), name)


def word(text: str) -> Formula:
    """A word in a formula, such as true."""
    return Formula("word", (), text)


def number(value: Fraction | int) -> Formula:
    """A rational number."""
    return Formula("number", (), Fraction(value))


INFINITY, MINUS_INFINITY = Formula("infinity"), Formula("infinity", (), "-")
TRUE, FALSE = word("true"), word("false")


def infix(op: str, *args: Formula) -> Formula:
    """Arguments with a sign between them; one argument is itself."""
    return args[0] if len(args) == 1 else Formula(op, args)


def call(name: str, *args: Formula) -> Formula:
    """A function of arguments."""
    return Formula("call", args, name)


def where(condition: Formula, value: Formula, other: Formula) -> Formula:
    """A case distinction; cases of `other` are further lines of it."""
    return Formula("cases", (condition, value, *(other.args if other.op == "cases" else (other,))))


def big(monoid: str, axes: Iterable[str], body: Formula) -> Formula:
    """A reduction over axes."""
    return Formula("big", (*map(of_axis, axes), body), monoid)


def negated(of: Formula) -> Formula | None:
    """What a negation negates, or a negative number; None for other formulas."""
    if of.op == "number" and of.data < 0:
        return number(-of.data)
    return of.args[0] if of.op == "negative" else None


def negative(of: Formula) -> Formula:
    """Minus a formula."""
    inside = negated(of)
    if of.op == "number" and inside is None:
        return number(-of.data)
    return Formula("negative", (of,)) if inside is None else inside


def difference(left: Formula, right: Formula) -> Formula:
    """Left minus right; plus, if right is a negation."""
    inside = negated(right)
    return infix("−", left, right) if inside is None else infix("+", left, inside)


def added(left: Formula, right: Formula) -> Formula:
    """Left plus right; minus, if right is a negation."""
    inside = negated(right)
    return infix("+", left, right) if inside is None else infix("−", left, inside)


def of_axis(name: str) -> Formula:
    """The name of an axis; of a product or coproduct, by the names of its parts.

    >>> print(of_axis("(b g)"), of_axis("x+y"))
    (b g) x+y
    """
    kind, parts = composition(name)
    if kind == "name":
        return symbol(name)
    return Formula("axes" if kind == "product" else "coproduct", tuple(map(of_axis, parts)))


def position(axis: str) -> Formula:
    """The position along an axis."""
    return Formula("index", (of_axis(axis),))


def of_size(size: Expr, leaf: Callable[[Any], Formula] | None = None) -> Formula:
    """A size, or an expression of positions with formulas of its own for its leaves.

    >>> print(of_size(("+", ("*", 2, ("+", "y", 1)), -3)))
    2*(y + 1) - 3
    """

    def plain(item: Any) -> Formula:
        return number(item) if isinstance(item, int) else symbol(item)

    def join(op: str, left: Formula, right: Formula) -> Formula:
        return added(left, right) if op == "+" else infix(op, left, right)

    return read_off(size, leaf or plain, join)


def of_polynomial(of: IntPolynomial, named: Callable[[str], Formula] = symbol) -> Formula:
    """A polynomial in sizes, with formulas for the sizes.

    >>> from catdiag.category.integer_polynomial import IntPolynomial
    >>> print(of_polynomial(IntPolynomial({("x", "x"): 2, ("y",): -1})))
    2·x² - y
    """
    terms = []
    for monomial, coefficient in sorted(of.terms.items(), key=lambda t: (-len(t[0]), t[0])):
        names = [named(name) for name in monomial]
        terms.append(scaled(coefficient, *(powered(name, names.count(name)) for name in dict.fromkeys(names))))
    return reduce(added, terms) if terms else number(0)


def powered(base: Formula, times: int) -> Formula:
    """A power with a natural exponent."""
    return number(1) if times == 0 else base if times == 1 else Formula("power", (base, number(times)))


def scaled(by: Fraction | int, *factors: Formula) -> Formula:
    """A product of a number and other factors; those that are 1 are left out.

    >>> print(scaled(-2, symbol("x")), scaled(-1, symbol("x")), scaled(3, number(1)))
    -2·x -x 3
    """
    shown = [factor for factor in factors if factor != number(1)]
    head = [number(abs(Fraction(by)))] if abs(by) != 1 or not shown else []
    term = infix("·", *head, *shown)
    return negative(term) if by < 0 else term


def compares(of: Formula) -> bool:
    """Whether a formula has an equals sign outside all parentheses."""
    return of.op == "=" or (of.op in ("∧", "∨") and any(map(compares, of.args)))


def truth(of: Formula) -> Formula:
    """The units of `any` and `all`, which are comparisons of constants, as truth values."""
    if of == infix("<", number(0), number(1)):
        return TRUE
    return FALSE if of == infix("<", number(1), number(0)) else of


# -- printing ----------------------------------------------------------------------------------------

R = TypeVar("R", bound=str)


class FormulaDialect(ABC, Generic[R]):
    """Prints formulas. A subclass says how each operation is written, from its printed arguments."""

    name: str

    @abstractmethod
    def rows(self) -> Mapping[str, Callable[[Formula, Sequence[R]], R]]:
        """How each operation is written that is no infix operator."""

    @abstractmethod
    def infix(self, of: Formula, args: Sequence[R]) -> R:
        """Arguments with the sign of the operation between them."""

    @abstractmethod
    def brackets(self, inner: R) -> R:
        """A printed formula in parentheses."""

    def loose(self, of: Formula, place: int) -> bool:
        """Whether an argument needs parentheses."""
        notation = NOTATIONS[of.op]
        # The body of a reduction is its last argument; what is before it stands below the sign.
        first = place < len(of.args) - 1 if of.op == "big" else place == 0
        need = notation.first if first else notation.further
        argument = of.args[place]
        if of.op in ("+", "−") and place and argument.op == "big" and place == len(of.args) - 1:
            return False
        return argument.level < need

    def print(self, of: Formula) -> R:
        """A formula as text, however deep it is. What is printed is kept, so that shared parts are printed once."""
        rows, name = self.rows(), self.name
        todo = [of]
        while todo:
            here = todo[-1]
            if name in here.printed:
                todo.pop()
                continue
            waiting = [a for a in here.args if name not in a.printed]
            if waiting:
                todo += waiting
                continue
            args = [
                self.brackets(a.printed[name]) if self.loose(here, k) else a.printed[name]
                for k, a in enumerate(here.args)
            ]
            row = rows.get(here.op)
            here.printed[name] = self.infix(here, args) if row is None else row(here, args)
        found: R = of.printed[name]
        return found


class PlainText(FormulaDialect[str]):
    """Formulas as plain text."""

    name = "plain"

    def rows(self) -> Mapping[str, Callable[[Formula, Sequence[str]], str]]:
        return {
            "symbol": lambda of, args: str(of.data),
            "word": lambda of, args: str(of.data),
            "number": lambda of, args: self.number(of.data),
            "decimal": lambda of, args: str(of.data),
            "infinity": lambda of, args: f"{self.sign('negative') if of.data else ''}∞",
            "index": lambda of, args: f"index({args[0]})",
            "call": lambda of, args: f"{of.data}({', '.join(args)})",
            "cases": lambda of, args: _nested(args),
            "big": self.big,
            "negative": self.before,
            "¬": self.before,
            "√": self.before,
            "power": lambda of, args: f"{args[0]}{_raised(args[1])}",
            "root": lambda of, args: f"root({', '.join(args)})",
            "axes": lambda of, args: f"({' '.join(args)})",
            "indexed": lambda of, args: f"{args[0]}[{_between_entries(of).join(args[1:])}]",
            "ceiling": lambda of, args: f"⌈{args[0]}⌉",
            "floor": lambda of, args: f"⌊{args[0]}⌋",
        }

    def infix(self, of: Formula, args: Sequence[str]) -> str:
        return self.sign(of.op).join(args)

    def big(self, of: Formula, args: Sequence[str]) -> str:
        """A reduction: the sign, what is below it, and the body."""
        below = ",".join(args[:-1])
        relation = any(a.level == RELATION for a in of.args[:-1])
        return f"{BIG[of.data]}_{f'{{{below}}}' if relation else below} {args[-1]}"

    def before(self, of: Formula, args: Sequence[str]) -> str:
        """A sign before the only argument."""
        return f"{self.sign(of.op)}{args[0]}"

    def sign(self, op: str) -> str:
        """The sign of an operation."""
        return NOTATIONS[op].sign

    def brackets(self, inner: str) -> str:
        return f"({inner})"

    def number(self, value: Fraction) -> str:
        """A number."""
        found = powers_of_ten(value)
        return str(value) if found is None else f"{found[0]}e{found[1]}" if found[1] else found[0]


class Typeset(FormulaDialect[R]):
    """A dialect in two dimensions: fractions, roots and powers delimit their arguments, cases have a line each."""

    def loose(self, of: Formula, place: int) -> bool:
        if of.op in ("/", "//", "√") or (of.op == "power" and place):
            return False
        if of.args[place].op == "cases":  # they have a brace on one side only
            return of.op in INFIX
        return super().loose(of, place)


def cases_of(of: Formula, args: Sequence[R]) -> tuple[list[tuple[R, R]], R | None]:
    """Of a case distinction the values, each with its condition, and the value otherwise, if there is one."""
    pairs = [(args[k + 1], args[k]) for k in range(0, len(args) - 1, 2)]
    return pairs, args[-1] if len(args) % 2 else None


def _nested(args: Sequence[str]) -> str:
    """Cases as nested calls: `where(c, a, where(d, b, e))`."""
    text = args[-1] if len(args) % 2 else "undefined"
    for k in reversed(range(0, len(args) // 2 * 2, 2)):
        text = f"where({args[k]}, {args[k + 1]}, {text})"
    return text


def _between_entries(of: Formula) -> str:
    """What is between the entries of an index: positions of named axes stand apart."""
    return ", " if any(entry.op == "=" for entry in of.args[1:]) else ","


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _raised(text: str) -> str:
    return text.translate(_RAISED) if text.isdecimal() else f"^{text}"


PLAIN = PlainText()
