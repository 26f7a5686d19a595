"""The numeric optimum of a posynomial program in the logarithms of tiles, where it is convex.

A barrier method with Newton steps (Boyd and Vandenberghe, *Convex Optimization*, 2004, sections 11.3 and 11.4). Nothing
here is trusted: `catdiag.optimum.dual_bound` turns the result into a bound and a feasible point that are checked
exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class LogSum:
    """`log sum_i exp(b_i + A_i . x)`."""

    exponents: Array
    logs: Array

    def parts(self, x: Array) -> tuple[float, Array, Array, Array]:
        """The value, the shares of the terms (softmax), the gradient and the Hessian."""
        z = self.exponents @ x + self.logs
        top = z.max()
        weights = np.exp(z - top)
        total = weights.sum()
        shares = weights / total
        slope = shares @ self.exponents
        curve = self.exponents.T @ (shares[:, None] * self.exponents) - np.outer(slope, slope)
        return top + np.log(total), shares, slope, curve

    def value(self, x: Array) -> float:
        """The value alone."""
        z = self.exponents @ x + self.logs
        top = z.max()
        return float(top + np.log(np.exp(z - top).sum()))


@dataclass(frozen=True)
class ConvexOptimum:
    """A strictly feasible point, and the multipliers of the constraints and of the lower and upper bounds of `x`."""

    x: Array
    constraints: Array
    lower: Array
    upper: Array


def solve(objective: LogSum, constraints: Sequence[LogSum], upper: Array) -> ConvexOptimum | None:
    """Minimizes `objective` with each constraint at most zero and `0 <= x <= upper` (infinite: unbounded), to a duality
    gap of 1e-10. `None` where no strictly feasible point is found."""
    size = len(upper)
    finite = np.isfinite(upper)
    x = np.where(finite, np.minimum(1e-3, np.where(finite, upper, 1.0) / 4), 1e-3)
    start = _inside(constraints, upper, x)
    if start is None:
        return None
    x, count, weight = start, len(constraints) + size + int(finite.sum()), 1.0
    while True:
        x = _centered(objective, constraints, upper, x, weight)
        if count / weight < 1e-10:
            break
        weight *= 8.0
    slack = np.array([-c.value(x) for c in constraints])
    room = np.where(finite, upper - x, np.inf)
    return ConvexOptimum(x, 1 / (weight * slack), 1 / (weight * x), 1 / (weight * room))


def _inside(constraints: Sequence[LogSum], upper: Array, x: Array) -> Array | None:
    """A strictly feasible point (phase I): minimizes the largest constraint, with one more unknown."""
    worst = max((c.value(x) for c in constraints), default=-1.0)
    if worst < 0:
        return x
    size = len(upper)
    # Phase I (Boyd and Vandenberghe, section 11.4): one more unknown u, a bound on all shifted constraints.
    shift = worst + 1.0
    widened = [LogSum(np.hstack([c.exponents, -np.ones((len(c.logs), 1))]), c.logs + shift) for c in constraints]
    aim = LogSum(np.hstack([np.zeros((1, size)), np.ones((1, 1))]), np.zeros(1))
    # A variable that only relaxes constraints would diverge without a bound.
    ends = np.append(np.where(np.isfinite(upper), upper, 200.0), np.inf)
    # The constraint is c(x) + shift - u <= 0 with u >= 0: feasible at u > worst + shift; c(x) < 0 where u < shift.
    point, weight = np.append(x, worst + shift + 1.0), 1.0
    while weight < 1e9:
        point = _centered(aim, widened, ends, point, weight)
        if max(c.value(point[:size]) for c in constraints) < 0:
            return point[:size]
        weight *= 8.0
    return None


def _centered(objective: LogSum, constraints: Sequence[LogSum], upper: Array, x: Array, weight: float) -> Array:
    """The minimum of `weight * objective` plus the logarithmic barrier, from a strictly feasible point."""
    finite = np.isfinite(upper)

    def barrier(point: Array) -> float:
        if (point <= 0).any() or (point[finite] >= upper[finite]).any():
            return np.inf
        values = np.array([c.value(point) for c in constraints])
        if (values >= 0).any():
            return np.inf
        total = weight * objective.value(point) - np.log(point).sum() - np.log(upper[finite] - point[finite]).sum()
        return float(total - np.log(-values).sum())

    at = barrier(x)
    for _ in range(80):
        _, _, slope, curve = objective.parts(x)
        gradient, hessian = weight * slope, weight * curve
        for c in constraints:
            value, _, inner, bend = c.parts(x)
            gradient = gradient - inner / value
            hessian = hessian + np.outer(inner, inner) / value**2 - bend / value
        room = np.where(finite, upper - x, np.inf)
        gradient = gradient - 1 / x + 1 / room
        hessian = hessian + np.diag(1 / x**2 + 1 / room**2)
        scale = 1 / np.sqrt(np.diag(hessian))
        step = -scale * np.linalg.lstsq(hessian * np.outer(scale, scale), gradient * scale, rcond=None)[0]
        decrement = float(-gradient @ step)
        if not decrement > 1e-12:
            break
        length = 1.0
        while length > 1e-12 and not barrier(x + length * step) <= at - 0.1 * length * decrement:
            length /= 2
        if length <= 1e-12:
            break
        x = x + length * step
        at = barrier(x)
    return x
