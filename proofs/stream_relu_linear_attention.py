"""Linear attention with positive parts as features streams over the keys."""

import catdiag as cd

left = cd.library.get("relu_linear_attention")
right = left.stream("x").group("q")
