"""A softmax runs in two passes: the normaliser, then the results, tile by tile."""

import catdiag as cd

left = cd.library.get("softmax")
right = left.stream("x", passes=2).group("q")
