"""Causal attention with a prefix leaves out the blocks of keys that are in neither."""

import catdiag as cd

left = cd.library.get("prefix_attention")
right = left.stream("x").group("q").skip("x")
