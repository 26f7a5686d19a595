"""Attention in heads streams over the keys, in groups of sequences, heads and queries."""

import catdiag as cd

left = cd.library.get("multi_head_attention")
right = left.stream("x").group("b h q")
