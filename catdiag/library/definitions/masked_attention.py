"""Attention under masks and biases: what a query may attend to, by position, by document, or by an array.

A mask is an array of truth values over queries q and keys x; masks combine by `&`, `|` and `~`, and `masked` puts
minus infinity where one is false. A row with nothing to attend to has no softmax: `attend_or_zero` gives it 0.

>>> print(sliding_window_attention)
sliding_window_attention: [q d] @ [x d] @ [x d] @ int[] → [q d]
"""

from __future__ import annotations

from catdiag.category.functor import weave
from catdiag.frontend import builder
from catdiag.frontend.elementwise import clip, tanh, where
from catdiag.frontend.indexing import gather
from catdiag.frontend.nn import inf
from catdiag.frontend.tracing import Traced
from catdiag.library.definitions.attention import attend, scores, titled
from catdiag.library.definitions.registry import Entries

_entries = Entries({})


# -- masks and biases ------------------------------------------------------------------------------


def causal() -> Traced:
    """Keys that are not later than the query: x ≤ q."""
    return builder.index("x") <= builder.index("q")


def near(width: Traced | int) -> Traced:
    """Keys fewer than `width` positions before the query, and all later ones: q − x < width."""
    return builder.index("q") - builder.index("x") < width


def before(length: Traced | int) -> Traced:
    """The first keys: x < length."""
    return builder.index("x") < length


def masked(S: Traced, mask: Traced) -> Traced:
    """The scores, and minus infinity where the mask is false."""
    return where(mask, S, -inf)


def attend_or_zero(S: Traced, V: Traced, mask: Traced) -> Traced:
    """`attend` under a mask, and 0 for a query that may attend to nothing."""
    return where(builder.any(mask, "x"), attend(masked(S, mask), V), 0)


# -- by position -----------------------------------------------------------------------------------


@_entries.algorithm("q d, x d, x d -> q d")
def causal_attention(Q: Traced, K: Traced, V: Traced) -> Traced:
    """Attention to keys that are not later than the query (Vaswani et al. 2017, section 3.2.3).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d where x ≤ q, else −∞
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(masked(scores(Q, K), causal()), V)


causal_grouped_query_attention = _entries.add(
    titled(weave(weave(weave(causal_attention, "r", ["Q"]), "k"), "b"), "causal_grouped_query_attention"),
    """`causal_attention` in which r query heads share each of the k key-value heads, for each sequence b.

    S[b,k,r,q,x] = (Σ_d Q[b,k,r,q,d] · K[b,k,x,d]) / √d where x ≤ q, else −∞
    O[b,k,r,q,d] = Σ_x softmax_x(S)[b,k,r,q,x] · V[b,k,x,d]
    """,
)


@_entries.algorithm("q d, x d, x d, int[] -> q d")
def continued_causal_attention(Q: Traced, K: Traced, V: Traced, start: Traced) -> Traced:
    """Causal attention of queries that begin at position `start` of the keys: a chunk of a prompt, or its next token.

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d where x ≤ start + q, else −∞
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(masked(scores(Q, K), builder.index("x") <= start + builder.index("q")), V)


@_entries.algorithm("q d, x d, x d, int[] -> q d")
def sliding_window_attention(Q: Traced, K: Traced, V: Traced, width: Traced) -> Traced:
    """Causal attention to the last `width` keys only (Beltagy, Peters and Cohan 2020, section 3.1, one-sided).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d where q − width < x ≤ q, else −∞
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(masked(scores(Q, K), causal() & near(width)), V)


@_entries.algorithm("q d, x d, x d, int[], int[] -> q d")
def window_and_first_attention(Q: Traced, K: Traced, V: Traced, width: Traced, first: Traced) -> Traced:
    """Causal attention to the last `width` keys and to the `first` ones (Xiao et al. 2024, attention sinks).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d where x ≤ q and (q − width < x or x < first), else −∞
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(masked(scores(Q, K), causal() & (near(width) | before(first))), V)


@_entries.algorithm("q d, x d, x d, int[] -> q d")
def prefix_attention(Q: Traced, K: Traced, V: Traced, prefix: Traced) -> Traced:
    """Causal attention, in which all see the whole prefix (Raffel et al. 2020, section 3.2, prefix language models).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d where x ≤ q or x < prefix, else −∞
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(masked(scores(Q, K), causal() | before(prefix)), V)


@_entries.algorithm("q d, x d, x d, int[] -> q d")
def padded_attention(Q: Traced, K: Traced, V: Traced, length: Traced) -> Traced:
    """Attention to the first `length` keys of a padded sequence; 0 where the sequence is empty.

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d where x < length, else −∞
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d] if length > 0, else 0
    """
    return attend_or_zero(scores(Q, K), V, before(length))


# -- by what is given ------------------------------------------------------------------------------


@_entries.algorithm("q d, x d, x d, int[q], int[x] -> q d")
def document_attention(Q: Traced, K: Traced, V: Traced, of_query: Traced, of_key: Traced) -> Traced:
    """Causal attention within documents that are packed into one sequence; 0 for a query whose document has no key.

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d where x ≤ q and of_query[q] = of_key[x], else −∞
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d] if one such x is there, else 0
    """
    return attend_or_zero(scores(Q, K), V, causal() & (of_query == of_key))


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


@_entries.algorithm("q d, x d, x d, -> q d")
def alibi_attention(Q: Traced, K: Traced, V: Traced, slope: Traced) -> Traced:
    """Causal attention with a penalty that is linear in the distance (ALiBi; Press, Smith and Lewis 2022, section 3).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d − slope · (q − x) where x ≤ q, else −∞
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(masked(scores(Q, K) - slope * (builder.index("q") - builder.index("x")), causal()), V)


multi_head_alibi_attention = _entries.add(
    titled(weave(alibi_attention, "h"), "multi_head_alibi_attention"),
    """`alibi_attention` in heads, each with a slope of its own.

    S[h,q,x] = (Σ_d Q[h,q,d] · K[h,x,d]) / √d − slope[h] · (q − x) where x ≤ q, else −∞
    O[h,q,d] = Σ_x softmax_x(S)[h,q,x] · V[h,x,d]
    """,
)


@_entries.algorithm("q d, x d, x d, r -> q d")
def relative_position_attention(Q: Traced, K: Traced, V: Traced, table: Traced) -> Traced:
    """Attention with a bias for each clipped distance, of a table of r (Raffel et al. 2020, section 2.1).

    S[q,x] = (Σ_d Q[q,d] · K[x,d]) / √d + table[min(max(x − q + ⌊r/2⌋, 0), r − 1)]
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    distance = builder.index("x") - builder.index("q") + builder.size("r") // 2
    return attend(scores(Q, K) + gather(table, "r", clip(distance, 0, builder.size("r") - 1)), V)


@_entries.algorithm("q d, x d, x d, -> q d")
def soft_capped_attention(Q: Traced, K: Traced, V: Traced, cap: Traced) -> Traced:
    """Attention whose scores are kept between −cap and cap by a hyperbolic tangent (Gemma 2, 2024, section 2).

    S[q,x] = cap · tanh((Σ_d Q[q,d] · K[x,d]) / √d / cap)
    O[q,d] = Σ_x softmax_x(S)[q,x] · V[x,d]
    """
    return attend(cap * tanh(scores(Q, K) / cap), V)


DIAGRAMS = _entries.table
