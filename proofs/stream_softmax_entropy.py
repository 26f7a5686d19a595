"""The entropy of a softmax streams: two sums, both with a repair."""

import catdiag as cd

left = cd.library.get("softmax_entropy")
right = left.stream("v").group("t")
