"""Shrinking of counterexamples: first sizes, then numbers towards 0 and 1, while the programs still differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

import numpy as np

from catdiag.prover.assumptions import holds, size_value
from catdiag.prover.refute import exact_execution
from catdiag.prover.refute.candidate_inputs import Batch, Indices, TrialPoint, cost
from catdiag.prover.refute.counterexample_data import Counterexample
from catdiag.prover.refute.function_interpretations import Function
from catdiag.prover.refute.program_comparison import Comparison

_ROUNDS = 12
_CELLS = 96


def shrink(pair: Comparison, point: TrialPoint, half: bool = False) -> Counterexample | None:
    """The smallest counterexample that shrinking finds, confirmed in exact arithmetic; `half` is as in
    `Comparison.check`.
    """
    best = pair.check(point, half)
    batch = _batch(pair, point)
    try:
        for smaller in (_sizes(pair, batch, half), _numbers(pair, _sizes(pair, batch, half), half)):
            found = pair.check(smaller.point(0, pair.declared, pair.pool), half)
            if found is None:
                break
            best = found
    except exact_execution.Exhausted:
        return best
    return best


def _batch(pair: Comparison, point: TrialPoint) -> Batch:
    """A batch of one input."""
    arrays = []
    for a in point.arrays:
        places = pair.pool.of([Fraction(v) if isinstance(v, bool) else v for v in a.values.values()])
        arrays.append(places.reshape((1, *a.shape)))
    functions = {
        name: pair.pool.of(f.coefficients)[None] for name, f in point.functions.items() if isinstance(f, Function)
    }
    return Batch(point.sizes, point.blocks, tuple(arrays), functions)


def _still(pair: Comparison, batch: Batch, half: bool) -> Indices:
    """The inputs of a batch on which the programs still seem to differ."""
    pair.meter.budget.left = max(pair.meter.budget.left, 4_000_000)
    return np.flatnonzero(pair.differing(batch)[1 if half else 0])


# -- sizes ------------------------------------------------------------------------------------------------------


def _sizes(pair: Comparison, batch: Batch, half: bool) -> Batch:
    """The input with indices removed from axes while the difference remains."""
    for _ in range(_ROUNDS):
        smaller = next(
            (found for trial in _fewer(pair, batch) for found in [_first(pair, trial, half)] if found is not None),
            None,
        )
        if smaller is None:
            break
        batch = smaller
    ones = replace(batch, blocks=dict.fromkeys(batch.blocks, 1))
    return _first(pair, ones, half) or batch


def _first(pair: Comparison, trial: Batch, half: bool) -> Batch | None:
    rows = _still(pair, trial, half)
    return trial.take(rows[:1]) if len(rows) else None


def _fewer(pair: Comparison, batch: Batch) -> Iterator[Batch]:
    """Batches of inputs with one index removed along one size, one input for each index that can be removed."""
    for s in pair.symbols:
        sizes = {**batch.sizes, s: batch.sizes[s] - 1}
        if sizes[s] < 0 or not all(holds(c, sizes) for c in pair.assume):
            continue
        whole = batch.sizes[s]
        gone = np.arange(whole)
        arrays: list[Indices] = []
        for a, d in zip(batch.arrays, pair.declared, strict=True):
            rows = np.repeat(a, whole, axis=0)
            for k, (_, extent) in enumerate(d["axes"]):
                now = size_value(extent, sizes)
                if now == rows.shape[k + 1]:
                    continue
                if extent == s:
                    kept = np.array([[i for i in range(whole) if i != g] for g in gone], dtype=np.intp)
                else:
                    kept = np.tile(np.arange(now, dtype=np.intp), (whole, 1))
                shape = [1] * rows.ndim
                shape[0], shape[k + 1] = whole, now
                rows = np.take_along_axis(rows, kept.reshape(shape), axis=k + 1)
            arrays.append(rows)
        functions = {name: np.repeat(c, whole, axis=0) for name, c in batch.functions.items()}
        yield Batch(sizes, batch.blocks, tuple(arrays), functions)


# -- numbers ----------------------------------------------------------------------------------------------------


def _numbers(pair: Comparison, batch: Batch, half: bool) -> Batch:
    """The input with simpler numbers while the difference remains."""
    for _ in range(_ROUNDS):
        changes = list(_plainer(pair, batch))
        if not changes:
            break
        rows = _still(pair, _changed(batch, [[c] for c in changes]), half)
        kept: dict[tuple[int, int], tuple[int, int, int]] = {}
        for row in rows:
            kept.setdefault(changes[row][:2], changes[row])
        if not kept:
            break
        # As many of these changes at once as keep the difference.
        chosen = list(kept.values())
        runs = [chosen[: k + 1] for k in range(len(chosen))]
        rows = _still(pair, _changed(batch, runs), half)
        if not len(rows):
            break
        batch = _changed(batch, [runs[int(rows[-1])]])
    return batch


def _plainer(pair: Comparison, batch: Batch) -> Iterator[tuple[int, int, int]]:
    """Changes (array, cell, place) to simpler numbers; functions count as arrays of coefficients."""
    pool = pair.pool
    zero, one, minus, two = pool.of((0, 1, -1, 2)).tolist()
    tables = [*batch.arrays, *batch.functions.values()]
    for k, table in enumerate(tables):
        truth = k < len(pair.declared) and pair.declared[k]["element"] == "bool"
        for cell, place in enumerate(table.reshape(-1)[:_CELLS].tolist()):
            value = pool.values[place]
            nearer = [zero, one] if truth else [zero, one, minus, two]
            if isinstance(value, Fraction) and not truth:
                near = (floor(value), ceil(value), floor(value / 2), ceil(value / 2))
                nearer += pool.of(near).tolist()
            for other in dict.fromkeys(nearer):
                if cost(pool.values[other]) < cost(value):
                    yield k, cell, other


def _changed(batch: Batch, changes: list[list[tuple[int, int, int]]]) -> Batch:
    """A batch of variants of one input, one for each list of changes."""
    tables = [np.repeat(t, len(changes), axis=0) for t in (*batch.arrays, *batch.functions.values())]
    flat = [t.reshape(len(changes), -1) for t in tables]
    for row, several in enumerate(changes):
        for k, cell, place in several:
            flat[k][row, cell] = place
    made = [f.reshape(t.shape) for f, t in zip(flat, tables, strict=True)]
    return replace(
        batch,
        arrays=tuple(made[: len(batch.arrays)]),
        functions=dict(zip(batch.functions, made[len(batch.arrays) :], strict=True)),
    )
