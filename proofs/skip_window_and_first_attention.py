"""Attention in a sliding window and to the first keys leaves out the blocks between."""

import catdiag as cd

left = cd.library.get("window_and_first_attention")
right = left.stream("x").group("q").skip("x")
