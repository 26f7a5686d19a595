"""Causal attention with a penalty for distance streams over the keys."""

import catdiag as cd

left = cd.library.get("alibi_attention")
right = left.stream("x").group("q")
