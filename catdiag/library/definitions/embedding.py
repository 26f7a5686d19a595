"""Embeddings: of tokens by a table, of positions by rotation.

>>> print(embedding)
embedding: [v d] @ int[t] → [t d]
"""

from __future__ import annotations

from catdiag.frontend.builder import index
from catdiag.frontend.elementwise import where
from catdiag.frontend.indexing import gather, reverse
from catdiag.frontend.reshape import rearrange
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


@_entries.algorithm("v d, int[t] -> t d")
def embedding(table: Traced, tokens: Traced) -> Traced:
    """The rows of a table that tokens name: E[t,d] = table[tokens[t],d]."""
    return gather(table, "v", tokens)


@_entries.algorithm("x (2 d), x d, x d -> x (2 d)")
def rotary_embedding(a: Traced, cos: Traced, sin: Traced) -> Traced:
    """Pairs (a[x,d], a[x,n+d]) rotated by the angle of position x (Su et al. 2021, section 3.4.2, halves as pairs).

    The array has n pairs; cos and sin are those of the angles.

    O[x,d]   = a[x,d] · cos[x,d] − a[x,n+d] · sin[x,d]
    O[x,n+d] = a[x,n+d] · cos[x,d] + a[x,d] · sin[x,d]
    """
    halves = rearrange(a, "x (2 d) -> x 2 d")
    sign = where(index("2") < 1, -1, 1)
    return rearrange(halves * cos + sign * reverse(halves, "2") * sin, "x 2 d -> x (2 d)")


DIAGRAMS = _entries.table
