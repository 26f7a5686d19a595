"""Attention under a mask leaves out the blocks of keys that the mask empties."""

import catdiag as cd

left = cd.library.get("masked_attention")
right = left.stream("x").group("q").skip("x")
