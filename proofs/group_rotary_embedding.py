"""Positions are rotated in groups."""

import catdiag as cd

left = cd.library.get("rotary_embedding")
right = left.group("x")
