"""Causal attention of later queries leaves out the blocks of keys that are later than all of them."""

import catdiag as cd

left = cd.library.get("continued_causal_attention")
right = left.stream("x").group("q").skip("x")
