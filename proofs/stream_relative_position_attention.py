"""Attention with a bias for each distance streams over the keys."""

import catdiag as cd

left = cd.library.get("relative_position_attention")
right = left.stream("x").group("q")
