"""Attention with a bias streams over the keys."""

import catdiag as cd

left = cd.library.get("biased_attention")
right = left.stream("x").group("q")
