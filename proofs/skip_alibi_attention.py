"""Causal attention with a penalty for distance leaves out the blocks of later keys."""

import catdiag as cd

left = cd.library.get("alibi_attention")
right = left.stream("x").group("q").skip("x")
