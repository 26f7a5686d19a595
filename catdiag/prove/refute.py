"""Counterexamples: small sizes and exact arrays on which two programs certainly differ.

Both programs are run on exact numbers (`prove.exact`), loops in blocks of one and two, and a difference counts
only where the two enclosures do not meet and both programs are defined. Sizes grow from the smallest, so the
first difference found is a small one. The search is deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from catdiag.kernel.check import condition
from catdiag.kernel.terms import Term, leaves
from catdiag.prove import exact

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Counterexample:
    """Sizes and exact arrays on which two diagrams differ.

    `.arrays` are nested lists of rationals by input name, `.lhs` and `.rhs` the two values (a rational, or the
    middle of an enclosure) at `.index` of output `.output`; `.blocks` are the sizes of blocks and tiles used, and
    `.functions` says what stood for uninterpreted functions.
    """

    sizes: dict[str, int]
    arrays: dict[str, Any]
    lhs: Any
    rhs: Any
    index: dict[str, int]
    output: int = 0
    blocks: dict[str, int] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)

    def numpy(self) -> dict[str, np.ndarray]:
        """The arrays as NumPy arrays of floats (of truth values where they are such)."""
        import numpy as np

        def convert(x: Any) -> Any:
            if isinstance(x, list):
                return [convert(v) for v in x]
            return x if isinstance(x, bool) else float(x)

        return {name: np.array(convert(value)) for name, value in self.arrays.items()}

    def __str__(self) -> str:
        where = ", ".join(f"{a}={i}" for a, i in self.index.items())
        lines = ["sizes " + ", ".join(f"{k}={v}" for k, v in self.sizes.items())]
        if self.blocks:
            lines.append("blocks " + ", ".join(f"{k}={v}" for k, v in self.blocks.items()))
        lines += [f"{name} = {_text(value)}" for name, value in self.arrays.items()]
        lines += [f"{name} is {text}" for name, text in self.functions.items()]
        lines.append(f"left gives {self.lhs}, right gives {self.rhs}" + (f" at {where}" if where else ""))
        return "\n".join(lines)


def _text(value: Any) -> str:
    return "[" + ", ".join(map(_text, value)) + "]" if isinstance(value, list) else str(value)


def refute(
    statement: Mapping[str, Any], tries: int = 400, operations: int = 150_000, seed: int = 0
) -> Counterexample | None:
    """A counterexample to a statement (two core programs and assumptions), or None if none was found.

    The search is bounded by `tries` and by a number of scalar `operations`, so that it ends in seconds.
    """
    left, right = statement["left"], statement["right"]
    symbols = sorted(exact.symbols_of(left) | exact.symbols_of(right))
    assumptions = [condition(c) for c in statement["assume"]]
    rng = random.Random(seed)
    locals_ = sorted(set(_locals(left)) | set(_locals(right)))
    names = sorted(set(_functions(left)) | set(_functions(right)))
    shapes = list(_shapes(symbols, assumptions))
    if not shapes:
        return None
    budget = exact.Budget(operations)
    for k in range(tries):
        sizes = shapes[k % len(shapes)] if k >= len(shapes) else shapes[k]
        blocks = {name: 1 + rng.randrange(2) if k % 3 else 1 for name in locals_}
        functions, told = _interpretations(names, rng)
        inputs = [_random_array(d, sizes, rng, simple=k < tries // 2) for d in left["inputs"]]
        try:
            ours = exact.run(left, inputs, sizes, blocks, functions, budget)
            theirs = exact.run(right, inputs, sizes, blocks, functions, budget)
        except exact.Exhausted:
            return None
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            for i, value in a.values.items():
                index = dict(zip(a.axes, i, strict=True))
                other = b.at(index)
                if isinstance(value, exact.NoValue) or isinstance(other, exact.NoValue):
                    continue
                if exact.different(value, other):
                    arrays = {str(d["name"]): _nested(array) for d, array in zip(left["inputs"], inputs, strict=True)}
                    return Counterexample(sizes, arrays, _shown(value), _shown(other), index, number, blocks, told)
    return None


def _shown(value: exact.Value) -> Any:
    if isinstance(value, exact.MinusInfinity):
        return float("-inf")
    return value if isinstance(value, (bool, Fraction)) else float(sum(exact.bounds(value)) / 2)


def _locals(program: Mapping[str, Any]) -> Iterator[str]:
    for node in program["nodes"]:
        if node["op"] == "fold":
            yield node["block"]
        elif node["op"] == "group":
            yield from (local for _, local in node["tiles"])
            yield from _locals(node["body"])


def _functions(program: Mapping[str, Any]) -> Iterator[str]:
    for node in program["nodes"]:
        if node["op"] == "map" and str(node["fn"]).startswith("apply:"):
            yield f"{node['fn'][6:]}"
        for body in ("unit", "step", "merge", "state", "body"):
            if body in node:
                yield from _functions(node[body])


def _shapes(symbols: Sequence[str], assumptions: Sequence[Term]) -> Iterator[dict[str, int]]:
    """Sizes that meet the assumptions, the smallest first; not more than a few dozen."""
    top = 3
    needed = {s for c in assumptions for s in leaves(c, "size")}
    numbers = [int(n) for c in assumptions for n in leaves(c, "num") if Fraction(n).denominator == 1]
    if needed and numbers:
        top = max(top, min(max(numbers) + 2, 12))
    choices = (
        sorted(product(range(1, top + 1), repeat=len(symbols)), key=lambda v: (sum(v), v))
        if len(symbols) <= 5
        else [(1,) * len(symbols), (2,) * len(symbols), (3,) * len(symbols)]
    )
    count = 0
    for values in choices:
        sizes = dict(zip(symbols, values, strict=True))
        if all(_holds(c, sizes) for c in assumptions):
            yield sizes
            count += 1
            if count >= 60:
                return


def _holds(c: Term, sizes: Mapping[str, int]) -> bool:
    def value(t: Term) -> int:
        if t.op == "num":
            return int(Fraction(str(t.data)))
        if t.op == "size":
            return sizes.get(str(t.data), 1)
        parts = [value(a) for a in t.args]
        result = parts[0]
        for p in parts[1:]:
            result = result + p if t.op == "add" else result * p
        return result

    a, b = (value(t) for t in c.args)
    return {"lt": a < b, "le": a <= b, "eq": a == b}[c.op]


def _interpretations(
    names: Sequence[str], rng: random.Random
) -> tuple[dict[str, Callable[..., Fraction]], dict[str, str]]:
    functions: dict[str, Callable[..., Fraction]] = {}
    told: dict[str, str] = {}
    for name in names:
        a, b, c = (Fraction(rng.randrange(-3, 4)) for _ in range(3))

        def polynomial(*xs: Fraction, a: Fraction = a, b: Fraction = b, c: Fraction = c) -> Fraction:
            mixed = sum(((k + 1) * x for k, x in enumerate(xs)), Fraction(0))
            return a + b * mixed + c * mixed * mixed

        functions[name] = polynomial
        told[name] = f"{a} + {b}·t + {c}·t², t = x₁ + 2·x₂ + …"
    return functions, told


def _random_array(
    declared: Mapping[str, Any], sizes: Mapping[str, int], rng: random.Random, simple: bool
) -> exact.Array:
    names = [str(n) for n, _ in declared["axes"]]
    shape = [exact.size_value(s, sizes) for _, s in declared["axes"]]

    def value(_: tuple[int, ...]) -> exact.Value:
        if declared["element"] == "bool":
            return rng.random() < 0.5
        if declared["element"] == "int" or simple:
            return Fraction(rng.randrange(-2, 4))
        return Fraction(rng.randrange(-6, 7), rng.choice((1, 2, 3)))

    return exact.build(names, shape, value)


def _nested(array: exact.Array) -> Any:
    def part(prefix: tuple[int, ...]) -> Any:
        if len(prefix) == len(array.shape):
            return array.values[prefix]
        return [part((*prefix, k)) for k in range(array.shape[len(prefix)])]

    return part(())
