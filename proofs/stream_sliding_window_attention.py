"""Attention in a sliding window streams over the keys; a query's first blocks may be empty."""

import catdiag as cd

left = cd.library.get("sliding_window_attention")
right = left.stream("x").group("q")
