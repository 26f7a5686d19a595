"""Attention by sigmoids streams with nothing to repair."""

import catdiag as cd

left = cd.library.get("sigmoid_attention")
right = left.stream("x").group("q")
