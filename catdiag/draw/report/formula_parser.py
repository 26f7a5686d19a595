"""The library's textual formulas, typeset: `sum2·exp(max1 - max1′) + Σ_x exp(t1 - max1′)`.

States, repairs and conditions are texts (`catdiag.rewrite.formula` writes them). They are parsed here by operator
precedence, without recursion, and set as MathML. A text that cannot be parsed is shown as it is, in the font of
programs: nothing is dropped or guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from catdiag.draw.report.html import Html, joined, tag
from catdiag.draw.report.mathml import fenced, math, name, number, plain, sign

_LONGEST = 4000
"""Longer texts are not typeset: they are not readable as formulas."""

_TOKEN = re.compile(
    r"\s*(?:(?P<bound>(?:Σ|∏|Π|max|min|any|all)_\{\w+<[^{}]*\})"
    r"|(?P<big>(?:Σ|∏|max|min|any|all)_(?:\w+|\([\w ]+\))(?:,(?:\w+|\([\w ]+\)))*(?=\s+[^\s+\-·*/=≠<≤>≥∧∨,)\]]))"
    r"|(?P<num>\d+(?:\.\d+)?(?:e\d+)?(?![\w.]))"
    r"|(?P<name>(?:cast:)?[^\W\d][\w]*[′″]*)"
    r"|(?P<op>//|[≤≥≠=<>∧∨¬+\-·*/√→,()\[\]∞−]))"
)
_BINARY = {
    "→": 1, "of": 1, "∨": 2, "∧": 3, "=": 4, "≠": 4, "<": 4, "≤": 4, ">": 4, "≥": 4, "+": 5, "-": 5, "−": 5,
    "·": 7, "*": 7, "/": 7, "//": 7, " ": 8,
}  # fmt: skip
_PREFIX = {"-": 6, "−": 6, "√": 9, "¬": 9}
_BIG = 6
_SAID = {"-": "−", "*": "·"}
_BIGGER = {"Σ": "∑", "Π": "∏"}


class NotRead(Exception):
    """A text that is not a formula of the library."""


@dataclass
class _TextPart:
    """A formula: its markup, its markup without outer brackets (`inner`), and the lines of a case distinction."""

    html: Html
    inner: Html | None = None
    cases: list[tuple[Html, Html]] | None = None

    @property
    def free(self) -> Html:
        """The markup for a place that delimits it by itself, such as a fraction or a root."""
        return tag("mrow", self.html if self.inner is None else self.inner)


@dataclass
class _OpenBracket:
    """An open bracket: the function or array before it, and the arguments before the last comma."""

    bracket: str
    head: _TextPart | None
    called: str = ""
    args: list[_TextPart] = field(default_factory=list)


def of_text(text: str) -> Html:
    """A formula of the library, typeset; the text as it is where it cannot be parsed.

    >>> of_text("m′")
    '<math displaystyle="true" alttext="m′"><mrow><msup><mi>m</mi><mo>′</mo></msup></mrow></math>'
    >>> of_text("what?")
    '<code>what?</code>'
    """
    try:
        if len(text) > _LONGEST:
            raise NotRead
        return math(read(text), alt=text)
    except NotRead:
        return plain(text)


def of_condition(text: str) -> Html:
    """A condition stated by the kernel, with its indices and cases, typeset.

    >>> str(of_condition("Σ_{i0<x} a[i0] ≠ 0 for all q")).count("<math")
    2
    """
    said, every, indices = text.partition(" for all ")
    said, where, cases = said.partition(" where ")
    parts = [of_text(said)]
    if where:
        parts.append(joined([" where ", joined(map(of_text, cases.split(" and ")), " and ")]))
    if every:
        parts.append(joined([" for all ", joined(map(of_text, indices.split(", ")), ", ")]))
    return joined(parts)


def defined_as(left: str, right: str) -> Html:
    """The equation of two texts."""
    try:
        if len(right) > _LONGEST:
            raise NotRead
        return math(tag("mrow", read(left), sign("="), read(right)), alt=f"{left} = {right}")
    except NotRead:
        return plain(f"{left} = {right}")


def read(text: str) -> Html:
    """The markup of a text. Raises NotRead."""
    return tag("mrow", _FormulaParser().read(text).html)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        if not text[at:].strip():
            return
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise NotRead
        kind, word = found.lastgroup, found[found.lastgroup]
        yield ("op", word) if word == "of" else (kind, word)
        at = found.end()


class _FormulaParser:
    """A precedence parser with two stacks: operands, and operators and brackets that wait for operands."""

    def __init__(self) -> None:
        self.parts: list[_TextPart] = []
        self.waiting: list[tuple[str, int] | _OpenBracket] = []
        self.complete = False
        """Whether the last token ended an operand."""

    def read(self, text: str) -> _TextPart:
        for kind, word in _tokens(text):
            if kind in ("big", "bound"):
                self._operand()
                self.waiting.append((word, _BIG))
                self.complete = False
            elif kind == "num":
                self._operand()
                self._put(_TextPart(number(word)))
            elif kind == "name":
                self._operand()
                self._put(_TextPart(tag("mtext", word) if word in ("true", "false") else name(word)))
            elif word == "∞":
                self._operand()
                self._put(_TextPart(tag("mi", "∞")))
            else:
                self._sign(word)
        self._close_to(None)
        if len(self.parts) != 1 or self.waiting or not self.complete:
            raise NotRead
        return self.parts[0]

    def _operand(self) -> None:
        """Before an operand: two adjacent operands inside the brackets of an index are separated by a space."""
        if self.complete:
            if not any(isinstance(w, _OpenBracket) and w.bracket == "[" for w in self.waiting):
                raise NotRead
            self._binary(" ")

    def _put(self, part: _TextPart) -> None:
        self.parts.append(part)
        self.complete = True

    def _sign(self, word: str) -> None:
        if word in "([":
            self._opening(word)
        elif word in ")]":
            self._closing(word)
        elif word == ",":
            opened = self._close_to("any")
            opened.args.append(self._pop())
            self.complete = False
        elif not self.complete and word in _PREFIX:
            self.waiting.append((f"pre{word}", _PREFIX[word]))
        elif self.complete and word in _BINARY:
            self._binary(word)
        else:
            raise NotRead

    def _opening(self, word: str) -> None:
        head: _TextPart | None = None
        if self.complete:
            # A call or an index binds to what is before it: `f(x)`, `A[i]`.
            if word == "(" and self.parts and not self.parts[-1].html.startswith(("<mi", "<msub", "<msup")):
                self._binary(" ") if any(
                    isinstance(w, _OpenBracket) and w.bracket == "[" for w in self.waiting
                ) else None
                if self.complete:
                    raise NotRead
            else:
                head = self._pop()
        self.waiting.append(_OpenBracket(word, head))
        self.complete = False

    def _closing(self, word: str) -> None:
        opened = self._close_to("any")
        if {"(": ")", "[": "]"}[opened.bracket] != word:
            raise NotRead
        if self.complete:
            opened.args.append(self._pop())
        elif opened.args or opened.head is None:
            raise NotRead
        self.waiting.pop()
        self._put(_closed(opened))

    def _binary(self, word: str) -> None:
        level = _BINARY[word]
        while self.waiting and not isinstance(self.waiting[-1], _OpenBracket) and self.waiting[-1][1] >= level:
            self._reduce()
        self.waiting.append((word, level))
        self.complete = False

    def _pop(self) -> _TextPart:
        if not self.complete or not self.parts:
            raise NotRead
        self.complete = False
        return self.parts.pop()

    def _close_to(self, bracket: str | None) -> _OpenBracket:
        """Reduces all complete operators, down to the last open bracket."""
        while self.waiting and not isinstance(self.waiting[-1], _OpenBracket):
            self._reduce()
        if bracket is None:
            if self.waiting:
                raise NotRead
            return _OpenBracket("", None)
        if not self.waiting or not isinstance(opened := self.waiting[-1], _OpenBracket):
            raise NotRead
        return opened

    def _reduce(self) -> None:
        found = self.waiting.pop()
        if isinstance(found, _OpenBracket) or not self.parts or not self.complete:
            raise NotRead
        word = found[0]
        right = self.parts.pop()
        if word.startswith("pre"):
            part = _prefixed(word[3:], right)
        elif found[1] == _BIG and word not in _BINARY:
            part = _big(word, right)
        else:
            if not self.parts:
                raise NotRead
            part = _between(word, self.parts.pop(), right)
        self.parts.append(part)


def _prefixed(word: str, body: _TextPart) -> _TextPart:
    if word == "√":
        return _TextPart(tag("msqrt", body.free))
    return _TextPart(joined([sign(_SAID.get(word, word)), body.html]))


def _big(word: str, body: _TextPart) -> _TextPart:
    head, _, axes = word.partition("_")
    if axes.startswith("{"):
        index, _, bound = axes[1:-1].partition("<")
        under = tag("mrow", name(index), sign("<"), read(bound))
    else:
        below = [_axis(axis) for axis in axes.split(",")]
        under = below[0] if len(below) == 1 else tag("mrow", joined(below, sign(",")))
    return _TextPart(
        tag("mrow", tag("munder", sign(_BIGGER.get(head, head), movablelimits="false"), under), body.html),
    )


def _axis(text: str) -> Html:
    """An axis, or a product of axes: `(k c)`."""
    if not text.startswith("("):
        return name(text)
    parts = text[1:-1].split()
    return fenced(joined([name(part) for part in parts], tag("mspace", width="0.2em")))


def _between(word: str, left: _TextPart, right: _TextPart) -> _TextPart:
    if word == "/":
        return _TextPart(tag("mfrac", left.free, right.free))
    if word == "//":
        return _TextPart(fenced(tag("mfrac", left.free, right.free), "⌊", "⌋"))
    first, second = _bracketed(left), _bracketed(right)
    if word == " ":
        return _TextPart(joined([first, tag("mspace", width="0.3em"), second]))
    if word == "of":
        return _TextPart(joined([first, tag("mtext", "\u00a0of\u00a0"), second]))
    return _TextPart(joined([first, sign(_SAID.get(word, word)), second]))


def _bracketed(part: _TextPart) -> Html:
    """A case distinction has brackets inside a larger formula."""
    return part.html if part.cases is None else fenced(part.html)


def _closed(opened: _OpenBracket) -> _TextPart:
    inside = joined([a.html for a in opened.args], sign(",", separator="true"))
    if opened.bracket == "[":
        if opened.head is None:
            raise NotRead
        return _TextPart(tag("mrow", opened.head.html, fenced(inside, "[", "]")))
    if opened.head is None:
        if len(opened.args) != 1:
            raise NotRead
        return _TextPart(fenced(inside), inside)
    if opened.head.html == name("where") and len(opened.args) == 3:
        condition, first, other = opened.args
        return _cases([(first.html, condition.html), *(other.cases or [(other.html, Html(""))])])
    if opened.head.html == name("sqrt") and len(opened.args) == 1:
        return _TextPart(tag("msqrt", opened.args[0].free))
    called = Html(opened.head.html.replace(' class="w"', "", 1))
    return _TextPart(tag("mrow", called, sign("\u2061"), fenced(inside)))


def _cases(lines: list[tuple[Html, Html]]) -> _TextPart:
    """A case distinction with a line per case: three for `where(c, a, where(d, b, e))`."""
    rows = [
        tag("mtr", tag("mtd", value), tag("mtd", tag("mtext", "if\u00a0"), when) if when else
            tag("mtd", tag("mtext", "otherwise")))
        for value, when in lines
    ]  # fmt: skip
    body = tag("mrow", sign("{", fence="true"), tag("mtable", *rows, class_="cases"))
    return _TextPart(body, cases=lines)
