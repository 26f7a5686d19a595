"""Inputs on the decision boundaries of a program: one number is solved for so that two compared values are equal, or a
divisor is 0.

For each input of a batch, one of the critical values of both programs is chosen (a difference of compared values, a
divisor, the argument of a root or logarithm), and one number of the input. The critical value is computed for three
values of that number. Where it is linear or quadratic in the number, its zero is solved for.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import isfinite

import numpy as np

from catdiag.prover.refute import exact_execution, float_screening
from catdiag.prover.refute.candidate_inputs import Batch, Indices
from catdiag.prover.refute.float_screening import Floats
from catdiag.prover.refute.program_comparison import Comparison

_ROUNDS = 2
_COLUMNS = 400


def solved(pair: Comparison, batch: Batch) -> Batch:
    """A batch with some numbers of each input moved to a zero of a critical value, or near it. Raises Exhausted."""
    cells = [k for k, d in enumerate(pair.declared) if d["element"] != "bool" and batch.arrays[k][0].size]
    if not cells:
        return batch
    count = len(batch.arrays[0])
    lengths = [batch.arrays[k][0].size for k in cells]
    starts = np.cumsum([0, *lengths])
    rng = pair.drawer.rng
    rows = np.arange(count)
    for _ in range(_ROUNDS):
        left = pair.meter.budget.left
        here = _critical_values(pair, batch, None)
        if here is None:
            return batch
        # Computing them once more, unmoved, would give the same, and counts as work.
        if (twice := 2 * pair.meter.budget.left - left) < 0:
            raise exact_execution.Exhausted
        pair.meter.budget.left = twice
        columns = rng.choice(here.shape[1], size=count, p=_weights(here))
        positions = rng.integers(0, starts[-1], size=count)
        zero = here[rows, columns]
        one, two = (_at(pair, batch, cells, starts, positions, shift, columns) for shift in (1, 2))
        origin = _flat(pair, batch, cells)[rows, positions]
        places = [
            _place(pair, float(x), float(a), float(b), float(c), int(variant))
            for x, a, b, c, variant in zip(origin, zero, one, two, rng.integers(0, 6, size=count), strict=True)
        ]
        arrays = list(batch.arrays)
        for j, k in enumerate(cells):
            mine = (positions >= starts[j]) & (positions < starts[j + 1])
            integral = pair.declared[k]["element"] == "int"
            flat = arrays[k].reshape(count, -1).copy()
            for row in np.flatnonzero(mine):
                place = places[row]
                if place is not None and not (integral and pair.pool.values[place] not in _WHOLE):
                    flat[row, positions[row] - starts[j]] = place
            arrays[k] = flat.reshape(arrays[k].shape)
        batch = replace(batch, arrays=tuple(arrays))
    return batch


_WHOLE = frozenset(Fraction(n) for n in range(-1000, 1001))


def _weights(critical: Floats) -> Floats:
    """Sampling weights: critical values that never change sign, or always have the same one, are chosen more often."""
    with np.errstate(all="ignore"):
        never = ~(np.abs(critical) < 1e-9).any(0)
        one_way = (critical > 0).all(0) | (critical < 0).all(0)
    weights = 1.0 + 3 * never + 2 * one_way
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _flat(pair: Comparison, batch: Batch, cells: list[int]) -> Floats:
    floats = pair.pool.floats
    return np.concatenate([floats[batch.arrays[k]].reshape(len(batch.arrays[k]), -1) for k in cells], axis=1)


def _critical_values(pair: Comparison, batch: Batch, wires: list[float_screening.Wire] | None) -> Floats | None:
    """The critical values of both programs for each input: [input, value]."""
    meter = float_screening.Meter(pair.meter.budget.left, watch=True)
    wires = wires if wires is not None else batch.wires(pair.declared, pair.pool)
    functions = batch.polynomials(pair.pool)
    for program in (pair.left, pair.right):
        float_screening.outputs(program, wires, batch.sizes, batch.blocks, functions, meter)
    pair.meter.budget.left = meter.budget.left
    count = max((len(x) for x, _ in wires), default=1)
    found = [
        np.broadcast_to(v.reshape(len(v), -1), (count, v[0].size))
        for v in meter.critical_values or ()
        if v.size and v.ndim
    ]
    varying = [v for v in found if v.shape[1]]
    if not varying:
        return None
    together = np.concatenate(varying, axis=1)
    return together[:, :: 1 + together.shape[1] // _COLUMNS]


def _at(
    pair: Comparison, batch: Batch, cells: list[int], starts: Indices, positions: Indices, shift: int, columns: Indices
) -> Floats:
    """The chosen critical value of each input, with its chosen number moved by `shift`."""
    wires = batch.wires(pair.declared, pair.pool)
    rows = np.arange(len(positions))
    for j, k in enumerate(cells):
        mine = (positions >= starts[j]) & (positions < starts[j + 1])
        x, axes = wires[k]
        flat = x.reshape(len(x), -1).copy()
        flat[rows[mine], positions[mine] - starts[j]] += shift
        wires[k] = flat.reshape(x.shape), axes
    found = _critical_values(pair, batch, wires)
    return np.full(len(rows), np.nan) if found is None else found[rows, columns]


def _place(pair: Comparison, x: float, zero: float, one: float, two: float, variant: int) -> int | None:
    """The place (in the pool) of a number at which a critical value is 0, or of one near it; None where
    none is found.
    """
    if not (isfinite(x) and isfinite(zero) and isfinite(one) and isfinite(two)):
        return None
    second, first = (two - 2 * one + zero) / 2, one - zero
    slope = first - second
    if abs(second) < 1e-9 * (1 + abs(first)):
        if abs(first) < 1e-9:
            return None
        move = -zero / first
    else:
        inside = slope * slope - 4 * second * zero
        if inside < 0:
            return None
        move = (-slope + (1 if variant % 2 else -1) * inside**0.5) / (2 * second)
    wanted = x + move
    if not abs(wanted) <= 1e6:  # NaN included
        return None
    found = Fraction(wanted).limit_denominator(60)
    if abs(float(found) - wanted) > 1e-6 * (1 + abs(wanted)):
        return None
    near = (Fraction(0), Fraction(0), Fraction(0), Fraction(0), Fraction(1, 2), Fraction(-1, 2))[variant]
    return int(pair.pool.of([found + near])[0])
