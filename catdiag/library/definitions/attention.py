"""Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1), and its variants over heads by weaving.

>>> print(grouped_query_attention)
grouped_query_attention: [b k r q d] @ [b k x d] @ [b k x d] → [b k r q d]
"""

from __future__ import annotations

from catdiag.category.diagram import Diagram
from catdiag.category.functor import weave
from catdiag.frontend import builder
from catdiag.frontend.elementwise import sqrt
from catdiag.frontend.nn import logsumexp
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


def scores(Q: Traced, K: Traced) -> Traced:
    """The inner products of queries and keys, scaled: S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d."""
    S: Traced = builder.einsum("q d, x d -> q x", Q, K) / sqrt(builder.size("d"))
    return S


def attend(S: Traced, V: Traced) -> Traced:
    """The mean of the values, weighted by the softmax of the scores: O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]."""
    return builder.einsum("q x, x d -> q d", builder.softmax(S, "x"), V)


@_entries.algorithm("q d, x d, x d -> q d")
def attention(Q: Traced, K: Traced, V: Traced) -> Traced:
    """Attention of queries q to keys x, with head dimension d.

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(scores(Q, K), V)


def titled(diagram: Diagram, title: str) -> Diagram:
    """The diagram under a name."""
    diagram.title = title
    return diagram


multi_head_attention = _entries.add(
    titled(weave(weave(attention, "h"), "b"), "multi_head_attention"),
    """Attention in each head h of each sequence b: `attention` weaved over h and b.

    S[b,h,q,x] = (Σ_d Q[b,h,q,d] · K[b,h,x,d]) / √d
    O[b,h,q,d] = Σ_x softmax_x(S)[b,h,q,x] · V[b,h,x,d]
    """,
)

multi_query_attention = _entries.add(
    titled(weave(weave(attention, "h", ["Q"]), "b"), "multi_query_attention"),
    """Attention in which all heads h share one head of keys and values (Shazeer 2019, "Fast Transformer Decoding").

    `attention` weaved over h for the queries only, then over b for all.

    S[b,h,q,x] = (Σ_d Q[b,h,q,d] · K[b,x,d]) / √d
    O[b,h,q,d] = Σ_x softmax_x(S)[b,h,q,x] · V[b,x,d]
    """,
)

grouped_query_attention = _entries.add(
    titled(weave(weave(weave(attention, "r", ["Q"]), "k"), "b"), "grouped_query_attention"),
    """Attention in which r query heads share each of the k key-value heads (Ainslie et al. 2023, section 2.2).

    `attention` weaved over r for the queries only, then over k and b for all.

    S[b,k,r,q,x] = (Σ_d Q[b,k,r,q,d] · K[b,k,x,d]) / √d
    O[b,k,r,q,d] = Σ_x softmax_x(S)[b,k,r,q,x] · V[b,k,x,d]
    """,
)


@_entries.algorithm("b k r d, b k x d, b k x d -> b k r d")
def decoding_attention(Q: Traced, K: Traced, V: Traced) -> Traced:
    """A step of decoding: one query in each head, and the cached keys x; r query heads share a key-value head k.

    Grouped-query attention of a single query, the form that reads the cache once (Pope et al. 2022, section 3.3).

    S[b,k,r,x] = (Σ_d Q[b,k,r,d] · K[b,k,x,d]) / √d
    O[b,k,r,d] = Σ_x softmax_x(S)[b,k,r,x] · V[b,k,x,d]
    """
    S = builder.einsum("b k r d, b k x d -> b k r x", Q, K) / sqrt(builder.size("d"))
    return builder.einsum("b k r x, b k x d -> b k r d", builder.softmax(S, "x"), V)


@_entries.algorithm("q d, x d, x d -> q d, q")
def attention_with_log_sum_exp(Q: Traced, K: Traced, V: Traced) -> tuple[Traced, Traced]:
    """Attention and the logarithm of its normaliser, which is what parts of it are merged by.

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    l[q]   = log Σ_x e^S[q,x]
    """
    S = scores(Q, K)
    return attend(S, V), logsumexp(S, "x")


DIAGRAMS = _entries.table
