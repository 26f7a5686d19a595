"""The largest element streams with its index: the first index is kept until a larger element comes."""

import catdiag as cd

left = cd.library.get("top_1")
right = left.stream("x").group("q")
