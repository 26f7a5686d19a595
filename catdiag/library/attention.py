"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), and its variants over heads by weaving.

>>> print(grouped_query_attention)
grouped_query_attention: [b k r q d] @ [b k x d] @ [b k x d] → [b k r q d]
"""

from __future__ import annotations

from catdiag import build
from catdiag.diagram import Diagram
from catdiag.library.entry import Entries
from catdiag.scalars import sqrt
from catdiag.trace import Traced

_entries = Entries({})


@_entries.algorithm("q d, x d, x d -> q d")
def attention(Q: Traced, K: Traced, V: Traced) -> Traced:
    """Attention of queries q to keys x, with head dimension d.

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    S = build.einsum("q d, x d -> q x", Q, K) / sqrt(build.size("d"))
    return build.einsum("q x, x d -> q d", build.softmax(S, "x"), V)


def _titled(diagram: Diagram, title: str) -> Diagram:
    diagram.title = title
    return diagram


multi_head_attention = _entries.add(
    _titled(attention.weave("h").weave("b"), "multi_head_attention"),
    """Attention in each head h of each sequence b: `attention` weaved over h and b.

    S[b,h,q,x] = (Σ_d Q[b,h,q,d] · K[b,h,x,d]) / √d
    O[b,h,q,d] = Σ_x softmax_x(S)[b,h,q,x] · V[b,h,x,d]
    """,
)

grouped_query_attention = _entries.add(
    _titled(attention.weave("r", ["Q"]).weave("k").weave("b"), "grouped_query_attention"),
    """Attention in which r query heads share each of the k key-value heads (Ainslie et al. 2023, section 2.2).

    `attention` weaved over r for the queries only, then over k and b for all.

    S[b,k,r,q,x] = (Σ_d Q[b,k,r,q,d] · K[b,k,x,d]) / √d
    O[b,k,r,q,d] = Σ_x softmax_x(S)[b,k,r,q,x] · V[b,k,x,d]
    """,
)

DIAGRAMS = _entries.table
