"""The active constraints at many sizes at once, found numerically, to choose which formulas are derived.

Nothing is proved here. In the logarithms of tiles a program is convex. At given sizes a primal-dual interior-point
method (Boyd and Vandenberghe, *Convex Optimization*, 2004, section 11.7) therefore finds which tiles are at an end of
their range and which memories are full: the constraints whose multiplier stays away from zero. It runs for all sizes
together, for a fixed number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from catdiag.optimum.optimality_certificate import BOUND, FREE, ONE, PowerProgram
from catdiag.optimum.posynomial import Powers, combination

Choice: TypeAlias = tuple[tuple[str, ...], tuple[int, ...]]
"""An active set: for each coordinate whether it is at one, at its bound or free, and the memories that are full."""

_STEPS = 40
_TOLERANCE = 1e-5
_LEAST = 1e-10
"""The complementarity target (product of multiplier and slack) stays above this, the scale of rounding errors."""


def binding(
    program: PowerProgram,
    monomials: Sequence[Powers],
    coefficients: Any,
    capacities: Any,
    ends: Any,
    options: Sequence[Sequence[str]],
) -> list[Choice | None]:
    """The active constraints at each of the sizes; `None` where nothing fits, or the method does not converge.

    `coefficients` are those of the program's terms, `capacities` those of its memories, and `ends` the upper bounds of
    its coordinates (not finite: unbounded); each has one row per item and one column per size. A coordinate with a
    single option takes that one whatever is found.
    """
    import numpy as np

    count, sizes = len(monomials), coefficients.shape[1]
    steps = [combination(monomials, t.powers) for t in program.terms]
    parts = [len(program.transfers.terms), *(len(m.terms) for m, _ in program.memory)]
    if not count:
        return [((), ())] * sizes
    if any(s is None for s in steps) or 0 in parts:
        return [None] * sizes
    starts = np.cumsum([0, *parts[:-1]])
    exponents = np.array([[float(e) for e in s or ()] for s in steps], dtype=float).reshape(len(steps), count)
    with np.errstate(all="ignore"):
        logs = np.log(coefficients).T
        logs[:, parts[0] :] -= np.repeat(np.log(capacities).T, parts[1:], axis=1)
        tops = np.log(ends).T
    bounded = [i for i in range(count) if np.isfinite(tops[:, i]).any()]
    box = np.vstack([-np.eye(count), np.eye(count)[bounded]])
    limits = np.hstack([np.zeros((sizes, count)), tops[:, bounded]])
    good = np.isfinite(logs).all(axis=1) & np.isfinite(limits).all(axis=1)
    logs, limits = np.where(good[:, None], logs, 0.0), np.where(good[:, None], limits, 1.0)
    multipliers, slack, wrong = _solved(np, exponents, starts, logs, box, limits)
    memories, binds, clear = len(parts) - 1, multipliers > slack, good & (wrong < _TOLERANCE)
    found: list[Choice | None] = []
    for row in range(sizes):
        if not clear[row]:
            found.append(None)
            continue
        status = [ONE if binds[row, memories + i] else FREE for i in range(count)]
        for place, i in enumerate(bounded):
            if binds[row, memories + count + place]:
                status[i] = BOUND
        full = tuple(k for k in range(memories) if binds[row, k])
        found.append((tuple(o[0] if len(o) == 1 else h for o, h in zip(options, status, strict=True)), full))
    return found


def _solved(np: Any, exponents: Any, starts: Any, logs: Any, box: Any, limits: Any) -> tuple[Any, Any, Any]:
    """Multipliers and slacks of memories and of bounds, and the residual of the optimality conditions."""
    sizes, count = logs.shape[0], exponents.shape[1]
    squares = (exponents[:, :, None] * exponents[:, None, :]).reshape(len(exponents), count * count)
    memories = len(starts) - 1
    y, slack = _start(np, exponents, starts, logs, box, limits)
    multipliers = 1 / slack
    wrong = np.full(sizes, np.inf)
    spread = np.repeat(np.arange(len(starts)), np.diff([*starts, len(exponents)]))
    ends = np.broadcast_to(box, (sizes, *box.shape))
    for step in range(_STEPS + 1):
        powers = y @ exponents.T + logs
        highest = np.maximum.reduceat(powers, starts, axis=1)
        shares = np.exp(powers - highest[:, spread])
        totals = np.add.reduceat(shares, starts, axis=1)
        shares = shares / totals[:, spread]
        values = highest + np.log(totals)
        slopes = np.add.reduceat(shares[:, :, None] * exponents, starts, axis=1)
        bends = np.add.reduceat(shares[:, :, None] * squares, starts, axis=1).reshape(sizes, -1, count, count)
        bends = bends - slopes[:, :, :, None] * slopes[:, :, None, :]
        rows = np.concatenate([slopes[:, 1:], ends], axis=1)
        above = np.concatenate([values[:, 1:], y @ box.T - limits], axis=1)
        slope = slopes[:, 0] + np.einsum("sk,ski->si", multipliers, rows)
        over = above + slack
        wrong = np.maximum(abs(slope).max(axis=1, initial=0), abs(over).max(axis=1, initial=0))
        if step == _STEPS:
            break
        weights = multipliers / slack
        target = np.maximum(0.2 * (multipliers * slack).mean(axis=1, keepdims=True), _LEAST)
        bend = bends[:, 0] + np.einsum("sk,skij->sij", multipliers[:, :memories], bends[:, 1:])
        bend = bend + np.einsum("sk,ski,skj->sij", weights, rows, rows)
        trace = np.einsum("sii->s", bend)[:, None, None]
        bend = np.where(np.isfinite(trace), bend + 1e-13 * (1 + trace) * np.eye(count), np.eye(count))
        rest = target / slack - multipliers + weights * over
        move = np.linalg.solve(bend, (-slope - np.einsum("sk,ski->si", rest, rows))[:, :, None])[:, :, 0]
        along = np.einsum("ski,si->sk", rows, move)
        less, more = -over - along, rest + weights * along
        room = np.minimum(_length(np, slack, less), _length(np, multipliers, more))
        # The linearization of a term holds only while the term changes by a small factor.
        room = np.minimum(room, 1.5 / np.maximum(abs(move @ exponents.T).max(axis=1, initial=0), 1e-9)[:, None])
        # Where nothing fits, multipliers diverge: they are clipped, and the residual stays large.
        y = np.clip(np.nan_to_num(y + room * move), -50, 200)
        slack = np.clip(np.nan_to_num(slack + room * less), 1e-200, 1e50)
        multipliers = np.clip(np.nan_to_num(multipliers + room * more), 1e-200, 1e50)
    return multipliers, slack, wrong


def _start(np: Any, exponents: Any, starts: Any, logs: Any, box: Any, limits: Any) -> tuple[Any, Any]:
    """A starting point on the way to the upper bounds, with room in the memories if there is one, and its slacks."""
    sizes, count = logs.shape[0], exponents.shape[1]
    tops = np.full((sizes, count), 10.0)
    for place, row in enumerate(box[count:]):
        tops[:, int(row.argmax())] = np.minimum(20.0, limits[:, count + place])
    tops *= 1 - 0.03 * np.arange(count)  # a tile within another tile must be smaller
    y, open_ = tops * 2.0**-20, np.ones(sizes, dtype=bool)
    for part in (2.0**-k for k in range(1, 20)):
        powers = np.exp(np.minimum(part * tops @ exponents.T + logs, 300))
        fits = open_ & (np.add.reduceat(powers, starts, axis=1)[:, 1:] < 0.9).all(axis=1)
        y, open_ = np.where(fits[:, None], part * tops, y), open_ & ~fits
    powers = np.exp(np.minimum(y @ exponents.T + logs, 300))
    memory = np.log(np.maximum(np.add.reduceat(powers, starts, axis=1)[:, 1:], 1e-200))
    above = np.concatenate([memory, y @ box.T - limits], axis=1)
    return y, np.where(above < -1e-6, -above, 1.0)


def _length(np: Any, of: Any, step: Any) -> Any:
    """The step length that keeps positive quantities positive."""
    ratios = np.where(step < 0, -0.98 * of / np.minimum(step, -1e-100), 1.0)
    return np.minimum(1.0, ratios.min(axis=1, initial=1.0))[:, None]
