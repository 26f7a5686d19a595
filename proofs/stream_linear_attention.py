"""Linear attention streams over the keys."""

import catdiag as cd

left = cd.library.get("linear_attention")
right = left.stream("x").group("q")
