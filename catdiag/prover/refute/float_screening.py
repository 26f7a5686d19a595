"""Core programs in floating point, for many inputs at once: the screening that guides the search for counterexamples.

The first dimension of every array counts inputs. NaN stands for "no value" (a divisor is 0, a read is out of range, −∞
is used as a number), as strictly as in `exact_execution`. Nothing here is a verdict: inputs that seem to differ are run
again in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catdiag.category.scalars import row
from catdiag.execute.philox import uniform_or_nan
from catdiag.execute.scalar_functions import erf
from catdiag.prover.assumptions import size_value
from catdiag.prover.refute.exact_execution import Budget, Exhausted

Floats: TypeAlias = NDArray[np.float64]
Wire: TypeAlias = tuple[Floats, tuple[str, ...]]
"""Values [input, *axes] and the names of the axes; the first dimension is 1 where all inputs give equal values."""
Functions: TypeAlias = Mapping[str, Callable[..., Floats]]
_NAN = np.float64("nan")
_NODE = 5000
"""The fixed cost of a node, in scalar operations."""
_LARGEST = 4_000_000


class BudgetExceeded(Exhausted):
    """A single array takes too much memory."""


class Meter:
    """Counts work, and collects critical values if asked to.

    `critical_values` gets differences of compared values, divisors, and arguments of roots and logarithms.
    """

    def __init__(self, operations: int, watch: bool = False) -> None:
        self.budget = Budget(operations)
        self.critical_values: list[Floats] | None = [] if watch else None

    def spend(self, scalars: int) -> None:
        """Counts a node. Raises Exhausted where nothing remains, BudgetExceeded where a single array takes too much
        memory.
        """
        if scalars > _LARGEST:
            raise BudgetExceeded
        self.budget.spend(_NODE + scalars)

    def watch(self, values: Floats) -> None:
        """Records values whose zeros are decision boundaries."""
        if self.critical_values is not None:
            self.critical_values.append(values)


def outputs(
    program: Mapping[str, Any],
    inputs: Sequence[Wire],
    sizes: Mapping[str, int],
    blocks: Mapping[str, int],
    functions: Functions,
    meter: Meter,
) -> list[Wire]:
    """The outputs of a core program; in an output of reals −∞ is no value. Raises Exhausted."""
    with np.errstate(all="ignore"):
        found = _BatchSetting(sizes, blocks, functions, meter).run(program, inputs, {})
        return [
            (v if element in ("extended", "bool") else np.where(np.isinf(v), _NAN, v), axes)
            for (v, axes), (_, element) in zip(found, program["outputs"], strict=True)
        ]


def aligned(args: Sequence[Wire]) -> tuple[list[Floats], tuple[str, ...]]:
    """The arrays broadcast to the union of their axes in one order, with length 1 along axes that they do not have."""
    names = tuple(dict.fromkeys(name for _, axes in args for name in axes))
    made = []
    for values, axes in args:
        if axes != names:
            order = [axes.index(n) for n in names if n in axes]
            values = values.transpose(0, *(k + 1 for k in order))
            extent = dict(zip((axes[k] for k in order), values.shape[1:], strict=True))
            values = values.reshape(len(values), *(extent.get(n, 1) for n in names))
        made.append(values)
    return made, names


@dataclass(frozen=True)
class _BatchSetting:
    """What nodes are run with: sizes, lengths of blocks and tiles, the user's functions, and the work that is left."""

    sizes: Mapping[str, int]
    blocks: Mapping[str, int]
    functions: Functions
    meter: Meter

    def run(self, program: Mapping[str, Any], inputs: Sequence[Wire], local: Mapping[str, int]) -> list[Wire]:
        """The outputs of a body, in which further sizes are known."""
        inside = replace(self, sizes={**self.sizes, **local}) if local else self
        wires = list(inputs)
        for node in program["nodes"]:
            made = NODES[node["op"]](inside, node, [wires[w] for w in node.get("args", ())])
            self.meter.spend(0)
            wires.extend(made)
        return [wires[w] for w, _ in program["outputs"]]


def _real(x: Floats) -> Floats:
    return np.where(np.isinf(x), _NAN, x)


def _truth_value(holds: Any, *args: Floats) -> Floats:
    missing = np.isnan(args[0])
    for a in args[1:]:
        missing = missing | np.isnan(a)
    return np.where(missing, _NAN, holds)


def _nearly_equal(a: Floats, b: Floats) -> Any:
    """Whether two numbers may be equal up to rounding."""
    gap = np.abs(a - b)
    return (a == b) | ((gap <= 1e-13 * np.maximum(np.abs(a), np.abs(b))) & np.isfinite(gap))


FLOATS: Mapping[str, Callable[..., Floats]] = {
    "add": lambda *args: reduce(np.add, args),
    "sub": lambda a, b: a - _real(b),
    "mul": lambda *args: reduce(lambda a, b: _real(a) * _real(b), args),
    "div": lambda a, b: np.where(b == 0, _NAN, _real(a) / _real(b)),
    "floordiv": lambda a, b: np.where(b > 0, np.floor(_real(a) / b), _NAN),
    "neg": lambda a: -_real(a),
    "exp": np.exp,
    "log": lambda a: np.where(a <= 0, _NAN, np.log(a)),
    "sqrt": lambda a: np.sqrt(_real(a)),
    "tanh": lambda a: np.tanh(_real(a)),
    "sigmoid": lambda a: 1 / (1 + np.exp(-_real(a))),
    "abs": lambda a: np.abs(_real(a)),
    "max": lambda *args: reduce(np.maximum, args),
    "min": lambda a, b: np.minimum(_real(a), _real(b)),
    "eq": lambda a, b: _truth_value(_nearly_equal(a, b), a, b),
    "ne": lambda a, b: _truth_value(~_nearly_equal(a, b), a, b),
    "lt": lambda a, b: _truth_value((a < b) & ~_nearly_equal(a, b), a, b),
    "le": lambda a, b: _truth_value((a <= b) | _nearly_equal(a, b), a, b),
    "erf": lambda a: erf(_real(a)),
    "sin": lambda a: np.sin(_real(a)),
    "cos": lambda a: np.cos(_real(a)),
    "uniform": uniform_or_nan,
    "sign": np.sign,
    "floor": lambda a: np.floor(_real(a)),
    "ceil": lambda a: np.ceil(_real(a)),
    "round": lambda a: np.rint(_real(a)),
    "and": lambda a, b: _truth_value((a != 0) & (b != 0), a, b),
    "or": lambda a, b: _truth_value((a != 0) | (b != 0), a, b),
    "not": lambda a: _truth_value(a == 0, a),
    "where": lambda c, a, b: np.where(np.isnan(c), _NAN, np.where(c != 0, a, b)),
}
_COMPARED = {"eq", "ne", "lt", "le", "max", "min"}
_CRITICAL = {"abs": 0, "sign": 0, "sqrt": 0, "log": 0, "div": 1}


def _reduce(monoid: str, x: Floats, axis: int) -> Floats:
    over: dict[str, Callable[[], Any]] = {
        "sum": lambda: x.sum(axis),
        "prod": lambda: _real(x).prod(axis),
        "max": lambda: x.max(axis, initial=-np.inf),
        "min": lambda: _real(_real(x).min(axis, initial=np.inf)),
        "any": lambda: np.where(np.isnan(x).any(axis), _NAN, (x != 0).any(axis)),
        "all": lambda: np.where(np.isnan(x).any(axis), _NAN, (x != 0).all(axis)),
    }
    return np.asarray(over[monoid](), dtype=np.float64)


def _mapped(here: _BatchSetting, node: Mapping[str, Any], args: Sequence[Wire]) -> list[Wire]:
    name = node["fn"]
    values, names = aligned(args)
    here.meter.spend(prod(max(lengths) for lengths in zip(*(v.shape for v in values), strict=True)))
    if name in _COMPARED:
        here.meter.watch(values[0] - values[1])
    elif name in _CRITICAL:
        here.meter.watch(values[_CRITICAL[name]])
    if name.startswith("apply:"):
        return [(here.functions[name[6:]](*map(_real, values)), names)]
    return [(np.asarray(row(FLOATS, name, "screened in floating point")(*values), dtype=np.float64), names)]


def _reduced(here: _BatchSetting, node: Mapping[str, Any], args: Sequence[Wire]) -> list[Wire]:
    ((x, axes),) = args
    k = axes.index(node["axis"])
    if node["monoid"] in ("max", "min") and x.shape[k + 1] > 1:
        here.meter.watch(np.asarray(x.take(0, k + 1) - x.take(1, k + 1)))
    return [(_reduce(node["monoid"], x, k + 1), (*axes[:k], *axes[k + 1 :]))]


def _viewed(here: _BatchSetting, node: Mapping[str, Any], args: Sequence[Wire]) -> list[Wire]:
    here.meter.spend(max(len(x) for x, _ in args) * prod(size_value(s, here.sizes) for _, s in node["axes"]))
    return [_renamed(node, args[0], here.sizes) or _view(node, args, here.sizes)]


def _index(here: _BatchSetting, node: Mapping[str, Any], args: Sequence[Wire]) -> list[Wire]:
    axis, size = node["axis"]
    return [(np.arange(size_value(size, here.sizes), dtype=np.float64)[None], (axis,))]


def _size(here: _BatchSetting, node: Mapping[str, Any], args: Sequence[Wire]) -> list[Wire]:
    return [(np.array([float(size_value(node["size"], here.sizes))]), ())]


def _const(here: _BatchSetting, node: Mapping[str, Any], args: Sequence[Wire]) -> list[Wire]:
    top, _, bottom = str(node["value"]).partition("/")
    return [(np.array([float(top) / float(bottom or 1)]), ())]


def _cut(args: Sequence[Wire], axis: str, start: int, stop: int) -> list[Wire]:
    return [(x.take(range(start, stop), axes.index(axis) + 1), axes) if axis in axes else (x, axes) for x, axes in args]


def _extent(args: Sequence[Wire]) -> dict[str, int]:
    return {n: size for x, axes in args for n, size in zip(axes, x.shape[1:], strict=True)}


def _fold(here: _BatchSetting, node: Mapping[str, Any], args: Sequence[Wire]) -> list[Wire]:
    """The final states of a loop, run block by block."""
    axis, local = node["axis"], node["block"]
    n, length = _extent(args)[axis], here.blocks.get(local, 1)
    state = here.run(node["unit"], [], {})
    for start in range(0, n, length):
        stop = min(n, start + length)
        state = here.run(node["step"], [*state, *_cut(args, axis, start, stop)], {local: stop - start})
    return state


def _group(here: _BatchSetting, node: Mapping[str, Any], args: Sequence[Wire]) -> list[Wire]:
    """The results of a group, run tile by tile."""
    extent = _extent(args)
    tiles = [(axis, local, extent[axis]) for axis, local in node["tiles"]]
    made: list[Wire] = []
    # An empty axis has no tiles: an empty tile gives results with the right axes.
    starts = [range(0, n, here.blocks.get(local, 1)) or (0,) for _, local, n in tiles]
    for corner in product(*starts):
        inputs, lengths = list(args), dict[str, int]()
        place: dict[str, slice] = {}
        for (axis, local, n), start in zip(tiles, corner, strict=True):
            stop = min(n, start + here.blocks.get(local, 1))
            inputs, lengths[local], place[axis] = _cut(inputs, axis, start, stop), stop - start, slice(start, stop)
        found = here.run(node["body"], inputs, lengths)
        if not made:
            whole = {axis: n for axis, _, n in tiles}
            for x, axes in found:
                shape = [whole.get(a, n) for a, n in zip(axes, x.shape[1:], strict=True)]
                made.append((np.full((max(len(v) for v, _ in (*args, (x, axes))), *shape), _NAN), axes))
        for (total, axes), (x, _) in zip(made, found, strict=True):
            total[(slice(None), *(place.get(a, slice(None)) for a in axes))] = x
    return made


NODES: Mapping[str, Callable[[_BatchSetting, Mapping[str, Any], Sequence[Wire]], list[Wire]]] = {
    "map": _mapped,
    "reduce": _reduced,
    "view": _viewed,
    "index": _index,
    "size": _size,
    "const": _const,
    "fold": _fold,
    "group": _group,
}
"""The outputs of one node, for all inputs of the batch; NaN where there is no value."""


def _renamed(node: Mapping[str, Any], array: Wire, sizes: Mapping[str, int]) -> Wire | None:
    """A view that only renames axes of one array; None for other views."""
    (x, axes), (read, *more) = array, node["reads"]
    named = {axis: read["at"].get(axis, ["i", axis]) for axis in axes}
    if more or read["where"] or any(not isinstance(e, (list, tuple)) or e[0] != "i" for e in named.values()):
        return None
    sources = [str(e[1]) for e in named.values()]
    wanted = tuple(str(n) for n, _ in node["axes"])
    shape = [size_value(s, sizes) for _, s in node["axes"]]
    extent = dict(zip(sources, x.shape[1:], strict=True))
    if len(extent) < len(sources) or any(extent.get(n, size) != size for n, size in zip(wanted, shape, strict=True)):
        return None
    x = x.transpose(0, *(sources.index(n) + 1 for n in wanted if n in extent))
    x = x.reshape(len(x), *(extent.get(n, 1) for n in wanted))
    return np.broadcast_to(x, (len(x), *shape)), wanted


def _view(node: Mapping[str, Any], args: Sequence[Wire], sizes: Mapping[str, int]) -> Wire:
    """The outputs of a view, for all inputs of the batch: at each index the first read whose conditions hold, NaN if
    out of range.
    """
    names = tuple(str(n) for n, _ in node["axes"])
    shape = [size_value(s, sizes) for _, s in node["axes"]]
    count = max(len(x) for x, _ in args)
    grid = {
        n: np.arange(size).reshape((1, *(size if k == j else 1 for j in range(len(shape)))))
        for k, (n, size) in enumerate(zip(names, shape, strict=True))
    }
    result = np.full((count, *shape), _NAN)
    left = np.ones((count, *shape), dtype=bool)

    def number(expr: Any) -> Floats:
        if isinstance(expr, (int, str)):
            return np.full((1,) * (len(shape) + 1), float(sizes[expr] if isinstance(expr, str) else expr))
        if expr[0] == "i":
            return grid[expr[1]].astype(np.float64)
        if expr[0] == "w":
            (x, _), _ = aligned([args[expr[1]], (np.zeros((1,) * (len(names) + 1)), names)])
            axes = tuple(dict.fromkeys((*args[expr[1]][1], *names)))
            x = x.transpose(0, *(axes.index(n) + 1 for n in names))
            return np.where(x == np.floor(x), x, _NAN)
        a, b = number(expr[1]), number(expr[2])
        return a + b if expr[0] == "+" else a * b if expr[0] == "*" else np.where(b > 0, np.floor(a / b), _NAN)

    if not node["reads"][0]["where"]:
        (x, axes), at_axis = args[0], node["reads"][0]["at"]
        wanted = [number(at_axis[axis]) if axis in at_axis else grid[axis].astype(np.float64) for axis in axes]
        if x.size and all(
            len(at) == 1 and ((at >= 0) & (at < n)).all() for at, n in zip(wanted, x.shape[1:], strict=True)
        ):
            here = x[(slice(None), *(at[0].astype(np.intp) for at in wanted))]
            if not wanted:
                here = here.reshape(len(x), *(1 for _ in shape))
            return np.broadcast_to(here, (count, *shape)), names

    rows = np.arange(count).reshape((count, *(1 for _ in shape)))
    for (x, axes), read in zip(args, node["reads"], strict=False):
        taken = left
        for op, a, b in read["where"]:
            u, v = number(a), number(b)
            taken = taken & ((u < v) if op == "lt" else (u <= v) if op == "le" else (u == v))
            left = left & ~(np.isnan(u) | np.isnan(v))
        taken = taken & left
        places, good = [], np.ones((1,) * (len(shape) + 1), dtype=bool)
        for axis, n in zip(axes, x.shape[1:], strict=True):
            at = number(read["at"][axis]) if axis in read["at"] else grid[axis].astype(np.float64)
            good = good & (at >= 0) & (at < n)
            places.append(np.where((at >= 0) & (at < n), at, 0).astype(np.intp))
        if x.size:
            here = x[(rows if len(x) > 1 else np.zeros_like(rows), *places)]
            result = np.where(taken & good, here, result)
        left = left & ~taken
    return result, names
