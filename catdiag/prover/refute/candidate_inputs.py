"""Candidate inputs: numbers from a pool that are likely to tell programs apart, drawn for many inputs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catdiag.prover.assumptions import size_value
from catdiag.prover.refute.exact_execution import Element, ExactArray, build
from catdiag.prover.refute.exact_reals import BOTTOM, MinusInfinity, Powers, Value
from catdiag.prover.refute.float_screening import Floats, Wire
from catdiag.prover.refute.function_interpretations import Free, Function

Indices: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class TrialPoint:
    """One input of both programs: sizes, block and tile sizes, functions and arrays."""

    sizes: dict[str, int]
    blocks: dict[str, int]
    functions: Mapping[str, Function | Free]
    arrays: tuple[ExactArray, ...]


class Pool:
    """Numbers, exact and in floating point, by their places in the pool."""

    def __init__(self, constants: Sequence[Value]) -> None:
        self.values: list[Value] = []
        self.places: dict[Value, int] = {}
        self._floats: Floats | None = None
        plain = [c for c in constants if isinstance(c, Fraction)]
        near = [c + d for c in plain for d in (0, 1, -1, Fraction(1, 2), Fraction(-1, 2))]
        given: list[Value] = [*near, *(-c for c in plain), *(c for c in constants if isinstance(c, Powers))]
        self.small = self.of(range(-2, 4))
        self.bits = self.of((0, 1))
        self.signs = self.of((0, 1, -1))
        self.natural = self.of((1, 2, 3))
        self.positive = self.of((1, 2, 3, Fraction(1, 2), Fraction(3, 2)))
        self.squares = self.of((0, 1, 4, 9, Fraction(1, 4)))
        self.mixed = self.of(Fraction(p, q) for p in range(-6, 7) for q in (1, 2, 3))
        self.large = self.of((0, -1000, -100, -7, 5, 100, 1000))
        self.counting = self.of(range(-3, 40))
        self.given = self.of(given or range(-2, 4))
        self.whole = self.of(v for v in (*near, *range(-2, 5)) if Fraction(v).denominator == 1)
        self.bottom = int(self.of([BOTTOM])[0])

    def of(self, values: Any) -> Indices:
        """The places of numbers; new ones are added."""
        found = []
        for value in values:
            place = self.places.get(value)  # whole numbers are found as the fractions that they equal
            if place is None:
                v: Value = value if isinstance(value, (MinusInfinity, Powers)) else Fraction(value)
                place = self.places[v] = len(self.values)
                self.values.append(v)
                self._floats = None
            found.append(place)
        return np.array(found, dtype=np.intp)

    @property
    def floats(self) -> Floats:
        """The numbers in floating point."""
        if self._floats is None:
            self._floats = np.array([_float(v) for v in self.values])
        return self._floats

    def costs(self) -> Floats:
        """The cost of each number: its distance from 0 and 1, so that simple numbers are preferred."""
        return np.array([cost(v) for v in self.values])


def _float(v: Any) -> float:
    try:
        return float(v)
    except OverflowError:
        return float("inf") if v > 0 else float("-inf")


def cost(v: Value) -> float:
    """The distance of a number from 0 and 1, smaller for numbers that are easier to read."""
    if not isinstance(v, Fraction):
        return 40.0
    size = float(min(abs(v.numerator), 10**9)) + (v < 0) / 2
    return size if v.denominator == 1 else 10 + size + 2 * float(min(v.denominator, 10**9))


@dataclass(frozen=True)
class Batch:
    """Many inputs with the same sizes and block sizes: for each array the places of its numbers in a pool, [input,
    *axes].
    """

    sizes: dict[str, int]
    blocks: dict[str, int]
    arrays: tuple[Indices, ...]
    functions: dict[str, Indices]
    """For each function the places of its coefficients: [input, 4]."""

    def take(self, rows: Any) -> Batch:
        """The inputs in some rows."""
        return Batch(
            self.sizes,
            self.blocks,
            tuple(a[rows] for a in self.arrays),
            {name: c[rows] for name, c in self.functions.items()},
        )

    def wires(self, declared: Sequence[Mapping[str, Any]], pool: Pool) -> list[Wire]:
        """The arrays in floating point."""
        return [
            (pool.floats[a], tuple(str(n) for n, _ in d["axes"])) for a, d in zip(self.arrays, declared, strict=True)
        ]

    def polynomials(self, pool: Pool) -> dict[str, Callable[..., Floats]]:
        """The functions in floating point."""

        def made(coefficients: Floats) -> Callable[..., Floats]:
            def polynomial(*xs: Floats) -> Floats:
                t = xs[0]
                for k, x in enumerate(xs[1:]):
                    t = t + (k + 2) * x
                total = np.zeros_like(t)
                for c in coefficients.T[::-1]:
                    total = total * t + c.reshape(-1, *(1 for _ in t.shape[1:]))
                return total

            return polynomial

        return {name: made(pool.floats[c]) for name, c in self.functions.items()}

    def point(self, row: int, declared: Sequence[Mapping[str, Any]], pool: Pool) -> TrialPoint:
        """One of the inputs, exact."""
        arrays = []
        for places, d in zip(self.arrays, declared, strict=True):
            one = places[row]

            def element(i: tuple[int, ...], one: Indices = one, truth: bool = d["element"] == "bool") -> Element:
                v = pool.values[int(one[i])]
                return v != 0 if truth else v

            arrays.append(build([str(n) for n, _ in d["axes"]], one.shape, element))
        functions = {}
        for name, c in self.functions.items():
            coefficients = [pool.values[int(k)] for k in c[row]]
            functions[name] = Function(tuple(Fraction(v) for v in coefficients if isinstance(v, Fraction)))
        return TrialPoint(self.sizes, self.blocks, functions, tuple(arrays))


class Drawer:
    """Draws batches from a seed: structured arrays first, then random ones."""

    def __init__(
        self,
        declared: Sequence[Mapping[str, Any]],
        positions: Mapping[int, Sequence[Any]],
        functions: Sequence[str],
        pool: Pool,
        seed: int,
    ) -> None:
        self.declared, self.positions, self.functions, self.pool = declared, positions, functions, pool
        self.rng = np.random.Generator(np.random.PCG64(seed))

    def draw(self, sizes: dict[str, int], blocks: dict[str, int], count: int) -> Batch:
        """A batch. Its first inputs are the simplest: zeros, ones, consecutive numbers."""
        family = self.rng.integers(0, 12, size=count)
        arrays, start = [], 1
        for k, d in enumerate(self.declared):
            shape = tuple(size_value(s, sizes) for _, s in d["axes"])
            own = np.where(self.rng.random(count) < 0.5, family, self.rng.integers(0, 12, size=count))
            limits = [size_value(s, sizes) for s in self.positions.get(k, ())]
            made = self._array(str(d["element"]), shape, own, limits)
            if d["element"] != "bool" and not limits:
                cells = made[0].size
                for row, values in enumerate(([0] * cells, [1] * cells, range(start, start + cells))[:count]):
                    made[row] = self.pool.of(values).reshape(shape)
                start += cells
            arrays.append(made)
        functions = {}
        for name in self.functions:
            functions[name] = self._choice(self.pool.small, (count, 4))
        return Batch(sizes, blocks, tuple(arrays), functions)

    def _choice(self, places: Indices, shape: tuple[int, ...]) -> Indices:
        return places[self.rng.integers(0, len(places), size=shape)]

    def _array(self, element: str, shape: tuple[int, ...], family: Indices, limits: Sequence[int]) -> Indices:
        """The places of the elements of one array, for all inputs of a batch."""
        pool, count = self.pool, len(family)
        full = (count, *shape)
        if element == "bool":
            made = self._choice(pool.bits, full)
            made[family == 0] = pool.bits[0]
            made[family == 1] = pool.bits[1]
            return made
        if limits:
            # An array of indices: mostly in range.
            inside = self._choice(pool.of(range(max(1, min(limits)))), full)
            return np.where(_rows(family < 10, full), inside, self._choice(pool.whole, full))
        if element == "int":
            made, single = self._choice(pool.whole, full), pool.natural
            choices = [pool.bits, pool.counting[3:7], pool.small]
        else:
            made, single = self._choice(pool.small, full), pool.positive
            choices = [pool.bits, pool.positive, pool.mixed, pool.given, pool.squares, pool.large, pool.signs]
        for k, places in enumerate(choices):
            rows = family == k
            if rows.any():
                made[rows] = self._choice(places, (int(rows.sum()), *shape))
        if shape and made[0].size:
            self._structured(made, family, shape, single)
        if element == "extended" and shape:
            holes = (self.rng.random(full) < 0.4) & _rows(self.rng.random(count) < 0.5, full)
            made = np.where(holes, pool.bottom, made)
        elif element == "extended":
            made = np.where(self.rng.random(full) < 0.3, pool.bottom, made)
        return made

    def _structured(self, made: Indices, family: Indices, shape: tuple[int, ...], single: Indices) -> None:
        """Replaces some arrays by structured ones; `single` are the values for arrays with one nonzero element."""
        pool, cells = self.pool, made[0].size
        rows = np.flatnonzero(family == 8)  # a single nonzero element
        positions = self.rng.integers(0, cells, size=len(rows))
        made[rows] = pool.bits[0]
        made.reshape(len(made), cells)[rows, positions] = self._choice(single, (len(rows),))
        rows = np.flatnonzero(family == 9)  # distinct elements
        order = np.argsort(self.rng.random((len(rows), cells)), axis=1) + self.rng.integers(0, 4, size=(len(rows), 1))
        made[rows] = pool.counting[np.minimum(order, len(pool.counting) - 1)].reshape(len(rows), *shape)
        rows = np.flatnonzero(family == 10)  # equal rows
        made[rows] = made[rows][:, :1]
        rows = np.flatnonzero(family == 11)  # equal elements
        first: tuple[Any, ...] = (rows, *(slice(0, 1) for _ in shape))
        made[rows] = made[first]


def _rows(chosen: Any, shape: tuple[int, ...]) -> Any:
    return np.reshape(chosen, (shape[0], *(1 for _ in shape[1:])))
