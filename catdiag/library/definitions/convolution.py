"""Convolutions and pooling: sums and maxima over windows.

>>> print(conv2d)
conv2d: [n h w c] @ [i j c o] → [n y x o]
"""

from __future__ import annotations

from catdiag.frontend import builder
from catdiag.frontend.indexing import window
from catdiag.frontend.reshape import rearrange
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


@_entries.algorithm("n x c, k c o -> n y o")
def conv1d(a: Traced, w: Traced) -> Traced:
    """The convolution of sequences with channels c, without padding: O[n,y,o] = Σ_k,c a[n,y+k,c] · w[k,c,o]."""
    return builder.einsum("n y k c, k c o -> n y o", window(a, "x", "y k"), w)


@_entries.algorithm("n x c, k c o -> n y o")
def im2col(a: Traced, w: Traced) -> Traced:
    """`conv1d` as one matrix product over windows laid out as rows (k c).

    P[n,y,(k c)] = a[n,y+k,c]
    O[n,y,o] = Σ_(k c) P[n,y,(k c)] · w[(k c),o]
    """
    patches = rearrange(window(a, "x", "y k"), "n y k c -> n y (k c)")
    return builder.einsum("n y (k c), (k c) o -> n y o", patches, rearrange(w, "k c o -> (k c) o"))


@_entries.algorithm("n h w c, i j c o -> n y x o")
def conv2d(a: Traced, f: Traced) -> Traced:
    """The convolution of images with channels c, without padding: O[n,y,x,o] = Σ_i,j,c a[n,y+i,x+j,c] · f[i,j,c,o]."""
    patches = window(window(a, "h", "y i"), "w", "x j")
    return builder.einsum("n y i x j c, i j c o -> n y x o", patches, f)


@_entries.algorithm("n h w c -> n y x c")
def max_pool(a: Traced) -> Traced:
    """The largest of each two by two elements: O[n,y,x,c] = max_i,j<2 a[n,2·y+i,2·x+j,c]."""
    return builder.max(window(window(a, "h", "y i=2", stride=2), "w", "x j=2", stride=2), "i j")


@_entries.algorithm("n h w c -> n y x c")
def average_pool(a: Traced) -> Traced:
    """The mean of each two by two elements: O[n,y,x,c] = (Σ_i,j<2 a[n,2·y+i,2·x+j,c]) / 4."""
    return builder.mean(window(window(a, "h", "y i=2", stride=2), "w", "x j=2", stride=2), "i j")


DIAGRAMS = _entries.table
