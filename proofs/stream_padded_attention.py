"""Attention to a padded sequence streams over the keys; an empty one gives 0."""

import catdiag as cd

left = cd.library.get("padded_attention")
right = left.stream("x").group("q")
