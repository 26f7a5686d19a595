"""Causal linear attention streams over the keys."""

import catdiag as cd

left = cd.library.get("causal_linear_attention")
right = left.stream("x").group("q")
