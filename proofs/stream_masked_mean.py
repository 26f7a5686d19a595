"""A mean of what a mask keeps streams; a row that keeps nothing gives 0."""

import catdiag as cd

left = cd.library.get("masked_mean")
right = left.stream("x").group("q")
