"""A mean streams."""

import catdiag as cd

left = cd.library.get("mean")
right = left.stream("x").group("q")
