"""Causal attention with a prefix streams over the keys."""

import catdiag as cd

left = cd.library.get("prefix_attention")
right = left.stream("x").group("q")
