"""Pooling by maxima runs in groups of its results."""

import catdiag as cd

left = cd.library.get("max_pool")
right = left.group("n y x c")
