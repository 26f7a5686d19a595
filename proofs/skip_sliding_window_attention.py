"""Attention in a sliding window leaves out the blocks of keys on both sides of it."""

import catdiag as cd

left = cd.library.get("sliding_window_attention")
right = left.stream("x").group("q").skip("x")
