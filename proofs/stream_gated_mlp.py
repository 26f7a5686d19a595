"""A gated layer streams over its hidden axis."""

import catdiag as cd

left = cd.library.get("gated_mlp")
right = left.stream("f").group("t o")
