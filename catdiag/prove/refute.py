"""Counterexamples: small sizes and exact arrays on which two programs certainly differ.

Candidates are drawn for many inputs at once, the smallest sizes first, and run in floats (`prove.sieve`); what looks
different there is run on exact numbers (`prove.exact`), which alone give the verdict. Where nothing differs, inputs
are solved for at which something turns: what is compared is equal, a divisor is 0, a root or logarithm ends. A
counterexample is shrunk: sizes first, then numbers towards 0 and 1. The search is deterministic, and bounded by counts
of work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from catdiag.kernel.terms import Term
from catdiag.prove import exact, sieve
from catdiag.prove.functions import Free, Function
from catdiag.prove.identifiers import name_of
from catdiag.prove.points import Batch, Drawer, Point, Pool
from catdiag.prove.shrink import shrink
from catdiag.prove.solve import solved
from catdiag.prove.vacuity import meeting, symbols_of
from catdiag.prove.validate import NotACounterexample, replay

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]

BATCH, _FEW = 128, 4
"""Inputs that are run at once."""
_SUSPECTS = 4
_MISSES = 24
_HINT = 24
_FAINT = 1e-13
_FREE, _EXACTLY = 8, 3000
_COUNTED, _LOOKED_AT = 2, 4


@dataclass(frozen=True)
class Counterexample:
    """Sizes and exact arrays on which two diagrams differ.

    `.arrays` are nested lists of rationals by input name, `.lhs` and `.rhs` the two values (a rational, a quotient of
    powers of e, or an enclosure; `float` gives each as a number) at `.index` of output `.output`; `.blocks` are the
    sizes of blocks and tiles used, and `.functions` says what stood for uninterpreted functions: call them, or give
    them to `Diagram.run`. `.undefined` is "rhs" where the right program has no value though the left one has, with
    `.reason` saying what has none and where; `.rhs` is then None. `.floats` are the two values as NumPy gives them.
    """

    sizes: dict[str, int]
    arrays: dict[str, Any]
    lhs: Any
    rhs: Any
    index: dict[str, int]
    output: int = 0
    blocks: dict[str, int] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    undefined: str | None = None
    reason: str = ""
    floats: tuple[float, float] | None = field(default=None, compare=False)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)
    elements: dict[str, str] = field(default_factory=dict, repr=False)

    def numpy(self) -> dict[str, Any]:
        """The arrays for NumPy: of floats, of truth values or of integers, as the inputs are declared."""

        def convert(x: Any) -> Any:
            if isinstance(x, list):
                return [convert(v) for v in x]
            return x if isinstance(x, bool) else float(x)

        found = {}
        for name, value in self.arrays.items():
            array = np.array(convert(value))
            if self.elements.get(name) in ("bool", "int"):
                array = array.astype(np.bool_ if self.elements[name] == "bool" else np.int64)
            found[name] = array.reshape(self.shapes.get(name, array.shape))
        return found

    def __str__(self) -> str:
        lines = ["sizes " + ", ".join(f"{k}={v}" for k, v in self.sizes.items())]
        if self.blocks:
            lines.append("blocks " + ", ".join(f"{k}={v}" for k, v in self.blocks.items()))
        lines += [f"{name} = {_text(value)}" for name, value in self.arrays.items()]
        lines += [f"{name} is {function}" for name, function in self.functions.items()]
        return "\n".join([*lines, self.verdict])

    @property
    def verdict(self) -> str:
        """What the two programs give, as text."""
        where = ", ".join(f"{a}={i}" for a, i in self.index.items())
        at = f" at {where}" if where else ""
        if self.undefined is not None:
            text = f"left gives {said(self.lhs)}{at}, right is not defined: {self.reason}"
        else:
            text = f"left gives {said(self.lhs)}, right gives {said(self.rhs)}{at}"
        if self.floats and any(
            abs(float(v) - w) > 1e-6 * (1 + abs(w)) for v, w in zip((self.lhs, self.rhs), self.floats)
        ):
            text += f" (rounded at each step, {self.floats[0]:.9g} and {self.floats[1]:.9g})"
        return text


def _text(value: Any) -> str:
    return "[" + ", ".join(map(_text, value)) + "]" if isinstance(value, list) else str(value)


def said(value: Any) -> str:
    """A value as text: exact where that is short, and as a decimal where it is not rational."""
    if isinstance(value, exact.Powers):
        text = str(value)
        about = str(exact.Interval(*exact.bounds(value)))
        return f"{text} ≈ {about}" if len(text) <= 60 else about
    return str(value)


def refute(
    statement: Mapping[str, Any],
    tries: int = 200,
    operations: int = 80_000_000,
    seed: int = 0,
    goal: Sequence[Term] = (),
    partial: bool = False,
) -> Counterexample | None:
    """A counterexample to a statement (two core programs and assumptions), or None if none was found.

    What the search finds is looked at again by `prove.validate`; what does not stand there is passed over.

    Both programs are defined on it, unless `partial`: then one on which only the left one is will do, where there is
    no other. `goal` are terms at which a proof stopped; their numbers are tried. The search is bounded by `tries`
    (batches of inputs) and by a number of scalar `operations`, so that it ends in about a second.
    """
    search = Search(statement, tries, operations, seed, goal)
    found = _standing(statement, search.find())
    if found is None and partial and search.half is not None:
        found = _standing(statement, search.shrunk(search.half, half=True))
    return found


def _standing(statement: Mapping[str, Any], candidates: Iterable[Counterexample]) -> Counterexample | None:
    """The first candidate that is a counterexample."""
    for found in candidates:
        try:
            return replay(statement, found)
        except NotACounterexample:
            continue
    return None


MOST_CELLS, _MOST_AXES = 100_000, 31
"""The most numbers in the arrays of one input, and the most axes of an array, with which programs are tried."""


@dataclass(frozen=True)
class Examined:
    """A few inputs on which both programs are defined; that one alone on which they differ, if there is any."""

    counterexample: Counterexample | None
    points: tuple[Point, ...]


class Search:
    """A search for inputs of one statement on which its two programs differ."""

    def __init__(
        self, statement: Mapping[str, Any], tries: int, operations: int, seed: int, goal: Sequence[Term]
    ) -> None:
        self.left, self.right = statement["left"], statement["right"]
        self.declared: list[Mapping[str, Any]] = list(self.left["inputs"])
        self.assume: list[Any] = list(statement["assume"])
        mentioned = set().union(*map(symbols_of, self.assume), *map(exact.symbols_of, (self.left, self.right)))
        self.symbols = sorted(mentioned)
        self.locals = sorted(exact.locals_of(self.left) | exact.locals_of(self.right))
        self.names = sorted(set(_functions(self.left)) | set(_functions(self.right)))
        constants, whole = _numbers((self.left, self.right), goal)
        self.hints = sorted({n + k for n in whole if 2 <= n <= _HINT for k in (0, 1, 2)})
        if _mentions(self.left, "log") or _mentions(self.right, "log"):
            constants += [exact.exp(c) for c in (Fraction(1), Fraction(-1), *constants[:4])]
        self.pool = Pool(constants)
        self.drawer = Drawer(self.declared, _positions(self.left, self.right), self.names, self.pool, seed)
        self.tries, self.operations = tries, operations
        self.meter = sieve.Meter(operations)
        self.misses, self.tolerance = 0, 1e-7
        self.half: Point | None = None
        """An input on which the left program is defined and the right one is not."""

    # -- the walk over sizes ---------------------------------------------------------------------------------

    def find(self) -> Iterator[Counterexample]:
        """What look like counterexamples, shrunk; each that is passed over counts as a miss."""
        shapes = self.shapes()
        try:
            for k, sizes in enumerate(cycle(shapes)):
                if k >= self.tries or self.misses > _MISSES:
                    break
                point = self._tried(sizes, k)
                if point is not None:
                    yield from self.shrunk(point)
                    self.misses += 1
            # What is less apart than floats are rounded is looked at last, and seldom: it mostly is rounding.
            self.tolerance, self.misses = _FAINT, _MISSES - _SUSPECTS
            for sizes in shapes[:_FREE]:
                point = (
                    self.suspect(self.drawer.draw(sizes, self._blocks(0), BATCH)) if self.misses <= _MISSES else None
                )
                if point is not None:
                    yield from self.shrunk(point)
                    self.misses += 1
        except exact.Exhausted:
            pass
        yield from self._free(shapes)

    def shrunk(self, point: Point, half: bool = False) -> Iterator[Counterexample]:
        """The smallest counterexample that is found from one, and that one as it is."""
        for found in (shrink(self, point, half), self.check(point, half)):
            if found is not None:
                yield found

    def _tried(self, sizes: dict[str, int], k: int) -> Point | None:
        """An input of given sizes on which the programs differ: the k-th attempt, of many inputs or of a few."""
        for count in (BATCH, _FEW):
            batch = self.drawer.draw(sizes, self._blocks(k), count)
            try:
                point = self.suspect(batch)
                return self.suspect(solved(self, batch)) if point is None and k % 3 == 2 else point
            except sieve.TooLarge:
                continue
        return None

    def examine(self, shapes: Sequence[dict[str, int]], count: int) -> Examined:
        """What a few inputs of given sizes show; the plainest of those on which both programs are defined."""
        points: list[Point] = []
        batch: Batch | None = None
        try:
            for k, sizes in enumerate(shapes):
                if self.cells(sizes) > MOST_CELLS:
                    continue
                batch = self.drawer.draw(sizes, self._blocks(k), count)
                apart, half, whole = self.differing(batch)
                found = self.suspect(batch, (apart, half, whole))
                if found is not None:
                    return Examined(self.check(found), (found,))
                order = np.flatnonzero(whole & ~apart)
                # Numbers counted up are looked at first: they are told apart more easily than zeros and ones.
                chosen = sorted(order.tolist(), key=lambda row: (row != _COUNTED, row))[:_LOOKED_AT]
                points += [batch.point(row, self.declared, self.pool) for row in chosen]
                for point in points[:1]:
                    if self.check(point, operations=_EXACTLY) is not None:
                        return Examined(self.check(point), (point,))
        except exact.Exhausted:
            # Too much work to run the programs: what they take for granted can be looked at all the same.
            if batch is not None and not points:
                points = [batch.point(row, self.declared, self.pool) for row in range(min(count, _LOOKED_AT))]
        return Examined(None, tuple(points))

    def _free(self, shapes: Sequence[dict[str, int]]) -> Iterator[Counterexample]:
        """Counterexamples with functions that obey no law: what holds of all polynomials need not hold."""
        if not self.names:
            return
        for k, sizes in enumerate(shapes[:_FREE]):
            batch = self.drawer.draw(sizes, self._blocks(k), 8)
            for row in range(8):
                point = batch.point(row, self.declared, self.pool)
                free = {name: Free(f"{k} {row} {name}") for name in self.names}
                if self.check(replace(point, functions=free)) is None:
                    continue
                found = self.check(replace(point, functions={n: f.function() for n, f in free.items()}))
                if found is not None:
                    yield found

    def shapes(self) -> list[dict[str, int]]:
        """Sizes that meet the assumptions, the smallest first, and some larger ones."""
        found = meeting(self.symbols, self.assume, count=40)
        for hints in (self.hints[:3], self.hints[3:6], self.hints[6:9]) if self.hints else ():
            found += meeting(self.symbols, self.assume, least=2, hints=hints, count=60)[-12:]
        found += meeting(self.symbols, self.assume, least=2, count=4)
        found += meeting(self.symbols, self.assume, least=3, count=2)
        found += [s for s in meeting(self.symbols, self.assume, least=1, count=60) if max(s.values(), default=0) > 3][
            :6
        ]
        unique = {tuple(sizes.values()): sizes for sizes in found if self.cells(sizes) <= 4096}
        return list(unique.values())

    def cells(self, sizes: Mapping[str, int]) -> int:
        """The numbers in the inputs at these sizes."""
        total = 0
        for d in self.declared:
            # NumPy's arrays have no more axes than so, one of them being that of the batch.
            cells = 1 if len(d["axes"]) <= _MOST_AXES else MOST_CELLS + 1
            for _, s in d["axes"]:
                cells *= exact.size_value(s, sizes)
            total += cells
        return total

    def _blocks(self, k: int) -> dict[str, int]:
        return {name: 1 + (k + j) % 2 for j, name in enumerate(self.locals)}

    # -- floats ----------------------------------------------------------------------------------------------

    def outputs(self, batch: Batch, meter: sieve.Meter | None = None) -> tuple[list[sieve.Wire], list[sieve.Wire]]:
        """The outputs of both programs in floats."""
        wires, functions = batch.wires(self.declared, self.pool), batch.polynomials(self.pool)
        meter = meter or self.meter
        left = sieve.outputs(self.left, wires, batch.sizes, batch.blocks, functions, meter)
        return left, sieve.outputs(self.right, wires, batch.sizes, batch.blocks, functions, meter)

    def differing(self, batch: Batch) -> tuple[Flags, Flags, Flags]:
        """For each input, whether the programs look different, whether only the left one looks defined, or both do."""
        left, right = self.outputs(batch)
        count = len(batch.arrays[0]) if batch.arrays else 1
        apart, fine, missing = (np.zeros(count, dtype=bool) for _ in range(3))
        fine[:] = True
        with np.errstate(all="ignore"):
            for x, y in zip(left, right, strict=True):
                (a, b), _ = sieve.aligned([x, y])
                over = tuple(range(1, a.ndim))
                gap = np.abs(a - b) > self.tolerance * (1 + np.maximum(np.abs(a), np.abs(b)))
                gap |= np.isinf(a) != np.isinf(b)
                apart |= gap.any(over)
                fine &= ~np.isnan(a).any(over)
                missing |= np.isnan(b).any(over)
        return apart & fine & ~missing, fine & missing, fine & ~missing

    def suspect(self, batch: Batch, seen: tuple[Flags, Flags, Flags] | None = None) -> Point | None:
        """An input of a batch on which the programs differ, if exact numbers say so."""
        apart, half, _ = seen or self.differing(batch)
        for point in self._plainest(batch, apart):
            if self.check(point) is not None:
                return point
            self.misses += 1
        if self.half is None:
            self.half = next((p for p in self._plainest(batch, half) if self.check(p, half=True) is not None), None)
        return None

    def _plainest(self, batch: Batch, flags: Flags) -> Iterator[Point]:
        rows = np.flatnonzero(flags)
        if len(rows):
            costs = self.pool.costs()
            price = sum((costs[a[rows]].reshape(len(rows), -1).sum(1) for a in batch.arrays), np.zeros(len(rows)))
            for row in rows[np.argsort(price, kind="stable")][:_SUSPECTS]:
                yield batch.point(int(row), self.declared, self.pool)

    # -- exact numbers ---------------------------------------------------------------------------------------

    def check(self, point: Point, half: bool = False, operations: int = 200_000) -> Counterexample | None:
        """The counterexample that a point is, by exact numbers. With `half`, one on which only the left is defined."""
        for bits in (exact.BITS, 4 * exact.BITS):
            budget = exact.Budget(operations, bits)
            try:
                left = self._run(self.left, point, budget)
                if any(isinstance(v, exact.NoValue) and v.undefined for a in left for v in a.values.values()):
                    return None
                right = self._run(self.right, point, budget)
            except (exact.Exhausted, exact.IllTyped):
                return None
            missing = [v for a in (*left, *right) for v in a.values.values() if isinstance(v, exact.NoValue)]
            if half and any(v.undefined for v in missing) and len(missing) == sum(v.undefined for v in missing):
                return self._undefined(point, left, right)
            if not missing:
                return None if half else self._difference(point, left, right)
            if all(v.undefined for v in missing):
                return None
        return None

    @staticmethod
    def _run(program: Mapping[str, Any], point: Point, budget: exact.Budget) -> list[exact.Array]:
        return exact.run(program, point.arrays, point.sizes, point.blocks, point.functions, budget)

    def _difference(
        self, point: Point, left: Sequence[exact.Array], right: Sequence[exact.Array]
    ) -> Counterexample | None:
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            for i, x in a.values.items():
                index = dict(zip(a.axes, i, strict=True))
                y = b.at(index)
                if not isinstance(x, exact.NoValue) and not isinstance(y, exact.NoValue) and exact.different(x, y):
                    return self._made(point, x, y, index, number)
        return None

    def _undefined(
        self, point: Point, left: Sequence[exact.Array], right: Sequence[exact.Array]
    ) -> Counterexample | None:
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            for i, x in a.values.items():
                index = dict(zip(a.axes, i, strict=True))
                y = b.at(index)
                if isinstance(y, exact.NoValue):
                    return self._made(point, x, None, index, number, str(y))
        return None

    def _made(
        self, point: Point, x: Any, y: Any, index: dict[str, int], number: int, reason: str | None = None
    ) -> Counterexample:
        # Statements have identifiers; what is said has the names of the user.
        names = [name_of(str(d["name"])) for d in self.declared]
        return Counterexample(
            by_name(point.sizes),
            {name: nested(a) for name, a in zip(names, point.arrays, strict=True)},
            x,
            y,
            by_name(index),
            number,
            by_name(point.blocks),
            {name_of(n): f.function() if isinstance(f, Free) else f for n, f in point.functions.items()},
            None if reason is None else "rhs",
            reason or "",
            None,
            {name: a.shape for name, a in zip(names, point.arrays, strict=True)},
            {name: str(d["element"]) for name, d in zip(names, self.declared, strict=True)},
        )


def by_name(found: Mapping[str, int]) -> dict[str, int]:
    """Numbers by the names that identifiers are for."""
    return {name_of(name): n for name, n in found.items()}


def nested(array: exact.Array) -> Any:
    """The elements of an array as nested lists."""

    def part(prefix: tuple[int, ...]) -> Any:
        if len(prefix) == len(array.shape):
            return array.values[prefix]
        return [part((*prefix, k)) for k in range(array.shape[len(prefix)])]

    return part(())


# -- what programs mention ------------------------------------------------------------------------------------


def _bodies(program: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    stack = [program]
    while stack:
        here = stack.pop()
        yield here
        stack.extend(node[body] for node in here["nodes"] for body in _INSIDE if body in node)


_INSIDE = ("unit", "step", "merge", "state", "body")


def _functions(program: Mapping[str, Any]) -> Iterator[str]:
    for body in _bodies(program):
        for node in body["nodes"]:
            if node["op"] == "map" and str(node["fn"]).startswith("apply:"):
                yield f"{node['fn'][6:]}"


def _mentions(program: Mapping[str, Any], fn: str) -> bool:
    return any(node.get("fn") == fn for body in _bodies(program) for node in body["nodes"])


def _numbers(programs: Sequence[Mapping[str, Any]], goal: Sequence[Term]) -> tuple[list[exact.Value], set[int]]:
    """The constants of programs, and the whole numbers at which their sizes and indices may matter."""
    constants: dict[Fraction, None] = {}
    whole: set[int] = set()
    for program in programs:
        for body in _bodies(program):
            for node in body["nodes"]:
                if node["op"] == "const" and node["value"] != "-inf":
                    constants[Fraction(node["value"])] = None
                elif node["op"] == "view":
                    whole |= {abs(n) for read in node["reads"] for n in _integers([read["at"], read["where"]])}
    stack = list(goal)
    seen: set[Term] = set()
    while stack and len(seen) < 2000:
        t = stack.pop()
        if t in seen:
            continue
        seen.add(t)
        if t.op == "num" and isinstance(t.data, Fraction):
            constants[t.data] = None
        stack.extend(t.args)
    whole |= {abs(int(c)) for c in constants if c.denominator == 1}
    plain: list[exact.Value] = [c for c in constants if abs(c) < 10**6 and c.denominator < 10**6]
    return plain[:24], whole


def _integers(data: Any) -> set[int]:
    if isinstance(data, dict):
        return set().union(*map(_integers, data.values()))
    if isinstance(data, (list, tuple)):
        return set().union(*map(_integers, data))
    return {data} if isinstance(data, int) else set()


def _positions(*programs: Mapping[str, Any]) -> dict[int, list[Any]]:
    """The inputs that are read as indices, with the sizes of the axes that they go into."""
    found: dict[int, list[Any]] = {}
    for program in programs:
        inputs = program["inputs"]
        for node in program["nodes"]:
            if node["op"] != "view":
                continue
            for source, read in zip(node["args"], node["reads"], strict=False):
                own = dict(inputs[source]["axes"]) if source < len(inputs) else {}
                for axis, expr in read["at"].items():
                    for k in _arrays_in(expr):
                        if node["args"][k] < len(inputs) and axis in own:
                            found.setdefault(node["args"][k], []).append(own[axis])
    return found


def _arrays_in(expr: Any) -> Iterator[int]:
    if isinstance(expr, (list, tuple)):
        if expr[0] == "w":
            yield expr[1]
        elif expr[0] != "i":
            for e in expr[1:]:
                yield from _arrays_in(e)


__all__ = ["Counterexample", "Search", "refute"]
