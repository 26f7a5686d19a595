"""Formulas in LaTeX, in math mode: a dialect of `catdiag.category.formula`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catdiag.category.expression_formulas import formula_of_expression
from catdiag.category.formula import Formula, Typeset, cases_of
from catdiag.category.formula_names import BIG, GREEK, name_parts, powers_of_ten


def latex_of(expr: Any) -> str:
    """A sympy expression in LaTeX: tiles and blocks of further levels as `g^{(2)}_{q}`.

    >>> from catdiag.category.integer_polynomial import symbol
    >>> latex_of(symbol("g2_q") * symbol("d"))
    'd g^{(2)}_{q}'
    """
    return LATEX.print(formula_of_expression(expr))


def text(words: str) -> str:
    """Words within a formula.

    >>> text("in_0")
    '\\\\text{in\\\\_0}'
    """
    return r"\text{" + words.replace("_", r"\_") + "}"


_SIGNS = {
    "→": r" \to ", "of": r"\text{ of }", ";": "; ", ",": ", ", "∨": r" \vee ", "∧": r" \wedge ", "=": " = ",
    "≠": r" \neq ", "<": " < ", "≤": r" \leq ", ">": " > ", "≥": r" \geq ", "+": " + ", "−": " - ", "*": r" \cdot ",
    "·": r" \cdot ", "product": " ", "row": r"\ ",
}  # fmt: skip
_BIG = {**{monoid: rf"\operatorname*{{{sign}}}" for monoid, sign in BIG.items()}, "sum": r"\sum", "prod": r"\prod",
        "max": r"\max", "min": r"\min"}  # fmt: skip
_FUNCTIONS = frozenset(("exp", "log", "max", "min", "tanh", "sin", "cos"))


class _LaTeX(Typeset[str]):
    """Formulas as LaTeX in math mode.

    >>> from catdiag.category.formula import call, infix, symbol
    >>> print(LATEX.print(infix("·", symbol("g2_q"), infix("+", call("exp", symbol("m′")), symbol("d")))))
    g^{(2)}_{q} \\cdot \\left(\\exp\\left(m'\\right) + d\\right)
    """

    name = "latex"

    def rows(self) -> Mapping[str, Callable[[Formula, Sequence[str]], str]]:
        return _ROWS

    def infix(self, of: Formula, args: Sequence[str]) -> str:
        return _SIGNS[of.op].join(args)

    def brackets(self, inner: str) -> str:
        return rf"\left({inner}\right)"


def _identifier(name: str, power: str = "") -> str:
    """An identifier; tiles and blocks of further levels have the level above."""
    parts = name_parts(name)
    above, below = [], []
    if parts.of_level:
        above.append(f"({parts.number})")
    elif parts.number:
        below.append(parts.number)
    if parts.below:
        below.append(_word(parts.below))
    primes = "'" * (parts.primes.count("′") + 2 * parts.primes.count("″"))
    above += [power] if power else []
    raised, lowered = (f"{sign}{{{' '.join(found)}}}" if found else "" for sign, found in (("^", above), ("_", below)))
    return f"{_word(parts.base)}{primes}{raised}{lowered}"


def _word(word: str) -> str:
    if word in GREEK:
        return f"\\{word}"
    return word if len(word) == 1 or word.isdigit() else text(word)


def _number(of: Formula, args: Sequence[str]) -> str:
    sign, size = "-" if of.data < 0 else "", abs(of.data)
    tens = powers_of_ten(size)
    if tens is not None and tens[1]:
        head = "" if tens[0] == "1" else rf"{tens[0]} \cdot "
        return f"{sign}{head}10^{{{tens[1]}}}"
    if size.denominator == 1:
        return f"{sign}{size}"
    return rf"{sign}\frac{{{size.numerator}}}{{{size.denominator}}}"


def _call(of: Formula, args: Sequence[str]) -> str:
    escaped = of.data.replace("_", r"\_")
    name = f"\\{of.data}" if of.data in _FUNCTIONS else rf"\operatorname{{{escaped}}}"
    return rf"{name}\left({', '.join(args)}\right)"


def _cases(of: Formula, args: Sequence[str]) -> str:
    pairs, other = cases_of(of, args)
    lines = [rf"{value} & \text{{if}}\: {when}" for value, when in pairs]
    lines += [] if other is None else [rf"{other} & \text{{otherwise}}"]
    return r"\begin{cases} " + r" \\ ".join(lines) + r" \end{cases}"


def _power(of: Formula, args: Sequence[str]) -> str:
    base = of.args[0]
    return _identifier(base.data, args[1]) if base.op == "symbol" else f"{args[0]}^{{{args[1]}}}"


def _delimited(left: str, right: str, inner: str) -> str:
    return rf"\left{left}{inner}\right{right}"


_ROWS: Mapping[str, Callable[[Formula, Sequence[str]], str]] = {
    "symbol": lambda of, args: _identifier(of.data),
    "word": lambda of, args: text(of.data),
    "number": _number,
    "decimal": lambda of, args: str(of.data),
    "infinity": lambda of, args: rf"{of.data}\infty",
    "index": lambda of, args: rf"\operatorname{{index}}\left({args[0]}\right)",
    "call": _call,
    "cases": _cases,
    "big": lambda of, args: f"{_BIG[of.data]}_{{{', '.join(args[:-1])}}} {args[-1]}",
    "negative": lambda of, args: f"- {args[0]}",
    "¬": lambda of, args: rf"\neg {args[0]}",
    "√": lambda of, args: rf"\sqrt{{{args[0]}}}",
    "root": lambda of, args: rf"\sqrt[{args[1]}]{{{args[0]}}}",
    "/": lambda of, args: rf"\frac{{{args[0]}}}{{{args[1]}}}",
    "//": lambda of, args: _delimited(r"\lfloor", r"\rfloor", rf"\frac{{{args[0]}}}{{{args[1]}}}"),
    "power": _power,
    "axes": lambda of, args: "(" + r"\ ".join(args) + ")",
    "coproduct": lambda of, args: "+".join(args),
    "indexed": lambda of, args: rf"{args[0]}\left[{', '.join(args[1:])}\right]",
    "ceiling": lambda of, args: _delimited(r"\lceil", r"\rceil", f"{{{args[0]}}}"),
    "floor": lambda of, args: _delimited(r"\lfloor", r"\rfloor", f"{{{args[0]}}}"),
}

LATEX = _LaTeX()
