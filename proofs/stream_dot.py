"""A dot product streams."""

import catdiag as cd

left = cd.library.get("dot")
right = left.stream("x")
