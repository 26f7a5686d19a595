"""Causal attention leaves out the blocks of keys that are later than all its queries."""

import catdiag as cd

left = cd.library.get("causal_attention")
right = left.stream("x").group("q").skip("x")
