"""Causal attention streams over the keys; blocks that the mask empties change nothing."""

import catdiag as cd

left = cd.library.get("causal_attention")
right = left.stream("x").group("q")
