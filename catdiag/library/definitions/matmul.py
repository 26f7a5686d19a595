"""Products of matrices.

>>> print(matmul)
matmul: [a b] @ [b c] → [a c]
"""

from __future__ import annotations

from catdiag.frontend.builder import einsum
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


@_entries.algorithm("a b, b c -> a c")
def matmul(A: Traced, B: Traced) -> Traced:
    """The product of two matrices: C[a,c] = Σ_b A[a,b] · B[b,c]."""
    return einsum("a b, b c -> a c", A, B)


@_entries.algorithm("a b, b -> a")
def matvec(A: Traced, v: Traced) -> Traced:
    """A matrix times a vector: w[a] = Σ_b A[a,b] · v[b]."""
    return einsum("a b, b -> a", A, v)


@_entries.algorithm("x, x -> ")
def dot(a: Traced, b: Traced) -> Traced:
    """The inner product of two vectors: Σ_x a[x] · b[x]."""
    return einsum("x, x ->", a, b)


DIAGRAMS = _entries.table
