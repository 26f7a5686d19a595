"""Attention by cosines streams over the keys."""

import catdiag as cd

left = cd.library.get("qk_norm_attention")
right = left.stream("x").group("q")
