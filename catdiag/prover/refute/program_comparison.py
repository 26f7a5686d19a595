"""The two programs of a statement on the same inputs: in floating point for many inputs, in exact arithmetic for one.

Only exact arithmetic decides that they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from catdiag.kernel.terms import Term
from catdiag.prover.assumptions import size_value, symbols_of
from catdiag.prover.identifiers import name_of
from catdiag.prover.refute import exact_execution, exact_reals, float_screening
from catdiag.prover.refute.candidate_inputs import Batch, Drawer, Pool, TrialPoint
from catdiag.prover.refute.counterexample_data import Counterexample
from catdiag.prover.refute.function_interpretations import Free
from catdiag.prover.refute.read_ranges import conditions_of_reads
from catdiag.prover.subterms import subterms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]

MOST_CELLS, _MOST_AXES = 100_000, 31
"""The most numbers in the arrays of one input, and the most axes of an array, for which programs are run."""
_HINT = 24
_FEW_CELLS = 4096
"""The most numbers of an input for which sizes are looked for, and the largest such size."""
_EXPONENT = 1000
"""Constants up to this are also tried as exponents."""


def guarded(statement: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The two programs, with results that are defined where the hypotheses on inputs are met, and are 1 there.

    On the left 1/[c] for each truth value c that a hypothesis gives, on the right 1. So an input on which the left side
    is defined meets the hypotheses, and the two sides differ nowhere else than before.
    """
    given = statement.get("given", ())
    return _guarded(statement["left"], given, "0"), _guarded(statement["right"], given, "1")


def _guarded(program: Mapping[str, Any], given: Sequence[Mapping[str, Any]], otherwise: str) -> Mapping[str, Any]:
    """A program with further results 1/t, t being 1 where a hypothesis is true and `otherwise` elsewhere."""
    if not given:
        return program
    inputs, nodes, further = len(program["inputs"]), list[Mapping[str, Any]](), list[list[Any]]()

    def put(node: Mapping[str, Any], shift: int = 0) -> int:
        args = [w if w < inputs else w + shift for w in node.get("args", ())]
        nodes.append({**node, "args": args} if "args" in node else node)
        return inputs + len(nodes) - 1

    one, other = put({"op": "const", "value": "1"}), put({"op": "const", "value": otherwise})
    for hypothesis in given:
        shift = len(nodes)
        for node in hypothesis["nodes"]:
            put(node, shift)
        for wire, _ in hypothesis["outputs"]:
            truth = wire if wire < inputs else wire + shift
            number = put({"op": "map", "fn": "where", "args": [truth, one, other]})
            further.append([put({"op": "map", "fn": "div", "args": [one, number]}), "real"])
    shift = len(nodes)
    for node in program["nodes"]:
        put(node, shift)
    outputs = [[w if w < inputs else w + shift, element] for w, element in program["outputs"]]
    return {**program, "nodes": nodes, "outputs": [*outputs, *further]}


class Comparison:
    """The two programs of a statement, a pool of numbers that may tell them apart, and a bound on the work."""

    def __init__(self, statement: Mapping[str, Any], operations: int, seed: int, goal: Sequence[Term]) -> None:
        self.left, self.right = guarded(statement)
        self.declared: list[Mapping[str, Any]] = list(self.left["inputs"])
        self.assume: list[Any] = list(statement["assume"])
        self.in_range: list[Any] = conditions_of_reads(self.left, self.right)
        """Conditions on sizes for the positions that are read; not all of these need be read."""
        self._positions, self._read = _with_positions(self.left)
        mentioned = set().union(
            *map(symbols_of, self.assume), *map(exact_execution.symbols_of, (self.left, self.right))
        )
        self.symbols = sorted(mentioned)
        self.locals = sorted(exact_execution.locals_of(self.left) | exact_execution.locals_of(self.right))
        self.names = sorted(set(_functions(self.left)) | set(_functions(self.right)))
        constants, whole = _numbers((self.left, self.right), goal)
        self.hints = sorted({n + k for n in whole if 2 <= n <= _HINT for k in (0, 1, 2)})
        if _mentions(self.left, "log") or _mentions(self.right, "log"):
            near = [c for c in constants if isinstance(c, Fraction) and abs(c) <= _EXPONENT][:4]
            constants += [exact_reals.exp(c) for c in (Fraction(1), Fraction(-1), *near)]
        self.pool = Pool(constants)
        self.drawer = Drawer(self.declared, _positions(self.left, self.right), self.names, self.pool, seed)
        self.meter = float_screening.Meter(operations)
        self.tolerance = 1e-7

    def cells(self, sizes: Mapping[str, int]) -> int:
        """The number of elements of all inputs at these sizes."""
        total = 0
        for d in self.declared:
            # NumPy bounds the number of axes, and one of them is that of the batch.
            cells = 1 if len(d["axes"]) <= _MOST_AXES else MOST_CELLS + 1
            for _, s in d["axes"]:
                cells *= size_value(s, sizes)
            total += cells
        return total

    def in_reach(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes, those of axes that the left side reads at computed positions large enough for these."""
        found = dict(sizes)
        if not self._read or self.cells(sizes) > _FEW_CELLS:
            return found
        batch = self.drawer.draw(dict(sizes), dict.fromkeys(self.locals, 1), 1)
        wires, functions = batch.wires(self.declared, self.pool), batch.polynomials(self.pool)
        try:
            made = float_screening.outputs(self._positions, wires, batch.sizes, batch.blocks, functions, self.meter)
        except float_screening.BudgetExceeded:
            return found
        for size, (values, _) in zip(self._read, made, strict=True):
            last = np.max(values, initial=0, where=np.isfinite(values))
            found[size] = max(found[size], int(min(last, _FEW_CELLS)) + 1)
        return found

    # -- floats ----------------------------------------------------------------------------------------------

    def outputs(
        self, batch: Batch, meter: float_screening.Meter | None = None
    ) -> tuple[list[float_screening.Wire], list[float_screening.Wire]]:
        """The outputs of both programs in floating point."""
        wires, functions = batch.wires(self.declared, self.pool), batch.polynomials(self.pool)
        meter = meter or self.meter
        left = float_screening.outputs(self.left, wires, batch.sizes, batch.blocks, functions, meter)
        return left, float_screening.outputs(self.right, wires, batch.sizes, batch.blocks, functions, meter)

    def differing(self, batch: Batch) -> tuple[Flags, Flags, Flags]:
        """For each input: whether the programs seem to differ, whether only the left one seems defined, and whether
        both do.
        """
        left, right = self.outputs(batch)
        count = len(batch.arrays[0]) if batch.arrays else 1
        apart, fine, missing = (np.zeros(count, dtype=bool) for _ in range(3))
        fine[:] = True
        with np.errstate(all="ignore"):
            for x, y in zip(left, right, strict=True):
                (a, b), _ = float_screening.aligned([x, y])
                over = tuple(range(1, a.ndim))
                gap = np.abs(a - b) > self.tolerance * (1 + np.maximum(np.abs(a), np.abs(b)))
                gap |= np.isinf(a) != np.isinf(b)
                apart |= gap.any(over)
                fine &= ~np.isnan(a).any(over)
                missing |= np.isnan(b).any(over)
        return apart & fine & ~missing, fine & missing, fine & ~missing

    # -- exact numbers ---------------------------------------------------------------------------------------

    def check(self, point: TrialPoint, half: bool = False, operations: int = 200_000) -> Counterexample | None:
        """The counterexample at a point, by exact arithmetic; None if it is none. With `half`, a point where only the
        left program is defined.
        """
        for bits in (exact_reals.BITS, 4 * exact_reals.BITS):
            budget = exact_execution.Budget(operations, bits)
            try:
                left = self._run(self.left, point, budget)
                if any(isinstance(v, exact_execution.NoValue) and v.undefined for a in left for v in a.values.values()):
                    return None
                right = self._run(self.right, point, budget)
            except (exact_execution.Exhausted, exact_execution.IllTyped):
                return None
            missing = [v for a in (*left, *right) for v in a.values.values() if isinstance(v, exact_execution.NoValue)]
            if half and any(v.undefined for v in missing) and len(missing) == sum(v.undefined for v in missing):
                return self._undefined(point, left, right)
            if not missing:
                return None if half else self._difference(point, left, right)
            if all(v.undefined for v in missing):
                return None
        return None

    @staticmethod
    def _run(
        program: Mapping[str, Any], point: TrialPoint, budget: exact_execution.Budget
    ) -> list[exact_execution.ExactArray]:
        return exact_execution.run(program, point.arrays, point.sizes, point.blocks, point.functions, budget)

    def _difference(
        self, point: TrialPoint, left: Sequence[exact_execution.ExactArray], right: Sequence[exact_execution.ExactArray]
    ) -> Counterexample | None:
        """The counterexample at the first index where both programs certainly differ; None where there is none."""
        for number, index, x, y in _compared(left, right):
            if isinstance(x, exact_execution.NoValue) or isinstance(y, exact_execution.NoValue):
                continue
            if exact_reals.different(x, y):
                return self._made(point, x, y, index, number)
        return None

    def _undefined(
        self, point: TrialPoint, left: Sequence[exact_execution.ExactArray], right: Sequence[exact_execution.ExactArray]
    ) -> Counterexample | None:
        for number, index, x, y in _compared(left, right):
            if isinstance(y, exact_execution.NoValue):
                return self._made(point, x, None, index, number, str(y))
        return None

    def _made(
        self, point: TrialPoint, x: Any, y: Any, index: dict[str, int], number: int, reason: str | None = None
    ) -> Counterexample:
        """A counterexample in the user's names, from a point and the two values at an index."""
        # Statements have identifiers; a counterexample has the user's names.
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
    """Numbers by the names that their identifiers encode."""
    return {name_of(name): n for name, n in found.items()}


def nested(array: exact_execution.ExactArray) -> Any:
    """The elements of an array as nested lists."""

    def part(prefix: tuple[int, ...]) -> Any:
        if len(prefix) == len(array.shape):
            return array.values[prefix]
        return [part((*prefix, k)) for k in range(array.shape[len(prefix)])]

    return part(())


# -- contents of programs -------------------------------------------------------------------------------------


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


def _numbers(programs: Sequence[Mapping[str, Any]], goal: Sequence[Term]) -> tuple[list[exact_reals.Value], set[int]]:
    """The constants of programs, and the integers at which their sizes and indices may matter."""
    constants: dict[Fraction, None] = {}
    whole: set[int] = set()
    for program in programs:
        for body in _bodies(program):
            for node in body["nodes"]:
                if node["op"] == "const" and node["value"] != "-inf":
                    constants[Fraction(node["value"])] = None
                elif node["op"] == "view":
                    whole |= {abs(n) for read in node["reads"] for n in _integers([read["at"], read["where"]])}
    for t in islice(subterms(*goal), 2000):
        if t.op == "num" and isinstance(t.data, Fraction):
            constants[t.data] = None
    whole |= {abs(int(c)) for c in constants if c.denominator == 1}
    plain: list[exact_reals.Value] = [c for c in constants if abs(c) < 10**6 and c.denominator < 10**6]
    # Numbers that stand for infinity are told from it by numbers as large.
    large: list[exact_reals.Value] = [c for c in constants if abs(c) >= 10**6 and c.denominator == 1]
    return [*plain[:24], *large[:2]], whole


def _integers(data: Any) -> set[int]:
    if isinstance(data, dict):
        return set().union(*map(_integers, data.values()))
    if isinstance(data, (list, tuple)):
        return set().union(*map(_integers, data))
    return {data} if isinstance(data, int) else set()


def _positions(*programs: Mapping[str, Any]) -> dict[int, list[Any]]:
    """The inputs that are read as indices, with the sizes of the axes that they index."""
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


def _with_positions(program: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The program of the computed positions at which inputs are read; and the sizes of the axes that are read."""
    inputs, nodes, found = program["inputs"], list(program["nodes"]), dict[tuple[str, str], tuple[str, int]]()

    def put(**node: Any) -> int:
        nodes.append(node)
        return len(inputs) + len(nodes) - 1

    def number(expr: Any, view: Mapping[str, Any]) -> int:
        if isinstance(expr, int):
            return put(op="const", value=str(expr))
        if isinstance(expr, str):
            return put(op="size", size=expr)
        if expr[0] == "w":
            return int(view["args"][expr[1]])
        if expr[0] == "i":
            return put(op="index", axis=[expr[1], dict(view["axes"])[expr[1]]])
        return put(op="map", fn=_ARITHMETIC[expr[0]], args=[number(e, view) for e in expr[1:]])

    for node in program["nodes"]:
        for source, read in zip(node["args"], node["reads"], strict=False) if node["op"] == "view" else ():
            sizes = dict(inputs[source]["axes"]) if source < len(inputs) else {}
            for axis, at in read["at"].items():
                computed = any(node["args"][k] >= len(inputs) for k in _arrays_in(at))
                if computed and isinstance(size := sizes.get(axis), str):
                    found[size, str(at)] = size, number(at, node)
    outputs = [[wire, "real"] for _, wire in found.values()]
    return {**program, "nodes": nodes, "outputs": outputs}, [size for size, _ in found.values()]


_ARITHMETIC = {"+": "add", "*": "mul", "//": "floordiv"}


def _arrays_in(expr: Any) -> Iterator[int]:
    if isinstance(expr, (list, tuple)):
        if expr[0] == "w":
            yield expr[1]
        elif expr[0] != "i":
            for e in expr[1:]:
                yield from _arrays_in(e)


def _compared(
    left: Sequence[exact_execution.ExactArray], right: Sequence[exact_execution.ExactArray]
) -> Iterator[tuple[int, dict[str, int], exact_execution.Element, exact_execution.Element]]:
    """The elements of two results: the number of the output, the index, and both elements there."""
    for number, (a, b) in enumerate(zip(left, right, strict=True)):
        for i, x in a.values.items():
            index = dict(zip(a.axes, i, strict=True))
            yield number, index, x, b.at(index)
