"""Causal attention of later queries streams over the keys."""

import catdiag as cd

left = cd.library.get("continued_causal_attention")
right = left.stream("x").group("q")
