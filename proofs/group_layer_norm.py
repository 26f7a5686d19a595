"""A LayerNorm runs in groups of rows."""

import catdiag as cd

left = cd.library.get("layer_norm")
right = left.group("t")
