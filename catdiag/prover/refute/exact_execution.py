"""Core programs run in exact arithmetic (`exact_reals`): each element has a value, or the reason why it has none.

An element is `NoValue` where the program is undefined (a divisor is 0, a read is out of range, …), or where enclosures
are too wide to decide. Evaluation is strict, as definedness is: only `where`, and reads that are not taken, skip
operands. Loops and groups are run in blocks and tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, floor, prod
from typing import Any, TypeAlias

from catdiag.category.scalars import SCALARS, row
from catdiag.prover.assumptions import size_value
from catdiag.prover.refute.exact_reals import (
    BITS,
    BOTTOM,
    EMPTY,
    MinusInfinity,
    Unclear,
    Undefined,
    Value,
    add,
    compare,
    cos,
    erf,
    exp,
    inv,
    log,
    maximum,
    mul,
    neg,
    random_number,
    rounded,
    sin,
    sqrt,
    truth,
)

_TRANSCENDENTAL = frozenset(fn for fn, (_, element) in SCALARS.items() if element == "real")
_EXPENSIVE = 20


class Exhausted(Exception):
    """The work bound is reached."""


class IllTyped(Exception):
    """Arrays whose extents are not those that the program says, or differ along one axis."""


class Budget:
    """The number of scalar operations that remain, and the precision of enclosures in bits."""

    def __init__(self, operations: int, bits: int = BITS) -> None:
        self.left, self.bits = operations, bits

    def spend(self, operations: int) -> None:
        """Counts work. Raises Exhausted where none is left."""
        self.left -= operations
        if self.left < 0:
            raise Exhausted


@dataclass(frozen=True)
class NoValue:
    """Why an element has no value: the program is undefined there (`undefined`), or an enclosure is too wide; and at
    which index.
    """

    reason: str
    at: tuple[tuple[str, int], ...] = ()
    undefined: bool = True

    def __str__(self) -> str:
        where = ", ".join(f"{axis}={k}" for axis, k in self.at)
        return self.reason + (f" at {where}" if where else "")


Element: TypeAlias = Value | NoValue
Function: TypeAlias = Callable[..., Value]
Functions: TypeAlias = Mapping[str, Function]
ExactFunction: TypeAlias = Callable[[Sequence[Value], int], Value]
_ONE = Fraction(1)


def scalar(name: str, args: Sequence[Value], functions: Functions, bits: int = BITS) -> Value:
    """A scalar function of exact values. Raises Undefined and Unclear."""
    if name.startswith("apply:"):
        reals = [Fraction(a) if isinstance(a, bool) else a for a in args]
        if any(isinstance(a, MinusInfinity) for a in reals):
            raise Unclear("an uninterpreted function of -inf")
        return functions[name[6:]](*reals)
    return row(EXACT, name, "evaluated in exact numbers")(args, bits)


def _quotient(a: Value, b: Value) -> Value:
    """⌊a/b⌋. Raises Undefined for −∞, and for a divisor that is not positive."""
    if isinstance(a, MinusInfinity):
        raise Undefined(f"{a.reason} is divided and rounded down")
    if isinstance(b, MinusInfinity) or not compare("lt", Fraction(0), b):
        raise Undefined(f"a quotient rounded down by {b}, which is not positive")
    return rounded(mul(a, inv(b)), floor)


def _sign(a: Value) -> Value:
    zero = Fraction(0)
    return Fraction(compare("lt", zero, a) - compare("lt", a, zero))


def reduction(monoid: str, values: Sequence[Value]) -> Value:
    """⊕ of values; the maximum of none is −∞."""
    if monoid in ("any", "all"):
        truths = [truth(v) for v in values]
        return any(truths) if monoid == "any" else all(truths)
    if monoid == "min":
        return neg(reduction("max", [neg(v) for v in values]))
    unit: dict[str, Value] = {"sum": Fraction(0), "prod": Fraction(1), "max": EMPTY}
    combine = {"sum": add, "prod": mul, "max": maximum}[monoid]
    total = unit[monoid]
    for v in values:
        total = combine(total, v)
    return total


def _one(function: Callable[[Value], Value]) -> ExactFunction:
    return lambda args, bits: function(args[0])


def _two(function: Callable[[Value, Value], Value]) -> ExactFunction:
    return lambda args, bits: function(args[0], args[1])


EXACT: Mapping[str, ExactFunction] = {
    "add": lambda args, bits: reduction("sum", args),
    "mul": lambda args, bits: reduction("prod", args),
    "sub": _two(lambda a, b: add(a, neg(b))),
    "div": _two(lambda a, b: mul(a, inv(b))),
    "floordiv": _two(_quotient),
    "neg": _one(neg),
    "abs": _one(lambda a: maximum(a, neg(a))),
    "max": _two(maximum),
    "min": _two(lambda a, b: neg(maximum(neg(a), neg(b)))),
    "exp": lambda args, bits: exp(args[0], bits),
    "log": lambda args, bits: log(args[0], bits),
    "sqrt": lambda args, bits: sqrt(args[0], bits),
    "sigmoid": lambda args, bits: inv(add(_ONE, exp(neg(args[0]), bits))),
    "tanh": lambda args, bits: add(_ONE, mul(Fraction(-2), inv(add(exp(mul(Fraction(2), args[0]), bits), _ONE)))),
    "erf": lambda args, bits: erf(args[0], bits),
    "sin": lambda args, bits: sin(args[0], bits),
    "cos": lambda args, bits: cos(args[0], bits),
    "uniform": lambda args, bits: random_number(args),
    "sign": _one(_sign),
    "floor": _one(lambda a: rounded(a, floor)),
    "ceil": _one(lambda a: rounded(a, ceil)),
    "round": _one(lambda a: rounded(a, round)),
    "eq": _two(lambda a, b: compare("eq", a, b)),
    "ne": _two(lambda a, b: not compare("eq", a, b)),
    "lt": _two(lambda a, b: compare("lt", a, b)),
    "le": _two(lambda a, b: compare("le", a, b)),
    "and": _two(lambda a, b: truth(a) & truth(b)),
    "or": _two(lambda a, b: truth(a) | truth(b)),
    "not": _one(lambda a: not truth(a)),
    "where": lambda args, bits: args[1] if truth(args[0]) else args[2],
}
"""Each scalar function of exact values, at a precision in bits; `tanh` and `sigmoid` by their definitions."""


def _attempt(place: Callable[[], tuple[tuple[str, int], ...]], work: Callable[[], Value]) -> Element:
    """The value of a computation, or the reason why there is none."""
    try:
        return work()
    except (Undefined, Unclear) as error:
        return NoValue(str(error), place(), isinstance(error, Undefined))


def _first(found: Sequence[Element]) -> NoValue | None:
    """The reason why one of several required elements has no value; certain reasons come first."""
    missing = [v for v in found if isinstance(v, NoValue)]
    return next((v for v in missing if v.undefined), missing[0]) if missing else None


@dataclass(frozen=True)
class ExactArray:
    """Exact elements at every index of named axes."""

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    values: Mapping[tuple[int, ...], Element]

    def at(self, index: Mapping[str, int]) -> Element:
        """The element at an index given by axis name."""
        return self.values[tuple(index[a] for a in self.axes)]

    def slice(self, axis: str, start: int, stop: int) -> ExactArray:
        """The part of an axis from start to stop; the array itself if it does not have the axis."""
        if axis not in self.axes:
            return self
        k = self.axes.index(axis)
        shape = (*self.shape[:k], stop - start, *self.shape[k + 1 :])
        return build(
            self.axes, shape, lambda i: self.values[tuple(v + (start if p == k else 0) for p, v in enumerate(i))]
        )


def build(axes: Sequence[str], shape: Sequence[int], value: Callable[[tuple[int, ...]], Element]) -> ExactArray:
    """An array from a function of its index."""
    return ExactArray(tuple(axes), tuple(shape), {i: value(i) for i in product(*map(range, shape))})


def _extents(args: Sequence[ExactArray]) -> dict[str, int]:
    """The extent of every axis of some arrays. Raises IllTyped where two of them disagree."""
    found: dict[str, int] = {}
    for array in args:
        for name, n in zip(array.axes, array.shape, strict=True):
            if found.setdefault(name, n) != n:
                raise IllTyped(f"axis {name} has {found[name]} indices and {n}")
    return found


def pointwise(args: Sequence[ExactArray], work: Callable[[Sequence[Value]], Value]) -> ExactArray:
    """A function of the elements of arrays, at every index of the union of their axes."""
    extent = _extents(args)
    names = tuple(extent)
    places = [(a.values, tuple(names.index(axis) for axis in a.axes)) for a in args]

    def element(i: tuple[int, ...]) -> Element:
        found = [values[tuple(i[p] for p in positions)] for values, positions in places]
        known = [v for v in found if not isinstance(v, NoValue)]
        if len(known) < len(found):
            return _first(found) or NoValue("")
        return _attempt(lambda: tuple(zip(names, i, strict=True)), lambda: work(known))

    return build(names, tuple(extent.values()), element)


def _where(args: Sequence[ExactArray]) -> ExactArray:
    """`where`, which evaluates only the branch that it takes."""
    extent = _extents(args)
    names = tuple(extent)

    def element(i: tuple[int, ...]) -> Element:
        here = dict(zip(names, i, strict=True))
        c = args[0].at(here)
        if isinstance(c, NoValue):
            return c
        chosen = _attempt(lambda: tuple(here.items()), lambda: truth(c))
        return chosen if isinstance(chosen, NoValue) else args[1 if chosen else 2].at(here)

    return build(names, tuple(extent.values()), element)


def index_value(expr: Any, sizes: Mapping[str, int], here: Mapping[str, int], args: Sequence[ExactArray]) -> int:
    """The value of an index expression of a view. Raises Undefined or Unclear for a read without a value."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return sizes[expr]
    if expr[0] == "i":
        return here[expr[1]]
    if expr[0] == "w":
        found = args[expr[1]].at(here)
        if isinstance(found, NoValue):
            raise (Undefined if found.undefined else Unclear)(str(found))
        if isinstance(found, bool) or not isinstance(found, Fraction) or found.denominator != 1:
            raise Undefined(f"an array is read at {found}, which is no integer")
        return int(found)
    a, b = (index_value(e, sizes, here, args) for e in expr[1:])
    if expr[0] == "//" and b <= 0:
        raise Undefined(f"an index is divided by {b}, which is not positive")
    return a + b if expr[0] == "+" else a * b if expr[0] == "*" else a // b


def _view(node: Mapping[str, Any], args: Sequence[ExactArray], sizes: Mapping[str, int]) -> ExactArray:
    """Reads of arrays at index expressions: at each index the first read whose conditions hold."""
    extent = {str(name): size_value(s, sizes) for name, s in node["axes"]}
    for array, read in zip(args, node["reads"], strict=False):
        for axis, n in zip(array.axes, array.shape, strict=True):
            if axis not in read["at"] and extent.get(axis) != n:
                raise IllTyped(f"axis {axis} has {n} indices and {extent.get(axis)} in what is read of it")
    compared: dict[str, Callable[[int, int], bool]] = {
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "eq": lambda a, b: a == b,
    }

    def element(i: tuple[int, ...]) -> Element:
        here = dict(zip(extent, i, strict=True))

        def number(expr: Any) -> int:
            return index_value(expr, sizes, here, args)

        def holds(read: Mapping[str, Any]) -> bool:
            asked = [compared[c[0]](number(c[1]), number(c[2])) for c in read["where"]]
            return all(asked)

        try:
            chosen = next(k for k, read in enumerate(node["reads"]) if holds(read))
            array, at = args[chosen], {**here, **{a: number(e) for a, e in node["reads"][chosen]["at"].items()}}
        except (Undefined, Unclear) as error:
            return NoValue(str(error), tuple(here.items()), isinstance(error, Undefined))
        for axis, n in zip(array.axes, array.shape, strict=True):
            if not 0 <= at[axis] < n:
                return NoValue(f"{axis} is read at {at[axis]}, out of {n}", tuple(here.items()))
        return array.at(at)

    return build(tuple(extent), tuple(extent.values()), element)


def locals_of(program: Mapping[str, Any]) -> set[str]:
    """The names of the block and tile sizes in a core program."""
    found: set[str] = set()
    for node in program["nodes"]:
        if node["op"] == "fold":
            found.add(node["block"])
        elif node["op"] == "group":
            found |= {local for _, local in node["tiles"]} | locals_of(node["body"])
    return found


def symbols_of(program: Mapping[str, Any]) -> set[str]:
    """The size symbols in a core program, except those of blocks and tiles."""
    found: set[str] = set()
    stack: list[tuple[Mapping[str, Any], frozenset[str]]] = [(program, frozenset())]
    while stack:
        item, local = stack.pop()
        sizes = [s for d in item["inputs"] for _, s in d["axes"]]
        for node in item["nodes"]:
            own = local | {node["block"]} if node["op"] == "fold" else local
            own = own | {symbol for _, symbol in node["tiles"]} if node["op"] == "group" else own
            stack += [(node[part], own) for part in ("unit", "step", "merge", "state", "body") if part in node]
            sizes += [s for _, s in node["axes"]] if node["op"] == "view" else []
            sizes += [node["axis"][1]] if node["op"] == "index" else []
            sizes += [node["size"]] if node["op"] == "size" else []
            for read in node.get("reads", ()):
                sizes += [*read["at"].values(), *(e for c in read["where"] for e in c[1:])]
        while sizes:
            s = sizes.pop()
            if isinstance(s, (list, tuple)) and s[0] not in ("i", "w"):
                sizes += s[1:]
            elif isinstance(s, str) and s not in local:
                found.add(s)
    return found


def run(
    program: Mapping[str, Any],
    inputs: Sequence[ExactArray],
    sizes: Mapping[str, int],
    blocks: Mapping[str, int],
    functions: Functions,
    budget: Budget | None = None,
) -> list[ExactArray]:
    """The outputs of a core program. `blocks` gives the block and tile sizes by their local names (default 1).

    Elements without a value are `NoValue`; in an output of reals, −∞ counts as one. Raises Exhausted where the budget
    does not suffice, IllTyped where the arrays do not have the sizes that the program says.
    """
    budget = budget or Budget(10**9)
    for array, declared in zip(inputs, program["inputs"], strict=True):
        wanted = {str(name): size_value(s, sizes) for name, s in declared["axes"]}
        if dict(zip(array.axes, array.shape, strict=True)) != wanted:
            raise IllTyped(f"input {declared['name']} is of {array.axes} with {array.shape} indices, not {wanted}")
    wires = list(inputs)
    here = _Setting(sizes, blocks, functions, budget)
    for node in program["nodes"]:
        wires.extend(NODES[node["op"]](here, node, [wires[w] for w in node.get("args", ())]))

    def output(array: ExactArray, element: str) -> ExactArray:
        if element in ("extended", "bool"):
            return array
        return build(array.axes, array.shape, lambda i: _real(array, i))

    return [output(wires[w], element) for w, element in program["outputs"]]


def _real(array: ExactArray, i: tuple[int, ...]) -> Element:
    v = array.values[i]
    if isinstance(v, MinusInfinity):
        return NoValue(f"{v.reason} where a real is needed", tuple(zip(array.axes, i, strict=True)))
    return v


@dataclass(frozen=True)
class _Setting:
    """What nodes are run with: sizes, lengths of blocks and tiles, the user's functions, and the work that is left."""

    sizes: Mapping[str, int]
    blocks: Mapping[str, int]
    functions: Functions
    budget: Budget

    def run(
        self, program: Mapping[str, Any], inputs: Sequence[ExactArray], local: Mapping[str, int]
    ) -> list[ExactArray]:
        """The outputs of a body, in which further sizes are known."""
        return run(program, inputs, {**self.sizes, **local}, self.blocks, self.functions, self.budget)


Made: TypeAlias = list[ExactArray]
Args: TypeAlias = Sequence[ExactArray]


def _map(here: _Setting, node: Mapping[str, Any], args: Args) -> Made:
    fn = node["fn"]
    here.budget.spend(prod(_extents(args).values()) * (_EXPENSIVE if fn in _TRANSCENDENTAL else 1))
    if fn == "where":
        return [_where(args)]
    return [pointwise(args, lambda values: scalar(fn, values, here.functions, here.budget.bits))]


def _reduce(here: _Setting, node: Mapping[str, Any], args: Args) -> Made:
    (array,), axis, extent = args, node["axis"], _extents(args)
    kept = tuple(n for n in extent if n != axis)
    here.budget.spend(prod(extent.values()))

    def total(i: tuple[int, ...]) -> Element:
        at = dict(zip(kept, i, strict=True))
        found = [array.at({**at, axis: k}) for k in range(extent[axis])]
        known = [v for v in found if not isinstance(v, NoValue)]
        if len(known) < len(found):
            return _first(found) or NoValue("")
        return _attempt(lambda: tuple(at.items()), lambda: reduction(node["monoid"], known))

    return [build(kept, [extent[n] for n in kept], total)]


def _read(here: _Setting, node: Mapping[str, Any], args: Args) -> Made:
    here.budget.spend(2 * prod(size_value(s, here.sizes) for _, s in node["axes"]))
    return [_view(node, args, here.sizes)]


def _const(here: _Setting, node: Mapping[str, Any], args: Args) -> Made:
    value: Value = BOTTOM if node["value"] == "-inf" else Fraction(node["value"])
    return [build((), (), lambda _: value)]


def _fold(here: _Setting, node: Mapping[str, Any], args: Args) -> Made:
    axis, local = node["axis"], node["block"]
    n, length = _extents(args)[axis], here.blocks.get(local, 1)
    state = here.run(node["unit"], [], {})
    for start in range(0, n, length):
        stop = min(n, start + length)
        state = here.run(node["step"], [*state, *(a.slice(axis, start, stop) for a in args)], {local: stop - start})
    return state


def _group(here: _Setting, node: Mapping[str, Any], args: Args) -> Made:
    extent = _extents(args)
    tiles = [(axis, local, extent[axis]) for axis, local in node["tiles"]]
    starts = [range(0, n, here.blocks.get(local, 1)) for _, local, n in tiles]
    parts: list[dict[tuple[int, ...], Element]] = [{} for _ in node["body"]["outputs"]]
    shapes: list[tuple[tuple[str, ...], dict[str, int]]] = [((), {}) for _ in parts]
    for corner in product(*starts):
        inputs, lengths = list(args), dict[str, int]()
        for (axis, local, n), start in zip(tiles, corner, strict=True):
            stop = min(n, start + here.blocks.get(local, 1))
            inputs = [a.slice(axis, start, stop) for a in inputs]
            lengths[local] = stop - start
        offset = {axis: start for (axis, _, _), start in zip(tiles, corner, strict=True)}
        for k, out in enumerate(here.run(node["body"], inputs, lengths)):
            sizes_of = dict(zip(out.axes, out.shape, strict=True)) | {axis: n for axis, _, n in tiles}
            shapes[k] = (out.axes, sizes_of)
            for i, v in out.values.items():
                parts[k][tuple(p + offset.get(a, 0) for a, p in zip(out.axes, i, strict=True))] = v
    return [
        ExactArray(names, tuple(sizes_of[a] for a in names), part)
        for part, (names, sizes_of) in zip(parts, shapes, strict=True)
    ]


NODES: Mapping[str, Callable[[_Setting, Mapping[str, Any], Args], Made]] = {
    "map": _map,
    "reduce": _reduce,
    "view": _read,
    "index": lambda here, node, args: [
        build([node["axis"][0]], [size_value(node["axis"][1], here.sizes)], lambda i: Fraction(i[0]))
    ],
    "size": lambda here, node, args: [build((), (), lambda _: Fraction(size_value(node["size"], here.sizes)))],
    "const": _const,
    "fold": _fold,
    "group": _group,
}
"""The outputs of each kind of node of a core program."""
