"""Attention by a polynomial of degree two streams over the keys."""

import catdiag as cd

left = cd.library.get("taylor_attention")
right = left.stream("x").group("q")
