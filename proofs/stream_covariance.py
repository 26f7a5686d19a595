"""A covariance streams in one pass."""

import catdiag as cd

left = cd.library.get("covariance")
right = left.stream("x").group("q")
