"""Formulas of sympy expressions and of names as MathML Core.

Browsers set MathML without a script. The output is MathML Core (no `mfenced`, no `mathvariant` but "normal"):
identifiers, numbers, operators, fractions, roots, scripts and rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from catdiag.draw.report.html import Html, escaped, joined, tag

Expr = Any

GREEK = {"rho": "ρ"}
"""Greek names that the library itself uses; users' names are unchanged."""
_UPRIGHT = {"sum", "prod", "max", "min", "any", "all"}
"""Names of monoids, which also name components of states, are set upright like functions."""
_TILES = {"g", "s", "M", "N"}
_TIMES, _APPLY = "\u2062", "\u2061"
_NAME = re.compile(r"([^\W\d_]+)(\d*)((?:_\w+)?)([′″]*)")
_SIGNS = {"==": "=", "!=": "≠", "<": "<", "<=": "≤", ">": ">", ">=": "≥"}


def math(body: str, block: bool = False, alt: str = "") -> Html:
    """A formula inline or on its own line; `alt` is the text for readers without MathML."""
    return tag("math", body, displaystyle="true", class_="block" if block else None, alttext=alt or None)


def row(*parts: str) -> Html:
    """Parts as one element."""
    return parts[0] if len(parts) == 1 and isinstance(parts[0], Html) else tag("mrow", *parts)


def sign(text: str, **attributes: str | None) -> Html:
    """An operator."""
    return tag("mo", text, **attributes)


def fenced(body: str, left: str = "(", right: str = ")") -> Html:
    """A formula in brackets that grow with it."""
    return tag("mrow", sign(left, fence="true"), body, sign(right, fence="true"))


def name(text: str) -> Html:
    """An identifier: letters, with a following number, the part after `_`, and primes as scripts.

    After more than one letter, `_` belongs to the name, as in diagrams.

    >>> name("q"), name("max1′")
    ('<mi>q</mi>', '<msubsup><mi>max</mi><mn>1</mn><mo>′</mo></msubsup>')
    >>> name("g_q"), name("g2_q")
    ('<msub><mi>g</mi><mi>q</mi></msub>', '<msubsup><mi>g</mi><mi>q</mi><mrow><mo>(</mo><mn>2</mn><mo>)</mo></mrow></msubsup>')
    """  # noqa: E501
    found = _NAME.fullmatch(text)
    if found is None:
        return tag("mi", text, class_="w" if len(text) > 1 else None)
    base, number, below, primes = found.groups()
    if below and len(base) > 1 and base not in _UPRIGHT and base not in GREEK:
        base, number, below = base + number + below, "", ""
    head, sub, above = _word(base), [], [sign(primes)] if primes else []
    if number and below and base in _TILES:  # a tile of a further level: the number is the level's
        above.insert(0, tag("mrow", sign("("), tag("mn", number), sign(")")))
    elif number:
        sub.append(tag("mn", number))
    if below:
        sub += [*([sign(",")] if sub else []), _below(below[1:])]
    if sub and above:
        return tag("msubsup", head, row(*sub), row(*above))
    if sub or above:
        return tag("msub" if sub else "msup", head, row(*(sub or above)))
    return head


def _word(text: str) -> Html:
    text = GREEK.get(text, text)
    return tag("mi", text, class_="w" if len(text) > 1 and text not in _UPRIGHT else None)


def _below(text: str) -> Html:
    return tag("mn", text) if text.isdigit() else _word(text)


def number(text: str) -> Html:
    """A number; in powers of ten where its text has an exponent.

    >>> number("12"), number("1e30")
    ('<mn>12</mn>', '<msup><mn>10</mn><mn>30</mn></msup>')
    """
    head, e, power = text.partition("e")
    if not e:
        return tag("mn", text)
    tens = tag("msup", tag("mn", "10"), tag("mn", power))
    return tens if head == "1" else tag("mrow", tag("mn", head), sign("×"), tens)


def times(factors: list[Html], words: list[bool]) -> Html:
    """A product; a dot separates a name of several letters from the next factor."""
    parts: list[Html] = []
    for k, factor in enumerate(factors):
        if k:
            parts.append(sign("·" if words[k - 1] or words[k] else _TIMES))
        parts.append(factor)
    return row(*parts)


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
    """A formula without the `math` element around it."""
    import sympy

    return _MathPrinter().of(sympy.sympify(expr, strict=True))


def equation(left: str, expr: Expr, block: bool = False) -> Html:
    """A formula `left = expr`, where the left side is markup."""
    return math(tag("mrow", left, sign("="), bare(expr)), block)


def at(values: Mapping[Expr, Expr]) -> Html:
    """Formulas `a = b`, separated by commas."""
    parts = [math(tag("mrow", bare(k), sign("="), bare(v)), alt=f"{k} = {v}") for k, v in values.items()]
    return joined(parts, ", ")


class _MathPrinter:
    """Expressions as markup, with brackets where the precedence requires them."""

    def of(self, expr: Expr) -> Html:
        import sympy
        from sympy.core.relational import Relational

        if isinstance(expr, sympy.Symbol):
            return name(expr.name)
        if expr.is_Number:
            return self._number(expr)
        if expr in (sympy.true, sympy.false):
            return tag("mtext", str(expr).lower())
        if isinstance(expr, sympy.Add):
            return self._sum(expr)
        if isinstance(expr, sympy.Mul):
            return self._product(expr)
        if isinstance(expr, sympy.Pow):
            return self._power(expr)
        if isinstance(expr, Relational):
            return tag("mrow", self.of(expr.lhs), sign(_SIGNS[expr.rel_op]), self.of(expr.rhs))
        if isinstance(expr, (sympy.And, sympy.Or)):
            between = sign("∧" if isinstance(expr, sympy.And) else "∨")
            parts = [self.of(a) if isinstance(a, Relational) else fenced(self.of(a)) for a in _in_order(expr.args)]
            return tag("mrow", *_between(parts, between))
        if isinstance(expr, sympy.ceiling):
            return fenced(self.of(expr.args[0]), "⌈", "⌉")
        if isinstance(expr, sympy.floor):
            return fenced(self.of(expr.args[0]), "⌊", "⌋")
        if isinstance(expr, sympy.Piecewise):
            return self._cases(expr)
        if isinstance(expr, (sympy.Max, sympy.Min)):
            return self._call(type(expr).__name__.lower(), list(_in_order(expr.args)))
        if isinstance(expr, sympy.Function):
            return self._call(expr.func.__name__, list(expr.args))
        return _spelt(str(expr))

    def _number(self, expr: Expr) -> Html:
        import sympy

        if expr in (sympy.oo, -sympy.oo):
            found = tag("mi", "∞")
            return found if expr is sympy.oo else tag("mrow", sign("−"), found)
        if not expr.is_real:
            return tag("mtext", "undefined")
        if expr.is_Rational and not expr.is_Integer:
            found = tag("mfrac", tag("mn", str(abs(expr.p))), tag("mn", str(expr.q)))
        else:
            found = tag("mn", str(abs(expr)))
        return tag("mrow", sign("−"), found) if expr.is_negative else found

    def _sum(self, expr: Expr) -> Html:
        parts: list[Html] = []
        terms = [(t, t.could_extract_minus_sign() and not t.is_Add) for t in expr.as_ordered_terms()]
        first = next((k for k, (_, negative) in enumerate(terms) if not negative), 0)
        terms.insert(0, terms.pop(first))  # no sign at the start
        for k, (term, negative) in enumerate(terms):
            if k or negative:
                parts.append(sign("−" if negative else "+"))
            parts.append(self._tight(-term if negative else term, add=True))
        return tag("mrow", *parts)

    def _tight(self, expr: Expr, add: bool = False) -> Html:
        """With brackets, unless it binds at least as tightly as a product."""
        loose = expr.is_Add or expr.is_Relational or (expr.is_Mul and expr.could_extract_minus_sign())
        return fenced(self.of(expr)) if loose else self.of(expr)

    def _product(self, expr: Expr) -> Html:
        import sympy

        if expr.could_extract_minus_sign() and expr.as_coeff_Mul()[0].is_negative:
            return tag("mrow", sign("−"), self._tight(-expr))
        above, below = [], []
        for factor in expr.as_ordered_factors():
            if factor.is_Rational and not factor.is_Integer:
                above += [] if factor.p == 1 else [sympy.Integer(factor.p)]
                below.append(sympy.Integer(factor.q))
            elif factor.is_Pow and factor.exp.is_Rational and factor.exp.is_negative:
                below.append(sympy.Pow(factor.base, -factor.exp, evaluate=False) if factor.exp != -1 else factor.base)
            else:
                above.append(factor)
        top = self._factors(above)
        return tag("mfrac", top, self._factors(below)) if below else top

    def _factors(self, factors: list[Expr]) -> Html:
        import sympy

        if not factors:
            return tag("mn", "1")
        if len(factors) == 1:
            return self.of(factors[0])
        words = [
            bool(isinstance(f, (sympy.Max, sympy.Min)) or (f.is_Symbol and re.match(r"[^\W\d_]{2}", f.name)))
            for f in factors
        ]
        return times([self._tight(f) for f in factors], words)

    def _power(self, expr: Expr) -> Html:
        import sympy

        base, exponent = expr.base, expr.exp
        if exponent.is_Rational and exponent.is_negative:
            return tag("mfrac", tag("mn", "1"), self.of(sympy.Pow(base, -exponent)))
        if exponent == sympy.Rational(1, 2):
            return tag("msqrt", self.of(base))
        if exponent.is_Rational and exponent.p == 1 and exponent.q > 1:
            return tag("mroot", self.of(base), tag("mn", str(exponent.q)))
        below = self.of(base) if base.is_Symbol or (base.is_Integer and base.is_positive) else fenced(self.of(base))
        if base.is_Symbol and below.startswith("<msub>"):
            inner = below.removeprefix("<msub>").removesuffix("</msub>")
            return Html(f"<msubsup>{inner}{self.of(exponent)}</msubsup>")
        return tag("msup", below, self.of(exponent))

    def _call(self, called: str, args: list[Expr]) -> Html:
        inside = _between([self.of(a) for a in args], sign(",", separator="true"))
        return tag("mrow", tag("mi", called), sign(_APPLY), fenced(joined(inside)))

    def _cases(self, expr: Expr) -> Html:
        rows = []
        for value, condition in expr.args:
            said = tag("mtext", "otherwise") if condition == True else self.of(condition)  # noqa: E712
            rows.append(tag("mtr", tag("mtd", self.of(value)), tag("mtd", said)))
        return tag("mrow", sign("{", fence="true"), tag("mtable", *rows, class_="cases"))


def _spelt(text: str) -> Html:
    """A text of names, numbers and signs in sequence."""
    parts = re.split(r"(\w+)", text)
    found = [
        (tag("mn", part) if part.isdigit() else name(part)) if k % 2 else sign(part.replace("*", "·").strip())
        for k, part in enumerate(parts)
        if part
    ]
    return tag("mrow", *found)


def _in_order(args: Any) -> list[Expr]:
    """The arguments of a commutative operation, shortest first, so that the order is deterministic."""
    return sorted(args, key=lambda e: (len(str(e)), str(e)))


def _between(parts: list[Html], sep: Html) -> list[Html]:
    found: list[Html] = []
    for k, part in enumerate(parts):
        found += [sep, part] if k else [part]
    return found


def plain(text: str) -> Html:
    """A text in the font of programs."""
    return tag("code", escaped(text))
