"""Lower bounds by geometric-programming duality, for any degree of difficulty, and optima bracketed by fractions.

With weights `delta_i` of the varying transfers `u_i` that sum to one, `mu_kj` of the varying terms `v_kj` of memory
`k`, `kappa_i` for a tile's upper end and `nu_i` for its lower one, all non-negative, the weighted mean of arithmetic
and geometric means gives, at every feasible point,

    sum u_i >= prod (u_i / delta_i)**delta_i
    1 >= prod_j (lambda_k * v_kj / (mu_kj * room_k))**mu_kj,   lambda_k = sum_j mu_kj, room_k = capacity - constant
    1 >= (g_i / bound_i)**kappa_i,   1 >= g_i**-nu_i.

Where the exponents of tiles cancel in the product of all of these, the product is a lower bound: a formula
(`Dual.bound`). It holds for *every* choice of sizes and capacities, whatever sizes the weights were found for. (Duffin,
Peterson, Zener, *Geometric Programming*, 1967, chapters 3 and 4; the bounds of tiles are constraints like any other.)

`certify` finds weights at given sizes by a numeric solve, rounds them to fractions that cancel exactly, and brackets
the optimum between the bound and a feasible point. `check_dual` and `check_bracket` do not depend on how the weights
were found: they decide with exact fractions, and with rational enclosures of logarithms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import sympy
from sympy import Expr, Symbol

from catdiag.optimum.optimality_certificate import PowerProgram
from catdiag.optimum.posynomial import CertificateError, Posynomial, PosynomialTerm, echelon, number, power, times
from catdiag.optimum.rational_enclosure import logarithm
from catdiag.optimum.rational_enclosure import power as enclosed
from catdiag.util.errors import SizeError

_SMALL = 1e-8
"""Weights below this share of the largest are set to zero."""


@dataclass(frozen=True)
class Dual:
    """Dual weights: of varying transfers, of the varying terms of each memory, and of the bounds of tiles."""

    program: PowerProgram
    transfers: tuple[Fraction, ...]
    memory: tuple[tuple[Fraction, ...], ...]
    upper: tuple[Fraction, ...]
    lower: tuple[Fraction, ...]

    @property
    def factors(self) -> tuple[tuple[Expr, Fraction], ...]:
        """The bound on varying transfers, as a product of powers: bases and their exponents."""
        found: list[tuple[Expr, Fraction]] = []
        for term, w in zip(self.program.transfers.varying, self.transfers, strict=True):
            found.append((term.coefficient / number(w) if w else sympy.S.One, w))
        for (memory, capacity), weights in zip(self.program.memory, self.memory, strict=True):
            whole, room = sum(weights, Fraction(0)), capacity - memory.constant
            for term, w in zip(memory.varying, weights, strict=True):
                found.append((term.coefficient * number(whole / w) / room if w else sympy.S.One, w))
        for (_, end), w in zip(self.program.tiles, self.upper, strict=True):
            found.append((1 / end if end is not None else sympy.S.One, w))
        return tuple((base, w) for base, w in found if w)

    @property
    def bound(self) -> Expr:
        """The lower bound as a formula.

        It holds at all sizes at which the room of each memory (its capacity less what no tile changes) is positive. It
        is the optimum at the sizes that the weights were found for. Where weights have large denominators, sympy is
        slow to substitute numbers: call `rounded()` first, or use `lower_at`.
        """
        if not self.transfers:
            return self.program.transfers.constant
        product = sympy.Mul(*(power(base, w) for base, w in self.factors))
        return self.program.transfers.constant + product

    def rounded(self, grain: int = 120) -> Dual:
        """Weights near these that are multiples of `1 / grain`, or of a small fraction of it.

        The formula becomes simpler and the bound slightly lower.
        """
        flat = [*self.transfers, *(w for ws in self.memory for w in ws), *self.upper, *self.lower]
        if not self.transfers:
            return self
        return Dual(
            self.program, *_split_weights(self.program, _balanced(self.program, [float(w) for w in flat], grain))
        )

    def lower_at(self, sizes: Mapping[Symbol, int | Fraction]) -> Fraction:
        """A fraction just below the bound at given sizes (of every symbol in it)."""
        constant = _fraction(self.program.transfers.constant, sizes)
        _rooms(self.program, sizes)
        if not self.transfers:
            return constant
        low = sum((w * logarithm(_fraction(base, sizes))[0] for base, w in self.factors), Fraction(0))
        guess = Fraction(math.exp(float(low)) * (1 - 1e-14)) if low < 600 else Fraction(math.exp(600))
        while logarithm(guess)[1] > low:
            guess *= Fraction(1 - 1e-13)
        return constant + guess


@dataclass(frozen=True)
class DualityGap:
    """The optimum at `sizes` lies between `lower` and `upper`; `tiles` attain `upper` (up to rounding up)."""

    dual: Dual
    sizes: Mapping[Symbol, Fraction]
    lower: Fraction
    upper: Fraction
    tiles: Mapping[Symbol, Fraction]

    @property
    def gap(self) -> float:
        """The difference of the two, as a share of the lower one."""
        return float((self.upper - self.lower) / self.lower) if self.lower else 0.0

    def __str__(self) -> str:
        at = ", ".join(f"{v} = {float(size):.6g}" for v, size in self.tiles.items())
        return f"between {float(self.lower):.10g} and {float(self.upper):.10g} (gap {self.gap:.1e}) at {at}"


def check_dual(dual: Dual) -> bool:
    """`True` where the weights give a bound; raises `CertificateError` otherwise."""
    program = dual.program
    if len(dual.transfers) != len(program.transfers.varying) or [len(w) for w in dual.memory] != [
        len(m.varying) for m, _ in program.memory
    ]:
        raise CertificateError("there must be one weight for each varying term")
    if not len(dual.upper) == len(dual.lower) == len(program.tiles):
        raise CertificateError("expected one weight for each bound of each tile")
    weights = [*dual.transfers, *(w for ws in dual.memory for w in ws), *dual.upper, *dual.lower]
    if any(w < 0 for w in weights) or sum(dual.transfers) != bool(dual.transfers):
        raise CertificateError("weights must be non-negative, and those of transfers sum to one")
    if any(w and end is None for (_, end), w in zip(program.tiles, dual.upper, strict=True)):
        raise CertificateError("a tile without an upper bound has a weight for it: expected zero")
    terms = [*program.transfers.varying, *(t for m, _ in program.memory for t in m.varying)]
    left = times(*((t.powers, w) for t, w in zip(terms, weights, strict=False)))
    ends = zip(program.tiles, dual.upper, dual.lower, strict=True)
    total = times((left, 1), *((((v, Fraction(1)),), up - low) for (v, _), up, low in ends))
    if total:
        raise CertificateError(f"the exponents do not balance: {total} is left")
    return True


def check_bracket(bracket: DualityGap) -> bool:
    """`True` where both ends are shown at the sizes; raises `CertificateError` otherwise."""
    dual, program, sizes = bracket.dual, bracket.dual.program, bracket.sizes
    check_dual(dual)
    _rooms(program, sizes)
    rest = bracket.lower - _fraction(program.transfers.constant, sizes)
    low = sum((w * logarithm(_fraction(base, sizes))[0] for base, w in dual.factors), Fraction(0))
    if rest > 0 and (not dual.transfers or logarithm(rest)[1] > low):
        raise CertificateError(f"the weights do not show that {float(bracket.lower)} is a lower bound")
    for v, end in program.tiles:
        size = bracket.tiles[v]
        if size < 1 or (end is not None and size > _fraction(end, sizes)):
            raise CertificateError(f"{v} = {float(size)} is not between one and {end}")
    for memory, capacity in program.memory:
        if (used := _upper_bound(memory, bracket.tiles, sizes)) > _fraction(capacity, sizes):
            raise CertificateError(f"memory at the tiles may be {float(used)}, more than {capacity}")
    if (moved := _upper_bound(program.transfers, bracket.tiles, sizes)) > bracket.upper:
        raise CertificateError(f"transfers at the tiles may be {float(moved)}, more than {float(bracket.upper)}")
    return True


def certify(program: PowerProgram, sizes: Mapping[Symbol, int | Fraction]) -> DualityGap | None:
    """The optimum at sizes (of every symbol but the tiles), between a bound and a feasible point.

    `None` where nothing fits, or no strictly feasible point was found. Raises `SizeError` for sizes that are missing.

    >>> from catdiag.optimum.posynomial import posynomial
    >>> g, h, n, M = sympy.symbols("g h n M", positive=True)
    >>> f, m = posynomial(n / g + n / h + n / (g * h), [g, h]), posynomial(g * h + g + 3 * h, [g, h])
    >>> found = certify(PowerProgram(f, ((m, M),), ((g, n), (h, n))), {n: 1000, M: 500})
    >>> found.gap < 1e-6, round(float(found.lower), 3)
    (True, 100.093)
    """
    at = {v: Fraction(size) for v, size in sizes.items()}
    plain = _numeric(program, at)
    if any(
        _fraction(capacity, {}) <= _fraction(memory.constant, {}) for memory, capacity in plain.memory if memory.varying
    ):
        return None
    found = _weights(plain)
    if found is None:
        return None
    weights, point = found
    dual = Dual(program, *weights)
    check_dual(dual)
    tiles = _feasible(plain, point)
    if tiles is None:
        return None
    bracket = DualityGap(dual, at, dual.lower_at(at), _upper_bound(plain.transfers, tiles, {}), tiles)
    check_bracket(bracket)
    return bracket


def _fraction(expression: Expr, sizes: Mapping[Symbol, int | Fraction]) -> Fraction:
    value = sympy.sympify(expression).subs({v: number(Fraction(size)) for v, size in sizes.items()})
    if not value.is_Rational:
        free = ", ".join(sorted(map(str, value.free_symbols)))
        if free:
            raise SizeError(f"the optimum depends on {expression}, which is {value} here: give a size for {free}")
        raise SizeError(f"{expression} is {value}, which is no fraction: give sizes that are numbers")
    return Fraction(int(value.p), int(value.q))


def _rooms(program: PowerProgram, sizes: Mapping[Symbol, int | Fraction]) -> None:
    for memory, capacity in program.memory:
        if memory.varying and _fraction(capacity - memory.constant, sizes) <= 0:
            raise CertificateError(f"{capacity} leaves no room for tiles")


def _numeric(program: PowerProgram, sizes: Mapping[Symbol, Fraction]) -> PowerProgram:
    """The same program with numbers for sizes; terms are not merged and keep their order."""

    def at(p: Posynomial) -> Posynomial:
        return Posynomial(tuple(PosynomialTerm(number(_fraction(t.coefficient, sizes)), t.powers) for t in p.terms))

    ends = tuple((v, None if end is None else number(_fraction(end, sizes))) for v, end in program.tiles)
    memory = tuple((at(m), number(_fraction(capacity, sizes))) for m, capacity in program.memory)
    return PowerProgram(at(program.transfers), memory, ends)


def _upper_bound(p: Posynomial, tiles: Mapping[Symbol, Fraction], sizes: Mapping[Symbol, int | Fraction]) -> Fraction:
    """A rational upper bound of the posynomial."""
    total = Fraction(0)
    for term in p.terms:
        product = _fraction(term.coefficient, sizes)
        for v, e in term.powers:
            product *= enclosed(tiles[v], e)[1]
        total += product
    return total


_Weights: TypeAlias = tuple[
    tuple[Fraction, ...], tuple[tuple[Fraction, ...], ...], tuple[Fraction, ...], tuple[Fraction, ...]
]


def _weights(program: PowerProgram) -> tuple[_Weights, list[float]] | None:
    """The dual weights at the numeric optimum, rounded so that exponents cancel exactly, and the optimal tiles."""
    import numpy as np

    from catdiag.optimum.convex_solver import LogSum, solve

    if not program.transfers.varying:
        nothing = (Fraction(0),) * len(program.tiles)
        memory = tuple((Fraction(0),) * len(m.varying) for m, _ in program.memory)
        return ((), memory, nothing, nothing), [1.0] * len(program.tiles)
    names = [v for v, end in program.tiles if end is None or end > 1]
    limits = [(m, c) for m, c in program.memory if any(v in names for v in m.variables)]
    costs = program.transfers

    def logs(terms: Sequence[PosynomialTerm], over: Expr = sympy.S.One) -> LogSum:
        rows = [[float(t.exponents.get(v, 0)) for v in names] for t in terms]
        return LogSum(
            np.array(rows, dtype=float).reshape(len(terms), len(names)),
            np.array([math.log(t.coefficient.p * over.q) - math.log(t.coefficient.q * over.p) for t in terms]),
        )

    ends = dict(program.tiles)
    upper = np.array([math.inf if ends[v] is None else math.log(float(ends[v])) for v in names])
    objective = logs(costs.terms)
    constraints = [logs(m.terms, capacity) for m, capacity in limits]
    found = solve(objective, constraints, upper) if names else None
    if names and found is None:
        return None
    point = dict(zip(names, found.x, strict=True)) if found is not None else {}
    x = np.array([point[v] for v in names])

    def shares(p: Posynomial, whole: LogSum) -> tuple[list[float], float]:
        """The shares of the varying terms in their sum, and the share of their sum in the total."""
        each = whole.parts(x)[1] if names else np.exp(whole.logs) / np.exp(whole.logs).sum()
        varying = [float(s) for s, t in zip(each, p.terms, strict=True) if t.powers]
        return [s / sum(varying) for s in varying], sum(varying)

    first, part = shares(costs, objective)
    rough: list[float] = list(first)
    by_memory = {id(m): (k, w) for k, (m, _) in enumerate(limits) for w in [constraints[k]]}
    for m, _ in program.memory:
        if id(m) not in by_memory or found is None:
            rough += [0.0] * len(m.varying)
            continue
        k, whole = by_memory[id(m)]
        inner, inside = shares(m, whole)
        rough += [s * float(found.constraints[k]) * inside / part for s in inner]
    for side in ("upper", "lower"):
        values = dict(zip(names, getattr(found, side), strict=True)) if found is not None else {}
        rough += [float(values.get(v, 0.0)) / part for v, _ in program.tiles]
    exact = _balanced(program, rough, 10**9)
    return _split_weights(program, exact), [math.exp(point.get(v, 0.0)) for v, _ in program.tiles]


def _split_weights(program: PowerProgram, weights: Sequence[Fraction]) -> _Weights:
    """A flat list of weights as those of transfers, of each memory, and of the upper and lower bounds of tiles."""
    left = iter(weights)

    def take(count: int) -> tuple[Fraction, ...]:
        return tuple(itertools.islice(left, count))

    transfers = take(len(program.transfers.varying))
    memory = tuple(take(len(m.varying)) for m, _ in program.memory)
    return transfers, memory, take(len(program.tiles)), take(len(program.tiles))


def _balanced(program: PowerProgram, rough: Sequence[float], grain: int) -> list[Fraction]:
    """Exact weights near rough ones, which sum to one over transfers and cancel the exponents of each tile.

    The weights are multiples of `1 / grain`; the largest are solved for instead, so that the equations hold exactly.
    Where that gives a negative weight, the bounds of tiles take up the remaining imbalance.
    """
    terms = [*program.transfers.varying, *(t for m, _ in program.memory for t in m.varying)]
    first, width = len(program.transfers.varying), len(program.tiles)
    columns: list[list[Fraction]] = []
    for i, term in enumerate(terms):
        columns.append([Fraction(i < first), *(term.exponents.get(v, Fraction(0)) for v, _ in program.tiles)])
    for sign in (1, -1):
        columns += [[Fraction(0), *(Fraction(sign * (i == j)) for j in range(width))] for i in range(width)]
    rough = list(rough)
    for j, (_, end) in enumerate(program.tiles):
        if end is not None and end.is_number and end <= 1:  # the bounds of a fixed tile take up its imbalance
            left = sum(rough[i] * float(columns[i][1 + j]) for i in range(len(terms)))
            rough[len(terms) + (0 if left < 0 else width) + j] = abs(left)
    order = sorted((i for i, w in enumerate(rough) if w > _SMALL * max(rough)), key=lambda i: -rough[i])
    target = [Fraction(1), *[Fraction(0)] * width]
    weights = {i: Fraction(round(rough[i] * grain), grain) for i in order}
    rows, pivots = echelon([[columns[i][r] for i in order] + [target[r]] for r in range(width + 1)])
    if len(order) not in pivots:
        free = [p for p in range(len(order)) if p not in pivots]
        for row, pivot in zip(rows, pivots, strict=False):
            weights[order[pivot]] = row[-1] - sum((row[p] * weights[order[p]] for p in free), Fraction(0))
    if len(order) in pivots or any(w < 0 for w in weights.values()):
        weights = {i: Fraction(round(rough[i] * grain), grain) for i in range(len(terms)) if rough[i] > 0}
        total = sum((w for i, w in weights.items() if i < first), Fraction(0))
        weights = {i: w / total for i, w in weights.items()}
        for j in range(width):
            over = sum((w * columns[i][1 + j] for i, w in weights.items() if i < len(terms)), Fraction(0))
            weights[len(terms) + (0 if over < 0 else width) + j] = abs(over)
    return [weights.get(i, Fraction(0)) for i in range(len(columns))]


def _feasible(program: PowerProgram, point: Sequence[float]) -> dict[Symbol, Fraction] | None:
    """An exactly feasible point near the given one: moved towards one where rounding has made it exceed a memory."""
    for shrink in (0.0, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-6):
        tiles = {}
        for (v, end), size in zip(program.tiles, point, strict=True):
            near = Fraction(1 + (size - 1) * (1 - shrink))
            tiles[v] = max(Fraction(1), near if end is None else min(near, Fraction(int(end.p), int(end.q))))
        if all(_upper_bound(m, tiles, {}) <= _fraction(capacity, {}) for m, capacity in program.memory):
            return tiles
    return None
