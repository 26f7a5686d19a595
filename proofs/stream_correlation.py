"""A correlation streams in one pass, with five sums."""

import catdiag as cd

left = cd.library.get("correlation")
right = left.stream("x").group("q")
