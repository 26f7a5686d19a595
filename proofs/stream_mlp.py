"""A layer of two products streams over its hidden axis."""

import catdiag as cd

left = cd.library.get("mlp")
right = left.stream("f").group("t o")
