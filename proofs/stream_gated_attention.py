"""Attention with a pair bias and a gate streams over the keys, in groups of heads and queries."""

import catdiag as cd

left = cd.library.get("gated_attention")
right = left.stream("x").group("h q")
