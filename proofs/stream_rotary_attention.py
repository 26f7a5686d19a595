"""Attention with rotated positions streams over the keys, which are rotated in the loop."""

import catdiag as cd

left = cd.library.get("rotary_attention")
right = left.stream("x").group("q")
