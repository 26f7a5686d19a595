"""Attention divided by an L2 norm streams: the norm is applied at the end."""

import catdiag as cd

left = cd.library.get("spherical_attention")
right = left.stream("x").group("q")
