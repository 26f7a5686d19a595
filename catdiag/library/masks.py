"""Attention under masks and biases: what a query may attend to, by position, by document, or by an array.

A mask is an array of truth values over queries q and keys x; masks combine by `&`, `|` and `~`, and `masked` puts
minus infinity where one is false. A row with nothing to attend to has no softmax: `attend_or_zero` gives it 0.

>>> print(masked_attention)
masked_attention: [q d] @ [x d] @ [x d] @ bool[q x] → [q d]
"""

from __future__ import annotations

from catdiag import build
from catdiag.functions import inf
from catdiag.indexing import gather
from catdiag.library.attention import attend, scores
from catdiag.library.entry import Entries
from catdiag.scalars import clip, tanh, where
from catdiag.trace import Traced

_entries = Entries({})


# -- masks and biases ------------------------------------------------------------------------------


def masked(S: Traced, mask: Traced) -> Traced:
    """The scores, and minus infinity where the mask is false."""
    return where(mask, S, -inf)


def attend_or_zero(S: Traced, V: Traced, mask: Traced) -> Traced:
    """`attend` under a mask, and 0 for a query that may attend to nothing."""
    return where(build.any(mask, "x"), attend(masked(S, mask), V), 0)


# -- by what is given ------------------------------------------------------------------------------


@_entries.algorithm("q d, x d, x d, bool[q x] -> q d")
def masked_attention(Q: Traced, K: Traced, V: Traced, mask: Traced) -> Traced:
    """Attention under a mask that is given; 0 for a query that may attend to nothing.

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d where mask[q,x], else −∞
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d] if one x has mask[q,x], else 0
    """
    return attend_or_zero(scores(Q, K), V, mask)


@_entries.algorithm("q d, x d, x d, q x -> q d")
def biased_attention(Q: Traced, K: Traced, V: Traced, B: Traced) -> Traced:
    """Attention with a bias added to the scores, such as that of relative positions in images (Liu et al. 2021).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d + B[q,x]
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(scores(Q, K) + B, V)


# -- biases by position, and capped scores ---------------------------------------------------------


@_entries.algorithm("q d, x d, x d, r -> q d")
def relative_position_attention(Q: Traced, K: Traced, V: Traced, table: Traced) -> Traced:
    """Attention with a bias for each clipped distance, of a table of r (Raffel et al. 2020, section 2.1).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d + table[min(max(x − q + ⌊r/2⌋, 0), r − 1)]
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    distance = build.index("x") - build.index("q") + build.size("r") // 2
    return attend(scores(Q, K) + gather(table, "r", clip(distance, 0, build.size("r") - 1)), V)


@_entries.algorithm("q d, x d, x d, -> q d")
def soft_capped_attention(Q: Traced, K: Traced, V: Traced, cap: Traced) -> Traced:
    """Attention whose scores are kept between −cap and cap by a hyperbolic tangent (Gemma 2, 2024, section 2).

    S[q,x] = cap · tanh((Σ_d Q[q,d] · K[x,d]) / √d / cap)
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(cap * tanh(scores(Q, K) / cap), V)


DIAGRAMS = _entries.table
