"""A linear layer streams together with the mean and the deviation before it."""

import catdiag as cd

left = cd.library.get("layer_norm_linear")
right = left.stream("d").group("t o")
