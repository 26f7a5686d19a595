"""A cross-entropy of smoothed labels, with a loss on the normaliser, streams over the classes."""

import catdiag as cd

left = cd.library.get("linear_cross_entropy_smoothed")
right = left.stream("v").group("t")
