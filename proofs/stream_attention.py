"""Attention streams over its keys, in groups of queries: FlashAttention."""

import catdiag as cd

left = cd.library.get("attention")
right = left.stream("x").group("q")
