"""Statistics of an array along one axis.

>>> print(variance)
variance: [q x] → [q]
"""

from __future__ import annotations

from catdiag.frontend import builder
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


@_entries.algorithm("q x -> q")
def mean(a: Traced) -> Traced:
    """The mean along x: μ[q] = (Σ_x a[q,x]) / n, n the size of x."""
    return builder.mean(a, "x")


@_entries.algorithm("q x -> q")
def variance(a: Traced) -> Traced:
    """The variance along x: (Σ_x (a[q,x] − μ[q])²) / n, μ the mean and n the size of x."""
    return builder.mean((a - builder.mean(a, "x")) ** 2, "x")


@_entries.algorithm("q x -> q")
def sum_of_squares(a: Traced) -> Traced:
    """The sum of squares along x: Σ_x a[q,x]²."""
    return builder.sum(a * a, "x")


DIAGRAMS = _entries.table
