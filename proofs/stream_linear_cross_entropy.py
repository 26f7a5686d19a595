"""A cross-entropy streams over the classes: the logits of no row are all there at once."""

import catdiag as cd

left = cd.library.get("linear_cross_entropy")
right = left.stream("v").group("t")
