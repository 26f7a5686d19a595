"""Attention with one head of keys streams over them; a group holds the queries of all heads."""

import catdiag as cd

left = cd.library.get("multi_query_attention")
right = left.stream("x").group("b h q")
