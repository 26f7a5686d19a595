"""A sum of squares streams."""

import catdiag as cd

left = cd.library.get("sum_of_squares")
right = left.stream("x").group("q")
