"""A cross-entropy with a target for each class streams over the classes."""

import catdiag as cd

left = cd.library.get("soft_cross_entropy")
right = left.stream("v").group("t")
