"""Formulas as MathML Core, the dialect of pages (`catdiag.category.formula` has the others and the precedences).

Browsers set MathML without a script. The output is MathML Core (no `mfenced`, no `mathvariant` but "normal"):
identifiers, numbers, operators, fractions, roots, scripts and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from catdiag.category.expression_formulas import formula_of_expression
from catdiag.category.formula import Formula, Typeset, cases_of
from catdiag.category.formula_names import BIG, GREEK, name_parts, powers_of_ten
from catdiag.draw.report.html import Html, escaped, joined, tag

Expr = Any

_TIMES, _APPLY = "\u2062", "\u2061"
_SIGNS = {"negative": "−", "*": "·"}
_BIGGER = {**BIG, "sum": "∑"}


def math(body: str, block: bool = False, alt: str = "") -> Html:
    """A formula inline or on its own line; `alt` is the text for readers without MathML."""
    return tag("math", body, displaystyle="true", class_="block" if block else None, alttext=alt or None)


def of_formula(formula: Formula) -> Html:
    """A formula, typeset.

    >>> from catdiag.category.formula import symbol
    >>> of_formula(symbol("m′"))
    '<math displaystyle="true" alttext="m′"><mrow><msup><mi>m</mi><mo>′</mo></msup></mrow></math>'
    """
    return math(tag("mrow", MATHML.print(formula)), alt=formula.text)


def of_expr(expr: Expr, block: bool = False) -> Html:
    """A sympy expression or relation as a formula.

    >>> import sympy
    >>> q, g = sympy.symbols("q g_q", positive=True)
    >>> of_expr(sympy.ceiling(q / g))
    '<math displaystyle="true" alttext="ceiling(q/g_q)"><mrow><mo fence="true">⌈</mo>\
<mfrac><mi>q</mi><msub><mi>g</mi><mi>q</mi></msub></mfrac><mo fence="true">⌉</mo></mrow></math>'
    """
    return math(bare(expr), block, str(expr))


def bare(expr: Expr) -> Html:
    """A sympy expression without the `math` element around it."""
    return MATHML.print(formula_of_expression(expr))


def equation(left: str, expr: Expr, block: bool = False) -> Html:
    """A formula `left = expr`, where the left side is markup."""
    return math(tag("mrow", left, sign("="), bare(expr)), block)


def at(values: Mapping[Expr, Expr]) -> Html:
    """Formulas `a = b`, separated by commas."""
    parts = [math(tag("mrow", bare(k), sign("="), bare(v)), alt=f"{k} = {v}") for k, v in values.items()]
    return joined(parts, ", ")


def plain(text: str) -> Html:
    """A text in the font of programs."""
    return tag("code", escaped(text))


# -- parts of formulas --------------------------------------------------------------------------------


def row(*parts: str) -> Html:
    """Parts as one element."""
    return parts[0] if len(parts) == 1 and isinstance(parts[0], Html) else tag("mrow", *parts)


def sign(text: str, **attributes: str | None) -> Html:
    """An operator."""
    return tag("mo", text, **attributes)


def fenced(body: str, left: str = "(", right: str = ")") -> Html:
    """A formula in brackets that grow with it."""
    return tag("mrow", sign(left, fence="true"), body, sign(right, fence="true"))


def name(text: str, power: Html | None = None, called: bool = False) -> Html:
    """An identifier: letters, with a following number, the part after `_`, and primes as scripts.

    With a `power`, it stands above too. The name of a function that is `called` looks like other functions.

    >>> name("q"), name("max1′")
    ('<mi>q</mi>', '<msubsup><mi>max</mi><mn>1</mn><mo>′</mo></msubsup>')
    >>> name("g_q"), name("g2_q")
    ('<msub><mi>g</mi><mi>q</mi></msub>', '<msubsup><mi>g</mi><mi>q</mi><mrow><mo>(</mo><mn>2</mn><mo>)</mo></mrow></msubsup>')
    """  # noqa: E501
    parts = name_parts(text)
    head, sub, above = _word(parts.base, called), [], [sign(parts.primes)] if parts.primes else []
    if parts.of_level:
        above.insert(0, tag("mrow", sign("("), tag("mn", parts.number), sign(")")))
    elif parts.number:
        sub.append(tag("mn", parts.number))
    if parts.below:
        below = tag("mn", parts.below) if parts.below.isdigit() else _word(parts.below)
        sub += [*([sign(",")] if sub else []), below]
    above += [] if power is None else [power]
    if sub and above:
        return tag("msubsup", head, row(*sub), row(*above))
    if sub or above:
        return tag("msub" if sub else "msup", head, row(*(sub or above)))
    return head


def _word(text: str, called: bool = False) -> Html:
    text = GREEK.get(text, text)
    return tag("mi", text, class_="w" if len(text) > 1 and text not in BIG and not called else None)


def number(value: Fraction | int) -> Html:
    """A number; large round ones in powers of ten.

    >>> number(12), number(10**30)
    ('<mn>12</mn>', '<msup><mn>10</mn><mn>30</mn></msup>')
    """
    size = abs(Fraction(value))
    tens = powers_of_ten(size)
    if tens is not None and tens[1]:
        power = tag("msup", tag("mn", "10"), number(tens[1]))
        found = power if tens[0] == "1" else tag("mrow", tag("mn", tens[0]), sign("×"), power)
    elif size.denominator == 1:
        found = tag("mn", str(size) if tens is None else tens[0])
    else:
        found = tag("mfrac", tag("mn", str(size.numerator)), tag("mn", str(size.denominator)))
    return tag("mrow", sign("−"), found) if value < 0 else found


# -- the dialect --------------------------------------------------------------------------------------


class _MathML(Typeset[Html]):
    """Formulas as MathML."""

    name = "mathml"

    def rows(self) -> Mapping[str, Callable[[Formula, Sequence[Html]], Html]]:
        return _ROWS

    def infix(self, of: Formula, args: Sequence[Html]) -> Html:
        return tag("mrow", joined(args, sign(_SIGNS.get(of.op, of.op))))

    def brackets(self, inner: Html) -> Html:
        return fenced(inner)


def _infinity(of: Formula, args: Sequence[Html]) -> Html:
    found = tag("mi", "∞")
    return tag("mrow", sign("−"), found) if of.data else found


def _call(of: Formula, args: Sequence[Html]) -> Html:
    return tag("mrow", name(of.data, called=True), sign(_APPLY), fenced(_listed(args)))


def _listed(args: Sequence[Html]) -> Html:
    return joined(args, sign(",", separator="true"))


def _cases(of: Formula, args: Sequence[Html]) -> Html:
    """A case distinction with a line for each case."""
    pairs, other = cases_of(of, args)
    rows = [tag("mtr", tag("mtd", value), tag("mtd", tag("mtext", "if\u00a0"), when)) for value, when in pairs]
    if other is not None:
        rows.append(tag("mtr", tag("mtd", other), tag("mtd", tag("mtext", "otherwise"))))
    return tag("mrow", sign("{", fence="true"), tag("mtable", *rows, class_="cases"))


def _big(of: Formula, args: Sequence[Html]) -> Html:
    below = tag("mrow", joined(args[:-1], sign(","))) if len(args) > 2 else args[0]
    return tag("mrow", tag("munder", sign(_BIGGER[of.data], movablelimits="false"), below), args[-1])


def _before(of: Formula, args: Sequence[Html]) -> Html:
    return tag("mrow", sign(_SIGNS.get(of.op, of.op)), args[0])


def _product(of: Formula, args: Sequence[Html]) -> Html:
    """Factors; a dot separates a name of several letters from the next factor."""
    parts: list[Html] = []
    words = [_is_word(a) for a in of.args]
    for k, factor in enumerate(args):
        parts += [sign("·" if words[k - 1] or words[k] else _TIMES), factor] if k else [factor]
    return row(*parts)


def _is_word(of: Formula) -> bool:
    return of.op == "call" or (of.op == "symbol" and len(name_parts(of.data).base) > 1)


def _power(of: Formula, args: Sequence[Html]) -> Html:
    base = of.args[0]
    return name(base.data, args[1]) if base.op == "symbol" else tag("msup", args[0], args[1])


def _fraction(of: Formula, args: Sequence[Html]) -> Html:
    return tag("mfrac", args[0], args[1])


def _spaced(of: Formula, args: Sequence[Html]) -> Html:
    return tag("mrow", joined(args, tag("mspace", width="0.2em")))


_ROWS: Mapping[str, Callable[[Formula, Sequence[Html]], Html]] = {
    "symbol": lambda of, args: name(of.data),
    "word": lambda of, args: tag("mtext", of.data),
    "number": lambda of, args: number(of.data),
    "decimal": lambda of, args: tag("mn", of.data),
    "infinity": _infinity,
    "index": lambda of, args: tag("mrow", tag("mi", "index"), sign(_APPLY), fenced(args[0])),
    "call": _call,
    "cases": _cases,
    "of": lambda of, args: tag("mrow", args[0], tag("mtext", "\u00a0of\u00a0"), args[1]),
    "big": _big,
    "negative": _before,
    "¬": _before,
    "√": lambda of, args: tag("msqrt", args[0]),
    "product": _product,
    "/": _fraction,
    "//": lambda of, args: fenced(_fraction(of, args), "⌊", "⌋"),
    "power": _power,
    "root": lambda of, args: tag("mroot", args[0], args[1]),
    "row": _spaced,
    "axes": lambda of, args: fenced(_spaced(of, args)),
    "coproduct": lambda of, args: tag("mrow", joined(args, sign("+"))),
    "indexed": lambda of, args: tag("mrow", args[0], fenced(_listed(args[1:]), "[", "]")),
    "ceiling": lambda of, args: fenced(args[0], "⌈", "⌉"),
    "floor": lambda of, args: fenced(args[0], "⌊", "⌋"),
}

MATHML = _MathML()
