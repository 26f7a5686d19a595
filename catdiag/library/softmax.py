"""Softmax and its relatives, stabilised by the running maximum as they are written in practice.

>>> print(softmax)
softmax: [q x] → [q x]
"""

from __future__ import annotations

from catdiag import build
from catdiag.library.entry import Entries
from catdiag.scalars import exp, log
from catdiag.trace import Traced

_entries = Entries({})


@_entries.algorithm("q x -> q x")
def softmax(a: Traced) -> Traced:
    """Softmax along x: p[q,x] = e^(a[q,x] − m[q]) / Σ_x e^(a[q,x] − m[q]), with m[q] = max_x a[q,x].

    The same for every m; the largest keeps every exponent at most 0.
    """
    return build.softmax(a, "x")


@_entries.algorithm("q x -> q")
def log_sum_exp(a: Traced) -> Traced:
    """The logarithm of a sum of exponentials: l[q] = m[q] + log Σ_x e^(a[q,x] − m[q]), with m[q] = max_x a[q,x]."""
    m = build.max(a, "x")
    total: Traced = log(build.sum(exp(a - m), "x"))
    return m + total


@_entries.algorithm("q x, x -> q")
def softmax_contraction(a: Traced, v: Traced) -> Traced:
    """A mean of v weighted by softmax: o[q] = Σ_x softmax_x(a)[q,x] · v[x]."""
    return build.einsum("q x, x -> q", build.softmax(a, "x"), v)


DIAGRAMS = _entries.table
