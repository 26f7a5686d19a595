"""Attention in a sliding window and to the first keys streams over the keys."""

import catdiag as cd

left = cd.library.get("window_and_first_attention")
right = left.stream("x").group("q")
