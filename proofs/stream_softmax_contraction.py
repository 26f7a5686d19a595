"""A softmax that is contracted streams with a running maximum."""

import catdiag as cd

left = cd.library.get("softmax_contraction")
right = left.stream("x").group("q")
