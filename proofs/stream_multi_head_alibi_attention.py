"""Causal attention with a penalty for distance streams in heads of their own slopes."""

import catdiag as cd

left = cd.library.get("multi_head_alibi_attention")
right = left.stream("x").group("h q")
