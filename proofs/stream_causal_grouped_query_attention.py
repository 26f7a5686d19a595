"""Causal attention streams over the keys; a group holds the queries of all heads that share them."""

import catdiag as cd

left = cd.library.get("causal_grouped_query_attention")
right = left.stream("x").group("b k r q")
