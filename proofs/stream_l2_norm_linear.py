"""A linear layer streams together with the L2 norm before it."""

import catdiag as cd

left = cd.library.get("l2_norm_linear")
right = left.stream("d").group("t o")
