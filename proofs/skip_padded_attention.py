"""Attention to a padded sequence leaves out the blocks of padding."""

import catdiag as cd

left = cd.library.get("padded_attention")
right = left.stream("x").group("q").skip("x")
