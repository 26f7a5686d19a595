"""A root mean square norm runs in two passes: the square sum, then the results, tile by tile."""

import catdiag as cd

left = cd.library.get("rms_norm")
right = left.stream("d", passes=2).group("t")
