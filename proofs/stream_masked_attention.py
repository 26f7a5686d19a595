"""Attention under a mask streams over the keys; a query that may attend to nothing gives 0."""

import catdiag as cd

left = cd.library.get("masked_attention")
right = left.stream("x").group("q")
