"""What is measured, of whom, at which sizes, and how the times grow."""

from __future__ import annotations

import math

LIBRARIES = ("ours", "discopy", "open_hypergraphs", "chyp", "pyzx")
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)


def exponent(points: list[tuple[int, float]]) -> float:
    """The slope of log seconds over log boxes, by least squares: 1 is linear growth, 2 quadratic."""
    xs, ys = [math.log(n) for n, _ in points], [math.log(max(t, 1e-9)) for _, t in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)
