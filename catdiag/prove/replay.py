"""Counterexamples as plain data, and run again: the two programs on the numbers, and whether they differ there.

Whoever hands in a counterexample need not be believed: sizes, assumptions and shapes are looked at again, and both
programs are run on the exact numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from catdiag.errors import CatdiagError

if TYPE_CHECKING:
    from catdiag.prove.exact import Array, Element, Value
    from catdiag.prove.refute import Counterexample


class NotACounterexample(CatdiagError):
    """Numbers that do not show two programs to differ."""


def as_data(found: Counterexample) -> dict[str, Any]:
    """A counterexample as plain data: rationals are text, `"1/3"`, and so is `"-inf"`.

    >>> from catdiag.prove.refute import Counterexample
    >>> as_data(Counterexample({"x": 1}, {"A": [Fraction(1, 3)]}, Fraction(2, 3), Fraction(1), {}))["arrays"]
    {'A': ['1/3']}
    """

    def plain(x: Any) -> Any:
        if isinstance(x, list):
            return [plain(v) for v in x]
        return x if isinstance(x, bool) else str(x)

    return {
        "sizes": dict(found.sizes),
        "blocks": dict(found.blocks),
        "arrays": {name: plain(value) for name, value in found.arrays.items()},
        "functions": dict(found.functions),
        "output": found.output,
        "index": dict(found.index),
        "left": plain(found.lhs),
        "right": plain(found.rhs),
    }


def of_data(data: Any) -> Counterexample:
    """The counterexample that plain data says; its two values are to be found by running. Raises NotACounterexample."""
    from catdiag.prove.exact import BOTTOM
    from catdiag.prove.refute import Counterexample

    def value(x: Any) -> Any:
        if isinstance(x, list):
            return [value(v) for v in x]
        return x if isinstance(x, bool) else BOTTOM if x in ("-inf", "-∞") else Fraction(str(x))

    def naturals(numbers: Any) -> dict[str, int]:
        found = {str(name): n for name, n in dict(numbers).items()}
        if any(type(n) is not int or n < 0 for n in found.values()):
            raise ValueError(f"expected natural numbers, found {numbers}")
        return found

    try:
        return Counterexample(
            sizes=naturals(data["sizes"]),
            arrays={str(name): value(x) for name, x in dict(data["arrays"]).items()},
            lhs=None,
            rhs=None,
            index=naturals(data["index"]),
            output=naturals({"output": data["output"]})["output"],
            blocks=naturals(data["blocks"]),
            functions={str(name): str(text) for name, text in dict(data["functions"]).items()},
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise NotACounterexample(f"what was given is no counterexample: {type(error).__name__}: {error}") from error


def replay(statement: Mapping[str, Any], found: Counterexample) -> Counterexample:
    """A counterexample with the two values that the programs of a statement really give.

    Raises NotACounterexample, saying why, where sizes or shapes do not fit, an assumption is not met, or the values
    do not certainly differ.
    """
    from dataclasses import replace

    from catdiag.prove import exact

    left, right = statement["left"], statement["right"]
    try:
        for op, a, b in statement["assume"]:
            x, y = exact.size_value(a, found.sizes), exact.size_value(b, found.sizes)
            if not {"lt": x < y, "le": x <= y, "eq": x == y}[op]:
                raise NotACounterexample(f"the sizes {found.sizes} do not meet an assumption: {x} and {y} for {op}")
        inputs = [_input(d, found) for d in left["inputs"]]
        functions = {name: _function(text) for name, text in found.functions.items()}
        blocks = {name: max(1, n) for name, n in found.blocks.items()}
        values = []
        for program in (left, right):
            run = exact.run(program, inputs, found.sizes, blocks, functions)
            values.append(run[found.output].at(found.index))
    except (KeyError, IndexError) as error:
        raise NotACounterexample(f"the numbers lack {error}") from error
    lhs, rhs = (_certain(value) for value in values)
    if not exact.different(lhs, rhs):
        raise NotACounterexample(f"on these numbers the two do not certainly differ: {lhs} and {rhs}")
    return replace(found, lhs=_shown(lhs), rhs=_shown(rhs))


def _certain(value: Element) -> Value:
    from catdiag.prove.exact import NoValue

    if isinstance(value, NoValue):
        raise NotACounterexample(f"one of the two has no value there: {value}")
    return value


def _shown(value: Value) -> Any:
    from catdiag.prove.exact import MinusInfinity, bounds

    if isinstance(value, MinusInfinity):
        return float("-inf")
    return value if isinstance(value, (bool, Fraction)) else float(sum(bounds(value)) / 2)


def _input(declared: Mapping[str, Any], found: Counterexample) -> Array:
    """An input's elements, of the shape that the sizes say and of its element type."""
    from catdiag.prove import exact

    name = str(declared["name"])
    names = [str(axis) for axis, _ in declared["axes"]]
    shape = [exact.size_value(size, found.sizes) for _, size in declared["axes"]]
    nested = found.arrays[name]

    def fits(x: Any, lengths: Sequence[int]) -> bool:
        if not lengths:
            return not isinstance(x, list)
        return isinstance(x, list) and len(x) == lengths[0] and all(fits(v, lengths[1:]) for v in x)

    if not fits(nested, shape):
        raise NotACounterexample(f"array {name} does not have the shape {shape}")

    def value(at: tuple[int, ...]) -> Value:
        x = nested
        for k in at:
            x = x[k]
        element = declared["element"]
        if (element == "bool") != isinstance(x, bool) or (isinstance(x, exact.MinusInfinity) and element != "extended"):
            raise NotACounterexample(f"array {name} holds {x}, which is not {element}")
        if element == "int" and Fraction(x).denominator != 1:
            raise NotACounterexample(f"array {name} holds {x}, which is no integer")
        return x  # type: ignore[no-any-return]

    return exact.build(names, shape, value)


_POLYNOMIAL = re.compile(r"(-?\d+) \+ (-?\d+)·t \+ (-?\d+)·t², t = x₁ \+ 2·x₂ \+ …")


def _function(text: str) -> Callable[..., Value]:
    """What stood for an uninterpreted function, by its description."""
    match = _POLYNOMIAL.fullmatch(text)
    if match is None:
        raise NotACounterexample(f"no function is described by {text!r}")
    a, b, c = map(Fraction, match.groups())

    def polynomial(*xs: Fraction) -> Fraction:
        t = sum(((k + 1) * x for k, x in enumerate(xs)), Fraction(0))
        return a + b * t + c * t * t

    return polynomial
