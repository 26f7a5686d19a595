"""A cross-entropy streams over the classes, and meets the label on the way."""

import catdiag as cd

left = cd.library.get("cross_entropy")
right = left.stream("v").group("t")
