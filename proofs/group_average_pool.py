"""Pooling by means runs in groups of its results."""

import catdiag as cd

left = cd.library.get("average_pool")
right = left.group("n y x c")
