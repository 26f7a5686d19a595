"""A LayerNorm runs in two passes: mean and deviation, then the results, tile by tile."""

import catdiag as cd

left = cd.library.get("layer_norm")
right = left.stream("d", passes=2).group("t")
