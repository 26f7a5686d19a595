"""A cross-entropy that ignores a label streams over the classes."""

import catdiag as cd

left = cd.library.get("linear_cross_entropy_ignoring")
right = left.stream("v").group("t")
