"""A linear layer streams together with the root mean square before it."""

import catdiag as cd

left = cd.library.get("rms_norm_linear")
right = left.stream("d").group("t o")
