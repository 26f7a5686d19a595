"""The grammar of signatures, and its parser: `q d, x d -> q x`.

    signature := arrays [ "->" arrays ]          arrays := array { "," array }
    array     := { axis }  |  element "[" { axis } "]"
    axis      := term { "+" term }               a coproduct
    term      := name [ "=" size ]  |  integer  |  "(" axis axis { axis } ")"
    size      := integer  |  name  |  "(" size ( "+" | "*" ) size ")"

`d=128` gives an axis a size; `e=d` gives it the size of another axis, as for the two sides of a square matrix;
`z=(t+1)` a sum.

An element type is one of `real` (the default), `extended` (with −∞), `int`, `bool`. The text of an array type parses
to that type:

>>> [str(t) for t in parse("q (b g) 3, bool[x+y] -> q").inputs]
['[q (b g) 3]', 'bool[x+y]']
>>> [axis.size for axis in parse_axes("d=128 e=d z=((t+1)*2)")]
[128, 'd', ('*', ('+', 't', 1), 2)]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from catdiag.category.types import ELEMENTS, ArrayType, Axis, Size, coproduct, product
from catdiag.util.errors import AxisError, SignatureError

_TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*)|(?P<int>\d+)|(?P<mark>[()+=*]))")
_TYPED = re.compile(r"\s*(?P<element>[^\W\d]\w*)?\s*\[(?P<axes>[^\[\]]*)\]\s*$")

_EXAMPLE = 'write axes between spaces and arrays between commas, as in "q d, x d -> q x"'


@dataclass(frozen=True)
class Signature:
    """A parsed signature: the arrays before `->`, and those after it (None where there is no `->`)."""

    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...] | None


def parse(text: str) -> Signature:
    """A parsed signature. Raises SignatureError for a text that does not parse, AxisError for an axis twice in one
    array.

    >>> parse("q d, x d -> q x").outputs
    (ArrayType(axes=(Axis('q'), Axis('x')), element='real'),)
    """
    if not isinstance(text, str):
        raise SignatureError(f"a signature is a text, not {text!r}: {_EXAMPLE}")
    sides = text.split("->")
    if len(sides) > 2:
        raise SignatureError(f"{text!r} has {len(sides) - 1} arrows: expected one '->' at most; {_EXAMPLE}")
    if "→" in text:
        raise SignatureError(f"{text!r} has an arrow that is no '->': {_EXAMPLE}")
    inputs = _arrays(sides[0], text)
    return Signature(inputs, _arrays(sides[1], text) if len(sides) == 2 else None)


def parse_axes(text: str) -> tuple[Axis, ...]:
    """The axes of one array: names, integers, products and coproducts, separated by spaces.

    >>> parse_axes("x (b g) 3")
    (Axis('x'), product(Axis('b'), Axis('g')), Axis('3', 3))

    Raises SignatureError for a text that does not parse.
    """
    if not isinstance(text, str):
        raise SignatureError(f'axes are a text such as "x" or "x y", not {text!r}')
    if "," in text:
        raise SignatureError(f'{text!r} has a comma: the axes of one array are separated by spaces, as in "x y"')
    return _axes(text, text)


def axis_names(text: str) -> list[str]:
    """The names of several axes in one text.

    >>> axis_names("x (b g) 3")
    ['x', '(b g)', '3']

    Raises SignatureError for a text that does not parse.
    """
    return [axis.name for axis in parse_axes(text)]


def _arrays(side: str, whole: str) -> tuple[ArrayType, ...]:
    found = []
    for text in side.split(","):
        typed = _TYPED.match(text)
        if typed:
            element = typed["element"] or "real"
            if element not in ELEMENTS:
                raise SignatureError(f"{element!r} in {whole!r} is no element type: expected {', '.join(ELEMENTS)}")
            found.append(ArrayType(_axes(typed["axes"], whole), element))
        else:
            found.append(ArrayType(_axes(text, whole)))
    return tuple(found)


def _tokens(text: str, whole: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            rest = text[place:].lstrip()
            hint = "a size is a positive integer" if rest.startswith("-") else _EXAMPLE
            raise SignatureError(f"cannot read {rest[:1]!r} in {whole!r}: {hint}")
        tokens.append((str(match.lastgroup), str(match[match.lastgroup or 0])))
        place = match.end()
    return tokens


def _axes(text: str, whole: str) -> tuple[Axis, ...]:
    """The axes in a text, by a parser with an explicit stack."""
    tokens = _tokens(text, whole)
    # One frame for each open parenthesis: the axes so far, and whether a '+' is missing its right operand.
    frames: list[tuple[list[Axis], list[bool]]] = [([], [False])]

    def push(axis: Axis) -> None:
        axes, plus = frames[-1]
        if plus[0]:
            axes[-1], plus[0] = coproduct(axes[-1], axis), False
        else:
            axes.append(axis)

    place = 0
    while place < len(tokens):
        kind, token = tokens[place]
        place += 1
        if kind == "name":
            if tokens[place : place + 1] == [("mark", "=")]:
                size, place = _read_size(tokens, place + 1, token, whole)
                push(Axis(token, size))
            else:
                push(Axis(token))
        elif kind == "int":
            size = _size(token, whole)
            push(Axis(str(size), size))
        elif token == "(":
            frames.append(([], [False]))
        elif token == ")":
            inner, plus = frames.pop()
            if not frames:
                raise SignatureError(f"')' without '(' in {whole!r}")
            if plus[0] or not inner:
                raise SignatureError(f"expected an axis before ')' in {whole!r}: a product is written '(b g)'")
            push(product(*inner))
        elif token == "+":
            axes, plus = frames[-1]
            if not axes or plus[0]:
                raise SignatureError(f"expected an axis before '+' in {whole!r}: a coproduct is written 'x+y'")
            plus[0] = True
        elif token == "*":
            raise SignatureError(f"cannot read '*' in {whole!r}: {_EXAMPLE}")
        else:
            raise SignatureError(f"'=' in {whole!r} follows no name: a size is given as in 'd=128'")
    axes, plus = frames[-1]
    if len(frames) > 1:
        raise SignatureError(f"'(' is not closed in {whole!r}")
    if plus[0]:
        raise SignatureError(f"expected an axis after '+' in {whole!r}: a coproduct is written 'x+y'")
    return tuple(axes)


def _read_size(tokens: list[tuple[str, str]], place: int, name: str, whole: str) -> tuple[Size, int]:
    """The size that is given to an axis from a place on, and the place after it; by a parser with an explicit stack."""
    # One frame for each open parenthesis: the left size and the sign, as far as they were read.
    frames: list[list[Size]] = []
    expected = (
        f"expected a size after {name + '='!r} in {whole!r}, as in 'd=128', 'e=d' for the size of d, or 'z=(t+1)'"
    )
    while place < len(tokens):
        kind, token = tokens[place]
        place += 1
        if token == "(":
            frames.append([])
            continue
        if kind not in ("int", "name"):
            raise SignatureError(expected)
        size: Size = _size(token, whole) if kind == "int" else token
        while frames and len(frames[-1]) == 2:
            if tokens[place : place + 1] != [("mark", ")")]:
                raise SignatureError(expected)
            left, sign = frames.pop()
            size, place = (str(sign), left, size), place + 1
        if not frames:
            return size, place
        if place >= len(tokens) or tokens[place][1] not in ("+", "*"):
            raise SignatureError(expected)
        frames[-1] += [size, tokens[place][1]]
        place += 1
    raise SignatureError(expected)


def _size(text: str, whole: str) -> int:
    size = int(text)
    if size == 0:
        raise SignatureError(f"an axis of size 0 in {whole!r}: expected a positive integer")
    return size


def merge_axes(arrays: tuple[ArrayType, ...]) -> dict[str, Axis]:
    """The axes of several arrays, and the parts of these axes, by name.

    >>> list(merge_axes(parse("q (b g), b").inputs))
    ['q', '(b g)', 'b', 'g']

    Raises AxisError for one name with two sizes.
    """
    found: dict[str, Axis] = {}
    stack = [axis for ty in reversed(arrays) for axis in reversed(ty.axes)]
    while stack:
        axis = stack.pop()
        known = found.setdefault(axis.name, axis)
        if known.size != axis.size:
            raise AxisError(
                f"axis {axis.name!r} has size {known.size} in one array and {axis.size} in another: "
                "expected one size for one name; rename one of the two"
            )
        stack.extend(reversed(axis.parts))
    return found
