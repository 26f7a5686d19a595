"""A layer gated by gelu streams over its hidden axis."""

import catdiag as cd

left = cd.library.get("gelu_gated_mlp")
right = left.stream("f").group("t o")
