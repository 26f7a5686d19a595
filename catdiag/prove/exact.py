"""Core programs run on exact numbers: rationals where they stay rational, enclosing intervals where they do not.

`exp`, `log` and `sqrt` of a rational are enclosed by two rationals, and every operation on enclosures rounds
outwards, so that two results whose enclosures do not meet are different numbers: a proof of inequality, with
nothing sampled and no floating point. Loops and groups really run in blocks and tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import isqrt, prod
from typing import Any

BITS = 120
_TRANSCENDENTAL = {"exp", "log", "sqrt", "tanh", "sigmoid"}
_HARD = 40


class Undefined(Exception):
    """An operation outside its domain: the program means nothing on this input."""


class Exhausted(Exception):
    """The work allowed is used up."""


class Budget:
    """A number of scalar operations that may still be carried out; transcendental ones count for many."""

    def __init__(self, operations: int) -> None:
        self.left = operations

    def spend(self, operations: int) -> None:
        """Counts work. Raises Exhausted where none is left."""
        self.left -= operations
        if self.left < 0:
            raise Exhausted


class Unclear(Exception):
    """The enclosures are too wide to tell which way the program goes."""


@dataclass(frozen=True)
class Interval:
    """All reals from `low` to `high`."""

    low: Fraction
    high: Fraction

    def __str__(self) -> str:
        return f"{float((self.low + self.high) / 2):.12g}"


class MinusInfinity:
    """−∞."""

    def __repr__(self) -> str:
        return "-inf"


BOTTOM = MinusInfinity()
Value = Fraction | Interval | MinusInfinity | bool


def _down(x: Fraction) -> Fraction:
    return Fraction((x.numerator << BITS) // x.denominator, 1 << BITS)


def _up(x: Fraction) -> Fraction:
    return -_down(-x)


def _make(low: Fraction, high: Fraction) -> Value:
    return low if low == high else Interval(_down(low), _up(high))


def bounds(x: Value) -> tuple[Fraction, Fraction]:
    """The ends of an enclosure. Raises Undefined for −∞."""
    if isinstance(x, Interval):
        return x.low, x.high
    if isinstance(x, MinusInfinity):
        raise Undefined("-inf where a real is needed")
    value = Fraction(x)
    return value, value


def add(x: Value, y: Value) -> Value:
    """x + y; −∞ if either is."""
    if isinstance(x, MinusInfinity) or isinstance(y, MinusInfinity):
        return BOTTOM
    (a, b), (c, d) = bounds(x), bounds(y)
    return _make(a + c, b + d)


def mul(x: Value, y: Value) -> Value:
    """x · y. Raises Undefined if either is −∞."""
    (a, b), (c, d) = bounds(x), bounds(y)
    ends = (a * c, a * d, b * c, b * d)
    return _make(min(ends), max(ends))


def neg(x: Value) -> Value:
    """−x. Raises Undefined for −∞."""
    a, b = bounds(x)
    return _make(-b, -a)


def inv(x: Value) -> Value:
    """1/x. Raises Undefined for 0, Unclear where an enclosure contains 0."""
    a, b = bounds(x)
    if a == b == 0:
        raise Undefined("division by 0")
    if a <= 0 <= b:
        raise Unclear("a divisor near 0")
    return _make(1 / b, 1 / a)


def _exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    halvings = max(0, (abs(x.numerator) // x.denominator).bit_length() + 2)
    small = x / (1 << halvings)
    term = total = Fraction(1)
    for k in range(1, 40):
        term = term * small / k
        total += term
    # |x| ≤ 1/2, so that what is left is at most twice the last term.
    low, high = _down(total - 2 * abs(term)), _up(total + 2 * abs(term))
    for _ in range(halvings):
        low, high = _down(low * low), _up(high * high)
    return low, high


def exp(x: Value) -> Value:
    """eˣ; 0 at −∞."""
    if isinstance(x, MinusInfinity):
        return Fraction(0)
    a, b = bounds(x)
    if a == b == 0:
        return Fraction(1)
    if max(abs(a), abs(b)) > 200:
        raise Unclear("an exponent too large to enclose")
    return _make(_exp_bounds(a)[0], _exp_bounds(b)[1])


def _log_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    # log x = Σ log of near-equal factors: halve x towards 1 by square roots, then the series of artanh.
    low = high = x
    halvings = 0
    while not Fraction(3, 4) < low <= high < Fraction(4, 3):
        low, high = _sqrt_bounds(low)[0], _sqrt_bounds(high)[1]
        halvings += 1

    def series(y: Fraction) -> tuple[Fraction, Fraction]:
        t = (y - 1) / (y + 1)
        total, power = Fraction(0), t
        for k in range(60):
            total += power / (2 * k + 1)
            power = _down(power * t * t) if power * t * t >= 0 else _up(power * t * t)
        slack = Fraction(1, 1 << (BITS - 8))
        return 2 * total - slack, 2 * total + slack

    return _down(series(low)[0] * (1 << halvings)), _up(series(high)[1] * (1 << halvings))


def log(x: Value) -> Value:
    """The natural logarithm. Raises Undefined at 0 and below."""
    a, b = bounds(x)
    if b <= 0:
        raise Undefined("logarithm of a number that is not positive")
    if a <= 0:
        raise Unclear("logarithm near 0")
    if a == b == 1:
        return Fraction(0)
    return _make(_log_bounds(a)[0], _log_bounds(b)[1])


def _sqrt_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    root = isqrt((x.numerator << (2 * BITS)) // x.denominator)
    return Fraction(root, 1 << BITS), Fraction(root + 1, 1 << BITS)


def sqrt(x: Value) -> Value:
    """The square root; exact for squares of rationals. Raises Undefined below 0."""
    a, b = bounds(x)
    if b < 0:
        raise Undefined("square root of a negative number")
    if a < 0:
        raise Unclear("square root near 0")
    if a == b:
        root = Fraction(isqrt(a.numerator), isqrt(a.denominator))
        if root * root == a:
            return root
    return _make(_sqrt_bounds(a)[0], _sqrt_bounds(b)[1])


def maximum(x: Value, y: Value) -> Value:
    """The larger; −∞ is least."""
    if isinstance(x, MinusInfinity):
        return y
    if isinstance(y, MinusInfinity):
        return x
    (a, b), (c, d) = bounds(x), bounds(y)
    return _make(max(a, c), max(b, d))


def compare(op: str, x: Value, y: Value) -> bool:
    """x < y, x ≤ y or x = y. Raises Unclear where enclosures overlap."""
    if isinstance(x, MinusInfinity) or isinstance(y, MinusInfinity):
        both = isinstance(x, MinusInfinity) and isinstance(y, MinusInfinity)
        if op == "eq":
            return both
        return isinstance(x, MinusInfinity) and (op == "le" or not both)
    (a, b), (c, d) = bounds(x), bounds(y)
    if a == b and c == d:
        return {"lt": a < c, "le": a <= c, "eq": a == c}[op]
    if b < c:
        return op != "eq"
    if d < a:
        return False
    raise Unclear("a comparison of values too close to tell apart")


def different(x: Value, y: Value) -> bool:
    """Whether two values are certainly different."""
    if isinstance(x, MinusInfinity) or isinstance(y, MinusInfinity):
        return not (isinstance(x, MinusInfinity) and isinstance(y, MinusInfinity))
    (a, b), (c, d) = bounds(x), bounds(y)
    return b < c or d < a


def _truth(x: Value) -> bool:
    return x if isinstance(x, bool) else not compare("eq", x, Fraction(0))


def scalar(name: str, args: Sequence[Value], functions: Mapping[str, Callable[..., Fraction]]) -> Value:
    """A scalar function on values; `tanh` and `sigmoid` by their definitions."""
    x = args[0]
    if name.startswith("apply:"):
        if any(not isinstance(a, (Fraction, bool)) for a in args):
            raise Unclear("an uninterpreted function of a number that is not rational")
        return functions[name[6:]](*(Fraction(a) for a in args if isinstance(a, (Fraction, bool))))
    if name == "where":
        return args[1] if _truth(x) else args[2]
    if name in ("and", "or"):
        both = [_truth(a) for a in args]
        return all(both) if name == "and" else any(both)
    if name == "not":
        return not _truth(x)
    if name in ("lt", "le", "eq", "ne"):
        return compare(name, x, args[1]) if name != "ne" else not compare("eq", x, args[1])
    one = Fraction(1)
    unary: dict[str, Callable[[Value], Value]] = {
        "neg": neg, "exp": exp, "log": log, "sqrt": sqrt,
        "abs": lambda v: maximum(v, neg(v)),
        "sigmoid": lambda v: inv(add(one, exp(neg(v)))),
        "tanh": lambda v: add(one, mul(Fraction(-2), inv(add(exp(mul(Fraction(2), v)), one)))),
    }  # fmt: skip
    if name in unary:
        return unary[name](x)
    y = args[1]
    binary: dict[str, Callable[[Value, Value], Value]] = {
        "add": add, "mul": mul, "max": maximum, "sub": lambda v, w: add(v, neg(w)),
        "div": lambda v, w: mul(v, inv(w)), "min": lambda v, w: neg(maximum(neg(v), neg(w))),
    }  # fmt: skip
    return binary[name](x, y)


def reduction(monoid: str, values: Sequence[Value]) -> Value:
    """⊕ of values; `max` of none is −∞."""
    if monoid in ("any", "all"):
        truths = [_truth(v) for v in values]
        return any(truths) if monoid == "any" else all(truths)
    if monoid == "min":
        return neg(reduction("max", [neg(v) for v in values]))
    unit: dict[str, Value] = {"sum": Fraction(0), "prod": Fraction(1), "max": BOTTOM}
    combine = {"sum": add, "prod": mul, "max": maximum}[monoid]
    total = unit[monoid]
    for v in values:
        total = combine(total, v)
    return total


@dataclass(frozen=True)
class Array:
    """Values at every index of named axes."""

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    values: Mapping[tuple[int, ...], Value]

    def at(self, index: Mapping[str, int]) -> Value:
        """The value at an index given by axis name."""
        return self.values[tuple(index[a] for a in self.axes)]

    def slice(self, axis: str, start: int, stop: int) -> Array:
        """The part of an axis from start to stop; the array itself if it lacks the axis."""
        if axis not in self.axes:
            return self
        k = self.axes.index(axis)
        shape = (*self.shape[:k], stop - start, *self.shape[k + 1 :])
        return build(
            self.axes, shape, lambda i: self.values[tuple(v + (start if p == k else 0) for p, v in enumerate(i))]
        )


def build(axes: Sequence[str], shape: Sequence[int], value: Callable[[tuple[int, ...]], Value]) -> Array:
    """An array from a function of its index."""
    return Array(tuple(axes), tuple(shape), {i: value(i) for i in product(*map(range, shape))})


def _reindex(node: Mapping[str, Any], args: Sequence[Array], sizes: Mapping[str, int]) -> Array:
    """A structural map, by going over all the indices of its inputs."""
    kind, whole = node["kind"], str(node["axis"][0])
    parts = [(str(p), size_value(s, sizes)) for p, s in node["parts"]]
    given = parts if kind == "split" else [parts[node["place"]]]
    if kind in ("merge", "concat"):
        given = [(whole, size_value(node["axis"][1], sizes))]
    extent = dict(given)
    for k, array in enumerate(args):
        gone = {p for p, _ in parts} if kind == "merge" else {parts[k][0] if kind == "concat" else whole}
        extent |= {n: size for n, size in zip(array.axes, array.shape, strict=True) if n not in gone}

    def value(i: tuple[int, ...]) -> Value:
        at = dict(zip(extent, i, strict=True))
        array = args[0]
        if kind == "split":
            at[whole] = 0
            for p, size in parts:
                at[whole] = at[whole] * size + at[p]
        elif kind == "merge":
            left = at[whole]
            for p, size in reversed(parts):
                left, at[p] = divmod(left, size)
        elif kind == "slice":
            at[whole] = sum(size for _, size in parts[: node["place"]]) + at[given[0][0]]
        else:
            left = at[whole]
            k = 0
            while left >= parts[k][1]:
                left -= parts[k][1]
                k += 1
            array, at[parts[k][0]] = args[k], left
        return array.at(at)

    return build(tuple(extent), tuple(extent.values()), value)


def size_value(s: Any, sizes: Mapping[str, int]) -> int:
    """The number that a size of a core program is."""
    if isinstance(s, (list, tuple)):
        left, right = size_value(s[1], sizes), size_value(s[2], sizes)
        return left + right if s[0] == "+" else left * right
    return s if isinstance(s, int) else sizes[s]


def run(
    program: Mapping[str, Any],
    inputs: Sequence[Array],
    sizes: Mapping[str, int],
    blocks: Mapping[str, int],
    functions: Mapping[str, Callable[..., Fraction]],
    budget: Budget | None = None,
) -> list[Array]:
    """The outputs of a core program. `blocks` gives the sizes of blocks and tiles by their local names (default 1).

    Raises Undefined and Unclear as the operations do, and Exhausted where the budget does not suffice.
    """
    budget = budget or Budget(10**9)
    wires = list(inputs)
    for node in program["nodes"]:
        wires.extend(_node(node, [wires[w] for w in node.get("args", ())], sizes, blocks, functions, budget))
    return [wires[w] for w, _ in program["outputs"]]


def _node(
    node: Mapping[str, Any],
    args: Sequence[Array],
    sizes: Mapping[str, int],
    blocks: Mapping[str, int],
    functions: Mapping[str, Callable[..., Fraction]],
    budget: Budget,
) -> list[Array]:
    op = node["op"]
    extent = {name: n for a in args for name, n in zip(a.axes, a.shape, strict=True)}
    if op == "map":
        names = tuple(extent)
        budget.spend(prod(extent.values()) * (_HARD if node["fn"] in _TRANSCENDENTAL else 1))
        return [
            build(
                names,
                tuple(extent.values()),
                lambda i: scalar(node["fn"], [a.at(dict(zip(names, i, strict=True))) for a in args], functions),
            )
        ]
    if op in ("reduce", "einsum"):
        kept = tuple(n for n in extent if n != node["axis"]) if op == "reduce" else tuple(node["axes"])
        gone = tuple(n for n in extent if n not in kept)
        monoid = node["monoid"] if op == "reduce" else "sum"
        budget.spend(prod(extent.values()))

        def total(i: tuple[int, ...]) -> Value:
            here = dict(zip(kept, i, strict=True))
            found = []
            for j in product(*(range(extent[n]) for n in gone)):
                values = [a.at(here | dict(zip(gone, j, strict=True))) for a in args]
                found.append(reduction("prod", values) if op == "einsum" else values[0])
            return reduction(monoid, found)

        return [build(kept, [extent[n] for n in kept], total)]
    if op == "rename":
        pairs = dict(node["pairs"])
        back = {pairs.get(a, a): a for a in args[0].axes}
        names = tuple(str(n) for n, _ in node["axes"])
        shape = [size_value(s, sizes) for _, s in node["axes"]]
        return [
            build(names, shape, lambda i: args[0].at({back[n]: v for n, v in zip(names, i, strict=True) if n in back}))
        ]
    if op == "reindex":
        return [_reindex(node, args, sizes)]
    if op == "index":
        return [build([node["axis"][0]], [size_value(node["axis"][1], sizes)], lambda i: Fraction(i[0]))]
    if op == "size":
        return [build((), (), lambda _: Fraction(size_value(node["size"], sizes)))]
    if op == "const":
        value: Value = BOTTOM if node["value"] == "-inf" else Fraction(node["value"])
        return [build((), (), lambda _: value)]
    if op == "fold":
        axis, local = node["axis"], node["block"]
        n = extent[axis]
        state = run(node["unit"], [], sizes, blocks, functions, budget)
        for start in range(0, n, blocks.get(local, 1)):
            stop = min(n, start + blocks.get(local, 1))
            here = [a.slice(axis, start, stop) for a in args]
            state = run(node["step"], [*state, *here], {**sizes, local: stop - start}, blocks, functions, budget)
        return state
    tiles = [(axis, local, extent[axis]) for axis, local in node["tiles"]]
    starts = [range(0, n, blocks.get(local, 1)) for _, local, n in tiles]
    parts: list[dict[tuple[int, ...], Value]] = [{} for _ in node["body"]["outputs"]]
    shapes: list[tuple[tuple[str, ...], dict[str, int]]] = [((), {}) for _ in parts]
    for corner in product(*starts):
        here = list(args)
        local_sizes = dict(sizes)
        for (axis, local, n), start in zip(tiles, corner, strict=True):
            stop = min(n, start + blocks.get(local, 1))
            here = [a.slice(axis, start, stop) for a in here]
            local_sizes[local] = stop - start
        offset = {axis: start for (axis, _, _), start in zip(tiles, corner, strict=True)}
        for k, out in enumerate(run(node["body"], here, local_sizes, blocks, functions, budget)):
            sizes_of = dict(zip(out.axes, out.shape, strict=True)) | {axis: n for axis, _, n in tiles}
            shapes[k] = (out.axes, sizes_of)
            for i, v in out.values.items():
                parts[k][tuple(p + offset.get(a, 0) for a, p in zip(out.axes, i, strict=True))] = v
    return [
        Array(names, tuple(sizes_of[a] for a in names), part)
        for part, (names, sizes_of) in zip(parts, shapes, strict=True)
    ]
