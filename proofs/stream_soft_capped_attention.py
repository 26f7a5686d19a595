"""Attention with capped scores streams over the keys."""

import catdiag as cd

left = cd.library.get("soft_capped_attention")
right = left.stream("x").group("q")
