"""Softmax and its relatives, stabilised by the running maximum as they are written in practice.

>>> print(softmax)
softmax: [q x] → [q x]
"""

from __future__ import annotations

from catdiag.frontend import builder
from catdiag.frontend.elementwise import exp, log
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


@_entries.algorithm("q x -> q x")
def softmax(a: Traced) -> Traced:
    """Softmax along x: p[q,x] = e^(a[q,x] − m[q]) / Σ_x e^(a[q,x] − m[q]), with m[q] = max_x a[q,x].

    The same for every m; the largest keeps every exponent at most 0.
    """
    return builder.softmax(a, "x")


@_entries.algorithm("q x -> q")
def log_sum_exp(a: Traced) -> Traced:
    """The logarithm of a sum of exponentials: l[q] = m[q] + log Σ_x e^(a[q,x] − m[q]), with m[q] = max_x a[q,x]."""
    m = builder.max(a, "x")
    total: Traced = log(builder.sum(exp(a - m), "x"))
    return m + total


@_entries.algorithm("q x, x -> q")
def softmax_contraction(a: Traced, v: Traced) -> Traced:
    """A mean of v weighted by softmax: o[q] = Σ_x softmax_x(a)[q,x] · v[x]."""
    return builder.einsum("q x, x -> q", builder.softmax(a, "x"), v)


DIAGRAMS = _entries.table
